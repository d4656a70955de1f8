"""Results of whole captures as tables, with frames read one by one and with blocks of them in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from unittest.mock import patch

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.frames import framer

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.frames.totals import Totals

LEVELS = ("frames", "messages")


@contextmanager
def shortest_blocks() -> Iterator[None]:
    """Read all suitable frames as blocks, even a single one."""
    with patch.multiple(framer, BLOCK_FRAMES=1, BLOCK_BYTES=1):
        yield


def table(source: Iterable[PacketBatch], level: str, *, blocks: bool) -> tuple[pa.Table, Totals]:
    """A capture as a table of a level, and its totals; what comes before an error of the capture."""
    import pyarrow as pa

    from wiredecode.tables.reader import TableReader

    reader = TableReader(source, level, blocks=blocks)
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):
        batches.extend(reader)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, reader.schema).combine_chunks(), reader.totals


def difference(got: pa.Table, expected: pa.Table) -> str:
    """The first column and row in which two tables differ."""
    if len(got) != len(expected):
        return f"{len(got)} rows, not {len(expected)}"
    for name in expected.column_names:
        if not got.column(name).equals(expected.column(name)):
            pairs = zip(got.column(name).to_pylist(), expected.column(name).to_pylist(), strict=True)
            return next(
                f"{name} of row {row}: {one!r}, not {two!r}" for row, (one, two) in enumerate(pairs) if one != two
            )
    return "nothing but types"
