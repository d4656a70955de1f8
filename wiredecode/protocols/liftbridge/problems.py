"""Problems among Liftbridge servers, changes, and the lag of replicas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.flows import EnvelopeFlows
from wiredecode.protocols.liftbridge.layers_operations import Cursor
from wiredecode.protocols.liftbridge.problems_replicas import (
    IN_SYNC,
    LEADER_LOST,
    Metadata,
    OperationRefusals,
    Partition,
    Replicas,
    SilentServers,
    cluster_of,
    name_of,
    note_sync,
    server_of,
    spelled_in,
)
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, LEADER, POSITION, REPLICAS, STREAM, TERM, Change, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import (
    MAX_EVIDENCE,
    MAX_PROBLEMS,
    Checks,
    FrameRef,
    Publishing,
    Rule,
    inner_values,
    ref_of,
)

CODES = codes_of("liftbridge")
SLOW_NS, MANY_SLOW = 200_000_000, 5
"""An answer to the metadata leader that is slow, and the number of slow ones that is worth a warning."""
MANY_JOINS = 3
"""Requests to join without an answer: servers that start together ask once or twice in vain."""
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

    def read(self, frame: Frame) -> Sequence[Measurement]:
        if len(frame.inner) < 2 or "copy_of" in frame.generated or frame.inner[1].layer is not Cursor:
            return ()
        data = frame.inner[1].data
        values = compiler.walk(Cursor, data, 0, len(data))[0]
        stream, partition, offset = values["stream"], values.get("partition", 0), values.get("offset", 0)
        of = f"{printable(stream)}[{partition}], cursor {printable(values.get('cursor_id', ''))}"
        return (Measurement(POSITION, spelled_in(cluster_of(frame), of), offset, (stream, partition, offset - 1)),)


# Rules.


@dataclass(eq=False)
class Cluster(Rule):
    """Leaders that went away, replicas out of sync."""

    types = frozenset({"PropagatedRequest"})

    def frame(self, frame: Frame) -> None:
        if "copy_of" in frame.generated:
            return
        values = inner_values(frame)
        if isinstance(operation := values.get("report_leader_op"), Mapping):
            partition = partition_of(frame, operation)
            leader = spelled_in(partition.namespace, name_of(operation, "leader"))
            self.report.facts.saw(LEADER_LOST, leader, str(partition), frame=frame, by=name_of(operation, "replica"))
        for name in IN_SYNC:
            if isinstance(operation := values.get(name), Mapping):
                note_sync(self.report, frame, name, operation, partition_of(frame, operation))


@dataclass(slots=True)
class Answers:
    """Answers of one server to the metadata leader, since the first slow one."""

    all: int = 0
    slow: int = 0
    slowest_ns: int = 0
    refs: list[FrameRef] = field(default_factory=list)


@dataclass(eq=False)
class SlowServers(Rule):
    """Servers whose answers to the metadata leader take long, while those of other servers do not."""

    types = frozenset({"AppendEntriesResponse"})
    _of: Newest[str, Answers] = field(default_factory=Newest)
    """By server."""

    def frame(self, frame: Frame) -> None:
        latency_ns, name = frame.latency_ns or 0, server_of(frame.connection.identity)
        if frame.sender != "client" or name is None or "copy_of" in frame.generated:
            return
        answers = self._of.get_or_make(name, Answers)
        answers.slow += latency_ns >= SLOW_NS
        answers.all += answers.slow > 0
        answers.slowest_ns = max(answers.slowest_ns, latency_ns)
        if latency_ns >= SLOW_NS and len(answers.refs) < MAX_PROBLEMS:
            answers.refs.append(ref_of(frame))

    def finish(self) -> None:
        for name, answers in self._of.items():
            others = sum(each.slow for each in self._of.values()) - answers.slow
            if answers.slow >= MANY_SLOW and answers.slow * 10 >= answers.all and others * 10 <= answers.slow:
                title = f"{name} is slow: {answers.slow:,} of {answers.all:,} answers to the metadata leader took "
                title += f"{SLOW_NS / 1e9:g} s or longer, the slowest {answers.slowest_ns / 1e9:.3f} s"
                self.report.about(CODES["slow-server"], title, name, answers.refs)


@dataclass(eq=False)
class Namespaces(Rule):
    """Servers that want to join an empty cluster, while one of another namespace lives at their NATS server."""

    types = frozenset({"RaftJoinRequest", "RaftJoinResponse", "AppendEntries"})
    _asked: dict[str, list[FrameRef]] = field(default_factory=dict)
    """Requests to join, by namespace ..."""
    _by: dict[str, str] = field(default_factory=dict)
    """... and the server that asks."""
    _lives: set[str] = field(default_factory=set)
    """Namespaces of clusters with a leader."""

    def frame(self, frame: Frame) -> None:
        namespace = cluster_of(frame)
        if "copy_of" in frame.generated or not namespace or max(len(self._asked), len(self._lives)) >= MAX_PROBLEMS:
            return
        if frame.type == "RaftJoinRequest":
            self._by[namespace] = name_of(inner_values(frame), "node_id")
            asked = self._asked.setdefault(namespace, [])
            if len(asked) < MAX_PROBLEMS:
                asked.append(ref_of(frame))
        else:
            self._lives.add(namespace)

    def finish(self) -> None:
        for namespace, refs in self._asked.items():
            others = sorted(self._lives - {namespace})
            if len(refs) >= MANY_JOINS and namespace not in self._lives and others:
                title = f"{self._by[namespace]} wants to join cluster {namespace}, and no server of it answers; "
                title += f"others are in {', '.join(others[:MAX_EVIDENCE])}"
                problem = self.report.about(CODES["namespace"], title, namespace, refs)
                problem.detail(f"it asked {len(refs):,} times")


CHECKS = Checks(
    flows=(EnvelopeFlows,),
    changes={"PropagatedRequest": requested_change, "RequestVote": votes, "AppendEntries": leads},
    gauges=(ReplicaLag, Cursors),
    codes=CODES,
    rules=(Cluster, Metadata, SlowServers, Namespaces, OperationRefusals, Replicas, SilentServers),
    answered=frozenset({"ReplicationRequest"}),
    expected=frozenset({"503"}),
    publishes={
        "Publish": Publishing(
            ("stream",), None, True, compared="", part="subject", unasked=("ack_policy", names.NO_ACK)
        )
    },
    covered=frozenset({"refused"}),
)
