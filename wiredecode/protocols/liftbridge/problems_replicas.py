"""Lag of replicas, servers that went silent, and what the metadata group says about leaders and replicas."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side
from wiredecode.net.types import Connection
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.names import DEFAULT_NAMESPACE, describe_operation
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import Fact, Kind
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Moment, Problem, Report, Rule, inner_values, ref_of

CODES = codes_of("liftbridge")

OUT_OF_SYNC, BACK_IN_SYNC = (Kind(name, ("server", "partition"), 0) for name in ("out-of-sync", "back-in-sync"))
LEADER_LOST = Kind("leader-lost", ("server", "partition"), 0)
LAGS = Kind("lags", ("server",))
"""What leaders say of replicas, and replicas of leaders; and replicas that asked late for messages."""
IN_SYNC = {"shrink_isr_op": (OUT_OF_SYNC, "replica_to_remove"), "expand_isr_op": (BACK_IN_SYNC, "replica_to_add")}
"""By operation: its fact, and the field of the replica."""
MAX_PARTITIONS = 10_000
MAX_CLUSTERS = 64


@dataclass(eq=False)
class Metadata(Rule):
    """Finds leaders: of the cluster, by the RPCs of Raft, and of partitions, by the entries of its log."""

    types = frozenset({"AppendEntries", "RequestVote"})
    _leaders: Newest[str, tuple[str, int]] = field(default_factory=lambda: Newest(MAX_CLUSTERS))
    """Leader and term, by cluster."""
    _partitions: Newest[Partition, str] = field(default_factory=lambda: Newest(MAX_PARTITIONS))
    _newest: Newest[str, int] = field(default_factory=lambda: Newest(MAX_CLUSTERS))
    """Index of the newest entry of the log, by cluster."""

    def frame(self, frame: Frame) -> None:
        if frame.sender == "server" or "copy_of" in frame.generated:
            return
        values = inner_values(frame)
        if frame.type == "RequestVote":
            who, term = printable(str(values.get("candidate", "?"))), values.get("term", 0)
            self._election(frame, f"term {term}: {who} asked for votes at {self.report.seconds(frame.time_ns)}")
            return
        leader, term = values.get("leader"), values.get("term")
        if not isinstance(leader, str) or not isinstance(term, int):
            return
        latest = self._leaders.get(cluster_of(frame))
        if latest is None or term > latest[1]:
            self._leads(frame, leader, term, latest)
        before = values.get("prev_log_entry", 0)
        for entry in values.get("entries") or ():
            self._entry(frame, entry)
        self._newest.put(cluster_of(frame), max(before, self._newest.get(cluster_of(frame), -1)))

    def _leads(self, frame: Frame, leader: str, term: int, latest: tuple[str, int] | None) -> None:
        self._leaders.put(cluster_of(frame), (leader, term))
        if latest is None and self.report.own(CODES["election"], cluster_of(frame)) is None:
            return  # the capture began later than the election
        before = f" instead of {printable(latest[0])}" if latest is not None and latest[0] != leader else ""
        title = f"term {term}: {printable(leader)} leads{before} from {self.report.seconds(frame.time_ns)} on"
        problem = self._election(frame, title)
        if before:
            problem.severity = "warning"
            who = spelled_in(cluster_of(frame), printable(leader))
            problem.title = f"{who} took over from {printable(latest[0] if latest else '')} as metadata leader"

    def _election(self, frame: Frame, detail: str) -> Problem:
        cluster = cluster_of(frame)
        title = spelled_in(cluster, "the metadata leader") + " was elected"
        problem = self.report.add(CODES["election"], title, cluster, frame=frame)
        problem.detail(detail)
        return problem

    def _entry(self, frame: Frame, entry: Any) -> None:
        """An entry of the log; it goes to every follower, and again when one has missed it."""
        if not isinstance(entry, Mapping) or not isinstance(entry.get("raft_log"), Mapping):
            return
        index, cluster = entry.get("index", 0), cluster_of(frame)
        if index <= self._newest.get(cluster, -1):
            return
        self._newest.put(cluster, index)
        created, changed = (entry["raft_log"].get(name) for name in ("create_stream_op", "change_leader_op"))
        if isinstance(created, Mapping) and isinstance(created.get("stream"), Mapping):
            stream = printable(created["stream"].get("stream_name", ""))
            for each in created["stream"].get("partitions") or ():
                if isinstance(each, Mapping):
                    self._partitions.put(
                        Partition(cluster, stream, each.get("id", 0)), printable(each.get("leader", ""))
                    )
        elif isinstance(changed, Mapping):
            self._changed(frame, printable(changed.get("stream", "")), changed)
        for name in IN_SYNC:
            operation = entry["raft_log"].get(name)
            if isinstance(operation, Mapping):  # a leader of both sends no PropagatedRequest
                partition = Partition(cluster, name_of(operation, "stream"), operation.get("partition", 0))
                note_sync(self.report, frame, name, operation, partition)

    def _changed(self, frame: Frame, stream: str, operation: Mapping[str, Any]) -> None:
        key = Partition(cluster_of(frame), stream, operation.get("partition", 0))
        leader = printable(operation.get("leader", "?"))
        before = self._partitions.get(key)
        self._partitions.put(key, leader)
        if before == leader:
            return
        who = spelled_in(key.namespace, leader)
        problem = self.report.add(CODES["leader-change"], f"{who} leads more partitions", who, frame=frame)
        problem.title = f"{who} became the leader of {counted(problem.count, 'partition')}"
        instead = f", instead of {before}" if before else ""
        problem.detail(f"{key}: from {self.report.seconds(frame.time_ns)} on{instead}")


@dataclass(eq=False)
class OperationRefusals(Rule):
    """Operations that the metadata leader refused, with their stream."""

    types = frozenset(
        {"PropagatedRequest", "PropagatedResponse", "RaftJoinResponse", "AppendEntriesResponse"}
        | {"RequestVoteResponse", "InstallSnapshotResponse", "TimeoutNowResponse"}
    )
    _requests: Newest[int, str] = field(default_factory=Newest)
    """Requests, by frame."""

    def frame(self, frame: Frame) -> None:
        if frame.type == "PropagatedRequest":
            self._requests.put(frame.id, describe_operation(inner_values(frame)))
            return
        for finding in frame.findings if "copy_of" not in frame.generated else ():
            if finding.code == "refused":
                request = self._requests.get(frame.request or 0)
                title = spelled_in(cluster_of(frame), f"{request}: {finding.message}" if request else finding.message)
                self.report.add(CODES["refused"], title, title, frame=frame)


CLIENT_NAME = "LIFT."
ADDRESSED = re.compile(r"\.(?:notify\.(.+)|raft\.metadata\.(.+)\.(?:accept|request\..+))$")
"""Subjects on which one server gets messages."""
MAX_STEPS = 1024
"""Newest offsets of a partition that are remembered."""
LAG_NS, MIN_LAG_NS = 5_000_000_000, 1_000_000_000
"""Lag of replicas that is a warning, or a note."""
SILENT_NS = 1_000_000_000
SILENT_REQUESTS, MAX_GAPS = 3, 64
"""A server that got this many requests, and sent nothing for `SILENT_NS`, is silent."""


def server_of(who: Mapping[str, str]) -> str | None:
    """The server of a connection, by the name of its client: ``LIFT.namespace.server.purpose``."""
    name = who.get("name", "")
    if not name.startswith(CLIENT_NAME):
        return None
    parts = name.split(".")
    return spelled_in(".".join(parts[1:-2]), parts[-2]) if len(parts) > 3 else name


def addressed_server(frame: Frame) -> str | None:
    """The server that is this client of NATS, by the subject of a message for it alone."""
    delivered = ADDRESSED.search(frame.values["subject"]) if frame.values.get("operation") == "MSG" else None
    return spelled_in(cluster_of(frame), printable(delivered[1] or delivered[2])) if delivered else None


def spelled_in(namespace: str, name: str) -> str:
    """A server or partition of a cluster: servers of two clusters may have the same name."""
    return name if namespace in ("", DEFAULT_NAMESPACE) else f"{name} of {namespace}"


def cluster_of(frame: Frame) -> str:
    """The namespace of a frame, printable; empty: it is not known."""
    return printable(frame.generated.get("namespace") or "")


class Partition(NamedTuple):
    """A partition of a stream of a cluster."""

    namespace: str
    stream: str
    number: int

    def __str__(self) -> str:
        return spelled_in(self.namespace, f"{self.stream}[{self.number}]")


def name_of(said: Mapping[str, Any], name: str) -> str:
    return printable(str(said.get(name) or "?"))


def note_sync(report: Report, frame: Frame, name: str, operation: Mapping[str, Any], partition: Partition) -> None:
    """A replica is no longer in sync, or again: by a request, or by the log of Raft, whose entry may be the same."""
    kind, field_name = IN_SYNC[name]
    replica = spelled_in(partition.namespace, name_of(operation, field_name))
    report.facts.saw(kind, replica, str(partition), frame=frame, by=name_of(operation, "leader"))


@dataclass(slots=True)
class Log:
    """Growth of the newest offset of a partition: offsets, and since when there are messages up to them."""

    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    epoch: int = -1
    """Of the leader: a new one may give offsets again that its predecessor had given."""

    def led(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.offsets.clear()
            self.times.clear()

    def grew(self, offset: int, time_ns: int) -> None:
        if self.offsets and offset <= self.offsets[-1]:
            return
        self.offsets.append(offset)
        self.times.append(time_ns)
        if len(self.offsets) > 2 * MAX_STEPS:
            del self.offsets[:MAX_STEPS], self.times[:MAX_STEPS]

    def after(self, offset: int) -> int | None:
        """Since when there is a message after this offset."""
        index = bisect_right(self.offsets, offset)
        return self.times[index] if index < len(self.times) else None


@dataclass(eq=False)
class Replicas(Rule):
    """Lag of replicas when they ask for messages: time since the next message was known to be there."""

    types = frozenset({"ReplicationRequest", "ReplicationResponse", "Ack"})
    _logs: Newest[Partition, Log] = field(default_factory=Newest)

    def frame(self, frame: Frame) -> None:
        if frame.sender == "server" or "copy_of" in frame.generated:
            return
        values = inner_values(frame)
        if frame.type == "Ack":
            if values.get("ack_error", 0) == 0 and "stream" in values:
                subject = values.get("partition_subject", "")
                last = subject.rpartition(".")[2] if isinstance(subject, str) else ""
                number = int(last[:10]) if last.isdecimal() else 0
                key = Partition(cluster_of(frame), printable(values["stream"]), number)
                self._logs.get_or_make(key, Log).grew(values.get("offset", 0), frame.time_ns)
            return
        if "stream" not in frame.generated:
            return
        partition = Partition(cluster_of(frame), frame.generated["stream"], frame.generated.get("partition", 0))
        if frame.type == "ReplicationResponse":
            log = self._logs.get_or_make(partition, Log)
            log.led(values.get("leader_epoch", 0))
            log.grew(values.get("high_watermark", -1), frame.time_ns)
            return
        offsets = self._logs.get(partition)
        since = None if offsets is None else offsets.after(values.get("offset", 0))
        if since is not None and frame.time_ns - since >= MIN_LAG_NS:
            replica = spelled_in(partition.namespace, printable(values.get("replica_id", "?")))
            self._lags(frame, replica, partition, since)

    def _lags(self, frame: Frame, replica: str, partition: Partition, since: int) -> None:
        lag = frame.time_ns - since
        self.report.facts.saw(LAGS, replica, frame=frame)
        problem = self.report.add(CODES["replica-lag"], "", replica, frame=frame, severity="note")
        if lag > problem.weight:
            problem.weight = lag
            problem.title = f"{replica} was up to {lag / 1e9:.3f} s behind its leaders, in {partition}"
            if lag >= LAG_NS:
                problem.severity = CODES["replica-lag"].severity


@dataclass(slots=True)
class ServerRequests:
    """Requests that a server got since it sent anything itself."""

    since: FrameRef | None = None
    """The first request."""
    requests: int = 0
    sent_ns: int = 0
    """Time of the latest frame it sent: requests that come out later, after a gap, may be older."""
    gaps: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MAX_GAPS))
    """The newest times without one."""
    ends: deque[tuple[int, Moment]] = field(default_factory=lambda: deque(maxlen=MAX_GAPS))
    """Its newest connections to NATS that it ended."""


@dataclass(eq=False)
class SilentServers(Rule):
    """Servers that got requests, and sent nothing."""

    types = frozenset(names.MESSAGE_TYPES.values()) | {
        *("AppendEntries", "AppendEntriesResponse", "RequestVote", "RequestVoteResponse"),
        *("RaftConnectRequest", "RaftConnectResponse", "InstallSnapshot", "InstallSnapshotResponse"),
    }
    _servers: Newest[str, ServerRequests] = field(default_factory=Newest)
    _of: dict[int, str] = field(default_factory=dict)
    """By connection."""

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        name = self._of.get(number) or server_of(frame.connection.identity) or addressed_server(frame)
        if name is None:
            return
        self._of[number] = name
        server = self._servers.get_or_make(name, ServerRequests)
        if frame.sender == "server":
            asks = frame.expects_response or frame.type in names.RPC_TYPES.values()  # its link may be of before
            if asks and frame.time_ns > server.sent_ns:
                server.requests += 1
                if server.since is None:
                    server.since = ref_of(frame)
            return
        self._heard(server, frame.time_ns)
        server.sent_ns = max(server.sent_ns, frame.time_ns)
        if server.since is not None:
            self._spoke(name, server, frame.time_ns)

    def _spoke(self, name: str, server: ServerRequests, time_ns: int) -> None:
        since, requests = server.since, server.requests
        server.since, server.requests = None, 0
        if since is None or requests < SILENT_REQUESTS or time_ns - since.time_ns < SILENT_NS:
            return
        problem = self.report.add(CODES["server-silent"], f"{name} went silent", name, frame=since)
        silent = time_ns - since.time_ns
        problem.weight, problem.last_ns = max(problem.weight, silent), time_ns
        problem.title = f"{name} sent nothing for up to {problem.weight / 1e9:.3f} s"
        begin, end = self.report.seconds(since.time_ns), self.report.seconds(time_ns)
        problem.detail(f"from {begin} to {end}, while {requests:,} requests came for it")

    def _heard(self, server: ServerRequests, now_ns: int) -> None:
        before_ns = server.sent_ns or self.report.first_ns
        if now_ns - before_ns >= SILENT_NS:
            server.gaps.append((before_ns, now_ns))

    def ended(self, connection: Connection) -> None:
        """A server whose connections end is gone, not silent."""
        name = self._of.pop(connection.number, None) or server_of(connection.identity) or ""
        server, health, side = self._servers.get(name), connection.health, client_side(connection)
        if server is None or health is None or not health.directions[side].packets:
            return
        if health.end is not None and health.end.side == side:
            server.ends.append((health.end.time_ns, Moment(connection, health.end.time_ns)))
        self._spoke(name, server, health.last_ns if health.end is None else health.end.time_ns)

    def finish(self) -> None:
        """Why replicas were removed: those that followed an idle partition are, too, when messages come again."""
        for name, facts in by_server(self.report, OUT_OF_SYNC, BACK_IN_SYNC, LEADER_LOST).items():
            self._report_removed(name, [each for each in facts if each.kind is not LEADER_LOST])
            self._report_lost(name, [each for each in facts if each.kind is LEADER_LOST])
            removed, lost = (self.report.own(CODES[kind], name) for kind in ("isr-shrink", "leader-lost"))
            seen = lost or removed
            if seen is not None and seen.first_ns is not None and seen.last_ns is not None:
                self._explain(name, removed, lost, (seen.first_ns, seen.last_ns))

    def _report_removed(self, replica: str, facts: list[Fact]) -> None:
        problem, told = None, set[tuple[Kind, str]]()
        for each in facts:
            (_, partition), place = each.of, each.places[0]
            if (each.kind, partition) in told or (problem is None and each.kind is BACK_IN_SYNC):
                continue
            told.add((each.kind, partition))
            did, by = "back in sync", ""
            if each.kind is OUT_OF_SYNC:
                did, by, title = "removed", f" by {each.by}", f"{replica} fell out of the replicas in sync"
                problem = self.report.add(CODES["isr-shrink"], title, replica, frame=place)
            assert problem is not None
            self.report.cite(problem, place)
            problem.detail(f"{partition}: {did} at {self.report.seconds(place.time_ns)}{by}")

    def _report_lost(self, leader: str, facts: list[Fact]) -> None:
        partitions = dict.fromkeys(each.of[1] for each in facts)
        title = f"{leader}, leader of {counted(len(partitions), 'partition')}, did not answer"
        for each in facts:
            how: Any = {"until_ns": each.until_ns, "count": each.times}
            problem = self.report.add(CODES["leader-lost"], title, leader, frame=each.places[0], **how)
            if partitions.pop(each.of[1], each) is None:
                problem.detail(f"{each.of[1]}: reported by {each.by} at {self.report.seconds(each.since_ns)}")

    def _explain(self, name: str, removed: Problem | None, lost: Problem | None, seen_ns: tuple[int, int]) -> None:
        server, (first_ns, last_ns) = self._servers.get(name, ServerRequests()), seen_ns
        if server.sent_ns:  # else its side was not captured
            self._heard(server, self.report.last_ns)
        silent = any(begin < last_ns and end >= first_ns for begin, end in server.gaps)
        if not silent and removed is not None and not self.report.facts.of(LAGS, name):
            removed.severity = "note"
        ends = sorted((each for each in server.ends if each[0] <= last_ns), key=lambda end: end[0])
        if ends and (silent or lost is not None):
            gone = f"went away: its connections ended at {self.report.seconds(ends[-1][0])}"
            problem = self.report.add(CODES["leader-lost"], f"{name} {gone}", name, frame=ends[-1][1], count=0)
            problem.title = problem.title.replace("did not answer", gone)


def by_server(report: Report, *kinds: Kind) -> dict[str, list[Fact]]:
    """Facts of these kinds by server, in order of time."""
    facts = sorted((each for each in report.facts if each.kind in kinds), key=lambda each: each.places[0])
    servers = dict.fromkeys(each.of[0] for each in facts)
    return {name: [each for each in facts if each.of[0] == name] for name in servers}
