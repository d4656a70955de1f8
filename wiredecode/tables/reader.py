"""A capture as a table: bounded record batches of frames, packets or messages, in order (docs/tables.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import Postponed
from wiredecode.capture.reader import Capture
from wiredecode.dissect.build import build_dissector
from wiredecode.dissect.demand import Demand
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.frames.record import BYTES
from wiredecode.frames.totals import Totals
from wiredecode.net import Limits
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import protocols
from wiredecode.tables.batches import BATCH_ROWS, FrameBatches, MessageBatches
from wiredecode.tables.confirms import CONFIRM_COLUMNS, HeldMessages
from wiredecode.tables.connections import ConnectionTable
from wiredecode.tables.frames import style_for
from wiredecode.tables.messages import encoded_schema
from wiredecode.tables.packets import PacketTable
from wiredecode.tables.schema import (
    OTHER,
    RAW,
    STABLE_IDS,
    connections_schema,
    frames_schema,
    layer_names,
    messages_schema,
    packets_schema,
    select,
    type_schema,
)

if TYPE_CHECKING:
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.dissect.lookahead import KnownOutcome
    from wiredecode.filter import Filter
    from wiredecode.filter.tables import TableFilter
    from wiredecode.net import Network
    from wiredecode.protocols.registry import DecodeAs

LARGE_BYTES = 24 * 1024 * 1024
"""Captures from this size on are read many frames at a time."""
FRAMES, MESSAGES, PACKETS, CONNECTIONS = LEVELS = ("frames", "messages", "packets", "connections")


def table_schema(level: str, bytes_choice: str = RAW) -> pa.Schema:
    """The schema of all columns of a level. Raises ``ValueError`` for a level or ``bytes_choice`` that is not known."""
    if bytes_choice != RAW and bytes_choice not in BYTES:
        raise ValueError(f"bytes cannot be shown as {bytes_choice}; there are {', '.join((RAW, *BYTES))}")
    if level == PACKETS:
        return packets_schema()
    if level == MESSAGES:
        return messages_schema(bytes_choice)
    if level == FRAMES:
        return frames_schema(bytes_choice)
    if level == CONNECTIONS:
        return connections_schema()
    raise ValueError(f"there is no level {level}; there are {', '.join(LEVELS)}")


class TableReader:
    """Reads ``capture`` (batches of packets, as :func:`wiredecode.capture.open_capture` gives) as a table of a level.

    ``columns`` chooses columns, ``layers.nats.subject`` a member of one; ``schema`` says what comes. ``decode_as``,
    ``limits``: as for :class:`Dissector`. ``bytes_choice``: ``raw`` keeps bytes as bytes, a key of ``BYTES`` makes them
    text. ``protocol`` leaves the layers that its frames cannot have out of the schema of frames.

    ``encoded``: texts of messages as dictionaries, see :func:`wiredecode.tables.messages.encoded_schema`. ``bulk``:
    whether messages are read in bulk, if all are wanted; by default where the capture is large. ``display``: only rows
    of frames that it matches; columns that it needs may be in ``schema`` too.

    Iterating gives batches of at most :data:`BATCH_ROWS` rows and about :data:`BATCH_BYTES` (of frames:
    :data:`FRAME_ROWS`, :data:`FRAME_BYTES`), in the order of the capture; a
    ``CaptureError`` is raised after everything before it came out. ``totals`` is whole at the end. Raises
    ``ValueError`` for a level or column that is not there.

    ``stable_ids``: connections, frames and packets are called by what needs no count (docs/tables.md, "Stable ids").
    """

    def __init__(
        self,
        capture: Iterable[PacketBatch],
        level: str,
        *,
        columns: Sequence[str] | None = None,
        decode_as: Mapping[int, DecodeAs] | None = None,
        limits: Limits | None = None,
        bytes_choice: str = RAW,
        show_secrets: bool = False,
        protocol: str | None = None,
        encoded: bool = False,
        bulk: bool | None = None,
        display: Filter | None = None,
        stable_ids: bool = False,
        answers: Mapping[int, KnownOutcome] | None = None,
        network: Network | None = None,
    ) -> None:
        self.capture, self.level = capture, level
        self.bytes_choice, self._show_secrets = bytes_choice, show_secrets
        schema = table_schema(level, bytes_choice)
        if protocol is not None and level == FRAMES:
            schema = type_schema(protocol, bytes_choice=bytes_choice)
        self._bulk = level == MESSAGES and answers is None and (prefer_bulk(capture) if bulk is None else bulk)
        self._where = where(display, level, bulk=self._bulk)
        self._select = display if self._where is None else None
        if self._where is not None and columns is not None:
            columns = list(dict.fromkeys([*columns, *self._where.columns]))
        self._encoded = encoded and level == MESSAGES and bytes_choice == RAW
        if stable_ids:
            if display is not None:
                display.check_stable()
            schema = schema.with_metadata({**schema.metadata, **STABLE_IDS})
        self.schema = select(encoded_schema(schema) if self._encoded else schema, columns)
        self.messages = Messages(elements=True) if level == MESSAGES else None
        """What the dissector collects, until its frame comes."""
        analyse = not {"connection", "tcp_analysis"}.isdisjoint(self.schema.names) and not stable_ids
        self._packets = PacketTable(limits, stable_ids=stable_ids, analyse=analyse) if level == PACKETS else None
        records = level == FRAMES and "layers" in self.schema.names
        style = style_for(bytes_choice, show_secrets=show_secrets) if records else None
        waits = {FRAMES: ("response", "outcome"), MESSAGES: CONFIRM_COLUMNS}.get(level, ())
        responses = not set(waits).isdisjoint(self.schema.names)
        demand = Demand(
            style=style,
            recorded=recorded_in(self.schema) if records and self._select is None else None,
            link_responses=responses,
            copies=level == FRAMES and (shows_copies(self.schema) or (display is not None and display.needs_copies)),
            messages=self.messages,
            runs=self._bulk and self._select is None,
            select=self._select,
            stable_ids=stable_ids,
            answers=answers,
            decode_as=decode_as or {},
        )
        self._ended = ConnectionTable(self.schema) if level == CONNECTIONS else None
        self.matched: set[Connection] = set()
        """Connections of which a frame matches, where that is asked for."""
        self.dissector = build_dissector(
            demand,
            limits,
            analyse=self._ended is not None,
            network=network,
            on_over=None if self._ended is None else self._over,
        )
        """At level ``packets`` it has nothing to do."""

    @property
    def totals(self) -> Totals:
        return self.dissector.totals if self._packets is None else self._packets.totals

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._where is None:
            return self._batches()
        return (kept for batch in self._batches() if len(kept := self._where.apply(batch)))

    def push(self, frames: Iterable[Frame]) -> Iterator[pa.RecordBatch]:
        """The rows of the next frames of ``dissector``, where somebody else drives it. Needs ``bulk`` to be false."""
        if self._ended is not None:
            yield from self._connection_batches(self._ended, frames)
            return
        collect = self._collect()
        for frame in frames if self._select is None else self._selected(self._select, frames):
            if collect.add(frame):
                yield from collect.drain()
        yield from collect.drain()

    def resume(self, dissector: Dissector, messages: Messages | None, matched: set[Connection]) -> None:
        """Go on where another reader of the same table stopped to :meth:`push`."""
        over = None if self._ended is None else self._over
        dissector.resume(replace(self.dissector.demand, messages=messages), over)
        self.dissector, self.messages, self.matched = dissector, messages, matched

    def __getstate__(self) -> dict[str, Any]:
        """A dissector leads here; who goes on with it has a reader of its own."""
        return {}

    def _collect(self) -> FrameBatches | MessageBatches:
        if self.messages is None:
            return FrameBatches(self.schema, self.bytes_choice, self.totals.failures)
        return MessageBatches(self.messages, self.schema, self.bytes_choice, self._encoded)

    def _selected(self, display: Filter, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The frames that match; messages of others are dropped."""
        for frame in frames:
            if display.matches(frame):
                yield frame
            elif self.messages is not None:
                self.messages.of(frame)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._packets is not None:
            yield from self._packet_batches(self._packets)
            return
        if self._ended is not None:
            yield from self._connection_batches(self._ended, self.dissector.frames(self.capture))
            return
        collect = self._collect()
        if self.dissector.demand.runs:
            yield from self._message_batches(collect)
            return
        frames = self.dissector.frames(self.capture)
        with Postponed() as damage:
            for frame in frames if self._select is None else self._selected(self._select, frames):
                if collect.add(frame):
                    yield from collect.drain()
        yield from collect.drain()
        damage.raise_again()

    def _message_batches(self, collect: FrameBatches | MessageBatches) -> Iterator[pa.RecordBatch]:
        """The messages of frames that are read many at a time."""
        assert isinstance(collect, MessageBatches) and self.messages is not None
        waiting = HeldMessages(self.messages) if self.dissector.demand.link_responses else None
        ready = self.messages.drain if waiting is None else waiting.release
        with Postponed() as damage:
            for items in self.dissector.mixed(self.capture):
                if waiting is not None:
                    waiting.add(items)
                del items
                yield from collect.add_parts(ready())
        if waiting is not None:
            waiting.finish()
            yield from collect.add_parts(ready())
        yield from collect.drain()
        damage.raise_again()

    def _over(self, connection: Connection, other: str | None) -> None:
        assert self._ended is not None
        if self._select is None or connection in self.matched:
            self._ended.end(connection, other)
        self.matched.discard(connection)

    def _connection_batches(self, table: ConnectionTable, frames: Iterable[Frame]) -> Iterator[pa.RecordBatch]:
        """Connections as they end: those that are open at the end of the capture come last."""
        select, matched = self._select, self.matched
        with Postponed() as damage:
            for frame in frames:
                if select is not None and frame.connection not in matched and select.matches(frame):
                    matched.add(frame.connection)
                if len(table.rows) >= BATCH_ROWS:
                    yield from table.batches(BATCH_ROWS)
        yield from table.batches(BATCH_ROWS)
        damage.raise_again()

    def _packet_batches(self, table: PacketTable) -> Iterator[pa.RecordBatch]:
        try:
            for packets in self.capture:
                if len(packets):
                    yield table.batch(packets).select(self.schema.names)
        finally:
            table.finish()


def where(display: Filter | None, level: str, *, bulk: bool) -> TableFilter | None:
    """How a filter chooses rows of batches; None: frames have to be chosen one by one. Raises ``ValueError``."""
    if display is None or level == CONNECTIONS or (level != PACKETS and not bulk):
        return None
    from wiredecode.filter.tables import NAMES, TableFilter

    found = TableFilter(display, level)
    if found.unknown and level == PACKETS:
        names = ", ".join(NAMES[PACKETS])
        raise ValueError(f"packets have no {found.unknown[0]}: at this level filters are about {names}")
    return None if found.unknown else found


def prefer_bulk(capture: Iterable[PacketBatch]) -> bool:
    """Whether reading many frames at a time pays: it takes more memory."""
    size = capture.bytes_total if isinstance(capture, Capture) else None
    return size is not None and size >= LARGE_BYTES


def shows_copies(schema: pa.Schema) -> bool:
    """Whether a table of frames tells which messages are copies."""
    layers = [field.type for field in schema.field("layers").type] if "layers" in schema.names else []
    shown = [kind for kind in layers if pa.types.is_struct(kind) and kind.get_field_index("copy_of") >= 0]
    return bool(shown) or "copy_of" in schema.names


def recorded_in(schema: pa.Schema) -> frozenset[str] | None:
    """The protocols of which a table shows layers; None: of all."""
    names = {field.name for field in schema.field("layers").type}
    if OTHER in names:
        return None
    return frozenset(each.name for each in protocols() if not names.isdisjoint(layer_names(each)))
