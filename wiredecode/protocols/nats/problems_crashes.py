"""Subscribers that end again and again right after a delivery."""

from __future__ import annotations

from dataclasses import dataclass, field

from wiredecode.frames.frame import Frame
from wiredecode.frames.who import client_side
from wiredecode.net.types import Connection
from wiredecode.protocols.nats.conversation_jetstream import ACK
from wiredecode.protocols.nats.problems_jetstream import MOST_KNOWN, PUBLISHED
from wiredecode.protocols.nats.problems_requests import INBOX
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of

CODES = codes_of("nats")
SOON_NS = 1_000_000_000
"""A crash ends the connection at most this long after the delivery."""
MANY, MANY_UNCERTAIN = 3, 4
"""Ends of one client that are worth reporting; the second if messages differ and have no ack of JetStream."""
MOST_DELIVERIES = 100
"""A connection that got more did not crash on its first messages."""


@dataclass(slots=True)
class LastDelivery:
    """The newest message that a connection got."""

    place: FrameRef
    contents: int
    """Hash of subject and payload."""
    reply: str
    acknowledged: bool = False
    count: int = 1
    """Number of messages."""


@dataclass(eq=False)
class Crashes(Rule):
    """Clients of one name that end soon after a delivery and connect again."""

    types = frozenset({"MSG", "HMSG", "UNSUB", *PUBLISHED})
    _last: dict[int, LastDelivery | None] = field(default_factory=dict)
    """By connection; None: it unsubscribed, or does not end on its first messages."""
    _ends: dict[tuple[str, str, str], list[tuple[Connection, LastDelivery]]] = field(default_factory=dict)
    """By name and host of the client, and server."""

    def frame(self, frame: Frame) -> None:
        number, subject = frame.connection.number, frame.values.get("subject", "")
        last = self._last.get(number)
        if frame.type == "UNSUB":
            self._last[number] = None
        elif frame.type in PUBLISHED:
            if last is not None and subject == last.reply:
                last.acknowledged = True
        elif (last is not None or number not in self._last) and not subject.startswith(INBOX):
            count = 1 if last is None else last.count + 1
            if count > MOST_DELIVERIES or frame.sender != "server":
                self._last[number] = None
                return
            contents = hash((subject, bytes(frame.values.get("data", b""))))
            self._last[number] = LastDelivery(ref_of(frame), contents, frame.values.get("reply", ""), count=count)

    def ended(self, connection: Connection) -> None:
        last, health, client = self._last.pop(connection.number, None), connection.health, client_side(connection)
        end, name = None if health is None else health.end, connection.who.get("name")
        if last is None or end is None or not name or last.acknowledged:
            return
        if end.side == client and 0 <= end.time_ns - last.place.time_ns <= SOON_NS and len(self._ends) < MOST_KNOWN:
            host, server = connection.endpoints[client].rpartition(":")[0], connection.endpoints[1 - client]
            ends = self._ends.setdefault((name, host, server), [])
            previous = ends[-1][0].health if ends else None
            after = previous is None or previous.end is None or previous.end.time_ns <= connection.first_ns
            if after and len(ends) < MOST_KNOWN:
                ends.append((connection, last))

    def finish(self) -> None:
        for (name, _, _), ends in self._ends.items():
            deliveries = [last for _, last in ends]
            unacknowledged = all(each.reply.startswith(ACK) for each in deliveries)
            same = len({each.contents for each in deliveries}) == 1
            if len(ends) < (MANY if unacknowledged or same else MANY_UNCERTAIN):
                continue
            message = (
                "the same message" if same else "a message without acknowledging it" * unacknowledged or "a message"
            )
            self._report(f"{name} ended {len(ends):,} times right after it got {message}", ends, unacknowledged or same)

    def _report(self, what: str, ends: list[tuple[Connection, LastDelivery]], certain: bool) -> None:
        first = ends[0][1].place
        problem = self.report.add(
            *(CODES["crash-loop"], what, first.connection.number), frame=first, severity=None if certain else "warning"
        )
        problem.count = problem.weight = len(ends)
        problem.last_ns = ends[-1][1].place.time_ns
        waited = [end.time_ns - last.place.time_ns for one, last in ends if one.health and (end := one.health.end)]
        problem.detail(f"it ended at most {max(waited) / 1e6:.3f} ms after the delivery, and never unsubscribed")
        for connection, last in ends:
            self.report.cite(problem, last.place)
            self.report.concerns(problem, connection)
