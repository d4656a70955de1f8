"""Operations inside S2 chunks and WebSocket frames.

The plain bytes of one direction's chunks, one after another, are a NATS stream like any other: borders of chunks mean
nothing. Its operations are separate frames, passed on with the chunk that completed them; their offsets count the
plain bytes. Transports inside transports are not looked into, so that a small chunk cannot unpack without end.
"""

import numpy as np

from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import MALFORMED, UNDECODED, Frame
from wiredecode.frames.framer import Framer
from wiredecode.net.types import Chunk, Direction
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.nats import evidence, transport
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.shared.seeking import BAD

MAX_OPERATIONS = 100_000
"""Operations that one chunk may complete; what follows them in it is not decoded."""
SLICE_BYTES = 16 * 1024
"""Plain bytes that are cut at a time: the limit holds before all are frames, and a mistake costs no more."""
INSIDE = "inside"
"""Generated field of a frame passed on: number of the one that completed it."""


class InnerStream:
    """The inner stream of one direction. ``in_sync``: its first plain byte starts an operation."""

    def __init__(self, protocol: Protocol, direction: Direction, in_sync: bool) -> None:
        self.protocol, self.direction = protocol, direction
        self.offset = 0
        """Number of plain bytes."""
        self.frames: list[Frame] = []
        self.carriers: dict[int, set[int]] = {}
        """Packets of the chunks whose bytes wait for more, by the last one."""
        self.framer = Framer(direction, protocol, self.frames, in_sync)
        self.messages = websocket.WebSocketMessages()
        self.fragments: set[int] = set()
        """Packets of the fragments of a compressed message, of which the last one gives the plain bytes."""

    def plain(self, frame: Frame, layer: type[Layer]) -> bytes | None:
        """Plain bytes of a chunk, or a WebSocket frame; None if they cannot be known."""
        if frame.is_partial or frame.status == MALFORMED:
            self.messages.lose()
            return None
        return s2_plain(frame) if layer is transport.S2Chunk else websocket_plain(frame, self.messages)

    def feed(self, frame: Frame, data: bytes) -> list[Frame]:
        """Frames completed by the plain bytes of a chunk; they are of its kind."""
        self.framer.frame = type(frame)
        if self.messages.parts:
            self.fragments.update(frame.packets)
        elif data:
            self.carriers[frame.packets[-1]] = self.carriers.get(frame.packets[-1], set()) | self.fragments
            self.fragments = set()
        if data and not self.framer.in_sync and not self.framer.have:
            names, ends, *_ = evidence.chain(data, 0)
            if names and ends != BAD and evidence.NAMES.issuperset(names):
                self._again(in_sync=True)
        self.carriers.setdefault(frame.packets[-1], set()).update(frame.packets)
        for start in range(0, len(data), SLICE_BYTES):
            part = data[start : start + SLICE_BYTES]
            columns = (self.offset + len(part), frame.packets[-1], frame.first_ns, frame.ready, frame.time_ns)
            self.framer.chunk(Chunk(self.direction, self.offset, part, *(np.array([value]) for value in columns)))
            self.offset += len(part)
            if len(self.frames) > MAX_OPERATIONS:
                message = f"more than {MAX_OPERATIONS} operations inside: the rest is not decoded"
                frame.find("warning", "limit", "carried", message)
                self._again()
                break
        return self._feed(frame)

    def lose(self, frame: Frame) -> list[Frame]:
        """Plain bytes before or of this chunk are not known: end the waiting operation, and search on."""
        self.fragments.clear()
        self.framer.end("chunks before were lost", frame.ready)
        self._again()
        return self._feed(frame)

    def _again(self, in_sync: bool = False) -> None:
        self.framer = Framer(self.direction, self.protocol, self.frames, in_sync, self.framer.frame)

    def _feed(self, frame: Frame) -> list[Frame]:
        taken, skipped, why = [], 0, ""
        packets: dict[tuple[int, ...], list[int]] = {}
        """One list for all operations of the same chunks, which may be many."""
        for inner in self.frames:
            if inner.status == UNDECODED or transport.layer_at(inner.buffer, inner.start) is not None:
                skipped += inner.length
                why = why or next((f": {each.message}" for each in inner.findings if each.code == "not-a-frame"), "")
                continue
            last = tuple(inner.packets)
            if last not in packets:
                packets[last] = sorted(set().union(*map(self.carriers.__getitem__, last)))
            inner.packets = packets[last]
            inner.generated = {INSIDE: frame.id}
            taken.append(inner)
        self.frames.clear()
        if skipped:
            frame.find("warning", "undecoded", "no-frame", f"{skipped} bytes inside belong to no operation{why}")
        framer = self.framer
        waiting = framer.pieces.packet if framer.span is None else framer.span.packets
        if not waiting:
            self.carriers.clear()
        while self.carriers and (first := next(iter(self.carriers))) < waiting[0]:
            del self.carriers[first]
        return taken


class InnerStreams:
    """The inner streams of both directions of a connection."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.streams: list[InnerStream | None] = [None, None]

    def feed(self, frame: Frame, layer: type[Layer], sound: bool) -> list[Frame]:
        """The operations that a chunk completes. ``sound``: all bytes of its direction before it were captured."""
        if layer is transport.HttpHead:
            return []
        stream = self.streams[frame.side]
        if stream is None:
            direction = frame.connection.directions[frame.side]
            stream = self.streams[frame.side] = InnerStream(self.protocol, direction, sound)
        data = stream.plain(frame, layer)
        return stream.lose(frame) if data is None else stream.feed(frame, data)

    def lose(self, frame: Frame) -> list[Frame]:
        """Bytes of the direction before this frame were not captured."""
        stream = self.streams[frame.side]
        if stream is None:
            return []
        stream.messages.lose()
        return stream.lose(frame)


def s2_plain(frame: Frame) -> bytes | None:
    """The plain bytes of a chunk, none for those without; None if it is damaged."""
    values = frame.values
    if "crc" not in values:
        return b""
    result = s2.plain(values["chunk_type"], values["data"], values["crc"])
    frame.generate("crc_status", "good" if result.crc_good else "bad")
    if result.problem:
        frame.find("error", "malformed", "s2-block", result.problem, "data")
        return None
    if not result.crc_good:
        frame.find("error", "checksum", "s2-crc", "the CRC-32C of the plain bytes is another", "crc")
    return result.data


REASONS = {
    websocket.ORPHAN: ("warning", "reassembly", "a fragment of a message whose first frame is not there"),
    websocket.CONTEXT: ("warning", "reassembly", "it refers to compressed messages that were not captured, or to none"),
    websocket.DAMAGED: ("error", "malformed", "the payload cannot be decompressed"),
    websocket.LIMIT: ("warning", "limit", f"a compressed message of more than {websocket.MAX_MESSAGE_BYTES} bytes"),
}
"""Reasons of unknown contents of a WebSocket frame: severity, group and text of the finding."""


def websocket_plain(frame: Frame, messages: websocket.WebSocketMessages) -> bytes | None:
    """Plain bytes of a frame; None if they cannot be known."""
    values = frame.values
    data = bytes(values["data"])
    if "masking_key" in values:
        data = websocket.unmask(data, values["masking_key"])
    result = messages.feed(values["flags_opcode"], data)
    if result.data is None:
        severity, group, message = REASONS[result.why]
        frame.find(severity, group, result.why, message, "data")
    return result.data
