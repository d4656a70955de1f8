"""Events in the metadata of a Liftbridge cluster: elections, leaders of partitions, refused operations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.plurals import counted
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.names_operations import spelled
from wiredecode.protocols.liftbridge.problems_replicas import Partition, cluster_of, spelled_in
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Problem, Rule, inner_values

CODES = codes_of("liftbridge")

MOST_PARTITIONS = 10_000
MOST_CLUSTERS = 64
MAX_REQUESTS = 10_000
"""Operations that may wait for their answer; the oldest are forgotten."""


@dataclass(eq=False)
class Metadata(Rule):
    """Finds leaders: of the cluster, by the RPCs of Raft, and of partitions, by the entries of its log."""

    types = frozenset({"AppendEntries", "RequestVote"})
    _leaders: Newest[str, tuple[str, int]] = field(default_factory=lambda: Newest(MOST_CLUSTERS))
    """Leader and term, by cluster."""
    _partitions: dict[Partition, str] = field(default_factory=dict)
    _newest: Newest[str, int] = field(default_factory=lambda: Newest(MOST_CLUSTERS))
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
        known = self._leaders.get(cluster_of(frame))
        if known is None or term > known[1]:
            self._leads(frame, leader, term, known)
        for entry in values.get("entries") or ():
            self._entry(frame, entry)

    def _leads(self, frame: Frame, leader: str, term: int, known: tuple[str, int] | None) -> None:
        self._leaders.put(cluster_of(frame), (leader, term))
        if known is None and ("liftbridge.election", cluster_of(frame)) not in self.report.problems:
            return  # the capture began later than the election
        before = f" instead of {printable(known[0])}" if known is not None and known[0] != leader else ""
        what = f"term {term}: {printable(leader)} leads{before} from {self.report.seconds(frame.time_ns)} on"
        problem = self._election(frame, what)
        if before:
            problem.severity = "warning"
            who = spelled_in(cluster_of(frame), printable(leader))
            problem.what = f"{who} took over from {printable(known[0] if known else '')} as metadata leader"

    def _election(self, frame: Frame, detail: str) -> Problem:
        cluster = cluster_of(frame)
        what = spelled_in(cluster, "the metadata leader") + " was elected"
        problem = self.report.add(CODES["election"], what, cluster, frame=frame)
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
                if isinstance(each, Mapping) and len(self._partitions) < MOST_PARTITIONS:
                    self._partitions[Partition(cluster, stream, each.get("id", 0))] = printable(each.get("leader", ""))
        elif isinstance(changed, Mapping):
            self._changed(frame, printable(changed.get("stream", "")), changed)

    def _changed(self, frame: Frame, stream: str, operation: Mapping[str, Any]) -> None:
        key = Partition(cluster_of(frame), stream, operation.get("partition", 0))
        leader = printable(operation.get("leader", "?"))
        before = self._partitions.get(key)
        if before is not None or len(self._partitions) < MOST_PARTITIONS:
            self._partitions[key] = leader
        if before == leader:
            return
        who = spelled_in(key.namespace, leader)
        problem = self.report.add(CODES["leader-change"], f"{who} leads more partitions", who, frame=frame)
        problem.what = f"{who} became the leader of {counted(problem.count, 'partition')}"
        instead = f", instead of {before}" if before else ""
        problem.detail(f"{key}: from {self.report.seconds(frame.time_ns)} on{instead}")


@dataclass(eq=False)
class Refusals(Rule):
    """Operations that the metadata leader refused, with their stream; messages that a partition refused."""

    types = frozenset(
        {"PropagatedRequest", "PropagatedResponse", "Ack", "RaftJoinResponse", "AppendEntriesResponse"}
        | {"RequestVoteResponse", "InstallSnapshotResponse", "TimeoutNowResponse"}
    )
    _requests: Newest[int, str] = field(default_factory=lambda: Newest(MAX_REQUESTS))
    """Requests, by frame."""

    def frame(self, frame: Frame) -> None:
        if frame.type == "PropagatedRequest":
            self._requests.put(frame.id, spelled(inner_values(frame)))
            return
        if not frame.findings or "copy_of" in frame.generated:
            return
        for finding in frame.findings:
            if finding.code == "refused":
                self._refused(frame, finding.message)

    def _refused(self, frame: Frame, message: str) -> None:
        values = inner_values(frame)
        if frame.type == "Ack":
            reason = names.ACK_ERRORS.get(values.get("ack_error", 0), "an unknown error")
            stream = printable(values.get("stream", "")) or printable(values.get("partition_subject", ""))
            what = f"publishes to {stream or 'a stream'} were refused: {reason}"
        elif frame.type == "PropagatedResponse":
            request = self._requests.get(frame.request) if frame.request is not None else None
            what = f"{request or names.OPS.get(values.get('op', 0), 'an operation')}: {message}"
        else:
            what = message
        self.report.add(CODES["refused"], spelled_in(cluster_of(frame), what), (cluster_of(frame), what), frame=frame)
