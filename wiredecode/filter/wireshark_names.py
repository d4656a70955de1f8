"""Wireshark's names for what its packets have: what TCP analysis found, and facts of the last packet of a frame.

Both are made only where they are asked for: see :class:`Needs`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from wiredecode.filter.model import Values
from wiredecode.frames.frame import Frame
from wiredecode.net.health import BITS, KINDS
from wiredecode.net.segments import ACK, FIN, NO_FACTS, RST, SYN, SegmentFacts

ANALYSIS = "tcp.analysis."
PUSH, URGENT, ECE, CWR = 8, 32, 64, 128
FLAGS = {
    "tcp.flags.fin": FIN,
    "tcp.flags.syn": SYN,
    "tcp.flags.reset": RST,
    "tcp.flags.push": PUSH,
    "tcp.flags.ack": ACK,
    "tcp.flags.urg": URGENT,
    "tcp.flags.ece": ECE,
    "tcp.flags.cwr": CWR,
}
"""Bits of TCP's flags."""
FACTS = {
    "tcp.flags": "flags",
    "tcp.len": "length",
    "tcp.seq": "seq",
    "tcp.ack": "ack",
    "tcp.nxtseq": "next_seq",
    "tcp.seq_raw": "seq_raw",
    "tcp.ack_raw": "ack_raw",
    "tcp.window_size": "window",
    "tcp.window_size_value": "window_raw",
    "frame.time_delta": "delta_ns",
    "tcp.time_delta": "stream_delta_ns",
    "tcp.time_relative": "stream_ns",
    "tcp.analysis.ack_rtt": "rtt_ns",
    "eth": "ethernet",
    **dict.fromkeys(FLAGS, "flags"),
}
"""Names of facts of single packets, and attributes of `SegmentFacts`."""
SHORT = {
    "tcp.window.zero": "tcp.analysis.zero_window",
    "tcp.window.full": "tcp.analysis.window_full",
    **{f"tcp.{kind}": f"{ANALYSIS}{kind}" for kind in KINDS if "window" not in kind},
}
"""Shorter names."""
WIRESHARK = {
    "frame.len": "frame.length",
    **{f"ip.{end}host": f"ip.{name}" for end, name in (("", "addr"), ("src_", "src"), ("dst_", "dst"))},
    "ipv6.addr": "ip.addr",
    "ipv6.src": "ip.src",
    "ipv6.dst": "ip.dst",
    "frame.time_epoch": "frame.time",
    "_ws.expert": "finding",
    **{f"_ws.expert.{name}": f"finding.{name}" for name in ("severity", "group", "message")},
}
"""Wireshark's names of our names."""
ALIASES = SHORT | WIRESHARK

IN_PACKETS = {"frame.cap_len": "captured", "ip.version": "ip_version"}
"""Names that frames do not have, and the columns of the table of packets that do."""
ELSEWHERE = {
    "frame.time_delta_displayed": "-T fields -e frame.time_delta_displayed shows it",
    "tcp.analysis.initial_rtt": "wiredecode sql FILE 'select connection, handshake_ns from connections' has it",
}
"""Other names that frames do not have, and what does."""
ABSENT = frozenset(("udp", "arp", "dns", "mdns", "icmp", "icmpv6", "dhcp", "ssh"))
"""Protocols that no frame has: filters exclude them by habit."""
OF_HEADERS = frozenset(("eth", "ip", "ipv6", "tcp"))
"""Layers of packets of which only few fields are kept."""
OF_PACKETS = frozenset(
    ("ip", "ipv6", "eth", "ip.addr", "ip.src", "ip.dst", "tcp.port", "tcp.srcport", "tcp.dstport", "tcp.stream")
)
"""Names that mean the same for a packet and for a frame."""


class Needs(NamedTuple):
    """Needs of names: without them they have no values."""

    analysis: bool
    """TCP analysis: `Network(analyse=True)`."""
    facts: bool
    """Facts of single packets: `Network(facts=True)`."""

    @classmethod
    def of(cls, names: Iterable[str]) -> "Needs":
        """The needs of these names."""
        known = frozenset(names)
        facts = not known.isdisjoint(FACTS)
        return cls(facts or any(name.startswith(ANALYSIS) for name in known), facts)


def is_of_packet(name: str) -> bool:
    """Whether only packets have it by themselves: a frame has what its packets have."""
    return name not in OF_PACKETS and (name in FACTS or name.startswith(ANALYSIS))


def facts_of(frame: Frame) -> SegmentFacts:
    """Facts of the last packet of a frame."""
    health = frame.connection.health
    if health is None or health.facts is None:
        return NO_FACTS
    return health.facts.get(max(frame.packets, default=0), NO_FACTS)


def packet_values() -> Mapping[str, Callable[[Frame], Values]]:
    """Readers of the names: kinds of TCP analysis are true once per packet of the frame that is of the kind."""

    def of_kind(wanted: int) -> Callable[[Frame], Values]:
        def get(frame: Frame) -> Values:
            health = frame.connection.health
            kinds = {} if health is None else health.directions[frame.side].kinds
            return [True for packet in frame.packets if kinds.get(packet, 0) & wanted]

        return get

    def with_flag(bit: int) -> Callable[[Frame], Values]:
        return lambda frame: [] if (flags := facts_of(frame).flags) is None else [bool(flags & bit)]

    def fact(index: int) -> Callable[[Frame], Values]:
        return lambda frame: [] if (value := facts_of(frame)[index]) is None else [value]

    return {
        **{f"{ANALYSIS}{kind}": of_kind(bit) for kind, bit in zip(KINDS, BITS, strict=True)},
        f"{ANALYSIS}flags": of_kind(sum(BITS)),
        **{name: fact(SegmentFacts._fields.index(attribute)) for name, attribute in FACTS.items()},
        **{name: with_flag(bit) for name, bit in FLAGS.items()},
        "eth": lambda frame: [frame.connection] if facts_of(frame).ethernet else [],
    }
