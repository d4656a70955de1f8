"""One direction of a TCP connection: segments in, contiguous bytes and gaps out (RFC 9293 section 3.10.7.4).

Of retransmitted bytes the first copy is kept. Positions are stream offsets, which do not wrap: `Reassembler.segment`
converts the sequence number.
"""

from bisect import bisect_left
from collections import Counter, deque

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import dataclass, field
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import END, logical_time, packet_of
from wiredecode.net.reorder import AckHistory, Acks, Arrival, Origin, PastGap, ReorderQueue, tail
from wiredecode.net.segments import MASK, RST, FlowKey, advance, distance
from wiredecode.net.types import Chunk, Connection, Direction, End, Event, Gap, Note

NOT_CAPTURED = "not captured"
TRUNCATED = "cut by snapshot length"
NOTHING_NOTED: frozenset[str] = frozenset()


@dataclass(slots=True)
class ReassemblyContext:
    """State that all streams of a capture share."""

    limits: Limits
    limits_hit: Counter[str]
    with_gap: "dict[Reassembler, None]" = field(default_factory=dict)
    """Streams with segments that wait for a gap to be filled, or for the other direction."""
    clock: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    number: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """The capture clock at each packet being processed, and their numbers."""
    until: int = 0
    """Number of the packet before which all packets have been processed."""

    first_ns: int | None = None
    """The capture clock at the first packet."""

    @property
    def first(self) -> int:
        """Logical time of the first packet being processed."""
        return logical_time(int(self.number[0]))

    def begin(self, clock: Int64s, number: Int64s) -> None:
        """Start the next packets: the capture clock at each, and their numbers."""
        self.first_ns = int(clock[0]) if self.first_ns is None else self.first_ns
        self.clock, self.number, self.until = clock, number, int(number[-1]) + 1

    def number_after(self, clock: int) -> int:
        """The first packet being processed after ``clock``, ns of the capture clock; or the one after them."""
        first = int(np.searchsorted(self.clock, min(clock, END), "right"))
        number = int(self.number[first]) if first < len(self.number) else self.until
        return min(number, self.until)


class Reassembler:
    """Reassembly of one direction. Events go to the list given to each call, in stream order.

    A gap is given up `Limits.gap_seconds` after the other side acknowledged its bytes, because capture queues reorder
    packets, or when the buffered bytes or segments reach a limit. If no packet of the other side was captured, the time
    counts from the first segment after the gap.
    """

    __slots__ = (
        *("_acks", "_queue", "_released", "_ended", "_fin", "_fin_origin", "_held", "_history"),
        *("_past_gaps", "_noted", "_opened", "_part_offset", "_parts", "_pieces", "_ready", "_ready_ns", "_reset"),
        *("_reset_seq", "_shared", "acked_by", "answered", "base", "direction", "held_segments", "gap_ns", "isn"),
        *("limits", "given_up", "offset", "gap_ended", "ack_history", "reset_ack"),
    )

    def __init__(self, direction: Direction, shared: ReassemblyContext, acked_by: FlowKey) -> None:
        self.direction = direction
        self.acked_by = acked_by
        """The flow of the other side."""
        self.answered: int | None = None
        """The connection clock at the first packet of the other side, ns."""
        self.isn: int | None = None
        """Initial sequence number, once a SYN was seen."""
        self.base: int | None = None
        """Sequence number of stream offset 0, once known. It may change while the stream is `untouched`."""
        self.offset = 0
        """Stream offset of the next byte expected."""
        self.given_up = 0
        """Position before which missing bytes are no longer awaited: they were acknowledged long ago."""
        self.ack_history: AckHistory | None = None
        """ACKs in held segments of the other side."""
        self.limits = limits = shared.limits
        self.gap_ns = int(limits.gap_seconds * 1e9)
        self.held_segments = 0
        """Segments of this direction that wait for the other one (see `AckHold`)."""
        self._held = 0  # their captured bytes
        self._shared = shared
        self._ready = self._ready_ns = 0
        self.gap_ended = 0
        """Logical time at which the last gap was given up: later bytes are ready then or later."""
        self._parts: list[bytes] | None = None  # delivered, not yet a Chunk
        self._pieces: list[tuple[int, int, int, int, int]] | None = None  # end, packet, time, ready, ready time of each
        self._part_offset = 0
        self._history = b""  # the bytes before _part_offset
        self._queue: ReorderQueue | None = None  # segments that wait after gaps ...
        self._opened: Origin | None = None  # ... since this,
        self._acks: Acks | None = None  # and the acknowledgements since
        self._released: list[tuple[int, int, int]] | None = (
            None  # position, ready, ready time of the bytes after the last gap
        )
        self._past_gaps: deque[PastGap] | None = None
        self._fin: int | None = None  # position after the last byte
        self._fin_origin: Origin | None = None
        self._reset: Origin | None = None
        self._reset_seq = 0
        self.reset_ack = -1
        """Acknowledgment number of a reset by the other side."""
        self._ended = False
        self._noted = NOTHING_NOTED

    @property
    def connection(self) -> Connection:
        """The connection that it is a direction of."""
        return self.direction.connection

    @property
    def untouched(self) -> bool:
        """Whether no byte was captured yet."""
        return self.offset == 0 and self._queue is None

    @property
    def has_sent(self) -> bool:
        """Whether a SYN or payload of the sender was captured."""
        return self.isn is not None or not self.untouched

    @property
    def reach(self) -> int:
        """Position of the next byte expected; a FIN counts as one byte."""
        return self.offset + (self._fin is not None and self._fin <= self.offset)

    def expected(self) -> int:
        """The next sequence number (RCV.NXT of the receiver); -1 if unknown."""
        return -1 if self.base is None else self.base + self.reach & MASK

    @property
    def buffered(self) -> int:
        """Captured bytes in the queue after gaps, and in held segments."""
        return self._held + self._queue.size if self._queue is not None else self._held

    @property
    def opened_at(self) -> int:
        """The last packet before the first gap opened."""
        opened = self._opened  # by a packet, or by the end of another wait before it
        return 0 if opened is None else max(packet_of(opened.ready), packet_of(opened.ended) - 1)

    @property
    def has_gap(self) -> bool:
        """Whether bytes are missing before a captured segment or FIN."""
        return self._queue is not None

    def oldest(self) -> Arrival | None:
        """The segment that has waited longest after a gap."""
        return self._queue.oldest(self.offset) if self._queue is not None else None

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits, and no FIN or reset came."""
        return self._queue is None and self._fin is None and self._reset is None and not self.held_segments

    def in_order(self, seq: int) -> bool:
        """Whether a segment that starts at ``seq`` comes next, without a gap, FIN or reset before."""
        if self._queue is not None or self._fin is not None or self._reset is not None:
            return False
        return self.base is None or (self.base + self.offset) & MASK == seq

    def is_ack_ahead(self, ack: int) -> bool:
        """Whether ``ack`` acknowledges bytes that were not captured yet (Wireshark: ACKed unseen segment)."""
        return self.base is not None and distance(self.base + self.offset, ack) > 0

    def extend(self, seq: int, data: bytes, number: int, time_ns: int, ready: int, ready_ns: int) -> None:
        """Deliver a segment that was captured whole and is `in_order`."""
        if self.base is None:
            self.base = seq
        self.direction.captured += len(data)
        if ready > self._ready:
            self._ready, self._ready_ns = ready, ready_ns
        self._append(data, number, time_ns)

    def extend_run(
        self, data: bytes, lengths: Int64s, number: Int64s, time_ns: Int64s, ready_ns: Int64s, out: list[Event]
    ) -> None:
        """Deliver the ``data`` of segments for which `extend` would do; each packet completed its own bytes."""
        self.flush(out)
        ready = logical_time(number)
        newer = ready > self._ready
        ready_ns = np.where(newer, ready_ns, self._ready_ns)
        times = np.maximum(ready, max(self._ready, self.gap_ended)), ready_ns
        out.append(Chunk(self.direction, self.offset, data, self.offset + np.cumsum(lengths), number, time_ns, *times))
        self.direction.captured += len(data)
        self.offset += len(data)
        self._ready, self._ready_ns = max(self._ready, int(ready[-1])), int(ready_ns[-1])
        self._keep_history(data)

    def segment(self, seq: int, data: bytes, length: int, origin: Origin, out: list[Event]) -> None:
        """Deliver or buffer a segment of ``length`` > 0 bytes on the wire, of which ``data`` was captured.

        Bytes before the next expected one are retransmissions, and are dropped.
        """
        if self.base is None:
            self.base = seq
        self.direction.captured += len(data)
        ahead = distance(advance(self.base, self.offset), seq)
        if abs(ahead) > self.limits.window_bytes:
            self.direction.ignored += len(data)
            self._note("out-of-window", f"segment {ahead} bytes from the next expected byte ignored", origin, out)
            return
        start = self.offset + ahead
        end = start + length
        beyond = self._reset is not None and distance(self._reset_seq, advance(seq, length)) > 0
        if beyond and end > self.offset:  # else the reset has overtaken it
            self._note("data-after-reset", "data after a reset by the same sender", origin, out, once=True)
        if self._fin is not None and end > self._fin and self._is_after_fin(start, length, data, origin, out):
            return
        if start < self.offset:
            self._count_retransmitted(start, data[: self.offset - start], origin, out)
            if end <= self.offset:
                return
            data = data[self.offset - start :]
            start = self.offset
        if start == self.offset and self._queue is None:
            self._deliver(data, end, origin, out)
        else:
            self._buffer(start, end, data, origin, out)
            self._drain(out)
            self._enforce_limits(origin, out)

    def fin(self, seq: int, origin: Origin, out: list[Event]) -> None:
        """The stream ends before ``seq`` (the FIN's own sequence number, after its payload)."""
        if self.base is None:
            self.base = seq
        self.gap_ended = max(self.gap_ended, origin.ended)
        ahead = distance(advance(self.base, self.offset), seq)
        if self._fin is not None or not 0 <= ahead <= self.limits.window_bytes:
            return
        self._fin, self._fin_origin = self.offset + ahead, origin
        if ahead:
            self._open_gap(origin).mark(self._fin, origin, self.offset)
        self._emit_end(out)

    def reset(self, seq: int, origin: Origin, out: list[Event]) -> None:
        """The sender reset the connection at ``seq``."""
        self._reset, self._reset_seq = (self._reset, self._reset_seq) if self._reset else (origin, seq)
        if self._acks is not None:
            self._acks.end(origin.clock)
        self._emit_end(out)

    def acknowledge(self, ack: int, flags: int, number: int, clock: int) -> None:
        """Note an ACK, or a reset, in packet ``number`` of the other side; ``clock``: the connection clock, ns."""
        if self._acks is None or number <= self.opened_at:
            return
        if flags & RST:
            self._acks.end(clock)
        else:
            self._acks.add(ack, clock)

    def ignore(self, size: int, origin: Origin, code: str, message: str, out: list[Event]) -> None:
        """Count captured payload that does not belong to the stream."""
        self.direction.captured += size
        self.direction.ignored += size
        self._note(code, message, origin, out)

    def may_expire(self, clock: float) -> bool:
        """Whether the first gap can have expired at ``clock``: a fast check before `deadline`."""
        return self._opened is not None and clock > self._opened.clock + self.gap_ns

    def deadline(self) -> int | None:
        """The connection clock, ns, after which the first gap is given up; None: not known yet."""
        queue, acks = self._queue, self._acks
        if queue is None or acks is None:
            return None
        since = acks.since(self._gap_end(queue))
        oldest = queue.oldest(self.offset)
        if oldest is not None and (self.answered is None or self.answered > oldest.origin.clock + self.gap_ns):
            since = oldest.origin.clock  # no packet of the other side, which could acknowledge
        if since is None or self._opened is None:
            return None
        return max(since, self._opened.clock) + self.gap_ns

    def _gap_end(self, queue: ReorderQueue) -> int:
        end = self._fin if queue.first is None else queue.first.start
        assert end is not None
        return end

    def finish(self, cause: Origin, out: list[Event]) -> None:
        """End of the connection: give up every gap at ``cause``."""
        while self._queue is not None:
            self.give_up(cause, out)
        if self._parts is not None:
            self.flush(out)

    def give_up(self, cause: Origin, out: list[Event]) -> None:
        """Give up the first gap because of ``cause``; there must be one.

        Bytes after it are ready then, but keep the time of their own packets, because the sender did not wait.
        """
        assert self._queue is not None
        origin = self._fin_origin if self._queue.first is None else self._queue.first.origin
        assert origin is not None
        self.gap_ended = max(self.gap_ended, cause.at)
        self._now_ready(origin)
        since = (self._queue.oldest(self.offset) or Arrival(0, origin)).origin.ready_ns
        shown = since if self.ack_history is None else self.ack_history.since(self.offset, since)
        self._emit_gap(self._gap_end(self._queue), NOT_CAPTURED, out, shown)
        self._drain(out)

    def limit_reached(self, name: str, origin: Origin, out: list[Event], cost: str = "gap given up") -> None:
        """Count a limit of `Limits` that was reached, and note it; ``cost``: the consequence, for people."""
        self._shared.limits_hit[name] += 1
        limit = getattr(self.limits, name)
        self._note("limit-reached", f"{cost}: more than {limit} ({name}) waiting", origin, out)

    def over_budget(self) -> str | None:
        """Name of the limit that the waiting segments exceed, or None."""
        if self.buffered > self.limits.buffered_bytes:
            return "buffered_bytes"
        segments = self.held_segments + (len(self._queue) if self._queue is not None else 0)
        return "buffered_segments" if segments > self.limits.buffered_segments else None

    def hold(self, size: int) -> None:
        """Count a held segment with ``size`` captured bytes."""
        self._held += size
        self.held_segments += 1
        self._shared.with_gap[self] = None

    def release_held(self, size: int) -> None:
        """Count a held segment of ``size`` bytes that was released."""
        self._held -= size
        self.held_segments -= 1
        if not self.held_segments and self._queue is None:
            del self._shared.with_gap[self]

    def origin_after(self, origin: Origin, cause: Origin, awaited: int) -> Origin:
        """``origin`` of a held segment of the other side, that waited until ``cause`` for position ``awaited``."""
        released, reached = self._released, (self._ready, self._ready_ns)
        if released and awaited <= released[-1][0]:  # after a gap was given up, each segment keeps its own time
            reached = released[bisect_left(released, (awaited, 0, 0))][1:]
        ready, ready_ns = max((origin.ready, origin.ready_ns), (cause.ready, cause.ready_ns), reached)
        ended = max(origin.ended, cause.ended, self.gap_ended)
        return Origin(origin.number, origin.time_ns, ready, ready_ns, max(origin.clock, cause.clock), ended)

    def flush(self, out: list[Event]) -> None:
        """Make a Chunk of the bytes delivered since the last one."""
        if self._parts is None or self._pieces is None:
            return
        data = b"".join(self._parts)
        ends, packet, time_ns, ready, ready_ns = np.array(list(zip(*self._pieces, strict=True)), np.int64)
        out.append(Chunk(self.direction, self._part_offset, data, ends, packet, time_ns, ready, ready_ns))
        self._parts = self._pieces = None
        self._keep_history(data)

    def _keep_history(self, data: bytes) -> None:
        keep = self.limits.history_bytes
        history = data if len(data) >= keep else self._history + data
        self._history = history[max(len(history) - keep, 0) :]
        self._part_offset = self.offset

    def _deliver(self, data: bytes, end: int, origin: Origin, out: list[Event]) -> None:
        """Append bytes [offset, end); those missing in ``data`` were truncated by the snapshot length."""
        self._now_ready(origin)
        if data:
            self._append(data, origin.number, origin.time_ns)
        if self.offset < end:
            self._emit_gap(end, TRUNCATED, out)

    def _append(self, data: bytes, number: int, time_ns: int) -> None:
        self.offset += len(data)
        piece = self.offset, number, time_ns, max(self._ready, self.gap_ended), self._ready_ns
        if self._parts is None or self._pieces is None:
            self._parts, self._pieces = [data], [piece]
        else:
            self._parts.append(data)
            self._pieces.append(piece)

    def _now_ready(self, origin: Origin) -> None:
        if origin.ready > self._ready:
            self._ready, self._ready_ns = origin.ready, origin.ready_ns
        self.gap_ended = max(self.gap_ended, origin.ended)

    def _emit_gap(self, target: int, reason: str, out: list[Event], shows_ns: int | None = None) -> None:
        self.flush(out)
        length, ready = target - self.offset, max(self._ready, self.gap_ended)
        out.append(Gap(self.direction, self.offset, length, reason, ready, self._ready_ns))
        self.direction.missing += length
        self.direction.first_gap = self.direction.first_gap or ready
        since = min(ready, self._opened.at if self._opened else ready)
        self.direction.lose(since, self.offset, shows_ns, ready, self._shared.first)
        if self._past_gaps is None:
            self._past_gaps = deque(maxlen=self.limits.remembered_gaps)
        self._past_gaps.append(PastGap(self.offset, target))
        self.offset = self._part_offset = target
        self._history = b""

    def _open_gap(self, origin: Origin) -> ReorderQueue:
        if self._queue is None:
            assert self.base is not None
            self._queue, self._opened = ReorderQueue(), origin
            self._acks = Acks(self.base, self.offset, self.limits)
            self._shared.with_gap[self] = None
            self.direction.gaps.open(origin.at, self._shared.first)
        return self._queue

    def _buffer(self, start: int, end: int, data: bytes, origin: Origin, out: list[Event]) -> None:
        for overlap in self._open_gap(origin).add(start, end, data, origin, self.offset):
            captured = len(overlap.first)
            self.direction.duplicate += captured
            self.direction.late += len(overlap.again) - captured
            if end - start > 1 and overlap.again[:captured] != overlap.first:
                self._note_difference(overlap.position, origin, out)

    def _drain(self, out: list[Event]) -> None:
        queue = self._queue
        if queue is None:
            return
        released = self._released = []
        while (piece := queue.pop(self.offset)) is not None:
            self._deliver(piece.data, piece.end, piece.origin, out)
            released.append((self.offset, self._ready, self._ready_ns))
        if not len(queue) and (self._fin is None or self._fin <= self.offset):
            self._queue = self._opened = self._acks = None
            self.direction.gaps.close(max(self._ready, self.gap_ended))
            if not self.held_segments:
                del self._shared.with_gap[self]
            self._emit_end(out)
        elif self._acks is not None:
            self._acks.forget(self.offset)

    def _emit_end(self, out: list[Event]) -> None:
        """Emit the End of the stream once all bytes before it were delivered or given up."""
        if self._ended or self._queue is not None or not self.offset:
            return
        origin = self._fin_origin if self._fin is not None and self._fin <= self.offset else self._reset
        if origin is not None:
            self._ended = True
            self.flush(out)
            how = "FIN" if origin is self._fin_origin else "RST"
            ready, ready_ns = max((origin.ready, origin.ready_ns), (self._ready, self._ready_ns))
            ready = max(ready, self.gap_ended, origin.ended)
            beyond = self.before_reset() if how == "RST" else 0
            out.append(End(self.direction, self.offset, how, ready, ready_ns, beyond))

    def before_reset(self) -> int:
        """Bytes that the sequence number of a reset shows to be missing before it."""
        return 0 if self._reset is None else self._beyond(self._reset_seq)

    def before_end(self) -> int:
        """The same, also of a reset by the other side, which acknowledges them."""
        if self._reset is None and self.reset_ack < 0:
            return 0
        return self.before_reset() or (0 if self.reset_ack < 0 else self._beyond(self.reset_ack))

    def _beyond(self, seq: int) -> int:
        ahead = distance(self.expected(), seq)  # one byte may be a FIN
        return ahead if 1 < ahead <= self.limits.window_bytes else 0

    def _enforce_limits(self, origin: Origin, out: list[Event]) -> None:
        while self._queue is not None and self._gap_end(self._queue) <= self.given_up:
            self.give_up(origin, out)
        while self._queue is not None and (name := self.over_budget()) is not None:
            self.limit_reached(name, origin, out)
            self.give_up(origin, out)

    def _count_retransmitted(self, start: int, data: bytes, origin: Origin, out: list[Event]) -> None:
        """Count bytes before the next expected one: duplicates, or late bytes for a gap that was given up."""
        end = start + len(data)
        late = 0
        if start < 0 < len(data):
            late = min(end, 0) - start
            self._note("late-data", "bytes from before the start of the stream", origin, out, 0, once=True)
        for gap in self._past_gaps or ():
            shared = min(end, gap.end) - max(start, gap.start)
            if shared > 0:
                late += shared
                if not gap.noted:
                    gap.noted = True
                    message = f"bytes for the gap of {gap.end - gap.start} bytes after it was given up"
                    self._note("late-data", message, origin, out, gap.start)
        self.direction.late += late
        self.direction.duplicate += len(data) - late
        # One byte is a keep-alive or window probe, whose content is arbitrary (RFC 9293 section 3.8.4).
        if len(data) > 1:
            begin = max(start, self.offset - self.limits.history_bytes)
            recent = tail(self._history, self._parts or [], self.offset - begin)
            begin = self.offset - len(recent)
            if begin < end and data[max(begin - start, 0) :] != recent[max(start - begin, 0) : end - begin]:
                self._note_difference(max(start, begin), origin, out)

    def _is_after_fin(self, start: int, length: int, data: bytes, origin: Origin, out: list[Event]) -> bool:
        """Data at or after the FIN; True for a keep-alive probe (at the FIN's number), which is dropped."""
        if length == 1 and start == self._fin:
            self.direction.duplicate += len(data)
            return True
        self._note("data-after-fin", "data after the end of the stream", origin, out, once=True)
        return False

    def _note_difference(self, position: int, origin: Origin, out: list[Event]) -> None:
        message = "retransmitted bytes differ from the first copy, which was kept"
        self._note("overlap-differs", message, origin, out, position)

    def _note(
        self, code: str, message: str, origin: Origin, out: list[Event], position: int | None = None, once: bool = False
    ) -> None:
        if not once or code not in self._noted:
            offset = self.offset if position is None else position
            out.append(Note(self.direction, max(offset, 0), origin.at, code, message))
            self._noted |= {code} if once else set()
