"""A filter on record batches of the tables, column by column: the same rows as frame by frame."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.arrays import Bools
from wiredecode.capture.batch import PacketBatch
from wiredecode.filter import Filter
from wiredecode.filter.logic import Atom, Expression, Negation, tests
from wiredecode.filter.wireshark_names import ANALYSIS, FACTS
from wiredecode.frames import columns
from wiredecode.frames.frame import Frame
from wiredecode.net.health import BITS, KINDS, ConnectionHealth
from wiredecode.net.segments import SegmentFacts
from wiredecode.net.types import Connection

ADDRESSES = dict.fromkeys(("ip", "ipv6", "ip.addr", "ip.src", "ip.dst"), ("src", "dst"))
PORTS = dict.fromkeys(("tcp.port", "tcp.srcport", "tcp.dstport"), ("src", "dst"))
"""Names, and the columns that contain them."""
FRAME: dict[str, tuple[str, ...]] = {
    **ADDRESSES,
    **PORTS,
    **{each.name: (each.column.name,) for each in columns.NAMES if each.column is not None},
    "frame.time_relative": ("time",),
    "time_ns": ("time",),
}
for _name in ("frame.packets", "finding"):
    del FRAME[_name]
OF_FACTS = {"flags_code": "flags", "payload": "length", "seq": "seq_raw", "ack": "ack_raw"}
"""Columns of packets that are facts, and attributes of `SegmentFacts`."""
FACT = "facts."
"""First word of columns that are made only for filters: of the other facts."""
OF_FRAMES = ("frame", "time", "connection", "src", "dst", "sender", "protocol", "type")
"""Columns of messages that describe the frame."""
_COLUMNS = {attribute: column for column, attribute in OF_FACTS.items()}
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "messages": {name: columns for name, columns in FRAME.items() if set(columns) <= {*OF_FRAMES}},
    "packets": {
        **ADDRESSES,
        **{name: (*columns, "transport") for name, columns in PORTS.items()},
        "frame.number": ("packet",),
        "frame.time": ("time",),
        "frame.time_relative": ("time",),
        "time_ns": ("time",),
        "frame.length": ("length",),
        "tcp.stream": ("connection",),
        **{f"{ANALYSIS}{kind}": ("tcp_analysis",) for kind in (*KINDS, "flags")},
        **{name: (_COLUMNS.get(attribute, FACT + attribute),) for name, attribute in FACTS.items()},
    },
}
"""Names known at each level."""
JOINS = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
ATTRIBUTES = {"frame": "number", "packet": "number", "time": "time_ns"}
"""Attributes of frames that have another name than their column."""


class TableFilter:
    """``display`` on batches of a level."""

    def __init__(self, display: Filter, level: str) -> None:
        self.expression = display.expression
        columns = NAMES[level]
        self._columns = {atom.names: _columns(atom, columns) for atom in tests(self.expression)}
        self._read = dict.fromkeys(name for columns in self._columns.values() for name in columns)
        self.unknown = sorted(
            {name for atom in tests(self.expression) for name in atom.names if not _columns_of(name, columns)}
        )
        """Names without a column: they cannot be used."""
        self._capture_ns = 0

    def watch(self, packets: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        """Pass on the packets of the capture; times of rows are relative to the first one."""
        for batch in packets:
            if len(batch):
                self._capture_ns = self._capture_ns or int(batch.time_ns[0])
            yield batch

    @property
    def columns(self) -> list[str]:
        """Columns of the table that it reads."""
        return [name for name in self._read if not name.startswith(FACT)]

    @property
    def facts(self) -> list[str]:
        """Columns that it reads besides, beginning with :data:`FACT`."""
        return [name for name in self._read if name.startswith(FACT)]

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that match."""
        mask = self._mask(self.expression, batch)
        return batch if mask.all() else batch.take(pa.array(np.flatnonzero(mask)))

    def _mask(self, expression: Expression, batch: pa.RecordBatch) -> Bools:
        """The rows that match an expression."""
        if isinstance(expression, bool):
            return np.full(len(batch), expression)
        if isinstance(expression, Atom):
            return _matching_rows(expression, batch, self._columns[expression.names], self._capture_ns)
        if isinstance(expression, Negation):
            return ~self._mask(expression.part, batch)
        mask = self._mask(expression.parts[0], batch)
        for part in expression.parts[1:]:
            if expression.operator == "and" and not mask.any():
                break
            mask = JOINS[expression.operator](mask, self._mask(part, batch))
        return mask


def _columns_of(name: str, columns: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The columns that contain a name; none: it is not known."""
    prefix, _, rest = name.rpartition(".")
    if prefix and prefix != "frame" and rest in ("type", "code") and f"frame.{rest}" in columns:
        return "protocol", rest
    return columns.get(name, ())


def _columns(atom: Atom, columns: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for name in sorted(atom.names) for column in _columns_of(name, columns)))


def _matching_rows(atom: Atom, batch: pa.RecordBatch, names: tuple[str, ...], capture_ns: int) -> Bools:
    """The rows that match a test of these columns: each distinct row is tested once."""
    if len(names) == 1 and atom.comparison is not None:
        compare, value = atom.comparison
        column = batch.column(names[0])
        if not (column.null_count or pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)):
            quick: Bools = compare(column.cast(pa.int64()).to_numpy(zero_copy_only=False), value)
            return quick
    codes = np.zeros(len(batch), np.int64)
    for name in names:
        whole = _dictionary(batch.column(name))
        own = whole.indices.fill_null(len(whole.dictionary)).to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(whole.dictionary) + 1) + own, return_inverse=True)
    different, first_rows = np.unique(codes, return_index=True)
    answers = np.empty(len(different), np.bool_)
    for index, frame in enumerate(as_frames(batch.select(names).take(pa.array(first_rows)), capture_ns)):
        answers[index] = atom.run(frame)
    matching: Bools = answers[codes]
    return matching


def _dictionary(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_list(column.type):
        column = pc.binary_join(column, " ")
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def as_frames(rows: pa.RecordBatch, capture_ns: int) -> Iterator[Frame]:
    """A frame per row that has the values of these columns. ``capture_ns``: time of the first packet."""
    plain = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows.columns)
    for values in zip(*(column.to_pylist() for column in plain), strict=True):
        row = dict(zip(rows.schema.names, values, strict=True))
        tcp = row.pop("transport", "TCP") == "TCP"
        ends = _endpoint(row.pop("src", None), tcp), _endpoint(row.pop("dst", None), tcp)
        connection = Connection(row.pop("connection", None), ends, (0, 0), capture_ns=capture_ns)
        frame = Frame(connection, 0, b"", 0, 0, 0, 0, 0, [], 0, 0, 0)
        named = {name: OF_FACTS.get(name, name.removeprefix(FACT)) for name in row}
        facts = {fact: row.pop(name) for name, fact in named.items() if name in OF_FACTS or name.startswith(FACT)}
        _analyse(frame, row.pop("tcp_analysis", None), facts)
        for name, value in row.items():
            setattr(frame, ATTRIBUTES.get(str(name), str(name)), value)
        yield frame


def _analyse(frame: Frame, kinds: list[str] | None, facts: dict[str, Any]) -> None:
    """Give the frame one packet of these kinds, with these facts; none if neither is known."""
    if kinds is None and not facts:
        return
    frame.packets, frame.connection.health = [0], ConnectionHealth()
    frame.connection.health.facts = {0: SegmentFacts(**facts)}
    direction = frame.connection.health.directions[frame.side]
    direction.kinds = {0: sum(BITS[KINDS.index(kind)] for kind in kinds or ())}


def _endpoint(text: str | None, tcp: bool) -> str:
    """As connections have it; packets may have an address alone."""
    if text is None or not tcp:
        return ""
    return text if text[0] == "[" or text.count(":") == 1 else f"[{text}]:0"
