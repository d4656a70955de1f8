"""``wiredecode export``: captures as files that other programs read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import group, with_groups

if TYPE_CHECKING:
    from wiredecode.filter import Filter

EXAMPLES = """\b
Examples:
  wiredecode export a.pcap -o frames.parquet                a row per frame
  wiredecode export a.pcap* -o m.parquet --level messages   a row per message
  wiredecode export a.pcap -o frames.ndjson.gz              records, compressed
  wiredecode export a.pcap -o t.csv --columns time,type,layers.nats.subject
  wiredecode export a.pcap -o e.ndjson -Y 'finding or latency > 5ms'
  wiredecode export a.pcap -o lake --format parquet --partition-by protocol,hour
  wiredecode export a.pcap -o delta:lake --level messages   added to tables; iceberg:CATALOG as well
  tcpdump -w - | wiredecode export - -o - --format arrows | my-program
"""


@group
class ExportOptions:
    """What is written of captures, and where to."""

    files: options.Files
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="File or, partitioned, folder; delta:PATH, iceberg:CATALOG; - is standard output.",
        ),
    ]
    format_: Annotated[
        Literal["ndjson", "json", "csv", "parquet", "arrow", "arrows"] | None,
        typer.Option("--format", help="Where the name does not tell. arrow: IPC file; arrows: IPC stream."),
    ] = None
    level: options.Level = "frames"
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B,...", help="Only these, by the names that records or filters have."),
    ] = None
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", metavar="A,B,...", help="A folder per value of these columns, or hour, date."),
    ] = None
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="With --partition-by: replace a folder that is not empty. Tables: write captures again."
        ),
    ] = False
    compression: Annotated[
        str | None,
        typer.Option(
            "--compression",
            metavar="CODEC",
            help="parquet: zstd (default), snappy, gzip, lz4, none. arrow: lz4, zstd. Text: gzip, zstd.",
        ),
    ] = None
    row_group: Annotated[
        int | None, typer.Option("--row-group", min=1, metavar="ROWS", help="Parquet: most rows of a row group.")
    ] = None
    csv_formulas: options.CsvFormulas = "keep"
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, metavar="N", help="Stop after N rows.")] = None
    display_filter: options.DisplayFilter = None
    bytes_: Annotated[
        options.BytesForm | None,
        typer.Option("--bytes", help="How bytes are shown. [default: hex; parquet and arrow hold them as they are]"),
    ] = None
    ranges: Annotated[bool, typer.Option("--ranges", help="Frames as ndjson or json: byte range of every field.")] = (
        False
    )
    ids: Annotated[
        Literal["capture", "stable"],
        typer.Option("--ids", help="stable: ids that do not depend on the rest of the capture, in place of numbers."),
    ] = "capture"
    two_passes: options.TwoPasses = False
    show_secrets: options.ShowSecrets = False
    summary_json: options.SummaryJson = None
    decoding: options.Decoding
    span: options.Span
    verbosity: options.Verbosity

    @cached_property
    def chosen(self) -> list[str] | None:
        """The columns that were asked for; None: all."""
        return names(self.columns, "--columns")

    @cached_property
    def partitions(self) -> list[str]:
        """What folders are named after."""
        return names(self.partition_by, "--partition-by") or []

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, secrets=self.show_secrets, utc=self.span.utc)


@with_groups
def export(settings: ExportOptions) -> int:
    """Write captures as ndjson, json, csv, parquet or arrow, by the ending of OUT or --format.

    OUT appears when it is complete: an interrupted export leaves nothing. Of a damaged capture it holds what could be
    decoded, and the exit code is 2. Totals go to standard error.
    """
    from wiredecode.cli.exporting import run

    _ = settings.chosen, settings.partitions, settings.span.start, settings.span.end, settings.display
    _ = settings.decoding.arguments  # what is wrong is said before anything is read
    return run(settings)
