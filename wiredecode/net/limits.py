"""Every limit of net/: what may be remembered, and for how long.

Reaching one is counted in `Network.limits_hit`, and is a Note where it costs a stream anything.
"""

from collections.abc import Mapping

from wiredecode.dataclasses import asdict, dataclass

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of decoding packets into streams; seconds are capture time, never the wall clock."""

    gap_seconds: float = 1.0
    """A gap is given up this long after the other side acknowledged its bytes; this long after the first
    segment beyond it if no packet of the other side was captured. Until acknowledged, a retransmission may fill it.

    As long may a segment wait for bytes of the other side that it acknowledges."""
    live_seconds: float = 5.0
    """Live, while no packets come: any gap is given up this long after the first segment beyond it."""
    buffered_bytes: int = 4 * MIB
    """Payload bytes of one direction kept after gaps, or because they wait for the other direction."""
    buffered_total: int = 64 * MIB
    """The same of all directions (looked at every `TOTAL_CHECK_PACKETS` packets)."""
    buffered_segments: int = 16 * KIB
    """Segments of one direction kept so."""
    window_bytes: int = GIB
    """A segment further than this from the next expected byte is ignored (RFC 7323: the largest window)."""
    late_syn_bytes: int = MIB
    """A SYN at most this far before the first data seen was reordered, and is no port reuse."""
    history_bytes: int = 2 * KIB
    """Delivered bytes remembered per direction, to compare retransmissions with."""
    remembered_gaps: int = 64
    """Given-up gaps remembered per direction, to distinguish late bytes from duplicates."""
    connections: int = 16 * KIB
    """Connections remembered; the one whose last packet is the oldest is forgotten first."""
    closed_seconds: float = 5.0
    """A connection closed by FINs or RST is forgotten this long after its last packet, at least
    `gap_seconds`; a packet that comes later belongs to a new connection."""
    closed_connections: int = KIB
    """Closed connections remembered (looked at every `CLOSED_CHECK_PACKETS` packets); oldest packet first out."""
    fragmented_datagrams: int = KIB
    """Incomplete IP datagrams kept."""
    fragment_bytes: int = 4 * MIB
    """Bytes of all incomplete IP datagrams."""
    fragment_seconds: float = 30.0
    """An IP datagram must be complete this long after its first fragment (RFC 791: 15 s, RFC 8200: 60 s)."""
    vlan_tags: int = 4
    """802.1Q / 802.1ad tags before the network layer."""
    tunnels: int = 8
    """Packets within packets: VXLAN, Geneve, GRE, IP in IP ...; and as many layers of MPLS, PPPoE, VN-Tags in each."""
    extension_headers: int = 16
    """IPv6 extension headers before TCP."""


DEFAULT_LIMITS = Limits()

TOTAL_CHECK_PACKETS = 1024
"""`Limits.buffered_total` is enforced at multiples of this packet number: so batch size does not matter."""

SILENT_NS = 1_000_000_000
"""A wait of a connection without packets ends this long after its time, by the clock of the capture: packets of others
may be ahead of its own (merged files, a clock that was set)."""

CLOSED_CHECK_PACKETS = 32768
"""`Limits.closed_connections` is enforced at multiples of this packet number."""


MAX_SECONDS = 1e9
"""Some 30 years: nanoseconds of such times fit into 64 bits."""


def limits_of(chosen: Mapping[str, float]) -> Limits:
    """The limits of reassembly, some chosen by name. Raises ``ValueError``."""
    defaults = asdict(DEFAULT_LIMITS)
    for name, value in chosen.items():
        if name not in defaults:
            raise ValueError(f"{name!r} is no limit; there is {', '.join(defaults)}")
        most = MAX_SECONDS if isinstance(defaults[name], float) else 1 << 62
        if not isinstance(value, int | type(defaults[name])) or not int(name == "connections") <= value <= most:
            raise ValueError(f"limit {name} cannot be {value!r}; its default is {defaults[name]}")
    return Limits(**{**defaults, **chosen})
