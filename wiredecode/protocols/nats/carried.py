"""Operations inside S2 chunks and WebSocket frames.

The plain bytes of one direction's chunks, one after another, are a NATS stream like any other: borders of chunks mean
nothing. Operations are shown with the chunk that completed them.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wiredecode.frame import MALFORMED, NOTHING, Frame, Inner
from wiredecode.layer import Layer, Style
from wiredecode.protocols.nats import cutting, s2, transport

if TYPE_CHECKING:
    from wiredecode.protocols.nats.conversation import NatsConversation

MAX_OPERATIONS = 100_000
"""Operations in one chunk that are decoded."""
DEFLATE_TAIL = b"\x00\x00\xff\xff"
"""What permessage-deflate leaves out (RFC 7692 section 7.2.2)."""


@dataclass(slots=True)
class Carried:
    """The inner stream of one direction."""

    data: bytes = b""
    """The beginning of an operation that is not complete."""
    offset: int = 0
    """Of ``data`` in the inner stream."""
    packets: list[int] = field(default_factory=list)
    first_ns: int = 0
    in_step: bool = True
    compressed: bool = False
    """Inside a compressed WebSocket message of several frames."""


class CarriedStreams:
    """The inner streams of both directions."""

    def __init__(self, conversation: NatsConversation) -> None:
        self.conversation = conversation
        self.streams = Carried(), Carried()

    def take(self, frame: Frame, layer: type[Layer], style: Style | None) -> None:
        """Decode what a chunk completes and show it inside the frame."""
        stream = self.streams[frame.side]
        if layer is transport.HttpHead:
            return
        data = None
        if not frame.missing and frame.status != MALFORMED:
            data = s2_plain(frame) if layer is transport.S2Chunk else websocket_plain(frame, stream)
        if data is None:
            stream.in_step, stream.data = False, b""
        elif data:
            operations = self._cut(frame, stream, data)
            if self.conversation.hand_on is not None:
                self.conversation.hand_on += operations
            else:
                show(frame, [self._decode(part, frame, style) for part in operations], style)

    def _decode(self, operation: Frame, frame: Frame, style: Style | None) -> Frame:
        operation.number = frame.number
        self.conversation.decode(operation, style)
        return operation

    def _cut(self, frame: Frame, stream: Carried, more: bytes) -> list[Frame]:
        """The operations that these bytes complete."""
        if not stream.data:
            stream.packets, stream.first_ns = [], frame.first_ns
        data = stream.data + more
        packets = sorted({*stream.packets, *frame.packets})
        start = 0
        if not stream.in_step:
            found = cutting.search(data, final=False)
            start, stream.in_step = found.position, found.found
        found_frames: list[Frame] = []
        while stream.in_step:
            split = cutting.split(data[start:] if start else data)
            base = start
            for end in split.ends[: MAX_OPERATIONS - len(found_frames)]:
                found_frames.append(self._frame(frame, stream, data, start, base + end, packets))
                start = base + end
            if split.bad is None:
                break
            frame.find("error", "malformed", "not-a-frame", split.bad)
            found = cutting.search(data[start:], final=False)
            start, stream.in_step = start + found.position, found.found
        stream.data, stream.offset = data[start:], stream.offset + start
        stream.packets = packets if stream.data else []
        if len(stream.data) > cutting.MAX_BODY_BYTES + cutting.MAX_CONTROL_LINE:
            stream.data, stream.in_step = b"", False
            frame.find("warning", "limit", "carried", "an operation inside is too long to be kept")
        return found_frames

    def _frame(self, frame: Frame, stream: Carried, data: bytes, start: int, stop: int, packets: list[int]) -> Frame:
        size, offset = stop - start, stream.offset + start
        times = frame.ready, frame.time_ns, stream.first_ns
        return Frame(frame.connection, frame.side, data, start, stop, offset, size, 0, packets, *times)


def s2_plain(frame: Frame) -> bytes | None:
    """The plain bytes of a chunk, none for those without; None if it is damaged."""
    values = frame.values
    if "crc" not in values:
        return b""
    told = s2.plain(values["chunk_type"], values["data"], values["crc"])
    frame.generate("crc_status", "good" if told.crc_good else "bad")
    if told.problem:
        frame.find("error", "malformed", "s2-block", told.problem, "data")
        return None
    if not told.crc_good:
        frame.find("error", "checksum", "s2-crc", "the CRC-32C of the plain bytes is another", "crc")
    return told.data


def websocket_plain(frame: Frame, stream: Carried) -> bytes | None:
    """The plain bytes of a data frame, none for control frames; None if they cannot be read."""
    values = frame.values
    first = values["flags_opcode"]
    data = values["data"]
    if first & 0x0F not in (0, 1, 2):
        return b""
    if first & 0x0F:
        stream.compressed = bool(first & transport.COMPRESSED)
    if "masking_key" in values:
        data = transport.unmask(data, values["masking_key"])
    if not stream.compressed:
        return bytes(data)
    inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        plain = inflate.decompress(data + DEFLATE_TAIL, cutting.MAX_BODY_BYTES)
    except zlib.error:
        frame.find("error", "malformed", "deflate", "the payload cannot be decompressed", "data")
        return None
    if inflate.unconsumed_tail:
        frame.find("warning", "limit", "carried", f"more than {cutting.MAX_BODY_BYTES} bytes when decompressed")
        return None
    return plain


def show(frame: Frame, operations: list[Frame], style: Style | None) -> None:
    """Put decoded operations into the frame of the chunk that completed them."""
    if not operations:
        return
    frame.inner = [Inner(part.layer, part.data, None) for part in operations if part.layer is not None]
    counts = Counter(part.type or "?" for part in operations)
    told = " ".join(name if count == 1 else f"{name}*{count}" for name, count in counts.items())
    frame.generate("operations", told)
    for part in operations:
        frame.findings = [*frame.findings, *part.findings] if part.findings else frame.findings
        frame.expects_response = frame.expects_response or part.expects_response
        if part.request is not None and frame.request is None and part.request != frame.number:
            frame.request, frame.latency_ns = part.request, part.latency_ns
        if part.protocol != frame.protocol and frame.protocol == "nats":
            frame.protocol = part.protocol
    frame.dialect = operations[-1].dialect
    if style is not None and frame.layers is not None:
        outer = next(iter(frame.layers.values()))
        outer.update(frame.generated if frame.generated is not NOTHING else {})
        frame.layers["nats"] = {"operations": [record_of(part) for part in operations]}


def record_of(operation: Frame) -> dict[str, Any]:
    """The record of one operation: its own fields, those of what it carries beside them."""
    layers = dict(operation.layers or {})
    return {**layers.pop("nats", {}), **layers}
