"""Appends of a connection in the protocol that releases speak: writers, blocks of events, acknowledgements."""

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import ALL, REFUSED, Answer, Confirmation, Frame
from wiredecode.protocols.pravega.conversation_pairing import DialectReader, SegmentRequest
from wiredecode.protocols.pravega.layers import HEADER
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE, escape_surrogates
from wiredecode.protocols.pravega.messages import Events, SegmentEvents, SegmentReader, SegmentReaders, Single, walk
from wiredecode.protocols.shared.pairing import MAX_OUTSTANDING, Newest
from wiredecode.protocols.shared.publications import confirm_all

MAX_WRITERS = 4096
"""Writers remembered per connection; Java clients set up at most 2000."""
BLOCK_FRONT = 24
"""Bytes of an AppendBlock before its data."""
REFUSED_IN_BLOCK = frozenset({"SetupAppend", "AppendBlock", "ConditionalAppend", "ConditionalBlockEnd", "Padding"})

PADDING, PARTIAL_EVENT = -1, -2
TAILS = {PADDING: "Padding", PARTIAL_EVENT: "PartialEvent"}
"""Endings of a block."""


@dataclass(slots=True)
class Block:
    """An AppendBlock that was not ended yet."""

    writer: bytes
    data: bytes | None
    """None: not all of it was captured."""
    frame: int
    front: bytes = b""
    """Captured bytes in front of the gap, if not all were captured."""


@dataclass(slots=True)
class Rebuilt:
    """The bytes of an append, or why there are none: a finding's code and message."""

    data: bytes | None
    problem: tuple[str, str] | None = None
    tail: str | None = None
    """Ending of the block, of :data:`TAILS`."""


@dataclass(slots=True)
class AppendWriter:
    """Facts from SetupAppend about a writer, and the appends that wait to be acknowledged."""

    segment: str
    last_event: int = 0
    pending: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_OUTSTANDING))
    sealed: Answer | None = None
    """The segment was sealed: the server accepts no more appends of this writer, and answers none."""


class Appends(DialectReader):
    """State of the writers of one connection."""

    def __init__(self, whole: bool) -> None:
        super().__init__(whole)
        self.writers: Newest[bytes, AppendWriter] = Newest(MAX_WRITERS)
        self.block: Block | None = None
        self.slices = SegmentReaders()
        self.damage = [0, 0]
        """By side: how often frames were lost or truncated."""

    def _request(
        self, frame: Frame, name: str, offset: int | None = None, segment: str | None = None
    ) -> SegmentRequest:
        values = frame.values
        if segment is None:
            segment = values.get("segment", values.get("segment_name"))
        return SegmentRequest(frame.id, frame.time_ns, name, segment, offset, group(values, segment))

    def _resolve_writer(self, frame: Frame) -> AppendWriter | None:
        """Name the segment of a writer."""
        number = writer_id(frame.values)
        writer = self.writers.get(number) if number is not None else None
        if writer is not None:
            frame.generate("segment", escape_surrogates(writer.segment))
        elif number is not None and self.whole and frame.all_seen():
            frame.find("warning", "protocol", "not-set-up", "the writer was not set up on this connection", "writer_id")
        return writer

    def _setup(self, frame: Frame) -> None:
        values = frame.values
        number = writer_id(values)
        if number is None:
            return
        if "segment" not in values:
            self.writers.pop(number, None)  # it writes to another one now
            return
        self.writers.put(number, AppendWriter(values["segment"]))
        self.outstanding.add(frame, ("setup", number), self._request(frame, "SetupAppend"))

    def _setup_reply(self, frame: Frame) -> None:
        values = frame.values
        number = writer_id(values)
        if number is None:
            return
        request = self.outstanding.pop(("setup", number))
        if request is not None and request.group != group(values, request.segment):
            request = None  # of the same writer, but another one
        self.link(frame, request)
        if number not in self.writers and "segment" in values:
            self.writers.put(number, AppendWriter(values["segment"]))

    def _report_open_block(self, frame: Frame, name: str) -> None:
        assert self.block is not None
        if name in REFUSED_IN_BLOCK:
            message = f"the block of frame {self.block.frame} was never ended"
            frame.find("error", "protocol", "block-not-ended", message)
            self.block = None if name == "AppendBlock" else self.block
        else:
            message = f"the block of frame {self.block.frame} is still open"
            frame.find("note", "protocol", "block-open", message)

    def _begin_block(self, frame: Frame) -> None:
        self._resolve_writer(frame)
        values = frame.values
        self.blind = False
        data = None if frame.is_partial or "data" not in values else values["data"]
        front = frame.buffer[frame.start + BLOCK_FRONT : frame.stop] if data is None and "writer_id" in values else b""
        self.block = Block(values.get("writer_id", b""), data, frame.id, front)

    def _end_block(self, frame: Frame) -> None:
        writer = self._resolve_writer(frame)
        block, self.block = self.block, None
        blind, self.blind = self.blind, False
        values = frame.values
        if frame.is_partial or "last_event_number" not in values or "size_of_whole_events" not in values:
            return
        if "num_events" not in values and "data" not in values:
            return
        self._expect_ack(frame, writer, "AppendBlockEnd", values["last_event_number"])
        self._check_numbers(frame, writer)
        rebuilt = self._joined_block(frame, block, blind)
        if rebuilt.problem is not None:
            frame.find("error", "protocol", rebuilt.problem[0], rebuilt.problem[1], "size_of_whole_events")
        if rebuilt.data is not None:
            self._split_events(frame, rebuilt.data, values["last_event_number"], values.get("num_events"))

    def _joined_block(self, frame: Frame, block: Block | None, blind: bool) -> Rebuilt:
        values = frame.values
        rest, whole = values["data"] or b"", values["size_of_whole_events"]
        if block is None:
            if blind and whole != len(rest):
                frame.find("note", "reassembly", "block-missing", "the AppendBlock before it was not captured")
                return Rebuilt(None)
            return Rebuilt(rest)
        frame.generate("block", block.frame)
        if block.writer != writer_id(values):
            message = f"the block of frame {block.frame} is of another writer"
            return Rebuilt(None, ("block-writer", message))
        if block.data is None:
            message = f"the block of frame {block.frame} was not captured whole"
            frame.find("note", "reassembly", "block-missing", message)
            self._add_front(block.front[: max(0, whole)])
            return Rebuilt(None)
        rebuilt = rebuild(block.data, whole, rest)
        if rebuilt.tail is not None:
            frame.generate("tail", rebuilt.tail)
        return rebuilt

    def _add_front(self, front: bytes) -> None:
        """The events in front of a gap; what the others are, and so their numbers, is not known."""
        walked = walk(front)
        if walked.sound and walked.bounds:
            self.events = Events(front, walked.bounds)

    def _check_numbers(self, frame: Frame, writer: AppendWriter | None) -> None:
        values = frame.values
        if values.get("num_events", 1) <= 0:
            message = f"{values['num_events']} events: the server closes the connection"
            frame.find("error", "protocol", "event-count", message, "num_events")
        if writer is not None and values["last_event_number"] < writer.last_event:
            message = f"event number {values['last_event_number']} comes after {writer.last_event}"
            frame.find("error", "sequence", "event-number", message, "last_event_number")
        elif writer is not None:
            writer.last_event = values["last_event_number"]

    def _expect_ack(self, frame: Frame, writer: AppendWriter | None, name: str, number: int) -> None:
        """An append: its acknowledgement names the writer and the number of its last event."""
        segment = writer.segment if writer is not None else None
        identity = writer_id(frame.values)
        if writer is not None and writer.sealed is not None:
            frame.expects_response, frame.response, frame.outcome = True, writer.sealed.frame, REFUSED
            frame.answers = (writer.sealed,)
            return
        request = self._request(frame, name, number, segment)
        request.writer, request.damage = identity, self.damage[1 - frame.side]
        request.events = frame.values.get("num_events") if name == "AppendBlockEnd" else 1
        self.outstanding.add(frame, ("append", identity, number), request)
        if writer is not None:
            writer.pending.append(number)

    def _split_events(self, frame: Frame, data: bytes, last: int, count: int | None) -> None:
        """Divide the bytes of an append into events; bytes that are not framed stay as they are."""
        frame.generate("append_length", len(data))
        walked = walk(data)
        if walked.position != len(data) or not walked.sound:
            self.raw = data
            frame.generate("framed", False)
            return
        walked_count = len(walked.bounds)
        frame.generate("event_count", walked_count)
        first = last - walked_count + 1
        numbered = count in (None, walked_count) and first >= NO_VALUE
        self.events = Events(data, walked.bounds, base=first if numbered else None) if walked_count else None

    def _conditional_append(self, frame: Frame) -> None:
        """ConditionalAppend: one event, with its header or, long ago, as a blob that holds both."""
        writer, values = self._resolve_writer(frame), frame.values
        if frame.is_partial or not ("event" in values or "data" in values):
            return
        number = values["event_number"]
        self._expect_ack(frame, writer, "ConditionalAppend", number)
        if "event" in values and "data" in values["event"]:
            self.single = Single(values["event"]["data"], number, values["expected_offset"])
            frame.generate("append_length", 8 + len(values["event"]["data"]))
            frame.generate("event_count", 1)
        elif "data" in values:
            self._split_events(frame, values["data"], number, 1)

    def _conditional_block(self, frame: Frame) -> None:
        """Bytes for an exact offset: events may continue from one block to the next."""
        writer, values = self._resolve_writer(frame), frame.values
        if frame.is_partial or "data" not in values:
            return
        self._expect_ack(frame, writer, "ConditionalBlockEnd", values["event_number"])
        data = values["data"] or b""
        frame.generate("append_length", len(data))
        reader, piece = self.slices.feed(
            (values["writer_id"], writer and writer.segment), values["expected_offset"], data
        )
        self._report_segment_piece(frame, reader, piece)

    def _appended(self, frame: Frame) -> None:
        """Acknowledges every append of the writer up to its event number."""
        writer, values = self._resolve_writer(frame), frame.values
        number = values.get("event_number")
        identity = values.get("writer_id")
        if number is None:
            return
        before = values.get("previous_event_number", NO_VALUE)
        own = (key[2] for key, _ in self.outstanding.items() if key[:2] == ("append", identity))
        earlier = (each for each in own if before < each < number)  # of a writer that was set up before the capture
        pending = deque([*earlier, number]) if writer is None else writer.pending
        while pending and pending[0] <= before < number:  # their acknowledgement was not captured
            self.outstanding.pop(("append", identity, pending.popleft()))
        taken: list[SegmentRequest] = []
        events = 0
        while pending and pending[0] <= number:
            request = self.outstanding.pop(("append", identity, pending.popleft()))
            events += 1 if request is None else request.events or 0  # a conditional one was refused
            if request is not None and (request.offset == number or not self._may_be_refused(frame, request)):
                taken.append(request)
        # An append that was lost or truncated may be among them, unless the event numbers add up.
        complete = frame.all_seen(1 - frame.side) and not self.damage[1 - frame.side]
        if len(taken) > 1 and (events == number - before if NO_VALUE < before < number else complete):
            frame.generate("acknowledged_appends", len(taken))
        if taken:
            confirm_all(frame, taken)
        elif self.whole and number != NO_VALUE and frame.all_seen(1 - frame.side):
            frame.find("note", "protocol", "no-request", "no append for this acknowledgement was captured")

    def _may_be_refused(self, frame: Frame, request: SegmentRequest) -> bool:
        """Whether a conditional append may have been refused by a reply that was lost or truncated."""
        return request.type != "AppendBlockEnd" and request.damage != self.damage[frame.side]

    def _seal(self, frame: Frame, request: SegmentRequest) -> None:
        """The server refuses an append to a sealed segment, and does not answer those that follow it."""
        writer, number = self.writers.get(request.writer or b""), request.offset or 0
        if writer is None and request.writer:  # it was set up before the capture
            writer = self.writers.get_or_make(request.writer, lambda: AppendWriter(frame.values.get("segment", "")))
        refused = [request]
        if writer is not None:
            pending, writer.pending = writer.pending, deque(maxlen=MAX_OUTSTANDING)
            writer.pending.extend(each for each in pending if each < number)
            after = [self.outstanding.pop(("append", request.writer, each)) for each in pending if each > number]
            refused += [each for each in after if each is not None]
            confirmation = Confirmation(frame.id, 0, ALL, frame.refusal, REFUSED)
            writer.sealed = Answer(confirmation, frame.id, frame.time_ns)
        confirm_all(frame, refused, frame.refusal)

    def _report_segment_piece(self, frame: Frame, reader: SegmentReader, piece: SegmentEvents) -> None:
        self.report_events(frame, reader, piece)
        if piece.note == "seen":
            frame.find("note", "sequence", "read-again", "these bytes of the segment were read before")
        elif piece.note == "gap":
            frame.find("note", "sequence", "read-gap", "bytes of the segment before these were not read here")
        elif piece.note == "too-large":
            message = "an event is larger than the buffer of unfinished events"
            frame.find("note", "limit", "event-too-large", message)


def writer_id(values: Mapping[str, Any]) -> Any:
    """The id of the writer; old versions call it the connection id."""
    return values.get("writer_id", values.get("connection_id"))


def group(values: Mapping[str, Any], segment: str | None) -> Hashable:
    """Common key of requests and replies: the request id, or before there was one the segment."""
    number = values.get("request_id")
    return ("segment", segment) if number is None or (number == -1 and segment is not None) else number


def rebuild(block: bytes, whole: int, rest: bytes) -> Rebuilt:
    """Join the whole appends of a block, the first bytes of the one it cut, and the ``rest`` of that.

    ``whole`` is what AppendBlockEnd says of the block: how many of its leading bytes are whole appends.
    """
    if not 0 <= whole <= len(block):
        message = f"{whole} bytes of whole events do not fit into a block of {len(block)} bytes"
        return Rebuilt(None, ("block-size", message))
    tail = len(block) - whole
    if not tail:
        return Rebuilt(block)
    if tail < HEADER.size:
        return Rebuilt(None, ("block-tail", f"a tail of {tail} bytes is too short for a Padding or PartialEvent"))
    kind, length = HEADER.unpack_from(block, whole)
    if kind not in TAILS:
        message = f"the block ends with a message of type {kind}, not Padding or PartialEvent"
        return Rebuilt(None, ("block-tail", message))
    if length != tail - HEADER.size:
        message = f"the tail says {length} bytes, the block has {tail - HEADER.size} left"
        return Rebuilt(None, ("block-tail", message), TAILS[kind])
    if kind == PARTIAL_EVENT:
        return Rebuilt(block[:whole] + block[whole + HEADER.size :] + rest, tail=TAILS[kind])
    message = f"a block that ends with Padding is followed by {len(rest)} bytes of an event"
    return Rebuilt(block[:whole], ("padded-event", message) if rest else None, TAILS[kind])
