"""Entry point of the command line: runs a command, and turns errors into a line and an exit code."""

import gc
import os
import sys
from functools import cache, partial
from typing import Any

import typer
from typer import Option

from wiredecode.cli import interrupt
from wiredecode.cli.commands import TREE, Commands, epilog
from wiredecode.cli.completion import answer_bash, is_completion, name_the_shell
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.lean import LeanScapy
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import OutputClosed, abandon, complain, reason_of
from wiredecode.cli.tshark import translate
from wiredecode.extras import missing, version_number
from wiredecode.frames.escape import escape

OK, USAGE, BUG = 0, 2, 70
"""Exit codes; 1: worked, and found what it should look for."""
DEBUG = "WIREDECODE_DEBUG"
"""Environment variable: show the traceback of a failure."""

app = typer.Typer(
    name="wiredecode",
    cls=Commands,
    help="Decode what clients and streaming brokers say to each other, from packet captures.",
    epilog=epilog(TREE["examples"]),
    rich_markup_mode=None,  # plain help: a third faster to show, and [brackets] stay
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wiredecode {version_number()}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = Option(False, "--version", is_eager=True, callback=_version, help="Show the version."),
) -> None:
    """Decode what clients and streaming brokers say to each other, from packet captures."""


def command_line() -> Any:
    """click's tree of commands, for the man page and for tests of every option."""
    return typer.main.get_command(app)


_tree = cache(command_line)


def run(words: list[str]) -> int:
    """Run the command line; return the exit code. Print no traceback, unless asked for."""
    gc.disable()  # until a command has imported what it needs
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start unused threads
    if interrupt.is_own_process():
        sys.meta_path.insert(0, LeanScapy())
    name_the_shell(words)
    try:
        tree = _tree()
        if is_completion():
            code = answer_bash(partial(tree, words, prog_name="wiredecode", standalone_mode=False))
        else:
            code = tree(translate(words, tree.commands), prog_name="wiredecode", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return _usage(error)
    except SystemExit as end:  # completion was installed, shown or answered
        return int(end.code or 0)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (OutputClosed, BrokenPipeError):
        abandon(sys.stdout)
        return OK
    except OSError as error:
        abandon(sys.stdout)
        complain(escape(reason_of(error) if error.strerror else str(error)))
        return USAGE
    except Exception as error:
        return INTERRUPTED if interrupt.is_interrupted() else _failure(error, words)
    finally:
        gc.enable()
    return code or OK


def _usage(error: Exception) -> int:
    """Report a wrong command line in one line; show help for an empty one."""
    text = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        alone = context is not None and context.parent is None
        typer.echo(TREE["first"] if alone else text, err=True)
        return USAGE
    command = context.command_path if context is not None else "wiredecode"
    text = " ".join(text.split())
    for theirs, ours in TEXTS.items():
        text = text.replace(theirs, ours)
    if command.endswith(" sql") and type(error).__name__ == "MissingParameter":
        text = "a query comes after the capture: wiredecode sql a.pcap 'from messages'"
    complain(f"{escape(text).rstrip('.')} (see {command} --help)")
    return USAGE


TEXTS = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "a whole number is needed",
    "Input should be a valid number, unable to parse string as a number": "a number is needed",
    "Input should be greater than or equal to": "give at least",
    "Input should be less than or equal to": "give at most",
}
"""Words of typer's validators, and ours."""
NO_MEMORY = "failed to map segment"
"""Error text of the loader if memory is short."""


def _failure(error: Exception, words: list[str]) -> int:
    """Report missing memory, a missing package, or a bug of wiredecode; return the exit code."""
    if isinstance(error, MemoryError) or NO_MEMORY in str(error):
        complain("there is not enough memory (it takes 150 to 400 MB): give more, or less at a time (--gap-buffer)")
        return USAGE
    if isinstance(error, ImportError):
        lacking = missing(error)
        if lacking is not None:
            complain(lacking)
            return USAGE
    if os.environ.get(DEBUG) or "-v" in words or "--verbose" in words:
        import traceback

        traceback.print_exc()
    reason = escape(f"{type(error).__name__}: {error}")
    complain(f"internal error: {reason}; please report it, with the output of the same command and -v")
    return BUG
