"""A capture as a table: bounded record batches of frames, packets or messages, in order (docs/tables.md)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import Postponed
from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import ConnectionCallback, Demand, Dissector
from wiredecode.dissect.ledger import LIMIT
from wiredecode.dissect.share import Reached
from wiredecode.filter import Filter
from wiredecode.filter.tables import NAMES, TableFilter
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.frames.record import BYTES
from wiredecode.frames.totals import Totals
from wiredecode.net.logical_time import END
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import protocols
from wiredecode.tables.connections import ConnectionTable
from wiredecode.tables.frames import style_for
from wiredecode.tables.messages import BATCH_BYTES, CONFIRM_COLUMNS, FrameBatches, HeldMessages, MessageBatches
from wiredecode.tables.packets import PacketTable
from wiredecode.tables.schema import (
    ORDER,
    OTHER,
    RAW,
    STABLE_IDS,
    declared_schema,
    frames_schema,
    layer_names,
    select,
)
from wiredecode.tables.windows import Processes, Shape, Windows

if TYPE_CHECKING:
    from wiredecode.flows import Flows

FRAMES, MESSAGES, PACKETS, CONNECTIONS, FLOWS = LEVELS = ("frames", "messages", "packets", "connections", "flows")
WAITS = {FRAMES: frozenset(("response", "outcome")), MESSAGES: frozenset(CONFIRM_COLUMNS)}
"""Columns that are known only once the response is linked."""
CONNECTION_ROWS = 2048
"""Most rows of a batch of connections; each needs 5 KB until then."""
LATE_CONNECTIONS = 4096
"""Ended connections that wait for a frame that matches the filter, as frames may be held back."""
Item = TypeVar("Item")


def table_schema(level: str, bytes_choice: str = RAW) -> pa.Schema:
    """The schema of all columns of a level. Raises ``ValueError`` for an unknown level or ``bytes_choice``."""
    if bytes_choice != RAW and bytes_choice not in BYTES:
        raise ValueError(f"bytes cannot be shown as {bytes_choice}; there are {', '.join((RAW, *BYTES))}")
    if level not in LEVELS:
        raise ValueError(f"there is no level {level}; there are {', '.join(LEVELS)}")
    return frames_schema(bytes_choice) if level == FRAMES else declared_schema(level, bytes_choice)


Rows = tuple[str, pa.RecordBatch]
"""A level, and rows of its table."""
TIME = "time"
Since = Callable[[int], tuple[int | None, int | None]]
"""From the time of the first packet to those of the first and the last row; None: no bound."""


class LevelsReader:
    """Reads a capture once, as the tables of :attr:`Demand.levels`; those of ``demand.select`` only.

    :meth:`rows` yields batches of all levels, ``schemas`` has their columns: those of the demand and of the filter.
    ``blocks``: messages may be read as blocks, if all are wanted. ``facts``: more columns of packets
    (:data:`wiredecode.filter.tables.FACT`).

    Batches have at most :data:`BATCH_ROWS` rows and about :data:`BATCH_BYTES` (of frames: :data:`FRAME_ROWS`,
    :data:`FRAME_BYTES`; of connections: :data:`CONNECTION_ROWS`), in the order of the capture.
    ``totals`` is complete at the end. Raises ``ValueError`` for an unknown level or column.
    """

    body_bytes = BATCH_BYTES

    def __init__(self, demand: Demand, *, blocks: bool = True, facts: Sequence[str] = ()) -> None:
        levels, display, self._bytes_choice = demand.levels, demand.select, demand.bytes_choice
        one_table = len(levels) == 1 or display is None
        alone = not {FRAMES, FLOWS}.intersection(levels)
        allowed = MESSAGES in levels and alone and demand.answers is None and one_table
        self._blocks = allowed and blocks
        self._where = where(display, levels[0], blocks=self._blocks)
        self._select = display if self._where is None else None
        if demand.stable_ids and display is not None:
            display.check_stable()
        self.schemas = {level: self._schema(level, demand) for level in levels}
        self.messages = Messages() if MESSAGES in levels or FLOWS in levels else None
        """Messages that the dissector collects, until their frame comes."""
        self.flows: Flows | None = None
        """Their facts; the rows are known at the end."""
        if FLOWS in levels:
            from wiredecode.flows import Flows as Counted  # late, as few want it

            self.flows = Counted(copies=True, shares=demand.share is not None)
        self._span: tuple[int | None, int | None] = (None, None)
        self._packets: PacketTable | None = None
        self._facts = [*dict.fromkeys([*facts, *(() if self._where is None else self._where.facts)])]
        self._dropped = [name for name in self._facts if name not in facts]
        """Columns that only the filter needs."""
        if PACKETS in levels:
            analyse = not {"connection", "tcp_analysis"}.isdisjoint(self.schemas[PACKETS].names)
            stable = demand.stable_ids
            self._packets = PacketTable(
                demand.limits, stable_ids=stable, analyse=analyse and not stable, facts=self._facts
            )
        self._ended = ConnectionTable(self.schemas[CONNECTIONS]) if CONNECTIONS in levels else None
        self.matched: set[Connection] = set()
        """Open connections with a frame that matches the filter."""
        self.late: dict[Connection, str | None] = {}
        """Ended connections without a matching frame."""
        self.on_decoded: ConnectionCallback | None = None
        """As of :class:`Dissector`, for those who read more of connections than this."""
        self.windows: Windows | None = None
        """With several processes: the rows of all."""
        self.dissector = Dissector(self._demand(demand), on_decoded=self._connection_ended)
        """Not used at level ``packets``."""

    def _schema(self, level: str, demand: Demand) -> pa.Schema:
        """The schema of a table, with the columns that were asked for and those that the filter needs."""
        schema, columns = table_schema(level, self._bytes_choice), demand.columns
        if demand.stable_ids:
            schema = schema.with_metadata({**schema.metadata, **STABLE_IDS})
        if self._where is not None and columns is not None:
            columns = list(dict.fromkeys([*columns, *self._where.columns]))
        return select(schema, columns)

    def share(self, exchange: Processes, schema: pa.Schema | None = None, shape: Shape | None = None) -> None:
        """Read the only table with other processes: :meth:`rows` returns those of all, in the first one.

        ``shape``: what each does with its rows before; ``schema``: of the rows then.
        """
        (level,) = self.schemas
        self.windows = Windows(exchange, self.schemas[level] if schema is None else schema, shape)
        if level in (FRAMES, MESSAGES):
            self.schemas[level] = self.schemas[level].append(ORDER)

    def _demand(self, demand: Demand) -> Demand:
        """Add to a demand what the columns of the tables need."""
        display, frames = demand.select, self.schemas.get(FRAMES, pa.schema([]))
        records = "layers" in frames.names
        linked = (WAITS[level].intersection(self.schemas[level].names) for level in WAITS if level in self.schemas)
        return replace(
            demand,
            style=style_for(self._bytes_choice, show_secrets=demand.show_secrets) if records else None,
            recorded=recorded_in(frames) if records and self._select is None else None,
            link_responses=any(linked),
            in_order=not demand.stable_ids or FLOWS in self.schemas,
            copies=FLOWS in self.schemas
            or (FRAMES in self.schemas and (shows_copies(frames) or (display is not None and display.needs_copies))),
            messages=self.messages,
            blocks=self._blocks and self._select is None,
            select=self._select,
            analyse=CONNECTIONS in self.schemas or FLOWS in self.schemas or demand.analyse,
        )

    @property
    def totals(self) -> Totals:
        return self.dissector.totals if self._packets is None else self._packets.totals

    def rows(self, capture: Iterable[PacketBatch], since: Since | None = None) -> Iterator[Rows]:
        """The rows of a capture; a ``CaptureError`` is raised after all rows before it.

        ``since``: times of the rows that are wanted; these have the column :data:`TIME`.
        """
        where = self._where
        is_noted = since is None

        def noted() -> Iterator[PacketBatch]:
            nonlocal is_noted
            for batch in capture:
                if not is_noted and since is not None and len(batch):
                    self._span, is_noted = since(int(batch.time_ns[0])), True
                yield batch

        window: list[pa.RecordBatch] = []
        for level, batch in self._rows(noted() if where is None else where.watch(noted())):
            if level is None:
                assert self.windows is not None and isinstance(batch, int)
                yield from _with_level(next(iter(self.schemas)), self.windows.rows(window, batch))
                window = []
                continue
            chosen = batch if where is None else where.apply(batch)
            if self._dropped:
                chosen = chosen.drop_columns(self._dropped)
            if level != FLOWS:
                chosen = within(chosen, *self._span)
            if self.windows is not None and ORDER.name in chosen.schema.names:
                window.append(chosen)
            elif where is None or len(chosen):
                yield level, chosen if self.windows is None else self.windows.shape(chosen)

    def push(self, frames: Iterable[Any]) -> Iterator[Any]:
        """The rows of the next frames of ``dissector``, if the caller drives it. Not with ``blocks``."""
        collects = {level: self._collect(level) for level in (FRAMES, MESSAGES) if level in self.schemas}
        for frame in frames:
            if type(frame) is Reached:
                assert self.windows is not None
                if self.windows.due(frame.last, frame.size):
                    for level, collect in collects.items():
                        yield from _with_level(level, collect.drain())
                    yield from self._end_window(frame.number)
                continue
            if self._select is not None and not self._matches(self._select, frame):
                continue
            parts = () if self.messages is None else self.messages.of(frame)
            if self.flows is not None and self._is_within(frame.time_ns):
                self.flows.frame(frame, parts)
            full = [collect.add(frame, parts) for collect in collects.values()]
            if any(full):  # all levels are written together
                for level, collect in collects.items():
                    yield from _with_level(level, collect.drain())
            if self.windows is None:
                yield from self._connections(CONNECTION_ROWS)
        for level, collect in collects.items():
            yield from _with_level(level, collect.drain())
        yield from self._connections()

    def _end_window(self, reached: int) -> Iterator[tuple[Any, Any]]:
        """With several processes: exchange what they have up to the number of a frame."""
        assert self.windows is not None
        gather = self.windows.exchange.gather
        if self._ended is not None:
            self._ended.rows = [row for rows in gather(self._ended.rows) for row in rows]
            yield from self._connections(1 if reached == END else CONNECTION_ROWS)
        elif self.flows is not None:
            if not self.flows.share(gather, last=reached == END) and reached == END:
                self.flows = None
        else:
            yield None, reached

    def suspend(self) -> tuple[Any, ...]:
        """State for :meth:`resume` of another reader of the same tables."""
        return self.dissector, self.messages, self.matched, self.late

    def resume(
        self,
        dissector: Dissector,
        messages: Messages | None,
        matched: set[Connection],
        late: dict[Connection, str | None],
    ) -> None:
        """Continue where another reader of the same tables stopped to :meth:`push`."""
        dissector.resume(replace(self.dissector.demand, messages=messages), self._connection_ended)
        self.dissector, self.messages, self.matched, self.late = dissector, messages, matched, late

    def _rows(self, capture: Iterable[PacketBatch]) -> Iterator[tuple[Any, Any]]:
        damage = Postponed()
        if self._packets is not None:
            yield from _with_level(PACKETS, self._packet_batches(self._packets, capture))
        elif self.dissector.demand.blocks:
            yield from self._messages(_until(damage, self.dissector.frames_and_blocks(capture)))
        else:
            yield from self.push(_until(damage, self.dissector.frames(capture)))
        yield from self.flow_rows()
        damage.raise_again()

    def _collect(self, level: str) -> FrameBatches | MessageBatches:
        if level == FRAMES:
            tables = 2 if MESSAGES in self.schemas else 1
            return FrameBatches(self.schemas[FRAMES], self._bytes_choice, self.totals.failures, tables)
        return MessageBatches(self.schemas[MESSAGES], self._bytes_choice, self.body_bytes)

    def _matches(self, display: Filter, frame: Frame) -> bool:
        """Whether a frame matches; drop the messages of others."""
        if not display.matches(frame):
            if self.messages is not None:
                self.messages.of(frame)
            return False
        if self._ended is not None:
            if frame.connection in self.late:
                self._ended.end(frame.connection, self.late.pop(frame.connection))
            else:
                self.matched.add(frame.connection)
        return True

    def _messages(self, steps: Iterable[list[Any]]) -> Iterator[tuple[Any, Any]]:
        """The messages of frames that are read in blocks."""
        collect = self._collect(MESSAGES)
        assert isinstance(collect, MessageBatches) and self.messages is not None
        demand = self.dissector.demand
        waiting = HeldMessages(self.messages, in_order=demand.in_order) if demand.link_responses else None
        ready = self.messages.drain if waiting is None else waiting.release
        for items in steps:
            step = None if self.windows is None else items.pop()
            if waiting is not None:
                waiting.add(items, step)
            del items
            yield from _with_level(MESSAGES, collect.add_parts(ready()))
            yield from self._connections(CONNECTION_ROWS)
            if step is not None and self.windows is not None and self.windows.due(step.last, step.size):
                yield from _with_level(MESSAGES, collect.drain())
                yield None, step.last if waiting is None else waiting.first_held(step.last + 1) - 1
        if waiting is not None:
            if missed := waiting.finish(self.totals.last_ns):
                self.totals.limits[LIMIT] += missed
            yield from _with_level(MESSAGES, collect.add_parts(ready()))
        yield from _with_level(MESSAGES, collect.drain())
        yield from self._connections()
        if self.windows is not None:
            yield None, END

    def flow_rows(self) -> Iterator[Rows]:
        """The rows of flows, at the end."""
        if self.flows is not None:
            from wiredecode.flows.table import rows
            from wiredecode.tables.flows import table

            made = table(rows(self.flows.portable())).select(self.schemas[FLOWS].names)
            yield from _with_level(FLOWS, made.replace_schema_metadata(self.schemas[FLOWS].metadata).to_batches())

    def _is_within(self, time_ns: int) -> bool:
        start, end = self._span
        return (start is None or time_ns >= start) and (end is None or time_ns <= end)

    def _connection_ended(self, connection: Connection, foreign: str | None) -> None:
        if self.on_decoded is not None:
            self.on_decoded(connection, foreign)
        if self._ended is None:
            return
        if self._select is None or connection in self.matched:
            self._ended.end(connection, foreign)
            self.matched.discard(connection)
            return
        self.late[connection] = foreign
        if len(self.late) > LATE_CONNECTIONS:
            del self.late[next(iter(self.late))]

    def _connections(self, least: int = 1) -> Iterator[Rows]:
        """Ended connections, if there are at least ``least``."""
        if self._ended is not None and len(self._ended.rows) >= least:
            yield from _with_level(CONNECTIONS, self._ended.batches(CONNECTION_ROWS))

    def _packet_batches(self, table: PacketTable, capture: Iterable[PacketBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for packets in capture:
                if len(packets):
                    yield table.batch(packets).select([*self.schemas[PACKETS].names, *self._facts])
        finally:
            table.finish()


class TableReader(LevelsReader):
    """Reads ``capture`` (batches of packets, as :func:`wiredecode.capture.open_capture` gives) as a table of a level.

    Iterating gives its rows; ``schema`` has its columns. ``display``: only rows of frames that match. ``reading``: of
    :class:`Demand`. Others as of :class:`LevelsReader`.
    """

    def __init__(
        self,
        capture: Iterable[PacketBatch],
        level: str,
        *,
        display: Filter | None = None,
        blocks: bool = True,
        **reading: Any,
    ) -> None:
        super().__init__(Demand(levels=(level,), select=display, **reading), blocks=blocks)
        self._capture, self.level, self.schema = capture, level, self.schemas[level]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (batch for _, batch in self.rows(self._capture))


def within(batch: pa.RecordBatch, start_ns: int | None, end_ns: int | None) -> pa.RecordBatch:
    """The rows from ``start_ns`` to ``end_ns``, in nanoseconds since the epoch; None: no bound."""
    for bound, holds in ((start_ns, pc.greater_equal), (end_ns, pc.less_equal)):
        if bound is not None:
            batch = batch.filter(holds(batch.column(TIME).cast(pa.int64()), bound))
    return batch


def _with_level(level: str, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
    return ((level, batch) for batch in batches)


def _until(damage: Postponed, items: Iterable[Item]) -> Iterator[Item]:
    """The items up to an error of the capture, which is raised again later."""
    with damage:
        yield from items


def where(display: Filter | None, level: str, *, blocks: bool) -> TableFilter | None:
    """Return the filter for rows of batches; None: frames must be filtered one by one. Raises ``ValueError``."""
    if display is None or level == CONNECTIONS or (level != PACKETS and not blocks):
        return None
    if "frame.outcome" in display.names:
        return None  # responses are linked frame by frame
    row_filter = TableFilter(display, level)
    if row_filter.unknown and level == PACKETS:
        names = ", ".join(NAMES[PACKETS])
        raise ValueError(f"packets have no {row_filter.unknown[0]}: at this level filters are about {names}")
    return None if row_filter.unknown else row_filter


def shows_copies(schema: pa.Schema) -> bool:
    """Whether a table of frames shows which messages are copies."""
    layers = [field.type for field in schema.field("layers").type] if "layers" in schema.names else []
    shown = [kind for kind in layers if pa.types.is_struct(kind) and kind.get_field_index("copy_of") >= 0]
    return bool(shown) or "copy_of" in schema.names


def recorded_in(schema: pa.Schema) -> frozenset[str] | None:
    """Protocols whose layers a table has; None: all."""
    names = {field.name for field in schema.field("layers").type}
    if OTHER in names:
        return None
    return frozenset(each.name for each in protocols() if not names.isdisjoint(layer_names(each)))
