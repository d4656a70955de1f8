"""A conversation in the protocol that was only proposed: messages sent in parts, blocks of events, reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import compiler
from wiredecode.frames.frame import Frame, Inner
from wiredecode.protocols.pravega.conversation_appends import MAX_WRITERS
from wiredecode.protocols.pravega.conversation_pairing import DialectReader, SegmentRequest
from wiredecode.protocols.pravega.evidence import MAX_BODY
from wiredecode.protocols.pravega.layers import HEADER, WireMessage
from wiredecode.protocols.pravega.layers_kinds import escape_surrogates
from wiredecode.protocols.pravega.messages import Events, Single, walk
from wiredecode.protocols.shared.pairing import Newest, Outstanding, link

MAX_WHOLE = MAX_BODY + HEADER.size
"""Longest message that is put together from parts."""
BEGIN, MIDDLE, END = 0, 1, 2
LOW_TAIL, LOW_END, HIGH_TAIL, HIGH_END = 0x01, 0x02, 0x80, 0x40


@dataclass(slots=True)
class Parts:
    """The received parts of a message, in one direction."""

    frame: int
    offset: int
    """Stream offset of the first part."""
    data: bytearray
    tentative: bool = False
    """Whether it began with a 1: a Middle, or a Begin if parts count from 1."""

    def event_size(self) -> int | None:
        """Size with header of the event that is being sent, once its header is here."""
        if len(self.data) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self.data)
        return HEADER.size + int(length) if kind == 0 else 0


@dataclass(slots=True)
class OpenBlock:
    """A block between BeginAppendBlock and EndAppendBlock."""

    connection: bytes
    frame: int
    stop: int
    """Stream offset of the first byte after BeginAppendBlock."""
    announced: int
    start_offset: int
    size: int = 0
    """Bytes of its events until now, headers included."""
    inside: bool = False
    """The block is a part of the BeginAppendBlock message."""


@dataclass(slots=True)
class ProposedSide:
    parts: Parts | None = None
    base: int = 0
    """Number of the first part."""
    zero_seen: bool = False


@dataclass(slots=True)
class Setup:
    """An append that was set up, and its blocks that wait to be acknowledged."""

    segment: str
    pending: Outstanding[int, SegmentRequest] = field(default_factory=Outstanding)


class Proposed(DialectReader):
    """The state of one connection. ``handle`` is called with every frame, in the order of completion."""

    def __init__(self, whole: bool) -> None:
        super().__init__(whole)
        self.sides = (ProposedSide(), ProposedSide())
        self.setups: Newest[bytes, Setup] = Newest(MAX_WRITERS)
        self.block: OpenBlock | None = None
        self.layers: Mapping[int, type[WireMessage]] = {}
        self.whole_message: tuple[type[WireMessage], bytes] | None = None

    def handle(self, frame: Frame, name: str, lost: bool) -> None:
        """Take the next frame; ``lost``: bytes of its direction were lost before it."""
        self.events, self.single, self.raw, self.whole_message = None, None, None, None
        if lost and name == "EndAppendBlock" and self._ends_raw(frame):
            frame.find("note", "protocol", "block-raw", "bytes of the block have no headers")
        elif lost:
            self.sides[frame.side].parts = None
            if frame.sender != "server":
                self.block, self.blind = None, True
        if self.losses.any_before(frame) or lost or frame.is_partial or frame.overtakes:
            self.outstanding.forget_repeatable()
        handler = self.HANDLERS.get(name)
        if handler is not None:
            handler(self, frame, frame.values)

    # Messages in parts.

    def _part(self, frame: Frame, values: Mapping[str, Any]) -> None:
        side = self.sides[frame.side]
        if "part" not in values or frame.is_partial:
            side.parts = None
            return
        number, data = values["part"], values["data"]
        side.zero_seen = side.zero_seen or number == 0
        if number == END + 1 and not side.zero_seen and side.base == BEGIN:
            side.base = 1
            frame.find("note", "protocol", "part-base", "parts are numbered from 1 here", "part")
        part = number - side.base
        if not BEGIN <= part <= END:
            frame.find("error", "protocol", "part", f"{number} is no part of a message", "part")
        elif part == BEGIN:
            self._begin_parts(frame, side, data)
        else:
            self._more_parts(frame, side, part, data)

    def _begin_parts(self, frame: Frame, side: ProposedSide, data: bytes) -> None:
        if side.parts is not None and not side.parts.tentative:
            message = f"a message begins before the one begun in frame {side.parts.frame} is complete, which is dropped"
            frame.find("error", "protocol", "parts-not-ended", message, "part")
        side.parts = Parts(frame.id, frame.offset, bytearray(data))

    def _more_parts(self, frame: Frame, side: ProposedSide, part: int, data: bytes) -> None:
        parts = side.parts
        if parts is None or (parts.tentative and side.base == BEGIN):
            severity = "error" if frame.all_seen(frame.side) else "note"
            frame.find(severity, "protocol", "parts-not-begun", "no message was begun that this continues", "part")
            if part == MIDDLE and not side.zero_seen:
                side.parts = Parts(frame.id, frame.offset, bytearray(data), tentative=True)
            elif parts is not None and not side.zero_seen:
                parts.data += data
            return
        if len(parts.data) + len(data) > MAX_WHOLE:
            side.parts = None
            message = f"a message in parts is longer than {MAX_WHOLE} bytes"
            frame.find("error", "limit", "parts-too-large", message, "data")
            return
        parts.data += data
        frame.generate("begun_in", parts.frame)
        if part == END:
            side.parts = None
            self._complete(frame, parts)

    def _complete(self, frame: Frame, parts: Parts) -> None:
        """The last part: the whole is a message with its own header, which takes effect now."""
        whole = bytes(parts.data)
        frame.generate("whole_length", len(whole))
        if len(whole) < HEADER.size or HEADER.unpack_from(whole)[1] != len(whole) - HEADER.size:
            frame.find("error", "protocol", "parts-sum", "the message put together does not add up", "data")
            self.raw = whole
            return
        layer = self.layers.get(HEADER.unpack_from(whole)[0])
        if layer is None or layer.type_name == "PartialMessage":
            reason = "is a Partial Message itself" if layer else "is of an unknown type"
            frame.find("error", "protocol", "parts-type", f"the message put together {reason}", "data")
            self.raw = whole
            return
        frame.inner = [Inner(layer, whole, None)]
        frame.generate("whole", layer.type_name)
        self.whole_message = layer, whole
        decoded = compiler.careful(layer, whole, 0, len(whole))
        if decoded.problem is not None:
            frame.find("error", "malformed", "parts-content", f"{decoded.problem.field} is truncated", "data")
            return
        handler = self.HANDLERS.get(layer.type_name)
        if handler is not None and layer.type_name != "Event":
            handler(self, frame, decoded.values)
        elif layer.type_name == "Event":
            self.single = Single(decoded.values["data"])
            if self.block is not None and self.block.stop <= parts.offset:  # it counts for the block it began in
                self.block.size += len(whole)

    # Appends.

    def _setup(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "segment" not in values:
            self.setups.pop(values.get("connection_id", b""), None)  # it appends to another one now
            return
        number = values["connection_id"]
        self.setups.put(number, Setup(values["segment"]))
        self.outstanding.add(frame, ("setup", number), self._request(frame, "SetupAppend", values["segment"], None))

    def _set_up(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "connection_id" in values:
            self.link(frame, self.outstanding.pop(("setup", values["connection_id"])))

    def _request(self, frame: Frame, name: str, segment: str | None, offset: int | None) -> SegmentRequest:
        return SegmentRequest(frame.id, frame.time_ns, name, segment, offset, ("segment", segment))

    def _resolve(self, frame: Frame, number: bytes | None) -> Setup | None:
        setup = self.setups.get(number) if number is not None else None
        if setup is not None:
            frame.generate("segment", escape_surrogates(setup.segment))
        elif number is not None and self.whole and frame.all_seen():
            message = "no append was set up with this connection id"
            frame.find("warning", "protocol", "not-set-up", message, "connection_id")
        return setup

    def _begin(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "length_before_end" not in values:
            self.block, self.blind = None, True
            return
        self._resolve(frame, values["connection_id"])
        if self.block is not None:
            message = f"the block of frame {self.block.frame} was not ended"
            frame.find("warning", "protocol", "block-not-ended", message)
        block = values.get("block")
        self.blind = False
        self.block = OpenBlock(
            values["connection_id"],
            frame.id,
            frame.offset + frame.length,
            values["length_before_end"],
            values["connection_offset"],
            inside=bool(block),
        )
        if block:
            walked = walk(block)
            self.events = Events(block, walked.bounds)
            self.block.size = walked.position
            frame.generate("event_count", len(walked.bounds))

    def _event(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "data" in values and not frame.is_partial:
            self.single = Single(values["data"])
        if self.block is None:
            if not self.blind:
                frame.find("warning", "protocol", "event-outside", "an event outside a block")
            return
        self.block.size += frame.length
        self._resolve(frame, self.block.connection)

    def _ends_raw(self, frame: Frame) -> bool:
        """Whether the block ends just where its begin said, although what is in it was no message."""
        return self.block is not None and frame.offset - self.block.stop == self.block.announced

    def _end(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "block_length" not in values:
            return
        setup = self._resolve(frame, values["connection_id"])
        block, self.block = self.block, None
        if setup is not None:
            request = self._request(frame, "EndAppendBlock", setup.segment, None)
            setup.pending.add(frame, values["connection_offset"], request)
        if block is None:
            if not self.blind:
                frame.find("warning", "protocol", "block-not-begun", "no block was begun that this ends")
            return
        frame.generate("block", block.frame)
        self._compare(frame, values, block)

    def _compare(self, frame: Frame, values: Mapping[str, Any], block: OpenBlock) -> None:
        """Compare the two ends of a block, with each other and with the bytes between them."""
        if values["connection_id"] != block.connection:
            message = f"the block of frame {block.frame} is of another connection id"
            frame.find("warning", "protocol", "block-writer", message, "connection_id")
        distance = frame.offset - block.stop
        if not block.inside and distance != block.announced:
            message = f"{distance} bytes precede the end of the block, {block.announced} were announced"
            frame.find("note", "protocol", "block-distance", message)
        parts = self.sides[frame.side].parts
        open_size = 0
        if parts is not None and parts.offset >= block.stop:
            size = parts.event_size()
            if size is None:
                return
            open_size = size
        if block.size + open_size != values["block_length"]:
            message = f"the events of the block are {block.size + open_size} bytes, not {values['block_length']}"
            frame.find("note", "protocol", "block-length", message, "block_length")
        if block.start_offset + values["block_length"] != values["connection_offset"]:
            message = f"{block.start_offset} + {values['block_length']} is not {values['connection_offset']}"
            frame.find("note", "protocol", "block-offset", message, "connection_offset")

    def _data_appended(self, frame: Frame, values: Mapping[str, Any]) -> None:
        setup = self._resolve(frame, values.get("connection_id"))
        level = values.get("connection_offset_ack_level")
        if setup is None or level is None:
            return
        request = None
        while (oldest := next(setup.pending.items(), None)) is not None and oldest[0] <= level:
            request = setup.pending.pop_oldest()
        if request is not None:
            link(frame, request)

    # Reads.

    def _read(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "suggested_length" in values:
            request = self._request(frame, "ReadSegment", values["segment"], values["offset"])
            self.outstanding.add(frame, ("read", request.group, request.segment, values["offset"]), request)

    def _segment_read(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if "data" not in values:
            return
        segment, data = values["segment"], values["data"]
        if "flags" in values:
            flags = values["flags"]
            low = 0 < flags <= LOW_TAIL | LOW_END
            frame.generate("at_tail", bool(flags & (LOW_TAIL if low else HIGH_TAIL)))
            frame.generate("end_of_segment", bool(flags & (LOW_END if low else HIGH_END)))
            if flags & ~(HIGH_TAIL | HIGH_END) and not low:
                frame.find("warning", "protocol", "flags", f"unknown bits in {flags:#04x}", "flags")
        self.link(frame, self.outstanding.read(("segment", segment), segment, values["offset"], len(data)))
        if data:
            reader, piece = self.reads.feed(segment, values["offset"], data)
            self.report_events(frame, reader, piece)

    HANDLERS: ClassVar[dict[str, Callable[[Proposed, Frame, Mapping[str, Any]], None]]] = {
        "PartialMessage": _part,
        "SetupAppend": _setup,
        "AppendSetup": _set_up,
        "BeginAppendBlock": _begin,
        "Event": _event,
        "EndAppendBlock": _end,
        "DataAppended": _data_appended,
        "ReadSegment": _read,
        "SegmentRead": _segment_read,
    }
