"""Regular expressions of users, on bytes of the wire: those that can backtrack for long go to RE2, which does not.

Python's engine stays for the others: it knows more syntax, and words and digits of all scripts. RE2 is part of Arrow.
"""

import re
from collections.abc import Callable
from functools import cache
from re import _constants as codes  # no public module parses
from re import _parser as parser
from typing import Any

MATCHED = 64 * 1024
"""Characters or bytes of a value that a regular expression looks at."""
FEW = 16
"""Repetitions that take no time."""
SHORT, LONGER = 128, 4096
"""Characters on which several repetitions, or a single one, take no time."""
TOO_SLOW = "this can take too long: simplify repetitions, or leave out look-around and back-references"
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
Test = Callable[[Any], bool]


def test_of(text: str) -> Test:
    """Whether a text or bytes hold the expression. Raises ``ValueError`` if that can take too long."""
    nested, long = ambiguity(parser.parse(text))
    quick = backtracking(text)
    if not long:
        return quick
    if nested or long > 1:
        slow, most = linear(text), 0 if nested else SHORT
        return lambda each: (quick if len(each) <= most else slow)(each)
    return lambda each: (quick if len(each) <= LONGER else linear_if_known(text) or quick)(each)


def ambiguity(pieces: Any, inside: bool = False) -> tuple[bool, int]:
    """Whether a long repetition has choices inside, so that time doubles per character; the long repetitions.

    ``inside``: these are the pieces of a long repetition.
    """
    nested, long = False, 0
    for code, value in pieces:
        repeats = code in REPEATS
        is_long = repeats and value[1] > FEW
        nested |= inside and (code is codes.BRANCH or (repeats and value[0] != value[1]))
        long += is_long or code is codes.GROUPREF
        for each in _inside(value):
            found = ambiguity(each, inside or is_long)
            nested, long = nested or found[0], long + found[1]
    return nested, long


def _inside(value: Any) -> list[Any]:
    """The parts of a piece that are made of pieces."""
    if isinstance(value, parser.SubPattern):
        return [value]
    return [part for each in value for part in _inside(each)] if isinstance(value, list | tuple) else []


def backtracking(text: str) -> Test:
    """A test by Python's engine."""
    texts, raw = re.compile(text, re.IGNORECASE), re.compile(text.encode(), re.IGNORECASE | re.DOTALL)

    def fits(each: Any) -> bool:
        if isinstance(each, str):
            return texts.search(each[:MATCHED]) is not None
        return isinstance(each, bytes) and raw.search(each[:MATCHED]) is not None

    return fits


@cache
def linear_if_known(text: str) -> Test | None:
    """A test by RE2; None: it does not know the syntax."""
    try:
        return linear(text)
    except ValueError:
        return None


def linear(text: str) -> Test:
    """A test by RE2. Raises ``ValueError`` for syntax that it does not know."""
    import pyarrow as pa
    from pyarrow.compute import match_substring_regex

    def fits(each: Any) -> bool:
        if isinstance(each, str):
            value, expression = pa.scalar(each[:MATCHED].encode("utf-8", "replace").decode(), pa.string()), text
        elif isinstance(each, bytes):
            value, expression = pa.scalar(each[:MATCHED], pa.binary()), f"(?s){text}"
        else:
            return False
        return bool(match_substring_regex(value, expression, ignore_case=True).as_py())

    for empty in ("", b""):
        fits(empty)
    return fits
