"""TANK conversations: snappy bundles, produced and consumed."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterator

import cramjam

from tests.bench.bodies import bodies
from tests.bench.traffic_nats import varint
from tests.bench.wire import CLIENT, SERVER, START_NS, Send, Speaker, Talk, Turn

PORT = 11011
PING = bytes.fromhex("0300000000")
SAME_TIME, WITH_KEY = 2, 1
SNAPPY = 1


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<BI", kind, len(payload)) + payload


def string(value: str) -> bytes:
    return bytes((len(value),)) + value.encode()


def bundle(messages: list[bytes], time_ms: int) -> bytes:
    """A bundle of one message set, compressed, the count as varint; all messages at one time, one in four keyed."""
    first = struct.pack("<BQ", 0, time_ms) + varint(len(messages[0])) + messages[0]
    parts = [first]
    for k in range(1, len(messages)):
        message = messages[k]
        length = varint(len(message))
        if k & 3:
            parts.append(b"\x02%s%s" % (length, message))
        else:
            parts.append(b"\x03\x08%s%s%s" % (message[6:14], length, message))
    return bytes((SNAPPY,)) + varint(len(messages)) + bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def bundles(rng: random.Random) -> Iterator[tuple[int, bytes]]:
    """Endless bundles of 20 to 250 messages, with their counts."""
    source, time_ms = bodies(rng, 40, 200), START_NS // 1_000_000
    while True:
        count, time_ms = rng.randint(20, 250), time_ms + rng.randint(0, 5)
        yield count, bundle(list(itertools.islice(source, count)), time_ms)


def producing(rng: random.Random, group: int) -> Talk:
    """Requests of one to three partitions, each answered by one result per partition."""
    yield Turn([Send(SERVER, PING)], 1)
    topic, source = string(f"orders{group}"), bundles(rng)
    for request in itertools.count(1):
        partitions, messages = rng.randint(1, 3), 0
        parts = [struct.pack("<HI", 2, request), string("c++"), struct.pack("<BIB", 0, 0, 1), topic]
        parts.append(bytes((partitions,)))
        for partition, (count, packed) in enumerate(itertools.islice(source, partitions)):
            parts += (struct.pack("<H", partitions - 1 - partition), varint(len(packed)), packed)
            messages += count
        done = frame(1, struct.pack("<I", request) + bytes(partitions))
        yield Turn([Send(CLIENT, frame(1, b"".join(parts))), Send(SERVER, done)], 2, messages)


def consuming(rng: random.Random, group: int) -> Talk:
    """Requests for what comes next in a partition, answered by chunks of several bundles."""
    yield Turn([Send(SERVER, PING)], 1)
    topic, source, sequence = string(f"orders{group}"), bundles(rng), 1
    for request in itertools.count(1):
        asked = struct.pack("<HIBQIB", 2, request, 0, 5000, 0, 1) + topic
        asked += struct.pack("<BHQI", 1, 0, sequence, 131_072)
        picked = list(itertools.islice(source, rng.randint(1, 6)))
        chunk = b"".join([varint(len(packed)) + packed for _, packed in picked])
        count = sum(number for number, _ in picked)
        record = struct.pack("<HBQQI", 0, 0, sequence, sequence + count + 5000, len(chunk))
        head = struct.pack("<IB", request, 1) + topic + b"\1" + record
        answer = frame(2, struct.pack("<I", len(head)) + head + chunk)
        sequence += count
        yield Turn([Send(CLIENT, frame(2, asked)), Send(SERVER, answer)], 2, count)


PRODUCER = Speaker(producing, PORT)
CONSUMER = Speaker(consuming, PORT)
