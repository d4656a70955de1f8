"""Packets of the kit, and packets for tests of net/: other link layers, fragments, UDP."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from wiredecode.capture.batch import PacketBatch
from wiredecode.testing.packets import (
    ACK,
    FIN,
    PSH,
    RST,
    SECOND,
    START_NS,
    SYN,
    Talk,
    batches,
    ethernet,
    ipv4,
    ipv6,
    tcp,
)

__all__ = [
    "ACK",
    "FIN",
    "PSH",
    "RST",
    "SECOND",
    "START_NS",
    "SYN",
    "Talk",
    "batches",
    "ethernet",
    "ipv4",
    "ipv6",
    "tcp",
]


def linux_sll(payload: bytes, ethertype: int = 0x0800) -> bytes:
    """LINKTYPE_LINUX_SLL (113)."""
    return struct.pack("!HHH8sH", 0, 1, 6, bytes(8), ethertype) + payload


def linux_sll2(payload: bytes, ethertype: int = 0x0800) -> bytes:
    """LINKTYPE_LINUX_SLL2 (276)."""
    return struct.pack("!HHIHBB8s", ethertype, 0, 1, 1, 0, 6, bytes(8)) + payload


def bsd_null(payload: bytes, family: int = 2, order: str = "<") -> bytes:
    """LINKTYPE_NULL (0) of a host with byte order ``order``; LINKTYPE_LOOP (108) with ``">"``."""
    return struct.pack(order + "I", family) + payload


def ipv6_fragment(payload: bytes, offset: int, more: bool, identification: int = 1, protocol: int = 6) -> bytes:
    """An IPv6 packet with a fragment header; ``offset`` in bytes."""
    header = struct.pack("!BHI", 0, offset | more, identification)
    return ipv6(payload, protocol=protocol, extensions=[(44, header)])


def udp(payload: bytes = b"", source: int = 5353, target: int = 53) -> bytes:
    """A UDP datagram."""
    return struct.pack("!HHHH", source, target, 8 + len(payload), 0) + payload


def ppi(linktype: int, packet: bytes, tags: bytes = b"") -> bytes:
    return struct.pack("<BBHI", 0, 0, 8 + len(tags), linktype) + tags + packet


def nflog(packet: bytes, order: str, family: int = 2) -> bytes:
    """An NFLOG message: prefix and hook before the packet, in the byte order of the host."""
    parts = [(10, b"web\0\0"), (1, b"\x08\0\1\0"), (9, packet)]
    attributes = [struct.pack(f"{order}HH", 4 + len(part), kind) + part for kind, part in parts]
    return bytes([family, 0, 0, 5]) + b"".join(each + bytes(-len(each) % 4) for each in attributes)


def of_linktypes(packets: Iterable[tuple[int, bytes]]) -> PacketBatch:
    """One batch of packets of several link types, (link type, bytes)."""
    pairs = list(packets)
    batch = next(batches([data for _, data in pairs]))
    batch.linktype[:] = np.array([linktype for linktype, _ in pairs], np.int32)
    return batch
