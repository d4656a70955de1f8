"""The PROXY protocol preface that load balancers put before the first frame (HAProxy, doc/proxy-protocol.txt)."""

from typing import ClassVar

from wiredecode.dataclasses import replace
from wiredecode.fields import Binary, Rest, UInt8, UInt16
from wiredecode.fields.layer import Added, Layer, Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.base import Conversation, Protocol, Rejected, Split, Undecided, Verdict
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared.data import words
from wiredecode.protocols.shared.redaction import Disguises, Rules

NAME = "proxy"
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V1_START, V1_MAX = b"PROXY ", 107
"""Version 1 is a line of text, at most this long, CRLF included."""
V2_HEADER = 16

DISGUISES = {
    NAME: Rules(
        kept=frozenset({"signature"}),
        hosts=frozenset({"line"}),
        blanked=frozenset({"addresses"}),
        words=words("PROXY TCP4 TCP6 UNKNOWN"),
        digits=True,
    )
}
COMMANDS = {0x20: "LOCAL", 0x21: "PROXY"}
FAMILIES = {0x00: "UNSPEC", 0x11: "TCP4", 0x12: "UDP4", 0x21: "TCP6", 0x22: "UDP6", 0x31: "UNIX stream"}


class ProxyV1(Layer):
    """``PROXY TCP4 source destination source-port destination-port CRLF``"""

    filter_name: ClassVar[str] = NAME
    added = Added.NOTHING
    fields_desc = [Rest("line", "the line of text")]


class ProxyV2(Layer):
    """The binary form: signature, version and command, family, addresses with ports and TLVs."""

    filter_name: ClassVar[str] = NAME
    added = Added.NOTHING
    fields_desc = [
        Binary("signature", "constant", length=12, default=SIGNATURE),
        UInt8("version_command", "version and command", names=COMMANDS, default=0x21),
        UInt8("family", "address family and transport", names=FAMILIES, default=0x11),
        Binary("addresses", "addresses, ports and TLVs", length=UInt16),
    ]


def preface_length(data: bytes) -> int | None:
    """Bytes of the preface that begins the bytes; 0: there is none; None: more bytes are needed to know."""
    start = data[:V2_HEADER]
    if start[:6] == V1_START[: len(start)]:
        end = data.find(b"\r\n", 0, V1_MAX)
        if end >= 0 and len(start) >= 6:
            return end + 2
        return None if len(data) < V1_MAX else 0
    if start[:12] == SIGNATURE[: len(start)]:
        if len(start) < V2_HEADER:
            return None
        return V2_HEADER + int.from_bytes(start[14:16], "big")
    return 0


def layer_of(frame: Frame) -> type[Layer] | None:
    """The layer of a frame that is a PROXY preface, None for other frames."""
    if frame.offset:
        return None
    if frame.buffer.startswith(V1_START, frame.start):
        return ProxyV1
    return ProxyV2 if frame.buffer.startswith(SIGNATURE, frame.start) else None


LAYERS: tuple[type[Layer], ...] = (ProxyV1, ProxyV2)


class BehindProxy(Protocol):
    """A protocol whose frames cannot look like a preface: `recognise` and `split_first` step over one.

    `recognise_inner` and `split_inner` get the bytes after it; the latter splits by :attr:`Protocol.framing`.
    """

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """:meth:`Protocol.recognise` of what follows a preface, or of all where there is none."""
        return super().recognise(data, started=started, final=final, port=port)

    def split_inner(self, data: bytes) -> Split:
        """:meth:`Protocol.split` of frames."""
        return super().split(data)

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        preface = preface_length(data) if started else 0
        if preface is None or (preface > len(data) and not final):
            return Rejected() if final else Undecided()
        verdict = self.recognise_inner(data[preface:], started=started, final=final, port=port)
        if not preface:
            return verdict
        if isinstance(verdict, Verdict):
            return replace(verdict, position=0)
        return Undecided(0, verdict.sure) if isinstance(verdict, Undecided) else verdict

    def disguises(self) -> Disguises:
        return {**DISGUISES, **super().disguises()}

    def split(self, data: bytes) -> Split:
        return self.split_inner(data)

    def split_first(self, data: bytes) -> Split:
        preface = preface_length(data) if data[:1] in (b"P", b"\r") else 0
        if preface == 0:
            split = self.split_inner(data)
            if not (split.ends and data.startswith(SIGNATURE[:1])):
                return split
            alike = max(count for count in range(len(SIGNATURE)) if data.startswith(SIGNATURE[:count]))
            if alike >= split.ends[0]:  # an empty line: later bytes showed that it is no preface
                split = replace(split, known_at=((0, alike + 1), *split.known_at))
            return split
        if preface is None or preface > len(data):
            return Split([], preface or 0)
        behind = self.split_inner(data[preface:])
        seen = [(index + 1, position + preface) for index, position in behind.known_at]
        return replace(behind, ends=[preface, *(end + preface for end in behind.ends)], known_at=seen)


def decode(conversation: Conversation, frame: Frame, style: Style | None) -> bool:
    """Decode a frame that is a preface; whether it was one."""
    layer = layer_of(frame)
    if layer is None:
        return False
    frame.protocol, frame.sender = NAME, conversation.sender(frame)
    FrameDecoder(layer, "PROXY").read(frame, style)
    return True
