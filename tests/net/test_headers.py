"""Link and IP layers: link types, options, extension headers, fragments, padding, undecoded packets."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.conftest import in_one_test
from tests.net.craft import (
    Talk,
    batches,
    bsd_null,
    ethernet,
    ipv4,
    ipv6,
    ipv6_fragment,
    linux_sll,
    linux_sll2,
    nflog,
    of_linktypes,
    ppi,
    tcp,
    udp,
)
from tests.net.script import content, run
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.limits import Limits
from wiredecode.net.types import Chunk, Gap

SIZES = pytest.mark.parametrize("size", [None, 1], ids=["whole", "single"])
SEGMENTS = [(at, tcp(content(at, 10), seq=at)) for at in range(0, 400, 10)]

CARRIERS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "ethernet": (1, lambda s: ethernet(ipv4(s))),
    "ethernet, ipv6": (1, lambda s: ethernet(ipv6(s), 0x86DD)),
    "vlan": (1, lambda s: ethernet(ipv4(s), vlans=[(0x8100, 5)])),
    "qinq": (1, lambda s: ethernet(ipv6(s), 0x86DD, [(0x88A8, 5), (0x8100, 6)])),
    "old qinq, three tags": (1, lambda s: ethernet(ipv4(s), vlans=[(0x9100, 5), (0x8100, 6), (0x8100, 7)])),
    "linux sll": (113, lambda s: linux_sll(ipv4(s))),
    "linux sll, ipv6": (113, lambda s: linux_sll(ipv6(s), 0x86DD)),
    "linux sll2": (276, lambda s: linux_sll2(ipv4(s))),
    "linux sll2, vlan": (276, lambda s: linux_sll2(b"\0\5\x08\0" + ipv4(s), 0x8100)),
    "null, little-endian": (0, lambda s: bsd_null(ipv4(s))),
    "null, big-endian": (0, lambda s: bsd_null(ipv4(s), order=">")),
    "null, ipv6 of darwin": (0, lambda s: bsd_null(ipv6(s), 30)),
    "null, ipv6 of freebsd, big-endian": (0, lambda s: bsd_null(ipv6(s), 28, ">")),
    "loop": (108, lambda s: bsd_null(ipv4(s), order=">")),
    "loop, ipv6 of openbsd": (108, lambda s: bsd_null(ipv6(s), 24, ">")),
    "raw": (101, ipv4),
    "raw, ipv6": (101, ipv6),
    "raw of bsd": (12, ipv4),
    "raw of openbsd": (14, ipv6),
    "linktype ipv4": (228, ipv4),
    "ppp": (9, lambda s: b"\xff\3\0\x21" + ipv4(s)),
    "ppp, all left out": (9, lambda s: b"\x57" + ipv6(s)),
    "ppi, ethernet": (192, lambda s: ppi(1, ethernet(ipv4(s)), bytes.fromhex("03000400c1c2c3c4"))),
    "ppi, raw": (192, lambda s: ppi(101, ipv6(s))),
    "nflog, little-endian": (239, lambda s: nflog(ipv4(s), "<")),
    "nflog, big-endian, ipv6": (239, lambda s: nflog(ipv6(s), ">", 10)),
    "linktype ipv6": (229, ipv6),
    "ipv4 options": (101, lambda s: ipv4(s, options=b"\x01" * 12)),
    "trailing padding": (1, lambda s: ethernet(ipv4(s) + bytes(9))),
    "trailing padding, ipv6": (1, lambda s: ethernet(ipv6(s) + bytes(9), 0x86DD)),
    "total length 0": (1, lambda s: ethernet(ipv4(s, total=0))),
    "payload length 0": (1, lambda s: ethernet(ipv6(s, length=0), 0x86DD)),
    "tcp options": (101, lambda s: ipv4(s[:12] + b"\x80" + s[13:20] + bytes(12) + s[20:])),
    "hop-by-hop": (101, lambda s: ipv6(s, extensions=[(0, b"\0" + bytes(6))])),
    "all extension headers": (
        101,
        lambda s: ipv6(
            s,
            extensions=[
                (0, b"\0" + bytes(6)),
                (60, b"\1" + bytes(14)),
                (43, b"\0" + bytes(6)),
                (44, bytes(7)),
                (51, b"\4" + bytes(22)),
                (60, b"\0" + bytes(6)),
            ],
        ),
    ),
    "authentication header, ipv4": (101, lambda s: ipv4(b"\6\4" + bytes(22) + s, protocol=51)),
}


@SIZES
@in_one_test("carrier", CARRIERS)
def test_payload_in_each_link_layer(carrier: str, size: int | None) -> None:
    linktype, wrap = CARRIERS[carrier]
    outcome = run(batches([wrap(segment) for _, segment in SEGMENTS], size, linktype))
    assert outcome.line() == "0-400"
    assert not outcome.network.not_decoded


def test_several_link_types_in_one_batch() -> None:
    kinds = [CARRIERS[name] for name in ("ethernet", "linux sll", "null, big-endian", "raw", "vlan")]
    pairs = [(kinds[i % 5][0], kinds[i % 5][1](segment)) for i, (_, segment) in enumerate(SEGMENTS)]
    assert run([of_linktypes(pairs)]).line() == "0-400"


NOT_DECODED: list[tuple[str, int, bytes]] = [
    ("UDP", 1, ethernet(ipv4(udp(bytes(40)), protocol=17))),
    ("UDP", 1, ethernet(ipv4(udp(), protocol=17))),
    ("UDP", 1, ethernet(ipv6(udp(bytes(40)), protocol=17), 0x86DD)),
    ("UDP", 1, ethernet(ipv4(bytes(40), protocol=17, offset=80))),
    ("UDP", 101, ipv6_fragment(bytes(40), 80, True, protocol=17)),
    ("ICMP", 1, ethernet(ipv4(bytes(30), protocol=1))),
    ("ICMPv6", 101, ipv6(bytes(30), protocol=58, extensions=[(0, b"\0" + bytes(6))])),
    ("ESP", 101, ipv4(bytes(30), protocol=50)),
    ("IP protocol 200", 101, ipv4(bytes(30), protocol=200)),
    ("ARP", 1, ethernet(bytes(28), 0x0806)),
    ("MPLS", 1, ethernet(bytes(60), 0x8847)),
    ("PPPoE", 1, ethernet(bytes(60), 0x8864)),
    ("PPPoE", 1, ethernet(bytes(60), 0x8864, vlans=[(0x8100, 5)])),
    ("IEEE 802.3 LLC", 1, ethernet(bytes(60), 60)),
    ("ethertype 0x1234", 1, ethernet(bytes(60), 0x1234)),
    ("too many VLAN tags", 1, ethernet(bytes(60), vlans=[(0x8100, 5)] * 9)),
    ("linktype 147 (USER0)", 147, bytes(60)),
    ("linktype 127 (IEEE802_11_RADIOTAP)", 127, bytes(60)),
    ("linktype 9999 (unknown)", 9999, bytes(60)),
    ("address family 7", 0, bsd_null(bytes(60), 7)),
    ("address family 7", 239, nflog(bytes(60), "<", 7)),
    ("PPP protocol 0xc021", 9, b"\xff\3\xc0\x21" + bytes(30)),
    ("truncated header", 239, nflog(ipv4(tcp()), "<")[:-44]),
    ("truncated header", 192, ppi(1, ethernet(ipv4(tcp())))[:7]),
    ("linktype 192 (PPI)", 192, ppi(192, ppi(1, ethernet(ipv4(tcp()))))),
    ("raw IP version 5", 101, b"\x55" + bytes(60)),
    ("truncated header", 101, b""),
    ("truncated header", 1, ethernet(b"")[:13]),
    ("truncated header", 1, ethernet(ipv4(tcp()))[:33]),
    ("truncated header", 1, ethernet(ipv4(tcp()))[:53]),
    ("truncated header", 1, ethernet(ipv6(tcp()), 0x86DD)[:50]),
    ("truncated header", 1, ethernet(ipv4(tcp(), options=bytes(40)))[:70]),
    ("truncated header", 101, ipv6(b"", extensions=[(0, b"\xff" + bytes(6))])),
    ("malformed IPv4 header", 1, ethernet(b"\x35" + ipv4(tcp(bytes(30)))[1:])),
    ("malformed IPv4 header", 1, ethernet(b"\x44" + ipv4(tcp(bytes(30)))[1:])),
    ("malformed IPv4 header", 1, ethernet(ipv4(tcp(bytes(30)), total=19))),
    ("malformed IPv6 header", 1, ethernet(ipv4(tcp(bytes(30))), 0x86DD)),
    ("malformed TCP header", 1, ethernet(ipv4(tcp()[:12] + b"\x40" + tcp()[13:] + bytes(9)))),
    ("malformed TCP header", 1, ethernet(ipv4(tcp()[:12] + b"\xf0" + tcp()[13:] + bytes(39)))),
    ("too many extension headers", 101, ipv6(tcp(), extensions=[(60, b"\0" + bytes(6))] * 20)),
    ("IP fragment incomplete", 101, ipv4(tcp(bytes(20)), more=True)),
    ("malformed IP fragment", 101, ipv4(tcp(bytes(20)), offset=65528)),
]


@pytest.mark.parametrize("count", [1, 40], ids=["single", "many"])
@in_one_test(("reason", "linktype", "packet"), NOT_DECODED, ids=range(len(NOT_DECODED)))
def test_undecoded_packets_are_counted_by_reason(reason: str, linktype: int, packet: bytes, count: int) -> None:
    outcome = run(batches([packet] * count, linktype=linktype))
    assert outcome.network.not_decoded == {reason: count}
    assert outcome.events == []
    assert outcome.network.connections == 0


@SIZES
def test_segments_truncated_at_every_byte(size: int | None) -> None:
    packets = [ethernet(ipv4(segment)) for _, segment in SEGMENTS]
    for snaplen in (54, 57, 63):
        outcome = run(batches(packets, size, snaplen=snaplen))
        have = snaplen - 54
        (direction,) = outcome.directions
        assert (direction.captured, direction.missing) == (40 * have, 40 * (10 - have))
        assert outcome.data() == b"".join(content(at, have) for at in range(0, 400, 10))
        assert {e.reason for e in outcome.events if isinstance(e, Gap)} == {"cut by snapshot length"}


@SIZES
def test_a_truncated_packet_of_total_length_0(size: int | None) -> None:
    packets = [ethernet(ipv4(segment, total=0)) for _, segment in SEGMENTS]
    (direction,) = run(batches(packets, size, snaplen=60)).directions
    assert (direction.captured, direction.missing) == (40 * 6, 40 * 4)


@SIZES
def test_an_ip_length_beyond_the_frame_invents_no_gap(size: int | None) -> None:
    packets = [ethernet(ipv4(segment, total=1000)) for _, segment in SEGMENTS]
    assert run(batches(packets, size)).line() == "0-400"


def fragments(payload: bytes, cuts: list[int], identification: int = 1) -> list[bytes]:
    """The segment as IPv4 fragments that start at ``cuts`` (multiples of 8)."""
    ends = [*cuts[1:], len(payload)]
    return [
        ipv4(payload[a:b], offset=a, more=b < len(payload), identification=identification)
        for a, b in zip(cuts, ends, strict=True)
    ]


def fragments_of_ipv6(payload: bytes, cuts: list[int]) -> list[bytes]:
    ends = [*cuts[1:], len(payload)]
    return [ipv6_fragment(payload[a:b], a, b < len(payload)) for a, b in zip(cuts, ends, strict=True)]


@SIZES
@pytest.mark.parametrize("cut", [fragments, fragments_of_ipv6])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 0, 1, 2], [0, 2, 2, 1]], ids=str)
def test_fragments_in_any_order(order: list[int], cut: Callable[..., list[bytes]], size: int | None) -> None:
    """Bytes belong to the fragment that carried them, and are ready with the last fragment of the datagram."""
    parts = cut(tcp(content(0, 100), seq=0), [0, 24, 80])
    packets = [parts[i] for i in order]
    outcome = run(batches([*packets, ipv4(tcp(content(100, 5), seq=100))], size, linktype=101))
    first = [order.index(i) + 1 for i in range(3)]
    if cut is fragments:
        assert outcome.line() == "0-105"
        last = outcome.pieces()[3]
        assert (last[0], last[1]) == (105, len(order) + 1)
    ends = [(end, packet, ready) for end, packet, _, ready, _ in outcome.pieces()][:3]
    assert ends == [(4, first[0], len(order)), (60, first[1], len(order)), (100, first[2], len(order))]
    assert outcome.network.tcp_packets == len(order) + 1


@SIZES
def test_first_fragments_hold_headers_only(size: int | None) -> None:
    """A TCP header with options in the first fragments, all payload in the last; SYN and FIN are not lost."""
    segment = tcp(content(0, 16), seq=9, flags=0x13, options=bytes(4))
    outcome = run(batches(fragments(segment, [0, 8, 24]), size, linktype=101))
    assert outcome.line() == "0-16"
    connection = outcome.directions[0].connection
    assert (connection.closed, connection.initiator) == ("FIN", 1)


@SIZES
def test_overlapping_fragments_first_copy_wins(size: int | None) -> None:
    segment, other = tcp(content(0, 60), seq=0), tcp(bytes(60), seq=0)
    packets = [
        ipv4(segment[:32], more=True),
        ipv4(other[24:48], offset=24, more=True)[:-16] + segment[32:48],
        ipv4(other[16:56], offset=16, more=True)[:-8] + segment[48:56],
        ipv4(segment[40:], offset=40),
    ]
    assert run(batches(packets, size, linktype=101)).line() == "0-60"


@SIZES
def test_fragments_of_two_datagrams_mixed(size: int | None) -> None:
    one = fragments(tcp(content(0, 40), seq=0), [0, 24], identification=1)
    two = fragments(tcp(content(40, 40), seq=40), [0, 40], identification=2)
    outcome = run(batches([one[0], two[0], one[1], two[1]], size, linktype=101))
    assert outcome.line() == "0-80"


@SIZES
def test_a_truncated_fragment_is_a_gap_in_the_middle(size: int | None) -> None:
    packets = fragments(tcp(content(0, 100), seq=0), [0, 48, 80])
    part = next(batches(packets, linktype=101))
    part.captured[1] -= 10
    parts = [part] if size is None else [part_of(part, i) for i in range(3)]
    assert run(parts).line() == "0-50 <50-60> 60-100"


def part_of(batch: PacketBatch, row: int) -> PacketBatch:
    columns = ("start", "captured", "original", "time_ns", "linktype", "interface", "number")
    return PacketBatch(batch.buffer, **{name: getattr(batch, name)[row : row + 1] for name in columns})


def test_fragments_expire_in_capture_time() -> None:
    one, two = fragments(tcp(content(0, 40), seq=0), [0, 24])
    outcome = run(batches([(0.0, one), (31.0, two)], linktype=101))
    assert outcome.network.not_decoded == {"IP fragment incomplete": 2}


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(fragmented_datagrams=5), "fragmented_datagrams"),
        (Limits(fragment_bytes=500), "fragment_bytes"),
    ],
)
def test_fragments_are_bounded(limits: Limits, name: str) -> None:
    packets = [fragments(tcp(bytes(100), seq=0), [0, 80], identification=i)[0] for i in range(40)]
    outcome = run(batches(packets, linktype=101), limits)
    assert outcome.network.not_decoded == {"IP fragment incomplete": 40}
    assert outcome.network.limits_hit[name] >= 34


def test_columnar_and_single_header_paths_agree_on_damaged_packets() -> None:
    """Seeded mutations of all carriers: both header paths give the same counts, bytes and packet numbers."""
    rng = random.Random(7)
    packets = []
    for linktype, wrap in CARRIERS.values():
        for at, segment in SEGMENTS[:8]:
            packet = bytearray(wrap(segment))
            for _ in range(rng.choice([0, 0, 1, 2])):
                value = rng.choice([0, 6, 0x45, 0x60, 255, rng.randrange(256)])
                packet[rng.randrange(min(len(packet), 60))] = value
            if at % 30 == 0:
                del packet[rng.randrange(len(packet)) :]
            packets.append((linktype, bytes(packet)))
    whole = of_linktypes(packets)
    results = []
    for parts in ([whole], [part_of(whole, row) for row in range(len(whole))]):
        outcome = run(parts)
        sides = [(d.connection.number, d.side) for d in outcome.directions]
        chunks = [(side, outcome.data(*side)) for side in sides]
        results.append((outcome.network.not_decoded, outcome.network.connections, chunks, outcome.notes()))
    assert results[0] == results[1]
    assert len(results[0][0]) > 5


def test_empty_batch_and_no_batch() -> None:
    outcome = run([PacketBatch.from_packets([])])
    assert outcome.events == []
    assert outcome.network.watermark == 1
    assert run([]).events == []


def test_chunks_do_not_share_memory_with_the_batch() -> None:
    """A kept chunk must not keep a whole batch."""
    talk = Talk()
    (batch,) = batches([*talk.handshake(), *talk.send(0, content(0, 400), 10)])
    (chunk,) = [e for e in run([batch]).events if isinstance(e, Chunk)]
    for column in (chunk.ends, chunk.packet, chunk.time_ns, chunk.ready, chunk.ready_ns):
        base = column if column.base is None else column.base
        assert isinstance(base, np.ndarray)
        assert base.nbytes <= 5 * column.nbytes


def test_crafted_headers_have_their_values() -> None:
    assert struct.unpack("!H", ipv4(tcp(b"abc"))[2:4]) == (43,)
    assert ipv6(tcp(), extensions=[(0, b"\0" + bytes(6))])[6] == 0
