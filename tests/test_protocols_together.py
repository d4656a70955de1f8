"""All protocols together: each capture is recognised on its own port, on any other, and on another protocol's."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.support import dissect
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.protocols.registry import BUILT_IN

CAPTURES = Path(__file__).parent.parent / "captures"
FOLDERS = {
    "rabbitmq-stream": {"rabbitmq_stream"},
    "nats": {"nats", "tls"},
    "liftbridge": {"nats", "liftbridge"},
    "tank": {"tank"},
    "cursus": {"cursus"},
    "pravega": {"pravega"},
}
PORTS = {folder: one.PORTS for one in BUILT_IN for folder in FOLDERS if one.NAME in FOLDERS[folder]}
FOREIGN_PORT = 31_337
ETHERNET, TCP = 1, 6
WEAK = ("17-tls", "topic-mgmt")
"""On a strange port TLS is only named where it is known to be NATS; one short text alone is not believed."""
LOST = ("drop1pct", "snap96", "midconn", "midstream", "midconnection", "s2c-only", "cut", "snaplen96")
"""Captures with missing bytes: on another port they may be unrecognised, but never mistaken."""


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((CAPTURES / folder).iterdir()):
            if ".pcap" in path.name and path.stat().st_size < 400_000:
                yield path


@cache
def packets(path: Path) -> tuple[list[tuple[int, bytes]], list[int], int]:
    """Times and bytes of the packets of a capture, their sizes on the wire, and the link type."""
    found: list[tuple[int, bytes]] = []
    sizes: list[int] = []
    linktype = ETHERNET
    try:
        for batch in open_capture([path]):
            for at, size, when in zip(batch.start, batch.captured, batch.time_ns, strict=True):
                found.append((int(when), batch.buffer[at : at + size]))
            sizes += batch.original.tolist()
            linktype = int(batch.linktype[0])
    except CaptureError:
        pass
    return found, sizes, linktype


def moved(packet: bytes, ports: dict[int, int], address: bytes | None = None, ipv6: bool = False) -> bytes:
    """An Ethernet packet with other TCP ports; ``address`` replaces the last byte of both, or makes it IPv6."""
    link = 14 if packet[12:14] == b"\x08\x00" else 18
    if packet[link - 2 : link] != b"\x08\x00" or packet[link + 9] != TCP:
        return packet
    header = (packet[link] & 15) * 4
    body = bytearray(packet[link + header :])
    for at in (0, 2):
        port = struct.unpack_from("!H", body, at)[0]
        struct.pack_into("!H", body, at, ports.get(port, port))
    source, target = packet[link + 12 : link + 16], packet[link + 16 : link + 20]
    if not ipv6:
        marked = bytearray(packet[: link + header])
        if address is not None:
            marked[link + 13 : link + 15] = marked[link + 17 : link + 19] = address
        return bytes(marked + body)
    length = struct.unpack_from("!H", packet, link + 2)[0] - header
    prefix = b"\xfd" + bytes(9) + (address or bytes(2))
    head = struct.pack("!IHBB", 6 << 28, length, TCP, 64) + prefix + source + prefix + target
    return packet[: link - 2] + b"\x86\xdd" + head + bytes(body)


def protocols_of(path: Path, ports: dict[int, int]) -> Counter[str]:
    """Frames by protocol (PROXY prefaces aside) when the capture is read with its ports moved."""
    found, sizes, linktype = packets(path)
    changed = [(when, moved(data, ports) if linktype == ETHERNET else data) for when, data in found]
    run = dissect([PacketBatch.from_packets(changed, linktype, original=sizes)], style=None)
    assert run.totals.closes
    return Counter(frame.protocol for frame in run.frames if frame.protocol != "proxy")


def mistaken(found: Iterable[str], path: Path) -> set[str]:
    return set(found) - FOLDERS[path.parent.name] - {"tls"}


@pytest.mark.parametrize("path", sampled(files(), 2), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_capture_is_recognised_on_any_port(path: Path) -> None:
    own = protocols_of(path, {})
    assert not mistaken(own, path)
    ports = dict.fromkeys(PORTS[path.parent.name], FOREIGN_PORT)
    elsewhere = protocols_of(path, ports)
    assert not mistaken(elsewhere, path)
    if not any(word in path.name for word in (*LOST, *WEAK)):
        assert elsewhere == own


@pytest.mark.parametrize("path", sampled(files()), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_capture_on_the_port_of_another_protocol_is_not_mistaken(path: Path) -> None:
    for folder, others in PORTS.items():
        if folder != path.parent.name and {folder, path.parent.name} != {"nats", "liftbridge"}:
            found = protocols_of(path, dict.fromkeys(PORTS[path.parent.name], others[0]))
            assert not mistaken(found, path), f"on the port of {folder}"


MIXED = {
    "rabbitmq-stream": "c43_basic.pcap",
    "liftbridge": "30-lb-publish-ack.pcap",
    "tank": "tank_08_consume_positions.pcap",
    "cursus": "group.pcap",
    "pravega": "append_basic.pcap",
}


def test_one_capture_of_all_five_on_usual_and_moved_ports_over_ipv4_and_ipv6() -> None:
    mixed: list[tuple[int, bytes]] = []
    expected: Counter[str] = Counter()
    for index, (folder, name) in enumerate(MIXED.items()):
        path = CAPTURES / folder / name
        own = protocols_of(path, {})
        start = packets(path)[0][0][0]
        for copy, ipv6 in enumerate((False, True, False, True)):
            ports = dict.fromkeys(PORTS[folder], FOREIGN_PORT + index) if copy >= 2 else {}
            address = bytes([index, copy])
            mixed += [(when - start, moved(data, ports, address, ipv6)) for when, data in packets(path)[0]]
            expected.update(own)
    mixed.sort(key=lambda pair: pair[0])
    run = dissect([PacketBatch.from_packets(mixed)])
    assert run.totals.closes
    assert run.totals.undecoded == sum(run.totals.other.values()) == 0
    assert Counter(frame.protocol for frame in run.frames) == expected
    assert all(frame.status == "ok" for frame in run.frames)


@pytest.mark.parametrize("folder", [*FOLDERS, "kafka", "amqp091"])
def test_a_response_knows_what_was_asked(folder: str) -> None:
    """Rules read it there, in place of a memory of their own; confirms that name several publishes have none."""
    path = next(path for path in sorted((CAPTURES / folder).iterdir()) if ".pcap" in path.name)
    linked = [frame for frame in dissect(open_capture([path])).frames if frame.request is not None]
    assert any(frame.asked is not None for frame in linked)
    assert [frame for frame in linked if frame.asked is not None and frame.asked.frame != frame.request] == []
