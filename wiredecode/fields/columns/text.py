"""Lines of tokens as columns. Importing this module adds their kinds and conditions to the tables.

A line is plain if blanks and tabs separate its tokens, it ends with CRLF, nothing stands before its word and that, and
the word is spelled as declared. Where tokens start and end is looked up among those of the buffer, found once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from wiredecode.fields import Kind, textfields, textlines
from wiredecode.fields.columns.kinds import READERS, TEXT_TYPE, Column, Look, Scope, TextColumn
from wiredecode.fields.columns.presence import PERHAPS, PRESENCES, Holds, peeked
from wiredecode.fields.columns.rows import Bools, Int64s, Rows

BLANK, TAB = ord(" "), ord("\t")
MOST_DIGITS = 18
"""Longest number that fits 64 bits, whatever its digits."""


def octet(rows: Rows) -> Int64s:
    """The byte that comes next; 0 at the end."""
    there, octets = peeked("u1", rows)
    return np.where(there, octets, 0)


def following(found: Int64s, places: Int64s) -> Int64s:
    """The first of the ``found`` places that is not before each of the given ones."""
    return found[np.minimum(np.searchsorted(found, places), len(found) - 1)]


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


# Presence.


def tokens(rows: Rows) -> Int64s:
    """How many tokens are left on the line."""
    words = rows.source.words
    return np.searchsorted(words, following(rows.source.breaks, rows.p)) - np.searchsorted(words, rows.p)


def tokens_left(test: textlines.TokensLeft) -> Holds:
    return lambda rows, scope: np.isin(tokens(rows), test.counts)


def next_token(test: textlines.NextToken) -> Holds | None:
    """Of one byte only."""
    if any(len(token) != 1 for token in test.tokens):
        return None
    wanted = [token[0] for token in test.tokens]

    def holds(rows: Rows, scope: Scope) -> Bools:
        starts = following(rows.source.words, rows.p)
        alone = following(rows.source.white, starts) == starts + 1
        inside = starts < following(rows.source.breaks, rows.p)
        tokens = rows.source.gather("u1", np.where(inside, starts, 0))
        found: Bools = inside & alone & np.isin(tokens, wanted)
        return found

    return holds


def more_on_line(test: textlines.MoreOnLine) -> Holds:
    return lambda rows, scope: octet(rows) != ord("\r")


def present(test: textlines.Present) -> Holds:
    return lambda rows, scope: scope.there[test.field]


PRESENCES |= {
    textlines.TokensLeft: tokens_left,
    textlines.NextToken: next_token,
    textlines.Present: present,
}
PERHAPS |= {textlines.MoreOnLine: more_on_line}
