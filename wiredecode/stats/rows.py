"""Feed the counters with rows of tables that were written, part by part: states of parts can be pickled and merged.

Rows know what became of requests and messages, so nothing has to be tied together but a request and its answers: both
have to be in one part, one after the other (column :data:`EXCHANGE`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from wiredecode.check.codes import offers
from wiredecode.frames.frame import LATE, UNANSWERED, Finding
from wiredecode.frames.message import PUBLISH
from wiredecode.protocols.registry import protocols, requests
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.stats.counters import ConnectionCounter, FindingCounter, FrameCounter, schema_of, table_of
from wiredecode.stats.exchanges import Confirms, Latency
from wiredecode.stats.tables import SOURCE, Statistic
from wiredecode.stats.throughput import Throughput

COPY_OF, CALLED = "copy_of", "called"
EXCHANGE, IS_ANSWER = "exchange", "is_answer"
"""Columns of rows that are put together by request: its number, and whether the row is here as the answer to it."""
MOST_CONNECTIONS = 4_096
"""Connections of rows that are remembered: of one exchange they are the same."""
STATE = pa.schema([(SOURCE, pa.string()), ("state", pa.binary())])
Row = Mapping[str, Any]


def wide_columns(statistic: Statistic) -> list[str]:
    """The columns of a table (see :mod:`wiredecode.tables.portable`) that a statistic needs, ``source`` first."""
    made = {"broker": ("sender", "src", "dst"), COPY_OF: copies(), CALLED: ("type", *called())}
    names = (each for name in statistic.needs for each in made.get(name, (name,)))
    return list(dict.fromkeys([SOURCE, *names]))


def flat(name: str) -> str:
    """Name of a nested column in flat rows, without dots, which Spark takes for steps."""
    return name.replace(".", "/")


@cache
def copies() -> tuple[str, ...]:
    """The columns that mark frames as copies of a message."""
    return tuple(f"layers.{one.name}.copy_of" for one in protocols() if f"{one.name}.copy_of" in one.generated_fields())


@cache
def called() -> tuple[str, ...]:
    """The columns that distinguish requests of one type."""
    return tuple(dict.fromkeys(f"layers.{name}.{each.field}" for name, checks in offers() for each in checks.called))


@dataclass(eq=False)
class RowConnection:
    """The connection of a row: both ends in the order of texts."""

    number: int
    endpoints: tuple[str, str]

    @property
    def id(self) -> int:
        """The same as ``number``."""
        return self.number


class RowFrame:
    """A row of a table of frames, as counters see frames."""

    confirmations = ()
    generated: Mapping[str, Any] = MappingProxyType({})
    values: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, row: Row, connection: RowConnection) -> None:
        self.connection, self.id = connection, row.get("frame")
        self.protocol, self.type, self.sender = row.get("protocol") or "", row.get("type"), row.get("sender")
        self.source, self.destination = row.get("src") or "", row.get("dst") or ""
        self.side = connection.endpoints.index(self.source)
        self.time_ns = self.first_ns = row.get("time_ns") or 0
        self.status, self.length, found = row.get("status"), row.get("length") or 0, row.get("findings")
        self.findings: Sequence[Finding] = ()
        if found:
            self.findings = [Finding(each["severity"], each["group"], each["code"], each["message"]) for each in found]

    def read_exchange(self, row: Row) -> None:
        """Read what counts of requests and answers."""
        self.request, self.latency_ns = row["request"], row["latency_ns"]
        copy = next((row[flat(name)] for name in copies() if row.get(flat(name)) is not None), None)
        self.generated = {} if copy is None else {COPY_OF: copy}
        self.values = {name.rpartition(".")[2]: row[flat(name)] for name in called() if row.get(flat(name)) is not None}


class RowCounter:
    """Counts the rows of one source for one statistic."""

    def __init__(self, name: str, interval: int) -> None:
        self._always = {(one, kind) for one, kinds in requests().items() for kind in kinds}
        self._connections: Newest[int, RowConnection] = Newest(MOST_CONNECTIONS)
        checks = dict(offers())
        self._publishing = {(one, kind) for one in checks for kind in checks[one].publishes}
        self._shared = {(one, kind) for one in checks for kind in checks[one].sub_batches}
        self._frame_number: int | None = None
        self._seen: set[tuple[Any, ...]] = set()
        """Messages of that frame that were counted."""
        made: dict[str, tuple[Callable[[], Any], Callable[[Row], None]]] = {
            "frames": (FrameCounter, self._frame),
            "findings": (FindingCounter, self._frame),
            "connections": (ConnectionCounter, self._frame),
            "latency": (lambda: Latency(captured=lambda request: True), self._exchange),
            "confirms": (Confirms, self._message),
            "throughput": (lambda: Throughput(interval), self._throughput),
        }
        make, self.count = made[name]
        self.counter = make()

    def _made(self, row: Row) -> RowFrame:
        number = row.get("connection") or 0
        connection = self._connections.get(number)
        if connection is None:
            low, high = sorted((row.get("src") or "", row.get("dst") or ""))
            connection = RowConnection(number, (low, high))
            self._connections.put(number, connection)
        return RowFrame(row, connection)

    def _frame(self, row: Row) -> None:
        self.counter.frame(self._made(row))

    def _exchange(self, row: Row) -> None:
        frame = self._made(row)
        frame.read_exchange(row)
        if row[IS_ANSWER]:
            self.counter.answer(frame)
            return
        outcome, always = row["outcome"], (frame.protocol, frame.type) in self._always
        self.counter.open(frame, asks=outcome in (UNANSWERED, LATE) or (outcome is None and always))

    def _message(self, row: Row) -> None:
        place = row["protocol"], row["type"]
        outcome = row["outcome"]
        told = outcome is not None or place in self._always
        if row["operation"] != PUBLISH or place not in self._publishing or not told:
            return
        number = row["sequence"] if place in self._shared else row["index"]
        if row["frame"] != self._frame_number:
            self._frame_number = row["frame"]
            self._seen.clear()
        message = row["topic"], number, row["latency_ns"], outcome
        if message in self._seen:  # messages that share a number are confirmed as one
            return
        self._seen.add(message)
        server = {"client": row["dst"], "server": row["src"]}.get(row["sender"] or "")
        self.counter.count((row["protocol"], row["topic"], server), outcome, row["latency_ns"])

    def _throughput(self, row: Row) -> None:
        size = row["size"]
        where = row["time_ns"], row["protocol"], row["topic"], row["operation"]
        self.counter.count(*where, 1, size is not None, size or 0)


def counted(name: str, interval: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The states of counters after these rows, one per source."""
    counters: dict[str | None, RowCounter] = {}
    for batch in batches:
        for row in batch.to_pylist():
            source = row[SOURCE]
            counter = counters.get(source)
            if counter is None:
                counter = counters[source] = RowCounter(name, interval)
            counter.count(row)
    states = [pickle.dumps(counter.counter.state()) for counter in counters.values()]
    yield pa.record_batch([pa.array(counters, pa.string()), pa.array(states, pa.binary())], schema=STATE)


def merged(statistic: Statistic, interval: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The table that all states make, source by source."""
    counters: dict[str | None, Any] = {}
    for batch in batches:
        for row in batch.to_pylist():
            counter = counters.get(row[SOURCE])
            if counter is None:
                counter = counters[row[SOURCE]] = RowCounter(statistic.name, interval).counter
            counter.merge(pickle.loads(row["state"]))
    schema = sources_schema(statistic)
    for source in sorted(counters, key=lambda each: (each is None, each or "")):
        table = table_of(statistic, counters[source].rows(), schema_of(statistic))
        sources = pa.array([source] * table.num_rows, pa.string())
        yield from table.add_column(0, schema.field(0), sources).to_batches()


def sources_schema(statistic: Statistic) -> pa.Schema:
    """The columns of a statistic after ``source``."""
    return pa.schema([(SOURCE, pa.string()), *schema_of(statistic)])


def always_asking() -> Sequence[tuple[str, str]]:
    """Protocols and types of requests that always ask for an answer."""
    return [(name, kind) for name, kinds in requests().items() for kind in sorted(kinds)]
