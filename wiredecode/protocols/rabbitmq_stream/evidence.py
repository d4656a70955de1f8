"""Whether bytes look like frames of RabbitMQ Stream, and of which side."""

import re
from collections.abc import Iterator

from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, GOOD, SHORT, SURE, Chain, Evidence, LengthPrefix, Number
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, PartitionsResponse, RouteResponse, Unknown
from wiredecode.protocols.rabbitmq_stream.layers_chunk import CHUNK_MAGIC, Chunk
from wiredecode.protocols.rabbitmq_stream.names import CLIENT_KEYS, COMMANDS, RESPONSE_BIT, SERVER_KEYS

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Largest plausible Size: a chunk is sent whole even if it exceeds the negotiated frame max."""
FRAMING = LengthPrefix(
    Number(0, 4, 4, MAX_FRAME_BYTES, "a frame size of {value} is out of bounds ({least} to {most})"), after=4, header=4
)
"""Size counts what follows it: key and version at the least."""
FRAMES_TO_BELIEVE = 3
"""Good frames in a row that identify the protocol in mid-stream on any port; on a known port fewer will do."""
MAX_PROPERTIES = 64
SEARCH_BYTES = 256 * 1024
"""A supposed frame larger than this is believed only by the header of the chunk in it."""

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


def layer_end(layer: type[Layer], data: bytes, position: int, end: int, *, any_text: bool = False) -> int | None:
    """Where a layer at ``position`` ends; None when it does not fit. ``any_text``: texts need not be UTF-8."""
    try:
        return compiler.walk(layer, data, position, end)[1]
    except UnicodeDecodeError:
        read = compiler.careful(layer, data, position, end)
        return position + read.stop if any_text and read.problem is None else None
    except compiler.FAILED:
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


def judge(data: bytes, position: int) -> Evidence:
    """Judge the supposed frame at ``position``: a chunk whose header fits it decides alone."""
    if position + HEADER.size > len(data):
        return Evidence(SHORT)
    size, key, version = HEADER.unpack_from(data, position)
    end = position + 4 + size
    is_command = (key & ~RESPONSE_BIT) in COMMANDS and 1 <= version <= (2 if key in (2, 8) else 1)
    if not is_command or not FRAMING.length.least <= size <= MAX_FRAME_BYTES:
        return Evidence(BAD)
    need = position + CHUNK_STARTS[version] + CHUNK.size if key == 8 else end
    if key == 8 and need <= len(data):
        return Evidence(SURE if chunk_is_sound(data, position, end, version) else BAD, end)
    if end > len(data):
        return Evidence(SHORT, end, need=min(end, need))
    return Evidence(BAD if body(data, position, end, key, version) is None else GOOD, end)


class FrameChain(Chain):
    most = FRAMES_TO_BELIEVE

    judge = staticmethod(judge)


def candidates(data: bytes) -> Iterator[int]:
    """Where a frame may start."""
    return (match.start() for match in CANDIDATE.finditer(data))


def behind(data: bytes) -> int:
    """Where a header that is not yet whole may start."""
    return max(0, len(data) - HEADER.size + 1)


def role(data: bytes, position: int) -> bool | None:
    """Whether the sender of the frames from ``position`` is the client, by the keys that only one side sends."""
    while position + HEADER.size <= len(data):
        size, key, _ = HEADER.unpack_from(data, position)
        if key in CLIENT_KEYS or key in SERVER_KEYS:
            return key in CLIENT_KEYS
        position += 4 + size
    return None


def handshake(data: bytes, final: bool) -> bool | None:
    """Whether the first frame is PeerProperties, from either side; None: more bytes are needed."""
    if len(data) < HEADER.size:
        return None if not final else False
    size, key, version = HEADER.unpack_from(data)
    if not 12 <= size <= 8192 or version != 1 or key not in (0x11, 0x8011):
        return False
    count_at = 12 if key == 0x11 else 14
    if len(data) < count_at + 6:
        return None if not final else False
    count = int.from_bytes(data[count_at : count_at + 4], "big")
    if count > MAX_PROPERTIES:
        return False
    if 4 + size <= len(data):
        return body(data, 0, 4 + size, key, version) is not None
    return None if not final else 1 <= count <= MAX_PROPERTIES
