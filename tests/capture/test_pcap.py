"""pcap files: variants and damage."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest

from tests.capture.build import Seen, packets, pcap, read, record
from tests.pcap import write_pcap
from wiredecode.capture import Capture

FRAMES = [b"", b"x", b"\0" * 60, bytes(range(256)) * 6]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("magic", "unit_ns", "name"), [(0xA1B2C3D4, 1000, "pcap"), (0xA1B23C4D, 1, "pcap (nanoseconds)")]
)
def test_both_byte_orders_and_both_units_of_time(order: str, magic: int, unit_ns: int, name: str) -> None:
    records = [record(data, 4_000_000_000 + k, 999_999 - k, order) for k, data in enumerate(FRAMES)]
    capture = Capture([BytesIO(pcap(*records, magic=magic, order=order))])
    seen, error = packets(capture)
    assert error is None
    assert seen == [
        Seen(k + 1, (4_000_000_000 + k) * 10**9 + (999_999 - k) * unit_ns, data, len(data), 1, 0)
        for k, data in enumerate(FRAMES)
    ]
    assert capture.info.files[0].format == name


@pytest.mark.parametrize("order", ["<", ">"])
def test_modified_pcap_has_longer_record_headers(order: str) -> None:
    records = [record(b"", 5, 7, order, captured=3) + b"\0" * 8 + b"abc" for _ in range(3)]
    seen, error = read(pcap(*records, magic=0xA1B2CD34, order=order))
    assert error is None
    assert [(one.time_ns, one.data) for one in seen] == [(5_000_007_000, b"abc")] * 3


def test_frame_check_sequence_bits_are_not_part_of_the_link_type() -> None:
    capture = Capture([BytesIO(pcap(record(b"frame"), network=0x2 << 28 | 1 << 26 | 113))])
    seen, _ = packets(capture)
    assert seen[0].linktype == 113


def test_truncated_packet_keeps_its_original_length() -> None:
    cut = record(b"full packet")[:16].replace(b"\x0b\0\0\0\x0b", b"\x04\0\0\0\x0b") + b"full"
    seen, error = read(pcap(cut))
    assert error is None
    assert (seen[0].data, seen[0].original) == (b"full", 11)


@pytest.mark.parametrize("batch_bytes", [1, 50, 1 << 20])
def test_truncated_at_every_byte_gives_all_packets_before(batch_bytes: int) -> None:
    records = [record(data, k) for k, data in enumerate([b"first", b"", b"third!"])]
    whole = pcap(*records)
    ends = [24, *(24 + len(b"".join(records[: k + 1])) for k in range(3))]
    for cut in range(len(whole)):
        seen, error = read(whole[:cut], batch_bytes=batch_bytes)
        assert [one.data for one in seen] == [b"first", b"", b"third!"][: sum(end <= cut for end in ends[1:])]
        if cut in ends:
            assert error is None
            continue
        assert error is not None
        assert "\n" not in str(error)
        if cut > 24:
            assert error.offset == max(end for end in ends if end < cut)
            assert error.packet == len(seen) + 1
            assert "truncated in the middle of a packet record" in str(error)


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 1025])
@pytest.mark.parametrize("behind", [0, 5000])
def test_absurd_record_length(length: int, behind: int) -> None:
    content = pcap(record(b"good"), record(b"bad", captured=length), record(b"never seen")) + bytes(behind)
    for batch_bytes in (1, 100, 1 << 20):
        seen, error = read(content, max_record=1024, batch_bytes=batch_bytes)
        assert [one.data for one in seen] == [b"good"]
        assert error is not None
        assert f"absurd record length: {length} bytes, the limit is 1024 at byte 44 (packet 2)" in str(error)


def test_longest_allowed_record_is_read() -> None:
    seen, error = read(pcap(record(b"x" * 1024), record(b"y")), max_record=1024, batch_bytes=10)
    assert error is None
    assert [len(one.data) for one in seen] == [1024, 1]


@pytest.mark.parametrize("batch_packets", [1, 2, 7, 100])
def test_batches_have_no_more_packets_than_allowed(batch_packets: int) -> None:
    content = pcap(*(record(bytes([k]), k) for k in range(20)))
    batches = list(Capture([BytesIO(content)], batch_packets=batch_packets))
    assert max(map(len, batches)) == min(batch_packets, 20)
    numbers = [number for batch in batches for number in batch.number.tolist()]
    assert numbers == list(range(1, 21))


@pytest.mark.parametrize("nanoseconds", [True, False])
@pytest.mark.parametrize("byteorder", ["little", "big"])
def test_written_file_is_read_the_same_by_scapy(
    tmp_path: Path, nanoseconds: bool, byteorder: Literal["little", "big"]
) -> None:
    from scapy.utils import RawPcapReader

    path = tmp_path / "out.pcap"
    made = [(1_700_000_000_123_456_789 + k * 1001, data) for k, data in enumerate(FRAMES[1:])]
    count = write_pcap(path, iter(made), linktype=101, nanoseconds=nanoseconds, byteorder=byteorder, snaplen=1000)
    assert count == 3
    seen, error = packets(Capture([path]))
    assert error is None
    unit = 1 if nanoseconds else 1000
    assert [one.time_ns for one in seen] == [time_ns // unit * unit for time_ns, _ in made]
    with RawPcapReader(str(path)) as reader:
        oracle = [
            (data, about.wirelen, about.sec * 10**9 + about.usec * unit, reader.linktype) for data, about in reader
        ]
    assert [(one.data, one.original, one.time_ns, one.linktype) for one in seen] == oracle
    assert seen[-1].original == 1536


def test_time_that_pcap_cannot_express_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OverflowError):
        write_pcap(tmp_path / "out.pcap", [(-1, b"x")])
