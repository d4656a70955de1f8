"""Cursus conversations: batches, produced and acknowledged, and streamed to consumers."""

from __future__ import annotations

import itertools
import random
import struct

from tests.bench.bodies import bodies
from tests.bench.wire import CLIENT, SERVER, START_NS, Send, Speaker, Talk, Turn

PORT = 9000


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def command(text: str) -> bytes:
    """A text command in an envelope without topic."""
    return frame(b"\0\0" + text.encode())


def string(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def batch(topic: bytes, first: int, messages: list[bytes], producer: bytes, *, stored: bool) -> bytes:
    """The layout in use since April 2026. ``stored``: as the broker sends it, with log offsets."""
    count = len(messages)
    head = struct.pack(">H", 0xBA7C) + string(topic) + struct.pack(">i", 0) + b"\x011\0"
    parts = [head, struct.pack(">QQi", first, first + count - 1, count)]
    numbers, sizes, no_event = struct.Struct(">QQ").pack, struct.Struct(">qI").pack, bytes(16)
    name = string(producer)
    for k, body in enumerate(messages, first):
        key = b"order-%d" % (k % 1000)
        parts += (numbers(k if stored else 0, k), name, string(key), sizes(START_NS, len(body)), body, no_event)
    return frame(b"".join(parts))


def producing(rng: random.Random, group: int) -> Talk:
    """Batches of 10 to 100 messages, each acknowledged; the broker writes length and text separately."""
    topic, producer = f"orders{group}", f"shop-{group}"
    created = (
        f"OK topic={topic} partitions=4 cleanup_policy=delete partitioner=hash_key auth_policy=open read_acl= "
        "write_acl= retention_hours=0 retention_bytes=0"
    )
    ok = frame(created.encode())
    create = command(f"CREATE topic={topic} partitions=4 idempotent=false")
    yield Turn([Send(CLIENT, create), Send(SERVER, ok[:4]), Send(SERVER, ok[4:])], 2)
    source, first = bodies(rng, 40, 200), 1
    while True:
        count = rng.randint(10, 100)
        messages = list(itertools.islice(source, count))
        sent = batch(topic.encode(), first, messages, producer.encode(), stored=False)
        last = first + count - 1
        done = frame(
            b'{"status":"OK","last_offset":%d,"producer_epoch":%d,"producer_id":"%s","seq_start":%d,"seq_end":%d}'
            % (last, START_NS, producer.encode(), first, last)
        )
        yield Turn([Send(CLIENT, sent), Send(SERVER, done[:4]), Send(SERVER, done[4:])], 2, count)
        first = last + 1


def streaming(rng: random.Random, group: int) -> Talk:
    """One STREAM command, then batches for ever."""
    topic, source, first = f"events{group}", bodies(rng, 40, 200), 0
    asked = command(
        f"STREAM topic={topic} partition=0 group=g1 offset=0 generation=1 member=m{group} "
        "auto_offset_reset=earliest isolation=read_committed batch=500"
    )
    ahead = [Send(CLIENT, asked)]
    while True:
        count = rng.randint(10, 400)
        messages = list(itertools.islice(source, count))
        data = batch(topic.encode(), first, messages, b"shop", stored=True)
        yield Turn([*ahead, Send(SERVER, data)], 1 + len(ahead), count)
        first += count
        ahead = []


PRODUCER = Speaker(producing, PORT)
CONSUMER = Speaker(streaming, PORT)
