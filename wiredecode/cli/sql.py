"""``wiredecode sql``: SQL queries over captures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from wiredecode.capture.source import STANDARD_INPUT
from wiredecode.cli import options
from wiredecode.cli.output import Output, ReadingBar, complain, say, wants_color
from wiredecode.dataclasses import replace
from wiredecode.export import target
from wiredecode.export.atomic import STANDARD_OUTPUT, open_output
from wiredecode.frames.escape import escape, text_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from wiredecode.capture import Capture, PacketBatch
    from wiredecode.dissect.share import Share
    from wiredecode.export.query import Open
    from wiredecode.export.writers import WriterSettings
    from wiredecode.filter import Filter
    from wiredecode.tables.reader import LevelsReader
MAX_ROWS = 1_000
"""Most rows of a table on a terminal."""

KEPT = "frame packet type topic to client published delivered ended reason time connection operation body flags length"
"""Columns that a narrow terminal drops last, the last one first; before, others from the right."""
SHORT = 40
"""Characters of a value where not all columns fit."""
SHOWN = ("table", "vertical", "markdown")
"""Formats for people."""

SqlFormat = Literal["table", "vertical", "markdown", "csv", "json", "ndjson", "parquet", "arrow", "arrows"]


def sql(
    captures: options.CaptureReading,
    query: Annotated[str, Argument(metavar="QUERY", show_default=False, help="One statement of DuckDB's SQL.")],
    format_: SqlFormat | None = Option(
        None,
        "--format",
        help="[default: table on a terminal, of the columns that fit; else ndjson, or as OUT ends]",
    ),
    out: str = Option("-", "-o", "--output", metavar="OUT", help="Write a file; - is standard output."),
    display_filter: options.DisplayFilter = None,
    bytes_: options.Bytes = "hex",
    show_secrets: options.ShowSecrets = False,
    allow_files: bool = Option(False, "--allow-files", help="The query may read and write files, and load extensions."),
    two_passes: options.TwoPasses = False,
    csv_formulas: options.CsvFormulas = "keep",
    color: options.Color = "auto",
    jobs: options.Jobs = None,
) -> int:
    """Ask captures in SQL: tables frames, messages, packets, connections and flows, as wiredecode export writes them.

    Only the tables and columns that the query names are decoded. time is in microseconds, time_ns beside it exact.
    A query sees these tables and nothing else, unless --allow-files is given.
    With -Y, --from and --to tables have only the rows that are chosen, as with export.
    """
    import gc

    gc.enable()
    from wiredecode.export.query import Database, QueryError
    from wiredecode.export.writers import WriterSettings
    from wiredecode.frames.record import BYTES
    from wiredecode.tables import without_pandas

    without_pandas()
    form, guarded, quiet = _form(format_, out), csv_formulas == "guard", captures.verbosity.quiet
    if guarded and (form is None or form.name != "csv"):
        raise options.UsageError("--csv-formulas needs csv: use --format csv")
    once = STANDARD_INPUT in captures.files
    if two_passes and once:
        raise options.UsageError(options.READ_ONCE)
    processes = captures.processes(jobs, (two_passes, "does not go with -2"))

    def display() -> Filter | None:
        return options.display_filter(display_filter, secrets=show_secrets, utc=captures.span.utc)

    selection = display()  # a wrong one ends the command before anything is read
    opened: list[LevelsReader] = []
    shows = form is not None and out == STANDARD_OUTPUT and sys.stdout.isatty()
    bar = ReadingBar(wanted=not shows and not quiet)
    opener = _opener(captures, display, opened, bar, processes, show_secrets=show_secrets, two_passes=two_passes)
    try:
        with Database(opener, once=once, files=allow_files) as database:
            schema, batches = database.answer(query)
            first = list(islice(batches, 1))
            if not database.unreadable:
                answer = chain(first, batches)
                if form is not None:
                    settings = WriterSettings(BYTES[bytes_], form.compression, guard_formulas=guarded)
                    _write(schema, answer, form, out, settings)
                elif _show(schema, answer, bytes_, format_, color, bar) and not quiet:
                    complain(f"these are the first {MAX_ROWS:,} rows; -o FILE writes all of them")
            bar.end()
            for damage in database.errors:
                complain(str(damage))
            if not quiet:
                _say_hints(opened, selection)
            return 2 if database.errors else 0
    except (QueryError, ValueError, ChildProcessError) as error:
        complain(escape(str(error)))
        return 2


def _form(chosen: SqlFormat | None, out: str) -> target.OutputFormat | None:
    """The format of the answer; None is one for people."""
    if chosen in SHOWN or (chosen is None and out == STANDARD_OUTPUT and sys.stdout.isatty()):
        if out != STANDARD_OUTPUT:
            raise options.UsageError(f"that form is for people; a file can be {', '.join(target.FORMATS)}")
        return None
    if out == STANDARD_OUTPUT and chosen is not None and chosen not in target.STREAMS:
        raise options.UsageError(f"{chosen} cannot go to standard output; name a file with -o")
    options.require_folder(Path(out))
    try:
        return target.output_format(out, chosen or ("ndjson" if out == STANDARD_OUTPUT else None))
    except target.ExportError as error:
        raise options.UsageError(str(error)) from None


def _say_hints(opened: list[LevelsReader], display: Filter | None) -> None:
    """Names that the filter could not find, of all tables that were read."""
    from wiredecode.view.totals import filter_hints

    if display is not None:
        for hint in dict.fromkeys(hint for reader in opened for hint in filter_hints(reader.totals, display)):
            say(hint)


def _opener(
    captures: options.CaptureReading,
    display: Callable[[], Filter | None],
    opened: list[LevelsReader],
    bar: ReadingBar,
    processes: int,
    *,
    show_secrets: bool,
    two_passes: bool,
) -> Open:
    """Return a function that opens a table of the rows that were asked for, and adds it to ``opened``."""
    from wiredecode.capture import open_capture
    from wiredecode.tables.reader import FRAMES, MESSAGES, PACKETS, TIME, LevelsReader

    span, files = captures.span, captures.files
    demand = replace(captures.decoding.demand, show_secrets=show_secrets, two_passes=two_passes)
    read_twice = cache(partial(demand.read_twice, partial(open_capture, files)))

    def open_(level: str, columns: list[str] | None) -> tuple[LevelsReader, Iterator[pa.RecordBatch]]:
        if not span.is_whole:
            columns = columns and list(dict.fromkeys([*columns, TIME]))
        twice = read_twice() if level in (FRAMES, MESSAGES) else demand

        def reader_of(share: Share | None) -> LevelsReader:
            return LevelsReader(replace(twice, levels=(level,), columns=columns, select=display(), share=share))

        def along(capture: Capture) -> Iterable[PacketBatch]:
            return bar.along(capture, capture)

        since = None if span.is_whole else span.since
        if processes > 1 and level != PACKETS:
            from wiredecode.cli.sharing import shared_rows

            reader, rows = shared_rows(processes, reader_of, files, along, since)
        else:
            reader = reader_of(None)
            rows = (batch for _, batch in reader.rows(along(open_capture(files)), since))
        opened.append(reader)
        return reader, rows

    return open_


def _write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: target.OutputFormat, out: str, settings: WriterSettings
) -> None:
    from wiredecode.export.writers import WRITERS

    standard = text_bytes() if form.is_text else sys.stdout.buffer
    with open_output(out, standard) as raw:
        packed = target.compressing(raw, form) if form.is_text else raw
        writer = WRITERS[form.name](packed, schema, settings)
        for batch in batches:
            writer.write(batch)
        writer.close()
        if packed is not raw:
            packed.close()
        raw.flush()


def _show(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    form_of_bytes: str,
    form: SqlFormat | None,
    color: str,
    bar: ReadingBar,
) -> bool:
    """Show the first rows to people, with the columns that fit the terminal; return whether there are more."""
    from wiredecode.frames.record import BYTES
    from wiredecode.tables.rows import values
    from wiredecode.view.console import tree_console
    from wiredecode.view.grid import grid, markdown, vertical, width_of
    from wiredecode.view.values import text_or_hex

    show = text_or_hex if form_of_bytes == "hex" else BYTES[form_of_bytes]
    rows: list[tuple[Any, ...]] = []
    more = False
    for batch in batches:
        part = batch.slice(0, MAX_ROWS - len(rows))
        rows += zip(*(values(column, show) for column in part.columns), strict=True)
        if more := len(part) < len(batch):
            break
    bar.end()
    if not schema.names:
        return more
    output = Output()
    if form == "markdown":
        output.text(markdown(schema.names, rows))
    else:
        console = tree_console(output, color=wants_color(color, sys.stdout), terminal=sys.stdout.isatty())
        table, notes = grid(schema, rows), list["Text"]()
        needed = width_of(table, console)
        if form is None and needed > console.width:
            form = "vertical" if len(rows) == 1 else None
            table, notes = _narrow(schema, rows, console)
            needed = min(width_of(table, console), console.width)
        for line in vertical(schema.names, rows) if form == "vertical" else ():
            console.print(line)
        if form != "vertical":
            console.print(table, width=needed, crop=False, no_wrap=len(table.columns) == len(schema.names))
            for line in notes:
                console.print(line)
    output.flush()
    return more


def _narrow(schema: pa.Schema, rows: list[tuple[Any, ...]], console: Console) -> tuple[Table, list[Text]]:
    """A table of the columns that fit the terminal, without constant ones first, and lines about the others."""
    import pyarrow as pa
    from rich.text import Text

    from wiredecode.view.grid import fitting, grid, remarks

    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    instants = {f"{field.name}_ns" for field in schema if pa.types.is_timestamp(field.type)}
    every = range(len(columns))  # two may have one name
    empty = [at for at in every if schema.names[at] in instants or all(value is None for value in columns[at])]
    equal = [at for at in every if at not in empty and len(rows) > 1 and len(set(map(repr, columns[at]))) == 1]
    last = [at for name in KEPT.split() for at in every if schema.names[at] == name]
    others = [at for at in every if at not in last]

    def made(places: Sequence[int]) -> Table:
        cells = zip(*(columns[at] for at in places), strict=True)
        return grid(pa.schema([schema.field(at) for at in places]), cells, SHORT)

    places = fitting(every, [*empty, *equal, *reversed(others), *reversed(last)], made, console) or [0]
    gone = [at for at in every if at not in (*places, *empty)]
    same = {schema.names[at]: columns[at][0] for at in gone if at in equal}
    notes = [*remarks([schema.names[at] for at in gone if at not in equal], same)]
    if len(places) < len(every):
        notes.append(Text(f"({len(every)} columns, {len(places)} shown; --format vertical has all)", "dim"))
    return made(places), notes
