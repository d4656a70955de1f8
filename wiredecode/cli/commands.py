"""All commands, listed in ``commands.toml``. A command is imported when it is called."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from textwrap import indent
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from wiredecode.cli.help import Command


def epilog(examples: str) -> str | None:
    """The text below a help; click leaves the lines after a backspace as they are."""
    return "\b\nExamples:\n" + indent(examples, "  ") if examples else None


class Entry(NamedTuple):
    """A command; ``COMMAND`` of its module is its class if it has one."""

    place: str
    """Module in ``wiredecode.cli``, and function."""
    short_help: str
    bare: bool = False
    """It does something without arguments."""
    examples: str = ""

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
            epilog=epilog(self.examples),
        )
        return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


_TABLES = tomllib.loads((files(__package__) / "commands.toml").read_text("utf-8"))
TREE: dict[str, str] = _TABLES.pop("wiredecode")
"""Texts of ``wiredecode`` itself."""
COMMANDS = {name: Entry(**table) for name, table in _TABLES.items()}


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
