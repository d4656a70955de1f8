"""Options of ``spark`` and ``spark stats``."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from wiredecode.cli import options
from wiredecode.dataclasses import fields

if TYPE_CHECKING:
    from wiredecode.spark.decode import TableDemand


@options.group
class SparkCluster:
    """Where Spark runs."""

    master: str = Option(
        "local[*,4]", "--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, k8s://..., yarn."
    )
    conf: list[str] | None = Option(None, metavar="KEY=VALUE", help="A setting of Spark. Repeatable.")

    @cached_property
    def settings(self) -> dict[str, str]:
        """Every ``--conf``."""
        settings = {}
        for text in self.conf or ():
            name, equals, value = text.partition("=")
            if not equals or not name.startswith("spark."):
                raise typer.BadParameter(f"{text!r} is not as in spark.executor.memory=4g", param_hint="--conf")
            settings[name] = value
        return settings


@options.group
class SparkInputs:
    """Captures to read on Spark, and how."""

    inputs: list[str] = Argument(
        ...,
        metavar="INPUT",
        show_default=False,
        help="pcap or pcapng files, also compressed; folders; patterns in quotes. Local, or URIs.",
    )
    source: str = Option(
        "none",
        metavar="HOW",
        help="How to find the capture point of a file: folder (by its name), or a regular expression "
        "whose first group is the source, as in '/(client|broker)/'. none: they are one.",
    )
    partitions: int | None = Option(None, min=1, metavar="N", help="Tasks that decode. [default: by size]")
    split_bytes: int | None = Option(
        None,
        min=0,
        metavar="BYTES",
        help="Size of the parts that large pcap files are read in; 0: whole files. [default: 128 MiB]",
    )
    fail_fast: bool = Option(
        False, "--fail-fast", help="End at the first file that cannot be read; nothing is written."
    )
    display_filter: options.DisplayFilter = None
    cluster: SparkCluster
    decoding: options.DecodingWithoutNames
    verbosity: options.Verbosity

    @property
    def reading(self) -> dict[str, Any]:
        """These options as arguments of :class:`TableDemand`."""
        from wiredecode.net.limits import Limits

        protocols = {
            port: choice.protocol.name + (f"/{choice.dialect}" if choice.dialect else "")
            for port, choice in self.decoding.ports.items()
        }
        return {
            "filter": self.display_filter,
            "decode_as": protocols,
            "limits": {each.name: getattr(self.decoding.limits, each.name) for each in fields(Limits)},
            "keylog": [str(path.absolute()) for path in self.decoding.key_files],
            "fail_fast": self.fail_fast,
        }

    def check(self, *, secrets: bool = False) -> None:
        """Refuse what cannot be read, before Spark is looked for."""
        options.display_filter(self.display_filter, secrets=secrets)
        if self.decoding.sandbox:
            raise options.UsageError("wiredecode spark starts Java: leave out --sandbox")
        _ = self.cluster.settings, self.decoding.demand


@options.group
class SparkOptions(SparkInputs):
    """Options of ``wiredecode spark``."""

    out: str = Option(
        ...,
        "-o",
        "--output",
        metavar="OUT",
        help="Folder of the tables; those of an earlier run are replaced. delta:PATH, iceberg:CATALOG: tables that "
        "are added to.",
    )
    level: str | None = Option(
        None,
        metavar="A,B,...",
        help="Tables to write, decoded together: frames, messages, connections, flows; or packets alone. "
        "[default: messages,connections; with --columns frames]",
    )
    columns: str | None = Option(
        None, metavar="A,B,...", help="Only these, and those that folders and findings are made of."
    )
    increment: str | None = Option(
        None,
        metavar="STATES",
        help="Add new files to the tables of earlier runs; connections continue. STATES is a folder that remembers "
        "which files were read, and the state of connections.",
    )
    stream: str | None = Option(None, metavar="STATES", help="Repeat --increment as files come, until Ctrl-C.")
    every: float | None = Option(None, min=0, metavar="SECONDS", help="With --stream: how often to look. [default: 60]")
    settle: float | None = Option(
        None,
        min=0,
        metavar="SECONDS",
        help="With --stream: a file that has not changed for this long is complete. [default: 60]",
    )
    finish: bool = Option(
        False,
        "--finish",
        help="With --stream or --increment: the capture is over. Read all files, end all connections, stop.",
    )
    overwrite: bool = Option(False, "--overwrite", help="Into tables: write captures that they hold already again.")
    show_secrets: options.ShowSecrets = False
    summary_json: options.SummaryJson = None

    def demand(self) -> TableDemand:
        """Demand for the tasks. Raises ``ValueError``."""
        from wiredecode.spark.decode import TableDemand
        from wiredecode.spark.writing import REQUIRED_COLUMNS

        columns = options.names(self.columns, "--columns")
        levels = options.names(self.level, "--level") or (
            ["messages", "connections"] if columns is None else ["frames"]
        )
        if columns is not None and len(levels) == 1:
            columns = list(dict.fromkeys([*REQUIRED_COLUMNS.get(levels[0], ()), *columns]))
        return TableDemand(levels, columns=columns, show_secrets=self.show_secrets, **self.reading)
