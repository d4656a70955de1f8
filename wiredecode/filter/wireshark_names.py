"""Names of filters for what TCP analysis found, as Wireshark calls them: a frame has what its packets have.

The analysis is made only where a filter asks for it: see :attr:`wiredecode.filter.Filter.needs_analysis`.
"""

from collections.abc import Callable

from wiredecode.filter.model import Values
from wiredecode.frames.frame import Frame
from wiredecode.net.health import BITS, KINDS
from wiredecode.net.segments import FIN, RST, SYN

ANALYSIS = "tcp.analysis."
FLAGS = {"tcp.flags.fin": FIN, "tcp.flags.reset": RST, "tcp.flags.syn": SYN}
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


IN_PACKETS = {
    "tcp.seq": "seq",
    "tcp.seq_raw": "seq",
    "tcp.ack": "ack",
    "tcp.ack_raw": "ack",
    "tcp.len": "payload",
    "tcp.flags": "flags_code",
    "tcp.flags.ack": "flags",
    "tcp.flags.push": "flags",
    "frame.cap_len": "captured",
    "eth": "linktype",
    "ip.version": "ip_version",
}
"""Names that frames do not have, and the columns of the table of packets that do."""
ELSEWHERE = {
    "frame.time_delta": "-T fields -e frame.time_delta_displayed has the time since the line before",
    "frame.time_delta_displayed": "-T fields -e frame.time_delta_displayed shows it",
    "tcp.time_delta": "wiredecode follow FILE -n N shows times between frames; latency is from request to response",
    "tcp.analysis.ack_rtt": "wiredecode stats FILE --table connections has round-trip times",
    "tcp.window_size": "tcp.analysis.zero_window and tcp.analysis.window_full find what windows cause",
}
"""Other names that frames do not have, and what does."""
OF_PACKETS = frozenset(
    ("ip", "ipv6", "ip.addr", "ip.src", "ip.dst", "tcp.port", "tcp.srcport", "tcp.dstport", "tcp.stream")
)
"""Names that mean the same for a packet and for a frame."""


def is_analysis(name: str) -> bool:
    """Whether a field is known only where connections are analysed."""
    return name.startswith(ANALYSIS) or name in FLAGS


def analysis_values() -> dict[str, Callable[[Frame], Values]]:
    """Readers of the names: one true per packet of the frame that is of the kind."""

    def of_kind(wanted: int) -> Callable[[Frame], Values]:
        def get(frame: Frame) -> Values:
            health = frame.connection.health
            kinds = {} if health is None else health.directions[frame.side].kinds
            return [True for packet in frame.packets if kinds.get(packet, 0) & wanted]

        return get

    def with_flag(bit: int) -> Callable[[Frame], Values]:
        def get(frame: Frame) -> Values:
            health = frame.connection.health
            if health is None:
                return []
            control = health.directions[frame.side].control
            return [bool(control.get(packet, 0) & bit) for packet in frame.packets]

        return get

    return {
        **{f"{ANALYSIS}{kind}": of_kind(bit) for kind, bit in zip(KINDS, BITS, strict=True)},
        f"{ANALYSIS}flags": of_kind(sum(BITS)),
        **{name: with_flag(bit) for name, bit in FLAGS.items()},
    }
