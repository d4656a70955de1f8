"""What goes wrong between NATS clients and servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.nats import names
from wiredecode.protocols.shared.checking import CAUSE, DEED, Checks, Code, Report, Rule

SLOW_CONSUMER = Code(
    "nats.slow-consumer",
    "error",
    "a slow consumer was cut off",
    "The client did not read what the server sent: its window closed, the server's buffer for it filled up, and the "
    "server ended the connection. Messages to it are lost (at most once), or are sent again by JetStream.",
    (
        "the callback of a subscription does slow work, or blocks",
        "a subscription gets more than one process can take",
        "the process was stopped, or its machine is overloaded",
    ),
    "Do slow work outside the callback; share the load by a queue group; subscribe to less; raise the pending limits "
    "only for bursts.",
    "stories/slow-consumer.pcap",
    CAUSE,
)
STALE = Code(
    "nats.stale",
    "error",
    "a connection was closed as stale",
    "The server sent PINGs that the client did not answer.",
    ("the process is stopped or blocked", "the network path is gone", "a client library without PONG"),
    "Look at what the client did at that time; a client that reads its socket answers PING by itself.",
    "stories/slow-consumer.pcap",
    CAUSE,
)
AUTHENTICATION = Code(
    "nats.authentication",
    "error",
    "a client was not let in",
    "The server refused the credentials of CONNECT.",
    ("wrong user, password, token or key", "credentials that expired or were revoked", "CONNECT came too late"),
    "Check the credentials of the client against the server's configuration.",
    "nats/02-auth.pcap",
    CAUSE,
)
PERMISSIONS = Code(
    "nats.permissions",
    "warning",
    "a client may not use a subject",
    "The server refused a publish or a subscription; the connection goes on, the message is dropped.",
    ("the permissions of the user lack the subject", "a typing error in the subject"),
    "Add the subject to the permissions of the user, or correct the client.",
    "stories/slow-consumer.pcap",
    DEED,
)
SERVER_ERROR = Code(
    "nats.server-error",
    "error",
    "the server reported an error",
    "The server sent -ERR.",
    ("a limit was exceeded", "something that is not the protocol was sent"),
    "Read the text; the client's frames just before show what it is about.",
    "",
    DEED,
)
KINDS = (
    (("authorization violation", "authentication", "user authentication", "account authentication"), AUTHENTICATION),
    (("permissions violation",), PERMISSIONS),
    (("stale connection",), STALE),
    (("slow consumer",), SLOW_CONSUMER),
)
"""What -ERR may say, in lower case."""
MOST_SUBSCRIPTIONS = 1024
"""Per connection."""
LEAST_CLOSED_NS = 200_000_000
"""A window closed so long makes a slow consumer, where the server ends the connection."""


def kind_of(text: str) -> Code:
    """The code of an -ERR."""
    lower = text.lower()
    return next((code for beginnings, code in KINDS if lower.startswith(beginnings)), SERVER_ERROR)


@dataclass(slots=True)
class Reader:
    """A client as a consumer."""

    subjects: dict[str, str] = field(default_factory=dict)
    """By sid."""
    delivered: dict[str, int] = field(default_factory=dict)
    """Messages by sid."""
    last: tuple[int, int | None] = (0, None)
    """Frame and packet of the last message."""
    pings: list[tuple[int, int | None]] = field(default_factory=list)
    """PINGs of the server since the client's last PONG."""
    errors: set[str] = field(default_factory=set)


class Clients(Rule):
    """Slow and silent clients, and what servers report of them."""

    types = frozenset({"SUB", "MSG", "HMSG", "PING", "PONG", "-ERR", "CONNECT"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._readers: dict[int, Reader] = {}

    def frame(self, frame: Frame) -> None:
        reader = self._readers.get(frame.connection.number)
        if reader is None:
            reader = self._readers[frame.connection.number] = Reader()
        take_message(reader, frame)
        kind = frame.type
        if kind == "SUB" and len(reader.subjects) < MOST_SUBSCRIPTIONS and "sid" in frame.values:
            reader.subjects[frame.values["sid"]] = printable(frame.values.get("subject", ""))
        elif kind == "PING" and frame.sender == "server":
            reader.pings = [*reader.pings[-7:], place(frame)]
        elif kind == "PONG" and frame.sender == "client":
            reader.pings.clear()
        elif kind == "-ERR":
            self._error(frame, reader)

    def _error(self, frame: Frame, reader: Reader) -> None:
        text = printable(frame.values.get("error", ""))
        code = kind_of(text)
        reader.errors.add(code.code)
        who = self.report.names.short(frame.connection)
        user = self.report.names.get(frame.connection).get("user")
        key: Any = frame.connection.number
        if code is SLOW_CONSUMER:
            self._slow(frame.connection, reader, "the server says Slow Consumer", frame=frame)
            return
        severity = None
        if code is STALE:
            what = f"{who} did not answer {len(reader.pings)} PINGs: the server closed it as stale"
        elif code is AUTHENTICATION:
            what, key = f"user {user or '(none)'} was refused: {text}", (user, text)
        elif code is PERMISSIONS:
            what = f"{who}, user {user or '(none)'}: {text}"
            key = frame.connection.number, text
        else:
            what, key = f"the server says to {who}: {text}", text
            harmless = text.lower().startswith(tuple(each.lower() for each in names.HARMLESS_ERRORS))
            severity = "warning" if harmless else None
        problem = self.report.add(code, what, key, frame=frame, severity=severity)
        if problem is not None and code is STALE:
            for number, packet in reader.pings:
                self.report.cite_numbers(problem, number, packet)

    def ended(self, connection: Connection) -> None:
        reader, health = self._readers.pop(connection.number, None), connection.health
        if reader is None or health is None or health.end is None or connection.initiator is None or reader.errors:
            return
        client = health.directions[connection.initiator]
        if health.end.side != connection.initiator and client.zero_window_ns >= LEAST_CLOSED_NS:
            how = f"the server cut it off by {health.end.how} at {self.report.seconds(health.end.time_ns)}"
            self._slow(connection, reader, how, packet=health.end.packet, time_ns=health.end.time_ns)

    def _slow(self, connection: Connection, reader: Reader, how: str, **where: Any) -> None:
        who, health = self.report.names.short(connection), connection.health
        client = None if health is None or connection.initiator is None else health.directions[connection.initiator]
        sid = max(reader.delivered, key=reader.delivered.__getitem__, default=None)
        on = f" on subscription {sid} {reader.subjects.get(sid, '(before the capture)')}" if sid is not None else ""
        where.setdefault("connection", connection)
        problem = self.report.add(SLOW_CONSUMER, f"{who} is a slow consumer{on}: {how}", connection.number, **where)
        if problem is None:
            return
        self.report.cite_numbers(problem, *reader.last)
        problem.weight = sum(reader.delivered.values())
        if client is not None and client.zero_windows:
            begin = client.zero_intervals[0][0]
            closed = f"{client.zero_window_ns / 1e9:.3f} s, from {self.report.seconds(begin)} on"
            problem.detail(f"before, its window was closed for {closed}")
        for each, count in sorted(reader.delivered.items(), key=lambda item: -item[1])[:4]:
            problem.detail(f"{count:,} messages sent to sid {each}, {reader.subjects.get(each, 'subject not seen')}")


def take_message(reader: Reader, frame: Frame) -> None:
    if frame.type in ("MSG", "HMSG"):
        sid = frame.values.get("sid", "")
        if sid in reader.delivered or len(reader.delivered) < MOST_SUBSCRIPTIONS:
            reader.delivered[sid] = reader.delivered.get(sid, 0) + 1
        reader.last = place(frame)


def place(frame: Frame) -> tuple[int, int | None]:
    return frame.number, frame.packets[0] if frame.packets else None


CHECKS = Checks(
    codes=(SLOW_CONSUMER, STALE, AUTHENTICATION, PERMISSIONS, SERVER_ERROR),
    rules=(Clients,),
    told=frozenset({"server-error"}),
)
