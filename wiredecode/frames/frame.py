"""Frames, the output of protocols: one decoded protocol message, and the findings about it."""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import dataclass
from wiredecode.fields import compiler
from wiredecode.fields.compiler import remove_truncated_fields
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.sized import redact
from wiredecode.net.logical_time import packet_of

if TYPE_CHECKING:
    from scapy.packet import Packet

    from wiredecode.fields.layer import Layer, Range
    from wiredecode.net.types import Connection


DAMAGED = (LookupError, TypeError, ValueError, AttributeError)
"""Exceptions of readers of a frame's values if it is truncated, or has other values than it should have."""
MADE_PER_BYTE = 2
"""Bytes counted while a frame is read that weigh as much as one of its bytes."""
MASK = (1 << 64) - 1
STEP, INNER_STEP = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
"""Odd, so that multiples of them differ in 64 bits."""
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Factors of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit."""


def connection_id(endpoints: tuple[str, str], first_ns: int) -> int:
    """The id of a connection: 0 up to 2**63. ``endpoints``: who sent the first packet comes first; its time in ns."""
    text = f"{first_ns} {endpoints[0]} {endpoints[1]}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def frame_id(connection: int, side: int, offset: int, inner_index: int = 0) -> int:
    """The id of a frame at a stream offset of one side: 0 up to 2**63. ``inner_index``: among those inside another."""
    mixed = connection + (2 * offset + side) * STEP + inner_index * INNER_STEP & MASK
    mixed = (mixed ^ mixed >> 30) * FIRST & MASK
    mixed = (mixed ^ mixed >> 27) * SECOND & MASK
    return (mixed ^ mixed >> 31) >> 1


def frame_ids(connection: int, side: int, offsets: Int64s) -> Int64s:
    """:func:`frame_id` of many frames."""
    mixed = (2 * offsets + side).astype(np.uint64) * np.uint64(STEP) + np.uint64(connection)
    for shift, factor in ((30, FIRST), (27, SECOND)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    return ((mixed ^ mixed >> np.uint64(31)) >> np.uint64(1)).astype(np.int64)


Severity = str
"""``"error"``: the frame is broken or was refused; ``"warning"``: suspicious; ``"note"``: worth knowing."""


class _Empty(dict[str, Any]):
    """No fields: one object shared by all frames that have none (hashable, as dataclass defaults must be)."""

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __reduce__(self) -> str:
        return "NOTHING"  # for pickle: it stays one


NOTHING: Mapping[str, Any] = _Empty()

OK, PARTIAL, MALFORMED, UNDECODED = "ok", "partial", "malformed", "undecoded"

ANSWERED, REFUSED, UNANSWERED, LATE, NOT_ASKED = OUTCOMES = ("ok", "refused", "unanswered", "late", "not asked for")
"""Late: no response while the request was held back; a later one names it in ``request``."""


REFUSAL = "response"
"""Group of the findings that a response refuses its request."""


@dataclass(slots=True, frozen=True)
class Finding:
    """An observation about a frame."""

    severity: Severity
    group: str
    """``malformed``, ``checksum``, ``sequence``, ``reassembly``, ``protocol``, ``response``, ``limit``, ..."""
    code: str
    message: str
    field: str | None = None
    range: Range | None = None
    """Byte range in the frame."""

    def record(self) -> dict[str, Any]:
        return {
            "severity": self.severity,
            "group": self.group,
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "range": list(self.range) if self.range else None,
        }


ALL = 1 << 62
"""Length of a confirmation of all messages of a frame."""


class Confirmation(NamedTuple):
    """Outcome of published messages in a confirm, or of delivered ones in an ack."""

    request: int
    """Id of the frame that published or delivered them."""
    first: int
    """Index of the first confirmed message in that frame."""
    length: int
    """Number of confirmed messages, or :data:`ALL`."""
    refusal: str | None
    """Why they were refused; None: they are confirmed."""
    final: str | None
    """Outcome of the frame once all its messages have an answer, of :data:`OUTCOMES`; "": not known."""

    @property
    def outcome(self) -> str | None:
        """Outcome of the messages that it names; None: not known, as a part of it was not captured."""
        if self.refusal is not None:
            return REFUSED
        return None if self.final == "" else ANSWERED


class Answer(NamedTuple):
    """Answer to a frame of published or delivered messages."""

    confirmation: Confirmation
    frame: int
    """Id of the frame that says so."""
    time_ns: int


@dataclass(slots=True, eq=False)
class AckDuty:
    """Whether a consumer acknowledges what it gets: one object for all its deliveries."""

    since: int | None = None
    """Number of the first frame that shows it; None: none does."""


class Inner(NamedTuple):
    """A layer inside a frame: another protocol that the frame carries."""

    layer: type[Layer]
    """Declaration of its fields."""
    data: bytes
    """Its bytes, decompressed and put together."""
    start: int | None
    """Where it starts in the frame; None when it had to be decompressed or put together first."""
    values: Mapping[str, Any] | None = None
    """Its values, if they were read already; of bulk arrays only the count."""

    def read(self, *, damaged: bool = False) -> Mapping[str, Any]:
        """The values; ``damaged``: also those before damage, else there are none."""
        if self.values is not None:
            return self.values
        try:
            return compiler.walk(self.layer, self.data, 0, len(self.data))[0]
        except compiler.FAILED:
            return compiler.careful(self.layer, self.data, 0, len(self.data)).without_defaults() if damaged else {}


@dataclass(slots=True, eq=False)
class Frame:
    """One protocol message of one direction of one connection. Each part of the path sets attributes of its own."""

    # Of the framer, which cuts the stream into frames.
    connection: Connection
    """The TCP connection that carried it."""
    side: int
    """The endpoint that sent it: index into ``connection.endpoints``."""
    buffer: bytes
    """Bytes of its stream, shared with its neighbours; :attr:`data` are its own."""
    start: int
    """Where it begins in ``buffer``."""
    stop: int
    """Where it ends in ``buffer``, or its first gap begins."""
    offset: int
    """Stream offset of its first byte, in its direction."""
    length: int
    """Size on the wire, gaps included."""
    missing: int
    """Bytes of it that were not captured."""
    packets: list[int]
    """Numbers of the packets that carried it."""
    ready: int
    """Logical time at which it was complete (net/logical_time.py): the order of frames."""
    time_ns: int
    """Time of the packet that completed it."""
    first_ns: int
    """Time of the packet with its first byte."""
    status: str = OK
    """``ok``, ``partial`` (bytes are missing), ``malformed`` or ``undecoded`` (bytes of no frame)."""
    is_partial: bool = False
    """Whether bytes are missing: not captured, or never sent because the connection ended inside."""
    packet_bounds: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Stream offsets at which packets after the first begin, and the numbers of all; see :attr:`pieces`."""

    # Of the dissector, which puts the frames of all connections in order.
    number: int = 0
    """1, 2, 3 ... in capture order."""
    inner_index: int = 0
    """From 1 on: index among the frames inside another one (``Conversation.inner_frames``)."""
    made: int = 0
    """Bytes that reading it made, as :mod:`wiredecode.budget` counts them."""

    # Of the conversation, which decodes it and links responses with requests; it can also change the status.
    findings: Sequence[Finding] = ()
    """Findings about it."""
    protocol: str = ""
    """Filter name of its protocol."""
    dialect: str | None = None
    """Dialect of the protocol, where there are several."""
    sender: str | None = None
    """``client`` or ``server``, once that is known."""
    type: str | None = None
    """Name of its message type."""
    code: int | None = None
    """Number of that type on the wire."""
    layer: builtins.type[Layer] | None = None
    """Its outermost layer, which declares its fields."""
    values: Mapping[str, Any] = NOTHING
    """Values of the fields of ``layer``; of bulk arrays only the count."""
    generated: Mapping[str, Any] = NOTHING
    """Fields that derive from other frames, such as the stream of its publisher: :attr:`Protocol.generated`."""
    inner: Sequence[Inner] = ()
    """Layers inside this one, outermost first."""
    layers: dict[str, Any] | None = None
    """The record of ``layer`` and ``inner`` by filter name, if records were asked for; ``generated`` included."""
    expects_response: bool = False
    """Whether it asks for a response."""
    request: int | None = None
    """On responses: id of the request."""
    asked: Any = None
    """On responses: the request, as the conversation remembers it (``protocols/shared/pairing.py``)."""
    latency_ns: int | None = None
    """On responses: time since the request."""
    confirmations: Sequence[Confirmation] = ()
    """On acks, and on confirms of single messages: their outcomes. Then ``request`` is the oldest of the publishes."""
    acks: AckDuty | None = None
    """On deliveries that their consumer may acknowledge: whether it does."""

    # Of the ledger, which holds requests until they have their response; of the conversation, if it is known before.
    response: int | None = None
    """On requests: id of the response; of a publish with several messages the response to the last one."""
    answers: Sequence[Answer] = ()
    """On publishes and deliveries: responses that arrived while the frame was held back."""
    outcome: str | None = None
    """On requests: one of :data:`OUTCOMES`; None: unknown, or no request."""

    @property
    def weight(self) -> int:
        """Bytes for limits on frames that are held: more than its length if reading it made much."""
        return max(self.length, self.made // MADE_PER_BYTE)

    @property
    def shown_type(self) -> str:
        """The type for people; without one ``unknown``, or the status that says why."""
        return self.type or (self.status if self.status != OK else "unknown")

    @property
    def source(self) -> str:
        """Its sender, as ``address:port``."""
        return self.connection.endpoints[self.side]

    @property
    def destination(self) -> str:
        """Its receiver, as ``address:port``."""
        return self.connection.endpoints[1 - self.side]

    @property
    def tunnel(self) -> str | None:
        """The tunnels that it came through, from the outside in: ``gre, vxlan 42``."""
        return self.connection.tunnel_columns(self.side)[0]

    @property
    def outer_src(self) -> str | None:
        """Sender of the outermost packets."""
        return self.connection.tunnel_columns(self.side)[1]

    @property
    def outer_dst(self) -> str | None:
        """Receiver of the outermost packets."""
        return self.connection.tunnel_columns(self.side)[2]

    @property
    def id(self) -> int:
        """Its id in other frames and records: its number, or a stable id if its connection has one."""
        label = self.connection.stable_id
        return self.number if label is None else frame_id(label, self.side, self.offset, self.inner_index)

    @property
    def packet_ready(self) -> int:
        """The packet that completed it; frames of all connections are numbered in this order."""
        return packet_of(self.ready)

    def again(self) -> Frame:
        """The frame as it was cut from its stream, to be decoded once more."""
        where = self.buffer, self.start, self.stop, self.offset, self.length, self.missing, self.packets, self.ready
        state = self.status, self.is_partial, self.packet_bounds
        again = Frame(self.connection, self.side, *where, self.time_ns, self.first_ns, *state)
        again.protocol, again.layer, again.findings = self.protocol, self.layer, self.findings
        return again

    @property
    def data(self) -> bytes:
        """The captured bytes, up to the first gap."""
        return self.buffer[self.start : self.stop]

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Start in :attr:`data` of the bytes of each packet, and its number; empty: one packet carries all."""
        begins, packets = self.packet_bounds
        places = [0, *(begin - self.offset for begin in begins)]
        return [piece for piece in zip(places, packets, strict=False) if piece[0] < self.stop - self.start]

    def find(
        self,
        severity: Severity,
        group: str,
        code: str,
        message: str,
        field: str | None = None,
        where: Range | None = None,
    ) -> None:
        """Add a finding."""
        self.findings = [*self.findings, Finding(severity, group, code, without_secrets(message, redact), field, where)]

    def refuse(
        self, message: str, field: str | None = None, code: str = "refused", severity: Severity = "note"
    ) -> None:
        """Add the finding that this response refuses its request."""
        self.find(severity, REFUSAL, code, message, field)

    @property
    def refusal(self) -> str | None:
        """Why it refuses its request; None: it does not."""
        for finding in self.findings:
            if finding.group == REFUSAL:
                return finding.message
        return None

    def generate(self, name: str, value: Any) -> None:
        """Add a generated field."""
        self.generated = {**self.generated, name: value}

    def packet(self) -> Packet:
        """The frame as a Scapy packet: its layer, dissected again; ``Raw`` if it has none.

        Fields that are not complete are absent.
        """
        packet: Packet
        if self.layer is None:
            from scapy.packet import Raw

            packet = Raw(self.data)
        else:
            packet = layer = self.layer.within(self.data, 0, len(self.data))
            if self.is_partial:
                remove_truncated_fields(layer, self.data, self.values)
        packet.time = self.time_ns / 1e9
        return packet

    def all_seen(self, *sides: int) -> bool:
        """Whether all bytes that ``sides`` (none: both) sent before this frame were captured.

        Ask this before you report that something was never declared, requested or answered. False if no byte of a side
        was captured until then: the capture may hold one side only.
        """
        directions = [self.connection.directions[side] for side in sides or (0, 1)]
        return all(0 < each.first_at <= self.ready and not each.incomplete(self.ready) for each in directions)

    @property
    def is_copy(self) -> bool:
        """Whether it repeats a message captured before, by its protocol."""
        return "copy_of" in self.generated or "forwarded" in self.generated

    @property
    def overtakes(self) -> bool:
        """Whether earlier bytes of the other side wait after a gap, and are decoded after this frame.

        Then the oldest open request may not be the one that it answers.
        """
        return self.connection.directions[1 - self.side].gaps.at(self.ready)

    def __repr__(self) -> str:
        return f"<Frame {self.number} {self.type}>"


def merge_generated(frame: Frame, unshown: frozenset[str]) -> None:
    """Add generated fields to the record of the outermost layer, unless a layer of the record has them."""
    layers, layer = frame.layers, frame.layer
    outermost = layers.get(layer.filter_name) if layers and layer is not None else None
    if layers is None or outermost is None:
        return
    if len(layers) > 1:
        unshown = unshown.union(*(each for each in layers.values() if each is not outermost))
    for name, value in frame.generated.items():
        if name not in outermost and name not in unshown:
            outermost[name] = value


GROUP = CODE = "internal"
ROOM = str(Path(__file__).parents[1])


def failure(error: Exception, doing: str = "read") -> Finding:
    """Describe an exception and its place, without bytes of the wire. Raises ``error`` if no memory is left."""
    if isinstance(error, MemoryError):
        raise error
    passed = traceback.extract_tb(error.__traceback__)
    ours = [each for each in passed if each.filename.startswith(ROOM)]
    places = [f"{Path(each.filename).relative_to(ROOM)}:{each.lineno}" for each in ours[-1:]]
    if (last := passed[-1]) not in ours:  # of another package, which may have added the protocol
        places.append(f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}")
    where = f" ({', '.join(places)})"
    message = f"wiredecode could not {doing} this: {type(error).__name__}{where}; please report it"
    return Finding("error", GROUP, CODE, message)


def strip(frame: Frame, error: Exception, doing: str = "read") -> Finding:
    """Take back what was read of ``frame``, so that only its bytes are shown; add and return the finding."""
    finding = failure(error, doing)
    frame.layer, frame.inner = None, ()
    frame.values = frame.generated = NOTHING
    frame.layers = None if frame.layers is None else {}
    frame.findings = [*frame.findings, finding]
    return finding
