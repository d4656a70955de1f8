"""A filter on many rows at a time.

Two masks are told apart: the rows that match for sure, and those that may; where both are the same, all is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools
from wiredecode.filter.compare import ORDER, SAME
from wiredecode.filter.logic import Atom, Expression, Negation

Masks = tuple[Bools, Bools]
"""Matches for sure; may match."""

MOST_DIGITS = 1 << 62
"""Greater numbers are compared one by one."""


class Rows(Protocol):
    """Frames as a filter sees them."""

    every: Bools
    """True for each."""

    def mask(self, atom: Atom) -> Bools | None:
        """The frames that fit; None: not known."""

    def perhaps(self, atom: Atom) -> Bools:
        """Of what is not known: the frames that may fit."""


def masks(expression: Expression, rows: Rows) -> Masks:
    """What the tests of an expression say, taken together."""
    if isinstance(expression, bool):
        mask = rows.every if expression else ~rows.every
        return mask, mask
    if isinstance(expression, Atom):
        known = rows.mask(expression)
        return (~rows.every, rows.perhaps(expression)) if known is None else (known, known)
    if isinstance(expression, Negation):
        sure, may = masks(expression.part, rows)
        return ~may, ~sure
    sure, may = masks(expression.parts[0], rows)
    for part in expression.parts[1:]:
        if expression.operator == "and" and not may.any():
            break
        also, perhaps = masks(part, rows)
        if expression.operator == "and":
            sure, may = sure & also, may & perhaps
        elif expression.operator == "or":
            sure, may = sure | also, may | perhaps
        else:
            sure, may = (sure & ~perhaps) | (also & ~may), (may & ~also) | (perhaps & ~sure)
    return sure, may


def compared(atom: Atom, numbers: Callable[[str], npt.NDArray[np.int64] | None]) -> Bools | None:
    """A comparison of a column, given by ``numbers``, with one number; None: it is none."""
    column = atom.column
    if column is None or len(column.values) != 1:
        return None
    operator, value = column.operator, column.values[0]
    compare: Any = ORDER.get(operator) or (SAME[operator][0] if operator in SAME else None)
    if compare is None or isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_DIGITS:
        return None
    values = numbers(column.name)
    found: Bools | None = None if values is None else compare(values, value)
    return found
