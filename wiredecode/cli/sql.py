"""``wiredecode sql``: questions to captures in SQL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import with_groups
from wiredecode.cli.output import Output, complain, text_bytes, wants_color
from wiredecode.export import target
from wiredecode.export.atomic import NewFile

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture import CaptureError, PacketBatch
    from wiredecode.export.query import Open, RowReader
    from wiredecode.export.writers import Settings
    from wiredecode.filter import Filter

EXAMPLES = """\b
Examples:
  wiredecode sql a.pcap "select type, count(*) from frames group by all"
  wiredecode sql a.pcap "select topic, sum(size) from messages group by topic"
  wiredecode sql a.pcap "select layers.nats.subject from frames limit 5"
  wiredecode sql a.pcap "describe messages"           the columns of a table
  wiredecode sql a.pcap --format vertical "from frames limit 1"
  wiredecode sql a.pcap -Y 'ip.addr == 10.0.0.7' "select count(*) from frames"
  wiredecode sql a.pcap* -o slow.csv \\
      "select time, type, latency_ns from frames where latency_ns > 5e6"
"""
STANDARD_INPUT = STANDARD_OUTPUT = "-"
MAX_ROWS = 1_000
"""Of a table on a terminal."""


SHOWN = ("table", "vertical", "markdown")
"""Formats for people."""


SqlFormat = Literal["table", "vertical", "markdown", "csv", "json", "ndjson", "parquet"]


@with_groups
def sql(
    files: options.Files,
    query: Annotated[str, typer.Argument(metavar="QUERY", show_default=False, help="One statement of DuckDB's SQL.")],
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    format_: Annotated[
        SqlFormat | None,
        typer.Option(
            "--format",
            help="[default: table on a terminal, or vertical where it does not fit; else ndjson, or as OUT ends]",
        ),
    ] = None,
    out: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="Write a file; - is standard output.")
    ] = "-",
    display_filter: options.DisplayFilter = None,
    bytes_: options.Bytes = "hex",
    show_secrets: options.ShowSecrets = False,
    allow_files: Annotated[
        bool, typer.Option("--allow-files", help="The query may read and write files, and load extensions.")
    ] = False,
    two_passes: options.TwoPasses = False,
    csv_formulas: options.CsvFormulas = "keep",
    color: options.Color = "auto",
) -> int:
    """Ask captures in SQL: tables frames, messages, packets and connections, as wiredecode export writes them.

    Only the tables and columns that the query names are decoded. time is in microseconds, time_ns beside it exact.
    A query sees these tables and nothing else, unless --allow-files is given.
    With -Y, --from and --to tables have only the rows that are chosen, as with export.
    """
    import gc

    gc.enable()
    from wiredecode.export.query import Database, QueryError
    from wiredecode.export.writers import Settings
    from wiredecode.frames.record import BYTES
    from wiredecode.tables import without_pandas

    without_pandas()
    form, guarded = _form(format_, out), csv_formulas == "guard"
    if guarded and (form is None or form.name != "csv"):
        raise options.UsageError("--csv-formulas goes with csv: say --format csv")
    if two_passes and STANDARD_INPUT in files:
        raise options.UsageError("--two-passes reads the captures twice, and standard input can be read only once")
    reading = {**decoding.arguments, "show_secrets": show_secrets}
    if two_passes:
        reading["answers"] = decoding.late_answers(files)

    def display() -> Filter | None:
        return options.display_filter(display_filter, secrets=show_secrets, utc=span.utc)

    display()  # a wrong one ends the command before anything is read
    try:
        with Database(
            _opener(files, reading, span, display), once=STANDARD_INPUT in files, files=allow_files
        ) as database:
            schema, batches = database.answer(query)
            first = list(islice(batches, 1))
            if not database.unreadable:
                answer = chain(first, batches)
                if form is None:
                    colored = wants_color(color, sys.stdout)
                    more = _show(schema, answer, bytes_, format_, color=colored)
                    if more and not verbosity.quiet:
                        complain(f"these are the first {MAX_ROWS:,} rows; -o FILE writes all of them")
                else:
                    settings = Settings(BYTES[bytes_], form.compression, guard_formulas=guarded)
                    _write(schema, answer, form, out, settings)
            return _exit_code(database.errors)
    except (QueryError, ValueError) as error:
        from wiredecode.frames.escape import escape

        complain(escape(str(error)))
        return 2


def _exit_code(errors: Iterable[CaptureError]) -> int:
    """Say what could not be read; the exit code."""
    code = 0
    for damage in errors:
        complain(str(damage))
        code = 2
    return code


def _form(chosen: SqlFormat | None, out: str) -> target.Form | None:
    """The format of the answer; None is one for people."""
    if chosen in SHOWN or (chosen is None and out == STANDARD_OUTPUT and sys.stdout.isatty()):
        if out != STANDARD_OUTPUT:
            raise options.UsageError("that form is for people; a file can be csv, json, ndjson or parquet")
        return None
    if out == STANDARD_OUTPUT and chosen == "parquet":
        raise options.UsageError("parquet cannot go to standard output; name a file with -o")
    try:
        return target.form(out, chosen or ("ndjson" if out == STANDARD_OUTPUT else None))
    except target.Unclear as error:
        raise options.UsageError(str(error)) from None


def _opener(
    files: list[str], reading: dict[str, Any], span: options.Span, display: Callable[[], Filter | None]
) -> Open:
    """Opens a table of what is chosen."""
    from wiredecode.capture import open_capture
    from wiredecode.export.selection import TIME, Timed
    from wiredecode.tables.reader import TableReader, prefer_bulk

    def open_(level: str, columns: list[str] | None) -> RowReader:
        capture, chosen = open_capture(files), display()
        if not span.is_whole:
            columns = columns and list(dict.fromkeys([*columns, TIME]))

        def reader(packets: Iterable[PacketBatch]) -> TableReader:
            watched = packets if chosen is None else chosen.watch(packets)
            bulk = prefer_bulk(capture)
            return TableReader(watched, level, columns=columns, bulk=bulk, display=chosen, **reading)

        return reader(capture) if span.is_whole else Timed(capture, reader, span.since)

    return open_


def _write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: target.Form, out: str, settings: Settings
) -> None:
    from wiredecode.export.writers import WRITERS

    standard = text_bytes() if form.is_text else sys.stdout.buffer
    with nullcontext(standard) if out == STANDARD_OUTPUT else NewFile(Path(out)) as raw:
        packed = target.packing(raw, form) if form.is_text else raw
        writer = WRITERS[form.name](packed, schema, settings)
        for batch in batches:
            writer.write(batch)
        writer.close()
        if packed is not raw:
            packed.close()
        raw.flush()


def _show(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form_of_bytes: str, form: SqlFormat | None, *, color: bool
) -> bool:
    """The first rows for people; whether there are more."""
    rows, more = _first_rows(batches, form_of_bytes)
    if schema.names:
        output = Output()
        _print(schema, rows, form, output, color=color)
        output.flush()
    return more


def _first_rows(batches: Iterable[pa.RecordBatch], form_of_bytes: str) -> tuple[list[tuple[Any, ...]], bool]:
    """The first rows, and whether there are more."""
    from wiredecode.frames.record import BYTES
    from wiredecode.tables.rows import values
    from wiredecode.view.values import text_or_hex

    show = text_or_hex if form_of_bytes == "hex" else BYTES[form_of_bytes]
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        part = batch.slice(0, MAX_ROWS - len(rows))
        rows += zip(*(values(column, show) for column in part.columns), strict=True)
        if len(part) < len(batch):
            return rows, True
    return rows, False


def _print(
    schema: pa.Schema, rows: list[tuple[Any, ...]], form: SqlFormat | None, output: Output, *, color: bool
) -> None:
    """A table that is as wide as it needs to be, or the rows one below the other where that does not fit."""
    from wiredecode.view.console import UNBOUNDED_WIDTH, tree_console
    from wiredecode.view.grid import grid, markdown, vertical

    if form == "markdown":
        output.text(markdown(schema.names, rows))
        return
    table = grid(schema.names, [_is_number(field.type) for field in schema], rows)
    console = tree_console(output, color=color, terminal=sys.stdout.isatty())
    wide = console.options.update(width=UNBOUNDED_WIDTH)
    needed = console.measure(table, options=wide).maximum
    if form == "vertical" or (form is None and needed > console.width):
        for line in vertical(schema.names, rows):
            console.print(line)
    else:
        console.print(table, width=needed, crop=False, no_wrap=True)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
