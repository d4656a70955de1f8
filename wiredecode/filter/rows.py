"""A filter on many frames at a time: on runs, and on anything else whose rows have addresses, times and numbers.

Two masks are told apart: the rows that match for sure, and those that may; where both are the same, all is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from wiredecode.filter.compare import ORDER, SAME
from wiredecode.filter.logic import Atom, Expression, Negation
from wiredecode.filter.model import Level
from wiredecode.frames.frame import OK, Frame

if TYPE_CHECKING:
    from wiredecode.frames.run import Run

Mask = npt.NDArray[np.bool_]
Masks = tuple[Mask, Mask]
"""Matches for sure; may match."""

OF_KIND = frozenset(
    [
        *("frame.type", "frame.code", "frame.protocol", "frame.status", "frame.missing", "frame.sender"),
        *("frame.request", "frame.response", "latency"),
        *("finding", *(f"finding.{name}" for name in ("severity", "group", "code", "message", "field"))),
    ]
)
"""Names that have the same values in all frames of one kind of a run; plain frames have no findings or requests."""
LINKS = frozenset(name for name in OF_KIND if name.startswith(("finding", "latency", "frame.re")))
"""Of them, those that differ among requests and responses."""
OF_ROW = {"frame.number": "number", "frame.time": "time_ns", "frame.length": "length", "frame.offset": "offset"}
OF_ROW |= {"frame.time_relative": "time_ns"}
"""Names whose values differ from frame to frame, and the attribute that they are read from."""
COLUMNS = {"frame": "number", "time": "time_ns", "length": "length", "offset": "offset"}
"""The same by column of the tables."""
MOST_DIGITS = 1 << 62
"""Greater numbers are compared one by one."""


def run_masks(expression: Expression, run: Run, sender: str | None) -> Masks:
    """What a filter says of the frames of a run that was numbered and not decoded yet; ``sender`` as far as known."""
    return masks(expression, RunRows(run, sender))


class Rows(Protocol):
    """Frames as a filter sees them."""

    every: Mask
    """True for each."""

    def mask(self, atom: Atom) -> Mask | None:
        """The frames that fit; None: not known."""

    def perhaps(self, atom: Atom) -> Mask:
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


def compared(atom: Atom, numbers: Callable[[str], npt.NDArray[np.int64] | None]) -> Mask | None:
    """A comparison of a column, given by ``numbers``, with one number; None: it is none."""
    column = atom.column
    if column is None or len(column.values) != 1:
        return None
    operator, value = column.operator, column.values[0]
    compare: Any = ORDER.get(operator) or (SAME[operator][0] if operator in SAME else None)
    if compare is None or isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MOST_DIGITS:
        return None
    values = numbers(column.name)
    found: Mask | None = None if values is None else compare(values, value)
    return found


class RunRows:
    """The frames of a run as a filter sees them."""

    def __init__(self, run: Run, sender: str | None) -> None:
        self.run, self.sender = run, sender
        self.every: Mask = np.ones(len(run), np.bool_)
        self._columns: dict[str, npt.NDArray[np.int64]] = {}

    def mask(self, atom: Atom) -> Mask | None:
        """The frames that fit; None: not known."""
        if atom.level is Level.CONNECTION:
            return self.every if atom.run(self._frame(0)) else ~self.every
        names = atom.names
        if not names or ("frame.sender" in names and self.sender is None):
            return None
        if not LINKS.isdisjoint(names) and np.isin(self.run.kinds, self.run.bulk.with_links).any():
            return None
        if all(_is_of_kind(name, atom) for name in names):
            return self._by_kind(atom)
        if all(name in OF_ROW or _is_of_kind(name, atom) for name in names):
            quick = compared(atom, lambda name: self._column(COLUMNS[name]) if name in COLUMNS else None)
            return self._row_by_row(atom) if quick is None else quick
        return None

    def perhaps(self, atom: Atom) -> Mask:
        """Those that hold what is looked for, if that stands in frames as it is."""
        wanted, run = atom.wanted, self.run
        if not wanted:
            return self.every
        found = ~self.every
        buffer, stops = run.buffer, run.stops
        place = buffer.find(wanted, int(run.starts[0]), int(stops[-1]))
        while place >= 0:
            row = int(np.searchsorted(stops, place, "right"))
            found[row] = True
            place = buffer.find(wanted, int(stops[row]), int(stops[-1]))
        return found

    def _frame(self, kind: int) -> Frame:
        """A frame of a kind, without what differs from row to row."""
        run = self.run
        frame = Frame(run.connection, run.side, b"", 0, 0, 0, 0, 0, [], 0, 0, 0, OK)
        if kind:
            frame.type, frame.sender = run.types[kind], self.sender
            frame.protocol = run.protocols[kind] if run.protocols else run.protocol
            frame.code = run.codes[kind] if run.codes else None
        return frame

    def _by_kind(self, atom: Atom) -> Mask:
        kinds = self.run.kinds
        answers = np.zeros(256, np.bool_)
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            answers[kind] = atom.run(self._frame(kind))
        found: Mask = answers[kinds]
        return found

    def _row_by_row(self, atom: Atom) -> Mask:
        probes = {kind: self._frame(kind) for kind in np.flatnonzero(np.bincount(self.run.kinds)).tolist()}
        wanted = sorted({OF_ROW[name] for name in atom.names if name in OF_ROW})
        rows = zip(self.run.kinds.tolist(), *(self._column(name).tolist() for name in wanted), strict=True)
        found = np.empty(len(self.run), np.bool_)
        for row, (kind, *values) in enumerate(rows):
            probe = probes[kind]
            for name, value in zip(wanted, values, strict=True):
                setattr(probe, name, value)
            found[row] = atom.run(probe)
        return found

    def _column(self, name: str) -> npt.NDArray[np.int64]:
        run = self.run
        if name not in self._columns:
            if name == "number":
                column = run.numbers
            elif name == "time_ns":
                column = run.time_ns
            else:
                column = run.stops - run.starts if name == "length" else run.base + run.starts
            self._columns[name] = column
        return self._columns[name]


def _is_of_kind(name: str, atom: Atom) -> bool:
    """``nats.type`` and ``nats.code`` are too, unless a field is called so."""
    return name in OF_KIND or (name.rpartition(".")[2] in ("type", "code") and atom.level <= Level.HEADER)
