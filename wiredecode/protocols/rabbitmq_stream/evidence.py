"""Whether bytes look like frames of RabbitMQ Stream, and of which side."""

import re

from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, PartitionsResponse, RouteResponse, Unknown
from wiredecode.protocols.rabbitmq_stream.layers_chunk import CHUNK_MAGIC, Chunk
from wiredecode.protocols.rabbitmq_stream.names import CLIENT_KEYS, COMMANDS, RESPONSE_BIT, SERVER_KEYS
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT, SURE, Evidence, layer_end

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Largest plausible Size: a chunk is sent whole even if it exceeds the negotiated frame max."""
FRAMING = LengthPrefix(
    Number(0, 4, 4, MAX_FRAME_BYTES, "a frame size of {value} is out of bounds ({least} to {most})"), after=4, header=4
)
"""Size counts what follows it: key and version at the least."""
MAX_PROPERTIES_BYTES, MAX_PROPERTIES = 8192, 64

UNMARKED = {24: RouteResponse, 25: PartitionsResponse}
"""Responses that have the keys of their requests in RabbitMQ 3.10."""

CANDIDATE = re.compile(rb"(?=[\x00-\x03][\x00-\xff]{3}[\x00\x80][\x01-\x1f]\x00[\x01\x02])", re.DOTALL)
HEADER = Unknown.front()
"""Size, key and version."""
CHUNK = Chunk.front()
CHUNK_STARTS = {version: LAYERS[8, version].minimum() - Chunk.minimum() for version in (1, 2)}
"""Where the chunk starts in a Deliver frame of each version."""


def body(data: bytes, position: int, end: int, key: int, version: int) -> int | None:
    """Where the fields of the frame at ``position`` end; None when they do not fit into it."""
    for layer in (LAYERS.get((key, version)), UNMARKED.get(key)):
        stop = layer_end(layer, data, position, end, any_text=True) if layer is not None else None
        if stop is not None and (stop == end or key in (8, 0x801A)):
            return stop
    return None


def is_request(data: bytes, position: int, end: int) -> bool | None:
    """Whether a frame with a key of `UNMARKED` asks, by the layout that it fills; None: undecided."""
    _, key, version = HEADER.unpack_from(data, position)
    request, response = LAYERS.get((key, version)), UNMARKED[key]
    asks = request is not None and layer_end(request, data, position, end) == end
    answers = layer_end(response, data, position, end) == end
    return asks if asks != answers else None


def chunk_is_sound(data: bytes, position: int, end: int, version: int) -> bool:
    """Whether a Deliver frame holds a chunk whose header fits it: some 60 bits that chance would have to meet."""
    start = position + CHUNK_STARTS[version]
    if start + CHUNK.size > len(data) or data[start] != CHUNK_MAGIC:
        return False
    _, kind, *_, length, trailer, _, reserved = CHUNK.unpack_from(data, start)
    trailing = end - start - CHUNK.size - length
    return kind <= 2 and not any(reserved) and trailing in (0, trailer)


class StreamChain(seeking.Chain):
    """A chunk whose header fits it decides alone, and PeerProperties at the beginning of a connection."""

    needed = {
        seeking.START: {SURE: 1, GOOD: 4},
        seeking.START_HOME: {SHORT: 1, GOOD: 1},
        seeking.LATE: {SURE: 1, GOOD: 4},
        seeking.LATE_HOME: {SURE: 1, GOOD: 3},
        seeking.KNOWN: {SURE: 1, GOOD: 2},
    }

    def judge(self, data: bytes, position: int) -> Evidence:
        if position + HEADER.size > len(data):
            return Evidence(SHORT)
        size, key, version = HEADER.unpack_from(data, position)
        end = position + 4 + size
        is_command = (key & ~RESPONSE_BIT) in COMMANDS and 1 <= version <= (2 if key in (2, 8) else 1)
        if not is_command or not FRAMING.length.least <= size <= MAX_FRAME_BYTES:
            return Evidence(BAD)
        client = True if key in CLIENT_KEYS else False if key in SERVER_KEYS else None
        if key == 8:
            need = position + CHUNK_STARTS[version] + CHUNK.size
            if need <= len(data):
                return Evidence(SURE if chunk_is_sound(data, position, end, version) else BAD, end, client)
            return Evidence(SHORT, end, client, min(end, need))
        greets = self.place <= seeking.START_HOME and not position and greeting_is_sound(data, size, key)
        if end > len(data):
            return Evidence(SURE if greets and self.final and len(data) >= 18 else SHORT, end, client, end)
        if body(data, position, end, key, version) is None:
            return Evidence(BAD, end)
        return Evidence(SURE if greets else GOOD, end, client)


def greeting_is_sound(data: bytes, size: int, key: int) -> bool:
    """Whether a frame is PeerProperties, with a plausible number of properties as far as it is there."""
    count = data[12 if key == 0x11 else 14 :][:4]
    return (
        key in (0x11, 0x8011)
        and 12 <= size <= MAX_PROPERTIES_BYTES
        and (len(count) < 4 or int.from_bytes(count) <= MAX_PROPERTIES)
    )


SEEKER = seeking.Seeker(CANDIDATE, HEADER.size, (StreamChain,))
