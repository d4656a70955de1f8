"""pcapng files: blocks, sections, interfaces, times, options and damage."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from struct import pack
from typing import Any

import numpy as np
import pytest

from tests.capture.build import Ng, packets, padded, read
from wiredecode.capture import Capture
from wiredecode.capture.batch import to_ns
from wiredecode.capture.info import NameRecord

ORDERS = ["<", ">"]


@pytest.mark.parametrize("order", ORDERS)
def test_enhanced_simple_and_obsolete_packets_of_two_interfaces(order: str) -> None:
    ng = Ng(order)
    content = (
        ng.section()
        + ng.interface(linktype=113, snaplen=6)
        + ng.interface((9, b"\x09"), linktype=101)
        + ng.enhanced(b"one", 5, interface=1, original=1500)
        + ng.enhanced(b"two!", 7)
        + ng.obsolete(b"three", (1 << 32) + 1, interface=1)
        + ng.simple(b"four")
        + ng.simple(b"longer", original=900)
    )
    seen, error = read(content)
    assert error is None
    assert [tuple(one) for one in seen] == [
        (1, 5, b"one", 1500, 101, 1),
        (2, 7000, b"two!", 4, 113, 0),
        (3, (1 << 32) + 1, b"three", 5, 101, 1),
        (4, 0, b"four", 4, 113, 0),
        (5, 0, b"longer", 900, 113, 0),  # truncated by the interface's snaplen of 6
    ]


def test_each_section_has_its_own_byte_order_and_interfaces() -> None:
    little, big = Ng("<"), Ng(">")
    content = b"".join(
        [
            little.section((2, b"cpu"), (3, b"Linux"), (4, b"dumpcap")),
            little.interface((2, b"eth0"), (3, b"uplink"), (11, b"\0tcp"), (12, b"6.1"), (13, b"\x04")),
            little.enhanced(b"a", 1),
            big.section(),
            big.interface((2, b"lo")),
            big.interface(linktype=276),
            big.enhanced(b"b", 2, interface=1),
            little.section(),
            little.interface(),
            little.enhanced(b"c", 3),
        ]
    )
    capture = Capture([BytesIO(content)])
    seen, error = packets(capture)
    assert error is None
    assert [(one.data, one.interface, one.linktype) for one in seen] == [
        (b"a", 0, 1),
        (b"b", 2, 276),
        (b"c", 3, 1),
    ]
    assert capture.info.files[0].sections == 3
    eth0 = capture.info.interfaces[0]
    assert (eth0.name, eth0.description, eth0.filter, eth0.os) == ("eth0", "uplink", "tcp", "6.1")
    assert len(capture.info.interfaces) == 4


@pytest.mark.parametrize(
    ("resolution", "ticks", "expected"),
    [
        (0, 1_700_000_000, 1_700_000_000 * 10**9),
        (3, 1_700_000_000_123, 1_700_000_000_123 * 10**6),
        (6, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 1_700_000_123_456_789_999, 1_700_000_123_456_789),
        (0x7F, 2**64 - 1, 0),
        (0x80, 1_700_000_000, 1_700_000_000 * 10**9),
        (0x80 | 10, 1_700_000_000 * 1024 + 512, 1_700_000_000_500_000_000),
        (0x80 | 32, (1_700_000_000 << 32) + (1 << 30), 1_700_000_000_250_000_000),
        (0x80 | 34, (1 << 34) - 1, 999_999_999),
        (0x80 | 50, (9 << 50) + (1 << 49), 9_500_000_000),
        (0x80 | 64, 2**63, 500_000_000),
        (0, 2**64 - 1, 2**63 - 1),  # beyond the range: the largest possible time
    ],
)
def test_every_time_resolution_is_exact(resolution: int, ticks: int, expected: int) -> None:
    ng = Ng()
    content = ng.section() + ng.interface((9, bytes([resolution]))) + ng.enhanced(b"x", ticks)
    seen, error = read(content)
    assert error is None
    assert seen[0].time_ns == expected


@pytest.mark.parametrize("resolution", [0, 6, 9, 10, 20, 0x80, 0x80 | 20, 0x80 | 34, 0x80 | 35, 0x80 | 63])
def test_times_as_columns_equal_exact_arithmetic(resolution: int) -> None:
    rng = np.random.default_rng(resolution)
    for bits in (20, 40, 64):
        ticks = rng.integers(0, 2**bits - 1, 50, np.uint64, endpoint=True)
        divisor = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        exact = [min(tick * 10**9 // divisor - 3 * 10**9, 2**63 - 1) for tick in ticks.tolist()]
        assert to_ns(ticks, resolution, -3).tolist() == exact


@pytest.mark.parametrize(("order", "offset"), [("<", 3600), (">", -7200)])
def test_time_offset_is_added_to_the_packets_of_its_interface_only(order: str, offset: int) -> None:
    ng = Ng(order)
    content = (
        ng.section()
        + ng.interface()
        + ng.interface((14, pack(order + "q", offset)))
        + ng.enhanced(b"plain", 10**10)
        + ng.enhanced(b"moved", 10**10, interface=1)
    )
    seen, _ = read(content)
    assert seen[1].time_ns - seen[0].time_ns == offset * 10**9


def _name(kind: int, value: bytes) -> bytes:
    return pack("<HH", kind, len(value)) + padded(value)


def test_names_secrets_and_comments_are_kept_and_unknown_blocks_skipped() -> None:
    ng = Ng()
    names = _name(1, b"\x0a\0\0\x01broker\0alias\0") + _name(2, bytes(15) + b"\x01six\0") + _name(77, b"?") + bytes(4)
    content = b"".join(
        [
            ng.section((1, "Störung".encode()), (1, b"second")),
            ng.interface((1, b"mirror port")),
            ng.block(4, names + ng.options((1, b"from dns"))),
            ng.block(10, pack("<II", 0x544C534B, 5) + padded(b"CLIEN") + ng.options((1, b"keys"))),
            ng.enhanced(b"a", 1),
            ng.block(0x0BAD, b"custom"),
            ng.block(5, bytes(12) + ng.options((4, bytes(8)), (1, b"no drops"))),
            ng.enhanced(b"bb", 2, (2, bytes(4)), (1, b"look here"), (1, b"and here")),
            ng.block(0xBAD, b""),
            ng.obsolete(b"c", 3, (1, b"old")),
        ]
    )
    for batch_bytes in (1, 1 << 20):
        capture = Capture([BytesIO(content)], batch_bytes=batch_bytes)
        seen, error = packets(capture)
        assert error is None
        assert [one.data for one in seen] == [b"a", b"bb", b"c"]
        info = capture.info
        assert info.name_records == [NameRecord("10.0.0.1", ("broker", "alias")), NameRecord("::1", ("six",))]
        assert info.secrets == [(0x544C534B, b"CLIEN")]
        assert info.files[0].comments == [
            *("Störung", "second", "mirror port", "from dns", "keys"),
            *("no drops", "look here", "and here", "old"),
        ]


def test_data_kept_of_a_hostile_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.capture.info.MAX_KEPT_BYTES", 2 * 256 + 20)
    ng = Ng()
    path = tmp_path / "comments.pcapng"
    path.write_bytes(ng.section() + ng.interface() + ng.enhanced(b"x", 1, (1, b"8 bytes!")) * 5)
    capture = Capture([path])
    for _ in range(2):  # reading again starts from the beginning
        seen, _ = packets(capture)
        assert len(seen) == 5
        assert len(capture.info.files[0].comments) == 2
        assert capture.info.files[0].dropped == 3


def test_packet_longer_than_the_limit() -> None:
    ng = Ng()
    content = ng.section() + ng.interface() + ng.enhanced(bytes(100)) + ng.enhanced(bytes(101))
    seen, error = read(content, max_record=100)
    assert len(seen) == 1
    assert "absurd packet length: 101 bytes" in str(error)


def test_total_length_that_does_not_count_the_padding() -> None:
    ng = Ng()
    length = pack("<I", 33)
    fixed = pack("<IIIII", 0, 0, 1, 1, 1)
    odd = pack("<I", 6) + length + fixed + b"x\0\0\0" + length
    unknown = pack("<I", 99) + pack("<I", 13) + b"z\0\0\0" + pack("<I", 13)
    seen, error = read(ng.section() + ng.interface() + odd + unknown + ng.enhanced(b"y", 2))
    assert error is None
    assert [one.data for one in seen] == [b"x", b"y"]


def _damaged(name: str) -> tuple[bytes, str]:
    ng = Ng()
    good = ng.enhanced(b"bad one!", 9)
    undescribed = ng.enhanced(b"bad one!", 9, interface=3)
    fixed = pack("<IIIII", 0, 0, 0, 9, 9)
    return {
        "length 0": (good[:4] + bytes(4) + good[8:], "absurd block length: 0 bytes for block type 0x6"),
        "huge": (good[:4] + b"\xff" * 4 + good[8:], "absurd block length: 4294967295 bytes"),
        "trailer": (good[:-4] + pack("<I", 36), "a block whose two lengths differ (40 and 36)"),
        "interface": (undescribed, "a packet of the undescribed interface 3"),
        "captured": (
            ng.block(6, fixed + b"8 bytes!"),
            "absurd packet length: 9 bytes in a block of 40, which is too small for it",
        ),
        "magic": (ng.section().replace(b"\x4d\x3c\x2b\x1a", b"\1\2\3\4"), "without a valid byte-order magic"),
        "version": (ng.section(major=7), "pcapng version 7"),
        "unknown trailer": (ng.block(99, b"abcd")[:-4] + bytes(4), "two lengths differ (16 and 0)"),
        "simple": (ng.simple(b"four", original=5), "absurd packet length: 5 bytes in a block of 20"),
    }[name]


@pytest.mark.parametrize(
    "name",
    ["length 0", "huge", "trailer", "interface", "captured", "magic", "version", "unknown trailer", "simple"],
)
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
def test_damaged_block_ends_the_file_after_everything_before_it(name: str, batch_bytes: int) -> None:
    ng = Ng()
    damaged, message = _damaged(name)
    before = ng.section() + ng.interface() + ng.enhanced(b"good", 1) * 2
    seen, error = read(before + damaged + ng.enhanced(b"never", 3), batch_bytes=batch_bytes)
    assert [one.data for one in seen] == [b"good", b"good"]
    assert error is not None
    assert message in str(error)
    assert (error.offset, error.packet) == (len(before), 3)


def test_truncated_at_every_byte_gives_all_packets_before() -> None:
    ng = Ng(">")
    blocks = [
        ng.section((1, b"c")),
        ng.interface(),
        ng.enhanced(b"one", 1),
        ng.simple(b"2"),
        ng.enhanced(b"", 3),
    ]
    content = b"".join(blocks)
    ends = [len(b"".join(blocks[: k + 1])) for k in range(len(blocks))]
    for cut in range(4, len(content) + 1):
        seen, error = read(content[:cut])
        assert len(seen) == sum(end <= cut for end in ends[2:])
        assert (error is None) == (cut in ends)
        assert error is None or "truncated in the middle of a block" in str(error)


def test_too_many_interfaces_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.capture.pcapng.MAX_SECTION_INTERFACES", 3)
    ng = Ng()
    seen, error = read(ng.section() + ng.interface() * 3 + ng.enhanced(b"x") + ng.interface())
    assert len(seen) == 1
    assert "more than 3 interfaces" in str(error)


def test_written_by_scapy_and_read_the_same(tmp_path: Path) -> None:
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw
    from scapy.utils import PcapNgWriter, RawPcapNgReader

    path = tmp_path / "scapy.pcapng"
    writer = PcapNgWriter(str(path))
    for k in range(5):
        packet = Ether() / Raw(b"x" * k)
        packet.time = 1_700_000_000 + k
        packet.comment = b"packet %d" % k
        writer.write(packet)
    writer.close()
    capture = Capture([path])
    seen, error = packets(capture)
    assert error is None
    with RawPcapNgReader(str(path)) as reader:
        rows: list[tuple[bytes, Any]] = list(reader)
    oracle = [(data, about.wirelen, ((about.tshigh << 32) + about.tslow) * 1000) for data, about in rows]
    assert [(one.data, one.original, one.time_ns) for one in seen] == oracle
    assert [f"packet {k}" for k in range(5)] == [each for each in capture.info.files[0].comments if "packet" in each]
