"""Results of whole captures as tables and lines, with frames read one by one and with runs of them read at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from wiredecode.capture import CaptureError, PacketBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.frames.totals import Totals

LEVELS = ("frames", "messages")


@contextmanager
def shortest_runs() -> Iterator[None]:
    """Whatever can be read as a run of frames is, were it one frame."""
    from wiredecode.dissect import streams

    with patch.multiple(streams, RUN_FRAMES=1, RUN_BYTES=1, LEAST_RUN_BYTES=1):
        yield


def table(source: Iterable[PacketBatch], level: str, *, runs: bool) -> tuple[pa.Table, Totals]:
    """A capture as a table of a level, and its totals; what comes before an error of the capture."""
    import pyarrow as pa

    from wiredecode.tables.reader import TableReader

    reader = TableReader(source, level, bulk=runs)
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):
        batches.extend(reader)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, reader.schema).combine_chunks(), reader.totals


def lines(
    source: Iterable[PacketBatch],
    *,
    runs: bool,
    form: str = "relative",
) -> list[str]:
    """The one-line summaries of a capture; what comes before an error of it."""
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.view.summary import SummaryLines
    from wiredecode.view.times import Times

    made, found = SummaryLines(times=Times(form)), []
    options: dict[str, Any] = {"runs": True, "facts": True} if runs else {}
    dissector = Dissector(link_responses=False, **options)
    with suppress(CaptureError):
        if runs:
            for items in dissector.mixed(source):
                found += made.mixed(items, 0)
        else:
            found += (made.line(frame, 0) for frame in dissector.frames(source))
    return found
