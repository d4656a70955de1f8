"""The accounts of a capture."""

from __future__ import annotations

from collections import Counter

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import dataclass, field, fields

PACKETS = ("packets", "tcp_packets", "copies", "not_decoded", "first_ns", "last_ns")
"""Counts of the packet reader; all others are counted when connections are decoded."""


@dataclass
class Totals:
    """Totals of a capture; every packet and every payload byte is in exactly one number of its group."""

    packets: int = 0
    tcp_packets: int = 0
    not_decoded: Counter[str] = field(default_factory=Counter)
    """Packets without TCP, by reason."""
    copies: int = 0
    """Packets with TCP that were seen before at another interface, where connections are analysed."""
    connections: int = 0
    captured: int = 0
    """TCP payload bytes = duplicate + late + ignored + framed + undecoded + other."""
    duplicate: int = 0
    late: int = 0
    ignored: int = 0
    framed: int = 0
    undecoded: int = 0
    """In connections of a known protocol, but in no frame."""
    other: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Bytes of connections of other protocols, by likely protocol and server port."""
    other_connections: Counter[tuple[str, int]] = field(default_factory=Counter)
    missing: int = 0
    """Bytes of gaps: not captured, counted apart."""
    frames: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Frames by protocol, type and status."""
    late_requests: int = field(default=0, compare=False)
    """Requests with the outcome ``late``: answered later than one pass waits, or never. Not those in blocks."""
    limits: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """Notes of reassembly, by code; each is also a finding of the next frame of its direction, if one follows."""
    failures: Counter[str] = field(default_factory=Counter)
    """Bugs of wiredecode itself that cost the contents of a frame, by message."""
    first_ns: int | None = None
    last_ns: int = 0

    @property
    def closes(self) -> bool:
        accounted = self.duplicate + self.late + self.ignored + self.framed + self.undecoded
        return self.captured == accounted + sum(self.other.values())

    def add_times(self, time_ns: Int64s) -> None:
        """Packets with these times were read."""
        first, last = int(time_ns.min()), int(time_ns.max())
        self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
        self.last_ns = max(self.last_ns, last)

    def add_packets(self, part: Totals) -> None:
        """Count the packets that were read of another part of the capture."""
        self.packets += part.packets
        self.tcp_packets += part.tcp_packets
        self.copies += part.copies
        self.not_decoded.update(part.not_decoded)
        if part.first_ns is not None:
            self.first_ns = part.first_ns if self.first_ns is None else min(self.first_ns, part.first_ns)
            self.last_ns = max(self.last_ns, part.last_ns)

    def add_connections(self, part: Totals) -> None:
        """Add the decoded parts of other connections, for any reader of their packets."""
        for each in fields(Totals):
            if each.name in PACKETS:
                continue
            have, more = getattr(self, each.name), getattr(part, each.name)
            if isinstance(have, Counter):
                have.update(more)
            elif isinstance(have, dict):
                for key, count in more.items():
                    have[key] = have.get(key, 0) + count
            else:
                setattr(self, each.name, have + more)

    def since(self, before: Totals) -> Totals:
        """The part decoded after ``before``, an earlier copy."""
        difference = Totals()
        for each in fields(Totals):
            if each.name in PACKETS:
                continue
            now, then = getattr(self, each.name), getattr(before, each.name)
            if isinstance(now, dict):
                getattr(difference, each.name).update({key: count - then.get(key, 0) for key, count in now.items()})
            else:
                setattr(difference, each.name, now - then)
        return difference
