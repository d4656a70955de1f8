"""Packets in tunnels are decoded as without a tunnel; Scapy makes the tunnels, tshark reads them too."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import sampled
from tests.net.craft import ethernet, ipv4, ipv6, tcp, udp
from tests.net.script import content, run
from tests.pcap import write_pcap
from tests.support import RABBITMQ, Run, dissect, packets
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.limits import Limits

PLAIN = RABBITMQ.parent / "nats" / "04-request-reply.pcap"

Wrap = Callable[[Any], Any]
"""An Ethernet frame of scapy becomes one in a tunnel."""


def tunnels() -> dict[str, Wrap]:
    """Functions that wrap a frame, by name."""
    from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
    from scapy.contrib.geneve import GENEVE, GeneveOptions
    from scapy.contrib.mpls import MPLS, EoMCW
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
    from scapy.layers.l2 import GRE, Dot1AD, Dot1Q, Ether
    from scapy.layers.ppp import PPP, PPPoE
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw

    link = Ether(src="02:06:07:08:09:0a", dst="02:01:02:03:04:05")  # without both scapy asks the network
    four = link / IP(src="192.0.2.17", dst="198.51.100.34")
    six = link / IPv6(src="2001:db8::1:2:3", dst="2001:db8::a:b:c")
    vxlan = UDP(sport=0xC123, dport=4789) / VXLAN(vni=0x010203)
    label = MPLS(label=0x12345, s=0, ttl=63) / MPLS(label=0x23456, s=1, ttl=62)

    def ip(frame: Any) -> Any:
        return Raw(bytes(frame[IP]))

    def whole(frame: Any) -> Any:
        return Raw(bytes(frame))

    def vn_tagged(frame: Any) -> Any:
        data = bytes(frame)
        return Raw(data[:12] + b"\x89\x26\x80\x01\x02\x03" + data[12:])

    def e_tagged(frame: Any) -> Any:
        data = bytes(frame)
        return Raw(data[:12] + b"\x89\x3f\x80\x01\x02\x03\x04\x05" + data[12:])

    return {
        "vxlan": lambda frame: four / vxlan / whole(frame),
        "vxlan over ipv6": lambda frame: six / vxlan / whole(frame),
        "vxlan of flannel": lambda f: four / UDP(sport=0xC123, dport=8472) / VXLAN(vni=1, flags=8) / whole(f),
        "vxlan, inner vlan": lambda f: (
            four / vxlan / Ether(src=f.src, dst=f.dst) / Dot1Q(vlan=0x123, type=0x0800) / ip(f)
        ),
        "outer vlan, vxlan": lambda f: link / Dot1AD(vlan=7) / Dot1Q(vlan=0x123) / four[IP] / vxlan / whole(f),
        "geneve": lambda f: four / UDP(sport=0xC123, dport=6081) / GENEVE(vni=0x010203, proto=0x6558) / whole(f),
        "geneve with options": lambda f: (
            four
            / UDP(sport=0xC123, dport=6081)
            / GENEVE(vni=5, proto=0x6558, options=[GeneveOptions(data=b"\1\2\3\4\5\6\7\x08")])
            / whole(f)
        ),
        "geneve of ip": lambda f: four / UDP(sport=0xC123, dport=6081) / GENEVE(vni=5, proto=0x0800) / ip(f),
        "gre": lambda f: four / GRE(proto=0x0800) / ip(f),
        "gre over ipv6": lambda f: six / GRE(proto=0x0800) / ip(f),
        "gre with all": lambda f: (
            four
            / GRE(proto=0x0800, chksum_present=1, key_present=1, seqnum_present=1, key=0x01020304, sequence_number=9)
            / ip(f)
        ),
        "gre of ethernet": lambda f: four / GRE(proto=0x6558, key_present=1, key=0x01020304) / whole(f),
        "erspan I": lambda f: four / GRE(proto=0x88BE) / whole(f),
        "erspan II": lambda f: (
            four / GRE(proto=0x88BE, seqnum_present=1, sequence_number=7) / ERSPAN_II(session_id=0x123) / whole(f)
        ),
        "erspan III": lambda f: (
            four / GRE(proto=0x22EB, seqnum_present=1, sequence_number=7) / ERSPAN_III(session_id=0x123) / whole(f)
        ),
        "erspan III with more": lambda f: (
            four
            / GRE(proto=0x22EB, seqnum_present=1, sequence_number=7)
            / Raw(bytes(ERSPAN_III(session_id=0x123, o=1))[:12] + bytes(ERSPAN_PlatformSpecific())[:8])
            / whole(f)
        ),
        "ip in ip": lambda f: four / IP(src="10.9.8.7", dst="10.6.5.4", proto=4) / ip(f),
        "ip in ipv6": lambda f: link / IPv6(src="::1", dst="::2", nh=4) / ip(f),
        "ip in ipv6 with options": lambda f: link / IPv6(src="::1", dst="::2", nh=60) / IPv6ExtHdrDestOpt(nh=4) / ip(f),
        "mpls": lambda f: link / label / ip(f),
        "mpls of ethernet": lambda f: link / label / EoMCW() / whole(f),
        "pppoe": lambda f: link / PPPoE(sessionid=0x1234) / PPP(proto=0x0021) / ip(f),
        "vn-tag": vn_tagged,
        "e-tag": e_tagged,
        "vxlan in gre in ip": lambda f: (
            four / IP(src="10.9.8.7", dst="10.6.5.4") / GRE(proto=0x0800) / four[IP] / vxlan / whole(f)
        ),
    }


NAMES = sorted(tunnels())


@cache
def frames_of(path: Path) -> list[Any]:
    from scapy.layers.l2 import Ether

    return [Ether(data) for _, data in packets(path)]


@cache
def wrapped(name: str, path: Path = PLAIN) -> list[tuple[int, bytes]]:
    wrap = tunnels()[name]
    return [(time, bytes(wrap(frame))) for (time, _), frame in zip(packets(path), frames_of(path), strict=True)]


def records(found: Run) -> list[dict[str, Any]]:
    return [frame.record(ranges=True) for frame in found.frames]


def in_batches(pairs: list[tuple[int, bytes]], size: int | None) -> Iterator[PacketBatch]:
    size = size or len(pairs)
    for at in range(0, len(pairs), size):
        yield PacketBatch.from_packets(pairs[at : at + size], first_number=at + 1)


FOUR, SIX = ("192.0.2.17", "198.51.100.34"), ("2001:db8::1:2:3", "2001:db8::a:b:c")
OUTER = {
    "vxlan": ("vxlan 66051", *FOUR),
    "vxlan over ipv6": ("vxlan 66051", *SIX),
    "outer vlan, vxlan": ("vxlan 66051", *FOUR),
    "geneve with options": ("geneve 5", *FOUR),
    "gre": ("gre", *FOUR),
    "gre with all": ("gre 16909060", *FOUR),
    "erspan I": ("erspan", *FOUR),
    "erspan II": ("erspan 291", *FOUR),
    "erspan III": ("erspan 291", *FOUR),
    "ip in ip": ("ipip, ipip", *FOUR),
    "ip in ipv6 with options": ("ipip", "::1", "::2"),
    "mpls": None,
    "vn-tag": None,
    "vxlan in gre in ip": ("ipip, gre, vxlan 66051", *FOUR),
}
"""Tunnel and addresses of the outermost packets; all packets are wrapped alike, in both directions."""


@pytest.fixture(scope="module")
def plain() -> list[dict[str, Any]]:
    found = records(dissect(in_batches(packets(PLAIN), None)))
    assert len(found) > 40
    return found


@pytest.mark.parametrize("name", NAMES)
def test_tunnels_do_not_change_records_in_one_batch(name: str, plain: list[dict[str, Any]]) -> None:
    check_records(name, None, plain)


@pytest.mark.parametrize("name", sampled(NAMES))
def test_tunnels_do_not_change_records_in_small_batches(name: str, plain: list[dict[str, Any]]) -> None:
    check_records(name, 7, plain)


def check_records(name: str, size: int | None, plain: list[dict[str, Any]]) -> None:
    found = dissect(in_batches(wrapped(name), size))
    made = records(found)
    around = {tuple(record.pop(key, None) for key in ("tunnel", "outer_src", "outer_dst")) for record in made}
    if name in OUTER:
        tunnel, *ends = OUTER[name] or (None, None, None)
        assert around == {(tunnel, *ends), (tunnel, *ends[::-1])}
    assert made == plain
    assert found.totals.not_decoded == {}
    assert found.totals.tcp_packets == len(packets(PLAIN))


def test_tshark_reads_the_same(tmp_path: Path) -> None:
    """All tunnels in one capture, since tshark starts slowly."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    names = [name for name in NAMES if name != "mpls of ethernet"]  # tshark needs an option for it
    with (tmp_path / "tunnel.pcap").open("wb") as file:
        write_pcap(file, [pair for name in names for pair in wrapped(name)])
    options = [
        *("-d", "udp.port==8472,vxlan"),
        "-T",
        "fields",
        "-E",
        "occurrence=l",
        "-e",
        "tcp.srcport",
        "-e",
        "tcp.seq_raw",
        "-e",
        "tcp.len",
    ]
    shown = [
        subprocess.run(["tshark", "-r", str(path), *options], capture_output=True, text=True, check=True).stdout
        for path in (tmp_path / "tunnel.pcap", PLAIN)
    ]
    inside, outside = (text.splitlines() for text in shown)
    assert len(inside) == len(names) * len(outside)
    for at, name in enumerate(names):
        assert inside[at * len(outside) : (at + 1) * len(outside)] == outside, name


def test_columns_of_the_outer_packet() -> None:
    from wiredecode.tables.packets import PacketTable
    from wiredecode.tables.reader import TableReader

    (batch,) = in_batches(wrapped("vxlan"), None)
    rows = PacketTable().batch(batch).to_pylist()
    assert {(row["tunnel"], row["outer_src"]) for row in rows} == {("vxlan 66051", FOUR[0]), ("vxlan 66051", FOUR[1])}
    assert all(row["dst"].endswith(":4222") == (row["outer_src"] == FOUR[0]) for row in rows)
    for table, names in (
        ("connections", ("tunnel", "outer_client", "outer_server")),
        ("frames", ("tunnel", "outer_src", "outer_dst")),
    ):
        row = next(iter(TableReader([batch], table))).to_pylist()[0]
        found = tuple(row[name] for name in names)
        assert found in {("vxlan 66051", *FOUR), ("vxlan 66051", *FOUR[::-1])}


def test_6in4() -> None:
    inner = [ipv6(tcp(content(at, 10), seq=at)) for at in range(0, 400, 10)]
    for size in (1, 40):
        at = range(0, 40, size)
        parts = [[ethernet(ipv4(data, protocol=41)) for data in inner[a : a + size]] for a in at]
        batches = [
            PacketBatch.from_packets([(n, p) for n, p in enumerate(part)], first_number=a + 1)
            for a, part in zip(at, parts, strict=True)
        ]
        assert run(batches).line() == "0-400"


def test_padding_after_the_outer_packet_is_not_payload() -> None:
    """The inner length is 0, as segmentation offload writes it, so the outer length gives the end."""
    inner = ipv4(tcp(content(0, 10), seq=0), total=0)
    for count in (1, 40):
        outcome = run([PacketBatch.from_packets([(0, ethernet(ipv4(inner, protocol=4)) + bytes(9))] * count)])
        assert outcome.line() == "0-10"


@pytest.mark.parametrize("count", [1, 50])
def test_an_outer_datagram_in_fragments(count: int) -> None:
    """As VXLAN is sent if the inner MTU is not lowered; the first fragments of UDP show the port."""
    sent = []
    for number in range(count):
        frame = ethernet(ipv4(tcp(content(number * 800, 800), seq=number * 800)))
        outer = udp(b"\x08\0\0\0\1\2\3\0" + frame, target=4789)
        place = {"protocol": 17, "identification": number + 1}
        sent += [ethernet(ipv4(outer[:480], more=True, **place)), ethernet(ipv4(outer[480:], offset=480, **place))]
    outcome = run([PacketBatch.from_packets([(0, data) for data in sent])])
    assert outcome.line() == f"0-{count * 800}"
    assert outcome.network.tcp_packets == 2 * count
    assert outcome.network.not_decoded == {}


def test_fragments_of_other_udp_are_not_kept() -> None:
    outer = udp(bytes(900))
    sent = [ipv4(outer[:480], more=True, protocol=17), ipv4(outer[480:], offset=480, protocol=17)]
    outcome = run([PacketBatch.from_packets([(0, ethernet(data)) for data in sent * 30])])
    assert outcome.network.not_decoded == {"UDP": 60}


@pytest.mark.parametrize("count", [1, 50])
def test_tunnels_deeper_than_the_limit_are_counted(count: int) -> None:
    data = tcp(b"abc")
    for depth in range(3):
        data = ipv4(data, protocol=4 if depth else 6)
    batch = PacketBatch.from_packets([(0, ethernet(data))] * count)
    outcome = run([batch], Limits(tunnels=1))
    assert outcome.network.not_decoded == {"too many tunnels": count}
    assert outcome.network.limits_hit == {"tunnels": count}
    assert run([batch], Limits(tunnels=2)).network.tcp_packets == count


NOT_TUNNELS = {
    "UDP": [
        udp(b"\x08" + bytes(60), source=4789),
        udp(bytes(60), target=4789),
        udp(b"\x40" + bytes(60), target=6081),
        udp(b"\x08\0\0", target=8472),
    ],
    "GRE": [b"\0\1\x08\0" + bytes(40), b"\x40\0\x08\0" + bytes(40), b"\0\0\x12\x34" + bytes(40), b"\0\0"],
}


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("name", NOT_TUNNELS)
def test_packets_without_inner_packet_keep_their_reason(name: str, count: int) -> None:
    number = {"UDP": 17, "GRE": 47}[name]
    for data in NOT_TUNNELS[name]:
        packet = ethernet(ipv4(data, protocol=number))
        assert run([PacketBatch.from_packets([(0, packet)] * count)]).network.not_decoded == {name: count}


@pytest.mark.parametrize("name", NAMES)
def test_a_tunnel_truncated_at_every_byte_raises_nothing(name: str) -> None:
    """Packet by packet, and all as columns."""
    data = next(data for _, data in wrapped(name)[10:])
    cuts = [data[:size] for size in range(len(data))]
    for chosen in (*([each] for each in cuts), cuts):
        batch = PacketBatch.from_packets([(0, each) for each in chosen], original=[len(data)] * len(chosen))
        network = run([batch]).network
        assert network.tcp_packets + network.not_decoded.total() == len(chosen)
