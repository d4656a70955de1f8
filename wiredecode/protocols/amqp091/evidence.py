"""Whether bytes look like frames of AMQP 0-9-1, and of which side."""

import re

from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.amqp091 import names
from wiredecode.protocols.amqp091.layers import METHODS, ContentHeader
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT, SURE, WEAK, Evidence, layer_end

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Largest plausible payload: servers negotiate 128 KiB by default."""
HEADER_BYTES, AROUND = 7, 8
"""Bytes before the payload; and with the end mark."""
FRAMING = LengthPrefix(
    Number(3, 4, 0, MAX_FRAME_BYTES, "a payload of {value} bytes is above the limit of {most}"),
    after=AROUND,
    header=HEADER_BYTES,
    held=(Number(0, 1, names.METHOD, names.HEARTBEAT, "no frame of type {value}"),),
    mark=names.END_MARK,
)
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
CANDIDATE = re.compile(
    rb"""(?=
    \x01 .. [\x00-\x03]... \x00[\x0a\x14\x1e\x28\x32\x3c\x55\x5a] \x00[\x0a-\x78]
    | \x02 .. [\x00-\x03]... \x00\x3c \x00\x00
    | \x03 .. [\x00-\x03]...
    | \x08\x00\x00\x00\x00\x00\x00\xce
    | AMQP\x00\x00\x09\x01
    )""",
    re.DOTALL | re.VERBOSE,
)
PROPERTIES = ContentHeader.minimum() - 1
"""Where the properties of a content header begin."""


class AmqpChain(seeking.Chain):
    """A method whose arguments fill its frame is no chance; bodies show only their size and the end mark."""

    needed = {
        seeking.START: {SURE: 1, GOOD: 3},
        seeking.START_HOME: {SHORT: 1, GOOD: 1},
        seeking.LATE: {SURE: 2, GOOD: 4},
        seeking.LATE_HOME: {SURE: 1, GOOD: 2, WEAK: 4},
        seeking.KNOWN: {SURE: 1, GOOD: 1, WEAK: 3},
    }

    def judge(self, data: bytes, position: int) -> Evidence:
        front = data[position : position + AROUND]
        if front[:1] == b"A":
            return judge_greeting(front, position)
        on_connection = len(front) > 2 and not any(front[1:3])
        if front and (front[0] not in names.FRAMES or (on_connection and front[0] in (names.HEADER, names.BODY))):
            return Evidence(BAD)
        if len(front) < HEADER_BYTES:
            return Evidence(SHORT, need=position + HEADER_BYTES)
        size = int.from_bytes(front[3:7])
        end = position + AROUND + size
        if front[0] == names.HEARTBEAT:
            return Evidence(BAD if size or any(front[1:3]) or front[7:] not in (b"", b"\xce") else GOOD, end)
        if size > MAX_FRAME_BYTES:
            return Evidence(BAD)
        return self._judge_payload(data, position, end, front[0])

    def _judge_payload(self, data: bytes, position: int, end: int, kind: int) -> Evidence:
        start = position + HEADER_BYTES
        client, code = None, 0
        if kind == names.METHOD:
            code = int.from_bytes(data[start : start + 4])
            if start + 4 <= len(data) and code not in METHODS:
                return Evidence(BAD)
            connection = data[position + 1 : position + 3] == b"\0\0"
            if start + 4 <= len(data):
                if connection is not (code >> 16 == names.CONNECTION):
                    return Evidence(BAD)
                client = names.by_client(names.METHODS[code])
        elif kind == names.HEADER and not bytes(data[start : start + 4]).startswith(b"\0\x3c\0\0"[: len(data) - start]):
            return Evidence(BAD)
        if end > len(data):
            return Evidence(SHORT, end, client, end)
        if data[end - 1] != names.END_MARK:
            return Evidence(BAD, end)
        if kind == names.BODY:
            return Evidence(WEAK, end)
        layer = ContentHeader if kind == names.HEADER else METHODS[code]
        fits = layer_end(layer, data, position, end, any_text=True) == end
        return Evidence((SURE if kind == names.METHOD else GOOD) if fits else BAD, end, client)


def judge_greeting(front: bytes, position: int) -> Evidence:
    """The protocol header: alone, at another port, it only shows a client that went to the wrong server."""
    if front == names.GREETING:
        return Evidence(GOOD, position + len(front), True)
    return Evidence(SHORT if names.GREETING.startswith(front) else BAD)


SEEKER = seeking.Seeker(CANDIDATE, HEADER_BYTES, (AmqpChain,))
