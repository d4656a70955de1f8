"""One direction of one connection: cutting its bytes into frames, across chunks and around gaps.

A stream is in one of three states: *in step* (the next byte starts a frame), *inside* a frame of known length of which
bytes are missing, or *searching* for the next frame after a gap or after bytes that cannot be a frame. A gap whose
length is known costs only the frame it lies in; one that hides the start of a frame costs a search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.frames.frame import PARTIAL, UNDECODED, Finding, Frame
from wiredecode.net.types import Chunk, Direction, Gap

if TYPE_CHECKING:
    from wiredecode.frames.block import Bulk, Cut
    from wiredecode.protocols.base import Cutter, Split

COLUMNS = ("ends", "packet", "time_ns", "ready", "ready_ns")


class PacketMap:
    """Maps bytes of the unread part of a stream to packets: the columns of its chunks, joined.

    A piece is the part that one packet carried.
    """

    __slots__ = COLUMNS

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.ends: list[int] = []
        self.packet: list[int] = []
        self.time_ns: list[int] = []
        self.ready: list[int] = []
        self.ready_ns: list[int] = []

    def add(self, chunk: Chunk) -> None:
        self.ends += chunk.ends.tolist()
        self.packet += chunk.packet.tolist()
        self.time_ns += chunk.time_ns.tolist()
        self.ready += chunk.ready.tolist()
        self.ready_ns += chunk.ready_ns.tolist()

    def holding(self, offset: int, low: int = 0) -> int:
        """Index of the piece that holds a stream offset."""
        return bisect_right(self.ends, offset, low)

    def drop(self, offset: int) -> None:
        """Forget the pieces that end at or before a stream offset."""
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
"""Bytes of it that are kept to be looked at."""


@dataclass(slots=True)
class Span:
    """A stretch of a stream that becomes one record: a frame with gaps, or bytes that could not be decoded."""

    offset: int
    data: bytes = b""
    captured: int = 0
    missing: int = 0
    left: int = 0
    """Of a frame: bytes still to come."""
    packets: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Where in the stream what each of them carries begins."""
    ready: int = 0
    time_ns: int = 0
    first_ns: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, pieces: PacketMap, offset: int, size: int) -> None:
        """Add ``size`` captured bytes at a stream offset: their packets and times."""
        low = pieces.holding(offset)
        high = pieces.holding(offset + size - 1, low)
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


BLOCK_FRAMES = 24
BLOCK_BYTES = 8192
"""A stretch with fewer frames and fewer bytes is faster one by one than as a block (measured)."""
LEAST_BLOCK_BYTES = 1024
"""Nor is a block looked for in less."""


class Framer:
    """Cuts one direction into frames; they go to ``frames``, in stream order."""

    def __init__(
        self,
        direction: Direction,
        protocol: Cutter,
        frames: list[Any],
        in_step: bool,
    ) -> None:
        self.direction, self.protocol, self.frames = direction, protocol, frames
        self.in_step = in_step
        self.bulk: Bulk | None = None
        self.sync_at: int | None = None
        """Stream offset at which recognition found the first frame."""
        self.now = self.floor = 0
        """The packet of the latest event, and the one at which framing resumed: nothing is ready before."""
        self.later: deque[tuple[bytes, int]] = deque()
        """Bytes not yet looked at, packet by packet, with the packet that made them ready."""
        self.parts: list[bytes] = []
        self.base = 0
        """Stream offset of the first unread byte."""
        self.have = 0
        self.need = 0
        """Size of the frame at ``base``, once its header is known."""
        self.pieces = PacketMap()
        self.span: Span | None = None
        """The frame with gaps in it, or the undecoded bytes, being collected."""
        self.findings: list[Finding] = []
        """Findings for the next record, besides its own."""
        self.framed = self.undecoded = 0

    # Events.

    def chunk(self, chunk: Chunk) -> None:
        if self.span is not None and self.span.left:
            rest = self._continue(chunk)
            if rest is None:
                return
            chunk = rest
        if not self.have:
            self.base = chunk.offset
        if self.direction.first_ns is None:
            self.direction.first_ns, self.direction.first_at = int(chunk.time_ns[0]), int(chunk.ready[0])
        self.pieces.add(chunk)
        if self.in_step:
            self._append(chunk.data)
        else:
            self._queue(chunk.data, chunk.offset)
        self.advance()

    def gap(self, gap: Gap) -> None:
        self.now = gap.ready
        message = f"{gap.length} bytes {gap.reason} at stream offset {gap.offset}"
        lost = Finding("warning", "reassembly", "hole", message)
        self._interrupt()
        span = self.span
        if span is not None and span.left:
            inside = min(span.left, gap.length)
            span.missing += inside
            span.left -= inside
            span.findings.append(lost)
            if not span.left:
                self._close_span(PARTIAL, gap.ready)
                self.in_step = inside == gap.length
            return
        self.findings.append(lost)
        self.in_step = False

    def end(self, reason: str, ready: int) -> None:
        """The capture ends here, known from packet ``ready``: the rest is a partial frame or undecoded bytes."""
        self.now = ready
        self._interrupt()
        if self.span is not None and self.span.left:
            self._never_captured(self.span, reason, ready)

    def _never_captured(self, span: Span, reason: str, ready: int) -> None:
        message = f"{span.left} of {span.captured + span.missing + span.left} bytes were not captured: {reason}"
        span.findings.append(Finding("warning", "reassembly", "frame-cut", message))
        span.missing += span.left
        span.left = 0
        self._close_span(PARTIAL, ready)

    def closed(self, what: str, ready: int, time_ns: int = 0, beyond: int = 0) -> None:
        """Only ``beyond`` bytes were sent after it, known from packet ``ready``: the rest of a frame is not missing.

        ``what``: "the sender closed". ``time_ns``: when; 0: the frame keeps the time of its last byte.
        """
        self.now = ready
        self._interrupt("" if beyond else what, time_ns)
        if (span := self.span) is not None and 0 < span.left <= beyond:
            self._never_captured(span, what, ready)
        elif span is not None and span.left:
            span.missing += beyond
            span.left -= beyond
            sent = span.captured + span.missing
            lost = f", {span.missing} of which were not captured" if span.missing else ""
            message = f"{what} after {sent} of {sent + span.left} bytes{lost}"
            self._never_sent(span, message, ready, time_ns)

    def _never_sent(self, span: Span, message: str, ready: int, time_ns: int) -> None:
        span.time_ns = time_ns or span.time_ns
        span.findings.append(Finding("note", "reassembly", "closed-inside", message))
        span.left = 0
        self._close_span(PARTIAL, ready)
        self.in_step = False  # if more comes against all rules, it may be anything

    # In step.

    def advance(self) -> None:
        """Cut and search until more bytes are needed.

        Once step is lost the bytes are looked at packet by packet, so that what is found, and when, does not depend
        on how many of them are at hand. Once it is found, twice as many each time: it may be lost again.
        """
        packets = 1
        while True:
            if self.in_step:
                if self._cut():
                    self._queue_rest()
                    packets = 1
                    continue
                packets *= 2
            elif self._search(final=False):
                continue
            if not self.later:
                return
            for _ in range(min(packets, len(self.later))):
                data, self.now = self.later.popleft()
                self._append(data)

    def _queue(self, data: bytes, offset: int) -> None:
        pieces = self.pieces
        position = 0
        index = pieces.holding(offset)
        while position < len(data):
            stop = pieces.ends[index] - offset
            self.later.append((data[position:stop], pieces.ready[index]))
            position = stop
            index += 1

    def _queue_rest(self) -> None:
        """After a mistake: continue packet by packet."""
        if not self.have:
            return
        if self.pieces.ends[0] < self.base + self.have:
            data, behind = self._joined(), self.later
            self.parts, self.have, self.later = [], 0, deque()
            self._queue(data, self.base)
            self.later.extend(behind)
        else:
            self.now = max(self.now, self.pieces.ready[0])

    def _cut(self) -> bool:
        """Cut frames off the front; whether step was lost on the way."""
        if self.have < max(self.need, 1):
            return False
        data = self._joined()
        if self.bulk is not None and len(data) >= LEAST_BLOCK_BYTES:
            data = self._cut_blocks(data, self.bulk.cut(data))
        split = self.protocol.split(data) if self.base else self.protocol.split_first(data)
        if split.ends:
            self._emit_known(data, split) if split.known_at else self._emit(data, split.ends)
            self._consume(data, split.ends[-1])
        if split.then is not None:
            self.protocol, self.need = split.then, 0
            return self._cut()
        self.need = split.need
        if split.bad is None:
            return False
        self.findings.append(Finding("error", "malformed", "not-a-frame", split.bad))
        self.in_step, self.need = False, 0
        return True

    def _emit_known(self, data: bytes, split: Split) -> None:
        """Make frames; some were known only with the bytes after them: neither they nor others are ready before."""
        done = 0
        for index, place in (*split.known_at, (len(split.ends), 0)):
            if index > done:
                self._emit(data, split.ends[done:index], split.ends[done - 1] if done else 0)
            if place:
                self.floor = max(self.floor, self.pieces.ready[self.pieces.holding(self.base + place - 1)])
            done = index

    def _cut_blocks(self, data: bytes, cut: Cut) -> bytes:
        """Take the frames cut together off the front: long stretches of plain frames as blocks; return the rest."""
        if not len(cut.kinds):
            return data
        plain = cut.kinds != 0
        if self.findings:
            plain[0] = False  # the first frame will hold them
        edges = np.flatnonzero(np.diff(plain)) + 1
        starts = cut.starts
        low = 0
        rows: list[int] = []
        for high in (*edges.tolist(), len(plain)):
            if plain[low] and (high - low >= BLOCK_FRAMES or starts[high] - starts[low] >= BLOCK_BYTES):
                if rows:
                    self._emit(data, rows, int(starts[low - len(rows)]))
                    rows = []
                self._emit_block(data, cut, low, high)
            else:
                rows += starts[low + 1 : high + 1].tolist()
            low = high
        if rows:
            self._emit(data, rows, int(starts[low - len(rows)]))
        self._consume(data, int(starts[-1]))
        return self._joined() if self.have else b""

    def _emit_block(self, data: bytes, cut: Cut, low: int, high: int) -> None:
        from wiredecode.frames.block import FrameBlock

        assert self.bulk is not None
        pieces, starts, stops = self.pieces, cut.starts[low:high], cut.starts[low + 1 : high + 1]
        ends = np.array(pieces.ends)
        first = np.searchsorted(ends, self.base + starts, "right")
        last = np.searchsorted(ends, self.base + stops, "left")
        self.frames.append(
            FrameBlock(
                *(self.direction.connection, self.direction.side, data, self.base, starts, stops, cut.kinds[low:high]),
                {name: column[low:high] for name, column in cut.parts.items()},
                np.maximum(np.array(pieces.ready)[last], self.floor),
                np.array(pieces.ready_ns)[last],
                np.array(pieces.time_ns)[first],
                first,
                last,
                np.array(pieces.packet),
                self.bulk,
                self.protocol.name,
            )
        )
        self.framed += int(stops[-1] - starts[0])

    def _emit(self, data: bytes, ends: list[int], start: int = 0) -> None:
        """Make frames of the bytes from ``start`` that end at each of ``ends``."""
        pieces, base, out = self.pieces, self.base, self.frames
        piece_ends, packet, ready = pieces.ends, pieces.packet, pieces.ready
        ready_ns, time_ns = pieces.ready_ns, pieces.time_ns
        connection, side, floor = self.direction.connection, self.direction.side, self.floor
        first, begin, low, high = len(out), start, 0, 0
        for stop in ends:
            offset = base + start
            while piece_ends[low] <= offset:
                low += 1
            high = low
            while piece_ends[high] < base + stop:
                high += 1
            carriers = [packet[low]] if low == high else sorted({*packet[low : high + 1]})
            known = ready[high]
            if known < floor:
                known = floor
            size = stop - start
            frame = Frame(  # not by *(...), which takes a fifth longer
                connection, side, data, start, stop, offset, size, 0, carriers, known, ready_ns[high], time_ns[low]
            )
            if low < high:
                frame.cuts = piece_ends[low:high], packet[low : high + 1]
            out.append(frame)
            start = stop
        self.framed += ends[-1] - begin
        self._attach(out[first])

    def _attach(self, frame: Frame) -> None:
        if self.findings:
            frame.findings = [*frame.findings, *self.findings]
            self.findings = []

    # Searching.

    def _search(self, final: bool) -> bool:
        """Look for the next frame; whether the stream is in step again."""
        data = self._joined()
        if self.sync_at is not None and self.base <= self.sync_at < self.base + len(data):
            position, found = self.sync_at - self.base, True
        else:
            look = self.protocol.search if self.base else self.protocol.begin
            answer = look(data, final=final)
            position, found = answer.position, answer.found
        position = len(data) if final and not found else position
        if position:
            self._leave_undecoded(data, position)
        if found:
            if self.span is not None:
                self._close_span(UNDECODED, self.now)
            self.in_step, self.need, self.floor = True, 0, self.now
        return found

    def _leave_undecoded(self, data: bytes, length: int) -> None:
        """Take bytes that belong to no frame out of the buffer, and account for them."""
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

    def _interrupt(self, closed: str = "", time_ns: int = 0) -> None:
        """The contiguous bytes end here, or all that were sent: decide about the rest."""
        while self.have and not self.in_step and self._search(final=True):
            self._cut()
        known = self.need > self.have
        if self.have and self.in_step and (known or closed):
            data = self._joined()
            self.span = span = Span(self.base, data, left=self.need - len(data) if known else 0)
            span.add(self.pieces, self.base, len(data))
            self._consume(data, len(data))
            if not known:
                message = f"{closed} after {len(data)} bytes, too few for the size of a frame"
                self._never_sent(span, message, self.now, time_ns)
        elif self.have:
            data = self._joined()
            if self.in_step:
                message = f"{len(data)} bytes are too few for the size of a frame"
                self.findings.append(Finding("warning", "reassembly", "header-cut", message))
            self._leave_undecoded(data, len(data))
        self.need = 0
        if self.span is not None and not self.span.left:
            self._close_span(UNDECODED, self.now)

    def _continue(self, chunk: Chunk) -> Chunk | None:
        """Bytes after a gap that still belong to the frame before it; return the bytes after the frame."""
        span = self.span
        assert span is not None
        size = min(span.left, len(chunk.data))
        self.pieces.add(chunk)
        span.add(self.pieces, chunk.offset, size)
        span.left -= size
        stop = chunk.offset + size
        self.pieces.clear()  # the caller adds the rest again
        if span.left:
            return None
        self._close_span(PARTIAL, span.ready)
        self.in_step = True
        if size == len(chunk.data):
            return None
        keep = slice(int(np.searchsorted(chunk.ends, stop, "right")), None)
        return Chunk(chunk.direction, stop, chunk.data[size:], **{name: getattr(chunk, name)[keep] for name in COLUMNS})

    def _close_span(self, status: str, ready: int) -> None:
        span, self.span = self.span, None
        assert span is not None
        frame = Frame(
            *(self.direction.connection, self.direction.side, span.data, 0, len(span.data)),
            *(span.offset, span.captured + span.missing, span.missing, sorted({*span.packets})),
            *(max(span.ready, ready), span.time_ns, span.first_ns or 0, status),
            is_cut=status == PARTIAL,
            protocol=self.protocol.name,
            cuts=(span.begins[1:], span.packets),
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
        self.parts.append(data)
        self.have += len(data)

    def _joined(self) -> bytes:
        if len(self.parts) != 1:
            self.parts = [b"".join(self.parts)]
        return self.parts[0]

    def _consume(self, data: bytes, length: int) -> None:
        self.have -= length
        self.base += length
        self.parts = [data[length:]] if self.have else []
        self.pieces.drop(self.base)
