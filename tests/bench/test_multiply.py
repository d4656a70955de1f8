"""Multiplied captures must be valid: a benchmark on broken input measures nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.bench import multiply as made
from tests.bench.mixes import MIXES

NAMES = ("rabbitmq-stream/c43_amqp", "pravega/append_basic", "cursus/comp-gzip", "nats/06-headers")
"""One connection and several, four server ports."""
SERVER_PORTS = {5552, 12345, 9000, 4222}


@pytest.fixture(scope="module")
def sources() -> list[made.Source]:
    return [made.load(made.CAPTURES / f"{name}.pcap") for name in NAMES]


def records(path: Path) -> list[tuple[int, bytes]]:
    return list(made.read_records(path))


def flow(packet: bytes) -> tuple[bytes, bytes]:
    """The connection of a packet: client address and port, in both directions."""
    source, destination = packet[26:30] + packet[34:36], packet[30:34] + packet[36:38]
    return (source, destination) if int.from_bytes(destination[4:]) in SERVER_PORTS else (destination, source)


def conversations(path: Path) -> dict[tuple[bytes, bytes], list[bytes]]:
    """Per connection, in file order: server port and TCP segments without ports and checksum, both directions."""
    found: dict[tuple[bytes, bytes], list[bytes]] = {}
    for _, packet in records(path):
        client, server = flow(packet)
        found.setdefault((client, server), []).append(server[4:] + packet[38:50] + packet[52:])
    return found


def test_every_checksum_is_right(tmp_path: Path, sources: list[made.Source]) -> None:
    made.multiply(sources, 200_000, tmp_path / "made.pcap", concurrent=5)
    for _, packet in records(tmp_path / "made.pcap"):
        assert made.word_sum(packet[14:34]) % 0xFFFF == 0
        segment = packet[34:]
        assert (made.word_sum(packet[26:34]) + 6 + len(segment) + made.word_sum(segment)) % 0xFFFF == 0


def test_every_connection_is_a_copy_of_a_captured_one(tmp_path: Path, sources: list[made.Source]) -> None:
    counts = made.multiply(sources, 200_000, tmp_path / "made.pcap", concurrent=5)
    copies = conversations(tmp_path / "made.pcap")
    originals = [list(conversations(made.CAPTURES / f"{name}.pcap").values()) for name in NAMES]
    expected = [packets for copy in range(int(counts["copies"])) for packets in originals[copy % len(NAMES)]]
    assert sorted(copies.values()) == sorted(expected)


def test_copies_overlap_in_time_and_times_never_decrease(tmp_path: Path, sources: list[made.Source]) -> None:
    made.multiply(sources, 300_000, tmp_path / "made.pcap", concurrent=5)
    packets = records(tmp_path / "made.pcap")
    times = [time for time, _ in packets]
    assert times == sorted(times)
    clients = [flow(packet)[0][:4] for _, packet in packets]
    middle = len(clients) // 2
    assert len(set(clients[:middle]) & set(clients[middle:])) >= 3


def test_the_same_arguments_give_the_same_file(tmp_path: Path, sources: list[made.Source]) -> None:
    for name in ("a", "b"):
        made.multiply(sources, 100_000, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len((tmp_path / "a").read_bytes()) >= 100_000


def test_nanosecond_file_has_the_times_of_the_microsecond_file(tmp_path: Path, sources: list[made.Source]) -> None:
    for name, nanoseconds in (("us", False), ("ns", True)):
        made.multiply(sources, 60_000, tmp_path / name, concurrent=7, nanoseconds=nanoseconds)
    micro, nano = ((tmp_path / name).read_bytes() for name in ("us", "ns"))
    assert nano[:4] == struct.pack("<I", made.MAGIC_NS)
    at = made.FILE_HEADER.size
    while at < len(nano):
        seconds, fraction, length, _ = made.RECORD.unpack_from(nano, at)
        assert made.RECORD.unpack_from(micro, at) == (seconds, fraction // 1000, length, length)
        at += made.RECORD.size + length


def test_a_truncated_capture_is_refused(tmp_path: Path) -> None:
    packet = bytes(60)
    header = made.FILE_HEADER.pack(made.MAGIC_US, 2, 4, 0, 0, 60, 1)
    (tmp_path / "cut.pcap").write_bytes(header + made.RECORD.pack(0, 0, 60, 90) + packet)
    with pytest.raises(ValueError, match="snapshot length"):
        made.load(tmp_path / "cut.pcap")


def test_a_connection_that_begins_before_the_capture_is_refused(tmp_path: Path) -> None:
    whole = (made.CAPTURES / "pravega/append_basic.pcap").read_bytes()
    at = made.FILE_HEADER.size
    for _ in range(3):  # SYN, SYN and ACK, ACK
        at += made.RECORD.size + made.RECORD.unpack_from(whole, at)[2]
    (tmp_path / "late.pcap").write_bytes(whole[: made.FILE_HEADER.size] + whole[at:])
    with pytest.raises(ValueError, match="without handshake"):
        made.load(tmp_path / "late.pcap")


def test_connections_that_would_merge_are_refused() -> None:
    """One client port towards two servers: all copies' servers of one source share an address."""
    packets = [packet for _, packet in made.read_records(made.CAPTURES / "pravega/append_basic.pcap")]
    elsewhere = [packet.replace(b"\x7f\0\0", b"\x7f\0\1") for packet in packets]
    with pytest.raises(ValueError, match="would become one"):
        made.layout([made.Segment.of(packet) for packet in (*packets, *elsewhere)])


def test_equal_bytes_of_every_source(sources: list[made.Source]) -> None:
    largest = max(len(source.image) for source in sources)
    copies = made.choose(sources, 20 * largest, equal_bytes=True)
    shares = [sum(len(copy.image) for copy in copies if copy is source) for source in sources]
    assert sum(shares) >= 20 * largest
    assert max(shares) - min(shares) <= largest


def test_every_source_is_used_for_any_size(sources: list[made.Source]) -> None:
    assert made.choose(sources, 1, equal_bytes=True) == made.choose(sources, 1, equal_bytes=False) == sources


@pytest.mark.parametrize("name", MIXES)
def test_sources_of_the_mixes_can_be_copied(name: str) -> None:
    for source in MIXES[name].sources:
        assert made.load(next(made.CAPTURES.glob(f"{source}.pcap*"))).duration_ns > 0
