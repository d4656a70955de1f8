"""NATS conversations: small messages, many or few per segment, and Liftbridge's envelopes."""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Iterable

import crc32c

from tests.bench.bodies import bodies
from tests.bench.wire import CLIENT, SERVER, START_NS, Send, Speaker, Talk, Turn

PORT = 4222
DEVICES = 200
MAGIC = bytes.fromhex("b90e43b4")
INFO = (
    b'INFO {"server_id":"NDKQB6BKXFQAXBIU2KNGBMXDJWGPSWSBROUYPR5AJ5VLHIWA4LYDNFRY","server_name":"bench","version":'
    b'"2.10.24","proto":1,"go":"go1.23.4","host":"0.0.0.0","port":4222,"headers":true,"max_payload":1048576,'
    b'"client_id":%d,"client_ip":"10.0.0.1"} \r\n'
)
CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"name":"%s","lang":"go","version":"1.37.0","protocol":1,"echo":true,'
    b'"headers":true,"no_responders":true}\r\n'
)


def opening(connection: int, number: int, name: str, *subjects: str) -> tuple[list[Send], int]:
    """INFO, CONNECT, PING, PONG and the subscriptions, and the number of operations."""
    hello = CONNECT % name.encode() + b"PING\r\n"
    sends = [Send(SERVER, INFO % number, connection), Send(CLIENT, hello, connection)]
    sends.append(Send(SERVER, b"PONG\r\n", connection))
    if subjects:
        lines = "".join(f"SUB {subject}  {sid}\r\n" for sid, subject in enumerate(subjects, 1))
        sends.append(Send(CLIENT, lines.encode(), connection))
    return sends, 4 + len(subjects)


def keep_alive(connections: Iterable[int]) -> Turn:
    """The server's PING and the client's PONG."""
    sends = [
        send
        for connection in connections
        for send in (Send(SERVER, b"PING\r\n", connection), Send(CLIENT, b"PONG\r\n", connection))
    ]
    return Turn(sends, len(sends))


def subjects(rng: random.Random, group: int) -> list[bytes]:
    kinds = ("telemetry.temperature", "telemetry.pressure", "state.door", "orders.eu.created")
    return [f"plant{group}.{rng.choice(kinds)}.{rng.randrange(10_000):04d}".encode() for _ in range(DEVICES)]


def messages(rng: random.Random, group: int, least: int, most: int, write: int) -> Talk:
    """A publisher, and a subscriber that gets its messages.

    ``least`` to ``most`` messages per write, ``write`` writes of each side per turn.
    """
    published, count_one = opening(0, 2 * group + 5, f"sensor-gateway-{group}")
    subscribed, count_two = opening(1, 2 * group + 6, f"dashboard-{group}", f"plant{group}.>")
    yield Turn([*published, *subscribed], count_one + count_two)
    source = zip(itertools.cycle(subjects(rng, group)), bodies(rng, 16, 200), strict=False)
    for turn in itertools.count(1):
        sends: list[Send] = []
        count = 0
        for _ in range(write):
            part = list(itertools.islice(source, rng.randint(least, most)))
            count += 2 * len(part)
            out = b"".join([b"PUB %s %d\r\n%s\r\n" % (name, len(body), body) for name, body in part])
            to = b"".join([b"MSG %s 1 %d\r\n%s\r\n" % (name, len(body), body) for name, body in part])
            sends += (Send(CLIENT, out, 0), Send(SERVER, to, 1))
        yield Turn(sends, count, count)
        if turn % 400 == 0:
            yield keep_alive((0, 1))


def many(rng: random.Random, group: int) -> Talk:
    """Dozens of messages per write: several in every segment, some across two."""
    return messages(rng, group, 20, 200, 1)


def few(rng: random.Random, group: int) -> Talk:
    """One to three messages per write, each write in a separate segment."""
    return messages(rng, group, 1, 3, 12)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def member(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(kind: int, message: bytes) -> bytes:
    """A Liftbridge envelope with CRC-32C."""
    return MAGIC + struct.pack(">BBBBI", 0, 12, 1, kind, crc32c.crc32c(message)) + message


def operation(name: bytes, subject: bytes, payload: bytes, sid: bytes = b"") -> bytes:
    return b"%s %s %s%d\r\n%s\r\n" % (name, subject, sid, len(payload), payload)


def liftbridge(rng: random.Random, group: int) -> Talk:
    """An application publishes to a stream; Liftbridge reads on one connection and acknowledges on another."""
    stream = f"orders-{group}".encode()
    subject, inbox = b"bench." + stream, b"bench.acks.%d" % group
    application, one = opening(0, 3 * group + 5, f"shop-{group}", inbox.decode())
    server = f"LIFT.liftbridge-default.server-{group}"
    streams, two = opening(1, 3 * group + 6, f"{server}.streams", subject.decode())
    acks, three = opening(2, 3 * group + 7, f"{server}.acks")
    yield Turn([*application, *streams, *acks], one + two + three)
    source, offset = bodies(rng, 40, 170), 0
    route = member(5, stream) + member(7, subject) + member(10, inbox)
    address = member(1, stream) + member(2, subject) + member(3, subject)
    for turn in itertools.count(1):
        writes: list[list[bytes]] = [[], [], [], []]
        count = rng.randint(4, 40)
        for body in itertools.islice(source, count):
            correlation = b"%x-%d" % (rng.getrandbits(48), offset)
            key = b"customer-%d" % (hash_of(body) % 5000)
            said = envelope(0, member(2, key) + member(3, body) + route + member(11, correlation) + b"\x60\x01")
            received = START_NS + offset * 40_000
            times = b"\x40" + varint(received) + b"\x48" + varint(received + 90_000)
            where = b"\x20" + varint(offset) if offset else b""
            done = envelope(1, address + where + member(5, inbox) + member(6, correlation) + b"\x38\x01" + times)
            writes[0].append(operation(b"PUB", subject, said))
            writes[1].append(operation(b"MSG", subject, said, b"1 "))
            writes[2].append(operation(b"PUB", inbox, done))
            writes[3].append(operation(b"MSG", inbox, done, b"1 "))
            offset += 1
        ways = ((CLIENT, 0), (SERVER, 1), (CLIENT, 2), (SERVER, 0))
        sends = [Send(side, b"".join(part), where) for part, (side, where) in zip(writes, ways, strict=True)]
        yield Turn(sends, 4 * count, 4 * count)
        if turn % 400 == 0:
            yield keep_alive((0, 1, 2))


def hash_of(body: bytes) -> int:
    """A hash that is the same in every run, unlike ``hash``."""
    return int.from_bytes(body[6:16])


MANY = Speaker(many, PORT, connections=2)
FEW = Speaker(few, PORT, connections=2)
LIFTBRIDGE = Speaker(liftbridge, PORT, connections=3)
