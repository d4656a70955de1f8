"""Evidence that a supposed frame is Cursus: to recognise the protocol, and to find the next frame after a gap."""

import re
import struct
from operator import attrgetter

from wiredecode.fields import Truncated, compiler
from wiredecode.fields.numbers import varint
from wiredecode.protocols.cursus import evidence_body as bodies
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.layers import Envelope
from wiredecode.protocols.cursus.layers_batch import BATCHES, fit, sound
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, EMPTY, GOOD, SHORT, SURE, WEAK, Evidence

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longest plausible body: the limit of clients and older brokers."""
PEEK_BYTES = 4096
"""Bytes of a text that are examined; a text without an end is accepted after as many."""
PEEK_MESSAGES = 16
"""Batches of more messages are believed by their header, and not read through."""
PEEK_INFLATED = 64 * 1024
"""Most that is decompressed to see what a body holds."""
MAX_PEEK_BYTES = 64 * 1024
"""Longest body without magic number that is waited for, to see whether it is compressed."""
MAX_TOPIC_BYTES = 256
"""Longest topic, or pattern of topics, in a frame that is believed."""

MAX_REFUSED_BYTES = 64 * 1024
"""On its own port, what may be a frame that the broker refuses is not given up before the broker speaks."""
START_BYTES = 12
"""Bytes that a candidate frame needs: its length and the first bytes of its body."""

CANDIDATE = re.compile(
    rb"(?=[\0-\3][\0-\xff]{3}(?:\xba\x7c|\0\0[A-Za-z]|\0[\1-\xf9][\w.=-]|[A-Za-z]{2}|\{\"|"
    rb"\x1f\x8b\x08|\x82SNAPPY\0|\x04\x22\x4d\x18|\x28\xb5\x2f\xfd))",
    re.DOTALL,
)

MAGICS = (names.MAGIC, *(magic for magic, _ in bodies.CODECS))
LENGTH = struct.Struct(">I")
PRINTABLE = re.compile(rb"[\t\n\r -~\x80-\xff]*")
TOPIC = re.compile(rb"[A-Za-z0-9._=*?-]*\Z")
FRONT = re.compile(rb"[ \t\r\n]*(\w+)(\W)?|[ \t\r\n]*[{\[]")
GOOD_REPLY = re.compile(
    rb"OK (?:[a-z_A-Z]+=|\[)|ERROR: \w|STREAM_CONTROL type="
    rb"|\{[ \r\n\t]*\"(?:status|error)\"[ \r\n\t]*:|\{.{0,80}\"last_offset\"",
    re.DOTALL,
)
REPLY_WORDS = ("OK", "ERROR", "STREAM_CONTROL")
COMMAND_WORDS = tuple(sorted(names.COMMANDS | set(names.DISCOVERY)))
KNOWN_WORDS = (*COMMAND_WORDS, *REPLY_WORDS)


def judge(data: bytes, position: int, final: bool = False) -> Evidence:
    """Judge the supposed frame at ``position``; ``final``: no more of it will come, so its start must do.

    Costs little, for any length in it. More bytes change no answer but :data:`SHORT`.
    """
    if position + 4 > len(data):
        return Evidence(SHORT)
    size = LENGTH.unpack_from(data, position)[0]
    end = position + 4 + size
    if size > MAX_FRAME_BYTES:
        return Evidence(BAD)
    if not size:
        return Evidence(EMPTY, end)
    front = data[position + 4 : min(end, position + 12)]
    if end > len(data) and (not front.strip() or any(magic.startswith(front) for magic in MAGICS)):
        return Evidence(SHORT, end)
    if front.startswith(names.MAGIC):
        return _batch(data, position, end, final)
    if bodies.codec_of(front, 0, len(front)) is not None:
        return Evidence(WEAK if end <= len(data) else SHORT, end, need=end)
    return (_text if front[0] else _envelope)(data, position, end, final)


def _batch(data: bytes, start: int, end: int, final: bool) -> Evidence:
    """A batch: a small one to its last byte, others by their header."""
    whole = end <= len(data)
    if len(data) - start < 8:
        return Evidence(BAD if whole else SHORT, end)
    topic = int.from_bytes(data[start + 6 : start + 8], "big")
    if topic > MAX_TOPIC_BYTES or not TOPIC.match(data, start + 8, min(start + 8 + topic, len(data))):
        return Evidence(BAD, end)
    cut = False
    for dialect, layer in BATCHES.items():
        try:
            values, reached = compiler.decoder(layer, "head")(data, start, min(end, len(data)))
        except UnicodeDecodeError:
            continue
        except compiler.DecodeError:
            cut = cut or not whole
            continue
        smallest = layer.fields_desc[-1].element.minimum()
        if not sound(dialect, values) or values["messages"] * smallest > end - reached:
            continue
        if values["messages"] <= PEEK_MESSAGES and end - start <= MAX_PEEK_BYTES:
            cut = cut or not (whole or final)
            if not (whole or final) or (whole and fit(dialect, data, start, end) is None):
                continue
        client = True if values.get("acks", "1") != "1" or values.get("idempotent") else None
        return Evidence(SURE, end, client)
    return Evidence(SHORT if cut else BAD, end)


def _text(data: bytes, start: int, end: int, final: bool) -> Evidence:
    """A text of either side."""
    position, stop = start + 4, min(end, len(data))
    front = FRONT.match(data, position, min(stop, position + 64))
    if front is None:
        return Evidence(BAD, end)
    seen = min(stop, position + PEEK_BYTES)
    dirt = PRINTABLE.match(data, position, seen).end()  # type: ignore[union-attr]
    if dirt < seen and data.find(b"message=", position, dirt) < 0:
        return Evidence(BAD, end)
    if end > stop and stop - position < PEEK_BYTES and not final:
        return Evidence(SHORT if _may_begin(front, KNOWN_WORDS) else BAD, end)
    if bodies.raw_command(data, position, stop):
        return Evidence(GOOD if dirt == seen else WEAK, end, True)
    if dirt < seen:
        return Evidence(BAD, end)
    if GOOD_REPLY.match(data, position, stop):
        return Evidence(GOOD, end, False)
    if any(is_reply(data, position, stop) for is_reply in (bodies.success, bodies.failure, bodies.control)):
        return Evidence(WEAK, end, False)
    return Evidence(WEAK if not front[1] and data[stop - 1 : stop] in b"}]" else BAD, end, False)


def _may_begin(front: re.Match[bytes], words: tuple[str, ...]) -> bool:
    """Whether a text whose end has not come begins with one of the words, or with JSON."""
    word = (front[1] or b"").decode("ascii", "replace").upper()
    return any(candidate == word if front[2] else candidate.startswith(word) for candidate in words)


def _envelope(data: bytes, start: int, end: int, final: bool) -> Evidence:
    """A text in an envelope: the length of a topic, the topic, a command."""
    position, stop = start + 4, min(end, len(data))
    if stop - position < 2:
        return Evidence(SHORT if end > stop else BAD, end)
    inside = position + 2 + data[position + 1]
    if inside > end or not TOPIC.match(data, position + 2, min(inside, stop)):
        return Evidence(BAD, end)
    if end > stop:
        return _cut_envelope(data, position, inside, end, final)
    layer = bodies.text_command(data, start, end)
    if layer is None or layer is Envelope:
        return Evidence(WEAK if layer is Envelope and _is_publish(data, inside, end) else BAD, end, True)
    return Evidence(SURE, end, True)


def _cut_envelope(data: bytes, position: int, inside: int, end: int, final: bool) -> Evidence:
    """An envelope whose end has not come."""
    if inside >= len(data):
        return Evidence(SHORT, end)
    front = FRONT.match(data, inside, inside + 64)
    if front is not None and front[1] and _may_begin(front, COMMAND_WORDS):
        believed = front[2] is not None and (final or len(data) - position >= PEEK_BYTES)
        return Evidence(SURE if believed else SHORT, end, True if believed else None)
    publish = inside > position + 2 and _is_publish(data, inside, len(data))
    return Evidence(SHORT if publish else BAD, end)


def _is_publish(data: bytes, position: int, end: int) -> bool:
    """An envelope of 2025-11: its topic is not empty, and its contents are text."""
    clean = PRINTABLE.match(data, position, end)
    return clean is not None and clean.end() == end > position


def judge_compressed(data: bytes, final: bool) -> Evidence:
    """The frame at the front of ``data`` if it is compressed: what it holds decides."""
    size = LENGTH.unpack_from(data)[0]
    if size + 4 > len(data):
        return Evidence(SHORT if not final and _may_be_snappy(data[4:12], size) else BAD, size + 4)
    body = data[4 : 4 + size]
    codec = bodies.codec_of(body, 0, size)
    inner = bodies.inflate(codec, body, PEEK_INFLATED).data if codec else bodies.raw_snappy(body)
    if not inner:
        return Evidence(BAD, size + 4)
    held = judge(len(inner).to_bytes(4, "big") + inner, 0)
    return Evidence(SURE if held.level >= GOOD else BAD, size + 4, True if held.client is None else held.client)


class CursusChain(seeking.Chain):
    """Frames of either side; the first of a connection may be compressed. Empty ones count only among sure ones."""

    needed = {
        seeking.START: {WEAK: 3, GOOD: 2, SURE: 1},
        seeking.START_HOME: {SHORT: 1, WEAK: 1},
        seeking.LATE: {GOOD: 3, SURE: 1},
        seeking.LATE_HOME: {SHORT: 1, WEAK: 3, GOOD: 2, SURE: 1},
        seeking.KNOWN: {SHORT: 1, WEAK: 2, SURE: 1},
    }
    fills, looks = 3, PEEK_BYTES
    has_empty = False

    def judge(self, data: bytes, position: int) -> Evidence:
        seen = judge(data, position, self.final)
        if seen.level == EMPTY and self.place == seeking.KNOWN:
            return Evidence(BAD)  # messages hold many zeros
        if position or self.place > seeking.START_HOME:
            return seen
        if seen.level in (BAD, WEAK) and seen.end > 4:
            seen = max(seen, judge_compressed(data, self.final), key=attrgetter("level"))
        refused = seen.level == BAD and self.place == seeking.START_HOME and not self.final
        return Evidence(SHORT) if refused and int.from_bytes(data[:4]) <= MAX_REFUSED_BYTES else seen

    def add(self, data: bytes, seen: Evidence) -> None:
        self.has_empty = self.has_empty or seen.level == EMPTY

    @property
    def is_believed(self) -> bool:
        late = self.place in (seeking.LATE, seeking.LATE_HOME)
        mixed = late and self.has_empty and EMPTY < self.best < SURE  # as events of Pravega are
        return not mixed and super().is_believed


SEEKER = seeking.Seeker(CANDIDATE, START_BYTES, (CursusChain,))


def _may_be_snappy(front: bytes, size: int) -> bool:
    """Whether a body begins like a raw snappy block: a length that fits, and a literal."""
    try:
        length, literal = varint("length", front, 0, len(front), 4)
    except Truncated:
        return len(front) < 4
    fits = size - 64 <= length <= bodies.MAX_SNAPPY_RATIO * size and size <= MAX_PEEK_BYTES
    return fits and length > 0 and (literal == len(front) or front[literal] & 3 == 0)
