"""Packets that a filter about TCP analysis chooses, for ``pcap``: lines, or records with the columns of the table."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

import pyarrow as pa
from rich.cells import cell_len

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.cli.frame_output import FIELDS, FrameOptions
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import terminal, wants_color
from wiredecode.cli.session import CaptureSession
from wiredecode.filter.tables import NAMES, as_frames
from wiredecode.frames.record import BYTES, JsonArray
from wiredecode.net.limits import Limits
from wiredecode.tables.reader import PACKETS, TableReader
from wiredecode.tables.rows import dumps, rows
from wiredecode.view.screen import cut
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
        lines = PacketLines(terminal(), color=wants_color(options.color, sys.stdout))
        for batch in batches:
            batch = batch.set_column(batch.schema.get_field_index("time"), "time", batch["time"].cast(pa.int64()))
            for row in batch.to_pylist():
                session.output.text(lines.line(row, options.times.column(row["time"], session.first_ns)))

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


LEAST = ("ack", "seq", "transport", "addresses", "len")
"""Parts of a line that are left out on a narrow terminal, the first ones first; of ends the ports stay."""


class PacketLines:
    """Makes the lines of packets; on a terminal (``size``) none is wider, and columns that do not fit are left out."""

    def __init__(self, size: os.terminal_size | None, *, color: bool) -> None:
        self._size, self._color = size, color
        self._width = self._omitted = 0

    def line(self, row: dict[str, Any], time: str) -> str:
        """The line of a packet, with its newline."""
        front, marks = self._parts(row, time)
        while self._size is not None and cell_len(front + marks) > self._size.columns and self._omitted < len(LEAST):
            self._omitted += 1
            self._width = 0
            front, marks = self._parts(row, time)
        if self._size is not None:
            front = cut(front, self._size.columns)
            marks = cut(marks, self._size.columns - cell_len(front))
        return f"{front}{paint(marks, SEVERITY['warning'], color=self._color)}\n"

    def _parts(self, row: dict[str, Any], time: str) -> tuple[str, str]:
        """The line up to what TCP analysis found, and that."""
        omitted = LEAST[: self._omitted]
        ends = [row[end] or "-" for end in ("src", "dst")]
        if "addresses" in omitted and row["transport"] in ("TCP", "UDP"):
            ends = [f":{end.rpartition(':')[2]}" for end in ends]
        self._width = max(self._width, len(" → ".join(ends)))
        number = "-" if row["connection"] is None else f"#{row['connection']}"
        kind = "" if "transport" in omitted and row["flags"] else f"  {row['transport'] or row['not_decoded']}"
        text = f"{row['packet']:7} {time}  {number:<4} {' → '.join(ends).ljust(self._width)}{kind}{_info(row, omitted)}"
        kinds = [each for each in row["tcp_analysis"] or () if each != "retransmission" or not omitted[3:]]
        kinds = kinds or row["tcp_analysis"] or []
        return text, f"  [{', '.join(kinds)}]" if kinds else ""


def _info(row: dict[str, Any], omitted: Sequence[str] = ()) -> str:
    """Header values of a packet with TCP, as text."""
    if row["flags"] is None:
        return ""
    values = {"seq": row["seq"], "ack": row["ack"], "len": row["payload"]}
    shown = "".join(f" {name}={value}" for name, value in values.items() if name not in omitted)
    return f"  {row['flags']:<7}{shown}"
