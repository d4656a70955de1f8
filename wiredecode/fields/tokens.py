"""Lines of text as bytes: where a line ends, and the tokens on it."""

import re
from functools import cache

BLANKS = b" \t\r"
"""Separators of tokens unless a layer declares others."""


@cache
def token_pattern(blanks: bytes, least: int = 0) -> re.Pattern[bytes]:
    """Blanks, then a token as the group; a CR that is no blank is a byte of the token unless the line ends there.

    ``least``: of both, 0 or 1.
    """
    stray = rb"" if b"\r" in blanks else rb"|\r(?!\n|\Z)"
    characters, times = re.escape(blanks) + rb"\r\n", b"*+"[least : least + 1]
    return re.compile(rb"[%s]%s((?:[^%s]+%s)%s)" % (re.escape(blanks), times, characters, stray, times))


@cache
def number_pattern(blanks: bytes, digits: int) -> re.Pattern[bytes]:
    """:func:`token_pattern` for a token of at most ``digits`` decimal digits."""
    return re.compile(rb"[%s]+([0-9]{1,%d})(?=[%s\n]|\r?\Z|\r\n)" % (re.escape(blanks), digits, re.escape(blanks)))


def line_stop(data: bytes, position: int, end: int) -> int:
    """Where the line at ``position`` ends: at its LF, or where the frame ends."""
    stop = data.find(b"\n", position, end)
    return end if stop < 0 else stop


def tokens_left(data: bytes, position: int, end: int, blanks: bytes) -> int:
    """Return the number of tokens left on the line."""
    return sum(map(bool, token_pattern(blanks).findall(data, position, line_stop(data, position, end))))


def next_token(data: bytes, position: int, end: int, blanks: bytes) -> bytes:
    """The token that comes next on the line; empty where there is none."""
    match = token_pattern(blanks).match(data, position, line_stop(data, position, end))
    return match[1] if match else b""
