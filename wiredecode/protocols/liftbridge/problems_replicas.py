"""Lag of replicas, and servers that went silent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.names import DEFAULT_NAMESPACE
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Rule, inner_values, ref_of

CODES = codes_of("liftbridge")

CLIENT_NAME = "LIFT."
MOST_PARTITIONS = 10_000
"""Of which the newest offsets are remembered."""
MOST_STEPS = 1024
"""Newest offsets of a partition that are remembered."""
LAG_NS, LEAST_LAG_NS = 5_000_000_000, 1_000_000_000
"""Lag of replicas that is a warning, or a note."""
SILENT_NS = 1_000_000_000
SILENT_REQUESTS = 3
"""A server that got this many requests, and sent nothing for `SILENT_NS`, is silent."""


def server_of(who: Mapping[str, str]) -> str | None:
    """The server of a connection, by the name of its client: ``LIFT.namespace.server.purpose``."""
    name = who.get("name", "")
    if not name.startswith(CLIENT_NAME):
        return None
    parts = name.split(".")
    return spelled_in(".".join(parts[1:-2]), parts[-2]) if len(parts) > 3 else name


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
        if len(self.offsets) > 2 * MOST_STEPS:
            del self.offsets[:MOST_STEPS], self.times[:MOST_STEPS]

    def after(self, offset: int) -> int | None:
        """Since when there is a message after this offset."""
        index = bisect_right(self.offsets, offset)
        return self.times[index] if index < len(self.times) else None


@dataclass(eq=False)
class Replicas(Rule):
    """Lag of replicas when they ask for messages: time since the next message was known to be there."""

    types = frozenset({"ReplicationRequest", "ReplicationResponse", "Ack"})
    _logs: Newest[Partition, Log] = field(default_factory=lambda: Newest(MOST_PARTITIONS))
    _worst: dict[str, dict[Partition, tuple[int, int]]] = field(default_factory=dict)
    """By replica and partition: the largest lag, and its time."""

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
        known = self._logs.get(partition)
        since = None if known is None else known.after(values.get("offset", 0))
        if since is not None and frame.time_ns - since >= LEAST_LAG_NS:
            replica = spelled_in(partition.namespace, printable(values.get("replica_id", "?")))
            self._lags(frame, replica, partition, since)

    def _lags(self, frame: Frame, replica: str, partition: Partition, since: int) -> None:
        if not self.report.covers(frame.time_ns):
            return
        lag = frame.time_ns - since
        problem = self.report.add(CODES["replica-lag"], f"{replica} lags behind", replica, frame=frame, severity="note")
        worst = self._worst.setdefault(replica, {})
        if lag > worst.get(partition, (0, 0))[0] and len(worst) < MOST_PARTITIONS:
            worst[partition] = lag, frame.time_ns
        if lag > problem.weight:
            problem.weight = lag
            problem.what = f"{replica} was up to {lag / 1e9:.3f} s behind its leaders"
            if lag >= LAG_NS:
                problem.severity = CODES["replica-lag"].severity

    def finish(self) -> None:
        for replica, worst in self._worst.items():
            problem = self.report.problems.get((CODES["replica-lag"].code, replica))
            for partition, (lag, time_ns) in sorted(worst.items(), key=lambda item: -item[1][0]):
                at = self.report.seconds(time_ns)
                if problem is not None:
                    problem.detail(f"{partition}: {lag / 1e9:.3f} s behind at {at}")


@dataclass(slots=True)
class Server:
    """Requests that a server got since it sent anything itself."""

    place: FrameRef | None = None
    """The first request."""
    requests: int = 0


@dataclass(eq=False)
class Silence(Rule):
    """Servers that got requests, and sent nothing."""

    types = frozenset(names.MESSAGE_TYPES.values()) | {
        *("AppendEntries", "AppendEntriesResponse", "RequestVote", "RequestVoteResponse"),
        *("RaftConnectRequest", "RaftConnectResponse", "InstallSnapshot", "InstallSnapshotResponse"),
    }
    _servers: dict[str, Server] = field(default_factory=dict)
    _of: dict[int, str | None] = field(default_factory=dict)
    """By connection."""

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        if number not in self._of:
            self._of[number] = server_of(frame.connection.who)
        name = self._of[number]
        if name is None:
            return
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = Server()
        if frame.sender == "server":
            if frame.expects_response:
                server.requests += 1
                if server.place is None:
                    server.place = ref_of(frame)
        elif server.place is not None:
            self._spoke(name, server, frame.time_ns)

    def _spoke(self, name: str, server: Server, time_ns: int) -> None:
        place, requests = server.place, server.requests
        server.place, server.requests = None, 0
        if place is None or requests < SILENT_REQUESTS or time_ns - place.time_ns < SILENT_NS:
            return
        problem = self.report.add(CODES["server-silent"], f"{name} went silent", name, frame=place)
        silent = time_ns - place.time_ns
        problem.weight, problem.last_ns = max(problem.weight, silent), time_ns
        problem.what = f"{name} sent nothing for up to {problem.weight / 1e9:.3f} s"
        begin, end = self.report.seconds(place.time_ns), self.report.seconds(time_ns)
        problem.detail(f"from {begin} to {end}, while {requests:,} requests came for it")

    def ended(self, connection: Connection) -> None:
        """A server whose connections end is gone, not silent."""
        name = self._of.pop(connection.number, None)
        server = self._servers.get(name) if name is not None else None
        if name is None or server is None or connection.health is None:
            return
        end = connection.health.end
        self._spoke(name, server, connection.health.last_ns if end is None else end.time_ns)
