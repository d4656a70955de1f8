"""Interface of protocols for ``wiredecode check``: codes of problems, and rules that find them.

A protocol offers :class:`Checks`; ``wiredecode.check`` collects them. A rule sees the frames of its types in order, and
learns of the end of each connection: it notes facts, and remembers what it needs, bounded per connection. When the
capture is over, it makes problems of its memory and of the facts of all rules; the order of rules does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.facts import HOLE, Facts, Place, ShownConnection, party_of
from wiredecode.protocols.shared.pairing import reply_captured

if TYPE_CHECKING:
    from wiredecode.net.types import Connection
    from wiredecode.protocols.shared.codes import Code
    from wiredecode.protocols.shared.flows import FlowReader
    from wiredecode.protocols.shared.gauges import ChangeReader, Gauge

MAX_EVIDENCE = 8
"""Frames, packets, connections and lines of detail that a problem cites."""
RESENT_NS = 1_000_000_000
"""Bytes without an ACK are sent again before that; later where round trips are long."""
FAREWELL_NS, LAST = 1_000_000_000, (1 << 63) - 1
"""A farewell is said within this time of the end, a greeting of the beginning; the last time that there can be."""
MAX_PROBLEMS = 1000
"""Problems that are kept separately; beyond it only the number is known."""
MAX_MEMBERS = 10_000
"""Connections of a problem that are compared with those of others."""
ALIVE_NS = 1_000_000
"""A packet this long after the beginning of a silence, and before its end, shows that the host was alive."""


@dataclass(slots=True, eq=False, repr=False)
class Problem:
    """A problem: one code and one subject, with its number of occurrences."""

    code: Code
    severity: str
    name: str
    """The code, or the more exact one of findings of frames."""
    title: str
    """Its title: what happened, with numbers."""
    count: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    frames: list[int] = field(default_factory=list)
    packets: list[int] = field(default_factory=list)
    connections: dict[int, str] = field(default_factory=dict)
    """Number and description of the connections concerned."""
    details: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Changes of the clients concerned, in the seconds before."""
    weight: int = 0
    """Of problems of one rank the heavier come first."""
    likely: str = ""
    """The cause that the evidence suggests; empty: the usual ones of the code."""
    alike: str = ""
    """Problems of one code that agree here are shown as one if there are several."""
    to_end: bool = False
    """It lasted until the end of the capture."""
    members: set[int] = field(default_factory=set)
    servers: set[str] = field(default_factory=set)
    paths: set[tuple[str, ...]] = field(default_factory=set)
    """Of all connections concerned the numbers, the servers' endpoints, and the pairs of hosts."""
    users: set[tuple[str, str]] = field(default_factory=set)
    """Their clients' hosts, with the protocols that they speak."""
    did_no_harm: bool = False
    """All are back who were there before: it is a note, with what it caused."""
    is_over: bool = False
    """It ended long before the capture: what lasts is listed before it."""
    effects: list[Problem] = field(default_factory=list)
    """Problems that are its consequences."""
    parts: list[Problem] = field(default_factory=list)
    """The problems that were joined to this one."""

    def __repr__(self) -> str:
        return f"<{self.severity}[{self.name}] {self.title}>"

    def detail(self, text: str) -> None:
        if text and len(self.details) < MAX_EVIDENCE and text not in self.details:
            self.details.append(text)


def hosts_of(connection: Connection) -> tuple[str, ...]:
    """The addresses of both sides, in one order for both directions."""
    return tuple(sorted(end.rpartition(":")[0] for end in connection.endpoints))


def was_captured(connection: Connection, side: int) -> bool:
    """Whether packets of a side were captured: one that only acknowledges said nothing."""
    health = connection.health
    return bool(connection.directions[side].captured or (health is not None and health.directions[side].packets))


def whole(connection: Connection) -> bool:
    """Whether all that was said on a connection was captured, in both directions."""
    return not any(each.lossy or not was_captured(connection, each.side) for each in connection.directions)


def farewell_captured(connection: Connection) -> bool:
    """Whether both sides were captured in the last second of a connection: what they said at its end is known."""
    end_ns = connection.first_end.time_ns if connection.first_end else 0
    return all(
        was_captured(connection, each.side) and not each.lost_between(end_ns - FAREWELL_NS, LAST, LAST)
        for each in connection.directions
    )


class FrameRef(NamedTuple):
    """Place of a frame, without its bytes: for rules that report it later."""

    connection: Connection
    side: int
    number: int
    packets: list[int]
    time_ns: int

    def __deepcopy__(self, _: object) -> FrameRef:
        """Itself: nothing changes it."""
        return self


class Moment(NamedTuple):
    """A time, and a packet if one shows the problem, without a frame."""

    connection: Connection | None
    time_ns: int | None
    packet: int | None = None


def begin_of(connection: Connection) -> Moment:
    return Moment(connection, connection.first_ns, connection.first)


def ref_of(frame: Frame) -> FrameRef:
    return FrameRef(frame.connection, frame.side, frame.number, frame.packets[:1], frame.time_ns)


class Judged:
    """Has the problems of captures or of an interface."""

    problems: list[Problem]
    """The worst first."""

    @property
    def errors(self) -> list[Problem]:
        """The problems that are errors."""
        return [each for each in self.problems if each.severity == "error"]

    @property
    def warnings(self) -> list[Problem]:
        """The problems that are warnings."""
        return [each for each in self.problems if each.severity == "warning"]

    @property
    def notes(self) -> list[Problem]:
        """The problems that are notes."""
        return [each for each in self.problems if each.severity == "note"]


class Report:
    """Collects problems; rules add to it."""

    def __init__(self) -> None:
        self.problems: dict[tuple[str, Any], Problem] = {}
        self.omitted = 0
        """Problems beyond :data:`MAX_PROBLEMS`."""
        self.first_ns = self.last_ns = 0
        """Times of the first packet and of the newest frame."""
        self.facts = Facts()
        self.span: tuple[int | None, int | None] = (None, None)
        """Only problems of this time are added."""
        self.leaps_ns: list[tuple[int, int]] = []
        """Times between which the capture's clock was set, ahead or back: no host waited through them."""

    def leapt(self, since_ns: int, until_ns: int) -> bool:
        """Whether the clock was set in that time, whose length is then unknown."""
        return any(since_ns <= high and low <= until_ns for low, high in self.leaps_ns)

    def seconds(self, time_ns: int) -> str:
        """A time as seconds since the first packet."""
        return f"{(time_ns - self.first_ns) / 1e9:.3f} s"

    def add(
        self,
        code: Code,
        title: str,
        key: Any = None,
        *,
        frame: Frame | FrameRef | Moment | Place,
        until_ns: int | None = None,
        count: int = 1,
        severity: str | None = None,
        name: str | None = None,
    ) -> Problem:
        """Report a problem; the same ``code`` and ``key`` are one problem, in the words of the first time.

        ``frame``: the first one, or where the problem is; ``until_ns``: the problem lasted until then. Outside of the
        wanted time, and beyond the limit, the problem that is returned is not kept.
        """
        connection, time_ns = frame.connection, frame.time_ns
        name_and_key = (name or code.code, key)
        wanted = time_ns is None or self.covers(time_ns)
        problem = self.problems.get(name_and_key) if wanted else None
        if problem is None:
            safe_title = without_secrets(title, redact)
            problem = Problem(code, severity or code.severity, name or code.code, safe_title)
            if not wanted:
                return problem
            if len(self.problems) >= MAX_PROBLEMS:
                self.omitted += 1
                return problem
            self.problems[name_and_key] = problem
        problem.count += count
        if not isinstance(frame, Moment):
            self.cite(problem, frame)
        elif frame.packet is not None and len(problem.packets) < MAX_EVIDENCE:
            problem.packets.append(frame.packet)
        if time_ns is not None:
            problem.first_ns = time_ns if problem.first_ns is None else min(problem.first_ns, time_ns)
            problem.last_ns = max(problem.last_ns or 0, time_ns, until_ns or 0)
        if connection is not None:
            self.concerns(problem, connection)
        return problem

    def about(self, code: Code, title: str, key: Any, refs: Sequence[FrameRef | Place], **how: Any) -> Problem:
        """Report what several frames show, as heavy as they are many; ``how`` as in :meth:`add`."""
        how = {"until_ns": refs[-1].time_ns, "count": len(refs), **how}
        problem = self.add(code, title, key, frame=refs[0], **how)
        problem.weight = how["count"]
        self.cite(problem, *refs)
        for connection in {ref.connection.number: ref.connection for ref in refs}.values():
            self.concerns(problem, connection)
        return problem

    def own(self, code: Code, key: Any) -> Problem | None:
        """A problem that was added before: only the rule that adds it asks. Others ask for facts."""
        return self.problems.get((code.code, key))

    def forget(self, before_ns: int) -> None:
        """Drop problems and facts that were last seen before: a live capture has no end."""
        self.facts.forget(before_ns)
        for name_and_key, problem in [*self.problems.items()]:
            if problem.last_ns is not None and problem.last_ns < before_ns and not problem.to_end:
                del self.problems[name_and_key]

    def covers(self, time_ns: int) -> bool:
        """Whether the user asked about that time."""
        start, end = self.span
        return (start is None or time_ns >= start) and (end is None or time_ns <= end)

    def held(self, frame: Frame) -> bool:
        """Whether its answer may have come before: the protocol of a connection that began earlier is known later."""
        if frame.connection.initiator is not None:
            return False
        late_ns = FAREWELL_NS if frame.sender == "server" else 0
        return frame.time_ns < max(self.last_ns, frame.connection.first_ns + late_ns)

    def learn(self, connection: Connection) -> None:
        """A connection is over: the capture lasts at least that long, and may have lost packets of it."""
        health = connection.health
        if health is not None:
            self.last_ns = max(self.last_ns, health.last_ns)
            for direction in connection.directions:
                for _, shown_ns, *_ in direction.losses[:MAX_PROBLEMS]:
                    quiet = health.directions[direction.side].quiet
                    begins = (begin for begin, end in quiet if begin < shown_ns <= end + FAREWELL_NS)
                    begin_ns = min(begins, default=shown_ns) - FAREWELL_NS
                    self.facts.note(HOLE, since_ns=begin_ns, until_ns=shown_ns)

    def lost(self, connection: Connection) -> bool:
        """Whether its last packets were not captured: others have a gap then, or one side got no ACK and did not send
        again (RFC 6298)."""
        health = connection.health
        if health is not None and health.end is None:
            last_ns = health.last_ns
            if any(each.since_ns <= last_ns <= each.until_ns for each in self.facts.of(HOLE)):
                return True
        for each in health.directions if health is not None and health.end is None else ():
            until_ns = self.last_ns - max(RESENT_NS, 3 * each.rtt.largest)
            if each.unacknowledged and each.repeated_ns[1] < each.last_ns <= until_ns:
                return True
        return False

    def all_captured(self, connection: Connection, side: int) -> bool:
        """Whether nothing that a side sent is missing, as far as the capture shows."""
        return was_captured(connection, side) and not (connection.directions[side].lossy or self.lost(connection))

    def answer_captured(self, request: Any) -> bool:
        """Whether the answer to a request, a frame or a reference to one, would have been captured."""
        captured = was_captured(request.connection, 1 - request.side)
        return captured and reply_captured(request) and not self.lost(request.connection)

    def cite(self, problem: Problem, *frames: Frame | FrameRef | Place) -> None:
        """Add frames to the evidence."""
        for frame in frames:
            if len(problem.frames) < MAX_EVIDENCE and frame.number not in problem.frames:
                problem.frames.append(frame.number)
                problem.packets += [packet for packet in frame.packets[:1] if packet not in problem.packets]

    def concerns(self, problem: Problem, connection: Connection | ShownConnection) -> None:
        """Add a connection to the evidence."""
        if connection.number in problem.members:
            return
        party = connection if isinstance(connection, ShownConnection) else party_of(connection)
        if len(problem.connections) < MAX_EVIDENCE:
            problem.connections.setdefault(party.number, party.description)
        if len(problem.members) < MAX_MEMBERS:
            problem.members.add(party.number)
            problem.servers.add(party.server)
            problem.paths.add(party.hosts)
            problem.users |= party.users


@dataclass(eq=False)
class Rule:
    """Finds one kind of problem, or some that are found by the same means."""

    types: ClassVar[frozenset[str]] = frozenset()
    """Message types of its protocol whose frames it gets."""
    plain: ClassVar[bool] = True
    """Whether it gets those too that :attr:`Checks.is_plain` accepts."""
    report: Report

    def frame(self, frame: Frame) -> None:
        """The next frame of :attr:`types`."""

    def ended(self, connection: Connection) -> None:
        """No more packets come of a connection, of any protocol; ``closed`` shows whether it was closed."""

    def gather(self) -> None:
        """The capture is over: note the facts that need the whole capture."""

    def finish(self) -> None:
        """All facts are known: make problems."""


class Publishing(NamedTuple):
    """Fields of publishing frames; fields may be generated, or those of the carried frame."""

    stream: tuple[str, ...]
    """Fields that name the stream or topic: the first one that is there."""
    messages: str | None = None
    """Field that counts the messages, or lists them; None: there is one."""
    refusals: bool = False
    """Whether refusals are reported with confirms; otherwise rules of the protocol report them."""
    confirmed_by: str = ""
    """Generated field of answers to publishes; empty: all have it. Others answer requests of the same type."""
    other_streams: str = ""
    """Beginning of streams that are none: what is published there is a request."""
    compared: str | None = None
    """Beginning of streams whose writers compare and set: a refusal is usual there."""
    part: str = ""
    """Field that names a part of the stream, too."""
    unasked: tuple[str, Any] = ("", None)
    """Field and value of publishes that ask for no answer."""
    traits: tuple[str, ...] = ()
    """Fields in which publishes that are confirmed may differ from those that are not."""
    numbered_by: str = ""
    """Generated field that frames of the type have if they publish; empty: all of them do."""
    repeated: str = ""
    """In refusals of a message that is being stored, as it was published before."""


class Called(NamedTuple):
    """Requests of a type that says too little: what statistics call those whose :attr:`Checks.topic` is such a text."""

    name: str
    begin: str
    within: str
    answer: str = ""
    """Generated field that its answer must have."""

    def fits(self, topic: str) -> bool:
        return topic.startswith(self.begin) and self.within in topic


@dataclass(frozen=True)
class Checks:
    """Checks of one protocol."""

    codes: Iterable[Code] = ()
    rules: tuple[type[Rule], ...] = ()
    answered: frozenset[str] = frozenset()
    """Message types for which a rule of the protocol reports missing answers."""
    waits: frozenset[str] = frozenset()
    """Message types that wait for data: that their answer is late, or does not come, is nothing unusual ..."""
    longest_wait: str = ""
    """... within the time in this field of the request, ms; empty: it is not known."""
    pushes: frozenset[str] = frozenset()
    """Message types that show a consumer's connection even where its requests were not captured, besides ``waits``."""
    called: tuple[Called, ...] = ()
    """``waits`` may name them, too."""
    pulled: bool = False
    """Clients ask for messages: a response that they did not read is no loss."""
    topic: str = ""
    """Field of requests by which statistics separate them; empty: there is none."""
    covered: frozenset[str] = frozenset()
    """Codes of findings of frames that rules report better."""
    changes: Mapping[str, ChangeReader] = field(default_factory=dict)
    """By message type: what its frames change, for the timeline."""
    publishes: Mapping[str, Publishing] = field(default_factory=dict)
    """Message types that publish, and are confirmed."""
    holds: str = "its disk is slow, or its replicas do not answer"
    """Why its server may confirm nothing though it lives."""
    passes_on: tuple[str, ...] = ()
    """Fields that are equal in a message to a server and in its delivery, of servers that pass messages on."""
    expected: frozenset[str] = frozenset()
    """Words in refusals that a healthy client may get each time: what it wants to make exists, or nothing is there."""
    tried: frozenset[str] = frozenset()
    """Answers to newer questions: tools that are refused then ask older ones."""
    refuses: Callable[[Frame], str | None] = lambda frame: None
    """Stream of a publish that a frame refuses, though the publish asked for no answer."""
    is_plain: Callable[[Frame], bool] | None = None
    """Whether a frame has only a topic and contents, as most have: few rules look at it. None: no frame."""
    alone: Callable[[Frame], bool] = lambda frame: False
    """Whether a server's first frame says that it waits for no other server."""
    space: str = "namespace"
    """Word for what separates topics of one name, for people."""
    shares: str = ""
    """Another protocol of the same servers: topics of one name and space are the same."""
    flows: tuple[type[FlowReader], ...] = ()
    """Readers of the way of messages, from publishers to consumers."""
    gauges: tuple[type[Gauge], ...] = ()
    """Readers of credits, lags and the like from its frames, for plots."""

    def calls(self, topic: str) -> list[Called]:
        """Those of :attr:`called` that a request can be, as far as its answer shows it."""
        return [each for each in self.called if each.fits(topic)]

    def polls(self, frame: Frame) -> bool:
        """Whether a request waits for data: it is one of :attr:`waits`."""
        topic = frame.values.get(self.topic) if self.called else None
        calls = self.calls(topic) if isinstance(topic, str) else ()
        return next((each.name for each in calls if not each.answer), frame.type) in self.waits


def stopped_or_cut(connection: Connection, side: int, since_ns: int, until_ns: int) -> str | None:
    """Why ``side`` sent no frame in that time though it was asked; empty: not known. None: it did send, in vain."""
    health = connection.health
    if health is None or not was_captured(connection, side):
        return ""
    here, peer = health.directions[side], health.directions[1 - side]
    if any(each.overlaps(since_ns, until_ns) for each in here.outages):
        return None
    if any(each.times > 1 and each.overlaps(since_ns, until_ns) for each in peer.outages):
        return "its host did not acknowledge what was sent to it either: see tcp.no-ack"
    if here.kept_sending(since_ns, until_ns):
        return "it sent other data all the time: its answer follows that"
    if here.heard(since_ns + ALIVE_NS, until_ns - ALIVE_NS):
        return "its host acknowledged meanwhile: its process or a proxy was stopped or busy, not the network"
    return ""


def inner_values(frame: Frame) -> Mapping[str, Any]:
    """The values of the first layer that a frame carries; of bulk arrays only the length."""
    return frame.inner[0].read() if frame.inner else {}
