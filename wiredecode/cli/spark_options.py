"""Options of ``spark`` and ``spark stats``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import group

if TYPE_CHECKING:
    from wiredecode.spark.decode import TableDemand


@group
class Cluster:
    """Where Spark runs."""

    master: Annotated[
        str,
        typer.Option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, k8s://..., yarn."),
    ] = "local[*,4]"
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. Repeatable.")
    ] = None

    @cached_property
    def settings(self) -> dict[str, str]:
        """Every ``--conf``."""
        found = {}
        for text in self.conf or ():
            name, equals, value = text.partition("=")
            if not equals or not name.startswith("spark."):
                raise typer.BadParameter(f"{text!r} is not as in spark.executor.memory=4g", param_hint="--conf")
            found[name] = value
        return found


@group
class SparkOptions:
    """Options of ``wiredecode spark``."""

    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            show_default=False,
            help="pcap or pcapng files, also compressed; folders; patterns in quotes. Local, or URIs.",
        ),
    ]
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="Folder of the tables; those of an earlier run are replaced. delta:PATH, iceberg:CATALOG: tables that "
            "are added to.",
        ),
    ]
    level: options.Level = "frames"
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="A,B,...", help="Only these, and those that folders and findings are made of."
        ),
    ] = None
    source: Annotated[
        str,
        typer.Option(
            "--source",
            metavar="HOW",
            help="How files of several capture points are told apart: folder (by its name), or a regular expression "
            "whose first group is the source, as in '/(client|broker)/'. none: they are one.",
        ),
    ] = "none"
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, metavar="N", help="Tasks that decode. [default: by size]")
    ] = None
    split_bytes: Annotated[
        int | None,
        typer.Option(
            "--split-bytes",
            min=0,
            metavar="BYTES",
            help="Size of the parts that large pcap files are read in; 0: whole files. [default: 128 MiB]",
        ),
    ] = None
    increment: Annotated[
        str | None,
        typer.Option(
            "--increment",
            metavar="STATES",
            help="Add new files to the tables of earlier runs; connections continue. STATES is a folder that remembers "
            "which files were read, and the state of connections.",
        ),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option("--stream", metavar="STATES", help="Repeat --increment as files come, until Ctrl-C."),
    ] = None
    every: Annotated[
        float | None,
        typer.Option("--every", min=0, metavar="SECONDS", help="With --stream: how often to look. [default: 60]"),
    ] = None
    settle: Annotated[
        float | None,
        typer.Option(
            "--settle",
            min=0,
            metavar="SECONDS",
            help="With --stream: a file that has not changed for this long is complete. [default: 60]",
        ),
    ] = None
    finish: Annotated[
        bool,
        typer.Option(
            "--finish",
            help="With --stream or --increment: the capture is over. Read all files, end all connections, stop.",
        ),
    ] = False
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Into tables: write captures again that are there already.")
    ] = False
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End at the first file that cannot be read; nothing is written.")
    ] = False
    display_filter: options.DisplayFilter = None
    show_secrets: options.ShowSecrets = False
    cluster: Cluster
    decoding: options.DecodingWithoutNames
    verbosity: options.Verbosity
    summary_json: options.SummaryJson = None

    def check(self) -> None:
        """Refuse what cannot be read, before Spark is looked for."""
        options.display_filter(self.display_filter, secrets=self.show_secrets)
        options.names(self.columns, "--columns")
        if self.decoding.sandbox:
            raise options.UsageError("wiredecode spark starts Java: leave out --sandbox")
        _ = self.cluster.settings, self.decoding.arguments

    def demand(self) -> TableDemand:
        """What the tasks are told. Raises ``ValueError``."""
        from dataclasses import fields

        from wiredecode.net import Limits
        from wiredecode.spark.decode import TableDemand
        from wiredecode.spark.writing import KEPT

        level, columns = self.level, options.names(self.columns, "--columns")
        if columns is not None:
            columns = list(dict.fromkeys([*KEPT[level], *columns]))
        spoken = {
            port: said.protocol.name + (f"/{said.dialect}" if said.dialect else "")
            for port, said in self.decoding.ports.items()
        }
        return TableDemand(
            level,
            columns=columns,
            filter=self.display_filter,
            decode_as=spoken,
            limits={each.name: getattr(self.decoding.limits, each.name) for each in fields(Limits)},
            keylog=[str(path.absolute()) for path in self.decoding.key_files],
            show_secrets=self.show_secrets,
            fail_fast=self.fail_fast,
        )
