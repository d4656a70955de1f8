"""Consumer groups: members that do not poll, groups that rebalance again and again, and how far groups lag."""

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import errors_in, partitions
from wiredecode.protocols.kafka.layers_table import ERRORS
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import BLOCKED, IDLE, place_of
from wiredecode.protocols.shared.gauges import LAG, MAX_KNOWN, POSITION, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest, TopicPartition
from wiredecode.protocols.shared.problems import MAX_PROBLEMS, FrameRef, Rule, ref_of
from wiredecode.protocols.shared.rebalances import Rebalances

CODES = codes_of("kafka")


class CommittedLags(Gauge):
    """Offsets that groups committed, and how far these are from the end of the partition."""

    types = names.TYPES["lags"]

    def __init__(self) -> None:
        self._ends: Newest[TopicPartition, int] = Newest(MAX_KNOWN)
        self._committed: Newest[TopicPartition, dict[str, int]] = Newest(MAX_KNOWN)
        """By partition, then by group."""

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values = frame.values
        if frame.type == "OffsetCommitResponse":
            if frame.asked is not None and not any(errors_in(values)):
                said = frame.asked.values
                yield from self._commit(printable(said["group_id"]), self._found(said, "committed_offset"))
        elif frame.type == "OffsetFetchResponse":
            for each in values.get("groups", ()):
                yield from self._commit(printable(each["group_id"]), self._found(each, "committed_offset"))
        else:
            for partition, end in (self._found(values, "high_watermark") or self._found(values, "base_offset")).items():
                if self._ends.get(partition, -1) < end:
                    self._ends.put(partition, end)
                    yield from self._lag(partition, self._committed.get(partition, {}))

    def _found(self, values: Mapping[str, Any], name: str) -> dict[TopicPartition, int]:
        """A value of each partition; -1 is none."""
        return {(topic, number): each[name] for topic, number, each in partitions(values) if each.get(name, -1) >= 0}

    def _commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> Iterator[Measurement]:
        for partition, offset in offsets.items():
            groups = self._committed.get_or_make(partition, dict)
            if group in groups or len(groups) < MAX_GROUPS:
                groups[group] = offset
            yield Measurement(POSITION, describe_group(partition, group), offset, (*partition, offset - 1))
            yield from self._lag(partition, {group: offset})

    def _lag(self, partition: TopicPartition, offsets: Mapping[str, int]) -> Iterator[Measurement]:
        """How far the groups are from the end of a partition, if that is known."""
        for group, offset in offsets.items() if partition in self._ends else ():
            yield Measurement(LAG, describe_group(partition, group), max(self._ends[partition] - offset, 0))


def describe_group(partition: TopicPartition, group: str) -> str:
    return f"{partition[0]}[{partition[1]}], group {group}"


MAX_GROUPS = 100
"""Groups of a partition whose lag is measured."""
STAYED_NS = 3_000_000_000
"""A member that closes leaves its group this long before the end of its connection at most."""
LONG_OPEN_NS = 5_000_000_000
"""A transaction that readers wait for this long, until the end of the capture, is reported; a member that its group
waits for, too."""
VERSION, COUNT = 2, 4
"""Bytes of an assignment before and of its number of topics (ConsumerProtocolAssignment)."""
UNKNOWN_MEMBER, FENCED_EPOCH, ILLEGAL_GENERATION, REBALANCING = 25, 110, 22, 27


@dataclass(slots=True)
class DynamicMember:
    """A member of a group that is not static (those do not leave), by its connection to the coordinator."""

    group: str
    patience_ms: int = 0
    """Longest time between two polls: ``max.poll.interval.ms``."""
    joined_ns: int = 0
    """When it asked for or got its last generation, if that was captured."""
    rebalancing_ns: int = 0
    """Since when its heartbeats are answered that the group rebalances, and waits for it."""
    left_at: FrameRef | None = None
    asked: FrameRef | None = None
    """Its request to join that has no answer yet."""
    id: str = ""


@dataclass(eq=False)
class Members(Rule):
    """Consumers that leave because they do not poll, and those that the coordinator dropped; groups without rest."""

    types = names.TYPES["members"]
    _members: Newest[int, DynamicMember] = field(default_factory=Newest)
    _left: Newest[str, None] = field(default_factory=Newest)
    """Ids of members that left: franz-go joins, beats and leaves on different connections."""
    _used: Newest[str, int] = field(default_factory=Newest)
    """When a member was heard last, on any connection: coordinators move."""
    _idle: Newest[tuple[str, str], FrameRef] = field(default_factory=Newest)
    """By group and member: the answer that gave it no partition, if it is the last one."""
    _over: list[tuple[DynamicMember, Connection]] = field(default_factory=list)
    """Members that may have ended without leaving."""

    def __post_init__(self) -> None:
        self._groups = Rebalances(self.report, CODES["rebalance-storm"], CODES["no-member"])

    def frame(self, frame: Frame) -> None:
        values, number = frame.values, frame.connection.number
        group = None if frame.sender == "server" or values.get("group_instance_id") else values.get("group_id")
        member = self._members.get(number)
        if frame.sender == "server" and member is not None and frame.request is not None:
            self._answered(frame, member)
        elif isinstance(group, str):
            member = self._members.get_or_make(number, lambda: DynamicMember(printable(group)))
            member.id = values.get("member_id") or member.id
            self._used.put(member.id, frame.time_ns)
            if frame.type == "LeaveGroupRequest":
                member.left_at = ref_of(frame)
                for each in (values, *(values.get("members") or ())):
                    self._left.put(each.get("member_id") or "", None)
            elif frame.type == "JoinGroupRequest":
                self._report_slow(frame.connection, member, frame.time_ns)
                member.joined_ns, member.rebalancing_ns = frame.time_ns, 0
                member.asked = ref_of(frame)
                member.patience_ms = values.get("rebalance_timeout_ms", member.patience_ms)

    def _answered(self, frame: Frame, member: DynamicMember) -> None:
        values, commits = frame.values, frame.type == "OffsetCommitResponse"
        if frame.type == "OffsetFetchResponse":
            for topic, number, each in partitions(next(iter(values.get("groups") or ()), values)):
                self._groups.began(member.group, (topic, number), each.get("committed_offset", -1))
            return
        error = next(errors_in(values), 0) if commits else values.get("error", 0)
        unknown = error in (UNKNOWN_MEMBER, FENCED_EPOCH) and (commits or member.id not in self._left)
        left = member.left_at is not None and frame.time_ns - member.left_at.time_ns < STAYED_NS  # its last commit
        if not left and (unknown or (commits and error == ILLEGAL_GENERATION)):
            does = "commits" if commits else "asks"
            title = f"{short(frame.connection)} {does}, but is no longer a member of group {member.group}"
            problem = self.report.add(CODES["kicked-out"], title, (frame.connection.number, title), frame=frame)
            problem.detail(f"the coordinator answers {ERRORS[error]}")
        elif error == REBALANCING and frame.type == "HeartbeatResponse":
            member.rebalancing_ns = member.rebalancing_ns or frame.time_ns
            if frame.time_ns - member.rebalancing_ns >= LONG_OPEN_NS:
                who, since = short(frame.connection), self.report.seconds(member.rebalancing_ns)
                title = f"group {member.group} waits for {who} from {since} on: it does not join again"
                self.report.add(CODES["max-poll"], title, title, frame=frame, severity="warning")
        elif not error and frame.type == "SyncGroupResponse":
            member.joined_ns, member.asked = frame.time_ns, None
            self._idle.pop((member.group, member.id), None)
            if (values.get("assignment") or b"")[VERSION : VERSION + COUNT] == bytes(COUNT):
                self._idle.put((member.group, member.id), ref_of(frame))
        elif not error:
            if frame.type == "JoinGroupResponse" and member.asked is not None:
                self._groups.waited(member.group, member.asked, frame.time_ns)
            self._groups.generation(frame, member.group, values.get("generation_id", values.get("member_epoch", -1)))

    def _report_slow(self, connection: Connection, member: DynamicMember, until_ns: int) -> None:
        left_at, member.left_at = member.left_at, None
        if left_at is None or not 0 < member.patience_ms * 1_000_000 <= left_at.time_ns - member.joined_ns:
            return
        away = f"{(until_ns - left_at.time_ns) / 1e9:.3f} s"
        title = f"{short(connection)} left group {member.group} for {away} without closing: it did not poll"
        problem = self.report.add(CODES["max-poll"], title, (connection.number, member.group), frame=left_at)
        problem.detail(f"max.poll.interval.ms is {member.patience_ms:,} ms")

    def ended(self, connection: Connection) -> None:
        member = self._members.pop(connection.number, None)
        last_ns = connection.health.last_ns if connection.health is not None else 0
        if member is not None and member.left_at is not None and last_ns - member.left_at.time_ns >= STAYED_NS:
            self._report_slow(connection, member, last_ns)
        elif member is not None and member.left_at is None and connection.closed and len(self._over) < MAX_PROBLEMS:
            self._over.append((member, connection))

    def gather(self) -> None:
        for of, ref in self._idle.items():
            self.report.facts.saw(IDLE, *of, frame=ref, by=short(ref.connection))

    def finish(self) -> None:
        for member, connection in self._over:
            last_ns = connection.health.last_ns if connection.health is not None else 0
            if member.id not in self._left and self._used.get(member.id, 0) <= last_ns:
                self._groups.crashed(member.group, connection)
        self._groups.finish()


MAX_ABORTED, FEW_ABORTED = 1000, 5
"""Aborted transactions of a partition that one answer may add; and those that are no accident."""


@dataclass(eq=False)
class Blocked(Rule):
    """Partitions in which readers of committed records wait for a transaction that does not end."""

    types = frozenset({"FetchResponse", "AddPartitionsToTxnRequest", "ProduceRequest", "EndTxnRequest"})
    _waits: Newest[TopicPartition, tuple[FrameRef, FrameRef, int, int]] = field(default_factory=Newest)
    """First and latest answer without records, where the transaction begins, and the end of the partition."""
    _open: Newest[str, FrameRef] = field(default_factory=Newest)
    """The last request in a transaction that has not ended, by transactional id."""

    def frame(self, frame: Frame) -> None:
        values, ref = frame.values, ref_of(frame)
        writer = values.get("transactional_id") or values.get("v3_and_below_transactional_id")  # later ones: of brokers
        self._open.pop(writer or "", None)
        if writer and frame.type != "EndTxnRequest":
            self._open.put(writer, ref)
        for topic, number, each in partitions(values) if frame.type == "FetchResponse" else ():
            if each.get("aborted_transactions") is None:
                continue  # uncommitted records were asked for, too
            stable, end = each.get("last_stable_offset", -1), each.get("high_watermark", -1)
            first, _, before, _ = self._waits.pop((topic, number), (ref, ref, stable, end))
            if 0 <= stable < end and not each.get("batches"):
                self._waits.put((topic, number), (first if stable == before else ref, ref, stable, end))

    def gather(self) -> None:
        for (topic, number), (first, latest, *_) in self._waits.items():
            since_ns, until_ns = first.time_ns, latest.time_ns
            self.report.facts.note(
                BLOCKED, f"{topic}[{number}]", since_ns=since_ns, until_ns=until_ns, at=place_of(first)
            )

    def finish(self) -> None:
        for (topic, number), (first, latest, stable, end) in self._waits.items():
            if (waited_ns := latest.time_ns - first.time_ns) >= LONG_OPEN_NS:
                waited = f"for {waited_ns / 1e9:.3f} s, {end - stable:,} offsets before its end"
                title = f"readers of {topic}[{number}] wait at offset {stable:,} {waited}: a transaction is open there"
                writers = list(self._open.values())
                alive = bool(writers) and all(latest.time_ns - each.time_ns < LONG_OPEN_NS for each in writers)
                code, severity = CODES["transaction-open"], "note" if alive else None  # as Flink, between checkpoints
                problem = self.report.about(code, title, (topic, number), [first, latest], severity=severity)
                problem.to_end = True
                does = "still writes" if alive else "did not end it"
                for each in writers:
                    problem.detail(f"{short(each.connection)} began a transaction, and {does}")


def client_name(connection: Connection) -> str:
    """A client by its name, or by its host: it has a connection to each broker."""
    host = connection.named_endpoints[client_side(connection)].rpartition(":")[0]
    return connection.identity.get("name") or host


@dataclass(eq=False)
class AbortedReads(Rule):
    """Consumers that are given records of aborted transactions, which others leave out."""

    types = frozenset({"FetchResponse"})
    _aborted: Newest[TopicPartition, set[tuple[int, int]]] = field(default_factory=Newest)
    """Producer and first offset of aborted transactions, in answers to readers of committed records."""
    _readers: Newest[tuple[str, str], dict[TopicPartition, FrameRef]] = field(default_factory=Newest)
    """The last records of clients that read all, by name and topic."""
    _careful: Newest[str, str] = field(default_factory=Newest)
    """A client that reads committed records, by topic."""

    def frame(self, frame: Frame) -> None:
        if frame.asked is None or frame.asked.copies:
            return  # replicas get all
        for topic, number, each in partitions(frame.values):
            aborted = each.get("aborted_transactions")
            if aborted is not None:
                known = self._aborted.get_or_make((topic, number), set) if aborted else set()
                known.update((one["producer_id"], one["first_offset"]) for one in aborted[:MAX_ABORTED] if len(one) > 1)
                self._careful.put(topic, client_name(frame.connection))
            elif each.get("batches"):
                self._readers.get_or_make((client_name(frame.connection), topic), dict)[topic, number] = ref_of(frame)

    def finish(self) -> None:
        for (client, topic), read in self._readers.items():
            count = sum(len(self._aborted.get(place) or ()) for place in read)
            if count >= FEW_ABORTED:
                title = f"{client} reads records of {count:,} aborted transactions in {printable(topic)}: "
                title += f"{self._careful.get(topic)} leaves them out"
                refs = [*read.values()]
                self.report.about(CODES["aborted-reads"], title, (client, topic), refs, count=count)
