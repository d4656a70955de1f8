"""The targets: seeds, mutations and properties of each."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path

from tests.fuzz import properties
from tests.fuzz.mutate import mutate_bytes, mutate_packets, mutate_talk, words
from tests.fuzz.properties import holds
from tests.fuzz.shapes import PacketsInput, TalkInput
from tests.net.script import run as run_network
from tests.protocols.test_amqp091_parity import TestAmqp091
from tests.protocols.test_cursus_parity import TestCursus
from tests.protocols.test_kafka_parity import TestKafka
from tests.protocols.test_nats_parity import TestNats
from tests.protocols.test_pravega_parity import TestPravega
from tests.protocols.test_rabbitmq_parity import TestRabbitMQStream
from tests.protocols.test_tank_parity import TestTank
from wiredecode.capture import CaptureError, open_capture
from wiredecode.testing import ProtocolTests, dissect, tables
from wiredecode.testing.segments import Part

CAPTURES = Path(__file__).parents[2] / "captures"
TALK_BYTES, TALKS = 1500, 40
"""Of a seed, and seeds of a protocol."""
KITS: dict[str, type[ProtocolTests]] = {
    kit.protocol.name: kit
    for kit in (TestRabbitMQStream, TestNats, TestTank, TestCursus, TestPravega, TestKafka, TestAmqp091)
}

Mutate = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """``run`` raises if a property is broken."""

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    mutate: Mutate = mutate_bytes


# Protocols.


@cache
def talks(kit: type[ProtocolTests]) -> list[bytes]:
    """Short conversations of small captures, and crafted frames."""
    found: list[bytes] = []
    for path in kit.captures:
        if path.stat().st_size > 60_000:
            continue
        by_connection: dict[int, list[Part]] = {}
        for part in kit.spoken_in(path):
            by_connection.setdefault(part.connection, []).append(part)
        for parts in islice(by_connection.values(), 2):
            short, size = [], 0
            for part in parts:
                short.append(Part(1, part.side, part.data[:TALK_BYTES]))
                size += len(part.data)
                if size > TALK_BYTES:
                    break
            found.append(TalkInput(len(found) % 5, len(found), short).write())
    made = [Part(1, side, raw) for side in (0, 1) for layer in kit.layers() for raw in kit.made(layer)[:1]]
    return [*found[:TALKS], *(TalkInput(0, 0, [part]).write() for part in made if len(part.data) < TALK_BYTES)]


def run_stream(kit: type[ProtocolTests], data: bytes) -> None:
    """Run the decoder of a protocol: batches make no difference, all readers agree."""
    talk = TalkInput.read(data)
    result = properties.same_in_batches(lambda size: kit.dissect(talk.source(kit.port(), size)), 1 + talk.seed % 4)
    properties.failures(result)
    properties.same_without_records(result, kit.dissect(talk.source(kit.port()), style=None))
    for frame in result.frames:
        properties.decoded(kit, frame)


def run_any(data: bytes) -> None:
    """Run a conversation whose protocol is unknown."""
    talk = TalkInput.read(data)
    result = properties.same_in_batches(lambda size: dissect(talk.source(41234, size)), 1 + talk.seed % 4)
    properties.failures(result)
    for frame in result.frames:
        properties.findings(frame)


def run_views(data: bytes) -> None:
    """Make lines, trees and JSON of frames of any protocol on the port of one protocol."""
    talk = TalkInput.read(data)
    kit = list(KITS.values())[talk.seed % len(KITS)]
    result = dissect(talk.source(kit.port()))
    properties.failures(result)
    for frame in result.frames:
        properties.shown(frame)


def run_tables(data: bytes) -> None:
    """Messages are equal read one by one or in bulk, and frames fit a table."""
    talk = TalkInput.read(data)
    port = list(KITS.values())[talk.seed % len(KITS)].port()
    _, totals = tables.table(talk.source(port), "frames", blocks=False)
    slow, known = tables.table(talk.source(port), "messages", blocks=False)
    with tables.shortest_blocks():
        fast, others = tables.table(talk.source(port), "messages", blocks=True)
    for each in (totals, known, others):
        holds(not each.failures, f"internal: {each.failures}")
    holds(fast.equals(slow), f"tables: {tables.difference(fast, slow) if len(fast) else 'no rows'}")
    holds(known == others, "tables: other totals")


def all_talks() -> Iterator[bytes]:
    """Some of each protocol; the second byte names it."""
    for number, kit in enumerate(KITS.values()):
        for data in talks(kit)[::3]:
            yield bytes([data[0], number]) + data[2:]


def mutate_any(data: bytes, chance: random.Random) -> bytes:
    """Mutate as the protocol that the second byte names."""
    kits = list(KITS.values())
    return mutate_talk(kits[data[1] % len(kits)] if len(data) > 1 else kits[0], data, chance)


# Captures and packets.


def small_captures() -> list[Path]:
    return sorted(
        path for path in CAPTURES.glob("*/*.pcap*") if path.stat().st_size < 20_000 and path.suffix != ".json"
    )


def as_pcapng(data: bytes) -> bytes:
    """A pcap file as pcapng."""
    from wiredecode.capture.live.pcapng_writer import PcapNgWriter

    out = io.BytesIO()
    writer = PcapNgWriter(out)
    capture = open_capture([io.BytesIO(data)])
    with suppress(CaptureError):
        for batch in capture:
            writer.write(batch, capture.info.interfaces)
    return out.getvalue()


def captures() -> Iterator[bytes]:
    """The beginnings of files of each form, compressed ones too."""
    import zstandard

    for path in small_captures()[:12]:
        data = path.read_bytes()[:4000]
        yield data
        again = as_pcapng(data)
        yield again
        yield gzip.compress(again, mtime=0)
        yield zstandard.compress(data)


def run_capture(data: bytes) -> None:
    """Read a file in several ways: packets lie within it."""

    def read(**options: int) -> tuple[list[tuple[int, ...]], list[bytes], str]:
        rows, contents, error = [], [], ""
        try:
            for batch in open_capture([io.BytesIO(data)], **options):
                columns = batch.start, batch.captured, batch.original, batch.time_ns, batch.linktype, batch.number
                for start, size, *more in zip(*(column.tolist() for column in columns), strict=True):
                    holds(
                        start >= 0 and size >= 0 and start + size <= len(batch.buffer), "capture: outside of its bytes"
                    )
                    rows.append((size, *more))
                    contents.append(bytes(batch.buffer[start : start + size]))
        except CaptureError as raised:
            error = str(raised)
            properties.harmless(error, "an error")
        return rows, contents, error

    whole = read()
    holds(whole == read(batch_bytes=100, batch_packets=2), "capture: batches make a difference")


def packet_seeds() -> Iterator[bytes]:
    """Packets of captures, and the same in tunnels."""
    from tests.net.test_tunnels import PLAIN, tunnels

    for path in small_captures()[::3]:
        with suppress(CaptureError):
            yield PacketsInput.of(open_capture([path]), 12).write()
    from scapy.layers.l2 import Ether

    plain = PacketsInput.of(open_capture([PLAIN]), 10)
    for wrap in tunnels().values():
        with suppress(Exception):  # of scapy, which makes them
            yield PacketsInput(1, [(later, bytes(wrap(Ether(data)))) for later, data in plain.packets]).write()


def run_packets(data: bytes) -> None:
    """Link, tunnels, IP and TCP: every byte of every stream is accounted for, in batches of any size."""
    found = PacketsInput.read(data)
    seen = []
    for size in (None, 1 + len(data) % 5):
        outcome = run_network(found.source(size))
        seen.append((outcome.network.not_decoded, outcome.network.limits_hit, outcome.network.connections))
    holds(all(each == seen[0] for each in seen), f"batches: packets are counted otherwise: {seen}")
    result = properties.same_in_batches(lambda size: dissect(found.source(size)), 1 + len(data) % 4)
    properties.failures(result)


def run_tls(data: bytes) -> None:
    """TLS records with secrets: the first half of the bytes is a key log, unless they are a conversation of two."""
    from wiredecode.dissect.dissector import Demand, Dissector
    from wiredecode.tls.keylog import KeyLog

    size = int.from_bytes(data[:2], "big")
    keys, talk = KeyLog(), TalkInput.read(data[2 + size :])
    keys.add(data[2 : 2 + size])
    dissector = Dissector(Demand(style=None, keys=keys))
    for frame in dissector.frames(talk.source(4222)):
        properties.findings(frame)
    holds(not dissector.totals.failures, f"internal: {dissector.totals.failures}")


@cache
def tls_seeds() -> list[bytes]:
    """Conversations made by OpenSSL, and their secrets."""
    import tempfile

    from tests.tls.test_tls import INFO, SUITES_1_2, Pair, nats

    found = []
    with tempfile.TemporaryDirectory() as name:
        for suite in (None, SUITES_1_2[0], "AES128-SHA", SUITES_1_2[3]):
            pair = Pair(Path(name), suite)
            for side, data in nats()[:6]:
                pair.say(side, data)
            log = pair.log.read_bytes()
            parts = [Part(1, 1, INFO), *(Part(1, side, data) for side, data in pair.wire)]
            found.append(len(log).to_bytes(2, "big") + log + TalkInput(0, 0, parts).write())
    return found


def mutate_tls(data: bytes, chance: random.Random) -> bytes:
    """Records in other segments, or other bytes in them."""
    size = int.from_bytes(data[:2], "big")
    talk = TalkInput.read(data[2 + size :])
    if chance.random() < 0.3 or not talk.parts:
        talk.how, talk.seed = chance.randrange(64), chance.randrange(256)
    else:
        part = chance.choice(talk.parts)
        part.data = mutate_bytes(part.data, chance)
    return data[: 2 + size] + talk.write()


# Separate decoders.


def run_amqp(data: bytes) -> None:
    """Both readers agree, and building gives the same bytes."""
    from tests.test_amqp import _both

    _both(data)


def amqp_seeds() -> list[bytes]:
    from tests.test_amqp import VECTORS

    return list(VECTORS.values())


def run_protobuf(data: bytes) -> None:
    """Every kind of protobuf field, by every reader."""
    from tests.test_protobuf import Everything
    from wiredecode.testing import readers_agree

    readers_agree(Everything, data, leaves=True, damaged=True)


def protobuf_seeds() -> list[bytes]:
    from tests.test_protobuf import USUAL

    return [bytes.fromhex(text) for text, _ in USUAL]


def run_codecs(data: bytes) -> None:
    """Every codec stops at the limit and reports the rest. The first byte names the codec."""
    from wiredecode.protocols.shared.compression import CODECS, Status, decompress

    names = sorted(CODECS)
    for limit in (1 << 20, 100):
        found = decompress(names[data[0] % len(names)] if data else "none", data[1:], limit)
        holds(len(found.data) <= limit, f"codecs: {len(found.data)} bytes, the limit is {limit}")
        holds(isinstance(found.status, Status) and (found.status is Status.OK) == (not found.message), "codecs: status")


def codec_seeds() -> Iterator[bytes]:
    import cramjam
    import lz4.frame
    import zstandard

    from wiredecode.protocols.shared.compression import CODECS

    plain = b"what is said again and again " * 9 + bytes(range(64))
    packed = {
        "gzip": gzip.compress(plain, mtime=0),
        "snappy": bytes(cramjam.snappy.compress(plain)),
        "snappy-raw": bytes(cramjam.snappy.compress_raw(plain)),
        "lz4": lz4.frame.compress(plain),
        "zstd": zstandard.compress(plain),
    }
    for number, name in enumerate(sorted(CODECS)):
        yield bytes([number]) + packed.get(name, plain)


FILTERS = (
    'rabbitmq_stream.type == "Publish" && frame.length > 100',
    'nats.subject matches "^orders\\.[0-9]+$" or latency > 5ms',
    "ip.addr == 10.0.0.0/8 and not tcp.port in {5552 5551..5560}",
    'finding.severity == "error" || frame.time >= "2023-11-14T22:13:20Z"',
    'pravega.segment contains "a" and exists(request) xor tank.topics[0].topic == "x"',
)
WORDS = (
    *(
        "==",
        "!=",
        "<",
        ">=",
        "&&",
        "and",
        "or",
        "not",
        "!",
        "(",
        ")",
        "in",
        "{",
        "}",
        "contains",
        "matches",
        "..",
        '"a"',
    ),
    *(
        "0x10",
        "5ms",
        "10.0.0.1/8",
        "frame.length",
        "rabbitmq_stream.type",
        "nats.subject",
        "[0]",
        "$",
        "'b'",
        "1e9",
        "-1",
    ),
)


@cache
def some_frames() -> list[object]:
    from wiredecode.testing.dissection import STYLE

    found: list[object] = []
    for path in small_captures()[::6]:
        with suppress(CaptureError):
            found += dissect(open_capture([path]), style=STYLE).frames[:6]
    return found[::4]


def run_filter(data: bytes) -> None:
    """A text is a valid filter, or an error with a position."""
    from wiredecode.filter import FilterError, compile_filter

    text = data.decode("utf-8", "surrogateescape")
    try:
        found = compile_filter(text, utc=True)
    except FilterError as error:
        properties.harmless(error.explain().replace("\n", " "), "an error")
        holds(0 <= error.start <= len(text), "filter: a place outside of the text")
        return
    for frame in some_frames():
        holds(isinstance(found.matches(frame), bool), "filter: no answer")  # type: ignore[arg-type]


def _targets() -> Iterator[Target]:
    for name, kit in KITS.items():
        yield Target(name, partial(run_stream, kit), partial(talks, kit), partial(mutate_talk, kit))
    yield Target("any", run_any, all_talks, mutate_any)
    yield Target("views", run_views, all_talks, mutate_any)
    yield Target("tables", run_tables, all_talks, mutate_any)
    yield Target("capture", run_capture, captures)
    yield Target("packets", run_packets, packet_seeds, mutate_packets)
    yield Target("tls", run_tls, tls_seeds, mutate_tls)
    yield Target("amqp", run_amqp, amqp_seeds)
    yield Target("protobuf", run_protobuf, protobuf_seeds)
    yield Target("codecs", run_codecs, codec_seeds)
    yield Target("filter", run_filter, lambda: [text.encode() for text in FILTERS], words(*WORDS))


TARGETS = {target.name: target for target in _targets()}
