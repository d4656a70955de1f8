"""Heartbeats that did not come: one rule for the protocols whose sides agree on an interval."""

from typing import ClassVar, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import Code
from wiredecode.protocols.shared.facts import HEARTBEAT, place_of
from wiredecode.protocols.shared.problems import FrameRef, Rule, stopped_or_cut, was_captured


class LongestSilence(NamedTuple):
    """A side that said nothing for too long."""

    length_ns: int
    since_ns: int
    number: int
    """Its last frame before."""


@dataclass(eq=False)
class MissedHeartbeats(Rule):
    """Sides that were silent although heartbeats were agreed; a protocol says in which frames."""

    code: ClassVar[Code]
    _agreed: dict[int, int] = field(default_factory=dict)
    _last: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By connection and side: time and number of the last frame."""
    _longest: dict[tuple[int, int], LongestSilence] = field(default_factory=dict)

    def agreed(self, frame: Frame) -> int | None:
        """Seconds of the heartbeat that holds from this frame on, 0: none; None: the frame does not say."""
        raise NotImplementedError

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        seconds = self.agreed(frame)
        if seconds is not None:
            self._agreed[number] = seconds * 1_000_000_000
            self._last[number] = [(frame.time_ns, frame.number)] * 2
        agreed = self._agreed.get(number, 0)
        if agreed:
            self._heard(frame.connection, frame.side, frame.time_ns, agreed)
            self._last[number][frame.side] = frame.time_ns, frame.number

    def _heard(self, connection: Connection, side: int, until_ns: int, agreed: int) -> None:
        last = self._last[connection.number]
        (since, number), key = last[side], (connection.number, side)
        longest_ns = max(2 * agreed, self._longest[key].length_ns if key in self._longest else 0)
        if until_ns - since > longest_ns and not self.report.leapt(since, until_ns):
            self._longest[key] = LongestSilence(until_ns - since, since, number)

    def ended(self, connection: Connection) -> None:
        agreed, health = self._agreed.pop(connection.number, 0), connection.health
        for side in (0, 1):
            if agreed and health is not None:
                until_ns = health.last_ns if health.end is None else health.end.time_ns
                self._heard(connection, side, until_ns, agreed)
            silence = self._longest.pop((connection.number, side), None)
            captured = was_captured(connection, side) and not connection.directions[side].lossy
            if silence is not None and captured:
                self._silent(connection, side, silence, agreed)
        self._last.pop(connection.number, None)

    def _silent(self, connection: Connection, side: int, silence: LongestSilence, agreed: int) -> None:
        since_ns, until_ns = silence.since_ns, silence.since_ns + silence.length_ns
        why = stopped_or_cut(connection, side, since_ns + silence.length_ns // 4, until_ns)
        if why is None:
            return
        name, seconds = short(connection), f"{silence.length_ns / 1e9:.1f} s"
        client = side == (connection.initiator or 0)
        who = f"the client of {name}" if client else f"the broker {connection.endpoints[side]}"
        title = f"{who} was silent for {seconds}, with a heartbeat of {agreed // 10**9} s"
        key = (connection.number, side) if client else connection.endpoints[side]
        at = FrameRef(connection, side, silence.number, [], since_ns)
        sender, place = connection.endpoints[side], place_of(at)
        self.report.facts.note(HEARTBEAT, sender, since_ns=since_ns, until_ns=until_ns, at=place)
        problem = self.report.add(self.code, title, key, frame=at, until_ns=until_ns)
        problem.alike = connection.endpoints[side].rpartition(":")[0]
        if not client:
            problem.detail(f"to {name}: {seconds}, from {self.report.seconds(since_ns)} on")
        problem.detail(why)
