"""Packets that a filter about TCP analysis chooses, for ``pcap``: lines, or records with the columns of the table."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.cli.frame_output import FIELDS, FrameOptions
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import wants_color
from wiredecode.cli.session import CaptureSession
from wiredecode.filter.tables import NAMES, as_frames
from wiredecode.frames.record import BYTES, JsonArray
from wiredecode.net.limits import Limits
from wiredecode.tables.reader import PACKETS, TableReader
from wiredecode.tables.rows import dumps, rows
from wiredecode.view.theme import SEVERITY, paint


def numbers(
    batches: Iterator[pa.RecordBatch], files: list[str], limits: Limits, chosen: list[int], *, whole: bool
) -> None:
    """Add the numbers of these packets to ``chosen``; ``whole``: those of all packets of their connections.

    ``whole`` reads ``files`` a second time. Raises ``CaptureError`` at the end.
    """
    connections: set[int | None] = set()
    with Postponed() as damage:
        for batch in batches:
            chosen += batch["packet"].to_pylist()
            connections.update(batch["connection"].to_pylist())
    if whole:
        connections.discard(None)
        with suppress(CaptureError):  # the first pass reports it
            for batch in TableReader(open_capture(files), PACKETS, columns=["packet", "connection"], limits=limits):
                pairs = zip(batch["packet"].to_pylist(), batch["connection"].to_pylist(), strict=True)
                chosen += [packet for packet, connection in pairs if connection in connections]
    damage.raise_again()


def packet_writer(
    session: CaptureSession, options: FrameOptions, batches: Iterator[pa.RecordBatch]
) -> Callable[[], None]:
    """Return a function that writes these packets in the form of the options."""

    def show_lines() -> None:
        color, width = wants_color(options.color, sys.stdout), 0
        for batch in batches:
            batch = batch.set_column(batch.schema.get_field_index("time"), "time", batch["time"].cast(pa.int64()))
            for row in batch.to_pylist():
                time = options.times.column(row["time"], session.first_ns)
                ends = f"{row['src'] or '-'} → {row['dst'] or '-'}"
                width = max(width, len(ends))
                session.output.text(f"{row['packet']:7} {time}{_facts(row, ends.ljust(width), color=color)}\n")

    def show_records() -> None:
        records = (dumps(row) for batch in batches for row in rows(batch, BYTES[options.bytes_]))
        if options.shape == "array":
            with closing(JsonArray(session.output.write)) as array:
                for record in records:
                    array.add(record)
        else:
            for record in records:
                session.output.write(record + b"\n")

    def show_fields() -> None:
        lines = options.lines
        assert lines is not None
        session.output.text(lines.header())
        columns = fields_of(options)
        for batch in batches:
            rows_shown = batch.to_pylist()
            frames = as_frames(batch.select(columns), session.first_ns)
            for row, frame in zip(rows_shown, frames, strict=True):
                frame.protocol, frame.type = row["transport"] or row["not_decoded"], _info(row).strip()
                session.output.text(lines.line(frame))

    if options.shape == FIELDS:
        return show_fields
    return show_records if options.is_records else show_lines


def fields_of(options: FrameOptions) -> list[str]:
    """Columns of packets that the fields of ``-T fields`` need. Raises ``UsageError``."""
    from wiredecode.view.fieldlines import UnknownField

    if options.lines is None:
        return []
    try:
        return options.lines.columns_of_packets(NAMES[PACKETS])
    except UnknownField as error:
        raise UsageError(str(error)) from None


def _facts(row: dict[str, Any], ends: str, *, color: bool) -> str:
    """The line of a packet after its time."""
    number = "-" if row["connection"] is None else f"#{row['connection']}"
    text = f"  {number:<4} {ends}  {row['transport'] or row['not_decoded']}{_info(row)}"
    marks = f"  [{', '.join(row['tcp_analysis'])}]" if row["tcp_analysis"] else ""
    return text + paint(marks, SEVERITY["warning"], color=color)


def _info(row: dict[str, Any]) -> str:
    """Header values of a packet with TCP, as text."""
    if row["flags"] is None:
        return ""
    return f"  {row['flags']:<7} seq={row['seq']} ack={row['ack']} len={row['payload']}"
