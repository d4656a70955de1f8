"""RabbitMQ Stream conversations: batched publishes with their confirms, and chunks with their credits."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Iterator

from tests.bench.bodies import bodies
from tests.bench.wire import CLIENT, SERVER, START_NS, Send, Speaker, Talk, Turn

PORT = 5552
DATA_SECTION = bytes.fromhex("005375a0")
"""AMQP 1.0: a data section with a body of up to 255 bytes; its length follows."""


def frame(key: int, payload: bytes, version: int = 1) -> bytes:
    return struct.pack(">IHH", len(payload) + 4, key, version) + payload


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def pairs(**properties: str) -> bytes:
    return struct.pack(">I", len(properties)) + b"".join(text(k) + text(v) for k, v in properties.items())


def answer(key: int, correlation: int, more: bytes = b"") -> bytes:
    return frame(0x8000 | key, struct.pack(">IH", correlation, 1) + more)


def number(correlation: int) -> bytes:
    return struct.pack(">I", correlation)


def opening(name: str) -> list[Send]:
    """From PeerProperties to ExchangeCommandVersions; 14 frames."""
    tune = struct.pack(">II", 1 << 20, 60)
    versions = struct.pack(">IHHH", 1, 8, 1, 2)
    commands = struct.pack(">I6H", 2, 1, 1, 1, 2, 1, 2)
    plain = text("PLAIN") + struct.pack(">I", 12) + b"\0guest\0guest"
    product = pairs(connection_name=name, product="RabbitMQ Stream", platform="Python", version="1.1.1")
    broker = pairs(cluster_name="rabbit@bench", product="RabbitMQ", platform="Erlang/OTP 26", version="4.0.5")
    mechanisms = struct.pack(">I", 2) + text("AMQPLAIN") + text("PLAIN")
    where = pairs(advertised_host="rabbit.bench", advertised_port="5552")
    return [
        Send(CLIENT, frame(17, number(1) + product)),
        Send(SERVER, answer(17, 1, broker)),
        Send(CLIENT, frame(18, number(2))),
        Send(SERVER, answer(18, 2, mechanisms)),
        Send(CLIENT, frame(19, number(3) + plain)),
        Send(SERVER, answer(19, 3) + frame(20, tune)),
        Send(CLIENT, frame(20, tune) + frame(21, number(4) + text("/"))),
        Send(SERVER, answer(21, 4, where)),
        Send(CLIENT, frame(27, number(5) + versions)),
        Send(SERVER, answer(27, 5, commands)),
    ]


OPENING_FRAMES = 12


def entries(rng: random.Random) -> Iterator[bytes]:
    """Encoded AMQP 1.0 messages of 105 to 200 bytes."""
    return (DATA_SECTION + bytes((len(body),)) + body for body in bodies(rng, 100, 195))


def publish(publisher: int, first: int, messages: list[bytes]) -> bytes:
    head = struct.Struct(">QI").pack
    parts = [head(first + k, len(message)) + message for k, message in enumerate(messages)]
    return frame(2, struct.pack(">BI", publisher, len(messages)) + b"".join(parts))


def confirm(publisher: int, first: int, count: int) -> bytes:
    return frame(3, struct.pack(f">BI{count}Q", publisher, count, *range(first, first + count)))


def publishing(rng: random.Random, group: int) -> Talk:
    """A publisher: up to four batches of 10 to 100 messages in flight, confirmed together."""
    stream = f"orders-{group}"
    declare = frame(1, number(6) + b"\0" + text(f"writer-{group}") + text(stream))
    opened = [*opening(f"producer-{group}"), Send(CLIENT, declare), Send(SERVER, answer(1, 6))]
    yield Turn(opened, OPENING_FRAMES + 2)
    source, next_id = entries(rng), 1
    while True:
        counts = [rng.randint(10, 100) for _ in range(rng.randint(1, 4))]
        batches, first = [], next_id
        for count in counts:
            batches.append(publish(0, next_id, list(itertools.islice(source, count))))
            next_id += count
        confirmed = Send(SERVER, confirm(0, first, next_id - first))
        yield Turn([Send(CLIENT, b"".join(batches)), confirmed], len(counts) + 1, sum(counts))


def chunk(first: int, messages: list[bytes], time_ms: int) -> bytes:
    head = struct.Struct(">I").pack
    data = b"".join([head(len(message)) + message for message in messages])
    count = len(messages)
    sizes = struct.pack(">IIIB3x", zlib.crc32(data), len(data), 0, 0)
    return struct.pack(">BBHIqQQ", 0x50, 0, count, count, time_ms, 1, first) + sizes + data


def consuming(rng: random.Random, group: int) -> Talk:
    """A consumer: one or two chunks of 20 to 600 entries for each credit it grants."""
    subscribe = frame(7, number(6) + b"\0" + text(f"orders-{group}") + struct.pack(">HH", 1, 10))
    opened = [*opening(f"consumer-{group}"), Send(CLIENT, subscribe), Send(SERVER, answer(7, 6))]
    yield Turn(opened, OPENING_FRAMES + 2)
    source, first, time_ms = entries(rng), 0, START_NS // 1_000_000 - 3_600_000
    while True:
        delivered, messages = [], 0
        for _ in range(rng.randint(1, 2)):
            count = rng.randint(20, 600)
            body = chunk(first, list(itertools.islice(source, count)), time_ms)
            delivered.append(frame(8, struct.pack(">BQ", 0, first) + body, version=2))
            first, time_ms, messages = first + count, time_ms + rng.randint(1, 90), messages + count
        credits_sent = Send(CLIENT, frame(9, struct.pack(">BH", 0, len(delivered))))
        yield Turn([Send(SERVER, b"".join(delivered)), credits_sent], len(delivered) + 1, messages)


PUBLISHER = Speaker(publishing, PORT)
CONSUMER = Speaker(consuming, PORT)


def visiting(rng: random.Random, group: int) -> Talk:
    """PeerProperties and the broker's: what a health check, or a client that is refused, asks."""
    for correlation in itertools.count(1):
        asked, given = opening(f"visitor-{group % 20}")[:2]
        yield Turn(
            [
                asked._replace(data=renumbered(asked.data, correlation)),
                given._replace(data=renumbered(given.data, correlation)),
            ],
            2,
        )


def renumbered(data: bytes, correlation: int) -> bytes:
    """A frame with another correlation id."""
    return data[:8] + number(correlation) + data[12:]


VISITOR = Speaker(visiting, PORT)
