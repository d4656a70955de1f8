"""Times in which a host acknowledged nothing: whether the path or the host was down, and on which connections."""

from collections.abc import Iterable
from typing import NamedTuple

from wiredecode.check.codes import CODES
from wiredecode.check.stalls import LOSSY
from wiredecode.frames.escape import counted
from wiredecode.frames.identity import client_side, server_endpoint, short
from wiredecode.net.health import MIN_OUTAGE_NS, ConnectionHealth, FirstEnd, Outage
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.facts import UNHEARD
from wiredecode.protocols.shared.problems import MAX_PROBLEMS, Moment, Problem, Report, farewell_captured, hosts_of

MIN_LOST = 10
"""Other retransmissions, at least, that show that a path is lossy and not cut."""
OPTIONS = 12
"""Bytes that TCP timestamps take of a segment's largest payload."""
IDLE_NS = 1_000_000_000
"""A firewall or NAT forgets connections without packets, after twice this time at least."""
MIN_HOSTS = 2
"""Others with which a host that lost its link lost contact at one time, at least."""
DOWN = ": path or host down"
Hosts = tuple[str, ...]


class Unheard(NamedTuple):
    """A time in which what one side sent was not acknowledged."""

    connection: Connection
    of_client: bool
    outage: Outage
    full: bool
    """The segment is as large as segments of this connection can be."""


class Outages:
    """Collects them by pairs of hosts; :meth:`explain` says why."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._unheard: dict[Hosts, list[Unheard]] = {}

    def add(self, connection: Connection, health: ConnectionHealth, side: int) -> int:
        """Report times in which the other side got nothing; return the number of retransmissions reported."""
        resent = 0
        who = short(connection) if side == client_side(connection) else f"the server of {short(connection)}"
        sizes = [each.mss for each in health.directions if each.mss]
        full_size = min(sizes) - OPTIONS if sizes else 0
        self._add_lost(connection, health, side, full_size)
        for outage in health.directions[side].long_outages():
            if health.end is not None and health.end.side == side and health.end.time_ns <= outage.since_ns:
                continue  # it had reset or ended the connection itself, or somebody did so in its name
            resent += outage.times
            full = 0 < full_size <= outage.length
            hint = ", a segment of full size, while others came through: suspect the MTU of the path"
            hint = hint if outage.alive and full else ""
            length = f"for {(outage.until_ns - outage.since_ns) / 1e9:.3f} s"
            did = f"{who} sent {outage.length:,} bytes again {outage.times} times, {length}{hint}"
            self._add(connection, side, outage, f"stopped acknowledging {length}", did, full=full)
        return resent

    def _add_lost(self, connection: Connection, health: ConnectionHealth, side: int, full_size: int) -> None:
        """Report bytes that neither the capture nor the other side got, which was heard for long afterwards."""
        sent, peer = health.directions[side], health.directions[1 - side]
        known = health.end is None or health.end.is_known  # the last ACK counts; one byte probes a closed window
        lost = connection.directions[side].missing and peer.last_ns - sent.moved_ns >= MIN_OUTAGE_NS
        if known and lost and (length := sent.unacknowledged) > 1:
            since_ns, packet = sent.moved_ns, max(peer.kinds, default=connection.first)
            alive = sent.last_ns - since_ns >= MIN_OUTAGE_NS
            outage = Outage(since_ns, since_ns, peer.last_ns, packet, length, alive)
            did = f"{length:,} bytes of {short(connection)} did not arrive, nor were they captured: lost before"
            self._add(connection, side, outage, "did not get bytes", did, full=0 < full_size < length)

    def add_forgotten(self, connection: Connection, health: ConnectionHealth, end: FirstEnd) -> None:
        """A client that was silent no longer knows the connection (RFC 9293 section 3.5.2): its FIN did not arrive."""
        side = health.directions[end.side]
        since_ns = next((begin for begin, until in reversed(side.quiet) if until == end.time_ns), end.time_ns)
        answers = end.unread > 0 and not end.is_known
        if not answers or end.time_ns - since_ns < MIN_OUTAGE_NS or not farewell_captured(connection):
            return
        outage = Outage(since_ns, since_ns, end.time_ns, end.packet, 0, alive=False)
        did = f"then it no longer knew {short(connection)}: it had ended it, and its FIN did not arrive"
        happened = f"was not heard for {(end.time_ns - since_ns) / 1e9:.3f} s"
        self._add(connection, 1 - end.side, outage, happened, did)

    def _add(
        self, connection: Connection, side: int, outage: Outage, happened: str, did: str, *, full: bool = False
    ) -> None:
        """``side`` did not hear the other one during ``outage``."""
        hosts, length_ns = hosts_of(connection), outage.until_ns - outage.since_ns
        at = Moment(connection, outage.since_ns, outage.packet)
        problem = self._report.add(
            CODES["tcp.no-ack"], "", hosts, frame=at, until_ns=outage.until_ns, count=outage.times
        )
        if length_ns > problem.weight:
            problem.weight, problem.title = length_ns, f"{connection.endpoints[1 - side]} {happened}"
        self._report.facts.note(UNHEARD, *hosts, since_ns=outage.since_ns, until_ns=outage.until_ns, times=outage.times)
        unheard = self._unheard.setdefault(hosts, [])
        if len(unheard) < MAX_PROBLEMS:
            unheard.append(Unheard(connection, side == client_side(connection), outage, full))
        problem.detail(did)

    def explain(self, connections: list[Connection]) -> None:
        """Say why, by all connections of the capture."""
        down = dict[Hosts, tuple[Problem, Outage]]()
        for hosts, unheard in self._unheard.items():
            if (problem := self._report.own(CODES["tcp.no-ack"], hosts)) is not None:
                problem.alike = "/".join(hosts)
                longest = _explain(problem, unheard, [each for each in connections if hosts_of(each) == hosts])
                if problem.title.endswith(DOWN):
                    down[hosts] = problem, longest
        _cut_off(down, connections)


def _explain(problem: Problem, unheard: list[Unheard], others: list[Connection]) -> Outage:
    """Say why one host does not acknowledge, by all connections (``others``) of both; return the longest outage."""
    longest = max((each.outage for each in unheard), key=lambda each: each.until_ns - each.since_ns)
    served = [each for each in others if _is_served(each, longest.since_ns, longest.until_ns)]
    sides = [side for each in others if each.health is not None for side in each.health.directions]
    repeated = sum(side.needed_retransmissions - sum(each.times for each in side.long_outages()) for side in sides)
    idle_ns = min(each.outage.since_ns - each.outage.heard_ns for each in unheard)
    begun = [each.connection.first_ns for each in unheard if each.connection.initiator is not None]
    full = all(each.full for each in unheard)
    inside = any(each.outage.overlaps(begin_ns, begin_ns) for each in unheard for begin_ns in begun)
    if any(each.full and each.outage.alive for each in unheard) or (full and inside):
        problem.title += ": segments of full size are lost"
        problem.likely = "a tunnel or VPN with a smaller MTU drops segments of full size, and ICMP is filtered"
    elif served:
        problem.title += ", while its host answers other connections"
        likely = ["a firewall or NAT drops the packets of this port or connection"]
        if full:  # NAT forgets idle connections, and a firewall would drop all to the port
            servers = {server_endpoint(each.connection) for each in unheard}
            busy = idle_ns < IDLE_NS and servers <= {*map(server_endpoint, served)}
            likely.insert(0 if busy else 1, "segments of full size are lost (MTU)")
        problem.likely = ", or ".join(likely)
        problem.detail(f"both hosts exchanged packets on {counted(len(served), 'other connection')} meanwhile")
    elif idle_ns >= 2 * IDLE_NS and any(_is_fresh(each, longest) for each in others):
        problem.title += f", after {idle_ns / 1e9:.1f} s without packets, while new connections work"
        problem.likely = "a firewall or NAT forgets connections that are idle"
    elif repeated >= LOSSY * sum(side.packets for side in sides) and repeated >= MIN_LOST:
        problem.title += f": the path loses packets, {repeated:,} others were sent again"
        problem.likely = "a link on the path is overloaded or faulty, or its bandwidth is limited"
    else:
        problem.title += DOWN
        if idle_ns >= 2 * IDLE_NS and len({each.connection.number for each in unheard}) == 1:
            problem.title += f", after {idle_ns / 1e9:.1f} s without packets"
            problem.likely = "a firewall or NAT forgot the idle connection, or the path or host went down meanwhile"
        times = [[each.outage for each in unheard if each.of_client is side] for side in (True, False)]
        if any(outage.overlaps(each.since_ns, each.until_ns) for outage in times[0] for each in times[1]):
            problem.likely = "the path between both hosts was cut: neither heard the other"
    return longest


def _is_fresh(connection: Connection, outage: Outage) -> bool:
    """Whether a connection began in an outage, before its path had time to heal, and both sides said something."""
    half_ns = (outage.since_ns + outage.until_ns) // 2
    begun = connection.initiator is not None and outage.since_ns < connection.first_ns < half_ns
    return begun and all(side.captured for side in connection.directions)


def _cut_off(down: dict[Hosts, tuple[Problem, Outage]], others: Iterable[Connection]) -> None:
    """A host that lost contact with several others at one time, and had none with any other."""
    for host in sorted({host for hosts in down for host in hosts}):
        of_it = {hosts: each for hosts, each in down.items() if host in hosts}
        since_ns = max((outage.since_ns for _, outage in of_it.values()), default=0)
        until_ns = min((outage.until_ns for _, outage in of_it.values()), default=0)
        sides = [each.health.directions for each in others if each.health and host in hosts_of(each)]
        served = any(all(side.heard(since_ns, until_ns) for side in both) for both in sides)
        if len(of_it) >= MIN_HOSTS and until_ns - since_ns >= MIN_OUTAGE_NS and not served:
            for hosts, (problem, _) in of_it.items():
                problem.alike, problem.likely = host, f"the link of {host} or a network common to all was down"
                del down[hosts]


def _is_served(connection: Connection, since_ns: int, until_ns: int) -> bool:
    """Whether both sides were heard and sent at most one segment again in the first half of that time: TCP waits before
    it sends again for as long as it tried, so the path may have healed meanwhile."""
    health, part_ns = connection.health, (until_ns - since_ns) // 8
    return health is not None and all(
        side.first_ns < since_ns
        and side.heard(since_ns + part_ns, since_ns + 3 * part_ns)
        and not (side.repeated_ns[0] < min(until_ns, side.repeated_ns[1]) and side.repeated_ns[1] > since_ns)
        for side in health.directions
    )
