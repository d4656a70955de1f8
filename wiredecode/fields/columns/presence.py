"""When an optional field is there: the conditions of :mod:`wiredecode.fields.presence`, for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiredecode.fields import presence as tests
from wiredecode.fields.columns.kinds import Scope
from wiredecode.fields.columns.rows import Bools, Int64s, Rows

Holds = Callable[[Rows, Scope], Bools]
"""Which rows have the field; what it says of rows that are not plain does not matter."""


def left(rows: Rows) -> Int64s:
    return rows.e - rows.p


def has(scope: Scope, name: str, condition: Bools) -> Bools:
    """The condition on a field, where the field is there."""
    return condition & scope.there[name] if name in scope.there else condition


def peeked(code: str, rows: Rows) -> tuple[Bools, Int64s]:
    """Where the number that comes next is in the frame, and the number; rows do not move."""
    there = left(rows) >= np.dtype(code).itemsize
    return there, rows.source.gather(code, np.where(there, rows.p, 0)).astype(np.int64)


def more(test: tests.More) -> Holds:
    return lambda rows, scope: rows.p < rows.e


def exactly(test: tests.Left) -> Holds:
    return lambda rows, scope: (left(rows) > 0) & (left(rows) == scope.values[test.field])


def spans(test: tests.Spans) -> Holds:
    width = test.length.width

    def holds(rows: Rows, scope: Scope) -> Bools:
        there, value = peeked(f">u{width}", rows)
        found: Bools = there & (value == left(rows) - width)
        return found

    return holds


def equals(test: tests.Is) -> Holds:
    wanted = sorted(test.values)
    return lambda rows, scope: has(scope, test.field, np.isin(scope.values[test.field], wanted))


def peek(test: tests.Peek) -> Holds:
    def holds(rows: Rows, scope: Scope) -> Bools:
        there, value = peeked("u1", rows)
        found: Bools = there & (value & test.mask == test.value)
        return found

    return holds


def absent(test: tests.Absent) -> Holds:
    return lambda rows, scope: ~scope.there[test.field]


PRESENCES: dict[type[tests.Test], Callable[[Any], Holds | None]] = {
    tests.More: more,
    tests.Left: exactly,
    tests.Spans: spans,
    tests.Is: equals,
    tests.Peek: peek,
    tests.Absent: absent,
}

PERHAPS: dict[type[tests.Test], Callable[[Any], Holds]] = {}
"""Conditions that are told frame by frame, and for all rows only when they may hold."""


def presence(test: tests.Test) -> Holds | None:
    """The condition for all rows; None: it can only be told frame by frame."""
    maker = PRESENCES.get(type(test))
    return None if maker is None else maker(test)


def perhaps(test: tests.Test) -> Holds | None:
    """What holds at least where the condition does."""
    maker = PERHAPS.get(type(test))
    return presence(test) if maker is None else maker(test)
