"""The whole stack on damaged and foreign traffic: accounting, gaps, late starts, one direction, other protocols."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import seeds
from tests.net.craft import Talk, batches
from tests.protocols.rabbitmq_vectors import BY_NAME
from tests.support import (
    RABBITMQ,
    Part,
    Run,
    capture,
    capture_files,
    careful_values,
    craft,
    dialogue,
    dissect,
    every,
    flow,
    lossy,
    one_sided,
    opening,
    packets,
    random_cuts,
    seen,
    segments,
    without,
)
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.protocols.rabbitmq_stream.protocol import RabbitMQStream
from wiredecode.protocols.registry import DecodeAs

MOVED = 7000
"""A port that says nothing."""


@cache
def whole(name: str, port: int = 5552) -> tuple[Run, PacketBatch]:
    """The first 160 frames of a capture in new segments: (run, packets)."""
    parts = dialogue(capture(RABBITMQ / f"{name}.pcap"), 160)
    batch = next(batches(craft(parts, random_cuts(11), port)))
    return dissect([batch]), batch


def some(batch: PacketBatch, keep: Callable[[int], bool]) -> PacketBatch:
    """The packets with these indices, at their times."""
    columns = zip(batch.time_ns.tolist(), batch.start.tolist(), batch.captured.tolist(), strict=True)
    return PacketBatch.from_packets(
        (time_ns, batch.buffer[start : start + size])
        for index, (time_ns, start, size) in enumerate(columns)
        if keep(index)
    )


# Accounting.


@pytest.mark.parametrize("path", capture_files(), ids=lambda path: path.name)
def test_accounting_closes(path: Path) -> None:
    run = capture(path)
    totals = run.totals
    assert totals.closes
    decoded = [frame for frame in run.frames if frame.status != "undecoded" and frame.protocol != "tls"]
    assert totals.framed == sum(frame.length - frame.missing for frame in decoded)
    assert totals.undecoded == sum(frame.length for frame in run.frames if frame.status == "undecoded")
    assert sum(totals.frames.values()) == len(run.frames)
    assert totals.packets == totals.tcp_packets + sum(totals.not_decoded.values())


@pytest.mark.parametrize("path", capture_files(), ids=lambda path: path.name)
def test_nothing_is_undecoded_in_an_undamaged_capture(path: Path) -> None:
    name = path.name.split(".")[0]
    totals = capture(path).totals
    if name in ("d_snap96", "d_drop1pct"):
        assert totals.missing > 0
        return
    assert (totals.undecoded, totals.missing, totals.late, totals.ignored) == (0, 0, 0, 0)
    assert {looks for looks, _ in totals.other} == ({"TLS"} if name == "c43_tls" else set())
    if not name.startswith("c310"):  # where TCP itself sent something twice
        assert (totals.duplicate > 0) == (name == "d_shuffled_dups")
    if name == "d_drop1pct":
        assert totals.missing == 10_205


def test_frames_lie_one_after_another_and_are_numbered() -> None:
    for path in capture_files():
        run = capture(path)
        assert [frame.number for frame in run.frames] == list(range(1, len(run.frames) + 1))
        reached: dict[tuple[int, int], int] = {}
        for frame in run.frames:
            way = frame.connection.number, frame.side
            assert frame.offset >= reached.get(way, 0), f"{path.name}: frame {frame.number}"
            reached[way] = frame.offset + frame.length


# Loss.

LOSSY = ["c43_basic", "c43_multi", "c43_filter", "c43_large", "c43_codecs_py"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", LOSSY)
def test_loss_of_packets(name: str, seed: int) -> None:
    path = RABBITMQ / f"{name}.pcap"
    chance = random.Random(f"{name}{seed}")
    one_in = chance.choice([3, 5, 20, 50])
    lost = {index for index in range(len(packets(path))) if chance.randrange(one_in) == 0} - opening(path)
    batch = without(path, lost)
    run, there = dissect([batch]), seen([batch])
    assert run.totals.closes
    assert run.totals.captured == there.captured
    assert lossy(capture(path), run, there) == ([], [])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["c43_basic", "c43_multi", "c43_filter", "c43_sac"])
def test_loss_of_segments_of_any_size(name: str, seed: int) -> None:
    """Gaps hide headers, but every frame outside gaps is still found."""
    base, batch = whole(name)
    chance = random.Random(f"{name}{seed}")
    one_in = chance.choice([5, 10, 20, 100])
    syn = {segment.packet - 1 for segment in segments([batch]) if segment.syn}
    left = some(batch, lambda index: index in syn or chance.randrange(one_in) > 0)
    run, there = dissect([left]), seen([left])
    assert run.totals.closes
    assert run.totals.captured == there.captured
    assert run.totals.missing > 0
    assert any(finding.code == "hole" for frame in run.frames for finding in frame.findings)
    assert lossy(base, run, there) == ([], [])


def test_the_loss_tests_lose_frames() -> None:
    """Most frames survive and some do not, so the tests above are not vacuous."""
    base, batch = whole("c43_basic")
    run = dissect([some(batch, lambda index: index < 3 or index % 10 > 0)])
    assert 0.5 * len(base.frames) < len(run.whole) < 0.95 * len(base.frames)
    assert run.of(None)


def test_a_gap_reports_its_bytes() -> None:
    frames = [BY_NAME[name].raw for name in ("V44", "V42", "V44", "V42", "V44", "V42", "V53")]
    packed = craft([Part(1, 0, raw) for raw in frames], every(1460))
    del packed[3 + 2]
    run = dissect(batches(packed))
    assert [frame.type for frame in run.frames] == [
        "StoreOffset",
        "Credit",
        "Credit",
        "StoreOffset",
        "Credit",
        "Heartbeat",
    ]
    found = [finding for frame in run.frames for finding in frame.findings if finding.code == "hole"]
    assert [(f.severity, f.group) for f in found] == [("warning", "reassembly")]
    assert "31 bytes" in found[0].message
    assert run.totals.missing == 31


def test_a_gap_inside_a_known_frame_costs_only_that_frame() -> None:
    body = bytes(1000)
    published = struct.pack(">HHBIQI", 2, 1, 0, 1, 1, len(body)) + body
    raw = struct.pack(">I", len(published)) + published
    following = BY_NAME["V53"].raw * 2
    packed = craft([Part(1, 0, raw + following)], every(300))
    del packed[3 + 1]
    run = dissect(batches(packed))
    assert [(frame.type, frame.status) for frame in run.frames] == [
        ("Publish", "partial"),
        ("Heartbeat", "ok"),
        ("Heartbeat", "ok"),
    ]
    partial = run.frames[0]
    assert (partial.length, partial.missing, len(partial.data)) == (len(raw), 300, 300)
    assert careful_values(partial)["publisher_id"] == 0
    assert (run.totals.framed, run.totals.missing, run.totals.undecoded) == (len(raw) - 300 + 16, 300, 0)


@pytest.mark.parametrize("seed", seeds(12))
def test_changed_bytes_never_raise_and_change_no_earlier_frame(seed: int) -> None:
    """Random bytes of the streams change: lengths, keys, counts, codecs, AMQP."""
    base = capture(RABBITMQ / f"{['c43_codecs_py', 'c43_amqp', 'c43_multi', 'c43_superstream'][seed % 4]}.pcap")
    chance = random.Random(seed)
    parts = dialogue(base)
    first: dict[tuple[int, int], int] = {}
    reached: dict[tuple[int, int], int] = {}
    for part in parts:
        way = part.connection, part.side
        if chance.random() < 0.3:
            data = bytearray(part.data)
            place = chance.randrange(len(data))
            data[place] ^= 1 << chance.randrange(8)
            part.data = bytes(data)
            first.setdefault(way, reached.get(way, 0) + place)
        reached[way] = reached.get(way, 0) + len(part.data)
    run = dissect(batches(craft(parts, random_cuts(seed))))
    assert run.totals.closes
    ours = {(*frame.connection.ports, frame.side, frame.offset): careful_values(frame) for frame in run.frames}
    kept = 0
    for frame in base.frames:
        number, side = frame.connection.number, frame.side
        if frame.offset + frame.length <= first.get((number, side), 1 << 60):
            assert ours.get((40_000 + number, 5552, side, frame.offset)) == careful_values(frame)
            kept += 1
    assert 0 < kept < len(base.frames)


# Late starts and one direction.


@pytest.mark.parametrize("port", [5552, MOVED])
@pytest.mark.parametrize("name", ["c43_basic", "c43_multi", "c43_sac"])
def test_start_in_mid_stream(name: str, port: int) -> None:
    base, batch = whole(name, port)
    count = len(batch)
    for first in range(10, count - 20, count // 5):
        left = some(batch, lambda index, first=first: index >= first)  # type: ignore[misc]
        run, there = dissect([left]), seen([left])
        assert run.totals.closes
        wrong, lost = lossy(base, run, there, seen([batch]).origin)
        assert wrong == []
        identified = {frame.connection.endpoints for frame in run.frames}
        ours = [frame for frame in lost if frame.connection.endpoints in identified]
        assert ours == [], f"from packet {first}"
        if port == 5552:
            few = [frame for frame in lost if frame.connection.endpoints not in identified]
            assert len(few) <= 2, "on the known port one frame is enough"


@pytest.mark.parametrize("syn", [True, False])
@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("name", ["c43_basic", "c43_filter", "c43_large"])
def test_one_direction_only(name: str, side: str, syn: bool) -> None:
    path = RABBITMQ / f"{name}.pcap"
    port = struct.pack("!H", 5552)
    index = 1 if side == "client" else 0
    keep = [s.packet - 1 for s in segments(open_capture([path])) if s.flow[index].endswith(port) and (syn or not s.syn)]
    batch = without(path, set(range(len(packets(path)))) - set(keep))
    run = dissect([batch])
    expected = [frame for frame in capture(path).frames if frame.sender == side]
    assert run.totals.closes
    assert run.totals.undecoded == 0
    assert {frame.sender for frame in run.frames} == {side}
    ours = {(flow(frame), frame.offset): (frame.type, frame.status, careful_values(frame)) for frame in run.frames}
    theirs = {(flow(frame), frame.offset): (frame.type, frame.status, careful_values(frame)) for frame in expected}
    assert ours == theirs


def test_a_late_start_inside_a_very_large_frame() -> None:
    """A consumer of large chunks, captured from the middle of one: the next ones are found."""
    deliver = BY_NAME["V37"].raw
    packed = craft([Part(1, 1, bytes(2_000_000)), *([Part(1, 1, deliver)] * 5)], every(1460), handshake=False)
    run = dissect(batches(packed))
    assert run.totals.closes
    assert [frame.type for frame in run.frames if frame.status == "ok"] == ["Deliver"] * 5


def test_first_bytes_lost_and_the_rest_starts_inside_a_frame() -> None:
    """SYN/ACK and the first bytes of the server are lost: no frame may be read from the middle of another."""
    answers = b"".join(BY_NAME[name].raw for name in ("V02", "V04", "V08", "V11", "V32", "V46", "V66"))
    talk = Talk()
    syn, _, ack = talk.handshake()
    requests = talk.send(0, BY_NAME["V01"].raw)
    late = talk.packet(1, answers[10:], talk.seq[1] + 10)
    run = dissect(batches([syn, ack, *requests, late]))
    assert run.totals.closes
    server = [frame.type for frame in run.frames if frame.side == 1 and frame.status == "ok"]
    assert server[-4:] == [
        "Tune",
        "QueryPublisherSequenceResponse",
        "QueryOffsetResponse",
        "ResolveOffsetSpecResponse",
    ]
    assert set(server) <= {"SaslHandshakeResponse", "SaslAuthenticateResponse", *server[-4:]}
    assert all(frame.status in ("ok", "undecoded") for frame in run.frames)


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_first_frame_after_a_gap_at_every_phase(cut: int) -> None:
    """A gap that ends anywhere inside a frame: the next frame is the first one that is reported."""
    frames = [BY_NAME[name].raw for name in ("V44", "V45", "V42", "V53", "V44", "V50")]
    stream = BY_NAME["V01"].raw + b"".join(frames)
    gap = len(BY_NAME["V01"].raw)
    talk = Talk()
    start = talk.handshake()
    packed = [*start, *talk.send(0, stream[:gap]), talk.packet(0, stream[gap + cut :], talk.seq[0] + cut)]
    run = dissect(batches(packed))
    place = gap
    expected = []
    for raw in frames:
        if place >= gap + cut:
            expected.append(place)
        place += len(raw)
    assert [frame.offset for frame in run.frames if frame.status == "ok"] == [0, *expected]


# Other protocols.


def claimed(run: Run) -> list[str | None]:
    assert run.totals.closes
    assert run.totals.captured == sum(run.totals.other.values()) + run.totals.framed + run.totals.undecoded
    return [frame.type for frame in run.frames]


def strange(run: Run) -> list[str | None]:
    """Types of the frames that are not Kafka's."""
    claimed(run)
    return [frame.type for frame in run.frames if frame.protocol not in ("kafka", "")]


def kafka(seed: int, version: int) -> bytes:
    """Requests of Kafka clients: size, api key, api version, correlation id, client id, body."""
    chance = random.Random(seed)
    out = b""
    for correlation in range(1, 120):
        client = chance.choice([b"rdkafka", b"consumer-group-1-0", b"x"])
        body = (
            chance.randbytes(chance.choice([4, 16, 40])) if correlation % 2 else struct.pack(">iih", 1, 0, 3) + b"abc"
        )
        key = chance.randint(0, 31)
        request = struct.pack(">hhih", key, version, correlation, len(client)) + client + body
        out += struct.pack(">i", len(request)) + request
    return out


@pytest.mark.parametrize("port", [9092, 5552])
@pytest.mark.parametrize("handshake", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_kafka_is_not_recognised_as_another_protocol(seed: int, handshake: bool, port: int) -> None:
    packed = craft([Part(1, 0, kafka(seed, 1 + seed % 2))], every(1460), port, handshake)
    assert strange(dissect(batches(packed))) == []


def test_kafka_sasl_handshake_is_not_peer_properties() -> None:
    """Key 17 version 1 in both protocols."""
    request = struct.pack(">hhih", 17, 1, 1, 7) + b"rdkafka" + struct.pack(">h", 5) + b"PLAIN"
    packed = craft([Part(1, 0, struct.pack(">i", len(request)) + request)], every(1460))
    run = dissect(batches(packed))
    assert claimed(run) == ["SaslHandshakeRequest"]


@pytest.mark.parametrize("port", [MOVED, 5552])
@pytest.mark.parametrize("handshake", [True, False])
def test_a_megabyte_of_random_bytes_is_not_claimed(handshake: bool, port: int) -> None:
    data = random.Random(20).randbytes(1_000_000)
    packed = craft([Part(1, 0, data[:500_000]), Part(1, 1, data[500_000:])], every(1460), port, handshake)
    assert claimed(dissect(batches(packed))) == []


@pytest.mark.parametrize("handshake", [True, False])
def test_tables_of_small_integers_are_not_claimed(handshake: bool) -> None:
    chance = random.Random(3)
    words = [chance.choice([0, 0, 0, 1, 1, 2, 3, 8, 12, 17, 23]) for _ in range(40_000)]
    data = struct.pack(f">{len(words)}H", *words)
    run = dissect(batches(craft([Part(1, 0, data)], every(1460), MOVED, handshake)))
    assert claimed(run) == []


def test_random_bytes_decoded_as_rabbitmq() -> None:
    """With a wrong --decode-as nothing breaks, and every byte is accounted for."""
    said = {MOVED: DecodeAs(RabbitMQStream())}
    for seed in range(5):
        data = random.Random(seed).randbytes(50_000)
        run = dissect(batches(craft([Part(1, 0, data)], every(1460), MOVED)), decode_as=said)
        assert run.totals.closes
        assert run.totals.framed + run.totals.undecoded == len(data)
        assert not run.totals.other


FOREIGN = {
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(30),
    "HTTP": b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n",
    "AMQP": b"AMQP\x00\x00\x09\x01",
    "unknown": b"\xff\xfe\xfd\xfc" * 10,
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("port", [5552, 5551, MOVED])
def test_content_of_undecoded_connections_is_named(name: str, port: int) -> None:
    run = dissect(batches(craft([Part(1, 0, FOREIGN[name])], every(1460), port)))
    assert {frame.protocol for frame in run.frames} == ({"tls"} if name == "TLS" else set())
    assert dict(run.totals.other) == {(name, port): len(FOREIGN[name])}
    assert run.totals.closes


def test_rabbitmq_on_a_moved_port_is_recognised_by_its_bytes() -> None:
    run = dissect(batches(craft(dialogue(capture(RABBITMQ / "c43_basic.pcap")), every(1460), MOVED)))
    assert len(run.frames) == len(capture(RABBITMQ / "c43_basic.pcap").frames)
    assert not run.totals.other


def test_a_connection_without_payload() -> None:
    talk = Talk()
    run = dissect(batches([*talk.handshake(), *talk.close()]))
    assert (run.frames, run.totals.captured, run.totals.connections) == ([], 0, 1)
    assert run.totals.closes


def test_one_byte_is_no_protocol() -> None:
    run = one_sided(b"\x00")
    assert claimed(run) == []
