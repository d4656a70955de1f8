"""One Pravega connection: its dialect, its endpoints, and facts from its state about each message."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from wiredecode.fields import Rest, compiler
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import MALFORMED, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.pravega import NAME, names
from wiredecode.protocols.pravega.conversation_proposed import Proposed
from wiredecode.protocols.pravega.conversation_shipped import Shipped
from wiredecode.protocols.pravega.evidence import CURRENT, INSIDE, alternatives, choose, dialect_of, fit
from wiredecode.protocols.pravega.layers import HEADER, SegmentRead, Unknown, WireMessage, header
from wiredecode.protocols.pravega.layers_kinds import JavaString
from wiredecode.protocols.pravega.layers_older import proposal
from wiredecode.protocols.pravega.messages import add_messages
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy

MAX_EMPTY_EVENTS = 64
"""Empty events in a row at top level: more look like zero-filled bytes."""

AMBIGUOUS = frozenset({4})
"""Codes of which an old message may by chance fit today's layout: without a Hello the old one goes first."""

SAME = frozenset({-127, 100})
"""Codes of messages that both dialects have alike, or one alone."""

READS = frozenset({9, 10})
"""ReadSegment and SegmentRead: while the dialect is unknown they are read as shipped, with a note."""

SIMPLE = frozenset({int, str, bytes, type(None)})
"""Values that cannot be, or hold, text that is not modified UTF-8."""


class InDoubt(Unknown):
    """A message while the dialect is unknown: the meaning of its code is not known either."""

    fields_desc = [*header(0, dict.fromkeys(SAME, "")), Rest("body", "everything after the header", secret=True)]


NEWER = "written by a newer version, readers skip them"


class PravegaConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.shipped, self.proposed = Shipped(self.whole), Proposed(self.whole)
        self.reader: Shipped | Proposed | None = None
        """The dialect's reader of the frame just decoded."""
        self.dialect = dialect = start.dialect
        self.fixed = dialect is not None and not start.is_recognised
        """Whether the dialect is certain: forced, or from a Hello."""
        exact = dialect in names.PROPOSALS and dialect != names.PROPOSAL
        self.presets: list[str] = [dialect] if exact and dialect else list(names.PROPOSALS)
        """Assignments of codes that agree with all messages until now; the first is used."""
        self.reached: dict[int, int] = {}
        """Per side, the stream offset after its last frame."""
        self.empty_events = 0
        self.early = False
        """The connection began without Hello: it is the proposal, or older than every release."""

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol, self.reader = NAME, None
        lost = frame.offset != self.reached.get(frame.side, 0)  # or bytes before it belonged to no frame
        self.reached[frame.side] = frame.offset + frame.length
        if not frame.offset and proxy.decode(self, frame, style):
            return
        if frame.stop - frame.start < HEADER.size:
            self.decode_headless(frame, style)
            return
        code = HEADER.unpack_from(frame.buffer, frame.start)[0]
        frame.code = code
        if not self.fixed and not frame.is_partial:
            self._learn_dialect(frame, code)
        if self.dialect is None and self._in_doubt(frame, code):
            message = "both dialects have a message like this, and no earlier message decides between them"
            frame.find("note", "protocol", "dialect-undecided", message)
            if frame.is_partial or code not in READS:
                decoder_of(InDoubt).read(frame, style)
                if frame.layers:
                    frame.layers[NAME].pop("message_type", None)  # its number is known
                frame.sender = self.sender(frame)
                return
        proposed = self.dialect is not None and self.dialect != names.WIRE
        decoder = self._read_proposed(frame, code, style) if proposed else self._read_shipped(frame, code, style)
        frame.dialect = self.presets[0] if proposed else self.dialect
        name = decoder.layer.type_name if decoder.layer is not Unknown else ""
        if self.client is None:
            self._learn_sides(frame, name)
        frame.sender = self.sender(frame)
        self._explain(frame, decoder.layer)
        self._report_misplaced(frame, name, proposed)
        reader = self.reader = self.proposed if proposed else self.shipped
        reader.handle(frame, name, lost)
        if style is not None:
            self._finish_record(frame, style, reader)

    def messages(self, frame: Frame, out: Messages) -> None:
        reader = self.reader
        if reader is not None:
            add_messages(frame, reader.events, reader.single, out)

    # Client and server.

    def _learn_sides(self, frame: Frame, name: str) -> None:
        if name in names.CLIENT_TYPES:
            self.client = frame.side
        elif name in names.SERVER_TYPES:
            self.client = 1 - frame.side

    # Dialects.

    def _learn_dialect(self, frame: Frame, code: int) -> None:
        """A message that only one dialect can have decides, until another contradicts it."""
        if self.dialect is not None and self._agrees(frame, code):
            return
        shown = dialect_of(code, frame.buffer, frame.start, frame.stop)
        self.fixed = code == -127 and shown is not None
        if shown is None or shown == self.dialect or (shown == names.PROPOSAL and self.dialect in names.PROPOSALS):
            return
        if self.dialect is not None:
            message = f"{shown} from here on: this message cannot be of {self.dialect}"
            frame.find("note", "protocol", "dialect", message)
        self.dialect = shown

    def _in_doubt(self, frame: Frame, code: int) -> bool:
        """Whether a message may be of either dialect: nothing decided yet. Of a truncated one all may depend on it."""
        if code in SAME:
            return False
        self.early = self.early or (not frame.offset and self.connection.directions[frame.side].started)
        if frame.is_partial:
            return self.early
        return any(self._fits(frame, proposal(name).get(code)) for name in self.presets)

    def _agrees(self, frame: Frame, code: int) -> bool:
        """Whether the message raises no doubt about the dialect, judged cheaply."""
        if code == -127:
            return False
        if self.dialect == names.WIRE:
            return code not in (-2, 0) and not (code == 4 and frame.length == 28 + HEADER.size)
        return any(self._fits(frame, proposal(name).get(code)) for name in self.presets)

    def _read_proposed(self, frame: Frame, code: int, style: Style | None) -> "MessageDecoder":
        self._narrow(frame, code)
        layers = proposal(self.presets[0])
        self.proposed.layers = layers
        layer: type[WireMessage] = layers.get(code, Unknown)
        if layer.type_name == "SegmentRead":
            shipped = fit(SegmentRead, frame.buffer, frame.start, frame.stop)
            layer = SegmentRead if shipped is not None and shipped["data"] else layer
        decoder = decoder_of(layer)
        decoder.read(frame, style)
        return decoder

    def _narrow(self, frame: Frame, code: int) -> None:
        """Drop the assignments of codes under which this message makes no sense."""
        if len(self.presets) == 1 or frame.is_partial:
            return
        fitting = [name for name in self.presets if self._fits(frame, proposal(name).get(code))]
        self.presets = fitting or self.presets

    def _fits(self, frame: Frame, layer: type[WireMessage] | None) -> bool:
        return layer is not None and fit(layer, frame.buffer, frame.start, frame.stop) is not None

    def _read_shipped(self, frame: Frame, code: int, style: Style | None) -> "MessageDecoder":
        """Read with today's layout; if that does not fit, with the older one that does."""
        layer: type[WireMessage] = CURRENT.get(code, Unknown)
        others = alternatives(code)
        if code in AMBIGUOUS and self.whole and not self.shipped.hellos and not frame.is_partial:
            layer = choose(others, frame.buffer, frame.start, frame.stop) or layer
        decoder = decoder_of(layer)
        before, status = frame.findings, frame.status
        decoder.read(frame, style)
        if not others or frame.is_partial:
            return decoder
        doubtful = frame.status == MALFORMED or len(frame.findings) > len(before) or layer is Unknown
        if not doubtful and layer.sound(frame.values):
            return decoder
        older = choose(others, frame.buffer, frame.start, frame.stop)
        if older is None:
            return decoder
        frame.findings, frame.status = before, status
        decoder = decoder_of(older)
        decoder.read(frame, style)
        return decoder

    # Findings that belong to no dialect's state.

    def _explain(self, frame: Frame, layer: type[WireMessage]) -> None:
        """Report text that is not modified UTF-8, and its likely encoding."""
        flawed = [] if SIMPLE.issuperset(map(type, frame.values.values())) else find_flawed(frame.values)
        ranges = compiler.careful(layer, frame.buffer, frame.start, frame.stop).ranges if flawed else {}
        for path, value in flawed:
            frame.find("warning", "malformed", "text", f"{path} is {value.flaw}", path, ranges.get(path))
        if frame.findings:  # surrogates are nothing unusual here
            frame.findings = [finding for finding in frame.findings if finding.code != "invalid-utf8"]

    def _report_misplaced(self, frame: Frame, name: str, proposed: bool) -> None:
        if not name:
            frame.find("warning", "protocol", "unknown-type", f"type {frame.code} is not known", "message_type", (0, 4))
        elif not proposed and frame.layer in INSIDE:
            message = f"{name} belongs into append data, not between messages"
            frame.find("warning", "protocol", "misplaced", message, "message_type", (0, 4))
        self.empty_events = self.empty_events + 1 if name == "Event" and frame.length == HEADER.size else 0
        if self.empty_events == MAX_EMPTY_EVENTS:
            message = f"{MAX_EMPTY_EVENTS} empty events in a row: zero-filled bytes?"
            frame.find("warning", "limit", "empty-events", message)

    # Records.

    def _finish_record(self, frame: Frame, style: Style, reader: Shipped | Proposed) -> None:
        record = frame.layers.get(NAME) if frame.layers else None
        if record is None:
            return
        record.update(frame.generated)
        if reader.events is not None:
            record["events"] = reader.events.record(style.show)
        if reader.raw is not None:
            record["append" if reader is self.shipped else "whole_data"] = style.show(reader.raw)
        if isinstance(reader, Proposed) and reader.whole_message is not None:
            layer, whole = reader.whole_message
            values = layer.present(compiler.careful(layer, whole, 0, len(whole)).values, style)
            record["whole"] = {"type": layer.type_name, **values}


def find_flawed(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, JavaString]]:
    """Path and value of every text that is not modified UTF-8."""
    flawed: list[tuple[str, JavaString]] = []
    for name, value in values.items():
        kind = value.__class__
        if kind is JavaString and value.flaw:
            flawed.append((prefix + name, value))
        elif kind is dict:
            flawed += find_flawed(value, f"{prefix}{name}.")
        elif kind is list:
            flawed += find_flawed({f"{name}[{index}]": element for index, element in enumerate(value)}, prefix)
    return flawed


class MessageDecoder(FrameDecoder):
    """A decoder whose layer is a message of this protocol."""

    layer: type[WireMessage]


@cache
def decoder_of(layer: type[WireMessage]) -> MessageDecoder:
    return MessageDecoder(layer, None if issubclass(layer, Unknown) else layer.type_name, None, NEWER)
