"""Measures work on any machine, to find work that is quadratic in its input, and memory that grows with it.

:func:`grows_with_length_only` compares times; :func:`doubles` counts, so it needs only two small inputs.
"""

from __future__ import annotations

import cProfile
import gc
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.splitter import LengthPrefix
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.nats.evidence import WebSocketStream
from wiredecode.protocols.nats.transport_s2 import IDENTIFIER
from wiredecode.protocols.nats.transport_websocket import TAIL
from wiredecode.protocols.registry import DecodeAs, protocol_entries
from wiredecode.protocols.shared.compression import masked_crc
from wiredecode.testing import Talk, batches, samples

TIMES = 8
"""Ratio of the two input sizes: linear work takes 8 times as long, quadratic work 64 times."""
MOST = 40
"""Work that a constant limits grows faster up to that: 17 times was seen."""
MIN_SECONDS = 0.003
"""Shorter times are noise: the inputs are made larger."""
LARGEST = 64
"""Largest factor: an input that is refused immediately takes no time at any size."""
ATTEMPTS = 4


def grows_with_length_only(make: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether the work of ``make(size)`` takes CPU time in proportion to ``size``, in at least one of the attempts.

    Another program may evict the caches during an attempt, but nothing makes quadratic work look linear.
    """
    make(size)()  # compiles and imports that happen at first use
    enlarged = 1
    while cpu(small := make(size * enlarged)) < MIN_SECONDS and enlarged < LARGEST:
        enlarged *= 2
    large = make(TIMES * size * enlarged)
    return any(cpu(large) < MOST * max(cpu(small), MIN_SECONDS / 2) for _ in range(ATTEMPTS))


@contextmanager
def others_frozen() -> Iterator[None]:
    """Collections and ``gc.get_objects`` see what is made meanwhile, not the millions of objects of other tests."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def cpu(work: Callable[[], object]) -> float:
    """CPU time in seconds: the shorter of two runs."""
    spent = []
    with others_frozen():
        for _ in range(2):
            started = time.process_time()
            work()
            spent.append(time.process_time() - started)
    return min(spent)


def calls(work: Callable[[], object]) -> int:
    """Number of function calls, in Python and in C: the same in every run."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


# Bytes of any content.

BYTES_PER_CALL = 32
"""So many bytes that a protocol gets count as one call: regular expressions are fast."""
SEGMENT = 64
"""Bytes of a segment: the shorter, the more looks."""
SIZE = 3 * 1024
TWICE = 2.5
"""Limit of the ratio of work at twice the size: what is limited by a constant grows faster up to that."""

Content = Callable[[int], bytes]
"""Bytes of any number."""


def repeated(unit: bytes) -> Content:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


def numbers(size: int) -> bytes:
    return repeated(b"".join(number.to_bytes(4, "big") for number in range(256)))(size)


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


UNITS = {
    "zeros": b"\0",
    "ones": b"\1",
    "ff": b"\xff",
    "letters": b"A",
    "lines": b"\n",
    "PUB": b"PUB a 5\r\n",
    "PUB with a long body": b"PUB a 500\r\n",
    "PUB without an end": b"PUB a ",
    "HMSG of many words": b"HMSG a 1 a a a a a",
    "S2 streams": b"\xff\x06\0\0S2sTwO",
    "S2 chunks": bytes.fromhex("0000000500000010"),
    "S2 plain": b"\1\xf8\0\0abcd",
    "S2 block that grows": b"\0\x0e\0\0abcd\xff\xff\x7f\0a\xfe\1\0\xfe\1\0",
    "S2 padding": b"\xfe\4\0\0abcd",
    "WebSocket, empty": b"\x81\0",
    "WebSocket, long": b"\x82\x7e\xff\xff",
    "WebSocket, masked": b"\x82\x80abcd",
    "WebSocket, compressed": b"\xc2\x05abcde",
    "WebSocket, many deflate streams": b"\xc2\x7d" + b"\3\0" * 62 + b"\0",
    "WebSocket fragments": b"\2\0\0\1A",
    "HTTP": b"GET / HTTP/1.1\r\n",
    "TLS": b"\x17\3\3\0\5abcde",
    "PROXY": b"PROXY TCP4 ",
    "PROXY v2": b"\r\n\r\n\0\r\nQUIT\n",
    "JSON": b'{"a":1},',
    "gzip": b"\0\0\1\0\x1f\x8b\x08",
    "command": b"\0\3\0\0LIST ",
    "envelope": b"\0\0\1\0\0\1aPUBLISH b ",
}
CONTENTS: dict[str, Content] = {name: repeated(unit) for name, unit in UNITS.items()}


def properties(size: int) -> bytes:
    """PeerProperties of RabbitMQ in each property of PeerProperties."""
    frame = struct.pack(">ihhii", size // 2, 0x11, 1, 1, 0x7F7F)
    return repeated(struct.pack(">h", len(frame)) + frame)(size)


def topics(size: int) -> bytes:
    """DeleteTopics of Kafka in each topic of DeleteTopics."""
    request = struct.pack(">ihhihi", size // 2, 20, 1, 1, 0, 0x7F7F)
    return repeated(struct.pack(">h", len(request)) + request)(size)


CONTENTS |= {"numbers": numbers, "noise": noise, "properties": properties, "topics": topics}


def own_contents(protocol: Protocol, most: int | None = None) -> Iterator[tuple[str, Content]]:
    """The beginnings of (at most so many) messages of a protocol, again and again, also with long ones announced."""
    layers = sorted(protocol.layers(), key=lambda each: each.__name__)
    for layer in layers[:: max(1, len(layers) // most) if most else 1]:
        for raw in samples(layer, wanted=1)[:1]:
            yield f"{layer.__name__}, 9 bytes", repeated(raw[:9])
            yield f"{layer.__name__}, 24 bytes", repeated(raw[:24])
            if protocol.framing is not None and len(raw) >= protocol.framing.header:
                yield f"{layer.__name__}, long", announced(raw[:32], protocol.framing)


def announced(unit: bytes, framing: LengthPrefix) -> Content:
    """A header, again and again, of a frame that is half as long as all."""
    number = framing.length

    def content(size: int) -> bytes:
        length = (size // 2).to_bytes(number.width, "little" if number.little else "big")
        return repeated(unit[: number.at] + length + unit[number.at + number.width :])(size)

    return content


# Connections of one protocol, or of any.

PROTOCOLS = {entry.name: entry for entry in protocol_entries()}
NATS_OPENING = (
    (1, b'INFO {"server_id":"N","version":"2.12.2","proto":1,"max_payload":1048576}\r\n'),
    (0, b'CONNECT {"verbose":false,"lang":"go","version":"1"}\r\nPING\r\n'),
    (1, b"PONG\r\n"),
)
ROUTE = b'INFO {"server_id":"R","version":"2.12.2","proto":1,"lnoc":true,"route_pool_size":3}\r\n'
PLAIN = 512
"""Bytes of a compressed message, or of a chunk."""
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCH = (
    (0, b"GET / HTTP/1.1\r\nHost: a\r\n" + UPGRADE),
    (1, b"HTTP/1.1 101 Switching Protocols\r\n" + UPGRADE),
    (1, b"\x82" + bytes([len(NATS_OPENING[0][1])]) + NATS_OPENING[0][1]),
)


def after_a_loss(name: str, data: bytes) -> Callable[[], object]:
    """Reading a connection of a protocol: the packet before ``data`` is lost."""
    entry = PROTOCOLS[name]
    talk = Talk(server=("10.0.0.2", entry.ports[0]))
    packets = [*talk.handshake()]
    for side, said in NATS_OPENING if name == "nats" else ():
        packets += talk.send(side, said)
    packets += talk.send(0, bytes(SEGMENT) + data, SEGMENT)[1:]
    return reading(packets, decode_as={} if name == "nats" else {entry.ports[0]: DecodeAs(entry.load())})


def in_websockets(side: int, data: bytes) -> Callable[[], object]:
    """Reading NATS in WebSockets: a frame with ``data``, a lost packet, and ``data`` in place of frames."""
    talk = Talk(server=("10.0.0.2", 443))
    packets = [*talk.handshake()]
    for sender, said in SWITCH:
        packets += talk.send(sender, said)
    packets += talk.send(side, b"\x82\x7f" + len(data).to_bytes(8) + data, SEGMENT)
    packets += talk.send(side, bytes(SEGMENT) + data, SEGMENT)[1:]
    return reading(packets)


def compressed(data: bytes) -> Callable[[], object]:
    """Reading NATS in compressed WebSocket messages: ``data`` takes the place of operations."""
    talk = Talk(server=("10.0.0.2", 443))
    packets = [*talk.handshake()]
    for sender, said in SWITCH:
        packets += talk.send(sender, said)
    for at in range(0, len(data), PLAIN):
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        body = (deflate.compress(data[at : at + PLAIN]) + deflate.flush(zlib.Z_SYNC_FLUSH)).removesuffix(TAIL)
        packets += talk.send(1, b"\xc2\x7e" + len(body).to_bytes(2) + body)
    return reading(packets)


def chunked(data: bytes) -> Callable[[], object]:
    """Reading a route of NATS in S2 chunks: ``data`` takes the place of operations."""
    return reading(chunks(data))


def chunks(data: bytes) -> list[bytes]:
    """The packets of that route."""
    talk = Talk(server=("10.0.0.2", 6222))
    packets = [*talk.handshake(), *talk.send(1, ROUTE)]
    for at in range(0, len(data), PLAIN):
        plain = data[at : at + PLAIN]
        body = masked_crc(plain).to_bytes(4, "little") + plain
        packets += talk.send(0, IDENTIFIER * (not at) + b"\1" + len(body).to_bytes(3, "little") + body)
    return packets


def late(port: int, data: bytes) -> Callable[[], object]:
    """Reading a connection that began before the capture."""
    return reading(Talk(server=("10.0.0.2", port)).send(0, data, SEGMENT))


def reading(packets: Iterable[bytes], **options: Any) -> Callable[[], object]:
    source = list(batches(packets, size=256))
    return lambda: sum(1 for _ in Dissector(Demand(**options)).frames(source))


@contextmanager
def counted_bytes() -> Iterator[list[int]]:
    """The number of bytes that protocols are given to recognise, split and search, added to a list."""
    given: list[int] = []

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Any, data: bytes, **options: Any) -> Any:
            given.append(len(data))
            return method(self, data, **options)

        return counted

    with ExitStack() as stack:
        for kind in (WebSocketStream, *(type(entry.load()) for entry in PROTOCOLS.values())):
            for name in ("recognise", "split", "search"):
                if hasattr(kind, name):
                    stack.enter_context(patch.object(kind, name, counting(getattr(kind, name))))
        yield given


def work(run: Callable[[], object]) -> int:
    """What a run costs: calls, and bytes that protocols looked at."""
    with counted_bytes() as given:
        made = calls(run)
    return made + sum(given) // BYTES_PER_CALL


def doubles(make: Callable[[int], Callable[[], object]], size: int = SIZE) -> bool:
    """Whether the work doubles with the size."""
    make(2 * size)()  # compiles and imports that happen at first use
    return work(make(2 * size)) <= TWICE * work(make(size))


def kept(make: Callable[[int], object], size: int) -> int:
    """Bytes of memory that the result of ``make(size)`` holds."""
    make(size)  # compiles and imports that happen at first use
    with others_frozen():
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            result = make(size)
            gc.collect()
            held = tracemalloc.get_traced_memory()[0] - before
            del result
            return held
        finally:
            tracemalloc.stop()
