"""Hostile TCP: streams equal those of tshark (``-z follow,tcp,raw``), except for the differences tested here."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.net.craft import ACK, FIN, RST, SYN, Talk
from tests.net.script import content, run
from tests.pcap import write_pcap
from tests.support import needs_tshark
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.types import Chunk

START_NS = 1_700_000_000_000_000_000
Packets = list[bytes]


def opened(isn: tuple[int, int] = (999, 5000)) -> tuple[Talk, Packets]:
    talk = Talk(isn=isn)
    return talk, talk.handshake()


def wrapped() -> Packets:
    talk, packets = opened((2**32 - 25, 2**32 - 3))
    sent = talk.send(0, content(0, 60), 10)
    sent[2], sent[3] = sent[3], sent[2]
    return [*packets, *sent, *talk.send(1, content(0, 30), 10), *talk.close()]


def overlapping() -> Packets:
    """The second copy of delivered bytes differs."""
    talk, packets = opened()
    copies = [(0, 20, 0), (10, 20, 1), (0, 35, 1), (30, 10, 0)]
    return [*packets, *(talk.packet(0, content(at, size, salt), 1000 + at) for at, size, salt in copies)]


def probed() -> Packets:
    talk, packets = opened()
    packets += [*talk.send(0, content(0, 20)), talk.packet(0, b"\0", 1019), talk.ack(1), talk.packet(0, b"", 1019)]
    return packets + talk.send(0, content(20, 10))


def closed_with_data() -> Packets:
    talk, packets = opened()
    packets += [talk.packet(0, content(10, 10), 1010, FIN | ACK), talk.packet(0, content(0, 10), 1000)]
    return [*packets, talk.packet(1, content(0, 7), 5001, FIN | ACK)]


def reused(end: int) -> Packets:
    talk, packets = opened()
    packets += talk.send(0, content(0, 20)) + talk.send(1, content(0, 9))
    packets += talk.close() if end == FIN else [talk.packet(1, flags=RST | ACK)]
    again, more = opened((1020, 123456))
    return [*packets, *more, *again.send(0, content(50, 20)), *again.send(1, content(60, 9))]


def opened_by_both() -> Packets:
    syns = [Talk(isn=(999, 5000)).packet(side, seq=(999, 5000)[side], flags=SYN) for side in (0, 1)]
    talk, _ = opened()
    answers = [talk.packet(side, seq=(999, 5000)[side], flags=SYN | ACK) for side in (0, 1)]
    return [*syns, *answers, *talk.send(0, content(0, 20)), *talk.send(1, content(0, 15))]


def opened_with_data() -> Packets:
    talk, _ = opened()
    packets = [talk.packet(0, content(0, 10), 999, SYN), talk.packet(1, seq=5000, flags=SYN | ACK)]
    return [*packets, talk.packet(0, content(10, 10), 1010), talk.packet(1, content(0, 5), 5001)]


def mixed_up(seed: int) -> Packets:
    """Both directions in random segments, reordered, and some retransmitted."""
    rng = random.Random(seed)
    isn = rng.choice([2**32 - 40, rng.randrange(2**32)]), rng.randrange(2**32)
    talk, packets = opened(isn)
    pieces = []
    for side in (0, 1):
        edges = sorted({0, 300, *rng.sample(range(300), 15)})
        pieces += [(side, at, end - at) for at, end in pairwise(edges)]
    pieces.sort(key=lambda piece: piece[1] + rng.randint(0, 60))
    pieces += [rng.choice(pieces) for _ in range(5)]
    return packets + [talk.packet(side, content(at, size), (isn[side] + 1 + at) % 2**32) for side, at, size in pieces]


CASES: dict[str, Callable[[], Packets]] = {
    "sequence numbers wrap around": wrapped,
    "other bytes are sent again": overlapping,
    "keep-alive bytes": probed,
    "data with FIN, out of order": closed_with_data,
    "ports used again after FIN": lambda: reused(FIN),
    "ports used again after RST": lambda: reused(RST),
    "both sides open": opened_by_both,
    "data with SYN": opened_with_data,
    **{f"mixed up {seed}": lambda seed=seed: mixed_up(seed) for seed in range(5)},
}


def ours(packets: Packets) -> list[list[bytes]]:
    """The bytes of both sides of each connection."""
    streams: dict[int, list[bytes]] = {}
    batch = PacketBatch.from_packets([(START_NS + index * 1_000_000, packet) for index, packet in enumerate(packets)])
    for event in run([batch]).events:
        sides = streams.setdefault(event.direction.connection.number, [b"", b""])
        if isinstance(event, Chunk):
            sides[event.direction.side] += event.data
    return [streams[number] for number in sorted(streams)]


def of_tshark(path: Path, count: int) -> list[list[bytes]]:
    """The bytes of both sides of each stream, from one run: tshark starts slowly."""
    command = ["tshark", "-r", str(path), "-o", "tcp.reassemble_out_of_order:TRUE", "-q"]
    command += [word for stream in range(count) for word in ("-z", f"follow,tcp,raw,{stream}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    streams: dict[int, list[bytes]] = {}
    for block in done.stdout.split("=" * 67 + "\n")[1::2]:
        _, number, _, _, lines = block.split("\n", 4)
        sides = streams[int(number.rpartition(" ")[2])] = [b"", b""]
        for line in lines.splitlines():
            sides[line.startswith("\t")] += bytes.fromhex(line)
    return [streams[number] for number in range(count)]


@needs_tshark
@pytest.mark.parametrize("name", sampled(CASES, 2))
def test_streams_equal_those_of_tshark(name: str, tmp_path: Path) -> None:
    packets = CASES[name]()
    path = tmp_path / "hostile.pcap"
    write_pcap(path, [(START_NS + index * 1_000_000, packet) for index, packet in enumerate(packets)])
    found = ours(packets)
    assert found == of_tshark(path, len(found))


def test_the_first_captured_copy_counts_also_after_a_gap() -> None:
    """tshark takes the copy that it needs first; wiredecode reports the differing one (overlap-differs)."""
    talk, packets = opened()
    copies = [(20, 20, 0), (10, 30, 1), (0, 10, 0)]
    packets += [talk.packet(0, content(at, size, salt), 1000 + at) for at, size, salt in copies]
    assert ours(packets)[0][0] == content(0, 10) + content(10, 10, 1) + content(20, 20)


def test_data_in_a_reset_and_a_probe_after_fin_are_no_part_of_the_stream() -> None:
    """tshark shows both (RFC 9293 sections 3.5.3 and 3.8.4)."""
    talk, packets = opened()
    reset = [*packets, *talk.send(0, content(0, 20)), talk.packet(0, b"go away", flags=RST | ACK)]
    assert ours(reset)[0][0] == content(0, 20)
    probe = [*packets, talk.packet(0, content(0, 20), 1000, FIN | ACK), talk.packet(0, b"\0", 1020)]
    assert ours(probe)[0][0] == content(0, 20)
