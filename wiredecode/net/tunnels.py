"""Tunnels: from a packet of the network underneath to the packet inside, for many packets together.

Each step takes columns and gives, for every packet, where the layer inside begins and its ethertype. A step costs
nothing where no packet needs it: packets outside of tunnels never come here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.dataclasses import dataclass
from wiredecode.net.limits import Limits
from wiredecode.net.link import IP_PROTOCOL, IPV4, IPV6, TRUNCATED, VLAN_TAGS, Octets, untag

IP_IN_IP, UDP, IPV6_IN_IP, GRE, MPLS_IN_IP = 4, 17, 41, 47, 137
CARRIERS = frozenset((IP_IN_IP, UDP, IPV6_IN_IP, GRE, MPLS_IN_IP))
"""IP protocols that may carry packets."""
IS_CARRIER = np.isin(np.arange(256), sorted(CARRIERS))

ETHERNET = 0x6558
"""Transparent Ethernet bridging: an Ethernet frame (RFC 1701)."""
MPLS, MPLS_MULTICAST, PPPOE, PROVIDER_BACKBONE = 0x8847, 0x8848, 0x8864, 0x88E7
VN_TAG, E_TAG = 0x8926, 0x893F
ERSPAN, ERSPAN_III = 0x88BE, 0x22EB
VXLAN_PORTS = (4789, 8472)
"""IANA's (RFC 7348), and the one of Linux before it was assigned, which Flannel and others still use."""
GENEVE_PORT = 6081
PORTS = frozenset((*VXLAN_PORTS, GENEVE_PORT))
"""UDP ports to which tunnelled packets are sent."""

Inside = tuple[Int64s, Int64s]
"""Offset in the buffer, and ethertype."""


@dataclass(slots=True)
class Layers:
    """Packets, or what tunnels carry, from a network layer on; one row each, in buffer offsets."""

    row: Int64s
    at: Int64s
    ethertype: Int64s
    captured_end: Int64s
    """Where its captured bytes end."""
    wire_end: Int64s
    """Where its bytes on the wire end."""

    def select(self, chosen: Int64s | Bools) -> Layers:
        """Some of the packets."""
        return Layers(*(column[chosen] for column in self.columns()))

    def columns(self) -> tuple[Int64s, ...]:
        return self.row, self.at, self.ethertype, self.captured_end, self.wire_end

    @classmethod
    def join(cls, parts: list[Layers]) -> Layers:
        """Several as one, in packet order."""
        if len(parts) == 1:
            return parts[0]
        whole = cls(*(np.concatenate(columns) for columns in zip(*(part.columns() for part in parts), strict=True)))
        return whole.select(np.argsort(whole.row, kind="stable"))


def enter_links(layers: Layers, octets: Octets, limits: Limits) -> None:
    """Step over MPLS, PPPoE, VN-Tags and Ethernet in Ethernet, in place; what is not understood stays as it is."""
    for _ in range(limits.tunnels):
        moved = False
        for ethertype, step in _LINKS.items():
            rows = np.flatnonzero(layers.ethertype == ethertype)
            if not len(rows):
                continue
            part = layers.select(rows)
            at, inside = step(part, octets)
            if ethertype == ETHERNET or len(VLANS.intersection(inside.tolist())):
                at, inside = untag(at, inside, octets, limits.vlan_tags)
            inside = np.where(at > part.captured_end, TRUNCATED, inside)
            moved |= bool((at != part.at).any())
            layers.at[rows], layers.ethertype[rows], layers.wire_end[rows] = at, inside, part.wire_end
        if not moved:
            break


def enter_ip(layers: Layers, protocol: Int64s, octets: Octets) -> None:
    """Step into the payload of IP, in place; ``at`` is after the IP headers, whose protocol is one of `CARRIERS`.

    Where that is no packet, the ethertype is `names.IP_PROTOCOL` plus the protocol.
    """
    layers.ethertype = IP_PROTOCOL + protocol
    layers.ethertype[protocol == IP_IN_IP] = IPV4
    layers.ethertype[protocol == IPV6_IN_IP] = IPV6
    layers.ethertype[protocol == MPLS_IN_IP] = MPLS
    for number, step in ((UDP, _udp), (GRE, _gre)):
        rows = np.flatnonzero(protocol == number)
        if len(rows):
            part = layers.select(rows)
            at, inside = step(part, octets)
            fits = (inside != 0) & (at <= part.captured_end)
            layers.at[rows] = np.where(fits, at, part.at)
            layers.ethertype[rows] = np.where(fits, inside, part.ethertype)


def _udp(part: Layers, octets: Octets) -> Inside:
    """VXLAN (RFC 7348 section 5) and Geneve (RFC 8926 section 3.4), by destination port."""
    at = part.at
    port, flags = octets.u16(at + 2), octets.u8(at + 8)
    vxlan = ((port == VXLAN_PORTS[0]) | (port == VXLAN_PORTS[1])) & (flags & 8 != 0)
    geneve = (port == GENEVE_PORT) & (flags >> 6 == 0)
    inside = np.where(vxlan, ETHERNET, np.where(geneve, octets.u16(at + 10), 0))
    return at + 16 + np.where(geneve, (flags & 0x3F) * 4, 0), inside


def _gre(part: Layers, octets: Octets) -> Inside:
    """GRE (RFC 2784, RFC 2890), and ERSPAN in it (draft-foschiano-erspan): type I has no header."""
    flags, inside = octets.u16(part.at), octets.u16(part.at + 2)
    words = 1 + (flags >> 15) + (flags >> 13 & 1) + (flags >> 12 & 1)
    at = part.at + 4 * words
    plain = flags & 0x4007 == 0  # without source routes (RFC 1701), version 0
    span, third = inside == ERSPAN, inside == ERSPAN_III
    at = at + np.where(span & (flags & 0x1000 != 0), 8, 0)
    more = octets.u16(at + 10)
    inside = np.where(span | (third & (more >> 10 & 31 == 0)), ETHERNET, inside)
    at = at + np.where(third, 12 + 8 * (more & 1), 0)
    supported = np.isin(inside, (IPV4, IPV6, ETHERNET, MPLS, MPLS_MULTICAST, *VLAN_TAGS))
    return at, np.where(plain & supported, inside, 0)


def _mpls(part: Layers, octets: Octets) -> Inside:
    """RFC 3032: labels up to the bottom of the stack, then IP, or Ethernet (RFC 4448), by the bytes."""
    at, ended = part.at, np.zeros(len(part.at), bool)
    for _ in range(MPLS_LABELS):
        bottom = octets.u8(at + 2) & 1 != 0
        at = np.where(ended, at, at + 4)
        ended |= bottom
        if ended.all():
            break
    first = octets.u8(at)
    version = first >> 4
    inside = np.where((version == 4) & (first & 15 >= 5), IPV4, np.where(version == 6, IPV6, 0))
    for skipped in (4, 0):  # with a control word, and without
        likely = np.isin(octets.u16(at + skipped + 12), (IPV4, IPV6, *VLAN_TAGS)) & (inside == 0)
        if skipped:
            likely &= version == 0
        inside = np.where(likely, ETHERNET, inside)
        at = at + skipped * likely
    fits = ended & (inside != 0)
    return np.where(fits, at, part.at), np.where(fits, inside, part.ethertype)


def _pppoe(part: Layers, octets: Octets) -> Inside:
    """RFC 2516 section 4: a session's packet, and the PPP protocol in it; its length cuts off padding."""
    at = part.at
    protocol = octets.u16(at + 6)
    inside = np.select([protocol == 0x21, protocol == 0x57, protocol == 0x281], [IPV4, IPV6, MPLS], 0)
    fits = (octets.u16(at) == 0x1100) & (inside != 0)
    part.wire_end = np.where(fits, np.minimum(part.wire_end, at + 6 + octets.u16(at + 4)), part.wire_end)
    return np.where(fits, at + 8, at), np.where(fits, inside, part.ethertype)


MPLS_LABELS = 16
"""Labels of a stack, at most."""
VLANS = frozenset(VLAN_TAGS)
_LINKS: dict[int, Callable[[Layers, Octets], Inside]] = {
    MPLS: _mpls,
    MPLS_MULTICAST: _mpls,
    PPPOE: _pppoe,
    VN_TAG: lambda part, octets: (part.at + 6, octets.u16(part.at + 4)),  # Cisco: four bytes, the ethertype
    E_TAG: lambda part, octets: (part.at + 8, octets.u16(part.at + 6)),  # IEEE 802.1BR: six bytes, the ethertype
    PROVIDER_BACKBONE: lambda part, octets: (part.at + 4, np.full(len(part.at), ETHERNET, np.int64)),  # IEEE 802.1ah
    ETHERNET: lambda part, octets: (part.at + 14, octets.u16(part.at + 12)),
}
LINKS = np.array(sorted(_LINKS))
"""Ethertypes after which another layer follows that is decoded."""
