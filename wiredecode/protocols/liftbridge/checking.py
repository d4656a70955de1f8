"""What goes wrong among Liftbridge servers, and with what is published to them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.liftbridge.gauges import GAUGES
from wiredecode.protocols.shared.checking import CAUSE, DEED, Checks, Code, Place, Report, Rule, inner_values, place_of

LEADER_LOST = Code(
    "liftbridge.leader-lost",
    "error",
    "the leader of partitions went away",
    "Replicas reported to the metadata leader that the leader of a partition does not answer; another replica takes "
    "over. Until then nothing is stored, and publishes get no ack. It is a warning while all publishes have their ack.",
    ("the server was stopped or crashed", "it was too busy, or paused", "the network to it was cut"),
    "Look at the server that was reported, at that time; publish again what has no ack.",
    "stories/leader-killed.pcap.gz",
    CAUSE,
)
NO_ACK = Code(
    "liftbridge.no-ack",
    "error",
    "publishes got no ack",
    "The publisher asked for an ack and none came: the message may be stored, or lost.",
    ("the leader of the partition had ended", "too few replicas in sync for the ack policy ALL"),
    "Publish again what matters, with the same correlation id; see whether a leader was lost at that time.",
    "stories/leader-killed.pcap.gz",
    DEED,
)
ISR = Code(
    "liftbridge.isr-shrink",
    "warning",
    "a replica fell out of sync",
    "The leader of a partition removed a replica from the replicas in sync: fewer copies are safe, and with too few, "
    "publishes with the ack policy ALL wait.",
    ("the replica was stopped, paused or too slow", "the network between both was cut"),
    "Look at the replica at that time; it comes back by itself once it has caught up.",
    "stories/leader-killed.pcap.gz",
    DEED,
)
ELECTION = Code(
    "liftbridge.election",
    "note",
    "the metadata leader was elected anew",
    "A server asked for votes, in a new term.",
    ("the metadata leader went away or was too slow", "the cluster was started"),
    "Elections without a reason point to a network or servers that are too slow for their timeouts.",
    "stories/leader-killed.pcap.gz",
)
MOST_WAITING = 65_536
"""Publishes that may wait for their ack at once; the oldest are then not judged."""
MOST_SERVERS = 1000
"""Servers, and partitions of one, that are remembered."""
PATIENCE_NS = 1_000_000_000
"""A publish has no ack when so much of the capture followed."""
REPORTED_AFTER_NS = 30_000_000_000
"""Publishes so long before a report belong to it."""
CLIENT_NAME = "LIFT."


@dataclass(slots=True)
class Partition:
    """Of one that lost its leader."""

    first_ns: int
    by: str
    reports: int = 0


@dataclass(slots=True)
class Loss:
    """A leader that was reported."""

    place: Place
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    last_ns: int = 0


class Cluster(Rule):
    """Publishes without ack, leaders that went away, replicas out of sync, elections."""

    types = frozenset({"Publish", "Ack", "PropagatedRequest", "RequestVote"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._waiting: OrderedDict[tuple[str, str], tuple[Place, str, str]] = OrderedDict()
        self._losses: dict[str, Loss] = {}
        self._ends: dict[str, list[tuple[int, str, Connection]]] = {}
        """By server: when and how its connections to NATS ended."""
        self._leaders: dict[tuple[str, int], list[tuple[int, str]]] = {}
        """By partition: who said to lead it, and when."""

    def frame(self, frame: Frame) -> None:
        if "copy_of" in frame.generated or (frame.type == "RequestVote" and frame.sender == "server"):
            return
        values = inner_values(frame)
        if frame.type == "Publish":
            self._published(frame, values)
        elif frame.type == "Ack":
            self._waiting.pop((values.get("ack_inbox", ""), values.get("correlation_id", "")), None)
        elif frame.type == "RequestVote":
            candidate, term = printable(str(values.get("candidate", "?"))), values.get("term", 0)
            problem = self.report.add(ELECTION, f"{candidate} asked for votes", candidate, frame=frame)
            if problem is not None:
                problem.detail(f"term {term}")
        else:
            self._operation(frame, values)

    # Publishes.

    def _published(self, frame: Frame, values: Mapping[str, Any]) -> None:
        if not frame.expects_response:
            return
        key = values.get("ack_inbox", ""), values.get("correlation_id", "")
        stream, subject = printable(values.get("stream", "")), printable(frame.values.get("subject", ""))
        self._waiting[key] = place_of(frame), stream, subject
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)

    def _unacked(self) -> list[tuple[Place, str, str]]:
        last = self.report.last_ns
        return [each for each in self._waiting.values() if last - each[0].time_ns >= PATIENCE_NS]

    # Operations.

    def _operation(self, frame: Frame, values: Mapping[str, Any]) -> None:
        for name, take in (
            ("report_leader_op", self._reported),
            ("shrink_isr_op", self._shrunk),
            ("expand_isr_op", self._expanded),
        ):
            operation = values.get(name)
            if isinstance(operation, Mapping):
                take(frame, operation, (printable(operation.get("stream", "")), operation.get("partition", 0)))

    def _reported(self, frame: Frame, operation: Mapping[str, Any], partition: tuple[str, int]) -> None:
        leader, by = printable(operation.get("leader", "?")), printable(operation.get("replica", "?"))
        if leader not in self._losses and len(self._losses) >= MOST_SERVERS:
            return
        loss = self._losses.setdefault(leader, Loss(place_of(frame)))
        loss.last_ns = frame.time_ns
        if len(loss.partitions) < MOST_SERVERS:
            loss.partitions.setdefault(partition, Partition(frame.time_ns, by)).reports += 1
        if len(loss.places) < 4:
            loss.places.append(place_of(frame))

    def _shrunk(self, frame: Frame, operation: Mapping[str, Any], partition: tuple[str, int]) -> None:
        self._leads(frame, operation, partition)
        replica = printable(operation.get("replica_to_remove", "?"))
        what = f"{replica} fell out of the replicas in sync"
        problem = self.report.add(ISR, what, replica, frame=frame)
        if problem is not None:
            when = self.report.seconds(frame.time_ns)
            problem.detail(f"{spelled(partition)}: removed at {when} by {printable(operation.get('leader', '?'))}")

    def _expanded(self, frame: Frame, operation: Mapping[str, Any], partition: tuple[str, int]) -> None:
        self._leads(frame, operation, partition)
        replica = printable(operation.get("replica_to_add", "?"))
        problem = self.report.problems.get((ISR.code, replica))
        if problem is not None:
            self.report.cite(problem, frame)
            problem.detail(f"{spelled(partition)}: back in sync at {self.report.seconds(frame.time_ns)}")

    def _leads(self, frame: Frame, operation: Mapping[str, Any], partition: tuple[str, int]) -> None:
        known = self._leaders.get(partition)
        leader = printable(operation.get("leader", "?"))
        if known is None and len(self._leaders) < MOST_SERVERS:
            known = self._leaders[partition] = []
        if known is not None and len(known) < 64 and (not known or known[-1][1] != leader):
            known.append((frame.time_ns, leader))

    # Ends.

    def ended(self, connection: Connection) -> None:
        name = self.report.names.get(connection).get("name", "")
        health = connection.health
        if not name.startswith(CLIENT_NAME) or health is None or health.end is None or len(self._ends) >= MOST_SERVERS:
            return
        server = name.split(".")[-2] if name.count(".") >= 3 else name
        ends = self._ends.setdefault(server, [])
        if len(ends) < 64:
            ends.append((health.end.time_ns, health.end.how, connection))

    def finish(self) -> None:
        unacked = self._unacked()
        streams: dict[tuple[str, str], list[Place]] = {}
        for place, stream, subject in unacked:
            streams.setdefault((stream, subject), []).append(place)
        for leader, loss in self._losses.items():
            self._tell_loss(leader, loss, streams)
        for (stream, subject), places in streams.items():
            self._tell_unacked(stream, subject, places)

    def _end_of(self, server: str, loss: Loss) -> tuple[int, str, Connection] | None:
        """The end of its connections that the reports are about: the last one before."""
        before = [end for end in self._ends.get(server, ()) if end[0] <= loss.last_ns]
        return max(before, key=lambda end: end[0], default=None)

    def _tell_loss(self, leader: str, loss: Loss, streams: Mapping[tuple[str, str], list[Place]]) -> None:
        led = {stream for stream, _ in loss.partitions}
        lost = sum(
            loss.place.time_ns - REPORTED_AFTER_NS <= place.time_ns <= loss.last_ns
            for (stream, _), places in streams.items()
            if stream in led
            for place in places
        )
        end, several = self._end_of(leader, loss), "s" * (len(loss.partitions) != 1)
        gone = f"went away: its connections ended at {self.report.seconds(end[0])}" if end else "did not answer"
        what = f"{leader}, leader of {len(loss.partitions)} partition{several}, {gone}"
        severity = None if lost else "warning"
        problem = self.report.add(LEADER_LOST, what, leader, frame=loss.place, severity=severity)
        if problem is None:
            return
        problem.count, problem.weight = sum(each.reports for each in loss.partitions.values()), lost
        for place in loss.places:
            self.report.cite(problem, place)
        if end is not None:
            self.report.concerns(problem, end[2])
        if lost:
            problem.detail(f"{lost:,} publishes to these streams got no ack")
        for partition, each in loss.partitions.items():
            after = next((who for when, who in self._leaders.get(partition, ()) if when > each.first_ns), None)
            then = f"; {after} leads it afterwards" if after and after != leader else ""
            problem.detail(f"{spelled(partition)}: reported by {each.by} at {self.report.seconds(each.first_ns)}{then}")

    def _tell_unacked(self, stream: str, subject: str, places: list[Place]) -> None:
        several, where = "es" * (len(places) != 1), f"{stream} (subject {subject})" if stream else f"subject {subject}"
        what = f"{len(places):,} publish{several} to {where} got no ack"
        first = places[0]
        problem = self.report.add(NO_ACK, what, (stream, subject), frame=first)
        if problem is None:
            return
        problem.count = problem.weight = len(places)
        for place in places:
            self.report.cite(problem, place)
            self.report.concerns(problem, place.connection)
        begin, end = self.report.seconds(first.time_ns), self.report.seconds(places[-1].time_ns)
        problem.detail(f"published from {begin} to {end}")


def spelled(partition: tuple[str, int]) -> str:
    return f"{partition[0]}[{partition[1]}]"


CHECKS = Checks(
    gauges=GAUGES,
    codes=(LEADER_LOST, NO_ACK, ISR, ELECTION),
    rules=(Cluster,),
    answered=frozenset({"Publish"}),
)
