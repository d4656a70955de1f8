"""Every limit of net/: what may be remembered, and for how long.

Reaching one is counted in `Network.limits_hit`, and is a Note where it costs a stream anything.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of decoding packets into streams; seconds are capture time, never the wall clock."""

    hole_seconds: float = 1.0
    """A hole may be filled until this long after the first segment behind it; then it is given up."""
    buffered_bytes: int = 4 * MIB
    """Payload bytes kept behind the holes of one direction."""
    buffered_total: int = 64 * MIB
    """Payload bytes kept behind all holes (looked at every `TOTAL_CHECK_PACKETS` packets)."""
    buffered_segments: int = 16 * KIB
    """Segments kept behind the holes of one direction."""
    window_bytes: int = GIB
    """A segment further than this from the next expected byte is ignored (RFC 7323: the largest window)."""
    late_syn_bytes: int = MIB
    """A SYN at most this far before the first data seen was reordered, and is no port reuse."""
    history_bytes: int = 2 * KIB
    """Delivered bytes remembered per direction, to compare retransmissions with."""
    remembered_gaps: int = 64
    """Given-up holes remembered per direction, to tell late bytes from duplicates."""
    connections: int = 16 * KIB
    """Connections remembered; the one whose last packet is the oldest is forgotten first."""
    fragmented_datagrams: int = KIB
    """Incomplete IP datagrams kept."""
    fragment_bytes: int = 4 * MIB
    """Bytes of all incomplete IP datagrams."""
    fragment_seconds: float = 30.0
    """An IP datagram must be complete so long after its first fragment (RFC 791: 15 s, RFC 8200: 60 s)."""
    vlan_tags: int = 4
    """802.1Q / 802.1ad tags before the network layer."""
    extension_headers: int = 16
    """IPv6 extension headers before TCP."""


TOTAL_CHECK_PACKETS = 1024
"""`Limits.buffered_total` is enforced at multiples of this packet number: so batch size does not matter."""
