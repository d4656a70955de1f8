"""Problems of TCP, reported when a connection is over."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from wiredecode.check.codes import CODES
from wiredecode.check.outages import Outages
from wiredecode.check.returns import SOON_NS, Away, FailedAttempts
from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import counted
from wiredecode.frames.identity import client_side, server_endpoint, short
from wiredecode.net.health import RETRANSMISSION, ConnectionHealth, DirectionHealth
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.registry import protocol_entries, title_of
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.protocols.shared.facts import ASKED, DOWN, ENDED, MOVES, REFUSED, UNANSWERED, Fact, Place, party_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import (
    MAX_PROBLEMS,
    Moment,
    Problem,
    Rule,
    begin_of,
    farewell_captured,
    hosts_of,
    was_captured,
    whole,
)

MIN_REPEATED, MIN_SHARE = 3, 0.01
"""At least this many retransmissions, and this share of the packets, are a warning."""
LONG_CLOSED_NS, OFTEN_CLOSED_NS = 500_000_000, 2_000_000_000
"""Closed times of a window, one or all, that are a warning: reading a backlog closes it for moments."""
TOGETHER_NS = 1_000_000_000
"""A server that goes down ends its connections within such a time, and may refuse new ones first."""
MIN_ENDED, AT_ONCE_NS, MIN_LIVED_NS = 2, 250_000_000, 500_000_000
"""A server that is stopped ends this many connections within such a time, and has no others. They are older than that:
a server that refuses what its clients send ends them sooner."""
WAITED_NS = 1_000_000_000
"""A client that closes a connection without data later than that waited for the server's first bytes. TCP repeats a SYN
after that time (RFC 6298)."""
MIN_LEFT, TENTHS = 20, 10
"""Connections that a client opened in half of the tenths of a capture, at least, and left open without use."""

FEW_REFUSED, STARTS_NS = 3, 5_000_000_000
"""Refused connections that are a warning if the server accepted others after them; a note if the capture began less
than that time before them and shows no earlier connection."""


UNKNOWN = "who sent the RST does not know them: the host restarted, or a firewall or load balancer lost its state"


@dataclass(eq=False)
class Health(Rule):
    """Reports problems of TCP when a connection is over."""

    _packets: Counter[str] = field(default_factory=Counter)
    """By endpoint: packets of the connections that had losses."""
    _ended: dict[str, deque[tuple[Connection, int | None]]] = field(default_factory=dict)
    """By endpoint of a server: its newest connections, and when it ended them; None: it did not, or said why."""
    _heard: Newest[tuple[str, int], DirectionHealth] = field(default_factory=lambda: Newest(MAX_PROBLEMS))
    """By server and connection: what the server sent."""
    _tried: Newest[tuple[str, str], FailedAttempts] = field(default_factory=lambda: Newest(MAX_PROBLEMS))
    """Failed ones, by server and host of the client."""
    _waited: Newest[tuple[tuple[str, ...], str, str], str] = field(default_factory=lambda: Newest(MAX_PROBLEMS))
    """Servers that ended connections on which neither side had sent a byte, by key of the problem."""
    _at_once: list[Connection] = field(default_factory=list)
    """Connections that servers ended within a second, without a byte."""

    def __post_init__(self) -> None:
        self._outages = Outages(self.report)

    def ended(self, connection: Connection) -> None:
        health, server = connection.health, 1 - client_side(connection)
        if health is None:
            return
        if health.refused or health.unanswered:
            self._failed(connection, health)
            return
        if self._never_completed(connection):
            return
        if len(self._ended) < MAX_PROBLEMS and any(side.captured for side in connection.directions):
            end = health.end
            of_server = self._ended.setdefault(connection.endpoints[server], deque(maxlen=MAX_PROBLEMS))
            said_why = end is None or end.side != server or "closed_by" in connection.identity
            of_server.append((connection, None if said_why or end is None else end.time_ns))
            if end is not None and not said_why:
                self.report.facts.note(ENDED, connection.endpoints[server], since_ns=end.time_ns)
        self._heard.put((connection.endpoints[server], connection.number), health.directions[server])
        if connection.initiator is None and any(side.captured for side in connection.directions):
            title = "connections began before the capture"
            self.report.add(CODES["capture.late-start"], title, frame=begin_of(connection))
        self._nothing_said(connection)
        if health.syns > 1 and health.accepted and (health.handshake_ns or 0) >= WAITED_NS:
            likely = "a firewall or load balancer drops SYNs, or too many connections wait to be accepted"
            self._repeated("tcp.loss", connection, connection.endpoints[server], "needed several SYNs", likely)
        self._reset(connection)
        for side, direction in enumerate(health.directions):
            resent = self._outages.add(connection, health, side)
            self._loss(connection, side, direction, resent)
            self._window(connection, side, direction)

    def _failed(self, connection: Connection, health: ConnectionHealth) -> None:
        """A connection was refused, or not answered."""
        code = CODES["tcp.refused"] if health.refused else CODES["tcp.no-answer"]
        to, at, until_ns = connection.endpoints[1 - client_side(connection)], begin_of(connection), health.last_ns
        did = "refused" if health.refused else "did not answer"
        severity = None if health.refused or health.syns > 1 else "note"  # TCP sends a SYN again
        problem = self.report.add(
            code, f"{to} {did} the connection", to, frame=at, until_ns=until_ns, severity=severity
        )
        severity = None if problem.count >= MIN_REPEATED else severity  # an ICMP error ends each attempt
        problem.severity = min(problem.severity, severity or code.severity, key=SEVERITIES.index)
        if problem.count > 1:
            problem.title = f"{to} {did} {problem.count:,} connections"
        kind, host = REFUSED if health.refused else UNANSWERED, party_of(connection).client
        self._tried.get_or_make((to, host), FailedAttempts).add(connection.first_ns)
        place = Place(connection.first_ns, 0, (connection.first,), party_of(connection))
        self.report.facts.note(kind, to, since_ns=connection.first_ns, until_ns=until_ns, at=place)

    def gather(self) -> None:
        """Servers that are down, as far as other connections to their hosts show it."""
        for fact in self.report.facts.each(UNANSWERED):
            (server,) = fact.of
            if not (self._is_up(fact) or self._is_one_sided(server)):
                self.report.facts.note(DOWN, server, since_ns=fact.since_ns, until_ns=fact.until_ns)

    def finish(self) -> None:
        ended = [connection for of_server in self._ended.values() for connection, _ in of_server]
        self._outages.explain(ended)
        self._never_closed(ended)
        speaking: dict[str, set[tuple[str, str]]] = {}
        for each in ended:
            speaking.setdefault(server_endpoint(each).rpartition(":")[2], set()).update(party_of(each).users)
        down, failed, facts = dict[str, Problem](), set[str](), self.report.facts
        for fact in (*facts.each(REFUSED), *facts.each(UNANSWERED)):
            code, (endpoint,) = CODES["tcp.refused" if fact.kind is REFUSED else "tcp.no-answer"], fact.of
            problem = self.report.own(code, endpoint)
            if problem is None:
                continue  # the user asked about another time
            self._explain_attempts(problem, fact)
            users = speaking.get(endpoint.rpartition(":")[2], ())  # of servers at this port, as it was down throughout
            problem.users |= {user for user in users if any(user[0] in hosts for hosts in problem.paths)}
            of_server = self._ended.get(endpoint, ())
            failed.add(endpoint)
            again_ns = self._accepted_again(problem, [connection.first_ns for connection, _ in of_server])
            if again_ns:
                self._returned(problem, Away(endpoint, problem.first_ns or again_ns, again_ns))
            if self._went_down(problem, fact, [time_ns for _, time_ns in of_server if time_ns is not None]):
                down[endpoint] = problem
        self._in_turn(down)
        self._ended_at_once()
        for key, endpoint in self._waited.items():
            problem = self.report.own(CODES["tcp.nothing-said"], key)
            if problem is not None and not _said(self._ended.get(endpoint, ())):
                problem.severity = problem.code.severity
        for endpoint, of_server in self._ended.items():
            if endpoint not in failed:
                self._all_ended(endpoint, of_server)
                self._closed_idle(endpoint, of_server)

    def _ended_at_once(self) -> None:
        """Connections that servers ended immediately; where all asked for something, that no answer came says more."""
        silent = {server_endpoint(each) for each in self._at_once if not self.report.facts.of(ASKED, str(each.number))}
        for each in self._at_once:
            endpoint, end = server_endpoint(each), each.first_end
            if endpoint in silent:
                client, answered = client_side(each), _said(self._ended.get(endpoint, ()))
                likely = why_ended(each, client, answered=answered) if end is not None and end.is_known else UNKNOWN
                self._repeated("tcp.nothing-said", each, endpoint, "ended at once, without a byte from it", likely)

    def _in_turn(self, down: Mapping[str, Problem]) -> None:
        """Servers that went down one after another: a rolling restart."""
        times = sorted((each.first_ns or 0, each.last_ns or 0) for each in down.values())
        if len(down) > 1 and all(last + TOGETHER_NS < begin for (_, last), (begin, _) in pairwise(times)):
            for fact in self.report.facts.each(REFUSED):
                problem = self.report.own(CODES["tcp.refused"], fact.of[0])
                if problem is not None and problem.count <= FEW_REFUSED:
                    problem.severity = "note"

    def _heard_around(self, fact: Fact) -> set[str]:
        """Servers that were heard before and after connections failed, and meanwhile where they were asked."""
        around = ((of, each) for of, each in self._heard.items() if each.first_ns < fact.since_ns)
        around = ((of, each) for of, each in around if each.last_ns > fact.until_ns)
        return {server for (server, _), each in around if not _is_gone(each, fact.since_ns, fact.until_ns)}

    def _accepted(self, fact: Fact) -> int:
        """Connections that the server accepted while it did not answer others."""
        of_server = self._ended.get(fact.of[0], ())
        return sum(fact.since_ns < each.first_ns < fact.until_ns for each, _ in of_server)

    def _is_up(self, fact: Fact) -> bool:
        """Whether the host of a server that did not answer was heard."""
        hosts = {each.rpartition(":")[0] for each in self._heard_around(fact)}
        return self._accepted(fact) >= MIN_REPEATED or fact.of[0].rpartition(":")[0] in hosts

    def _is_one_sided(self, server: str) -> bool:
        """Whether a connection to the host of a server shows only what was sent to it."""
        host = server.rpartition(":")[0]
        return any(not side.packets for (each, _), side in self._heard.items() if each.rpartition(":")[0] == host)

    def _explain_attempts(self, problem: Problem, fact: Fact) -> None:
        """Say why connections were refused or not answered: whether the server was heard before and afterwards."""
        if fact.kind is UNANSWERED:
            self._explain_no_answer(problem, fact)
        elif fact.of[0] in self._heard_around(fact):
            problem.likely = "a firewall rejects new connections, or its listener is closed: open ones continue"

    def _went_down(self, problem: Problem, fact: Fact, ends: list[int]) -> bool:
        """Whether a server that refused connections ended others shortly before, at ``ends``; say so."""
        last = max((time_ns for time_ns in ends if time_ns < (problem.first_ns or 0) + TOGETHER_NS), default=None)
        at_once = [time_ns for time_ns in ends if last is not None and abs(time_ns - last) <= TOGETHER_NS]
        if not at_once:
            return False
        problem.weight = len(at_once)
        connections = "the connection" if len(at_once) == 1 else f"{len(at_once):,} connections"
        problem.detail(f"the server ended {connections} at {self.report.seconds(min(at_once))}")
        kept = (each for each, _ in self._ended.get(fact.of[0], ()) if each.first_ns < fact.since_ns)
        said = (each.health.directions[1 - client_side(each)].moved_ns for each in kept if each.health)
        if fact.kind is not REFUSED or any(time_ns > fact.until_ns for time_ns in said):
            return False  # no answer at all: perhaps the path; or other connections to it stayed
        if any(_was_alive(each) for each, _ in self._ended.get(fact.of[0], ())):
            problem.likely = "a proxy, load balancer or firewall resets and rejects them in its name: it sent more then"
            return False
        problem.likely = "the server went down"
        problem.title = f"{fact.of[0]} went down: it refused {counted(problem.count, 'connection')}"
        return True

    def _explain_no_answer(self, problem: Problem, fact: Fact) -> None:
        """Say why SYNs got no answer."""
        (endpoint,), accepted = fact.of, self._accepted(fact)
        if accepted >= MIN_REPEATED:
            tried = problem.count + accepted
            problem.title = f"{endpoint} did not answer {problem.count:,} of {tried:,} connections"
        if self._is_up(fact):
            problem.likely = "a firewall drops new connections, or too many wait to be accepted: its host is up"
        elif self._is_one_sided(endpoint):
            served = problem.count >= MIN_REPEATED and endpoint in self._ended
            problem.severity, problem.likely = "note", "only one direction was captured"
            if served:  # the client acknowledged nothing, as it did on earlier connections
                problem.severity, problem.title = "error", f"{problem.count:,} connections to {endpoint} failed"
                problem.likely += ": the server refused them, or a firewall drops them"

    def _returned(self, problem: Problem, away: Away) -> None:
        """Whether all clients of a server that was away are served again."""
        server, port = away.server, away.server.rpartition(":")[2]
        servers = [each for each in self._ended if each.rpartition(":")[2] == port]
        before, since = away.clients(connection for each in servers for connection, _ in self._ended[each])
        back, hosts, elsewhere = before.keys() & since, {host for host, _ in before}, {host for host, _ in since}
        refused = (each for each in self.report.facts.each(REFUSED) if each.of[0] != server and each.of[0] in servers)
        alone = not any(each.since_ns <= away.up_ns and each.until_ns >= away.down_ns for each in refused)
        soon = all(since[client] - away.down_ns <= SOON_NS for client in back)
        peers = {each.rpartition(":")[0] for each in servers if each != server}
        if {host for of, host in self._tried if of == server} <= peers - {server.rpartition(":")[0]} and alone:
            problem.did_no_harm = True
            problem.detail("only its peers connect to it, which are servers themselves")
        elif len(back) == len(before) and len(hosts) > 1 and soon:
            problem.did_no_harm = True
            problem.detail(f"all {len(back)} clients that it had were served again, by it or by others")
        for client, last in before.items():
            tried = self._tried.get((server, client[0]))
            if client[0] in elsewhere or not back or not tried or not tried.are_over(away.up_ns, self.report.last_ns):
                continue
            down, up = self.report.seconds(away.down_ns), self.report.seconds(away.up_ns)
            title = f"{short(last)} did not connect again after {server} was away from {down} to {up}: it tried "
            title += f"{counted(tried.count, 'time')}, until {self.report.seconds(tried.last_ns)}, others came back"
            at, until_ns = Moment(last, away.down_ns), self.report.last_ns
            self.report.add(CODES["tcp.gave-up"], title, (server, *client), frame=at, until_ns=until_ns).to_end = True

    def _accepted_again(self, problem: Problem, begun: list[int]) -> int | None:
        """Say when the server took connections again; a few refused ones are then an interruption."""
        last_ns = problem.last_ns or 0
        again = min((time_ns for time_ns in begun if time_ns > last_ns), default=None)
        if again is not None:
            problem.detail(f"it accepted connections again from {self.report.seconds(again)} on")
            problem.is_over = True
            if min(begun) == again and last_ns < self.report.first_ns + STARTS_NS:
                problem.severity, problem.likely = "note", "the server was starting"
            elif problem.count <= FEW_REFUSED and problem.severity == "error":
                problem.severity = "warning"
        return again

    def _never_closed(self, connections: Iterable[Connection]) -> None:
        """Clients that open connections all the time, use each for a moment, and leave them open."""
        part_ns, of = (self.report.last_ns - self.report.first_ns) // TENTHS, dict[tuple[str, str], list[Connection]]()
        if part_ns < MIN_LIVED_NS:
            return
        for each in connections:
            if each.initiator is not None and (name := each.identity.get("name")):
                of.setdefault((each.endpoints[each.initiator].rpartition(":")[0], name), []).append(each)
        for (_, name), begun in of.items():
            last_ns = max(each.first_ns for each in begun)
            used = [each for each in begun if each.health and each.health.payload_ns - each.first_ns >= part_ns]
            kept = [each for each in begun if _is_left(each, last_ns, part_ns)]
            parts = {(each.first_ns - self.report.first_ns) // part_ns for each in kept}
            if len(kept) < MIN_LEFT or len(parts) < TENTHS // 2 or len(used) > len(kept) // 2:
                continue
            title = f"{name} opened connections one after another, and left {len(kept):,} of {len(begun):,} open"
            for each in kept:
                self.report.add(CODES["tcp.never-closed"], title, name, frame=begin_of(each))

    def _closed_idle(self, endpoint: str, ended: Iterable[tuple[Connection, int | None]]) -> None:
        """The server, or a proxy, ended several connections after the same time without data."""
        ends = [
            (idle, at, at - idle.health.payload_ns)
            for idle, at in ended
            if at and idle.health and whole(idle) and _spoke(idle)
        ]
        ends = [each for each in ends if WAITED_NS <= each[2] < each[1]]
        times = [idle_ns for _, _, idle_ns in ends]
        moments = {end_ns // WAITED_NS for _, end_ns, _ in ends}  # a server that goes down ends several at one
        tolerance_ns = max(min(times, default=0) // TENTHS, WAITED_NS // 2)  # servers look for them from time to time
        if len(moments) >= MIN_REPEATED and max(times) - min(times) <= tolerance_ns:
            title = f"{endpoint} ended {len(ends):,} connections after {min(times) / 1e9:.1f} s without data"
            severity = "note" if all(_is_unused(connection, end_ns) for connection, end_ns, _ in ends) else None
            for connection, end_ns, _ in ends:
                at = Moment(connection, end_ns)
                self.report.add(CODES["tcp.idle-closed"], title, endpoint, frame=at, severity=severity)

    def _all_ended(self, endpoint: str, ended: Iterable[tuple[Connection, int | None]]) -> None:
        """A server ended all connections that it had at that time."""
        last = max((time_ns for _, time_ns in ended if time_ns is not None), default=0)
        there = [pair for pair in ended if pair[0].health is not None and pair[0].health.last_ns >= last - AT_ONCE_NS]
        earliest = last - AT_ONCE_NS
        if len(there) < MIN_ENDED or any(time_ns is None or time_ns < earliest for _, time_ns in there):
            return
        if any(last - connection.first_ns < MIN_LIVED_NS for connection, _ in there):
            return
        if not all(farewell_captured(connection) for connection, _ in there):
            return
        if not _said(there):
            return  # it never said a byte
        clients = {party_of(connection).client for connection, _ in there}
        if len(clients) == 1 and any(at and at < earliest and party_of(each).client in clients for each, at in ended):
            return  # it ends those of this client again and again
        title = f"{endpoint} ended all its {len(there):,} connections at {self.report.seconds(last)}"
        ends = {(end.how, end.unread) for each, _ in there if (end := each.first_end)}
        reset = "a firewall or load balancer reset them: a process that ends closes them by FIN"
        facts = self.report.facts
        stopped = {each.of for each in facts.each(MOVES)} & {each.of for each in facts.each(ENDED)}
        severity = "note" if (endpoint,) in stopped and len(stopped) >= MIN_ENDED else None  # one after another
        for connection, time_ns in there:
            end = connection.first_end
            at = Moment(connection, time_ns, end.packet if end is not None else None)
            problem = self.report.add(CODES["server.ended"], title, endpoint, frame=at, severity=severity)
            problem.weight, problem.likely = len(there), reset if ends == {("RST", 0)} else ""

    def _never_completed(self, connection: Connection) -> bool:
        """Whether SYN-ACKs were repeated, and the client sent nothing but its SYNs."""
        health, client = connection.health, client_side(connection)
        if health is None or not health.accepted or not health.syns:
            return False
        answers = health.directions[1 - client]
        if health.directions[client].packets != health.syns or answers.packets < MIN_REPEATED:
            return False
        end = connection.endpoints
        title = f"the handshake of {end[client]} with {end[1 - client]} was never completed: "
        title += f"{answers.packets:,} SYN-ACKs, no ACK"
        at, until_ns = begin_of(connection), health.last_ns
        problem = self.report.add(CODES["tcp.no-handshake"], title, end[1 - client], frame=at, until_ns=until_ns)
        problem.detail(f"{end[client]}: {counted(health.syns, 'SYN')}, {answers.packets:,} SYN-ACKs, no ACK")
        if problem.count > 1:
            problem.title = f"{problem.count:,} handshakes with {end[1 - client]} were never completed: no ACK came"
        if health.syns > 1:
            problem.likely = "the SYN-ACKs do not reach the client: a firewall or the return route drops them"
        return True

    def _nothing_said(self, connection: Connection) -> None:
        """A client opened a connection, waited, and closed it without data of either side; or the server ended it."""
        health, client = connection.health, connection.initiator
        end = health.end if health is not None and health.accepted else None
        if end is None or health is None or client is None:
            return
        waited_ns, server = end.time_ns - connection.first_ns, connection.endpoints[1 - client]
        said = health.directions[1 - client].payload or connection.directions[1 - client].lossy
        if end.side != client and waited_ns < WAITED_NS:
            if not said and all(side.packets for side in health.directions) and len(self._at_once) < MAX_PROBLEMS:
                self._at_once.append(connection)
            return
        late = [side.first_ns > end.time_ns for side in connection.directions if side.first_ns is not None]
        silent = bool(late) or not any(side.payload for side in health.directions)
        if not all(late) or not silent or waited_ns < WAITED_NS:
            return
        who = "client" if end.side == client else "server"
        title, key = f"{server} accepted a connection and sent nothing", (hosts_of(connection), server, who)
        if who == "server":
            title += f" for {waited_ns / 1e9:.3f} s, then it closed it"
        problem = self.report.add(CODES["tcp.nothing-said"], title, key, frame=begin_of(connection), severity="note")
        problem.detail(f"neither side sent a byte; the {who} closed it after {waited_ns / 1e9:.3f} s")
        if not late and end.side == client:
            problem.likely = (
                "the client waits for the server, and has the port of a protocol whose clients begin (HTTP: "
            )
            problem.likely += "8222 of nats-server); or the server hangs, or has no file descriptors left; or a load "
            problem.likely += "balancer accepts for a server that does not work"
        elif end.side != client:
            problem.likely = (
                "the server waits for the client to begin: for TLS (nats-server: handshake_first), or another "
            )
            problem.likely += "protocol; or the server hangs"
            self._waited.put(key, server)
        if late:
            likely = "the server's limit of connections or open files was reached, or it hangs: it answered later"
            problem.likely = likely
        if problem.count > 1:
            problem.title = f"{server} accepted {problem.count:,} connections and sent nothing"
            problem.severity = problem.code.severity

    def _repeated(self, code: str, connection: Connection, server: str, happened: str, likely: str) -> None:
        """Report what happened to a connection: a note until it happened :data:`MIN_REPEATED` times."""
        key, at = (happened, server), begin_of(connection)
        problem = self.report.add(CODES[code], f"a connection to {server} {happened}", key, frame=at, severity="note")
        problem.likely, problem.alike, problem.weight = likely, f"{server} {happened}", problem.count
        if problem.count >= MIN_REPEATED:
            problem.title = f"{problem.count:,} connections to {server} {happened}"
            problem.severity = problem.code.severity

    def _reset(self, connection: Connection) -> None:
        end = connection.first_end
        if end is None or end.how != "RST":
            return
        by_client = end.side == client_side(connection)
        if by_client and connection.health is not None:
            self._outages.add_forgotten(connection, connection.health, end)
        pulled = any(checks_of(each).pulled for each in connection.protocols)
        pulled |= connection.identity.get("closed_by") == "client"  # all that it did not want to read
        lost = end.unacknowledged or (end.unread and not (by_client and pulled))
        who, name = "client" if by_client else "server", short(connection)
        note = f": {end.unread:,} bytes unread" if end.unread else ""
        note += f"{',' if note else ':'} {end.unacknowledged:,} bytes unacknowledged" if end.unacknowledged else ""
        complete = farewell_captured(connection)  # else a goodbye, or an ACK, may be lost
        said = by_client or connection.identity.get("closed_by") == "client"  # it asked for the end
        severity = "note" if not complete or (said and not lost) else None
        key = who, bool(lost), connection.identity.get("name")
        title, at = f"the {who} reset {name}{note}", Moment(connection, end.time_ns, end.packet)
        problem = self.report.add(CODES["tcp.reset"], title, key, frame=at, severity=severity)
        problem.alike = who
        problem.likely = problem.likely if by_client or end.is_known or not complete else UNKNOWN
        if problem.count > 1:
            problem.title = f"the {who} reset {problem.count:,} connections, {name} last{note}"

    def _loss(self, connection: Connection, side: int, direction: DirectionHealth, resent: int) -> None:
        repeated = direction.needed_retransmissions - resent
        if repeated <= 0 or not direction.repeated_ns[0]:  # of handshakes, other problems say more
            return
        acks = was_captured(connection, 1 - side)  # without them, needless retransmissions are not known
        share = MIN_SHARE if acks else 5 * MIN_SHARE
        many = repeated >= MIN_REPEATED and repeated >= share * direction.packets
        endpoint = connection.endpoints[side]
        first_ns, last_ns = direction.repeated_ns
        key, severity = (endpoint, None) if many else (None, "note")
        how: Any = {"until_ns": last_ns, "count": repeated, "severity": severity}
        at = Moment(connection, first_ns)
        problem = self.report.add(CODES["tcp.loss"], "few segments were sent again", key, frame=at, **how)
        problem.weight = problem.count
        for number, kinds in direction.kinds.items():
            if kinds & RETRANSMISSION and number not in direction.needless and len(problem.packets) < 5:
                problem.packets.append(number)
        if many and self.report.covers(first_ns):
            self._packets[endpoint] += direction.packets
            problem.title = f"{endpoint} sent {problem.count:,} of {self._packets[endpoint]:,} packets again"

    def _window(self, connection: Connection, side: int, direction: DirectionHealth) -> None:
        longest = max((end - begin for begin, end in direction.zero_intervals), default=0)
        if not direction.zero_windows and longest < LONG_CLOSED_NS:
            return  # it was small for moments
        long = longest >= LONG_CLOSED_NS or direction.zero_window_ns >= OFTEN_CLOSED_NS
        begin = direction.zero_intervals[0][0] if direction.zero_intervals else connection.first_ns
        name = short(connection)
        who = f"the {'client' if side == client_side(connection) else 'server'} of {name}"
        title = f"{who} closed its window for {direction.zero_window_ns / 1e9:.3f} s"
        key, severity, closed = (connection.number, side), None if long else "note", direction.zero_windows or 1
        at, until_ns = Moment(connection, begin), max((end for _, end in direction.zero_intervals), default=begin)
        problem = self.report.add(
            CODES["tcp.zero-window"], title, key, frame=at, until_ns=until_ns, count=closed, severity=severity
        )
        problem.weight = direction.zero_window_ns


def _said(of_server: Iterable[tuple[Connection, int | None]]) -> bool:
    """Whether a server sent data on one of its connections."""
    return any(each.directions[1 - client_side(each)].captured for each, _ in of_server)


def _spoke(connection: Connection) -> bool:
    """Whether both sides sent data."""
    return all(side.captured for side in connection.directions)


def _is_gone(answers: DirectionHealth, since_ns: int, until_ns: int) -> bool:
    """Whether a server sent no packet in that time, though it was asked."""
    asked = any(each.peer_moves and each.since_ns <= since_ns and each.until_ns >= until_ns for each in answers.still)
    return asked and until_ns - since_ns >= WAITED_NS and not answers.heard(since_ns, until_ns)


def _was_alive(connection: Connection) -> bool:
    """Whether the server sent more after a reset in its name."""
    end, health = connection.first_end, connection.health
    if end is None or health is None or end.how != "RST" or end.side == client_side(connection):
        return False
    server = health.directions[end.side]
    return max(server.moved_ns, server.repeated_ns[1]) > end.time_ns


def _is_unused(connection: Connection, end_ns: int) -> bool:
    """Whether the client sent nothing more after a server's end, and asks for messages: no message is lost."""
    sent = connection.health.directions[client_side(connection)].moved_ns if connection.health else end_ns
    return sent < end_ns and all(checks_of(protocol).pulled for protocol in connection.protocols)


def _is_left(connection: Connection, last_ns: int, used_ns: int) -> bool:
    """Whether it was open at that time, and used for no longer than ``used_ns`` before; both sides were captured."""
    health = connection.health
    if health is None or not all(side.packets for side in health.directions):
        return False
    if health.end is not None and health.end.time_ns < last_ns:
        return False
    return min(health.payload_ns, last_ns) - connection.first_ns < used_ns


def why_ended(connection: Connection, client: int, *, answered: bool) -> str:
    """Why a server ends a connection without a byte; ``answered``: it answered others."""
    likely = "a load balancer without a working server, or a limit of connections was reached"
    port, spoken = connection.ports[1 - client], connection.protocols
    usual = next((each.name for each in protocol_entries() if spoken and port in each.ports), None)
    if usual is not None and usual not in spoken:
        return f"{port} is the port of {title_of(usual)}, which the client does not speak"
    if answered:
        return f"it fails at what they ask, as it answered others; or {likely}"
    if connection.health is not None and connection.health.directions[client].payload:
        likely += "; or the first bytes mean nothing to it (a PROXY header, TLS, another protocol)"
    return likely
