"""Lines of tokens as columns. Importing this module adds their kinds to the tables.

A line is plain if blanks and tabs separate its tokens, it ends with CRLF, nothing stands before its word and that, and
the word is spelled as declared. Where tokens start and end is looked up among those of the buffer, found once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wiredecode.fields import Kind, textfields
from wiredecode.fields.columns.kinds import READERS, TEXT_TYPE, Column, Look, Scope, TextColumn
from wiredecode.fields.columns.presence import peeked
from wiredecode.fields.columns.rows import Bools, Int64s, Rows, following

BLANK, TAB = ord(" "), ord("\t")
MOST_DIGITS = 18
"""Longest number that fits 64 bits, whatever its digits."""


def octet(rows: Rows) -> Int64s:
    """The byte that comes next; 0 at the end."""
    there, octets = peeked("u1", rows)
    return np.where(there, octets, 0)


def separated(rows: Rows) -> Bools:
    """Whether a blank comes next."""
    octets = octet(rows)
    found: Bools = (octets == BLANK) | (octets == TAB)
    return found


class Constant(Column):
    """Bytes that are always the same; what is shown of them is the text ``shown``, if anything."""

    def __init__(self, raw: bytes, name: str = "", shown: str = "") -> None:
        self.raw, self.shown = raw, shown
        self.names = (name,) if name else ()

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        places = rows.advance(len(self.raw))
        rows.require(np.equal(rows.source.gather(f"S{len(self.raw)}", places), self.raw))
        return [pa.repeat(pa.scalar(self.shown, TEXT_TYPE), len(rows))] if self.names else []


class TokenColumn(Column):
    """Blanks, and the bytes up to the next blank or the end of the line."""

    def __init__(self, kind: Kind, look: Look) -> None:
        self.names = (kind.name,)

    def places(self, rows: Rows) -> tuple[Int64s, Int64s]:
        """Where the tokens start, and their sizes."""
        starts = following(rows.source.words, rows.p)
        stops = following(rows.source.white, starts)
        rows.require(separated(rows) & (starts < following(rows.source.breaks, rows.p)) & (stops <= rows.e))
        rows.p = np.where(rows.good, stops, 0)
        return starts, np.where(rows.good, stops - starts, 0)

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        starts, sizes = self.places(rows)
        return [TextColumn.decoded(rows.source.slices(starts, sizes), rows)]


class DecimalColumn(TokenColumn):
    def __init__(self, kind: textfields.Decimal, look: Look) -> None:
        super().__init__(kind, look)
        self.digits = kind.digits

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        starts, sizes = self.places(rows)
        rows.require(sizes <= self.digits)
        values = np.zeros(len(rows), np.int64)
        for index in range(int(sizes[rows.good].max(initial=0))):
            there = rows.good & (index < sizes)
            digits = rows.source.gather("u1", np.where(there, starts + index, 0)).astype(np.int64) - ord("0")
            rows.require(~there | ((digits >= 0) & (digits <= 9)))
            values = np.where(there, values * 10 + digits, values)
        values = scope.values[self.names[0]] = np.where(rows.good, values, 0)
        return [pa.array(values.astype(np.uint64))]


def word(kind: textfields.Word, look: Look) -> Column:
    return Constant(kind.word, kind.name, kind.word.decode())


def line_end(kind: textfields.LineEnd, look: Look) -> Column:
    return Constant(b"\r\n")


def mark(kind: textfields.Mark, look: Look) -> Column:
    return Constant(kind.mark)


def decimal(kind: textfields.Decimal, look: Look) -> Column | None:
    return DecimalColumn(kind, look) if kind.digits <= MOST_DIGITS else None


READERS |= {
    textfields.Word: word,
    textfields.Token: TokenColumn,
    textfields.Decimal: decimal,
    textfields.LineEnd: line_end,
    textfields.Mark: mark,
}
