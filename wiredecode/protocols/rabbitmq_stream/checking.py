"""What goes wrong between RabbitMQ Stream clients and brokers."""

from __future__ import annotations

from typing import NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.health import ACK_LOST
from wiredecode.net.types import Connection
from wiredecode.protocols.rabbitmq_stream import checking_consumers as consumers
from wiredecode.protocols.rabbitmq_stream import checking_publishers as publishers
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.rabbitmq_stream.advertised import UNREACHABLE, AdvertisedHost
from wiredecode.protocols.rabbitmq_stream.changes import CHANGES
from wiredecode.protocols.rabbitmq_stream.checking_credit import EARLY, ONE, STARVED, STOPPED, Credits
from wiredecode.protocols.rabbitmq_stream.gauges import GAUGES
from wiredecode.protocols.shared.checking import (
    CAUSE,
    DEED,
    MOST_EVIDENCE,
    Checks,
    Code,
    Place,
    Publishing,
    Report,
    Rule,
    place_of,
    stopped_or_cut,
    values_of,
)

GUEST = Code(
    "rabbitmq_stream.guest-not-local",
    "error",
    "guest may only log in over loopback",
    "The broker lets the user guest in from its own machine only (loopback_users), and this client came from another "
    "address: its password may be right all the same.",
    ("the client uses the default user", "the broker is in a container, or on another host than the client"),
    "Create a user for the client, with permissions on its virtual host; do not open guest to the network.",
    "stories/guest-not-local.pcap",
    CAUSE,
)
AUTHENTICATION = Code(
    "rabbitmq_stream.authentication",
    "error",
    "a client was not let in",
    "The broker refused the user, the mechanism or the virtual host.",
    ("wrong password", "unknown user or virtual host", "no permission", "user guest from another host"),
    "Check user, password and permissions of the virtual host; guest may only connect over loopback.",
    "rabbitmq-stream/c43_authfail.pcap",
    CAUSE,
)
NOT_STARTED = Code(
    "rabbitmq_stream.not-started",
    "warning",
    "a publisher or a consumer could not begin, or had no permission",
    "The broker refused to declare a publisher or to subscribe, or told that the user may not do what was asked.",
    (
        "the stream does not exist (yet), or this broker has no leader or replica of it",
        "the user has no permission on the stream: to write, to read, or to configure",
    ),
    "Read the reason; create the stream, ask Metadata for its leader, or give the user the permission it lacks.",
    "rabbitmq-stream/c43_errors.pcap",
    DEED,
)
NO_STREAM = Code(
    "rabbitmq_stream.no-stream",
    "warning",
    "a stream that does not exist, or not any more",
    "Metadata told a client that the stream it asked for does not exist, and it did not appear afterwards: clients "
    "look for the leader of a stream before they publish or consume, and fail here. Or a stream was deleted that "
    "others published to or consumed: a note, until somebody asks for it again.",
    (
        "the name is spelled wrong, or the virtual host is another one",
        "nobody created the stream, or it was deleted",
        "a client only wanted to know whether it exists",
    ),
    "Create the stream, or correct its name or the virtual host in the client.",
    "stories/no-such-stream.pcap",
    DEED,
)
SERVER_CLOSED = Code(
    "rabbitmq_stream.closed-by-server",
    "warning",
    "the broker closed a connection",
    "The broker sent Close and said why.",
    ("a frame that the broker does not understand", "missed heartbeats", "an operator closed the connection"),
    "Read the reason; the frames of the client just before show what it is about.",
    "rabbitmq-stream/c43_unknown_frame.pcap",
    DEED,
)
NO_CLOSE = Code(
    "rabbitmq_stream.no-close",
    "note",
    "a connection ended without Close",
    "TCP ended the connection, but neither side said Close before.",
    ("the program ended or crashed", "the client does not bother to say Close", "a proxy cut the connection"),
    "From a client that was to go on, look at its log at that time; from a broker, look for a crash.",
    "rabbitmq-stream/c310_basic.pcap",
)
HEARTBEAT = Code(
    "rabbitmq_stream.heartbeat",
    "warning",
    "one side was silent for longer than two heartbeats",
    "Both sides agreed on a heartbeat. This side sent nothing for more than twice as long: the other may take it "
    "for dead.",
    ("the process was stopped or too busy", "the network was interrupted"),
    "Look at what the silent process did at that time; raise the heartbeat only when it has a reason to be busy.",
    "stories/heartbeat-missed.pcap",
    DEED,
)


BEGINNINGS = frozenset({"DeclarePublisherResponse", "SubscribeResponse"})
MOST_MISSING = 1000
RESPONSES = frozenset(names.KEYS[key] for key in names.RESPONSES)


class Admission(Rule):
    """Who was not let in, and connections that ended with or without a word; ``tcp.reset`` tells of a RST."""

    types = frozenset({"SaslAuthenticate", "Open", "Close", *RESPONSES})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._said: dict[int, set[str]] = {}
        """By connection: what explains its end."""

    def frame(self, frame: Frame) -> None:
        said = self._said.setdefault(frame.connection.number, {"seen"})
        kind, code = frame.type, frame.values.get("response_code", names.OK)
        if kind == "Close":
            said.add("close")
            if frame.sender == "server":
                reason = printable(frame.values.get("closing_reason", ""))
                what = f"the broker closed {self.report.names.short(frame.connection)}: {reason}"
                self.report.add(SERVER_CLOSED, what, reason, frame=frame)
        elif kind in ("SaslAuthenticateResponse", "OpenResponse") and code not in (names.OK, names.SASL_CHALLENGE):
            said.add("refused")
            known = self.report.names.get(frame.connection)
            name = names.RESPONSE_CODES.get(code, f"code {code}")
            told = GUEST if code == names.SASL_LOOPBACK else AUTHENTICATION
            whom = f"user {known['user']}" if "user" in known else self.report.names.short(frame.connection)
            where = f" on virtual host {known.get('virtual_host', '')}" if kind == "OpenResponse" else ""
            problem = self.report.add(told, f"{whom} was refused{where}: {name}", (whom, where, code), frame=frame)
            if problem is not None and told is GUEST:
                problem.detail(f"it came from {frame.destination}, which is no loopback address of the broker")

        elif code == names.ACCESS_REFUSED or (kind in BEGINNINGS and code != names.OK):
            name, asked = names.RESPONSE_CODES.get(code, f"code {code}"), (kind or "").removesuffix("Response")
            user = self.report.names.get(frame.connection).get("user", "unknown")
            to = f" to {frame.generated['stream']}" if "stream" in frame.generated else ""
            what = f"{asked}{to} of {self.report.names.short(frame.connection)}, user {user}, was refused: {name}"
            self.report.add(NOT_STARTED, what, (frame.connection.number, asked, to, code), frame=frame)

    def ended(self, connection: Connection) -> None:
        said = self._said.pop(connection.number, set())
        health = connection.health
        if not said or said & {"close", "refused"} or health is None or health.end is None or health.end.how == "RST":
            return
        by_client = connection.initiator is None or health.end.side == connection.initiator
        who = "client" if by_client else "broker"
        end = health.end
        answers = health.directions[end.side].kinds.get(end.packet, 0) & ACK_LOST  # a FIN that comes later in the file
        severity = "note" if by_client or answers else "warning"
        what = f"the {who} ended {self.report.names.short(connection)} without Close"
        self.report.add(
            NO_CLOSE, what, who, connection=connection, packet=end.packet, time_ns=end.time_ns, severity=severity
        )


class MissingStreams(Rule):
    """Streams that were asked for, did not exist and did not appear later; and those that others still used when they
    were deleted."""

    types = frozenset({"Create", "Delete", "DeclarePublisher", "Subscribe", "MetadataResponse", "MetadataUpdate"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._missing: dict[tuple[str, str], Place] = {}
        """By name and virtual host."""
        self._deleted: dict[tuple[str, str], Place] = {}
        self._used: dict[tuple[str, str], list[Place]] = {}
        """Deleted ones: who used them."""

    def frame(self, frame: Frame) -> None:
        where = self.report.names.get(frame.connection).get("virtual_host", "")
        if frame.type == "MetadataResponse":
            self._described(frame, where)
            return
        key = frame.values.get("stream", ""), where
        if frame.type == "MetadataUpdate":
            deleted = self._deleted.get(key)
            if deleted is not None and deleted.connection is not frame.connection:
                users = self._used.setdefault(key, [])
                if len(users) < MOST_EVIDENCE:
                    users.append(place_of(frame))
            return
        self._missing.pop(key, None)
        if frame.type == "Delete" and len(self._deleted) < MOST_MISSING:
            self._deleted[key] = place_of(frame)
        elif frame.type == "Create":
            self._used.pop(key, None)

    def _described(self, frame: Frame, where: str) -> None:
        """What Metadata tells of streams."""
        for each in values_of(frame).get("streams") or ():
            key = each.get("stream", ""), where
            if each.get("response_code") != names.UNKNOWN_STREAM:
                self._missing.pop(key, None)
            elif self._in_vain(frame, key) and len(self._missing) < MOST_MISSING:
                self._missing.setdefault(key, place_of(frame))

    def _in_vain(self, frame: Frame, key: tuple[str, str]) -> bool:
        """Whether who asks for a stream may not know that it is gone: who deleted it looks whether it is."""
        deleted = self._deleted.get(key)
        return deleted is None or (key in self._used and deleted.connection is not frame.connection)

    def finish(self) -> None:
        for key, place in self._missing.items():
            stream, where = key
            if key in self._used:
                continue
            host = f" on virtual host {where}" if where else ""
            what = f"{self.report.names.short(place.connection)} asked for stream {stream}{host}: it does not exist"
            self.report.add(NO_STREAM, what, key, frame=place)
        for key, users in self._used.items():
            deleted, short = self._deleted[key], self.report.names.short
            told = ", ".join(dict.fromkeys(short(each.connection) for each in users))
            what = f"{short(deleted.connection)} deleted stream {key[0]}, which others still used: {told}"
            after = self._missing.get(key)
            severity = "note" if after is None else None
            problem = self.report.add(NO_STREAM, what, key, frame=deleted, severity=severity)
            for place in (*users, *([after] if after is not None else ())):
                if problem is not None:
                    self.report.cite(problem, place)
                    self.report.concerns(problem, place.connection)
            if problem is not None and after is not None:
                problem.detail(
                    f"{short(after.connection)} asked for it at {self.report.seconds(after.time_ns)}, in vain"
                )


class Silence(NamedTuple):
    """A side that said nothing for too long."""

    length_ns: int
    since_ns: int
    number: int
    """Its last frame before."""
    asked: bool
    """The other side sent something meanwhile."""


class Heartbeats(Rule):
    """Sides that were silent although heartbeats were agreed."""

    types = frozenset(names.KEYS.values())

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._agreed: dict[int, int] = {}
        self._last: dict[int, list[tuple[int, int]]] = {}
        """By connection and side: time and number of the last frame."""
        self._longest: dict[tuple[int, int], Silence] = {}

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        if "negotiated_heartbeat" in frame.generated:
            agreed = frame.generated["negotiated_heartbeat"]
            self._agreed[number] = agreed * 1_000_000_000
            self._last[number] = [(frame.time_ns, frame.number)] * 2
        agreed = self._agreed.get(number, 0)
        if agreed:
            self._heard(frame.connection, frame.side, frame.time_ns, agreed)
            self._last[number][frame.side] = frame.time_ns, frame.number

    def _heard(self, connection: Connection, side: int, until_ns: int, agreed: int) -> None:
        last = self._last[connection.number]
        (since, number), key = last[side], (connection.number, side)
        if until_ns - since > max(2 * agreed, self._longest[key].length_ns if key in self._longest else 0):
            self._longest[key] = Silence(until_ns - since, since, number, last[1 - side][0] > since)

    def ended(self, connection: Connection) -> None:
        agreed, health = self._agreed.pop(connection.number, 0), connection.health
        for side in (0, 1):
            if agreed and health is not None:
                until_ns = health.last_ns if health.end is None else health.end.time_ns
                self._heard(connection, side, until_ns, agreed)
            silence = self._longest.pop((connection.number, side), None)
            if silence is not None and not connection.directions[side].missing:
                self._silent(connection, side, silence, agreed)
        self._last.pop(connection.number, None)

    def _silent(self, connection: Connection, side: int, silence: Silence, agreed: int) -> None:
        name, seconds = self.report.names.short(connection), f"{silence.length_ns / 1e9:.1f} s"
        client = side == (connection.initiator or 0)
        who = f"the client of {name}" if client else f"the broker {connection.endpoints[side]}"
        what = f"{who} was silent for {seconds}, with a heartbeat of {agreed // 10**9} s"
        key = (connection.number, side) if client else connection.endpoints[side]
        problem = self.report.add(HEARTBEAT, what, key, connection=connection, time_ns=silence.since_ns)
        if problem is None:
            return
        self.report.cite_numbers(problem, silence.number, None)
        if not client:
            problem.detail(f"to {name}: {seconds}, from {self.report.seconds(silence.since_ns)} on")
        if silence.asked:
            until_ns = silence.since_ns + silence.length_ns
            problem.detail(stopped_or_cut(connection, side, silence.since_ns, until_ns))


CHECKS = Checks(
    changes=CHANGES,
    gauges=GAUGES,
    codes=(
        *(UNREACHABLE, GUEST, STARVED, STOPPED, EARLY, ONE, publishers.REFUSED, AUTHENTICATION, SERVER_CLOSED),
        *(NO_CLOSE, NO_STREAM, publishers.DUPLICATES, NOT_STARTED, HEARTBEAT, *consumers.CODES),
    ),
    rules=(
        *(AdvertisedHost, Credits, publishers.PublishErrors, Admission, MissingStreams, Heartbeats),
        *(publishers.DuplicateIds, *consumers.RULES),
    ),
    covered=frozenset({"closed", "publish-error"}),
    publishes={"Publish": Publishing(("stream",), "messages")},
    sub_batches=frozenset({"Publish"}),
)
