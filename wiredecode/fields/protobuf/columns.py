"""Where the fields of many protobuf messages stand: the k-th occurrence of all of them in one step of numpy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools, Int64s
from wiredecode.fields.bulk import Source
from wiredecode.fields.protobuf.kinds import Bool, Int32, Int64, Repeated, Scalar, String, UInt32, UInt64
from wiredecode.fields.protobuf.messages import Message

MAX_OCCURRENCES = 256
"""Messages with more are left to the row decoder."""
MAX_LENGTH = (1 << 31) - 1
MOST: dict[type[Scalar], int] = {Bool: 1, Int32: (1 << 31) - 1, UInt32: (1 << 32) - 1, UInt64: (1 << 63) - 1}
"""Largest value that is the same whether it is taken for signed or not; of :class:`Int64` any will do."""


class Spans(NamedTuple):
    """Bytes of a field: of message i from ``starts[i]`` to ``stops[i]``, both -1 where it is absent."""

    starts: Int64s
    stops: Int64s

    @property
    def there(self) -> Bools:
        return self.starts >= 0


class Numbers(NamedTuple):
    """A number of each message; 0 where it is absent."""

    values: Int64s
    there: Bools


class Elements(NamedTuple):
    """The occurrences of a repeated field, message after message; ``rows`` says of which."""

    rows: Int64s
    starts: Int64s
    stops: Int64s


@dataclass(slots=True)
class Members:
    """The fields of n messages, by name.

    ``good``: the message has only known fields, in ascending order, each once
    but for repeated ones, and its texts are ASCII; nothing is said about messages inside it.
    """

    good: Bools
    spans: dict[str, Spans] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    elements: dict[str, Elements] = field(default_factory=dict)


@cache
def tags(layer: type[Message]) -> tuple[list[Any], npt.NDArray[np.int8], Bools, Bools]:
    """Kinds with a tag of one byte; and the kind of each tag (-1: none), whether it is a number, and repeated."""
    kinds = [
        kind
        for kind in layer.by_number.values()
        if not (isinstance(kind, Repeated) and kind.packed) and len(element_of(kind).tag) == 1
    ]
    by_tag = np.full(256, -1, np.int8)
    for place, kind in enumerate(kinds):
        by_tag[element_of(kind).tag[0]] = place
    scalar = np.array([isinstance(kind, Scalar) for kind in kinds])
    return kinds, by_tag, scalar, np.array([isinstance(kind, Repeated) for kind in kinds])


def element_of(kind: Any) -> Any:
    return kind.tagged_element if isinstance(kind, Repeated) else kind


def members(source: Source, starts: Int64s, stops: Int64s, layer: type[Message]) -> Members:
    """Find the tagged fields of messages of one type; message i is ``buffer[starts[i] : stops[i]]``."""
    kinds, by_tag, scalar, repeated = tags(layer)
    count = len(starts)
    found = Members(np.ones(count, np.bool_))
    pieces: dict[int, list[Elements]] = {place: [] for place in np.flatnonzero(repeated).tolist()}
    for place, kind in enumerate(kinds):
        if scalar[place]:
            found.numbers[kind.name] = Numbers(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        elif not repeated[place]:
            found.spans[kind.name] = Spans(np.full(count, -1), np.full(count, -1))
    rows = (starts < stops).nonzero()[0]
    p, ends, last = starts[rows], stops[rows], np.full(len(rows), -1, np.int8)
    for _ in range(MAX_OCCURRENCES if len(rows) else 0):
        which = by_tag[source.octets[p]]
        values, behind, whole = varints(source, p + 1, ends)
        alike = which[:1] if (which == which[0]).all() else which
        sized = ~scalar[alike]
        fits = whole & ((which > last) | ((which == last) & (alike >= 0) & repeated[alike]))
        if sized.any():
            fits &= ~sized | (values.view(np.uint64) <= MAX_LENGTH)
            after = np.where(sized & fits, behind + values, behind)
        else:
            after = behind
        fits &= after <= ends
        if not fits.all():
            found.good[rows[~fits]] = False
            rows, ends, which, values, behind, after = (
                each[fits] for each in (rows, ends, which, values, behind, after)
            )
        some = rows, values, behind, after
        if len(alike) == 1:
            store(found, pieces, kinds, int(alike[0]), some)
        else:
            for place in np.bincount(which).nonzero()[0].tolist():
                mine = which == place
                store(found, pieces, kinds, place, tuple(each[mine] for each in some))
        more = after < ends
        if not more.all():
            rows, ends, after = (each[more] for each in (rows, ends, after))
            which = which[more]
        if not len(rows):
            break
        p, last = after, which
    found.good[rows] = False
    for place, each in pieces.items():
        found.elements[kinds[place].name] = in_rows(each)
    require_ascii(source, found, kinds)
    return found


def store(
    found: Members,
    pieces: dict[int, list[Elements]],
    kinds: list[Any],
    place: int,
    occurrences: tuple[Int64s, ...],
) -> None:
    """Take over the occurrences of one field: their rows, numbers, and where their bytes start and stop."""
    rows, values, starts, stops = occurrences
    kind = kinds[place]
    if place in pieces:
        pieces[place].append(Elements(rows, starts, stops))
    elif isinstance(kind, Scalar):
        numbers = found.numbers[kind.name]
        numbers.values[rows], numbers.there[rows] = values, True
        if not isinstance(kind, Int64):
            most = next(most for base, most in MOST.items() if isinstance(kind, base))
            found.good[rows[values.view(np.uint64) > most]] = False
    else:
        spans = found.spans[kind.name]
        spans.starts[rows], spans.stops[rows] = starts, stops


def in_rows(pieces: list[Elements]) -> Elements:
    """Occurrences in the order of their messages, within these as they stand."""
    if not pieces:
        return Elements(*(np.empty(0, np.int64) for _ in range(3)))
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Elements(*(column[order] for column in columns))


def require_ascii(source: Source, found: Members, kinds: list[Any]) -> None:
    """Messages with other texts are not good: their bytes need not be UTF-8."""
    for kind in kinds:
        if isinstance(kind, String):
            spans = found.spans[kind.name]
            rows = np.flatnonzero(spans.there & found.good)
            found.good[rows[~source.is_ascii(spans.starts[rows], spans.stops[rows])]] = False


def varints(source: Source, p: Int64s, stops: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """The number at each place, as signed 64 bits, the place behind it, and whether it is whole.

    The first eight bytes of long ones are read at once: without the bits that say whether more follow, they move
    together in pairs, then these in pairs, and again.
    """
    octets, whole = source.octets, p < stops
    first = octets[np.minimum(p, len(octets) - 1)]
    values, behind = (first & 0x7F).astype(np.int64), p + 1
    rows, shift = np.flatnonzero(whole & (first > 0x7F)), 7
    if len(rows) and int(p[rows].max()) <= len(octets) - 8:
        words = source.gather("<u8", p[rows])
        last = ~words & 0x8080808080808080
        inside = last ^ (last - 1)
        words &= inside & 0x7F7F7F7F7F7F7F7F
        words = words & 0x007F007F007F007F | (words & 0x7F007F007F007F00) >> 1
        words = words & 0x00003FFF00003FFF | (words & 0x3FFF00003FFF0000) >> 2
        words = words & 0x000000000FFFFFFF | (words & 0x0FFFFFFF00000000) >> 4
        values[rows] = words.view(np.int64)
        behind[rows] += ((inside & 0x0101010101010101) * 0x0101010101010101 >> 56).view(np.int64) - 1
        whole &= behind <= stops
        rows, shift = rows[last == 0], 56
    while len(rows) and shift < 70:
        at = behind[rows]
        fits = at < stops[rows]
        whole[rows[~fits]] = False
        rows, at = rows[fits], at[fits]
        octet = octets[at]
        values[rows] |= (octet & 0x7F).astype(np.int64) << shift
        behind[rows] = at + 1
        rows, shift = rows[octet > 0x7F], shift + 7
    whole[rows] = False
    return values, behind, whole
