"""Lines of text as bytes: where a line ends, and the tokens on it."""

import re
from functools import cache

BLANKS = b" \t\r"
"""Separators of tokens unless a layer declares others."""


@cache
def token_pattern(blanks: bytes) -> re.Pattern[bytes]:
    """Blanks, then a token as the group; a CR that is no blank is a byte of the token unless the line ends there."""
    stray = rb"" if b"\r" in blanks else rb"|\r(?!\n|\Z)"
    characters = re.escape(blanks) + rb"\r\n"
    return re.compile(rb"[%s]*((?:[^%s]%s)*)" % (re.escape(blanks), characters, stray))


def line_stop(data: bytes, position: int, end: int) -> int:
    """Where the line at ``position`` ends: at its LF, or where the frame ends."""
    stop = data.find(b"\n", position, end)
    return end if stop < 0 else stop


def tokens_left(data: bytes, position: int, end: int, blanks: bytes) -> int:
    """Return the number of tokens left on the line."""
    stop, count, match = line_stop(data, position, end), 0, token_pattern(blanks).match
    while (found := match(data, position, stop)) and found[1]:
        position, count = found.end(), count + 1
    return count


def next_token(data: bytes, position: int, end: int, blanks: bytes) -> bytes:
    """The token that comes next on the line; empty where there is none."""
    found = token_pattern(blanks).match(data, position, line_stop(data, position, end))
    return found[1] if found else b""
