"""All commands, listed in ``commands.toml``, and their help. A command is imported when it is called."""

import re
import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain
from textwrap import indent
from typing import Any, NamedTuple

import typer
import typer.core
from typer.core import TyperGroup

from wiredecode.cli.lean import plainly
from wiredecode.cli.options import UsageError, with_groups
from wiredecode.data import tables_of

_TABLES = tables_of(__package__, "commands.toml")
TREE: dict[str, Any] = _TABLES.pop("wiredecode")
"""Texts of ``wiredecode`` itself, and what all commands have in common."""
GROUPS: dict[str, str] = TREE["groups"]
"""Heading to the options below it."""
OTHERS = "Options"
INDENT, REMARK = "  ", re.compile(r"( *.*?)(?:(?<! )  +(\S.*))?$")
"""Of examples: their indentation; a command, and the remark after it."""
UNCONFINED: dict[str, str] = TREE["unconfined"]
"""Options that do not work in a sandbox."""


class GroupedCommand(typer.core.TyperCommand):
    """A command with options in groups; with ``--sandbox`` it is confined before it runs."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments; ``ctx`` is click's."""
        return plainly(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it; ``ctx`` is click's."""
        if ctx.params.get("sandbox"):
            from wiredecode.cli.sandbox import NoSandbox, confine_command

            for name, reason in UNCONFINED.items():
                if ctx.params.get(name):
                    raise UsageError(f"--sandbox {reason}: leave out --{name}")
            try:
                confine_command(ctx.params)
            except NoSandbox as error:
                raise UsageError(str(error)) from None
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line, the same with all versions of typer; ``ctx`` is click's."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        names = [str(each.metavar) if each.required else f"[{each.metavar}]" for each in arguments]
        return ["[OPTIONS]", *(name + "..." * (each.nargs == -1) for name, each in zip(names, arguments, strict=True))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; ``ctx`` and ``formatter`` are click's."""
        arguments, groups = [], self.groups(ctx)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                arguments.append((f"{parameter.metavar}{'...' if parameter.nargs == -1 else ''}", record[1]))
        rows = [("Arguments", arguments)]
        rows += [(name, [parameter.get_help_record(ctx) for parameter in some]) for name, some in groups.items()]
        for name, records in rows:
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples; ``ctx`` and ``formatter`` are click's."""
        if self.epilog:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(narrowed(self.epilog, shutil.get_terminal_size().columns))

    def groups(self, ctx: Any) -> dict[str, list[Any]]:
        """The options that are shown, by heading, in the order of :data:`GROUPS`."""
        ranks = {name: (heading, at) for heading, names in GROUPS.items() for at, name in enumerate(names.split())}
        groups: dict[str, list[tuple[int, Any]]] = {heading: [] for heading in (OTHERS, *GROUPS)}
        for at, parameter in enumerate(self.get_params(ctx)):
            if parameter.param_type_name == "option" and not getattr(parameter, "hidden", False):
                heading, rank = ranks.get(parameter.opts[0], (OTHERS, at))
                groups[heading].append((rank, parameter))
        ordered = {heading: sorted(some, key=lambda pair: pair[0]) for heading, some in groups.items()}
        filled = {heading: [parameter for _, parameter in some] for heading, some in ordered.items() if some}
        if list(filled) == ["General"]:  # headings are for long lists
            filled = {OTHERS: filled["General"]}
        return filled


def epilog(examples: str) -> str | None:
    """The text below a help; click leaves the lines after a backspace as they are."""
    return "\b\nExamples:\n" + indent(examples, INDENT) if examples else None


def narrowed(examples: str, width: int) -> str:
    """Examples, with remarks below them where both do not fit into a line."""
    pairs = [(line, *REMARK.match(line).groups()) for line in examples.splitlines()]  # type: ignore[union-attr]
    if all(remark is None or len(INDENT + line) <= width for line, _, remark in pairs):
        return examples
    below = ((command, *([f"{3 * INDENT}{remark}"] if remark else [])) for _, command, remark in pairs)
    return "\n".join(chain.from_iterable(below))


class CommandEntry(NamedTuple):
    """A command; ``COMMAND`` of its module is its class if it has one."""

    target: str
    """Module in ``wiredecode.cli``, and function."""
    short_help: str
    bare: bool = False
    """Whether it works without arguments."""
    examples: str = ""

    def load(self, name: str) -> Any:
        """Import the command."""
        module_name, function = self.target.split(".")
        module = import_module(f"wiredecode.cli.{module_name}")
        info = typer.models.CommandInfo(
            name,
            cls=getattr(module, "COMMAND", GroupedCommand),
            callback=with_groups(getattr(module, function)),
            short_help=self.short_help,
            no_args_is_help=not self.bare,
            epilog=epilog(self.examples),
        )
        return typer.main.get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=None)


COMMANDS = {name: CommandEntry(**table) for name, table in _TABLES.items()}


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

    def get_params(self, ctx: Any) -> list[Any]:
        """Return options and arguments; ``ctx`` is click's."""
        return plainly(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; ``ctx`` and ``formatter`` are click's."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.short_help) for name, command in COMMANDS.items()])
