"""Sequence numbers and times of producers, sessions of fetches, and brokers that advertise one address."""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.protocols.kafka.conversation_values import partitions
from wiredecode.protocols.kafka.problems_groups import CODES
from wiredecode.protocols.shared.advertised import is_address, join
from wiredecode.protocols.shared.facts import Kind
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Rule, ref_of
from wiredecode.protocols.shared.times import ahead_of, unit_of

MANY_SESSIONS, FEW = 20, 20
"""Fetch sessions (KIP-227) that a client opened, at least; and for each that was used again."""
WRONG_BROKER = Kind("wrong-broker", ("server",), 1 << 62)
"""A broker answered that another one leads the partition or coordinates the group."""
WRONG = frozenset({6, 16})
SESSION_UNKNOWN = 70
MAGIC_AT, MAGIC, PRODUCER_AT, PRODUCER = 16, 2, 43, Struct(">qhii")
"""Of a batch: where its version is, and its producer's id, epoch, first sequence number and number of records."""


LAST_TIME_AT, LAST_TIME = 35, Struct(">q")
"""Of a batch: where the time of its last record is."""


class SentBatch(NamedTuple):
    """A batch of an idempotent producer."""

    first: int
    next: int
    """Its first sequence number, and the one after its last."""
    id: int
    ref: FrameRef


Producer = tuple[int, str, int | None]
"""Producer id, topic, partition."""


class Sequences:
    """The latest batches of idempotent producers: which of them a broker misses when it refuses the next one."""

    def __init__(self) -> None:
        self._sent: Newest[Producer, SentBatch] = Newest()
        self._unanswered: Newest[Producer, SentBatch] = Newest()
        """The oldest batch since the last one that was answered."""
        self._of: Newest[int, list[Producer]] = Newest()
        """By request."""

    def request(self, frame: Frame) -> None:
        """A ProduceRequest."""
        for producer, first, count in batches_in(frame):
            sent = SentBatch(first, first + count, frame.id, ref_of(frame))
            self._sent.put(producer, sent)
            self._of.get_or_make(frame.id, list).append(producer)
            self._unanswered.add(producer, sent)

    def answered(self, frame: Frame) -> None:
        """A ProduceResponse without errors."""
        for producer in self._of.pop(frame.request or 0, ()):
            if producer in self._unanswered and self._unanswered[producer].id <= (frame.request or 0):
                del self._unanswered[producer]

    def explain(self, frame: Frame) -> Iterator[tuple[str, FrameRef]]:
        """For a ProduceResponse that refuses a sequence: what is missing, and the batch that has no answer."""
        for producer in self._of.pop(frame.request or 0, ()):
            sent, lost = self._sent.get(producer), self._unanswered.get(producer)
            if sent is not None and lost is not None and lost.first < sent.first:
                where = f"{printable(producer[1])}[{producer[2]}]"
                text = f"sequence {lost.first:,} of {where} was sent in frame {lost.ref.number} of "
                text += f"{short(lost.ref.connection)} and has no answer; the producer sent {sent.first:,} next"
                yield text, lost.ref


def batches_in(frame: Frame) -> Iterator[tuple[Producer, int, int]]:
    """Producer, first sequence number and number of records of the first batches of idempotent producers."""
    for topic, number, each in partitions(frame.values):
        raw = each.get("batches")
        if isinstance(raw, bytes | memoryview) and len(raw) >= PRODUCER_AT + PRODUCER.size and raw[MAGIC_AT] == MAGIC:
            producer, _, first, count = PRODUCER.unpack_from(raw, PRODUCER_AT)
            if producer >= 0 and first >= 0:
                yield (producer, topic, number), first, count


class TransactionalIds:
    """The producers that began with a transactional id: each one fences the one before."""

    def __init__(self) -> None:
        self._begun: Newest[str, FrameRef] = Newest()
        """The latest, by transactional id."""
        self._used: Newest[tuple[str, str], str] = Newest()
        """By name and host of a client."""

    def request(self, frame: Frame) -> None:
        """An InitProducerIdRequest."""
        if chosen := frame.values.get("transactional_id"):
            self._begun.put(chosen, ref_of(frame))
            self._used.put(client_of(frame), chosen)

    def explain(self, frame: Frame) -> tuple[str, FrameRef] | None:
        """For a response to a producer that was fenced: its transactional id, and who began with it later."""
        client = client_of(frame)
        chosen = self._used.get(client, "")
        latest = self._begun.get(chosen)
        if latest is None or client_of(latest) == client:
            return None
        return printable(chosen), latest


def client_of(said: Frame | FrameRef) -> tuple[str, str]:
    """Name and host of the client of a connection."""
    connection = said.connection
    return connection.identity.get("name", ""), connection.endpoints[client_side(connection)].rpartition(":")[0]


@dataclass(slots=True)
class Sessions:
    """The fetch sessions of one connection."""

    latest: int = 0
    """The id in its last answer."""
    opened: int = 0
    reused: int = 0
    unknown: int = 0
    """Answers that the broker does not know the session."""
    refs: list[FrameRef] = field(default_factory=list)


@dataclass(eq=False)
class FetchSessions(Rule):
    """Clients that open a fetch session with each request, and those whose sessions the broker forgets."""

    types = frozenset({"FetchResponse"})
    _of: Newest[int, Sessions] = field(default_factory=Newest)
    """By connection."""

    def frame(self, frame: Frame) -> None:
        values, number = frame.values, frame.connection.number
        session, known = values.get("session_id", 0), self._of.get(number)
        if known is None:
            if not session:
                return
            known = self._of.get_or_make(number, Sessions)
        if session and session == known.latest:
            known.reused += 1
            return
        known.opened, known.latest = known.opened + (session > 0), session
        known.unknown += values.get("error") == SESSION_UNKNOWN
        if len(known.refs) < MAX_EVIDENCE:
            known.refs.append(ref_of(frame))

    def finish(self) -> None:
        some = [each for each in self._of.values() if each.opened >= MANY_SESSIONS and each.opened >= FEW * each.reused]
        wasting = [each for each in some if not each.unknown]
        for each in wasting or some:
            ref = each.refs[0]
            title = f"{short(ref.connection)} opened {each.opened:,} fetch sessions and used none again"
            if each.reused:
                title = (
                    f"{short(ref.connection)} opened {each.opened:,} fetch sessions, for {each.reused:,} later fetches"
                )
            if each.unknown:
                title = f"{ref.connection.endpoints[ref.side]} forgot {each.unknown:,} fetch sessions of "
                title += short(ref.connection)
            problem = self.report.about(CODES["fetch-sessions"], title, title, each.refs, count=each.opened)
            for other in some:
                forgotten = other.unknown and f"{other.unknown:,} sessions of {short(other.refs[0].connection)}"
                if other is not each and forgotten:
                    self.report.cite(problem, *other.refs[:1])
                    self.report.concerns(problem, other.refs[0].connection)
                    problem.detail(f"the broker dropped {forgotten} meanwhile (FETCH_SESSION_ID_NOT_FOUND)")


@dataclass(eq=False)
class OneAddress(Rule):
    """Several brokers that advertise one address, which leads to one of them at a time."""

    types = frozenset({"MetadataResponse"})
    _shared: Newest[tuple[str, int], tuple[int, FrameRef]] = field(default_factory=Newest)
    """By address: its brokers, and the answer that says so."""

    def frame(self, frame: Frame) -> None:
        nodes: dict[tuple[str, int], set[int]] = {}
        for each in frame.values.get("brokers") or ():
            if "port" in each:
                nodes.setdefault((each["host"], each["port"]), set()).add(each["node_id"])
        for address, ids in nodes.items():
            if len(ids) > 1 and address not in self._shared:
                self._shared.put(address, (len(ids), ref_of(frame)))

    def finish(self) -> None:
        for (host, port), (number, ref) in self._shared.items():
            server = join(host, port) if is_address(host) else ref.connection.endpoints[ref.side]
            for fact in self.report.facts.of(WRONG_BROKER, server):
                title = f"{number} brokers advertise one address, {join(printable(host), port)}: "
                title += f"{fact.times:,} requests reached one that does not lead or coordinate"
                how: Any = {"until_ns": fact.until_ns, "count": fact.times}
                problem = self.report.add(CODES["one-address"], title, server, frame=ref, **how)
                self.report.cite(problem, *fact.places)
                for place in fact.places:
                    self.report.concerns(problem, place.connection)


@dataclass(eq=False)
class RecordTimes(Rule):
    """Times in another unit than milliseconds, and offsets of times that are yet to come."""

    types = frozenset({"ProduceRequest", "ListOffsetsRequest"})

    def frame(self, frame: Frame) -> None:
        now_ms, of = frame.time_ns // 1_000_000, frame.connection.identity.get("name") or short(frame.connection)
        for topic, _, each in partitions(frame.values):
            name = printable(topic)
            if frame.type == "ListOffsetsRequest":
                if ahead_ms := ahead_of(each.get("timestamp", -1), now_ms):
                    title = f"{of} asks for the offsets of a time that is {ahead_ms / 1000:,.0f} s ahead, in {name}"
                    problem = self.report.add(CODES["clock"], title, (of, name), frame=frame)
                    problem.likely = "the clock of the client is wrong: no record has such a time yet"
            elif unit := unit_of(last_time(each.get("batches")), now_ms):
                title = f"{of} gives records of {name} times in {unit} in place of milliseconds"
                problem = self.report.add(CODES["clock"], title, (of, name, unit), frame=frame)
                problem.likely = "retention by time deletes such records immediately, or never"


def last_time(raw: Any) -> int:
    """The time of the last record of a batch, ms; -1: it is of an old format."""
    if not isinstance(raw, bytes | memoryview) or len(raw) < LAST_TIME_AT + LAST_TIME.size or raw[MAGIC_AT] != MAGIC:
        return -1
    (last,) = LAST_TIME.unpack_from(raw, LAST_TIME_AT)
    return int(last)
