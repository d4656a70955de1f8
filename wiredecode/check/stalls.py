"""Servers that send nothing while clients wait: when, how long, and what other connections show."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from wiredecode.check.codes import CODES
from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side
from wiredecode.net.health import DirectionHealth, was_still
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.registry import by_name, carried_protocols
from wiredecode.protocols.shared import problems
from wiredecode.protocols.shared.facts import DOWN, FIRST, HEARTBEAT, MADE

MIN_NS = 1_000_000_000
"""A server that sends nothing for this long while clients wait is silent."""
HELD_AFTER_NS = 20_000_000
"""Messages that a silent server should pass on are remembered from this time on."""
MIN_END_NS = 2_000_000_000
"""The same if it sends nothing until the end."""
MIN_WAITING, LONG_NS = 3, 3_000_000_000
"""Requests or messages that wait: a single slow one is no stall, except a publish that waits for the second."""
HICCUP_NS = 1_500_000_000
"""A single shorter wait is a note if the server continued to serve others: its replicas or leaders moved."""
MIN_PROMPT = 10
"""A server that sent this often on a connection, per time that it let the client wait, usually answers."""
MIN_RESENT, LOSSY = 3, 0.03
"""Segments that a client sent again, and their share: what it asked may have been lost."""
MAX_HELD, MAX_LOOKED = 64, 256
"""Messages that are remembered, and frames after the silence in which they are looked for."""
MAX_KNOWN = 65_536
"""Connections that are followed."""
MAX_STALLS, MAX_SILENCES = 100, 1000
"""Per server, and per stall."""
ALL_SILENT = 1 << 60
"""Weight, above all times, of a server that is silent on all its connections; twice if not only publishes wait, which
replicas delay."""
EDGE = 10
"""A frame in the first or last tenth of a silence does not show that the server was alive meanwhile."""


@dataclass(slots=True)
class Waiting:
    """Requests and publishes that wait on one connection since the server's last frame there."""

    connection: Connection
    heard_ns: int = 0
    """Time of the server's last frame."""
    since_ns: int = 0
    count: int = 0
    published: int = 0
    """Number of publishes among them."""
    frames: list[int] = field(default_factory=list)
    consumes: bool = False
    """A consumer uses it: what the server sends there is no answer, or waits for messages."""

    @property
    def needed(self) -> int:
        """Requests that show that the server is silent: one, if it never answered anything there."""
        return MIN_WAITING if self.heard_ns else 1

    def silence(self, server: str, until_ns: int, frame: int) -> Silence:
        """The silence that ends at ``until_ns`` with ``frame``."""
        return Silence(
            server,
            self.since_ns,
            until_ns,
            self.connection,
            self.count,
            frame,
            self.frames,
            published=self.published,
            served=bool(self.heard_ns),
        )


class Silence(NamedTuple):
    """A server sent nothing to a client that waited."""

    server: str
    since_ns: int
    until_ns: int
    connection: Connection
    waiting: int
    """Number of requests, publishes or messages that waited."""
    frame: int
    """The frame that ended the silence."""
    frames: list[int]
    """The first frames that waited."""
    published: int = 0
    """Number of publishes that waited."""
    of_messages: bool = False
    """Not requests waited, but messages that the server should pass on."""
    served: bool = True
    """The server answered something on this connection before."""


@dataclass(slots=True)
class ServerState:
    """Facts about one server."""

    heard_ns: int = 0
    alone: bool = False
    """No other server can be what a request waits for: it said so when a connection began."""
    connections: dict[int, Waiting] = field(default_factory=dict)
    held: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """Time and frame of messages that came while the server was silent."""
    late: dict[Any, tuple[int, int]] = field(default_factory=dict)
    """The same of the last long silence, until they are found again ..."""
    waited: int = 0
    """Messages that were held, also those of equal contents."""
    silent_ns: tuple[int, int] = (0, 0)
    looked: int = 0
    """... among this number of frames."""
    behind: list[int] = field(default_factory=list)
    """Times of its frames that came after later ones of other connections."""
    over: deque[tuple[Connection, DirectionHealth]] = field(default_factory=lambda: deque(maxlen=MAX_SILENCES))
    """Its newest connections that are over, with what it sent there."""


@cache
def passed_on(protocol: str) -> tuple[str, ...] | None:
    """Fields that are equal in a message to a server of the protocol and in its delivery, if it passes messages on."""
    carriers = (each.carrier for each in carried_protocols() if each.name == protocol)
    return checks_of(protocol if by_name(protocol) else next(carriers, protocol)).passes_on or None


@cache
def consuming(protocol: str) -> frozenset[str]:
    """Message types of consumers."""
    checks = checks_of(protocol)
    return checks.pushes | checks.waits


class Silences:
    """Follows the frames of all servers; :meth:`frame` returns a silence when it ends."""

    def __init__(self) -> None:
        self.servers: dict[str, ServerState] = {}
        self._of: dict[int, tuple[ServerState, Waiting]] = {}
        self._first_ns = 0

    def frame(self, frame: Frame) -> Silence | None:
        """The next frame."""
        sender, state = frame.sender, self._of.get(frame.connection.number)
        if state is None:
            if sender is None or max(len(self._of), len(self.servers)) >= MAX_KNOWN:
                return None
            name = frame.destination if sender == "client" else frame.source
            server, connection = self.servers.setdefault(name, ServerState()), frame.connection
            self._first_ns = self._first_ns or connection.first_ns
            begun_ns = self._first_ns if connection.initiator is None else 0  # it served before the capture
            server.heard_ns = max(server.heard_ns, begun_ns)
            state = server, server.connections.setdefault(connection.number, Waiting(connection, begun_ns))
            self._of[frame.connection.number] = state
        server, waiting = state
        if not waiting.consumes and frame.type in consuming(frame.protocol):
            waiting.consumes = True
        if sender == "server":
            return self._spoke(server, waiting, frame)
        names = passed_on(frame.protocol)
        silent = server.heard_ns and frame.time_ns - server.heard_ns >= HELD_AFTER_NS
        if silent and names is not None and (server.alone or not frame.expects_response):
            self._hold(server, frame, names)
        if frame.expects_response and (names is None or (waiting.heard_ns and frame.type == "PING")):
            self._ask(waiting, frame)
        return None

    def forget(self, connection: Connection) -> Iterator[Silence]:
        """A connection is over; what still waits there is kept. Return what only TCP shows."""
        state = self._of.get(connection.number)
        if state is None:
            return
        server, waiting = state
        if connection.health is not None:
            answers = connection.health.directions[1 - client_side(connection)]
            server.over.append((connection, answers))
            yield from () if waiting.consumes else silences_by_tcp(connection, answers)
        if waiting.count < waiting.needed:
            del self._of[connection.number], server.connections[connection.number]
            if not server.connections:
                server.heard_ns, server.held, server.late = 0, {}, {}

    def _ask(self, waiting: Waiting, frame: Frame) -> None:
        checks = checks_of(frame.protocol)
        wait_ms = frame.values.get(checks.longest_wait) if checks.polls(frame) else 0
        if frame.time_ns < waiting.heard_ns or wait_ms is None:
            return  # the server spoke since then: late starts show one side first
        if not waiting.count:
            waiting.since_ns, waiting.frames, waiting.published = frame.time_ns + wait_ms * 1_000_000, [], 0
        waiting.count += 1
        waiting.published += frame.type in checks.publishes
        if len(waiting.frames) < problems.MAX_EVIDENCE:
            waiting.frames.append(frame.number)

    @staticmethod
    def _hold(server: ServerState, frame: Frame, names: tuple[str, ...]) -> None:
        key = tuple(frame.values.get(name) for name in names)
        if None not in key and len(server.held) < MAX_HELD:
            server.waited = server.waited + 1 if server.held else 1
            server.held.setdefault(key, (frame.time_ns, frame.number))

    def _spoke(self, server: ServerState, waiting: Waiting, frame: Frame) -> Silence | None:
        now, silence = frame.time_ns, None
        if not waiting.heard_ns:
            server.alone |= checks_of(frame.protocol).alone(frame)
        if server.held:
            if now - server.heard_ns >= MIN_NS:
                server.late, server.silent_ns, server.looked = server.held, (server.heard_ns, now), 0
            server.held = {}
        if server.late:
            silence = self._find_delivery(server, frame)
        if waiting.count:
            long = now - waiting.since_ns >= (MIN_NS if waiting.heard_ns else MIN_END_NS)
            if silence is None and long and not any(each.code == "hole" for each in frame.findings):
                silence = waiting.silence(frame.source, now, frame.number)
            waiting.count = 0
        waiting.heard_ns = now
        if now >= server.heard_ns:
            server.heard_ns = now
        elif len(server.behind) < MAX_LOOKED:  # a gap held it back
            server.behind.append(now)
        return silence

    def _find_delivery(self, server: ServerState, frame: Frame) -> Silence | None:
        """Whether the server passes on what it was sent while it was silent."""
        key = tuple(frame.values.get(name) for name in passed_on(frame.protocol) or ())
        server.looked += 1
        sent = server.late.get(key)
        late = server.late
        if sent is not None or server.looked > MAX_LOOKED:
            server.late = {}
        if sent is None or frame.time_ns - sent[0] < MIN_NS // 2:
            return None
        since_ns, until_ns = server.silent_ns
        numbers = [number for _, number in late.values()][: problems.MAX_EVIDENCE]
        where = frame.source, since_ns, until_ns, frame.connection
        return Silence(*where, server.waited, frame.number, numbers, of_messages=True)


@dataclass(slots=True)
class Stall:
    """Silences of one server at one time."""

    since_ns: int
    until_ns: int
    behind: list[int]
    """See :class:`ServerState`."""
    silences: list[Silence] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    """Connections on which the server continued."""
    silent: set[int] = field(default_factory=set)
    to_end: bool = False
    """The server sent nothing until the end."""

    def compare(self, others: Iterable[tuple[Connection, DirectionHealth]]) -> None:
        """Learn whether the server continued on other connections. If ``to_end``, any later sign of life counts; else
        it did not where it was asked, and sent nothing in the first half."""
        edge, own = (self.until_ns - self.since_ns) // EDGE, {each.connection.number for each in self.silences}
        begin_ns, half_ns, end_ns = self.since_ns + edge, (self.since_ns + self.until_ns) // 2, self.until_ns - edge
        answered = (each for each in self.silences if not each.of_messages and each.frame not in each.frames)
        answered = (each for each in answered if half_ns <= each.until_ns < (half_ns + self.until_ns) // 2)
        self.alive |= {each.connection.number for each in answered}  # after a pause a process answers all at its end
        for connection, answers in others:
            last_ns, moved_ns = connection.health.last_ns if connection.health else 0, answers.moved_ns
            if connection.number in own or connection.first_ns > begin_ns or last_ns < end_ns:
                continue
            waits = [each for each in answers.still if each.peer_moves and each.since_ns <= begin_ns]
            alive = moved_ns > begin_ns and not was_still(answers.still, begin_ns, end_ns)
            alive = alive and not any(half_ns <= each.until_ns for each in waits)
            alive = alive or (self.to_end and begin_ns < moved_ns <= self.until_ns)
            (self.alive if alive else self.silent).add(connection.number)


class Shown(NamedTuple):
    """The silences that count for a stall."""

    silences: list[Silence]

    @property
    def waiting(self) -> int:
        """Requests, publishes and messages that waited."""
        return sum(each.waiting for each in self.silences)

    @property
    def published(self) -> int:
        return sum(each.published for each in self.silences)

    @property
    def connections(self) -> int:
        return len({each.connection.number for each in self.silences})

    @property
    def unserved(self) -> bool:
        """Whether the server never answered anything on these connections."""
        return not any(each.served for each in self.silences)

    @property
    def of_messages(self) -> bool:
        """Whether messages waited that the server passes on."""
        return any(each.of_messages for each in self.silences)

    @property
    def only_publishes(self) -> bool:
        """Whether a publisher waited on each connection."""
        return all(each.published for each in self.silences) and not self.of_messages

    def is_stall(self, stall: Stall) -> bool:
        """Whether enough waited, or on enough connections, or for long enough; more if the server served others."""
        long = self.published > 0 and stall.until_ns - stall.since_ns >= LONG_NS
        if self.waiting < MIN_WAITING and (stall.alive or (self.connections < 2 and not long)):
            return False
        return not stall.alive or self.published >= self.waiting or self.unserved

    def did(self, stall: Stall) -> str:
        """The server's part of a title."""
        length = f"{(stall.until_ns - stall.since_ns) / 1e9:.3f} s"
        if self.unserved:
            return f"accepted {counted(self.connections, 'connection')} and answered nothing there for {length}"
        return f"sent nothing for the last {length}" if stall.to_end else f"stalled for {length}"

    @property
    def what_waited(self) -> str:
        """The clients' part of a title."""
        if self.of_messages:
            return "messages were delivered late"
        if self.published == self.waiting:
            return f"{counted(self.waiting, 'publish', 'es')} waited"
        return f"{counted(self.waiting, 'request')} waited"


@dataclass(eq=False)
class Stalls(problems.Rule):
    """Servers that stopped serving for a time."""

    _silences: Silences = field(default_factory=lambda: Silences())
    _stalls: dict[str, list[Stall]] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        silence = self._silences.frame(frame)
        if silence is not None:
            self._add(silence)

    def _add(self, silence: Silence, *, to_end: bool = False) -> None:
        stalls = self._stalls.setdefault(silence.server, [])
        here = (each for each in stalls if silence.since_ns <= each.until_ns and silence.until_ns >= each.since_ns)
        stall = next(here, None)
        if stall is None:
            if len(stalls) >= MAX_STALLS:
                return
            behind = self._silences.servers[silence.server].behind
            stall = Stall(silence.since_ns, silence.until_ns, behind)
            stalls.append(stall)
        stall.since_ns, stall.until_ns = min(stall.since_ns, silence.since_ns), max(stall.until_ns, silence.until_ns)
        if len(stall.silences) < MAX_SILENCES:
            stall.silences.append(silence)
        stall.to_end |= to_end

    def ended(self, connection: Connection) -> None:
        for silence in self._silences.forget(connection):
            self._add(silence)

    def finish(self) -> None:
        for server, state in self._silences.servers.items():
            for each in state.connections.values():
                self._unfinished(server, each)
        for server, stalls in self._stalls.items():
            for stall in stalls:
                stall.compare(self._silences.servers[server].over)
                self._judge(server, stall)

    def _unfinished(self, server: str, waiting: Waiting) -> None:
        """Requests that wait when the connection or the capture ends."""
        connection, health, end = waiting.connection, waiting.connection.health, waiting.connection.first_end
        until_ns = self.report.last_ns if end is None else end.time_ns
        if waiting.count < waiting.needed or until_ns - waiting.since_ns < MIN_END_NS:
            return
        answers = connection.directions[1 - client_side(connection)]
        accepted = health is not None and health.accepted
        captured = not answers.lossy and not self.report.lost(connection)
        if captured and (answers.captured if waiting.heard_ns else accepted):
            self._add(waiting.silence(server, until_ns, waiting.frames[-1]), to_end=True)

    def _judge(self, server: str, stall: Stall) -> None:
        shown = Shown([each for each in stall.silences if _counts(each, stall)])
        if self._settles(server, stall) or not shown.is_stall(stall):
            return
        whys = [_why(each) for each in shown.silences]
        if self._is_cut(server, stall, shown, whys):
            return  # no accept queue is full: another problem says so
        problem = self._report(server, stall, shown)
        beats = self.report.facts.meets(HEARTBEAT, server, since_ns=stall.since_ns, until_ns=stall.until_ns)
        problem.likely = self._likely(stall, shown, whole=shown.only_publishes and not beats)  # flow control sends them
        if stall.alive:
            problem.detail(f"it continued to serve {counted(len(stall.alive), 'other connection')}")
        elif stall.silent:
            problem.detail(f"it sent nothing on any of its {len(stall.silent) + 1} connections")
        if whys[0]:
            problem.detail(whys[0].partition(":")[0])
        elif not any(whys) and not stall.alive:
            problem.likely += ", or the path to it was cut: its host was not heard either"

    def _settles(self, server: str, stall: Stall) -> bool:
        """Whether the first publishes to a new topic waited."""
        facts = self.report.facts
        first = [each for each in facts.each(FIRST) if each.of[0] == server and facts.of(MADE, each.of[1])]
        return (
            bool(first)
            and min(each.since_ns for each in first) - HELD_AFTER_NS <= stall.since_ns
            and stall.until_ns <= max(each.until_ns for each in first) + HELD_AFTER_NS
        )

    def _is_cut(self, server: str, stall: Stall, shown: Shown, whys: list[str | None]) -> bool:
        """Whether the path explains it: the server is down, sent in vain, or its host acknowledged nothing."""
        if None in whys or any(why and "tcp.no-ack" in why for why in whys):
            return True
        down = self.report.facts.meets(DOWN, server, since_ns=stall.since_ns, until_ns=stall.until_ns)
        return down and not any(whys) and not (shown.unserved and shown.connections > 1)

    def _report(self, server: str, stall: Stall, shown: Shown) -> problems.Problem:
        length_ns, title = stall.until_ns - stall.since_ns, f"{server} {shown.did(stall)}: {shown.what_waited}"
        short = stall.alive and length_ns < HICCUP_NS and len(self._stalls[server]) == 1
        severity, at = "error" if stall.to_end else "note" if short else None, problems.Moment(None, stall.since_ns)
        key = server, stall.since_ns
        problem = self.report.add(CODES["server.stalled"], title, key, frame=at, severity=severity)
        problem.to_end = stall.to_end and stall.until_ns >= self.report.last_ns
        problem.last_ns, problem.weight = stall.until_ns, length_ns
        if not stall.alive and (stall.silent or shown.connections > 1):
            waits = shown.published < shown.waiting  # others may have waited for it
            problem.weight += ALL_SILENT * (2 if waits else 1)
        for each in shown.silences:
            self.report.concerns(problem, each.connection)
            numbers = filter(None, (*each.frames[:2], each.frame))
            self.report.cite(problem, *(problems.FrameRef(each.connection, 0, number, [], 0) for number in numbers))
        problem.servers.add(server)
        return problem

    @staticmethod
    def _likely(stall: Stall, shown: Shown, *, whole: bool) -> str:
        """``whole``: only connections of publishers waited."""
        checks = checks_of(next(iter(shown.silences[0].connection.protocols)))
        paused = "the server's process was paused, stopped or blocked"
        if stall.alive and shown.unserved:
            return "its limit of connections was reached, or the thread that serves them hangs"
        if stall.alive:
            return checks.holds
        return f"{paused}; or {checks.holds} (no other connection asked anything meanwhile)" if whole else paused


def _counts(silence: Silence, stall: Stall) -> bool:
    """Whether a silence is known, and none of messages that a gap held back."""
    late_ns = stall.until_ns - (stall.until_ns - stall.since_ns) // EDGE
    spoke = silence.of_messages and any(stall.since_ns < time_ns < late_ns for time_ns in stall.behind)
    return _is_known(silence) and not spoke


def _is_known(silence: Silence) -> bool:
    """Whether the server could send, as the client's window was open, and no uncaptured bytes of it show then."""
    connection, since_ns, until_ns = silence.connection, silence.since_ns, silence.until_ns
    client, health, edge = client_side(connection), connection.health, (until_ns - since_ns) // EDGE
    if health is not None:
        asks, answered = health.directions[client], health.directions[1 - client]
        if asks.was_closed(since_ns, until_ns) or _may_be_lost(asks, answered, silence):
            return False
        if was_still(answered.still, since_ns + edge, until_ns - edge):
            return True
    answers = connection.directions[1 - client]
    truncated = answers.lossy and not answers.losses  # what follows may not be decoded
    return not truncated and not answers.lost_between(since_ns, until_ns, problems.LAST)


def _may_be_lost(asks: DirectionHealth, answers: DirectionHealth, silence: Silence) -> bool:
    """Whether a lossy path explains that nothing was answered; a window that is closed is tried again and again."""
    begin_ns, end_ns = asks.repeated_ns
    lossy = asks.needed_retransmissions >= max(MIN_RESENT, LOSSY * asks.packets) and not answers.zero_intervals
    return lossy and begin_ns < silence.until_ns and end_ns > silence.since_ns


def silences_by_tcp(connection: Connection, answers: DirectionHealth) -> Iterator[Silence]:
    """Silences that frames do not show, as one direction was captured, or packets were truncated; only of protocols
    whose requests are answered: a server that passes messages on is silent if none come."""
    client, health = client_side(connection), connection.health
    asks = connection.directions[client]
    if any(passed_on(each) is not None for each in connection.protocols):
        return
    if health is None or (all(side.packets for side in health.directions) and (not asks.lossy or asks.losses)):
        return
    waits = [each for each in answers.still if each.peer_moves and each.until_ns - each.peer_moved_ns >= MIN_NS]
    for each in waits if answers.moves >= MIN_PROMPT * len(waits) else ():
        if each.peer_moves >= MIN_WAITING:
            times, moves = (each.peer_moved_ns, each.until_ns), each.peer_moves
            yield Silence(connection.endpoints[1 - client], *times, connection, moves, 0, [], published=moves)


def _why(silence: Silence) -> str | None:
    connection = silence.connection
    return problems.stopped_or_cut(connection, 1 - client_side(connection), silence.since_ns, silence.until_ns)
