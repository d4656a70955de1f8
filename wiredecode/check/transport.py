"""What TCP tells of a connection when it is over."""

from __future__ import annotations

from collections import Counter

from wiredecode.check.codes import CODES
from wiredecode.frames.who import client_side
from wiredecode.net.health import FAST_RETRANSMISSION, RETRANSMISSION, DirectionHealth, Unheard
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.problems import MOST_PROBLEMS, Report, Rule

LEAST_REPEATED, LEAST_SHARE = 3, 0.01
"""So many retransmissions, and so large a share of the packets, are worth a warning."""
LEAST_CLOSED_NS = 200_000_000
"""So long a closed window is worth a warning."""
TOGETHER_NS = 1_000_000_000
"""A server that goes down ends its connections within such a time."""
OPTIONS = 12
"""Bytes that TCP timestamps take of a segment's largest payload."""


class Health(Rule):
    """What TCP tells of a connection when it is over."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._packets: Counter[str] = Counter()
        """By endpoint: packets of the connections that had losses."""
        self._ended: dict[str, list[int]] = {}
        """By endpoint of a server: when it ended connections."""

    def ended(self, connection: Connection) -> None:
        health = connection.health
        if health is None:
            return
        if health.refused or health.unanswered:
            code = CODES["tcp.refused"] if health.refused else CODES["tcp.no-answer"]
            side = client_side(connection)
            to = connection.endpoints[1 - side]
            did = "refused" if health.refused else "did not answer"
            what = f"{to} {did} the connection"
            self.report.add(code, what, to, connection=connection, packet=connection.first, time_ns=connection.first_ns)
            return
        if health.end is not None and health.end.side != client_side(connection) and len(self._ended) < MOST_PROBLEMS:
            self._ended.setdefault(connection.endpoints[health.end.side], []).append(health.end.time_ns)
        if connection.initiator is None and any(side.captured for side in connection.directions):
            self.report.add(
                *(CODES["capture.late-start"], "connections began before the capture"),
                connection=connection,
                packet=connection.first,
                time_ns=connection.first_ns,
            )
        self._reset(connection)
        for side, direction in enumerate(health.directions):
            resent = self._unheard(connection, side, direction)
            self._loss(connection, side, direction, resent)
            self._window(connection, side, direction)

    def finish(self) -> None:
        for (name, endpoint), problem in self.report.problems.items():
            if name not in (CODES["tcp.refused"].code, CODES["tcp.no-answer"].code) or problem.first_ns is None:
                continue
            ends = self._ended.get(endpoint, ())
            last = max((time_ns for time_ns in ends if time_ns < problem.first_ns), default=None)
            at_once = [time_ns for time_ns in ends if last is not None and abs(time_ns - last) <= TOGETHER_NS]
            if at_once:
                problem.weight = len(at_once)
                connections = "the connection" if len(at_once) == 1 else f"{len(at_once):,} connections"
                at = self.report.seconds(min(at_once))
                problem.detail(f"it went down, it seems: it ended {connections} that it had at {at}")

    def _reset(self, connection: Connection) -> None:
        end = connection.health.end if connection.health is not None else None
        if end is None or end.how != "RST":
            return
        by_client = end.side == client_side(connection)
        lost = end.unread or end.unacknowledged
        who, name = "client" if by_client else "server", self.report.names.short(connection)
        left = f", with {end.unread:,} bytes unread" if end.unread else ""
        left += f", {end.unacknowledged:,} bytes unacknowledged" if end.unacknowledged else ""
        self.report.add(
            *(CODES["tcp.reset"], f"the {who} reset {name}{left}", (who, bool(lost))),
            connection=connection,
            packet=end.packet,
            time_ns=end.time_ns,
            severity="note" if by_client and not lost else None,
        )

    def _unheard(self, connection: Connection, side: int, direction: DirectionHealth) -> int:
        """Times in which nothing came back; returns how many retransmissions were told."""
        resent = 0
        for unheard in direction.silences():
            resent += unheard.times
            name, other = self.report.names.short(connection), connection.endpoints[1 - side]
            where = f"the server of {name}" if side != client_side(connection) else name
            length_ns = unheard.until_ns - unheard.since_ns
            what = f"{other} acknowledged nothing for {length_ns / 1e9:.3f} s"
            host = connection.endpoints[side].rpartition(":")[0]
            problem = self.report.add(
                *(CODES["tcp.no-ack"], what, (host, other.rpartition(":")[0])),
                connection=connection,
                packet=unheard.packet,
                time_ns=unheard.since_ns,
                count=unheard.times,
            )
            if length_ns > problem.weight:
                problem.weight, problem.what = length_ns, what
            problem.last_ns = max(problem.last_ns or 0, unheard.until_ns)
            problem.detail(
                f"{where} sent {unheard.length:,} bytes again {unheard.times} times{_size(connection, unheard)}"
            )
        return resent

    def _loss(self, connection: Connection, side: int, direction: DirectionHealth, resent: int) -> None:
        repeated = direction.timeouts + direction.number_of(FAST_RETRANSMISSION) - len(direction.needless) - resent
        if repeated <= 0:
            return
        many = repeated >= LEAST_REPEATED and repeated >= LEAST_SHARE * direction.packets
        endpoint = connection.endpoints[side]
        first_ns, last_ns = direction.repeated_ns
        problem = self.report.add(
            *(CODES["tcp.loss"], "few segments were sent again", endpoint if many else None),
            connection=connection,
            time_ns=first_ns,
            count=repeated,
            severity=None if many else "note",
        )
        problem.last_ns = max(problem.last_ns or 0, last_ns)
        problem.weight = problem.count
        for number, kinds in direction.kinds.items():
            if kinds & RETRANSMISSION and number not in direction.needless and len(problem.packets) < 5:
                problem.packets.append(number)
        if many and self.report.covers(first_ns):
            self._packets[endpoint] += direction.packets
            problem.what = f"{endpoint} sent {problem.count:,} of {self._packets[endpoint]:,} packets again"

    def _window(self, connection: Connection, side: int, direction: DirectionHealth) -> None:
        if not direction.zero_windows:
            return
        long = direction.zero_window_ns >= LEAST_CLOSED_NS
        begin = direction.zero_intervals[0][0] if direction.zero_intervals else connection.first_ns
        name = self.report.names.short(connection)
        who = f"the {'client' if side == client_side(connection) else 'server'} of {name}"
        what = f"{who} closed its window for {direction.zero_window_ns / 1e9:.3f} s"
        problem = self.report.add(
            *(CODES["tcp.zero-window"], what, (connection.number, side)),
            connection=connection,
            time_ns=begin,
            count=direction.zero_windows,
            severity=None if long else "note",
        )
        problem.weight = direction.zero_window_ns
        problem.detail(f"first at {self.report.seconds(begin)}")


def _size(connection: Connection, unheard: Unheard) -> str:
    """What the size of a segment tells that never arrives."""
    health = connection.health
    sizes = [each.mss for each in health.directions if each.mss] if health is not None else []
    if not unheard.alive or not sizes or unheard.length < min(sizes) - OPTIONS:
        return ""
    return ", a segment of full size, while others came through: suspect the MTU of the path"
