"""All commands: what they are called, and where they are. A command is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from wiredecode.cli.help import Command


class Entry(NamedTuple):
    """A command; ``EXAMPLES`` of its module are below its help, and ``COMMAND`` is its class if it has one."""

    place: str
    """Module in ``wiredecode.cli``, and function."""
    short_help: str
    bare: bool = False
    """It does something without arguments."""

    def load(self, name: str) -> Any:
        """Import the command."""
        module_name, function = self.place.split(".")
        module = import_module(f"wiredecode.cli.{module_name}")
        info = typer.models.CommandInfo(
            name,
            cls=getattr(module, "COMMAND", Command),
            callback=getattr(module, function),
            short_help=self.short_help,
            no_args_is_help=not self.bare,
            epilog=getattr(module, "EXAMPLES", None),
        )
        return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


COMMANDS = {
    "pcap": Entry("pcap.pcap", "Decode captures: trees, lines or JSON records."),
    "sniff": Entry("sniff.sniff", "Decode what passes an interface, live."),
    "interfaces": Entry("interfaces.interfaces", "Where sniff can listen.", bare=True),
    "follow": Entry("follow.follow", "One connection as a dialogue."),
    "export": Entry("export.export", "Write files for other programs: Parquet, Arrow, CSV, JSON."),
    "stats": Entry("stats.stats", "Counts, latencies, throughput: what captures hold."),
    "check": Entry("check.check", "Find problems, with causes and advice."),
    "trace": Entry("trace.trace", "Follow one message to its consumers."),
    "report": Entry("report.report", "One HTML page for a ticket or a colleague."),
    "ui": Entry("ui.ui", "Look through captures on a full screen."),
    "anonymize": Entry("anonymize.anonymize", "The same capture without secrets and addresses."),
    "sql": Entry("sql.sql", "Ask captures in SQL (DuckDB)."),
    "spark": Entry("spark.spark", "Captures of any size to Parquet, on Spark."),
    "spark stats": Entry("spark_stats.stats", "The same counts of tables that spark wrote."),
    "config": Entry("config.config", "Saved filters, colour rules, how times are shown.", bare=True),
    "wireshark": Entry("wireshark.wireshark", "A dissector for Wireshark, with the same fields."),
    "extcap": Entry("extcap.extcap", "Live capture for Wireshark."),
    "protocols": Entry("protocols.protocols", "List protocols, their ports and dialects.", bare=True),
    "fields": Entry("fields.fields", "Every field: name, type, meaning.", bare=True),
}


class Loading(Mapping[str, Any]):
    """Commands by name, each imported when it is looked up."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = COMMANDS[name].load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class Commands(TyperGroup):
    """``wiredecode``: its help lists the commands without importing them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Loading()  # type: ignore[assignment]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; ``ctx`` and ``formatter`` are click's."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.short_help) for name, command in COMMANDS.items()])
