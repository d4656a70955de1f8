"""Pravega conversations: append blocks of many events."""

from __future__ import annotations

import itertools
import random
import struct

from tests.bench.bodies import bodies
from tests.bench.wire import CLIENT, SERVER, Send, Speaker, Talk, Turn

PORT = 12345
HELLO = struct.pack(">iIii", -127, 8, 17, 5)
UNKNOWN = -(1 << 63)
PADDING, PARTIAL_EVENT = -1, -2
HEADER = 8


def command(kind: int, body: bytes) -> bytes:
    return struct.pack(">iI", kind, len(body)) + body


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def block(writer: bytes, events: list[bytes], last: int, request: int, rng: random.Random) -> tuple[bytes, int]:
    """AppendBlock and AppendBlockEnd; and the bytes that the segment grows by.

    Half of the blocks end within the last event, the others are closed early and padded.
    """
    if rng.getrandbits(1):
        whole, cut = b"".join(events[:-1]), rng.randint(1, len(events[-1]))
        tail = command(PARTIAL_EVENT, events[-1][:cut])
        rest = events[-1][cut:]
    else:
        whole, rest = b"".join(events), b""
        tail = command(PADDING, bytes(rng.randint(1, 400)))
    end = writer + struct.pack(">iI", len(whole), len(rest)) + rest + struct.pack(">iqq", len(events), last, request)
    return command(3, writer + whole + tail) + command(4, end), sum(map(len, events))


def writing(rng: random.Random, group: int) -> Talk:
    """A writer: up to three blocks of 20 to 200 events, acknowledged together."""
    segment, writer = f"bench/orders/{group}.#epoch.0", rng.randbytes(16)
    request, none = (group + 1) << 32 | 1, struct.pack(">q", UNKNOWN)
    name = struct.pack(">q", request)
    setup = command(1, name + writer + text(segment) + text(""))
    ready = command(2, name + text(segment) + writer + none)
    opened = [Send(CLIENT, HELLO), Send(SERVER, HELLO), Send(CLIENT, setup), Send(SERVER, ready)]
    yield Turn(opened, 4)
    source, last, previous, offset = bodies(rng, 60, 192), 0, UNKNOWN, 0
    head = struct.Struct(">iI").pack
    while True:
        blocks, messages = [], 0
        for _ in range(rng.randint(1, 3)):
            count = rng.randint(20, 200)
            events = [head(0, len(body)) + body for body in itertools.islice(source, count)]
            messages += count
            data, grown = block(writer, events, last + messages, request, rng)
            blocks.append(data)
            offset += grown
        last += messages
        done = command(7, writer + struct.pack(">qqqq", last, previous, request, offset))
        previous = last
        yield Turn([Send(CLIENT, b"".join(blocks)), Send(SERVER, done)], 2 * len(blocks) + 1, messages)


WRITER = Speaker(writing, PORT)
