"""Problems of RabbitMQ Stream consumers: order of chunks, changes of the active consumer, crashes."""

from collections import deque
from collections.abc import Mapping
from itertools import pairwise

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import DELETED
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of
from wiredecode.protocols.shared.times import unit_of

CODES = codes_of("rabbitmq_stream")

FLAPS, FLAP_NS = 5, 60_000_000_000
"""Changes of the active consumer, and the time in which they occur."""
MIN_CRASHES, MIN_SAME, LONGEST_LIFE_NS = 3, 5, 300_000_000_000
"""A consumer that begins this often at the same offset, and lives at most this long each time, crashes in a loop; the
second if it asks for the first or next offset, as short jobs do."""
SOON_NS = 30_000_000_000
"""A process that ends is restarted within this time."""
MIN_GONE = 100
"""Fewer offsets may be missing: brokers keep the offsets of consumers in chunks between."""
MIN_BEYOND = 1
"""Offsets between the end of the first chunk and the offset that was asked for, which the stream does not have."""
MAX_STREAMS = 1000
NO_ACTIVE_NS = 5_000_000_000
"""A client answers whether its consumer is active, or goes, within this time."""


@dataclass(eq=False)
class Offsets(Rule):
    """Offsets that were asked for when they were gone."""

    types = frozenset({"Subscribe", "Deliver"})
    _asked: Newest[tuple[int, int], tuple[int, FrameRef]] = field(default_factory=Newest)
    """By connection and subscription: the offset and the Subscribe that asks for it, until its first chunk."""

    def frame(self, frame: Frame) -> None:
        key = frame.connection.number, frame.values.get("subscription_id", -1)
        offset, subscribe = self._asked.pop(key, (0, None))
        if frame.type == "Subscribe":
            first, properties = frame.values.get("offset"), frame.values.get("properties") or ()
            if first is not None and not any((each.get("key") or "").startswith("filter") for each in properties):
                self._asked.put(key, (first, ref_of(frame)))
            return
        chunk = frame.values.get("chunk")
        begin = chunk.get("chunk_id") if isinstance(chunk, Mapping) else None
        if subscribe is None or begin is None or frame.connection.directions[frame.side].lossy:
            return
        stream, who = frame.generated.get("stream", ""), short(frame.connection)
        if isinstance(chunk, Mapping) and offset - begin - (chunk.get("num_records") or 0) >= MIN_BEYOND:
            self._beyond(frame, subscribe, f"{who} asked for offset {offset:,} of {stream}, and got {begin:,}", stream)
        if begin - offset < MIN_GONE:
            return
        title = f"{who} asked for offset {offset:,} of {stream}, but the stream begins at {begin:,}"
        problem = self.report.add(CODES["offset-gone"], title, (who, stream, offset), frame=subscribe)
        self.report.cite(problem, ref_of(frame))
        problem.weight = begin - offset
        problem.detail(f"{begin - offset:,} offsets were skipped")

    def _beyond(self, frame: Frame, subscribe: FrameRef, title: str, stream: str) -> None:
        problem = self.report.add(CODES["offset-beyond"], f"{title}: the stream ends before", title, frame=subscribe)
        self.report.cite(problem, ref_of(frame))
        if deleted := self.report.facts.of(DELETED, stream):
            at = self.report.seconds(deleted[-1].since_ns)
            problem.likely = f"{deleted[-1].by} deleted the stream at {at}, and it was made anew: offsets begin again"


@dataclass(eq=False)
class StartTimes(Rule):
    """Times in another unit than milliseconds, at which consumers want to begin."""

    types = frozenset({"Subscribe"})

    def frame(self, frame: Frame) -> None:
        if unit := unit_of(frame.values.get("timestamp", -1), frame.time_ns // 1_000_000):
            who = frame.connection.identity.get("name") or short(frame.connection)
            stream = printable(frame.values["stream"])
            title = f"{who} begins {stream} at a time in {unit} in place of milliseconds"
            problem = self.report.add(CODES["clock"], title, (who, stream), frame=frame)
            before = unit == "seconds"  # else the time is yet to come
            problem.likely = "it gets all messages each time" if before else "it gets new messages only"


@dataclass(eq=False)
class Flapping(Rule):
    """Changes of the single active consumer, by stream and name."""

    types = frozenset({"ConsumerUpdate"})
    _changes: dict[tuple[str, str], deque[tuple[int, FrameRef]]] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        if not frame.values.get("active") or "stream" not in frame.generated:
            return
        key = frame.generated["stream"], frame.generated.get("reference", "")
        if key not in self._changes and len(self._changes) >= MAX_STREAMS:
            return
        changes = self._changes.setdefault(key, deque(maxlen=FLAPS))
        changes.append((frame.values.get("subscription_id", -1), ref_of(frame)))
        who = {(ref.connection.number, number) for number, ref in changes}
        within = frame.time_ns - changes[0][1].time_ns
        if len(changes) < FLAPS or within > FLAP_NS or len(who) == len(changes):
            return  # each of several consumers took over once, as when they are restarted one after another
        stream, name = key
        title = f"the active consumer {name} of {stream} changes {FLAPS} times within {within / 1e9:.3f} s"
        refs, reported = [ref for _, ref in changes], self.report.own(CODES["active-consumer-flapping"], key)
        self.report.about(CODES["active-consumer-flapping"], title, key, refs, count=1 if reported else FLAPS)


@dataclass(eq=False)
class NoActive(Rule):
    """Groups with a single active consumer that have none, as a client did not answer the broker's ConsumerUpdate."""

    types = frozenset({"ConsumerUpdate", "ConsumerUpdateResponse", "Subscribe", "Deliver"})
    _asked: Newest[int, tuple[FrameRef, tuple[str, str], bool]] = field(default_factory=Newest)
    """ConsumerUpdates without an answer: stream and name of the group, and whether the consumer shall become active."""
    _members: Newest[tuple[str, str], dict[int, Connection]] = field(default_factory=Newest)
    """By stream and name: the connections that subscribed."""
    _delivered: Newest[tuple[str, str], int] = field(default_factory=Newest)
    """By stream and name: time of the last chunk."""

    def frame(self, frame: Frame) -> None:
        facts, number = frame.generated, frame.connection.number
        group = str(facts.get("stream", frame.values.get("stream", ""))), str(facts.get("reference", ""))
        if frame.type == "Subscribe":
            said = {each.get("key"): each.get("value") for each in frame.values.get("properties") or ()}
            if said.get("single-active-consumer") == "true":
                group = printable(group[0]), printable(said.get("name") or "")
                self._members.get_or_make(group, dict)[number] = frame.connection
        elif frame.type == "Deliver":
            self._delivered.put(group, frame.time_ns)
        elif frame.type == "ConsumerUpdate":
            self._asked.put(frame.id, (ref_of(frame), group, bool(frame.values.get("active"))))
        elif frame.request is not None:
            self._asked.pop(frame.request, None)

    def finish(self) -> None:
        for ref, (stream, name), active in self._asked.values():
            end = ref.connection.first_end
            gone = end is not None and end.time_ns - ref.time_ns < NO_ACTIVE_NS  # another one is chosen then
            waited_ns = self.report.last_ns - max(ref.time_ns, self._delivered.get((stream, name), 0))
            if gone or waited_ns < NO_ACTIVE_NS or not self.report.answer_captured(ref):
                continue
            who, waiting = short(ref.connection), self._members.get((stream, name), {})
            others = [each for each in waiting.values() if each is not ref.connection and each.closed is None]
            since = f"since {self.report.seconds(ref.time_ns)}"
            title = (
                f"{stream} has no active consumer of {name} {since}: {who} did not answer the broker's ConsumerUpdate"
            )
            problem = self.report.add(CODES["no-active-consumer"], title, (stream, name), frame=ref)
            problem.to_end, problem.last_ns = True, self.report.last_ns
            for each in others:
                self.report.concerns(problem, each)
                problem.detail(f"{short(each)} waits to become active")
            problem.detail(f"the broker asked it to become {'active' if active else 'inactive'}")


@dataclass(slots=True)
class Life:
    """One connection of a consumer."""

    ref: FrameRef
    """Of its Subscribe."""
    stream: str
    start: str
    resumes: bool
    """It asked where it was, or named an offset."""
    first: int | None = None
    """The first chunk that it got."""
    did: set[str | None] = field(default_factory=set)
    """Whether it stored an offset, unsubscribed or closed."""
    ended_ns: int = 0


@dataclass(eq=False)
class CrashLoop(Rule):
    """Consumers that come back again and again, and begin at the same offset."""

    types = frozenset({"QueryOffset", "Subscribe", "Deliver", "StoreOffset", "Unsubscribe", "Close"})
    _asked: set[int] = field(default_factory=set)
    _lives: dict[int, Life] = field(default_factory=dict)
    _loops: dict[tuple[str, str, str, int | None], list[Life]] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        life = self._lives.get(number)
        if frame.type == "QueryOffset":
            self._asked.add(number)
        elif frame.type == "Subscribe" and life is None:
            kind, offset = frame.values.get("offset_type"), frame.values.get("offset")
            resumes = number in self._asked or offset is not None
            stream = printable(frame.values.get("stream", ""))
            self._lives[number] = Life(ref_of(frame), stream, f"{kind} {offset}", resumes)
        elif life is None:
            return
        elif frame.type == "Deliver":
            chunk = frame.values.get("chunk")
            if life.first is None and isinstance(chunk, Mapping):
                life.first = chunk.get("chunk_id")
        else:
            life.did.add(frame.type)

    def ended(self, connection: Connection) -> None:
        self._asked.discard(connection.number)
        life, health = self._lives.pop(connection.number, None), connection.health
        client = connection.initiator or 0
        if life is None or life.did - {"StoreOffset"} or not health or not health.end or health.end.side != client:
            return
        life.ended_ns = health.end.time_ns
        if life.ended_ns - life.ref.time_ns > LONGEST_LIFE_NS:
            return
        who = connection.identity.get("name") or connection.endpoints[client].rpartition(":")[0]
        key = who, life.stream, life.start, None if life.did else life.first
        if key in self._loops or len(self._loops) < MAX_STREAMS:
            self._loops.setdefault(key, []).append(life)

    def finish(self) -> None:
        killed: dict[tuple[str, str], list[Life]] = {}
        for (who, stream, _, first), lives in self._loops.items():
            if first is None or len(lives) < (MIN_CRASHES if lives[0].resumes else MIN_SAME):
                killed.setdefault((who, stream), []).extend(lives)
                continue
            text = f"{who} began to consume {stream} at offset {first:,} {len(lives):,} times, and ended soon each time"
            code, key = CODES["consumer-crash-loop"], (who, stream, first)
            problem = self.report.about(code, text, key, [life.ref for life in lives])
            problem.detail(f"{len(lives):,} connections ended by the client without Close, and without a stored offset")
        for (who, stream), lives in killed.items():
            self._restarts(who, stream, sorted(lives, key=lambda life: life.ref.time_ns))

    def _restarts(self, who: str, stream: str, lives: list[Life]) -> None:
        """A consumer that ended without a word, and came back immediately, again and again."""
        again = [life for before, life in pairwise(lives) if 0 <= life.ref.time_ns - before.ended_ns <= SOON_NS]
        if len(again) + 1 < MIN_CRASHES:
            return
        title = f"{who} ended {len(lives):,} times without Close while it consumed {stream}, and began again"
        places = [life.ref for life in lives]
        problem = self.report.about(CODES["consumer-crash-loop"], title, (who, stream), places, severity="warning")
        problem.likely = "it crashes, or is killed (out of memory) or restarted by its health check"
