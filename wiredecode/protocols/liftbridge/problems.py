"""Problems among Liftbridge servers, and with publishes to them; changes, and the lag of replicas."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from wiredecode.fields import compiler, printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side
from wiredecode.net.types import Connection
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.layers_operations import Cursor
from wiredecode.protocols.liftbridge.problems_replicas import (
    IN_SYNC,
    Metadata,
    Partition,
    Refusals,
    Replicas,
    Silence,
    cluster_of,
    name_of,
    report_sync,
    server_of,
    spelled_in,
)
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, LEADER, POSITION, REPLICAS, STREAM, TERM, Change, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Publishing, Rule, inner_values, ref_of, whole

CODES = codes_of("liftbridge")
OPERATIONS: dict[str, tuple[str, str, str]] = names.NAMES["changes"]
"""By field of the request: kind of the change, field of who changes, and what holds from now on."""
MAX_FOLLOWERS = 4096
"""Requests of followers that are remembered until they are answered."""

# For the timeline.


def requested_change(frame: Frame) -> Iterator[Change]:
    """Requests of a server to the metadata leader."""
    for name, said in inner_values(frame).items():
        if name in OPERATIONS and isinstance(said, Mapping):
            kind, who, what = OPERATIONS[name]
            of = spelled_in(cluster_of(frame), stream_of(said)) if kind == STREAM else str(partition_of(frame, said))
            facts = {"of": of, "who": name_of(said, who), "leader": name_of(said, "leader")}
            yield Change(kind, f"{facts['who']} {of}" if kind == REPLICAS else of, what.format(**facts))


def stream_of(said: Mapping[str, Any]) -> str:
    stream = said.get("stream")
    return name_of(stream, "stream_name") if isinstance(stream, Mapping) else name_of(said, "stream")


def partition_of(frame: Frame, said: Mapping[str, Any]) -> Partition:
    return Partition(cluster_of(frame), name_of(said, "stream"), said.get("partition", 0))


def votes(frame: Frame) -> Iterator[Change]:
    values = inner_values(frame)
    candidate, term = spelled_in(cluster_of(frame), name_of(values, "candidate")), values["term"]
    yield Change(TERM, f"{candidate} {term}", f"{candidate} asks for votes in term {term}")


def leads(frame: Frame) -> Iterator[Change]:
    """The metadata leader sends its term with every AppendEntries."""
    values = inner_values(frame)
    metadata = spelled_in(cluster_of(frame), "metadata")
    yield Change(LEADER, metadata, f"{name_of(values, 'leader')} leads the cluster's {metadata}, term {values['term']}")


# For plots.


class ReplicaLag(Gauge):
    """Committed messages that a follower did not have when it asked, from the leader's answer."""

    types = frozenset({"ReplicationRequest", "ReplicationResponse"})

    def __init__(self) -> None:
        self._requests: Newest[int, int] = Newest(MAX_FOLLOWERS)

    def read(self, frame: Frame) -> Iterator[Measurement]:
        if "copy_of" in frame.generated or not frame.inner:
            return
        values = inner_values(frame)
        if frame.type == "ReplicationRequest":
            self._requests.put(frame.id, values.get("offset", 0))
            return
        offset, facts = self._requests.pop(frame.request or 0, None), frame.generated
        if offset is not None and "high_watermark" in values:
            name = f"{facts.get('stream')}, partition {facts.get('partition')} at {facts.get('replica_id')}"
            yield Measurement(LAG, spelled_in(cluster_of(frame), name), max(values["high_watermark"] - offset, 0))


class Cursors(Gauge):
    """Offsets from which consumers continue, as servers keep them in the stream ``__cursors``."""

    types = frozenset({"Publish"})

    def read(self, frame: Frame) -> Iterator[Measurement]:
        if len(frame.inner) < 2 or "copy_of" in frame.generated or frame.inner[1].layer is not Cursor:
            return
        data = frame.inner[1].data
        values = compiler.walk(Cursor, data, 0, len(data))[0]
        stream, partition, offset = values["stream"], values.get("partition", 0), values.get("offset", 0)
        of = f"{printable(stream)}[{partition}], cursor {printable(values.get('cursor_id', ''))}"
        yield Measurement(POSITION, spelled_in(cluster_of(frame), of), offset, (stream, partition, offset - 1))


# Rules.

MAX_WAITING = 65_536
"""Publishes that wait for their ack at the same time; the oldest beyond it are not judged."""
MAX_SERVERS = 1000
"""Servers, and partitions of one, that are remembered."""
PATIENCE_NS = 1_000_000_000
"""A publish has no ack if this much of the capture follows without one."""
REPORTED_AFTER_NS = 30_000_000_000
"""A report counts publishes up to this long before it."""
ACK_TIMEOUT_NS = 5_000_000_000
"""Time that clients wait for an ack."""


@dataclass(slots=True)
class Reported:
    """A partition that lost its leader."""

    first_ns: int
    by: str
    reports: int = 0


class Subject(NamedTuple):
    """Target of a publish: cluster and stream, as far as they are known, and subject."""

    namespace: str
    stream: str
    subject: str


@dataclass(slots=True)
class Loss:
    """A leader that was reported."""

    place: FrameRef
    partitions: dict[Partition, Reported] = field(default_factory=dict)
    places: list[FrameRef] = field(default_factory=list)
    last_ns: int = 0


@dataclass(eq=False)
class Cluster(Rule):
    """Publishes without ack, leaders that went away, replicas out of sync."""

    types = frozenset({"Publish", "Ack", "PropagatedRequest"})
    _waiting: Newest[tuple[str, str], tuple[FrameRef, Subject]] = field(default_factory=lambda: Newest(MAX_WAITING))
    _losses: dict[str, Loss] = field(default_factory=dict)
    _ends: dict[str, list[tuple[int, str, Connection]]] = field(default_factory=dict)
    """By server: when and how its connections to NATS ended."""
    _leaders: dict[Partition, list[tuple[int, str]]] = field(default_factory=dict)
    """By partition: who said to lead it, and when."""

    def frame(self, frame: Frame) -> None:
        if "copy_of" in frame.generated:
            return
        values = inner_values(frame)
        if frame.type == "Publish":
            self._published(frame, values)
        elif frame.type == "Ack":
            self._waiting.pop((values.get("ack_inbox", ""), values.get("correlation_id", "")), None)
        else:
            self._operation(frame, values)

    # Publishes.

    def _published(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if not frame.expects_response or values.get("ack_policy") == names.NO_ACK or self.report.held(frame):
            return
        key = values.get("ack_inbox", ""), values.get("correlation_id", "")
        stream, subject = printable(values.get("stream", "")), printable(frame.values.get("subject", ""))
        self._waiting.put(key, (ref_of(frame), Subject(cluster_of(frame), stream, subject)))

    # Operations.

    def _operation(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if isinstance(operation := values.get("report_leader_op"), Mapping):
            self._reported(frame, operation, partition_of(frame, operation))
        for name in IN_SYNC:
            if isinstance(operation := values.get(name), Mapping):
                partition = partition_of(frame, operation)
                self._leads(frame, operation, partition)
                report_sync(self.report, frame, name, operation, partition)

    def _reported(self, frame: Frame, operation: Mapping[str, Any], partition: Partition) -> None:
        leader, by = spelled_in(partition.namespace, name_of(operation, "leader")), name_of(operation, "replica")
        if leader not in self._losses and len(self._losses) >= MAX_SERVERS:
            return
        loss = self._losses.setdefault(leader, Loss(ref_of(frame)))
        loss.last_ns = frame.time_ns
        if len(loss.partitions) < MAX_SERVERS:
            loss.partitions.setdefault(partition, Reported(frame.time_ns, by)).reports += 1
        if len(loss.places) < 4:
            loss.places.append(ref_of(frame))

    def _leads(self, frame: Frame, operation: Mapping[str, Any], partition: Partition) -> None:
        known = self._leaders.get(partition)
        leader = spelled_in(partition.namespace, name_of(operation, "leader"))
        if known is None and len(self._leaders) < MAX_SERVERS:
            known = self._leaders[partition] = []
        if known is not None and len(known) < 64 and (not known or known[-1][1] != leader):
            known.append((frame.time_ns, leader))

    # Ends.

    def ended(self, connection: Connection) -> None:
        server, health = server_of(connection.identity), connection.health
        if server is None or health is None or health.end is None or len(self._ends) >= MAX_SERVERS:
            return
        ends = self._ends.setdefault(server, [])
        if len(ends) < 64:
            ends.append((health.end.time_ns, health.end.how, connection))

    def finish(self) -> None:
        unacked: dict[Subject, list[FrameRef]] = {}
        for place, to in self._waiting.values():
            sent = place.side == client_side(place.connection) or ("capture.loss", None) not in self.report.problems
            if self.report.last_ns - place.time_ns >= PATIENCE_NS and sent and whole(place.connection):
                unacked.setdefault(to, []).append(place)
        for leader, loss in self._losses.items():
            self._report_loss(leader, loss, unacked)
        for to, places in unacked.items():
            self._report_unacked(to, places)

    def _end_of(self, server: str, loss: Loss) -> tuple[int, str, Connection] | None:
        """The end of its connections that the reports are about: the last one before."""
        before = [end for end in self._ends.get(server, ()) if end[0] <= loss.last_ns]
        return max(before, key=lambda end: end[0], default=None)

    def _report_loss(self, leader: str, loss: Loss, unacked: Mapping[Subject, list[FrameRef]]) -> None:
        led = {partition[:2] for partition in loss.partitions}
        earliest_ns = loss.place.time_ns - REPORTED_AFTER_NS
        places = chain.from_iterable(places for to, places in unacked.items() if to[:2] in led)
        unanswered_ns = [place.time_ns for place in places if earliest_ns <= place.time_ns <= loss.last_ns]
        lost = len(unanswered_ns)
        end = self._end_of(leader, loss)
        gone = f"went away: its connections ended at {self.report.seconds(end[0])}" if end else "did not answer"
        what = f"{leader}, leader of {counted(len(loss.partitions), 'partition')}, {gone}"
        severity = None if lost else "warning"
        problem = self.report.add(CODES["leader-lost"], what, leader, frame=loss.place, severity=severity)
        problem.count, problem.weight = sum(each.reports for each in loss.partitions.values()), lost
        self.report.cite(problem, *loss.places)
        if end is not None:
            self.report.concerns(problem, end[2])
        if lost:
            problem.detail(f"{lost:,} publishes to these streams got no ack")
            problem.first_ns = min(problem.first_ns or 0, *unanswered_ns)
        for partition, each in loss.partitions.items():
            after = next((who for when, who in self._leaders.get(partition, ()) if when > each.first_ns), None)
            then = f"; {after} leads it afterwards" if after and after != leader else ""
            problem.detail(f"{partition}: reported by {each.by} at {self.report.seconds(each.first_ns)}{then}")

    def _report_unacked(self, to: Subject, places: list[FrameRef]) -> None:
        where = f"{to.stream} (subject {to.subject})" if to.stream else f"subject {to.subject}"
        what = f"{counted(len(places), 'publish', 'es')} to {spelled_in(to.namespace, where)} got no ack"
        first = places[0]
        left = self.report.last_ns - first.time_ns
        severity = None if left >= ACK_TIMEOUT_NS else "warning"
        problem = self.report.about(CODES["no-ack"], what, to, places, severity=severity)
        if severity is not None:
            problem.detail(f"the capture ends {left / 1e9:.3f} s later: the ack may still have come")
        begin, end = self.report.seconds(first.time_ns), self.report.seconds(places[-1].time_ns)
        problem.detail(f"published from {begin} to {end}")


CHECKS = Checks(
    changes={"PropagatedRequest": requested_change, "RequestVote": votes, "AppendEntries": leads},
    gauges=(ReplicaLag, Cursors),
    codes=CODES,
    rules=(Cluster, Metadata, Refusals, Replicas, Silence),
    answered=frozenset({"Publish", "ReplicationRequest"}),
    publishes={"Publish": Publishing(("stream", "subject"))},
    covered=frozenset({"refused"}),
)
