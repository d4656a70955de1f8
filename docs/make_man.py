"""Make the man page and docs/reference/commands.md from the commands: ``python docs/make_man.py``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from wiredecode.cli.app import DEBUG, command_line

PAGE = Path(__file__).parent / "wiredecode.1"
REFERENCE = Path(__file__).parent / "reference" / "commands.md"
EXIT_CODES = (
    ("0", "Success, also if nothing matched or the reader of a pipe closed it."),
    (
        "1",
        "trace, follow, report, check -n and -Y: nothing matches. check --fail-on: a problem is at least this severe.",
    ),
    ("2", "Usage error, or an input or output that is missing, damaged or cannot be written."),
    ("3", "check: nothing could be judged, or, with --fail-on undecoded, not everything."),
    ("70", "A bug in wiredecode; please report it."),
    ("129, 130, 143", "Ended by SIGHUP, Ctrl-C or SIGTERM. sniff ends with 0 after Ctrl-C and SIGTERM."),
)
ENVIRONMENT = (
    ("NO_COLOR", "If set and not empty, --color auto means no colours. So does TERM=dumb."),
    ("COLUMNS", "Width of trees, tables and help; by default that of the terminal."),
    ("TZ", "Time zone of --time absolute."),
    (DEBUG, "If set, a bug in wiredecode shows its traceback, as with -v."),
)
FILES = (
    ("FILE", "A capture in pcap or pcapng format, plain or compressed with gzip, zstd or lz4. - is standard input."),
    ("~/.bash_completions/wiredecode.sh, ~/.zfunc/_wiredecode, ~/.config/fish/completions/wiredecode.fish", ""),
    ("", "Written by --install-completion, for bash, zsh and fish."),
)


def main() -> None:
    """Write both pages."""
    PAGE.write_text(page())
    REFERENCE.write_text(reference())


def page() -> str:
    """The whole man page, in the man macros of troff."""
    tree = command_line()
    lines = [f'.\\" Made by docs/make_man.py with typer {version("typer")}.']
    lines += ['.TH WIREDECODE 1 "" "wiredecode" "User Commands"', ".SH NAME"]
    lines += [f"wiredecode \\- {_plain(tree.help.rstrip('.'))}", ".SH SYNOPSIS"]
    for name, command in tree.commands.items():
        lines += [f".B wiredecode {name}", _plain(_usage(command)), ".br"]
    lines += [".SH DESCRIPTION", _plain(tree.help), "Each command explains itself with \\fB\\-\\-help\\fR."]
    lines += [".SH OPTIONS", *_options(tree), ".SH COMMANDS"]
    for name, command in tree.commands.items():
        lines += _command(name, command)
    for title, rows in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)):
        lines.append(f".SH {title}")
        for head, text in rows:
            lines += ([".TP", f"\\fB{_plain(head)}\\fR"] if head else []) + ([_plain(text)] if text else [])
    lines += [".SH EXAMPLES", *_example(tree.epilog)]
    lines += [".SH SEE ALSO", ".BR tshark (1),", ".BR tcpdump (1),", ".BR pcap\\-filter (7)"]
    return "\n".join(lines) + "\n"


def reference() -> str:
    """The page of commands, in Markdown."""
    tree = command_line()
    lines = ["# Commands and options", "", f"<!-- Made by docs/make_man.py with typer {version('typer')}. -->", ""]
    lines += ["`wiredecode FILE` is `wiredecode pcap FILE`. [Exit codes](../exit-codes.md).", "", "## wiredecode", ""]
    lines += [*_table(tree), *_block(tree.epilog)]
    for name, command in tree.commands.items():
        lines += [f"## {name}", "", f"`wiredecode {name} {_usage(command)}`", ""]
        for paragraph in re.split(r"\n\s*\n", command.help.strip()):
            lines += [_cell(paragraph), ""]
        lines += [*_table(command), *_block(command.epilog or "")]
    lines += ["## Environment", "", "| variable | effect |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(text)} |" for name, text in ENVIRONMENT]
    return "\n".join(lines) + "\n"


def _table(command: Any) -> Iterator[str]:
    for heading, records in _groups(command):
        yield f"| {heading or 'option'} | |"
        yield "|---|---|"
        yield from (f"| `{_cell(name)}` | {_cell(text)} |" for name, text in records)
        yield ""


def _block(epilog: str) -> list[str]:
    found = _examples(epilog)
    return ["```", *found, "```", ""] if found else []


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _command(name: str, command: Any) -> Iterator[str]:
    yield f".SS wiredecode {name} {_plain(_usage(command))}"
    for paragraph in re.split(r"\n\s*\n", command.help.strip()):
        yield _plain(" ".join(paragraph.split()))
        yield ".PP"
    yield from _options(command)
    yield from _example(command.epilog or "")


def _usage(command: Any) -> str:
    return " ".join(command.collect_usage_pieces(type(command).context_class(command)))


def _some(command: Any, kind: str) -> list[Any]:
    return [one for one in command.params if one.param_type_name == kind]


def _options(command: Any) -> Iterator[str]:
    for heading, records in _groups(command):
        if heading:
            yield f".PP\n\\fI{heading}\\fR"
        yield from (f".TP\n\\fB{_plain(name)}\\fR\n{_plain(text)}" for name, text in records)


def _groups(command: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Options and their help by group, as --help shows them; a single group has no heading."""
    context = type(command).context_class(command)
    groups = command.groups(context) if hasattr(command, "groups") else {"": _some(command, "option")}
    for heading, some in groups.items():
        records = [one.get_help_record(context) for one in some]
        yield (
            heading if len(groups) > 1 else "",
            [(name, " ".join(text.split())) for name, text in filter(None, records)],
        )


def _example(epilog: str) -> Iterator[str]:
    """The examples at the end of a help text, as they are."""
    lines = _examples(epilog)
    if lines:
        yield from (".PP", "Examples:", ".PP", ".nf", *(_plain(line) for line in lines), ".fi")


def _examples(epilog: str) -> list[str]:
    return [line for line in epilog.strip("\b\n").splitlines() if line.strip() and line.strip() != "Examples:"]


def _plain(text: str) -> str:
    """Text that troff takes as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("→", "\\(->").replace("←", "\\(<-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
