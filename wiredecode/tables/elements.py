"""Messages that are elements of arrays: those of many frames are read at once, as their layers declare them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.fields.bulk import Source, read_elements
from wiredecode.fields.layer import Layer
from wiredecode.frames.message import Column, FrameElements, Slices

Form = tuple[type[Layer], tuple[tuple[str, str], ...], bool]
"""What parts must have in common to be read together."""


def form(part: FrameElements) -> Form:
    return part.element, tuple(part.columns.items()), part.first_offset is None


@dataclass(slots=True)
class Elements:
    """What was read: ``rows[i]`` is the part of message i, ``index[i]`` its place in it."""

    parts: list[FrameElements]
    rows: Int64s
    index: Int64s
    columns: dict[str, Column]
    others: list[FrameElements]
    """Parts in which something is out of the ordinary: none of their messages is in the columns."""


def read(parts: list[FrameElements]) -> Elements:
    """Read the messages of parts of the same form."""
    source, starts, rows = joined(parts)
    found = read_elements(parts[0].element, source, starts)
    if found is None:
        return Elements([], np.empty(0, np.int64), np.empty(0, np.int64), {}, parts)
    spans, numbers = found.spans, found.numbers
    columns: dict[str, Column] = {
        column: Slices(source.buffer, *spans[field]) if field in spans else numbers[field]
        for column, field in parts[0].columns.items()
    }
    usual, body = found.plain, columns.get("body")
    if parts[0].holding_secrets is not None and isinstance(body, Slices):
        usual = usual & ~parts[0].holding_secrets(body.buffer, body.starts, body.stops)
    if usual.all():
        return Elements(parts, rows, places(rows), columns, [])
    whole = np.ones(len(parts), np.bool_)
    whole[rows[~usual]] = False
    kept = whole[rows]
    rows = (np.cumsum(whole) - 1)[rows[kept]]
    sound = [part for part, good in zip(parts, whole.tolist(), strict=True) if good]
    others = [part for part, good in zip(parts, whole.tolist(), strict=True) if not good]
    return Elements(sound, rows, places(rows), {name: chosen(each, kept) for name, each in columns.items()}, others)


def joined(parts: list[FrameElements]) -> tuple[Source, Int64s, Int64s]:
    """All frames in one buffer, where their elements start in it, and the part of each."""
    frames = [part.frame for part in parts]
    data = b"".join([memoryview(frame.buffer)[frame.start : frame.stop] for frame in frames])
    first = np.fromiter((frame.start for frame in frames), np.int64, len(frames))
    lengths = np.fromiter((frame.stop for frame in frames), np.int64, len(frames)) - first
    moved = np.cumsum(lengths) - lengths - first
    counts = np.fromiter((len(part.starts) for part in parts), np.int64, len(parts))
    rows = np.repeat(np.arange(len(parts)), counts)
    starts = np.fromiter(chain.from_iterable(part.starts for part in parts), np.int64, len(rows)) + moved[rows]
    return Source(data), starts, rows


def places(rows: Int64s) -> Int64s:
    """The place of each row among those of the same part."""
    counts = np.bincount(rows) if len(rows) else np.empty(0, np.int64)
    return np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]


def chosen(column: Any, kept: Bools) -> Column:
    if isinstance(column, Slices):
        return Slices(column.buffer, column.starts[kept], column.stops[kept])
    some: Column = column[kept]
    return some
