"""The statistics of captures, counted frame by frame in one pass: memory grows with the results, not with the capture.

On Spark they are SQL over the tables: see :mod:`wiredecode.spark.stats`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from wiredecode.check.exchanges import Exchanges
from wiredecode.check.gauges import Gauges
from wiredecode.fields import EPOCH
from wiredecode.frames.activity import Activities
from wiredecode.frames.escape import valid
from wiredecode.frames.frame import MALFORMED, PARTIAL, UNDECODED, Frame
from wiredecode.frames.identity import broker
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.net.distribution import SPREAD, Distribution
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.stats.latency import ConfirmLatency, ExchangeKey, RequestLatency, Row, topic_group, within_limit
from wiredecode.stats.tables import CONNECTION_FACTS, FITTING, Statistic, fitting
from wiredecode.tables.connections import ConnectionTable
from wiredecode.tables.schema import declared_schema

MAX_CELLS = 65_536
"""Topics times intervals that are counted separately, if the interval is not given: beyond it, it gets longer."""
SECOND_NS = 1_000_000_000
Key = tuple[str, str | None, str, int]


class Throughput:
    """``interval`` in seconds; None: one that fits."""

    def __init__(self, interval: int | None) -> None:
        self._fits = interval is None
        self._interval = interval or FITTING[0]
        self._cells: dict[Key, list[int]] = {}
        """By protocol, topic, operation and second: messages, those of known size, and the bytes of the latter."""
        self._topics: set[tuple[str, str | None, str]] = set()
        self._first_ns: int | None = None
        self._last_ns = 0

    def add(self, part: FrameMessages) -> None:
        """Add the messages of the next frame, or some of its messages."""
        sizes = [len(body) for body in part.bodies if body is not None]
        where = part.frame.time_ns, part.frame.protocol, part.topic, part.operation
        self.count(*where, part.count, len(sizes), sum(sizes))

    def count(
        self, time_ns: int, protocol: str, topic: str | None, operation: str, messages: int, sized: int, size: int
    ) -> None:
        """Count messages, those of ``sized`` size, and the bytes of the latter."""
        if self._first_ns is None or time_ns < self._first_ns:
            self._first_ns = time_ns
        if time_ns > self._last_ns:
            self._last_ns = time_ns
        start = time_ns // SECOND_NS
        key = protocol, topic, operation, start - start % self._interval
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cell(*key)
        cell[0] += messages
        cell[1] += sized
        cell[2] += size

    def _cell(self, protocol: str, topic: str | None, operation: str, start: int) -> list[int]:
        if topic is not None:
            topic = topic_group(topic)
        topic = within_limit(self._topics, (protocol, topic, operation), topic)
        while self._fits and len(self._cells) > MAX_CELLS and self._lengthen():
            start -= start % self._interval
        return self._cells.setdefault((protocol, topic, operation, start), [0, 0, 0])

    def _lengthen(self, least: int = 0) -> bool:
        """Continue with the next interval that is a multiple, of ``least`` seconds or more; False if there is none."""
        longer = (each for each in FITTING if each > self._interval and each >= least and not each % self._interval)
        if not (interval := next(longer, 0)):
            return False
        self._interval = interval
        cells, self._cells = self._cells, {}
        for (protocol, topic, operation, start), counts in cells.items():
            cell = self._cells.setdefault((protocol, topic, operation, start // interval * interval), [0, 0, 0])
            for index, count in enumerate(counts):
                cell[index] += count
        return True

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table, in any order; nothing more comes."""
        fits = fitting(self._last_ns - (self._first_ns or 0))
        if self._fits and self._cells and self._interval < fits:
            self._lengthen(fits)
        for (protocol, topic, operation, start), (messages, sized, size) in self._cells.items():
            yield {
                "protocol": protocol,
                "topic": topic,
                "operation": operation,
                "start": datetime.fromtimestamp(start, UTC),
                "messages": messages,
                "bytes": size if sized else None,
                "messages_per_s": messages / self._interval,
                "bytes_per_s": size / self._interval if sized else None,
            }


MICROSECONDS = pa.timestamp("us", "UTC")
TYPES = {
    **dict.fromkeys((*SPREAD, "seconds", "messages_per_s", "bytes_per_s"), pa.float64()),
    **dict.fromkeys(("start", "first"), MICROSECONDS),
    "long_poll": pa.bool_(),
}
TEXTS = frozenset(
    (
        *("protocol", "type", "sender", "request", "broker", "stream", "topic", "operation"),
        *("src", "dst", "severity", "group", "code", "message", "client", "server", "what", "of"),
    )
)
RANKS = {name: rank for rank, name in enumerate(SEVERITIES)}
MAX_CONSUMERS = 20_000
STATES = (PARTIAL, MALFORMED, UNDECODED)


def to_datetime(time_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_ns // 1000)


class FrameCounter:
    """Frames by protocol, type and sender."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str | None, str | None], list[int]] = {}

    def frame(self, frame: Frame) -> None:
        counts = self._counts.setdefault((frame.protocol, frame.type, frame.sender), [0] * 6)
        counts[0] += 1
        counts[1] += frame.length
        if frame.status in STATES:
            counts[2 + STATES.index(frame.status)] += 1
        counts[5] += len(frame.findings)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((*key, *counts) for key, counts in self._counts.items())


class FindingCounter:
    """Findings by connection, direction and kind."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, str, str, str, str, str], list[Any]] = {}

    def frame(self, frame: Frame) -> None:
        for finding in frame.findings:
            ends = frame.connection.id, frame.source, frame.destination
            key = (*ends, finding.severity, finding.group, finding.code)
            counted = self._counts.setdefault(key, [0, frame.time_ns, finding.message])
            counted[:] = counted[0] + 1, min(counted[1], frame.time_ns), min(counted[2], finding.message)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for key, (count, first_ns, message) in self._counts.items():
            yield *key, count, to_datetime(first_ns), message


class ConsumerCounter:
    """Credit, lag and positions."""

    def __init__(self) -> None:
        self._gauges = Gauges()
        self._ranges: dict[tuple[str, str, str], list[int]] = {}

    def frame(self, frame: Frame) -> None:
        for kind, of, value, _ in self._gauges.read(frame):
            range_of = self._ranges.get((frame.protocol, kind, of))
            if range_of is None:
                if len(self._ranges) < MAX_CONSUMERS:
                    self._ranges[frame.protocol, kind, of] = [1, value, value, value]
                continue
            range_of[:] = range_of[0] + 1, min(range_of[1], value), max(range_of[2], value), value

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((*key, *values) for key, values in self._ranges.items())


class Deliveries:
    """From publishes to the first deliveries of their messages, by protocol, topic and broker."""

    def __init__(self) -> None:
        self._spreads: dict[ExchangeKey, Distribution] = {}
        self._topics: set[str] = set()

    def add(self, part: FrameMessages) -> None:
        frame = part.frame
        if part.published_ns is not None:
            key = frame.protocol, part.topic, broker(frame)
            spread = self._spreads.get(key)
            if spread is None:
                topic = topic_group(part.topic or "")
                key = key[0], within_limit(self._topics, topic, topic), key[2]
                spread = self._spreads.setdefault(key, Distribution())
            spread.add(max(frame.time_ns - part.published_ns, 0), len(part.bodies))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((*key, spread.count, *spread.columns().values()) for key, spread in self._spreads.items())


class ConnectionCounter:
    """Frames of each connection."""

    def __init__(self) -> None:
        self._activities = Activities()
        self.frame = self._activities.frame

    def rows(self) -> Iterator[Row]:
        """If no frame shows which end is the client, it is the end that is first in the order of texts."""
        for each in self._activities.by_number.values():
            ends = each.connection.endpoints
            client = int(ends[1] < ends[0]) if each.client is None else each.client
            yield {
                "connection": each.connection.id,
                "client": ends[client],
                "server": ends[1 - client],
                "protocol": ", ".join(sorted(each.protocols)) or None,
                "start": to_datetime(each.first_ns),
                "seconds": (each.last_ns - each.first_ns) / 1e9,
                "client_frames": each.frames[client],
                "client_bytes": each.length[client],
                "server_frames": each.frames[1 - client],
                "server_bytes": each.length[1 - client],
            }


class Counters:
    """Receives the frames of a capture that count, with :meth:`frame`; then :meth:`table`.

    ``interval``: of throughput, seconds; None: one that fits. ``hops``: messages passed on by servers count each time.
    ``whole``: whether all frames were chosen.
    """

    def __init__(
        self, statistics: Sequence[Statistic], interval: int | None, *, hops: bool = False, whole: bool = True
    ) -> None:
        names = {statistic.name for statistic in statistics}
        self.link = "deliveries" in names
        """Whether deliveries need their publishes (``Demand.copies``)."""
        self._exchanges = Exchanges()
        self._confirms = ConfirmLatency(self._exchanges, hops=hops) if "confirms" in names else None
        added: dict[str, Callable[[], Any]] = {"throughput": partial(Throughput, interval), "deliveries": Deliveries}
        adding = {name: make() for name, make in added.items() if name in names}
        self._adding = adding.values()
        makers: dict[str, Callable[[], Any]] = {
            "frames": FrameCounter,
            "latency": partial(RequestLatency, self._exchanges, hops=hops),
            "findings": FindingCounter,
            "connections": ConnectionCounter,
            "consumers": ConsumerCounter,
        }
        self._counters: dict[str, Any] = {name: make() for name, make in makers.items() if name in names}
        self._each = [counter.frame for counter in self._counters.values()]
        if names & {"confirms", "latency"}:
            self._each.insert(0, self._exchanges.frame)
        timed = self._counters.get("latency"), self._confirms
        self._exchanges.confirm += [each.confirm for each in timed if each is not None]
        self._counters |= {"confirms": self._confirms, **adding}
        self.connections = ConnectionTable() if "connections" in names else None
        """Collects facts about connections that frames do not contain, from the reader of the capture."""
        self.messages = Messages() if names & {"confirms", "throughput", "deliveries"} else None
        """Collection that the dissector fills with messages."""
        self._whole = whole

    def frame(self, frame: Frame, *, counts: bool = True) -> None:
        """The next frame; whether it ``counts``."""
        parts = () if self.messages is None else self.messages.of(frame)
        if not counts:
            return
        for count in self._each:
            count(frame)
        if self._confirms is not None:
            self._confirms.frame(frame, parts)
        for part in parts:
            for each in self._adding:
                each.add(part)

    def table(self, statistic: Statistic) -> pa.Table:
        """The statistic of all frames received."""
        rows = [
            row if isinstance(row, dict) else dict(zip(statistic.columns, row, strict=True))
            for row in self._counters[statistic.name].rows()
        ]
        columns = [pa.field(name, type_of(name)) for name in statistic.columns]
        schema = pa.schema([*columns, *map(fact_field, statistic.facts)])
        if self.connections is not None and statistic.name == "connections":
            rows = [*with_facts(rows, self.connections.rows, whole=self._whole)]
        return pa.Table.from_pylist(valid(sorted(rows, key=order(statistic))), schema)


def with_facts(rows: list[Row], connections: Iterable[Row], *, whole: bool) -> Iterator[Row]:
    """Rows by connection with CONNECTION_FACTS from the table of connections; ``whole``: also those without frames."""
    facts = {each["connection"]: each for each in connections}
    if whole:
        there = {row["connection"] for row in rows}
        rows = rows + [without_frames(row) for number, row in facts.items() if number not in there]
    for row in rows:
        facts_of = facts.get(row["connection"], {})
        yield row | {name: fact(name, facts_of) for name in CONNECTION_FACTS}


def without_frames(row: Row) -> Row:
    same = {name: row[name] for name in ("connection", "client", "server", "protocol", "seconds")}
    sent = (f"{side}_{name}" for side in ("client", "server") for name in ("frames", "bytes"))
    return {**same, **dict.fromkeys(sent, 0), "start": to_datetime(row["time"])}


def fact(name: str, row: Row) -> Any:
    if not name.endswith("_us"):
        return row.get(name)
    ns = row.get(f"{name.removesuffix('_us')}_ns")
    return None if ns is None else ns / 1e3


def fact_field(name: str) -> pa.Field:
    return pa.field(name, pa.float64()) if name.endswith("_us") else declared_schema("connections").field(name)


def type_of(column: str) -> pa.DataType:
    return pa.string() if column in TEXTS else TYPES.get(column, pa.int64())


def order(statistic: Statistic) -> Callable[[Row], list[Any]]:
    """A key of rows: by the columns that they are sorted by."""

    def key(row: Row) -> list[Any]:
        keys: list[Any] = []
        for name in statistic.order:
            value = row[name.removeprefix("-")]
            if name == "severity":
                value = RANKS.get(value, len(RANKS))
            keys += [value is None, 0 if value is None else -value if name.startswith("-") else value]
        return keys

    return key
