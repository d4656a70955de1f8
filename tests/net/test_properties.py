"""Properties of any traffic: an oracle for every byte, and random traffic in random batches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.conftest import seeds
from tests.net.craft import ACK, FIN, RST, START_NS, SYN, Talk, batches
from tests.net.script import Outcome, run
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import logical_time, packet_of
from wiredecode.net.types import Chunk, Gap


@dataclass
class Copy:
    """A sent segment: offset and bytes."""

    start: int
    data: bytes


def segments(rng: random.Random, stream: bytes) -> list[Copy]:
    """The stream in random segments, with retransmissions in other segments."""
    copies = []
    at = 0
    longest = rng.choice([3, 40, 300])
    while at < len(stream):
        end = min(at + rng.randint(1, longest), len(stream))
        copies.append(Copy(at, stream[at:end]))
        if rng.random() < 0.2:
            back = max(at - rng.randint(0, 2 * longest), 0)
            copies.append(Copy(back, stream[back : end - rng.randint(0, min(5, end - at - 1))]))
        at = end
    return copies


def disturb(rng: random.Random, copies: list[Copy], drop: float, differ: float) -> list[Copy]:
    """Reorder within a window, duplicate, drop, and change some copies."""
    window = rng.choice([0, 2, 30])
    ranked = sorted(enumerate(copies), key=lambda pair: pair[0] + rng.random() * window)
    sent = []
    for _, copy in ranked:
        if rng.random() < drop:
            continue
        changed = bytes(byte ^ 255 for byte in copy.data) if rng.random() < differ else copy.data
        sent += [Copy(copy.start, changed)] * rng.choice([1, 1, 1, 1, 2])
    return sent


def expected(sent: list[Copy], first_number: int) -> dict[int, tuple[int, int]]:
    """For every byte that was sent: (value, packet) of the first copy."""
    first: dict[int, tuple[int, int]] = {}
    for number, copy in enumerate(sent, first_number):
        for at, value in enumerate(copy.data, copy.start):
            first.setdefault(at, (value, number))
    return first


def cut(rng: random.Random, packets: list[bytes], spacing_ns: int) -> Iterator[PacketBatch]:
    """Batches of random sizes, as from a live capture or a file."""
    most = rng.choice([1, 5, 40, 10_000])
    at = 0
    while at < len(packets):
        part = packets[at : at + rng.randint(1, most)]
        timed = [(START_NS + (at + i) * spacing_ns, packet) for i, packet in enumerate(part)]
        yield PacketBatch.from_packets(timed, first_number=at + 1)
        at += len(part)


@pytest.mark.parametrize("seed", seeds(30))
def test_any_order_gives_the_same_stream_gaps_and_packet_of_every_byte(seed: int) -> None:
    rng = random.Random(seed)
    stream = rng.randbytes(rng.choice([50, 500, 2500]))
    drop, differ = rng.choice([(0, 0), (0.1, 0), (0, 0.1), (0.1, 0.1)])
    sent = disturb(rng, segments(rng, stream), drop, differ)
    isn = rng.choice([0, 2**32 - 1, 2**32 - len(stream) // 2, 2**31 - 10, rng.randrange(2**32)])
    talk = Talk(isn=(isn, 5000))
    packets = [talk.packet(0, seq=isn, flags=SYN)]
    packets += [talk.packet(0, copy.data, isn + 1 + copy.start) for copy in sent]
    outcome = run(cut(rng, packets, 1000))

    first = expected(sent, first_number=2)
    at = ready = given_up = 0
    for event in outcome.of():
        assert event.offset == at or not isinstance(event, Chunk | Gap)
        if isinstance(event, Gap):
            assert not any(position in first for position in range(at, at + event.length))
            at += event.length
            assert at in first
            given_up = event.ready
            assert packet_of(given_up) == len(packets) + 1, "no ACK came, and no second has passed"
        elif isinstance(event, Chunk):
            piece = 0
            for position, value in enumerate(event.data, event.offset):
                piece += int(position >= event.ends[piece])
                ready = max(ready, first[position][1])
                placed = max(logical_time(ready), given_up)
                assert (value, int(event.packet[piece]), int(event.ready[piece])) == (*first[position], placed)
                assert (event.time_ns[piece] - START_NS) // 1000 + 1 == event.packet[piece]
                assert (event.ready_ns[piece] - START_NS) // 1000 + 1 == ready
            at += len(event.data)
    assert at == max(first, default=-1) + 1
    if not differ:
        assert outcome.notes() == []


def summary(outcome: Outcome) -> dict[str, Any]:
    """Everything that must not depend on batch size."""
    streams: dict[tuple[int, int], tuple[list[object], list[object], list[object], list[object]]] = {}
    for d in outcome.directions:
        c = d.connection
        facts: list[object] = [
            c.endpoints,
            c.initiator,
            c.closed,
            d.captured,
            d.duplicate,
            d.late,
            d.ignored,
            d.missing,
        ]
        streams[c.number, d.side] = facts, [], [], []
    for e in outcome.events:
        _, data, pieces, gaps = streams[e.direction.connection.number, e.direction.side]
        if isinstance(e, Gap):
            gaps.append((e.offset, e.length, e.reason, e.ready, e.ready_ns))
        elif isinstance(e, Chunk):
            data += e.data
            columns = (e.ends, e.packet, e.time_ns, e.ready, e.ready_ns)
            pieces += zip(*(column.tolist() for column in columns), strict=True)
    network = outcome.network
    ended = [(c.number, c.end_packet) for c in network.pop_forgotten()]
    assert len(ended) == network.connections
    return {
        "ended": ended,
        "streams": streams,
        "notes": outcome.notes(),
        "counts": (network.connections, network.packets, network.tcp_packets, network.not_decoded),
        "limits": network.limits_hit,
    }


def chaos(
    rng: random.Random, count: int, talks: int, steps: tuple[float, ...] = (-500, 3, 1e6)
) -> list[tuple[float, bytes, int]]:
    """Connections that open, close, break, lose, repeat, reuse ports and acknowledge too much, at times that jump.

    Each packet is (seconds, bytes, snapshot length).
    """
    pool = [Talk(client=("10.0.0.1", 1000 + i), isn=(rng.randrange(2**32), 2**32 - 50)) for i in range(talks)]
    packets: list[tuple[float, bytes, int]] = []
    now = 100.0
    while len(packets) < count:
        index = rng.randrange(talks)
        talk, side, now = pool[index], rng.randrange(2), now + rng.choice([0, 0.001, 0.01, 0.2, 0.7, -0.05])
        now += rng.choice([0] * 60 + [*steps])
        kind, snaplen = rng.random(), rng.choice([65535] * 9 + [60])
        payload = rng.randbytes(rng.choice([0, 1, 1, 5, 30, 200]))
        jump = rng.choice([0] * 12 + [-1, 1, -30, 40, 200, -300, 2**30 + 9, -(2**30) - 9])
        seq = talk.seq[side] + jump
        if kind < 0.03:
            isn = rng.choice([talk.isn[0], rng.randrange(2**32)])
            talk = pool[index] = Talk(client=talk.client, isn=(isn, 77))
            packets.append((now, talk.handshake()[rng.randrange(2)], snaplen))
            continue
        flags = FIN | ACK if kind < 0.05 else RST if kind < 0.06 else SYN if kind < 0.07 else ACK
        ahead = rng.choice([0] * 9 + [1, 30, 300, 2**31])
        talk.seq[1 - side] += ahead
        packets.append((now, talk.packet(side, payload, seq, flags), snaplen))
        talk.seq[1 - side] -= ahead
        if abs(jump) < 1000 and rng.random() < 0.97:
            talk.seq[side] = (talk.seq[side] + max(jump, 0) + len(payload)) % 2**32
    return packets


CHAOS = {
    "default": (Limits(), 3, ()),
    "short": (Limits(gap_seconds=0.1, history_bytes=16, remembered_gaps=2), 3, ()),
    "bytes": (Limits(buffered_bytes=500), 1, ("buffered_bytes",)),
    "segments": (Limits(buffered_segments=5), 1, ("buffered_segments",)),
    "total": (Limits(buffered_total=100, gap_seconds=1e7), 4, ("buffered_total",)),
    "connections": (Limits(connections=4), 12, ("connections",)),
    "closed": (Limits(closed_seconds=0.05, gap_seconds=0.02), 6, ()),
    "closed connections": (Limits(closed_connections=2, connections=8), 12, ("connections",)),
}
"""Limits, number of 4-tuples, and the limits that the traffic must reach for the test to say something."""


SEEDS = [pytest.param(seed, case, marks=pytest.mark.slow) for seed in (4, 7, 13) for case in CHAOS]


@pytest.mark.parametrize(("seed", "case"), [*((0, case) for case in CHAOS), *SEEDS])
def test_batch_size_does_not_matter(seed: int, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.net.network.CLOSED_CHECK_PACKETS", 64)
    limits, talks, names = CHAOS[case]
    rng = random.Random(seed)
    packets = chaos(rng, 1100, talks)
    results = []
    for sizes in ([1], [39, 40, 100, 1], [10_000], [rng.randint(1, 700) for _ in range(9)]):
        parts: list[PacketBatch] = []
        at = 0
        while at < len(packets):
            size = sizes[len(parts) % len(sizes)]
            part = packets[at : at + size]
            timed = [(START_NS + round(now * 1e9), data[:snaplen]) for now, data, snaplen in part]
            parts.append(PacketBatch.from_packets(timed, 1, at + 1, [len(data) for _, data, _ in part]))
            at += size
        results.append(summary(run(parts, limits)))
    for result in results[1:]:
        for key, value in result.items():
            assert value == results[0][key], key
    assert set(names) <= set(results[0]["limits"])


def stories(outcome: Outcome) -> list[Any]:
    """The events of each connection without packet numbers, which depend on other connections."""
    found: dict[int, Any] = {}
    for e in outcome.events:
        c = e.direction.connection
        lines = found.setdefault(c.number, (c.first, c.endpoints, c.closed, [], []))[3 + e.direction.side]
        if isinstance(e, Gap):
            lines.append((e.offset, e.length, e.reason, e.ready_ns))
        elif isinstance(e, Chunk):
            columns = (e.ends, e.packet, e.time_ns, e.ready_ns)
            lines += zip(*(column.tolist() for column in columns), strict=True)
            lines.append(e.data)
    return sorted((first, *rest, _joined(a), _joined(b)) for first, *rest, a, b in found.values())


def _joined(lines: list[Any]) -> tuple[list[Any], bytes]:
    """Joins adjacent chunks."""
    return [line for line in lines if not isinstance(line, bytes)], b"".join(filter(_is_bytes, lines))


def _is_bytes(line: Any) -> bool:
    return isinstance(line, bytes)


@pytest.mark.parametrize("case", ["default", "short", "bytes", "segments", "closed"])
@pytest.mark.parametrize("seed", seeds(4, quick=2))
def test_separate_connections_give_the_same_events(seed: int, case: str) -> None:
    """On a cluster a connection is decoded separately: gaps and waits end in the same order, bytes have the same times.

    Also if the clock is set back between its packets.
    """
    limits, talks, _ = CHAOS[case]
    rng = random.Random(seed)
    packets = chaos(rng, 1100, talks + 2, steps=(-0.35, 3, 1e6))
    timed = [(START_NS + round(now * 1e9), data[:snaplen]) for now, data, snaplen in packets]
    batch = PacketBatch.from_packets(timed, original=[len(data) for _, data, _ in packets])
    ports = np.array([min(int.from_bytes(data[at : at + 2]) for at in (34, 36)) for _, data, _ in packets])
    apart = []
    for port in set(ports.tolist()):
        rows = np.flatnonzero(ports == port)
        apart += stories(run([batch.select(rows)], limits))
    assert sorted(apart) == stories(run([batch], limits))


def test_drop_every_third_segment_in_bulk() -> None:
    """The columnar path and the slow path alternate."""
    talk = Talk()
    packets = talk.send(0, bytes(range(250)) * 40, 10)
    kept = [packet for index, packet in enumerate(packets) if index % 30 != 7]
    outcome = run(batches([(index / 100, packet) for index, packet in enumerate(kept)], 200))
    gaps = [(e.offset, e.length) for e in outcome.of() if isinstance(e, Gap)]
    assert gaps == [(at * 10, 10) for at in range(7, 1000, 30)]
    assert len(outcome.data()) == 10_000 - 10 * len(gaps)
