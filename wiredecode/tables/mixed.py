"""Frames and blocks until they make a batch of the table of frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

import numpy as np
import pyarrow as pa

from wiredecode.dissect.lookahead import Lookahead
from wiredecode.frames.block import FrameBlock, Int64s
from wiredecode.frames.frame import Frame
from wiredecode.tables.frames import FrameTable

ROWS = 65_536
BYTES = 4 * 1024 * 1024
"""Most rows of a batch, and about so many bytes of frames; a frame that was read one by one counts as several."""
ROW_BYTES = 256
"""Added to the length of each frame for what else is in its row."""
RECORD = 4
"""How much more a row counts that was read one by one: its record is an object of many objects."""


class MixedBatches:
    """Takes what :meth:`Dissector.mixed` yields. ``linking``: requests are told their response, within bounds."""

    def __init__(self, table: FrameTable, *, linking: bool) -> None:
        self._table = table
        self._lookahead = Lookahead() if linking else None
        self._items: list[Frame | FrameBlock] = []
        self._weights: list[Int64s] = []
        """Of the frames that wait, in the order of their numbers."""
        self._last = 0
        """Number of the last frame that was taken."""

    def add(self, items: list[Frame | FrameBlock]) -> None:
        if not items:
            return
        frames = [item for item in items if isinstance(item, Frame)]
        blocks = [item for item in items if not isinstance(item, Frame)]
        order = np.argsort(column((frame.number for frame in frames), (block.numbers for block in blocks)))
        lengths = column((frame.length for frame in frames), (block.stops - block.starts for block in blocks))[order]
        weights = lengths + ROW_BYTES
        records = np.zeros(len(order), np.bool_)
        records[: len(frames)] = [frame.layers is not None for frame in frames]
        weights[records[order]] *= RECORD
        self._weights.append(weights)
        self._items += items
        if self._lookahead is not None:
            times = column((frame.time_ns for frame in frames), (block.time_ns for block in blocks))[order]
            link(self._lookahead, frames, times, lengths)

    def drain(self, *, final: bool = False) -> Iterator[pa.RecordBatch]:
        """Whole batches of what has been added; all of it if this is ``final``."""
        if final and self._lookahead is not None:
            self._lookahead.finish()
        weights = np.concatenate(self._weights) if self._weights else np.empty(0, np.int64)
        ready = len(weights) - (0 if final or self._lookahead is None else self._lookahead.waiting)
        sums = np.cumsum(weights)
        first = 0
        while first < ready:
            before = int(sums[first - 1]) if first else 0
            count = max(int(np.searchsorted(sums, before + BYTES, "right")) - first, 1)
            count = min(count, ROWS)
            if first + count >= ready:
                if not final:
                    break
                count = ready - first
            first += count
            self._last += count
            items, self._items = split(self._items, self._last)
            yield self._table.mixed(items)
        self._weights = [weights[first:]]


def column(frames: Iterable[int], blocks: Iterable[Int64s]) -> Int64s:
    """A value per frame: those of single frames, then those of blocks."""
    return np.concatenate([np.fromiter(frames, np.int64), *blocks])


def link(lookahead: Lookahead, frames: list[Frame], times: Int64s, lengths: Int64s) -> None:
    """Show the next frames to the lookahead, all times and lengths in order of numbers."""
    if not len(times):
        return
    speaking = [frame for frame in frames if frame.request is not None or frame.expects_response]
    speaking.sort(key=attrgetter("number"))
    first = lookahead.seen + 1
    done = 0
    for frame in speaking:
        at = frame.number - first
        if at > done:
            lookahead.skip(times[done:at], lengths[done:at])
        lookahead.add(frame)
        done = at + 1
    lookahead.skip(times[done:], lengths[done:])


def split(items: Iterable[Frame | FrameBlock], last: int) -> tuple[list[Frame | FrameBlock], list[Frame | FrameBlock]]:
    """The frames up to the number ``last``, and the others."""
    before: list[Frame | FrameBlock] = []
    after: list[Frame | FrameBlock] = []
    for item in items:
        if isinstance(item, Frame):
            (before if item.number <= last else after).append(item)
            continue
        count = int(np.searchsorted(item.numbers, last, "right"))
        if count:
            before.append(item.part(0, count))
        if count < len(item):
            after.append(item.part(count, len(item)))
    return before, after
