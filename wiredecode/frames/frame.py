"""Frames, the output of protocols: one decoded protocol message, and the findings about it."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.cut import forget_cut_fields
from wiredecode.fields.sized import redacted
from wiredecode.frames.columns import COLUMNS, TUNNEL_COLUMNS
from wiredecode.net.logical_time import packet_of

if TYPE_CHECKING:
    from scapy.packet import Packet

    from wiredecode.fields.layer import Layer, Range
    from wiredecode.net.types import Connection


MASK = (1 << 64) - 1
STEP, PLACE = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
"""Odd, so that multiples of them differ in 64 bits."""
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit."""


def connection_id(endpoints: tuple[str, str], first_ns: int) -> int:
    """The id of a connection: 0 up to 2**63. ``endpoints``: who sent the first packet comes first; its time in ns."""
    text = f"{first_ns} {endpoints[0]} {endpoints[1]}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 1


def frame_id(connection: int, side: int, offset: int, place: int = 0) -> int:
    """The id of a frame at a stream offset of one side: 0 up to 2**63. ``place``: its place inside another."""
    mixed = connection + (2 * offset + side) * STEP + place * PLACE & MASK
    mixed = (mixed ^ mixed >> 30) * FIRST & MASK
    mixed = (mixed ^ mixed >> 27) * SECOND & MASK
    return (mixed ^ mixed >> 31) >> 1


def frame_ids(connection: int, side: int, offsets: Int64s) -> Int64s:
    """The same of many frames."""
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
"""Late: no response within the look-ahead window; a later one names it."""


@dataclass(slots=True, frozen=True)
class Finding:
    """Something worth telling about a frame, as data."""

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
"""Messages of a frame, however many it has."""


class Confirmation(NamedTuple):
    """Outcome of published messages in a confirm."""

    request: int
    """Id of the frame that published them."""
    first: int
    """The confirmed messages: places among the messages of that frame, from here on ..."""
    length: int
    """... this many; :data:`ALL`."""
    refusal: str | None
    """Why they were refused; None: they are confirmed."""
    final: str | None
    """Outcome of the frame once all its messages have an answer, of :data:`OUTCOMES`; "": not known."""


class Answer(NamedTuple):
    """Answer to a frame of published messages."""

    confirmation: Confirmation
    frame: int
    """Id of the frame that says so."""
    time_ns: int


class Inner(NamedTuple):
    """A layer inside a frame: another protocol that the frame carries."""

    layer: type[Layer]
    """Declaration of its fields."""
    data: bytes
    """Its bytes, decompressed and put together."""
    start: int | None
    """Where it starts in the frame; None when it had to be decompressed or put together first."""
    values: Mapping[str, Any] | None = None
    """Its values, where they were read already: of bulk arrays only the count."""


@dataclass(slots=True, eq=False)
class Frame:
    """One protocol message of one direction of one connection."""

    connection: Connection
    """The TCP connection that carried it."""
    side: int
    """The endpoint that sent it: index into ``connection.endpoints``."""
    buffer: bytes
    """Bytes of its stream, shared with its neighbours; :attr:`data` are its own."""
    start: int
    """Where it begins in ``buffer``."""
    stop: int
    """Where it ends in ``buffer``, or where its first gap is."""
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
    """Time of the packet that carried its first byte."""
    status: str = OK
    """``ok``, ``partial`` (it is not complete), ``malformed`` or ``undecoded`` (no frame was recognised)."""
    is_cut: bool = False
    """Whether it is incomplete: bytes were not captured, or never sent, as the connection ended inside."""
    findings: Sequence[Finding] = ()
    """Findings about it."""
    cuts: tuple[Sequence[int], Sequence[int]] = ((), ())
    """Where in its stream what each packet but the first carries begins, and their numbers; see :attr:`pieces`."""
    number: int = 0
    """1, 2, 3 ... in capture order."""
    place: int = 0
    """Index among frames that ended inside another one."""
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
    request: int | None = None
    """Id of the frame that it answers."""
    response: int | None = None
    """Id of the frame that answers it; of a publish with several messages the answer to the last one."""
    latency_ns: int | None = None
    """Time since the request that it answers."""
    confirmations: Sequence[Confirmation] = ()
    """On confirms that name messages: what becomes of which. ``request`` is then the oldest of their publishes."""
    answers: Sequence[Answer] = ()
    """On publishes: answers to their messages, while they could be held back."""
    expects_response: bool = False
    """Whether another frame is to answer it."""
    outcome: str | None = None
    """Outcome of a frame that asks for an answer, one of :data:`OUTCOMES`; None: not known, or it asks for nothing."""
    layer: builtins.type[Layer] | None = None
    """Declaration of its fields: its outermost layer."""
    values: Mapping[str, Any] = NOTHING
    """Values of the fields of ``layer`` that are read already: of bulk arrays only the count."""
    generated: Mapping[str, Any] = NOTHING
    """Values derived from other frames, such as the stream of its publisher; fields of its layer."""
    inner: Sequence[Inner] = ()
    """Layers inside this one, outermost first."""
    layers: dict[str, Any] | None = None
    """The record of ``layer`` and ``inner`` by filter name, if records were asked for; ``generated`` included."""

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
        return self.number if label is None else frame_id(label, self.side, self.offset, self.place)

    @property
    def packet_ready(self) -> int:
        """The packet that completed it; frames of all connections are numbered in this order."""
        return packet_of(self.ready)

    @property
    def data(self) -> bytes:
        """The captured bytes, up to the first gap."""
        return self.buffer[self.start : self.stop]

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """Where in :attr:`data` what each packet carries begins, and its number; empty: one packet carries it all."""
        begins, packets = self.cuts
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
        self.findings = [
            *self.findings,
            Finding(severity, group, code, without_secrets(message, redacted), field, where),
        ]

    def generate(self, name: str, value: Any) -> None:
        """Add a generated field."""
        self.generated = {**self.generated, name: value}

    def packet(self) -> Packet:
        """The frame as a Scapy packet: its layer, dissected anew; ``Raw`` where it has none.

        Fields are absent that are not there to their end.
        """
        packet: Packet
        if self.layer is None:
            from scapy.packet import Raw

            packet = Raw(self.data)
        else:
            packet = layer = self.layer.within(self.data, 0, len(self.data))
            if self.is_cut:
                forget_cut_fields(layer, self.data, self.values)
        packet.time = self.time_ns / 1e9
        return packet

    def all_seen(self, *sides: int) -> bool:
        """Whether all bytes that ``sides`` (none: both) sent before this frame are there: no gap explains it.

        Asked before reporting that something was never declared, asked for or answered. Of a side of which no byte
        came until then it is not known: a capture may hold one side only.
        """
        directions = [self.connection.directions[side] for side in sides or (0, 1)]
        return all(0 < each.first_at <= self.ready and not each.incomplete(self.ready) for each in directions)

    @property
    def is_copy(self) -> bool:
        """Whether it only passes on what was said before: its protocol says so."""
        return "copy_of" in self.generated or "forwarded" in self.generated

    @property
    def overtakes(self) -> bool:
        """Whether earlier bytes of the other side may be decoded after it, since they wait after a gap.

        Then the oldest request that waits need not be the one that it answers.
        """
        return self.connection.directions[1 - self.side].gaps.at(self.ready)

    # For people: of frames that wiredecode.read gives.

    def __repr__(self) -> str:
        return f"<Frame {presenter().frame_line(self)}>"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by layer, outermost first, bytes as bytes: ``frame.fields["nats"]["subject"]``."""
        found: dict[str, Any] = presenter().frame_fields(self)
        return found

    def record(self, *, bytes: str = "hex", ranges: bool = False) -> dict[str, Any]:  # noqa: A002 - as --bytes
        """The record of docs/records.md. ``bytes``: hex, base64, text, sha256 or length, as ``--bytes``."""
        found: dict[str, Any] = presenter().frame_record(self, bytes, ranges=ranges)
        return found

    def tree(self, *, width: int = 100, full: bool = False, hexdump: bool = False) -> str:
        """The tree of ``wiredecode pcap`` as text, lines as long as ``width`` columns; escaped."""
        return str(presenter().frame_text(self, width, full=full, hexdump=hexdump))

    def _repr_html_(self) -> str:
        return str(presenter().frame_html(self))


def merge_generated(frame: Frame, unshown: frozenset[str]) -> None:
    """Put the generated fields of a frame that no layer of its record has into the record of its outermost layer."""
    layers, layer = frame.layers, frame.layer
    if layers and layer is not None and layer.filter_name in layers:
        outermost = layers[layer.filter_name]
        for name, value in frame.generated.items():
            if name in outermost or name in unshown or any(name in record for record in layers.values()):
                continue
            outermost[name] = value


def presenter() -> Any:
    """The module that shows frames. It is above this one, so it is loaded when a frame is shown."""
    return import_module("wiredecode.view.notebook")


_NO_ROW = ("frame", "time", "connection", "layers", "findings", *TUNNEL_COLUMNS)
PLAIN = ("number", *(each.attribute for each in COLUMNS if each.name not in _NO_ROW), "fields")
"""Attributes that a row of a DataFrame has."""


def _as_row(name: str) -> dataclasses.Field[Any]:
    field = copy(Frame.__dataclass_fields__["number"])
    field.name = name
    return field


# pandas.DataFrame(frames) asks dataclasses for the fields of each: plain ones, and not those that lead to other frames.
Frame.__dataclass_fields__ = {name: _as_row(name) for name in PLAIN}
