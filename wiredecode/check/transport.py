"""What TCP tells of a connection when it is over."""

from __future__ import annotations

from wiredecode.check import codes
from wiredecode.frames.who import client_side
from wiredecode.net.health import FAST_RETRANSMISSION, RETRANSMISSION, DirectionHealth
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.checking import Rule

LEAST_REPEATED, LEAST_SHARE = 3, 0.01
"""So many retransmissions, and so large a share of the packets, are worth a warning."""
LEAST_CLOSED_NS = 200_000_000
"""So long a closed window is worth a warning."""


class Health(Rule):
    """What TCP tells of a connection when it is over."""

    def ended(self, connection: Connection) -> None:
        health = connection.health
        if health is None:
            return
        if health.refused or health.unanswered:
            code = codes.REFUSED_CONNECTION if health.refused else codes.NO_ANSWER_TO_SYN
            side = client_side(connection)
            to = connection.endpoints[1 - side]
            did = "refused" if health.refused else "did not answer"
            what = f"{to} {did} the connection"
            self.report.add(code, what, to, connection=connection, packet=connection.first, time_ns=connection.first_ns)
            return
        if connection.initiator is None and any(side.captured for side in connection.directions):
            what = "connections began before the capture"
            self.report.add(
                codes.LATE_START, what, connection=connection, packet=connection.first, time_ns=connection.first_ns
            )
        self._reset(connection)
        for side, direction in enumerate(health.directions):
            self._loss(connection, side, direction)
            self._window(connection, side, direction)

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
            *(codes.RESET, f"the {who} reset {name}{left}", (who, bool(lost))),
            connection=connection,
            packet=end.packet,
            time_ns=end.time_ns,
            severity="note" if by_client and not lost else None,
        )

    def _loss(self, connection: Connection, side: int, direction: DirectionHealth) -> None:
        repeated = direction.timeouts + direction.number_of(FAST_RETRANSMISSION) - len(direction.needless)
        if not repeated:
            return
        many = repeated >= LEAST_REPEATED and repeated >= LEAST_SHARE * direction.packets
        endpoint = connection.endpoints[side]
        what = f"{endpoint} sent {repeated:,} of {direction.packets:,} packets again"
        problem = self.report.add(
            *(codes.LOSS, what if many else "few segments were sent again", endpoint if many else None),
            connection=connection,
            time_ns=connection.first_ns,
            count=repeated,
            severity=None if many else "note",
        )
        if problem is not None:
            problem.weight = repeated
            for number, kinds in direction.kinds.items():
                if kinds & RETRANSMISSION and number not in direction.needless and len(problem.packets) < 5:
                    problem.packets.append(number)

    def _window(self, connection: Connection, side: int, direction: DirectionHealth) -> None:
        if not direction.zero_windows:
            return
        long = direction.zero_window_ns >= LEAST_CLOSED_NS
        begin = direction.zero_intervals[0][0] if direction.zero_intervals else connection.first_ns
        name = self.report.names.short(connection)
        who = f"the {'client' if side == client_side(connection) else 'server'} of {name}"
        what = f"{who} closed its window for {direction.zero_window_ns / 1e9:.3f} s"
        problem = self.report.add(
            *(codes.ZERO_WINDOW, what, (connection.number, side)),
            connection=connection,
            time_ns=begin,
            count=direction.zero_windows,
            severity=None if long else "note",
        )
        if problem is not None:
            problem.weight = direction.zero_window_ns
            problem.detail(f"first at {self.report.seconds(begin)}")
