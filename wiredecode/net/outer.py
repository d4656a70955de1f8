"""What is around a connection in a tunnel: kinds and numbers of the tunnels, and the addresses of the outermost."""

from __future__ import annotations

import socket
from collections import Counter
from typing import NamedTuple

from wiredecode.capture.batch import PacketBatch
from wiredecode.net.headers import HeaderReader
from wiredecode.net.ip import Carried
from wiredecode.net.limits import Limits
from wiredecode.net.tunnels import ERSPAN, ERSPAN_III, GENEVE_PORT, GRE, IP_IN_IP, IPV6_IN_IP, MPLS_IN_IP, UDP

NAMES = {IP_IN_IP: "ipip", IPV6_IN_IP: "6in4", MPLS_IN_IP: "mpls"}
KEY = 0x2000
"""Bit of the first two bytes of GRE: a key is there (RFC 2890)."""


class Outer(NamedTuple):
    """The tunnels of a connection, by its first packet."""

    tunnel: str
    """``vxlan 42``; of nested ones from the outside in: ``gre, vxlan 42``."""
    ends: tuple[str, str]
    """Addresses, without ports: those of a tunnel mean little. In the order of ``Connection.endpoints``."""


def outer_of(packet: PacketBatch, limits: Limits) -> Outer | None:
    """Of the one packet of a batch; None where it is in no tunnel, or one that alone does not tell."""
    reader = HeaderReader(limits, Counter(), Counter())
    reader.read_rows(packet, packet.time_ns)
    if not reader.tcp_packets or not reader.carried:
        return None
    first = reader.carried[0].packet
    ends = (_address(value, first.version) for value in (first.source, first.target))
    return Outer(", ".join(map(_kind, reader.carried)), (next(ends), next(ends)))


def _address(value: int, version: int) -> str:
    family, size = (socket.AF_INET, 4) if version == 4 else (socket.AF_INET6, 16)
    return socket.inet_ntop(family, value.to_bytes(size))


def _kind(carried: Carried) -> str:
    """``vxlan 42``."""
    data, at = carried.packet.data, carried.at

    def number(begin: int, size: int) -> int:
        return int.from_bytes(data[at + begin : at + begin + size])

    if carried.protocol == UDP:
        return f"{'geneve' if number(2, 2) == GENEVE_PORT else 'vxlan'} {number(12, 3)}"
    if carried.protocol != GRE:
        return NAMES[carried.protocol]
    flags, inside = number(0, 2), number(2, 2)
    behind = 4 + 4 * (flags >> 15) + 4 * (flags >> 13 & 1) + 4 * (flags >> 12 & 1)
    if inside in (ERSPAN, ERSPAN_III):
        return f"erspan {number(behind + 2, 2) & 0x3FF}" if flags & 0x1000 else "erspan"
    return f"gre {number(4 + 4 * (flags >> 15), 4)}" if flags & KEY else "gre"
