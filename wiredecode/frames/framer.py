"""Splits the bytes of one direction of a connection into frames, across chunks and around gaps.

A stream is in one of three states: *in sync* (the next byte starts a frame), *inside* a frame of known length of which
bytes are missing, or *searching* for the next frame after a gap or after bytes that cannot be a frame. A gap inside a
frame of known length makes that frame partial; a gap that hides the start of a frame needs a search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import PARTIAL, UNDECODED, Finding, Frame, failure
from wiredecode.frames.splitter import FEW_BYTES, LOOKS, Looks, Unreadable
from wiredecode.net.types import Chunk, Direction, Gap

if TYPE_CHECKING:
    from wiredecode.frames.block import Bulk, BulkSplit
    from wiredecode.frames.splitter import Split, Splitter

COLUMNS = ("ends", "packet", "time_ns", "ready", "ready_ns")


NOTHING: list[Any] = []
"""Shared by all that is empty; it never changes."""


class PacketMap:
    """Maps the unread bytes of a stream to packets: the joined columns of its chunks.

    A piece is the part that one packet carried.
    """

    __slots__ = COLUMNS

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.ends: list[int] = NOTHING
        self.packet: list[int] = NOTHING
        self.time_ns: list[int] = NOTHING
        self.ready: list[int] = NOTHING
        self.ready_ns: list[int] = NOTHING

    def add(self, chunk: Chunk) -> None:
        if not self.ends:
            self.ends, self.packet = chunk.ends.tolist(), chunk.packet.tolist()
            self.time_ns, self.ready = chunk.time_ns.tolist(), chunk.ready.tolist()
            self.ready_ns = chunk.ready_ns.tolist()
            return
        self.ends += chunk.ends.tolist()
        self.packet += chunk.packet.tolist()
        self.time_ns += chunk.time_ns.tolist()
        self.ready += chunk.ready.tolist()
        self.ready_ns += chunk.ready_ns.tolist()

    def index_of(self, offset: int, low: int = 0) -> int:
        """Index of the piece that holds a stream offset."""
        return bisect_right(self.ends, offset, low)

    def drop(self, offset: int) -> None:
        """Drop the pieces that end at or before a stream offset."""
        ends = self.ends
        if ends and ends[-1] <= offset:
            self.clear()
            return
        index = bisect_right(ends, offset)
        if index:
            for name in COLUMNS:
                del getattr(self, name)[:index]


UNDECODED_SPAN = 1024 * 1024
"""Longest span reported as one undecoded record."""
UNDECODED_SHOWN = 4096
"""Bytes of it that the record keeps."""


@dataclass(slots=True)
class Span:
    """A stretch of a stream that becomes one record: a frame with gaps, or bytes that could not be decoded."""

    offset: int
    data: bytes = b""
    captured: int = 0
    missing: int = 0
    expected: int = 0
    """Missing bytes at the end of a frame of known length."""
    packets: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Stream offset of the first byte of each of these packets."""
    ready: int = 0
    time_ns: int = 0
    first_ns: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, pieces: PacketMap, offset: int, size: int) -> None:
        """Add ``size`` captured bytes at a stream offset: their packets and times."""
        low = pieces.index_of(offset)
        high = pieces.index_of(offset + size - 1, low)
        carriers = pieces.packet[low : high + 1]
        begins = [offset, *pieces.ends[low:high]]
        if self.packets and carriers[0] == self.packets[-1]:
            del carriers[0], begins[0]
        self.begins += begins
        self.packets.extend(carriers)
        if self.first_ns is None:
            self.first_ns = pieces.time_ns[low]
        self.ready, self.time_ns = pieces.ready[high], pieces.ready_ns[high]
        self.captured += size


LAST_LOOKS = 8 * LOOKS
"""The same as `LOOKS` at a gap or the end, where searches look at less of the bytes that they get."""
BLOCK_FRAMES = 24
BLOCK_BYTES = 8192
"""Fewer frames and fewer bytes are faster one by one (measured): no block is sought in less than ``BLOCK_BYTES``."""


class Framer:
    """Splits one direction into frames, and appends them to ``frames`` in stream order."""

    __slots__ = (
        *("base", "bulk", "direction", "findings", "floor", "frame", "framed", "frames", "have", "in_sync", "looks"),
        *("need", "now", "parts", "pieces", "span", "splitter", "sync_at", "undecoded", "unread"),
    )

    def __init__(
        self, direction: Direction, splitter: Splitter, frames: list[Any], in_sync: bool, frame: type[Frame] = Frame
    ) -> None:
        self.direction, self.splitter, self.frames, self.frame = direction, splitter, frames, frame
        self.in_sync = in_sync
        self.bulk: Bulk | None = None
        self.sync_at: int | None = None
        """Stream offset at which recognition found the first frame."""
        self.now = self.floor = 0
        """Logical times of the latest event, and from which on frames are ready: when sync was found last."""
        self.unread: deque[tuple[bytes, int]] | None = None
        """Bytes that were not searched yet, by packet, with the logical time at which each was ready."""
        self.parts: list[bytes] = NOTHING
        self.base = 0
        """Stream offset of the first unread byte."""
        self.have = 0
        self.need = 0
        """Size of the frame at ``base``, once its header is known."""
        self.pieces = PacketMap()
        self.span: Span | None = None
        """The partial frame, or the undecoded bytes, being collected."""
        self.findings: tuple[Finding, ...] = ()
        """Findings to add to the next frame."""
        self.looks: Looks | None = None
        self.framed = self.undecoded = 0

    def start_at(self, offset: int) -> None:
        """Search no further: recognition found the first frame at this stream offset."""
        if offset or not self.in_sync:
            self.in_sync, self.sync_at = False, offset

    def stop(self, error: Exception) -> None:
        """Stop splitting after a bug of wiredecode."""
        self.findings += (failure(error, "cut"),)
        self.splitter = Unreadable(self.splitter.name)
        self.bulk, self.in_sync, self.need = None, False, 0
        self.advance()

    # Events.

    def chunk(self, chunk: Chunk) -> None:
        """Take the next bytes."""
        if self.span is not None and self.span.expected:
            rest = self._continue_partial(chunk)
            if rest is None:
                return
            chunk = rest
        if not self.have:
            self.base = chunk.offset
        if self.direction.first_ns is None:
            self.direction.first_ns, self.direction.first_at = int(chunk.time_ns[0]), int(chunk.ready[0])
        self.pieces.add(chunk)
        if self.in_sync:
            self._append(chunk.data)
        else:
            self._queue(chunk.data, chunk.offset)
        self.advance()

    def gap(self, gap: Gap) -> None:
        """Take missing bytes."""
        self.now = gap.ready
        message = f"{gap.length} bytes {gap.reason} at stream offset {gap.offset}"
        lost = Finding("warning", "reassembly", "hole", message)
        self._end_contiguous()
        span = self.span
        if span is not None and span.expected:
            inside = min(span.expected, gap.length)
            span.missing += inside
            span.expected -= inside
            span.findings.append(lost)
            if not span.expected:
                self._close_span(PARTIAL, gap.ready)
                self.in_sync = inside == gap.length
            return
        self.findings += (lost,)
        self.in_sync = False

    def end(self, reason: str, ready: int) -> None:
        """End of the connection at logical time ``ready``: the rest is a partial frame or undecoded bytes."""
        self.now = ready
        if self.have or self.span is not None or self.looks is not None:
            self._end_contiguous()
        if self.span is not None and self.span.expected:
            self._never_captured(self.span, reason, ready)

    def _never_captured(self, span: Span, reason: str, ready: int) -> None:
        message = f"{span.expected} of {span.captured + span.missing + span.expected} bytes were not captured: {reason}"
        span.findings.append(Finding("warning", "reassembly", "frame-cut", message))
        span.missing += span.expected
        span.expected = 0
        self._close_span(PARTIAL, ready)

    def close(self, reason: str, ready: int, time_ns: int = 0, beyond: int = 0) -> None:
        """The sender closed, ``beyond`` bytes later: the rest of a frame was never sent.

        ``reason``: for people, "the sender closed". ``ready``: its logical time; ``time_ns``: its time, 0 keeps that of
        the last byte.
        """
        self.now = ready
        self._end_contiguous("" if beyond else reason, time_ns)
        if (span := self.span) is not None and 0 < span.expected <= beyond:
            self._never_captured(span, reason, ready)
        elif span is not None and span.expected:
            span.missing += beyond
            span.expected -= beyond
            sent = span.captured + span.missing
            lost = f", {span.missing} of which were not captured" if span.missing else ""
            message = f"{reason} after {sent} of {sent + span.expected} bytes{lost}"
            self._never_sent(span, message, ready, time_ns)

    def _never_sent(self, span: Span, message: str, ready: int, time_ns: int) -> None:
        span.time_ns = time_ns or span.time_ns
        span.findings.append(Finding("note", "reassembly", "closed-inside", message))
        span.expected = 0
        self._close_span(PARTIAL, ready)
        self.in_sync = False  # if bytes come nevertheless, search

    # In sync.

    def advance(self) -> None:
        """Split and search until more bytes are needed.

        Out of sync, bytes are searched packet by packet, so that the result does not depend on batches. In sync again,
        the number of packets doubles each time.
        """
        packets = 1
        while True:
            if self.in_sync:
                if self._split():
                    self._queue_rest()
                    packets = 1
                    continue
                packets *= 2
            elif self._search(final=False):
                continue
            if not self.unread:
                return
            for _ in range(min(packets, len(self.unread))):
                data, self.now = self.unread.popleft()
                self._append(data)

    def _queue(self, data: bytes, offset: int) -> None:
        pieces = self.pieces
        unread = self.unread = deque() if self.unread is None else self.unread
        position = 0
        index = pieces.index_of(offset)
        while position < len(data):
            stop = pieces.ends[index] - offset
            unread.append((data[position:stop], max(pieces.ready[index], self.floor)))
            position = stop
            index += 1

    def _queue_rest(self) -> None:
        """Sync was lost: queue the remaining bytes by packet."""
        if not self.have:
            return
        if self.pieces.ends[0] < self.base + self.have:
            data, later = self._join(), self.unread or deque()
            self.parts, self.have, self.unread = NOTHING, 0, deque()
            self._queue(data, self.base)
            later.extendleft(reversed(self.unread))
            self.unread = later
        else:
            self.now = max(self.now, self.pieces.ready[0], self.floor)

    def _split(self) -> bool:
        """Split frames off the front; return whether sync was lost."""
        if self.have < max(self.need, 1):
            return False
        data = self._join()
        if self.bulk is not None and len(data) >= BLOCK_BYTES:
            data = self._emit_bulk(data, self.bulk.split(data))
        split = self.splitter.split(data) if self.base else self.splitter.split_first(data)
        if split.known_at:
            self._emit_known(data, split)
        elif split.ends:
            self._emit(data, split.ends)
        if split.ends:
            self._consume(data, split.ends[-1])
        if split.then is not None:
            self.splitter, self.need = split.then, 0
            return self._split()
        self.need = split.need
        if split.bad is None:
            return False
        self.findings += (Finding("error", "malformed", "not-a-frame", split.bad),)
        self.in_sync, self.need = False, 0
        return True

    def _emit_known(self, data: bytes, split: Split) -> None:
        """Make frames, some of which, or what follows all, are ready only with later bytes (:attr:`Split.known_at`)."""
        done = 0
        for index, position in (*split.known_at, (len(split.ends), 0)):
            if index > done:
                self._emit(data, split.ends[done:index], split.ends[done - 1] if done else 0)
            if position:
                self.floor = max(self.floor, self.pieces.ready[self.pieces.index_of(self.base + position - 1)])
            done = index

    def _emit_bulk(self, data: bytes, split: BulkSplit) -> bytes:
        """Emit the frames that ``split`` found, long runs of plain ones as blocks; return the other bytes."""
        if not len(split.kinds):
            return data
        plain = split.kinds != 0
        if self.findings:
            plain[0] = False  # the first frame will hold them
        edges = np.flatnonzero(np.diff(plain)) + 1
        starts = split.starts
        low = 0
        rows: list[int] = []
        for high in (*edges.tolist(), len(plain)):
            if plain[low] and (high - low >= BLOCK_FRAMES or starts[high] - starts[low] >= BLOCK_BYTES):
                if rows:
                    self._emit(data, rows, int(starts[low - len(rows)]))
                    rows = []
                self._emit_block(data, split, low, high)
            else:
                rows += starts[low + 1 : high + 1].tolist()
            low = high
        if rows:
            self._emit(data, rows, int(starts[low - len(rows)]))
        self._consume(data, int(starts[-1]))
        return self._join() if self.have else b""

    def _emit_block(self, data: bytes, split: BulkSplit, low: int, high: int) -> None:
        from wiredecode.frames.block import FrameBlock

        assert self.bulk is not None
        pieces, starts, stops = self.pieces, split.starts[low:high], split.starts[low + 1 : high + 1]
        where = self.direction.connection, self.direction.side, data, self.base
        ends = np.array(pieces.ends)
        first = np.searchsorted(ends, self.base + starts, "right")
        last = np.searchsorted(ends, self.base + stops, "left")
        self.frames.append(
            FrameBlock(
                *where,
                starts,
                stops,
                split.kinds[low:high],
                {name: column[low:high] for name, column in split.parts.items()},
                np.maximum(np.array(pieces.ready)[last], self.floor),
                np.array(pieces.ready_ns)[last],
                np.array(pieces.time_ns)[first],
                first,
                last,
                np.array(pieces.packet),
                self.bulk,
                self.splitter.name,
            )
        )
        self.framed += int(stops[-1] - starts[0])

    def _emit(self, data: bytes, ends: list[int], start: int = 0) -> None:
        """Make frames of the bytes from ``start`` that end at each of ``ends``."""
        pieces, base, out = self.pieces, self.base, self.frames
        piece_ends, packet, ready = pieces.ends, pieces.packet, pieces.ready
        ready_ns, time_ns = pieces.ready_ns, pieces.time_ns
        connection, side, floor = self.direction.connection, self.direction.side, self.floor
        new, first, begin, low, high = self.frame, len(out), start, 0, 0
        for stop in ends:
            offset = base + start
            while piece_ends[low] <= offset:
                low += 1
            high = low
            while piece_ends[high] < base + stop:
                high += 1
            carriers = [packet[low]] if low == high else sorted({*packet[low : high + 1]})
            ready_at = ready[high]
            if ready_at < floor:
                ready_at = floor
            size = stop - start
            frame = new(  # not by *(...), which takes a fifth longer
                connection, side, data, start, stop, offset, size, 0, carriers, ready_at, ready_ns[high], time_ns[low]
            )
            if low < high:
                frame.packet_bounds = piece_ends[low:high], packet[low : high + 1]
            out.append(frame)
            start = stop
        self.framed += ends[-1] - begin
        self._attach(out[first])

    def _attach(self, frame: Frame) -> None:
        if self.findings:
            frame.findings = [*frame.findings, *self.findings]
            self.findings = ()

    # Searching.

    def _search(self, final: bool) -> bool:
        """Search for the next frame; return whether the stream is in sync again."""
        if self.sync_at is not None and self.base <= self.sync_at < self.base + self.have:
            data, position, found = self._join(), self.sync_at - self.base, True
        elif final or self._may_look():
            data, look = self._join(), self.splitter.search if self.base else self.splitter.begin
            answer = look(data, final=final)
            position, found = answer.position, answer.found
            self.looks = self.looks or Looks()
            self.looks.need = answer.need
        else:
            return False
        position = len(data) if final and not found else position
        if position:
            self._skip_undecoded(data, position)
        if found:
            if self.span is not None:
                self._close_span(UNDECODED, self.now)
            self.in_sync, self.need, self.floor = True, 0, self.now
        return found

    def _may_look(self) -> bool:
        self.looks = self.looks or Looks()
        return self.looks.again(self.base, self.base + self.have)

    def _skip_undecoded(self, data: bytes, length: int) -> None:
        """Remove bytes that belong to no frame from the buffer, and count them as undecoded."""
        taken = 0
        while taken < length:
            if self.span is None:
                self.span = Span(self.base + taken)
            size = min(length - taken, UNDECODED_SPAN - self.span.captured)
            shown = max(0, UNDECODED_SHOWN - len(self.span.data))
            self.span.data += data[taken : taken + min(size, shown)]
            self.span.add(self.pieces, self.base + taken, size)
            taken += size
            if self.span.captured == UNDECODED_SPAN:
                self._close_span(UNDECODED, self.now)
        self._consume(data, length)

    # Frames with gaps.

    def _end_contiguous(self, closed: str = "", time_ns: int = 0) -> None:
        """A gap follows the bytes in the buffer, or the end (``closed``: reason, for people): emit or skip the rest."""
        allowed = LAST_LOOKS * (self.have + FEW_BYTES)
        while self.have and not self.in_sync and allowed > 0 and self._search(final=True):
            allowed -= self.have
            self._split()
        if self.looks is not None:
            self.looks.need = 0
        size_known = self.need > self.have
        if self.have and self.in_sync and (size_known or closed):
            data = self._join()
            self.span = span = Span(self.base, data, expected=self.need - len(data) if size_known else 0)
            span.add(self.pieces, self.base, len(data))
            self._consume(data, len(data))
            if not size_known:
                message = f"{closed} after {len(data)} bytes, too few for the size of a frame"
                self._never_sent(span, message, self.now, time_ns)
        elif self.have:
            data = self._join()
            if self.in_sync:
                message = f"{len(data)} bytes are too few for the size of a frame"
                self.findings += (Finding("warning", "reassembly", "header-cut", message),)
            self._skip_undecoded(data, len(data))
        self.need = 0
        if self.span is not None and not self.span.expected:
            self._close_span(UNDECODED, self.now)

    def _continue_partial(self, chunk: Chunk) -> Chunk | None:
        """Add bytes after a gap to the partial frame before it; return the bytes after that frame."""
        span = self.span
        assert span is not None
        size = min(span.expected, len(chunk.data))
        self.pieces.add(chunk)
        span.add(self.pieces, chunk.offset, size)
        span.expected -= size
        stop = chunk.offset + size
        self.pieces.clear()  # the caller adds the rest again
        if span.expected:
            return None
        self._close_span(PARTIAL, span.ready)
        self.in_sync = True
        if size == len(chunk.data):
            return None
        keep = slice(int(np.searchsorted(chunk.ends, stop, "right")), None)
        return Chunk(chunk.direction, stop, chunk.data[size:], **{name: getattr(chunk, name)[keep] for name in COLUMNS})

    def _close_span(self, status: str, ready: int) -> None:
        span, self.span = self.span, None
        assert span is not None
        frame = self.frame(
            connection=self.direction.connection,
            side=self.direction.side,
            buffer=span.data,
            start=0,
            stop=len(span.data),
            offset=span.offset,
            length=span.captured + span.missing,
            missing=span.missing,
            packets=sorted({*span.packets}),
            ready=ready,
            time_ns=span.time_ns,
            first_ns=span.first_ns or 0,
            status=status,
            is_partial=status == PARTIAL,
            protocol=self.splitter.name,
            packet_bounds=(span.begins[1:], span.packets),
        )
        self._attach(frame)
        frame.findings = [*frame.findings, *span.findings]
        if status == UNDECODED:
            self.undecoded += span.captured
            message = f"{span.captured} bytes belong to no frame that can be recognised"
            frame.find("warning", "undecoded", "no-frame", message, None, (0, span.captured))
        else:
            self.framed += span.captured
        self.frames.append(frame)

    # The buffer.

    def _append(self, data: bytes) -> None:
        if self.have:
            self.parts.append(data)
        else:
            self.parts = [data]
        self.have += len(data)

    def _join(self) -> bytes:
        if len(self.parts) != 1:
            self.parts = [b"".join(self.parts)]
        return self.parts[0]

    def _consume(self, data: bytes, length: int) -> None:
        self.have -= length
        self.base += length
        self.parts = [data[length:]] if self.have else NOTHING
        self.pieces.drop(self.base)
