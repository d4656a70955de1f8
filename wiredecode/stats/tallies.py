"""Results of counting: plain data by key that can be pickled, and merges (docs/stats.md).

The tallies of two parts of the connections, merged, give the rows of the whole. Only limits may differ: which topics
count as :data:`OTHERS`, and values beyond what :class:`Distribution` keeps exactly.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import EPOCH
from wiredecode.frames.escape import valid
from wiredecode.net.distribution import SPREAD, Distribution
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.stats.tables import FITTING, PORTION, Statistic, fitting
from wiredecode.stats.topics import OTHERS, topic_group, within_limit
from wiredecode.tables.schema import declared_schema

MAX_CELLS = 65_536
"""Topics times intervals that are counted separately, if the interval is not given: beyond it, it gets longer."""
Row = dict[str, Any]
Values = Iterable[Any]


class Tally(dict[Any, Any]):
    """Cells by key; missing ones are made. A row is a key with the values of its cell."""

    make: ClassVar[Any]
    """The class of the cells: they have ``merge`` and ``values``."""
    topic: ClassVar[int | None] = None
    """Place of a topic in the keys."""

    def __missing__(self, key: Any) -> Any:
        cell = self[key] = self.make()
        return cell

    def merge(self, other: Any) -> None:
        """Add the cells of another part of the capture, which are used up."""
        at = self.topic
        topics = set() if at is None else {key[at] for key in self}
        for key, cell in other.items():
            if at is not None and within_limit(topics, key[at], None) == OTHERS:
                key = *key[:at], OTHERS, *key[at + 1 :]
            if (mine := self.get(key)) is None:
                self[key] = cell
            else:
                mine.merge(cell)

    def rows(self) -> Iterator[Values]:
        """The rows, in any order."""
        return ((*key, *cell.values()) for key, cell in self.items())


class Sums(list[int]):
    """Numbers that are added up."""

    def merge(self, other: "Sums") -> None:
        self[:] = [mine + each for mine, each in zip(self, other, strict=True)]

    def values(self) -> Values:
        return self


class FrameTally(Tally):
    """Frames by protocol, type and sender: their number and bytes, those of each state, findings."""

    @staticmethod
    def make() -> Sums:
        return Sums([0] * 6)


@dataclass(slots=True)
class FindingCell:
    """Findings of one kind."""

    count: int
    first_ns: int
    message: str
    """The first one in alphabetical order."""

    def merge(self, other: "FindingCell") -> None:
        self.count += other.count
        self.first_ns, self.message = min(self.first_ns, other.first_ns), min(self.message, other.message)

    def values(self) -> Values:
        return self.count, to_datetime(self.first_ns), self.message


class FindingTally(Tally):
    """By connection, direction and kind."""


@dataclass(slots=True)
class GaugeCell:
    """Values that a gauge showed."""

    count: int
    lowest: int
    highest: int
    last: int
    last_ns: int

    def add(self, value: int, time_ns: int) -> None:
        """Count the next value."""
        self.count += 1
        self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)
        self.last, self.last_ns = value, time_ns

    def merge(self, other: "GaugeCell") -> None:
        self.count += other.count
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        if other.last_ns >= self.last_ns:
            self.last, self.last_ns = other.last, other.last_ns

    def values(self) -> Values:
        return self.count, self.lowest, self.highest, self.last


@dataclass(slots=True, eq=False)
class RequestOutcomes:
    """Latencies and unanswered requests of one type to one broker."""

    latency: Distribution = field(default_factory=Distribution)
    unanswered: int = 0

    def merge(self, other: "RequestOutcomes") -> None:
        self.latency.merge(other.latency)
        self.unanswered += other.unanswered

    def values(self) -> Values:
        return self.latency.count, *self.latency.columns().values(), self.unanswered


class RequestTally(Tally):
    """By protocol, type of the request, topic and broker."""

    make, topic = RequestOutcomes, 2

    def rows(self) -> Iterator[Values]:
        for key, cell in self.items():
            protocol, request = key[:2]
            yield *key, request in checks_of(protocol).waits, *cell.values()


@dataclass(slots=True, eq=False)
class PublishOutcomes:
    """Outcomes of messages published to one stream of one broker; latencies in ns."""

    latency: Distribution = field(default_factory=Distribution)
    """From the last byte of a publish to its confirm."""
    whole: Distribution = field(default_factory=Distribution)
    """From the first byte of a publish to its confirm."""
    transfer_ns: int = 0
    """From its first byte to its last: sum of all messages, and the longest."""
    longest_ns: int = 0
    failed: int = 0
    unconfirmed: int = 0
    unknown: int = 0

    def merge(self, other: "PublishOutcomes") -> None:
        self.latency.merge(other.latency)
        self.whole.merge(other.whole)
        self.longest_ns = max(self.longest_ns, other.longest_ns)
        for name in ("transfer_ns", "failed", "unconfirmed", "unknown"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def values(self) -> Values:
        first_byte = self.whole.columns()
        mean_us, most_us = self.transfer_ns / (self.whole.count or 1) / 1e3, self.longest_ns / 1e3
        return (
            *(self.latency.count, *self.latency.columns().values(), self.failed, self.unconfirmed, self.unknown),
            *(first_byte["p50_us"], first_byte["p99_us"], first_byte["max_us"], mean_us, most_us),
        )


class PublishTally(Tally):
    """By protocol, stream and broker."""

    make = PublishOutcomes

    def rows(self) -> Iterator[Values]:
        for key, cell in self.items():
            if cell.latency.count or cell.failed or cell.unconfirmed or cell.unknown:
                yield *key, *cell.values()


class DeliveryTimes(Distribution):
    """The cell of a distribution alone."""

    __slots__ = ()

    def values(self) -> Values:
        return self.count, *self.columns().values()


class DeliveryTally(Tally):
    """From publishes to the first deliveries of their messages, by protocol, topic and broker."""

    make, topic = DeliveryTimes, 1


class ConnectionRows(dict[int | str, tuple[Any, ...]]):
    """Rows by the id of their connection."""

    def merge(self, other: "ConnectionRows") -> None:
        """Add the rows of other connections."""
        self.update(other)

    def rows(self) -> Iterable[Values]:
        return self.values()


class Throughput:
    """Messages by protocol, topic, operation and ``interval``, in seconds; None: one that fits."""

    def __init__(self, interval: int | None) -> None:
        self._fits = interval is None
        self._interval = interval or FITTING[0]
        self._cells: dict[tuple[str, str | None, str, int], Sums] = {}
        """Messages, messages of known size, and their bytes."""
        self._topics: set[tuple[str, str | None, str]] = set()
        self._first_ns: int | None = None
        self._last_ns = 0

    def add(
        self, time_ns: int, protocol: str, topic: str | None, operation: str, messages: int, sized: int, size: int
    ) -> None:
        """Count messages; ``sized`` of them have a size, and ``size`` bytes in all."""
        if self._first_ns is None or time_ns < self._first_ns:
            self._first_ns = time_ns
        if time_ns > self._last_ns:
            self._last_ns = time_ns
        start = time_ns // 1_000_000_000
        key = protocol, topic, operation, start - start % self._interval
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cell(*key)
        cell[0] += messages
        cell[1] += sized
        cell[2] += size

    def _cell(self, protocol: str, topic: str | None, operation: str, start: int) -> Sums:
        if topic is not None:
            topic = topic_group(topic)
        topic = within_limit(self._topics, (protocol, topic, operation), topic)
        while self._fits and len(self._cells) > MAX_CELLS and self._lengthen():
            start -= start % self._interval
        return self._cells.setdefault((protocol, topic, operation, start), Sums([0, 0, 0]))

    def _lengthen(self, least: int = 0) -> bool:
        """Continue with the next interval that is a multiple, of ``least`` seconds or more; False if there is none."""
        longer = (each for each in FITTING if each > self._interval and each >= least and not each % self._interval)
        if not (interval := next(longer, 0)):
            return False
        self._interval = interval
        cells, self._cells = self._cells, {}
        for (protocol, topic, operation, start), counts in cells.items():
            key = protocol, topic, operation, start // interval * interval
            self._cells.setdefault(key, Sums([0, 0, 0])).merge(counts)
        return True

    def merge(self, other: "Throughput") -> None:
        """Add the cells of another part of the capture, which are used up."""
        if other._first_ns is None:
            return
        self._first_ns = other._first_ns if self._first_ns is None else min(self._first_ns, other._first_ns)
        self._last_ns = max(self._last_ns, other._last_ns)
        while self._interval != other._interval:
            (self if self._interval < other._interval else other)._lengthen()
        for key, counts in other._cells.items():
            self._cell(*key).merge(counts)

    def rows(self) -> Iterator[Values]:
        """The rows, in any order; nothing more comes."""
        fits = fitting(self._last_ns - (self._first_ns or 0))
        if self._fits and self._cells and self._interval < fits:
            self._lengthen(fits)
        each = self._interval
        for (*key, start), (messages, sized, size) in self._cells.items():
            known = (size, messages / each, size / each) if sized else (None, messages / each, None)
            yield *key, datetime.fromtimestamp(start, UTC), messages, *known


TYPES = {
    **dict.fromkeys((*SPREAD, "seconds", "messages_per_s", "bytes_per_s"), pa.float64()),
    **dict.fromkeys(("start", "first"), pa.timestamp("us", "UTC")),
    "long_poll": pa.bool_(),
}
TEXTS = frozenset(
    (
        *("protocol", "type", "sender", "request", "broker", "stream", "topic", "operation", "source"),
        *("src", "dst", "severity", "group", "code", "message", "client", "server", "what", "of"),
    )
)
RANKS = {name: rank for rank, name in enumerate(SEVERITIES)}


def to_datetime(time_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=time_ns // 1000)


class Counted(dict[str, Any]):
    """Results by the name of the statistic: :class:`Tally` and the like."""

    def merge(self, other: "Counted") -> None:
        """Add the results of another part of the connections, which are used up."""
        for name, tally in other.items():
            self[name].merge(tally)

    def rows(self, statistic: Statistic) -> Iterator[Row]:
        """The rows of a statistic, in its order."""
        names = (*statistic.columns, *statistic.facts)
        places = [(name, names.index(name.removeprefix("-"))) for name in statistic.order]
        for row in sorted(map(tuple, self[statistic.name].rows()), key=lambda row: [*_order(places, row)]):
            yield dict(zip(names, row, strict=True))

    def table(self, statistic: Statistic) -> pa.Table:
        """The rows of a statistic."""
        return table_of(statistic, self.rows(statistic))


def table_of(statistic: Statistic, rows: Iterable[Row], *more: str) -> pa.Table:
    """Rows as a table; ``more``: columns of text before the others."""
    columns = [pa.field(name, type_of(name)) for name in (*more, *statistic.columns)]
    schema, rows = pa.schema([*columns, *map(_fact_field, statistic.facts)]), iter(rows)
    parts = iter(lambda: [*islice(rows, PORTION)], [])
    return pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(valid(part), schema) for part in parts], schema
    ).combine_chunks()


def type_of(column: str) -> pa.DataType:
    return pa.string() if column in TEXTS else TYPES.get(column, pa.int64())


def _fact_field(name: str) -> pa.Field:
    return pa.field(name, pa.float64()) if name.endswith("_us") else declared_schema("connections").field(name)


def _order(places: list[tuple[str, int]], row: tuple[Any, ...]) -> Iterator[Any]:
    """Return what the row is sorted by: nulls last. ``places``: names in :attr:`Statistic.order`, and their columns."""
    for name, place in places:
        value = row[place]
        if name == "severity":
            value = RANKS.get(value, len(RANKS))
        yield value is None
        yield 0 if value is None else -value if name.startswith("-") else value
