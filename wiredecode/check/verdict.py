"""The last line of ``check``: how many problems there are, in what, and what could not be judged."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import title_of
from wiredecode.protocols.shared.problems import Problem

TLS = "tls"
NO_DATA = "connections without data"
NOT_JUDGED = 3
"""Exit code of a capture in which nothing could be judged, or with ``--fail-on undecoded`` not everything."""
MAX_KINDS = 10_000
"""Servers whose connections were not decoded and are counted separately."""
MAX_NAMED = 3
"""Kinds of connections that were not decoded and are named."""


@dataclass
class Coverage:
    """The decoded part of a capture, as the checker counts it."""

    messages: int = 0
    """Frames of decoded protocols."""
    spoken: Counter[str] = field(default_factory=Counter)
    """Connections by decoded protocol."""
    connections: int = 0
    """Connections of decoded protocols ..."""
    one_sided: int = 0
    """... of which only one direction was captured."""
    missing: int = 0
    """Bytes that were sent and not captured, on connections of decoded protocols."""
    hidden: int = 0
    """Bytes of encrypted TLS records."""
    _encrypted: set[int] = field(default_factory=set)
    """Open connections with such records."""
    others: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Connections that were not decoded, by their likely protocol and the server's endpoint."""

    def end(self, connection: Connection, foreign: str | None) -> None:
        """Count a connection that is over."""
        decoded = [name for name in connection.protocols if name != TLS]
        self.spoken.update(decoded)
        health = connection.health
        self.connections += bool(decoded)
        self.one_sided += bool(decoded) and health is not None and not all(side.packets for side in health.directions)
        self.missing += bool(decoded) * sum(side.missing for side in connection.directions)
        if decoded and connection.number not in self._encrypted:
            return
        self._encrypted.discard(connection.number)
        if health is not None and (health.refused or health.unanswered):
            return  # a problem says so
        if TLS in connection.protocols:
            foreign = foreign if foreign not in (None, "TLS", "unknown") else "TLS without keys"
        elif not sum(side.captured for side in connection.directions):
            missing = sum(side.missing for side in connection.directions)
            foreign = "packets without their payload" if missing else NO_DATA
        server = connection.endpoints[1 - (connection.initiator or 0)]
        kind = foreign or "unknown", server
        self.others[kind if kind in self.others or len(self.others) < MAX_KINDS else (kind[0], "others")] += 1

    def encrypted(self, frame: Frame) -> None:
        """Count a TLS record, which is encrypted if it holds data of the application."""
        if frame.type == "ApplicationData":
            self._encrypted.add(frame.connection.number)
            self.hidden += frame.length


def concerns(problem: Problem, connections: set[int]) -> bool:
    """Whether a problem or one of its effects is of one of these connections; those of the whole capture are of all."""
    members = set[int]().union(problem.members, *(each.members for each in problem.effects))
    return not members or not members.isdisjoint(connections)


@dataclass(frozen=True)
class CheckVerdict:
    """Contents of the last line. ``judged``: something was decoded; ``whole``: all of it was."""

    text: str
    judged: bool
    whole: bool

    def record(self, coverage: Coverage, problems: Sequence[Problem]) -> dict[str, Any]:
        """The last object of ``--json``."""
        counts = Counter(each.severity for each in problems)
        return {
            "verdict": self.text,
            "judged": self.judged,
            "whole": self.whole,
            "errors": counts["error"],
            "warnings": counts["warning"],
            "notes": counts["note"],
            "messages": coverage.messages,
            "connections": coverage.connections,
            "one_direction": coverage.one_sided,
            "protocols": sorted(coverage.spoken),
            "not_decoded": [
                {"looks_like": name, "server": server, "connections": count}
                for (name, server), count in sorted(coverage.others.items())
            ],
        }


def verdict(
    coverage: Coverage,
    problems: Sequence[Problem],
    totals: Totals,
    *,
    notes_shown: bool = True,
    damaged: bool = False,
) -> CheckVerdict:
    """Make the verdict on these problems, for the last line. ``damaged``: captures were not read to their end."""
    names = ", ".join(dict.fromkeys(title_of(name) or name.title() for name in coverage.spoken))
    lost = totals.undecoded + max(sum(totals.other.values()), coverage.hidden)
    undecoded, notes = _left(coverage), sum(each.severity == "note" for each in problems)
    number = len(problems) - notes
    text = counted(number, "problem") if number else "No problems"
    if coverage.spoken:
        connections = counted(coverage.connections, "connection")
        text += f" in {counted(coverage.messages, 'message')} on {connections} ({names})"
        if sided := coverage.one_sided:
            some = "" if sided == coverage.connections else f" {sided:,} of them"
            text += f",{some} captured in one direction only"
        if lost:
            share = 100 * lost / max(totals.captured, 1)
            text += f"; {'less than 1' if share < 1 else f'{share:.0f}'} % of the bytes were not decoded"
            text += f" ({undecoded})" if undecoded else ""
        elif undecoded:
            text += f"; not decoded: {undecoded}"
        if coverage.missing:
            text += f"; {coverage.missing:,} bytes were not captured"
    else:
        others = ", ".join(f"{count:,} {reason}" for reason, count in totals.not_decoded.most_common(MAX_NAMED))
        why = undecoded or f"the capture has no packets{' with TCP payload' * bool(totals.packets)}"
        why += f" (not decoded: {others})" if others and not undecoded else ""
        text = f"{text}. Nothing else could be judged: {why}" if number else f"Nothing could be judged: {why}"
    text += "; captures were not read to the end" if damaged else ""
    remark = f" {counted(notes, 'note')}{'.' if notes_shown else ': --severity note'}" if notes else ""
    whole = not (lost or coverage.missing or coverage.one_sided or damaged) and not any(
        name != NO_DATA for name, _ in coverage.others
    )
    return CheckVerdict(f"{text}.{remark}", judged=bool(coverage.spoken), whole=whole and bool(coverage.spoken))


def _left(coverage: Coverage) -> str:
    """``"2 connections are HTTP (10.0.0.1:8080)"``."""
    kinds: dict[str, list[str]] = {}
    totals: Counter[str] = Counter()
    for (name, server), count in coverage.others.items():
        kinds.setdefault(name, []).append(server)
        totals[name] += count
    parts = []
    for name, number in totals.most_common(MAX_NAMED):
        servers = ", ".join(kinds[name][:MAX_NAMED]) + (", ..." if len(kinds[name]) > MAX_NAMED else "")
        are, were = ("is", "was") if number == 1 else ("are", "were")
        said = {
            "unknown": f"{are} of an unknown protocol",
            NO_DATA: "carried no data",
            "packets without their payload": f"{were} captured without payload",
        }.get(name, f"{are} {name}")
        parts.append(f"{counted(number, 'connection')} {said} ({servers})")
    if len(totals) > MAX_NAMED:
        parts.append("and others")
    return ", ".join(parts)
