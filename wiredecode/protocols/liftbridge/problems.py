"""Problems among Liftbridge servers, changes, and the lag of replicas."""

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import compiler, printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
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
    spelled_in,
)
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, LEADER, POSITION, REPLICAS, STREAM, TERM, Change, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, Publishing, Rule, inner_values

CODES = codes_of("liftbridge")
OPERATIONS: dict[str, tuple[str, str, str]] = names.NAMES["changes"]
"""By field of the request: kind of the change, field of who changes, and what holds from now on."""

# For the timeline.


def requested_change(frame: Frame) -> Iterator[Change]:
    """Requests of a server to the metadata leader."""
    for name, said in inner_values(frame).items():
        if name in OPERATIONS and isinstance(said, Mapping):
            kind, who, template = OPERATIONS[name]
            of = spelled_in(cluster_of(frame), stream_of(said)) if kind == STREAM else str(partition_of(frame, said))
            facts = {"of": of, "who": name_of(said, who), "leader": name_of(said, "leader")}
            yield Change(kind, f"{facts['who']} {of}" if kind == REPLICAS else of, template.format(**facts))


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
        self._requests: Newest[int, int] = Newest()

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


@dataclass(eq=False)
class Cluster(Rule):
    """Leaders that went away, replicas out of sync."""

    types = frozenset({"PropagatedRequest"})
    _lost: Newest[str, Newest[Partition, None]] = field(default_factory=Newest)
    """By leader: the partitions of which others reported it."""

    def frame(self, frame: Frame) -> None:
        if "copy_of" in frame.generated:
            return
        values = inner_values(frame)
        if isinstance(operation := values.get("report_leader_op"), Mapping):
            self._reported(frame, operation, partition_of(frame, operation))
        for name in IN_SYNC:
            if isinstance(operation := values.get(name), Mapping):
                report_sync(self.report, frame, name, operation, partition_of(frame, operation))

    def _reported(self, frame: Frame, operation: Mapping[str, Any], partition: Partition) -> None:
        leader, by = spelled_in(partition.namespace, name_of(operation, "leader")), name_of(operation, "replica")
        lost = self._lost.get_or_make(leader, lambda: Newest[Partition, None]())
        problem = self.report.add(CODES["leader-lost"], "", leader, frame=frame)
        if partition not in lost:
            lost.put(partition, None)
            problem.detail(f"{partition}: reported by {by} at {self.report.seconds(frame.time_ns)}")
        problem.title = f"{leader}, leader of {counted(len(lost), 'partition')}, did not answer"


CHECKS = Checks(
    changes={"PropagatedRequest": requested_change, "RequestVote": votes, "AppendEntries": leads},
    gauges=(ReplicaLag, Cursors),
    codes=CODES,
    rules=(Cluster, Metadata, Refusals, Replicas, Silence),
    answered=frozenset({"ReplicationRequest"}),
    publishes={
        "Publish": Publishing(
            ("stream",), None, True, compared="", part="subject", unasked=("ack_policy", names.NO_ACK)
        )
    },
    covered=frozenset({"refused"}),
)
