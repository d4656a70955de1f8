"""From parcels of packets, bucket by bucket, to rows of tables: the same engine as on one machine.

Nothing here needs Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from wiredecode.capture.batch import PacketBatch
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.dissect.dissector import FRAMES_ONLY, Demand, Dissector
from wiredecode.dissect.following import NoteWriter
from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.totals import Totals
from wiredecode.net.buckets import LINKED, Bucket, Buckets
from wiredecode.net.limits import Limits, limits_of
from wiredecode.protocols import registry
from wiredecode.protocols.registry import DecodeAs, decoding
from wiredecode.spark.parcels import REPORTS, PacketPlaces, by_bucket, note_parcels, pack, packets, report_text, value
from wiredecode.tables.portable import portable_rows, portable_schema, table_columns
from wiredecode.tables.reader import FLOWS, LEVELS, PACKETS, LevelsReader, Rows, table_schema
from wiredecode.tables.schema import column_names, select
from wiredecode.tls.keylog import KeyLog

NOTES_TOGETHER = 4096
"""Packets whose notes are sent together."""
Decoded = Rows | str
"""Rows, or a report."""


@dataclass(frozen=True)
class TableDemand:
    """The tables that are wanted, as the driver sends it to all tasks; it can be pickled.

    ``levels``: one, or several that are decoded together. ``columns`` are those of the table on Spark, of one level.
    ``decode_as``: port to protocol, ``rabbitmq_stream`` or ``nats/3``. ``limits``: of reassembly, by name.
    ``buckets``: the number of parts that the connections are divided into. ``linked``: notes link those that know of
    each other (:func:`write_notes`), else they are in one part. ``seen``: ports of such connections, and their
    protocol, beside those of ``decode_as`` and the usual ones. ``large``: the parts of large connections by source, see
    :class:`Buckets`. ``keylog``: files of TLS secrets, by their paths; tasks read them. Raises ``ValueError`` for wrong
    values.
    """

    levels: Sequence[str] | str
    buckets: int = 1
    columns: Sequence[str] | None = None
    filter: str | None = None
    decode_as: Mapping[int, str] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    show_secrets: bool = False
    fail_fast: bool = False
    linked: bool = False
    seen: Mapping[int, str] = field(default_factory=dict)
    large: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    keylog: Sequence[str] = ()

    def __post_init__(self) -> None:
        given = [self.levels] if isinstance(self.levels, str) else list(self.levels)
        for level in given:
            if level not in LEVELS:
                raise ValueError(f"no level is called {level!r} here; there is {', '.join(LEVELS)}")
        object.__setattr__(self, "levels", tuple(level for level in LEVELS if level in given))
        if PACKETS in given and len(self.levels) > 1:
            raise ValueError("packets need no decoding: they are a run of their own, without other levels")
        if self.columns is not None:
            if FLOWS in given:
                raise ValueError("flows have all of their columns")
            if len(self.levels) > 1:
                raise ValueError("columns are those of one level, and several are wanted")
            object.__setattr__(self, "columns", column_names(portable_schema(table_schema(self.level)), self.columns))
        self.schemas  # noqa: B018 - columns that are not there
        self.decoding  # noqa: B018 - protocols that are not known
        self.reassembly  # noqa: B018
        if (display := self.display()) is not None:
            display.check_stable()

    @property
    def level(self) -> str:
        """The first of the levels, or the only one."""
        return self.levels[0]

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of the tables on Spark."""
        return {level: select(portable_schema(table_schema(level)), self.columns) for level in self.levels}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the only table."""
        return self.schemas[self.level]

    @cached_property
    def decoding(self) -> dict[int, DecodeAs]:
        return decoding(self.decode_as)

    @cached_property
    def reassembly(self) -> Limits:
        return limits_of(self.limits)

    @cached_property
    def keys(self) -> KeyLog | None:
        """The TLS secrets, if there are some. Raises OSError."""
        if not self.keylog:
            return None
        return KeyLog(map(key_file, self.keylog))

    @cached_property
    def sessions(self) -> dict[int, str]:
        """Ports whose connections know of each other, and their protocol."""
        return {**self.seen, **registry.session_ports(self.decoding)}

    def bucketing(self, source: str) -> Buckets:
        """Connections that know of each other are linked, or in one bucket."""
        return Buckets(self.buckets, self.sessions, linked=self.linked, large=self.large.get(source, {}))

    def display(self) -> Filter | None:
        """The filter, new for every run."""
        return None if self.filter is None else compile_filter(self.filter, secrets=self.show_secrets, utc=True)

    def reading(self, source: str, bucket: int) -> Demand:
        """The pass over the packets of a bucket."""
        return Demand(
            levels=tuple(self.levels),
            columns=table_columns(self.columns),
            decode_as=self.decoding,
            keys=self.keys,
            show_secrets=self.show_secrets,
            select=self.display(),
            stable_ids=True,
            limits=self.reassembly,
            bucket=Bucket(self.bucketing(source), bucket),
        )

    @property
    def scan(self) -> Demand:
        """A pass over packets without tables."""
        return replace(FRAMES_ONLY, blocks=True, decode_as=self.decoding, keys=self.keys, limits=self.reassembly)

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def key_file(path: str) -> Path:
    """A key log where this task finds it: under its path, or where Spark has brought it."""
    if Path(path).is_file():
        return Path(path)
    from pyspark import SparkFiles

    return Path(SparkFiles.get(Path(path).name))


class BucketReader(LevelsReader):
    """Decodes the packets of a bucket once, into the tables of all levels of ``demand``, as they are on Spark."""

    body_bytes = 12 << 20
    """Two batches make a row group; with larger ones a worker needs 80 MB more."""

    def __init__(self, demand: TableDemand, source: str, bucket: int, *, blocks: bool = True) -> None:
        super().__init__(demand.reading(source, bucket), blocks=blocks)
        self.demand, self.source, self.bucket = demand, source, bucket

    def table_rows(self, packets: Iterable[PacketBatch]) -> Iterator[Rows]:
        """The rows of packets, as they are on Spark."""
        return self.convert(self.rows(packets))

    def flow_rows(self) -> Iterator[Rows]:
        """None: the report has the flows."""
        return iter(())

    def convert(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        """Rows of the reader as rows on Spark."""
        return ((level, portable_rows(batch, self.source, self.demand.schemas[level])) for level, batch in rows)

    def report(self, since: Totals | None = None, **more: str) -> str:
        """The report on the bucket, see :func:`bucket_report`; it has the flows, which the driver adds."""
        if self.flows is not None:
            more["flows"] = pack(self.flows.portable())
        return bucket_report(self.source, self.bucket, self.dissector, self.demand, since, **more)


def bucket_report(
    source: str, bucket: int, dissector: Dissector, demand: TableDemand, since: Totals | None = None, **more: str
) -> str:
    """The report on a bucket that was read to its end; ``since``: what earlier reports counted."""
    known = demand.sessions
    apart = sorted(
        (name, port)
        for name, port in dissector.accounts.sessions
        if port not in known or (known[port] != name and not demand.linked)
    )
    totals = dissector.totals if since is None else dissector.totals.since(since)
    return report_text(source, totals=pack(totals), apart=apart, bucket=bucket, **more)


def write_notes(rows: Iterable[pa.RecordBatch], demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Notes for all other buckets, from parcels in the order of ``packets.ORDER``, as parcels."""
    wanted = LevelsReader(demand.reading("", 0)).dissector.demand
    reading = replace(demand.scan, copies=wanted.copies and not wanted.blocks, stable_ids=True)
    for source, bucket, parcels in by_bucket(rows):
        others = [number for number in range(min(demand.buckets, LINKED)) if number != bucket]
        own, places, writer = Bucket(demand.bucketing(source), bucket, sessions_only=True), PacketPlaces(), NoteWriter()
        dissector = Dissector(replace(reading, bucket=own, notes=writer))
        for _ in dissector.frames_and_blocks(packets(parcels, places=places)):
            if len(writer) >= NOTES_TOGETHER:
                yield from note_parcels(source, writer.take(), places, others)
        yield from note_parcels(source, writer.take(last=True), places, others)


BucketDecoder = Callable[[str, int, Iterator[pa.RecordBatch], TableDemand], Iterator[Decoded]]
"""Decodes the parcels of one bucket; it can be pickled."""


def decode_bucket(source: str, bucket: int, rows: Iterator[pa.RecordBatch], demand: TableDemand) -> Iterator[Decoded]:
    """Decode a bucket from its first packet to its last one."""
    reader = BucketReader(demand, source, bucket)
    yield from reader.table_rows(packets(rows))
    yield reader.report()


def decode(
    rows: Iterable[pa.RecordBatch], demand: TableDemand, decoder: BucketDecoder = decode_bucket
) -> Iterator[Decoded]:
    """Rows of parcels in the order of ``packets.ORDER`` to rows of tables and reports, in bounded memory."""
    for source, bucket, parcels in by_bucket(rows):
        if bucket == REPORTS:
            yield from (value(row, "data").decode() for row in parcels)
        else:
            yield from decoder(source, bucket, parcels, demand)
