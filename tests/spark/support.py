"""Expected rows of Spark, and comparison of tables in any row order."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.capture.build import pcap, record
from tests.conftest import CAPTURES
from tests.support import packets
from wiredecode.capture import CaptureError, open_capture
from wiredecode.spark.decode import TableDemand
from wiredecode.tables.portable import portable_rows, table_columns
from wiredecode.tables.reader import TableReader


def expected(files: Iterable[str | Path], demand: TableDemand, source: str = "") -> pa.Table:
    """The rows of ``demand`` as one machine reads them from the files of one source, up to any damage."""
    reader = TableReader(
        open_capture(list(files)),
        demand.level,
        columns=table_columns(demand.columns),
        decode_as=demand.decoding,
        limits=demand.reassembly,
        show_secrets=demand.show_secrets,
        display=demand.display(),
        stable_ids=True,
    )
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):
        batches.extend(portable_rows(batch, source, demand.schema) for batch in reader)
    return pa.Table.from_batches(batches, demand.schema)


def same_rows(found: pa.Table, wanted: pa.Table) -> None:
    """Assert that both have the same columns and the same rows, with multiplicity, in any order."""
    assert found.schema.names == wanted.schema.names
    assert found.num_rows == wanted.num_rows
    found, wanted = in_order(found.cast(wanted.schema)), in_order(wanted)
    for name in wanted.schema.names:
        left, right = found[name], wanted[name]
        if not left.equals(right):
            pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
            row, pair = next((row, pair) for row, pair in enumerate(pairs) if pair[0] != pair[1])
            raise AssertionError(f"{name}, row {row}: {pair[0]!r} instead of {pair[1]!r}")


def in_order(table: pa.Table) -> pa.Table:
    """The table sorted by all columns that are neither structures nor lists."""
    keys = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys])
    return table.take(order).combine_chunks()


MIXED = ("rabbitmq-stream/c43_basic.pcap", "nats/04-request-reply.pcap", "cursus/group.pcap")
Packets = list[tuple[int, bytes]]


def mixed() -> Packets:
    """Several captures shifted to the same time."""
    found: Packets = []
    for name in MIXED:
        every = packets(CAPTURES / name)
        found += [(10**18 + time_ns - every[0][0], data) for time_ns, data in every]
    return sorted(found, key=lambda packet: packet[0])


def capture(some: Packets) -> bytes:
    """A pcap file with times in nanoseconds."""
    records = (record(data, time_ns // 10**9, time_ns % 10**9) for time_ns, data in some)
    return pcap(*records, magic=0xA1B23C4D)
