"""Recognising RabbitMQ Stream, cutting it into frames, and finding the next frame after a hole."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Confirms, Found, Protocol, Rejected, Split, Undecided, Verdict
from wiredecode.protocols.rabbitmq_stream.chunk import CHUNK_MAGIC, Chunk, chunk_start
from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation
from wiredecode.protocols.rabbitmq_stream.generated import COLUMN_TYPES, GENERATED
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown, UnknownSasl
from wiredecode.protocols.rabbitmq_stream.names import CLIENT_KEYS, COMMANDS, CORRELATED, RESPONSE_BIT, SERVER_KEYS
from wiredecode.protocols.rabbitmq_stream.responses import PartitionsResponse, RouteResponse
from wiredecode.protocols.shared.framing import LengthPrefix, Number
from wiredecode.protocols.shared.proxy import ProxyV1, ProxyV2, preface_length

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Largest Size taken for real: a chunk is sent whole whatever the negotiated frame max."""
FRAMING = LengthPrefix(
    Number(0, 4, 4, MAX_FRAME_BYTES, "a frame size of {value} is out of bounds ({least} to {most})"), after=4, header=4
)
"""Size counts what follows it: key and version at the least."""
FRAMES_TO_BELIEVE = 3
"""Good frames in a row that identify the protocol in mid-stream on any port; on a known port fewer will do."""
MAX_PROPERTIES = 64
SEARCH_BYTES = 256 * 1024
"""A supposed frame larger than this is believed only by the header of the chunk in it."""

CANDIDATE = re.compile(rb"(?=[\x00-\x03][\x00-\xff]{3}[\x00\x80][\x01-\x1f]\x00[\x01\x02])", re.DOTALL)
HEADER = struct.Struct(">IHH")

GOOD, CUT, BAD = "good", "cut", "bad"


def body(data: bytes, position: int, end: int, key: int, version: int) -> int | None:
    """Where the fields of the frame at ``position`` end; None when they do not fit into it."""
    candidates = [LAYERS.get((key, version))]
    if key in (24, 25):
        candidates.append(RouteResponse if key == 24 else PartitionsResponse)
    for layer in candidates:
        if layer is None:
            continue
        try:
            stop = compiler.walk(layer, data, position, end)[1]
        except compiler.FAILED:
            continue
        if stop == end or key in (8, 0x801A):
            return stop
    return None


def chunk_is_sound(data: bytes, position: int, end: int, version: int) -> bool:
    """Whether a Deliver frame holds a chunk whose header fits it: some 60 bits that chance would have to meet."""
    start = position + chunk_start(version)
    if start + Chunk.HEADER_LENGTH > len(data) or data[start] != CHUNK_MAGIC:
        return False
    fields = Chunk.HEADER.unpack_from(data, start)
    length, trailer = fields[8:10]
    rest = end - start - Chunk.HEADER_LENGTH - length
    return fields[1] <= 2 and data[start + 45 : start + 48] == bytes(3) and rest in (0, trailer)


def judge(data: bytes, position: int) -> tuple[str, int, bool]:
    """Judge the supposed frame at ``position``: (GOOD, CUT or BAD; its end; whether it alone decides)."""
    if position + HEADER.size > len(data):
        return CUT, 0, False
    size, key, version = HEADER.unpack_from(data, position)
    end = position + 4 + size
    known = (key & ~RESPONSE_BIT) in COMMANDS and 1 <= version <= (2 if key in (2, 8) else 1)
    if not known or not FRAMING.length.least <= size <= MAX_FRAME_BYTES:
        return BAD, 0, False
    if key == 8 and position + chunk_start(version) + Chunk.HEADER_LENGTH <= len(data):
        sound = chunk_is_sound(data, position, end, version)
        return (BAD if not sound else CUT if end > len(data) else GOOD), end, sound
    if end > len(data):
        return CUT, end, False
    return (BAD if body(data, position, end, key, version) is None else GOOD), end, False


def chain(data: bytes, position: int) -> tuple[int, bool, str]:
    """Follow frames from ``position``: (how many are good, whether one alone decides, how the chain ends)."""
    good = 0
    while True:
        verdict, end, decisive = judge(data, position)
        if verdict != GOOD or decisive or good == FRAMES_TO_BELIEVE:
            return good + (verdict == GOOD), decisive, verdict
        good += 1
        position = end


def behind(data: bytes) -> int:
    """Where a header that is not yet whole may start."""
    return max(0, len(data) - HEADER.size + 1)


def cut_header(data: bytes, position: int, verdict: str, enough: bool) -> bool:
    """Whether the header of a frame that is cut is evidence: on a known port, where nothing more will come."""
    return enough and verdict == CUT and len(data) - position >= HEADER.size


def role(data: bytes, position: int) -> bool | None:
    """Whether the sender of the frames from ``position`` is the client, by the keys that only one side sends."""
    while position + HEADER.size <= len(data):
        size, key, _ = HEADER.unpack_from(data, position)
        if key in CLIENT_KEYS or key in SERVER_KEYS:
            return key in CLIENT_KEYS
        position += 4 + size
    return None


def handshake(data: bytes, position: int, final: bool) -> bool | None:
    """Whether the first frame is PeerProperties, from either side; None: more bytes are needed."""
    start = data[position : position + 20]
    if len(start) < 8:
        return None if not final else False
    size, key, version = HEADER.unpack_from(start)
    if not 12 <= size <= 8192 or version != 1 or key not in (0x11, 0x8011):
        return False
    count_at = 12 if key == 0x11 else 14
    if len(start) < count_at + 6:
        return None if not final else False
    count = int.from_bytes(start[count_at : count_at + 4], "big")
    if count > MAX_PROPERTIES:
        return False
    if position + 4 + size <= len(data):
        return body(data, position, position + 4 + size, key, version) is not None
    return None if not final else 1 <= count <= MAX_PROPERTIES


class RabbitMQStream(Protocol):
    """The binary protocol of RabbitMQ streams (plugin rabbitmq_stream, RabbitMQ 3.9 and later)."""

    name = "rabbitmq_stream"
    title = "RabbitMQ Stream"
    ports = (5552,)
    framing = FRAMING
    header_bytes = HEADER.size
    tls_ports = (5551,)
    requests = {"rabbitmq_stream": frozenset(COMMANDS[code] for code in CORRELATED)}
    amqp_in = tuple(
        f"rabbitmq_stream.{name}"
        for name in ("messages", "messages.sub_batch.messages", "chunk.entries", "chunk.entries.sub_batch.messages")
    )
    confirms = Confirms(
        published=("Publish", "messages.publishing_id"),
        confirmed=("PublishConfirm", "publishing_ids"),
        refused=("PublishError", "errors.publishing_id"),
        publisher="publisher_id",
        topic="stream",
    )
    generated, column_types = GENERATED, COLUMN_TYPES

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        return self._at_start(data, port, final) if started else self._in_midstream(data, port, final)

    def _at_start(self, data: bytes, port: bool, final: bool) -> Verdict | Undecided | Rejected:
        preface = preface_length(data)
        if preface is None:
            return Rejected() if final else Undecided()
        first = handshake(data, preface, final)
        if first:
            return Verdict(0, client=data[preface + 4] == 0)
        if first is None:
            return Undecided()
        good, decisive, verdict = chain(data, preface)
        needed = 1 if port else FRAMES_TO_BELIEVE
        if decisive or good >= needed or cut_header(data, preface, verdict, final and port):
            return Verdict(0, client=role(data, preface))
        return Rejected() if final or verdict == BAD else Undecided()

    def _in_midstream(self, data: bytes, port: bool, final: bool) -> Verdict | Undecided | Rejected:
        needed = FRAMES_TO_BELIEVE if not port else 2 if not final else 1
        for position in self._candidates(data):
            _, end, decisive = judge(data, position)
            if end - position > SEARCH_BYTES and not decisive:
                continue
            good, decisive, verdict = chain(data, position)
            if decisive or good >= needed:
                return Verdict(position, client=role(data, position))
            if verdict == CUT and not final:
                return Undecided(position)
        return Rejected() if final else Undecided(behind(data))

    def _candidates(self, data: bytes) -> Iterable[int]:
        return (match.start() for match in CANDIDATE.finditer(data))

    def split(self, data: bytes) -> Split:
        """Frames, and PROXY prefaces wherever they are."""
        ends: list[int] = []
        while True:
            split = FRAMING.split(data, ends[-1] if ends else 0)
            ends += split.ends
            if split.bad is None:
                return Split(ends, split.need)
            position = ends[-1] if ends else 0
            preface = preface_length(data, position)
            if not preface:
                return Split(ends, bad=None if preface is None else split.bad)
            if position + preface > len(data):
                return Split(ends, need=preface)
            ends.append(position + preface)

    def search(self, data: bytes, *, final: bool) -> Found:
        """A good frame that ends where a segment ends or another starts, or a chunk whose header fits."""
        for position in self._candidates(data):
            verdict, end, decisive = judge(data, position)
            if decisive:
                return Found(position, True)
            if end - position > SEARCH_BYTES:
                continue
            if verdict == GOOD:
                if end == len(data):
                    return Found(position, True)
                following, _, sure = judge(data, end)
                if sure or following == GOOD or (end + HEADER.size <= len(data) and following == CUT):
                    return Found(position, True)
                if following == CUT:
                    return Found(position, final)
            elif verdict == CUT and not final:
                return Found(position, False)
        return Found(behind(data), False)

    def conversation(self, connection: Connection, dialect: str | None) -> RabbitMQConversation:
        return RabbitMQConversation(connection)

    def layers(self) -> Iterable[type[Layer]]:
        return [*LAYERS.values(), Unknown, UnknownSasl, ProxyV1, ProxyV2]
