"""The made captures must be sound: a benchmark on broken input measures nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.bench import multiply as made


@pytest.fixture(scope="module")
def sources() -> list[made.Source]:
    return [made.load(made.CAPTURES / f"{name}.pcap") for name in ("c43_basic", "c43_amqp")]


def records(path: Path) -> list[tuple[int, bytes]]:
    return list(made.read_records(path))


def flow(packet: bytes) -> tuple[bytes, bytes]:
    """The connection of a packet: client address and port, whichever way it travels."""
    source, destination = packet[26:30] + packet[34:36], packet[30:34] + packet[36:38]
    return (source, destination) if destination[4:] == struct.pack(">H", 5552) else (destination, source)


def conversations(path: Path) -> dict[tuple[bytes, bytes], list[bytes]]:
    """Per connection, in file order: TCP segments without ports and checksum, both directions."""
    found: dict[tuple[bytes, bytes], list[bytes]] = {}
    for _, packet in records(path):
        found.setdefault(flow(packet), []).append(packet[38:50] + packet[52:])
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
    originals = [list(conversations(made.CAPTURES / f"{name}.pcap").values()) for name in ("c43_basic", "c43_amqp")]
    expected = [packets for copy in range(int(counts["copies"])) for packets in originals[copy % 2]]
    assert sorted(copies.values()) == sorted(expected)


def test_copies_overlap_in_time_and_time_never_goes_back(tmp_path: Path, sources: list[made.Source]) -> None:
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


def test_nanosecond_file_has_the_microseconds_too(tmp_path: Path, sources: list[made.Source]) -> None:
    for name, nanoseconds in (("us", False), ("ns", True)):
        made.multiply(sources, 60_000, tmp_path / name, concurrent=7, nanoseconds=nanoseconds)
    micro, nano = ((tmp_path / name).read_bytes() for name in ("us", "ns"))
    assert nano[:4] == struct.pack("<I", made.MAGIC_NS)
    at = made.FILE_HEADER.size
    while at < len(nano):
        seconds, fraction, length, _ = made.RECORD.unpack_from(nano, at)
        assert made.RECORD.unpack_from(micro, at) == (seconds, fraction // 1000, length, length)
        at += made.RECORD.size + length


def test_a_capture_cut_by_the_snapshot_length_is_refused(tmp_path: Path) -> None:
    packet = bytes(60)
    header = made.FILE_HEADER.pack(made.MAGIC_US, 2, 4, 0, 0, 60, 1)
    (tmp_path / "cut.pcap").write_bytes(header + made.RECORD.pack(0, 0, 60, 90) + packet)
    with pytest.raises(ValueError, match="snapshot length"):
        made.load(tmp_path / "cut.pcap")
