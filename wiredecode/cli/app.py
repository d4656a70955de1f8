"""The tree of commands, and what becomes of their failures."""

from __future__ import annotations

import gc
import os
import sys
from functools import partial
from typing import Annotated, Any

import typer

from wiredecode.cli import INTERRUPTED, interrupt
from wiredecode.cli.completion import answer_bash, is_completion, name_the_shell
from wiredecode.cli.help import Command
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Closed, abandon, complain
from wiredecode.cli.tshark import translate
from wiredecode.frames.escape import escape

OK, USAGE, BUG = 0, 2, 70
"""Exit codes besides 1: worked, but found what it was asked to look for."""
DEBUG = "WIREDECODE_DEBUG"
"""Environment variable: show the traceback of a failure."""

EXAMPLES = """\b
Examples:
  wiredecode pcap capture.pcap                       trees
  wiredecode pcap capture.pcap --summary             one line per frame
  wiredecode pcap capture.pcap --json | jq .type     records
  wiredecode fields rabbitmq_stream.chunk            what is in a chunk
"""

FIRST = """\
wiredecode decodes what clients and streaming brokers say to each other.
The first three things to do:

  wiredecode capture.pcap --summary    what was said, a line per message
  wiredecode check capture.pcap        what is wrong, why, and what to do
  wiredecode stats capture.pcap        what is in it: counts, latencies, who

wiredecode sniff -i any --summary shows the same live.

wiredecode --help lists all commands; wiredecode COMMAND --help has examples."""
"""What is shown to those who say nothing."""

app = typer.Typer(
    name="wiredecode",
    help="Decode what clients and streaming brokers say to each other, from packet captures.",
    epilog=EXAMPLES,
    rich_markup_mode=None,  # plain help: a third faster to show, and [brackets] stay
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def version_number() -> str:
    """``0.1.0``."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("wiredecode")
    except PackageNotFoundError:
        return "(not installed)"


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wiredecode {version_number()}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Decode what clients and streaming brokers say to each other, from packet captures."""


def _register() -> None:
    from wiredecode.cli import (
        anonymize,
        check,
        config,
        export,
        extcap,
        fields,
        follow,
        interfaces,
        pcap,
        protocols,
        report,
        sniff,
        spark,
        spark_stats,
        sql,
        stats,
        trace,
        ui,
        wireshark,
    )

    command = partial(app.command, cls=Command)
    command(
        "pcap", short_help="Decode captures: trees, lines or JSON records.", no_args_is_help=True, epilog=pcap.EXAMPLES
    )(pcap.pcap)
    command(
        "sniff",
        short_help="Decode what passes an interface, live.",
        no_args_is_help=True,
        epilog=sniff.EXAMPLES,
    )(sniff.sniff)
    command("interfaces", short_help="Where sniff can listen.", epilog=interfaces.EXAMPLES)(interfaces.interfaces)
    command("follow", short_help="One connection as a dialogue.", no_args_is_help=True, epilog=follow.EXAMPLES)(
        follow.follow
    )
    command(
        "export",
        short_help="Write files for other programs: Parquet, Arrow, CSV, JSON.",
        no_args_is_help=True,
        epilog=export.EXAMPLES,
    )(export.export)
    command(
        "stats",
        short_help="Counts, latencies, throughput: what captures hold.",
        no_args_is_help=True,
        epilog=stats.EXAMPLES,
    )(stats.stats)
    command("check", short_help="What is wrong, and what to do about it.", no_args_is_help=True, epilog=check.EXAMPLES)(
        check.check
    )
    command("trace", short_help="What became of one message.", no_args_is_help=True, epilog=trace.EXAMPLES)(trace.trace)
    command(
        "report", short_help="One HTML page for a ticket or a colleague.", no_args_is_help=True, epilog=report.EXAMPLES
    )(report.report)
    command("ui", short_help="Look through captures on a full screen.", no_args_is_help=True, epilog=ui.EXAMPLES)(ui.ui)
    command(
        "anonymize",
        short_help="The same capture without secrets and addresses.",
        no_args_is_help=True,
        epilog=anonymize.EXAMPLES,
    )(anonymize.anonymize)
    command("sql", short_help="Ask captures in SQL (DuckDB).", no_args_is_help=True, epilog=sql.EXAMPLES)(sql.sql)
    app.command(
        "spark",
        cls=spark.SparkCommand,
        short_help="Captures of any size to Parquet, on Spark.",
        no_args_is_help=True,
        epilog=spark.EXAMPLES,
    )(spark.spark)
    app.command(
        "spark stats",
        cls=Command,
        short_help="The same counts of tables that spark wrote.",
        no_args_is_help=True,
        epilog=spark_stats.EXAMPLES,
    )(spark_stats.stats)
    command("config", short_help="Saved filters, colour rules, how times are shown.", epilog=config.EXAMPLES)(
        config.config
    )
    command(
        "wireshark",
        short_help="A dissector for Wireshark, with the same fields.",
        no_args_is_help=True,
        epilog=wireshark.EXAMPLES,
    )(wireshark.wireshark)
    command("extcap", short_help="Live capture for Wireshark.", no_args_is_help=True, epilog=extcap.EXAMPLES)(
        extcap.extcap
    )
    command("protocols", short_help="What is decoded: ports and dialects.")(protocols.protocols)
    command("fields", short_help="Every field: name, type, meaning.", epilog=fields.EXAMPLES)(fields.fields)


_register()


def command_line() -> Any:
    """click's tree of commands: for the man page, and for tests that go through every option."""
    return typer.main.get_command(app)


def run(words: list[str]) -> int:
    """Run the command line; return the exit code. Never a traceback, unless asked for."""
    gc.disable()  # until a command has imported what it needs
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nothing here uses
    name_the_shell(words)
    try:
        tree = command_line()
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
    except (Closed, BrokenPipeError):
        abandon(sys.stdout)
        return OK
    except OSError as error:
        abandon(sys.stdout)
        if error.filename is None and error.strerror:
            complain(f"cannot write: {error.strerror}")
        else:
            complain(escape(str(error)))
        return USAGE
    except Exception as error:
        return INTERRUPTED if interrupt.came() else _failure(error, words)
    finally:
        gc.enable()
    return code or OK


def _usage(error: Exception) -> int:
    """A wrong command line: one line, unless it is empty and help is due."""
    text = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        alone = context is not None and context.parent is None
        typer.echo(FIRST if alone else text, err=True)
        return USAGE
    command = context.command_path if context is not None else "wiredecode"
    complain(f"{escape(' '.join(text.split())).rstrip('.')} (see {command} --help)")
    return USAGE


def _failure(error: Exception, words: list[str]) -> int:
    """A package that is not installed, or a mistake of ours."""
    if isinstance(error, ModuleNotFoundError):
        from wiredecode.extras import missing

        lacking = missing(error)
        if lacking is not None:
            complain(lacking)
            return USAGE
    if os.environ.get(DEBUG) or "-v" in words or "--verbose" in words:
        import traceback

        traceback.print_exc()
    what = escape(f"{type(error).__name__}: {error}")
    complain(f"internal error: {what}; please report it, with the output of the same command and -v")
    return BUG
