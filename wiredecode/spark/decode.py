"""From rows of packets, bucket by bucket, to rows of tables: the same engine as on one machine.

Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from wiredecode.api import decoding, reassembly
from wiredecode.capture.batch import PacketBatch
from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.totals import Totals
from wiredecode.net import Limits, Network
from wiredecode.net.buckets import Bucket, Buckets
from wiredecode.protocols import registry
from wiredecode.protocols.registry import DecodeAs
from wiredecode.spark.packets import REPORT, packed, packet_batches, report_text
from wiredecode.tables.portable import converted, portable_schema, table_columns
from wiredecode.tables.reader import CONNECTIONS, LEVELS, TableReader, table_schema
from wiredecode.tables.schema import named, select

REPORTED = pa.field("report", pa.string())
"""Last column of what :func:`decode` gives: null in rows, all else is null in reports."""


@dataclass(frozen=True)
class TableDemand:
    """What is wanted, as the driver tells all tasks; it can be pickled.

    ``columns`` are those of the table on Spark. ``decode_as``: port to protocol, ``rabbitmq_stream`` or ``nats/3``.
    ``limits``: of reassembly, by name. ``buckets``: how many parts the connections are dealt out to. ``keylog``:
    files of TLS secrets, by their paths; tasks read them. Raises ``ValueError`` for what is wrong.
    """

    level: str
    buckets: int = 1
    columns: Sequence[str] | None = None
    filter: str | None = None
    decode_as: Mapping[int, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    show_secrets: bool = False
    fail_fast: bool = False
    keylog: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"no level is called {self.level!r} here; there is {', '.join(LEVELS)}")
        if self.columns is not None:
            whole = portable_schema(table_schema(self.level))
            object.__setattr__(self, "columns", named(whole, self.columns))
        self.schema  # noqa: B018 - columns that are not there
        self.decoding  # noqa: B018 - protocols that are not known
        self.reassembly  # noqa: B018
        if (display := self.display()) is not None:
            display.check_stable()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table on Spark."""
        return select(portable_schema(table_schema(self.level)), self.columns)

    @cached_property
    def decoding(self) -> dict[int, DecodeAs]:
        return decoding(self.decode_as)

    @cached_property
    def reassembly(self) -> Limits:
        return reassembly(self.limits)

    @cached_property
    def keyed(self) -> Limits:
        """The limits, with TLS secrets where there are some. Raises OSError."""
        if not self.keylog:
            return self.reassembly
        from wiredecode.tls.keylog import Keyed, KeyLog

        return Keyed.of(self.reassembly, KeyLog(map(key_file, self.keylog)))

    @cached_property
    def sessions(self) -> dict[int, str]:
        """Ports whose connections know of each other, and their protocol."""
        return registry.session_ports(self.decoding)

    @property
    def dealt(self) -> Buckets:
        """Connections that know of each other are in one bucket."""
        return Buckets(self.buckets, self.sessions)

    def display(self) -> Filter | None:
        """The filter, new for every run."""
        return None if self.filter is None else compile_filter(self.filter, secrets=self.show_secrets, utc=True)

    def reader(self, packets: Iterable[PacketBatch], bucket: int | Bucket, *, bulk: bool = True) -> TableReader:
        """Reads the packets of a bucket as the table; ``bulk``: plain frames many at a time."""
        kept = Bucket(self.dealt, bucket) if isinstance(bucket, int) else bucket
        return TableReader(
            packets,
            self.level,
            columns=table_columns(self.columns),
            decode_as=self.decoding,
            show_secrets=self.show_secrets,
            display=self.display(),
            bulk=bulk,
            stable_ids=True,
            network=Network(self.keyed, kept, analyse=self.level == CONNECTIONS),
        )

    def row_schema(self) -> pa.Schema:
        """What :func:`decode` gives."""
        return self.schema.append(REPORTED)

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def key_file(path: str) -> Path:
    """A key log where this task finds it: under its path, or where Spark has brought it."""
    if Path(path).is_file():
        return Path(path)
    from pyspark import SparkFiles

    return Path(SparkFiles.get(Path(path).name))


def decode(rows: Iterable[pa.RecordBatch], demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Rows of packets in the order of ``packets.ORDER`` to rows of the table; reports come through.

    One bucket of one source after the other, each as long as it is, in bounded memory.
    """
    for (source, bucket), parts in parted(rows):
        if bucket is None:
            yield from reports_of(parts, demand)
            continue
        reader = demand.reader(packet_batches(parts), bucket)
        yield from (row_batch(batch, source, demand) for batch in reader)
        yield ended(reader, source, bucket, demand)


def reports_of(parts: Iterable[pa.RecordBatch], demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Reports among rows of packets, as rows of the result."""
    texts = (text for part in parts for text in part.column("data").to_pylist())
    return (report_row(text.decode(), demand.row_schema()) for text in texts)


def row_batch(batch: pa.RecordBatch, source: str, demand: TableDemand) -> pa.RecordBatch:
    """Rows of a reader as rows of the result."""
    made = converted(batch, source, demand.schema)
    return pa.record_batch([*made.columns, pa.nulls(len(made), pa.string())], schema=demand.row_schema())


def ended(
    reader: TableReader, source: str, bucket: int | str, demand: TableDemand, since: Totals | None = None, **more: str
) -> pa.RecordBatch:
    """The report on a bucket that has been read to its end; ``since``: what earlier reports counted of it."""
    apart = sorted(key for key in reader.dissector.accounts.sessions if key[1] not in demand.sessions)
    totals = reader.totals if since is None else reader.totals.since(since)
    text = report_text(source, totals=packed(totals), apart=apart, bucket=bucket, **more)
    return report_row(text, demand.row_schema())


def without_reports(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[str], pa.RecordBatch]]:
    """The reports of each batch of the result, and its rows."""
    for batch in batches:
        reports = batch.column(REPORTED.name)
        if reports.null_count == len(batch):
            yield [], batch
        else:
            yield reports.drop_null().to_pylist(), batch.filter(reports.is_null())


def one_row(schema: pa.Schema, /, **values: Any) -> pa.RecordBatch:
    """A row of which only these values are told."""
    return pa.RecordBatch.from_pylist([values], schema=schema)


def report_row(text: str, schema: pa.Schema) -> pa.RecordBatch:
    """A report as a row of the result."""
    return one_row(schema, **{REPORTED.name: text})


def parted(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int | None], Iterator[pa.RecordBatch]]]:
    """Each bucket, and its rows; take them before the next one. Reports have no bucket."""
    pending = chain.from_iterable(map(pieces, rows))
    ahead = next(pending, None)

    def same(key: tuple[str, int | None]) -> Iterator[pa.RecordBatch]:
        nonlocal ahead
        while ahead is not None and ahead[0] == key:
            part = ahead[1]
            ahead = next(pending, None)
            yield part

    while ahead is not None:
        key = ahead[0]
        parts = same(key)
        yield key, parts
        for _ in parts:
            pass


def pieces(rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, int | None], pa.RecordBatch]]:
    """Where source or bucket change, a batch is cut."""
    if not len(rows):
        return
    sources, buckets = rows.column("source"), rows.column("bucket").to_numpy()
    codes = sources.dictionary_encode().indices.to_numpy()
    reports = rows.column("linktype").to_numpy() == REPORT
    changes = (np.diff(codes) != 0) | (np.diff(buckets) != 0) | (np.diff(reports) != 0)
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(rows)]
    for low, high in pairwise(edges):
        yield (sources[low].as_py(), None if reports[low] else int(buckets[low])), rows.slice(low, high - low)


Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What Spark's ``mapInArrow`` takes."""
