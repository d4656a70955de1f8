"""One run of ``wiredecode spark``: starts Spark, shows its progress, and reports the result."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, NoReturn

from wiredecode.capture.listing import Listed
from wiredecode.cli import interrupt
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import UsageError, refuse
from wiredecode.cli.output import complain, say
from wiredecode.cli.session import totals_width, write_summary
from wiredecode.cli.spark_options import SparkInputs, SparkOptions
from wiredecode.dataclasses import replace
from wiredecode.export.lake import kind_of, open_lake
from wiredecode.export.lake.run import AlreadyThere, TableRun, contents, run_of, selection
from wiredecode.frames.escape import escape
from wiredecode.frames.record import totals_record
from wiredecode.spark import session
from wiredecode.spark.accounts import TaskReports
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import FileProblem, Inputs, UnreadableFile, find, settled_files
from wiredecode.spark.folder import Folder, Occupied, lock_folder
from wiredecode.spark.increments import Increment, ProcessedFiles
from wiredecode.spark.pipeline import Metrics, Plan, decode_plan, make_plan
from wiredecode.spark.session import CannotStart, one_line
from wiredecode.spark.splits import check_size
from wiredecode.spark.writing import LakeRun
from wiredecode.view.totals import totals_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = 2
INCREMENT_BUCKETS = 8
"""Buckets of each source without --partitions: they stay the same for the life of a folder of states."""
EVERY_SECONDS, SETTLE_SECONDS = 60.0, 60.0
PROGRESS_SECONDS = 0.5


def run(options: SparkOptions) -> int:
    """Run it; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it, too, removes unfinished files
    check_combined(options)
    cluster = options.cluster
    try:
        session.check(cluster.master)
        run = SparkRun(options, options.demand(), find(options.inputs, options.source))
        run.check()
    except AlreadyThere as there:
        return nothing_to_do(options, there)
    except (CannotStart, Occupied, UnreadableFile) as error:
        complain(escape(str(error)))
        return FAILED
    except ValueError as error:
        raise UsageError(str(error)) from None
    try:
        with log_of(options) as log, session.session(cluster.master, settings=cluster.settings, log=log) as spark:
            try:
                if options.stream is not None and not options.finish:
                    run.follow(spark)
                accounts = run.work(spark)
            finally:
                interrupt.acknowledge()  # ending the session takes a while
    except AlreadyThere as there:
        return nothing_to_do(options, there)
    except (KeyboardInterrupt, Exception) as error:
        interrupt.acknowledge()
        run.discard()
        return run.report_failure(error)
    return run.show_totals(accounts)


def nothing_to_do(options: SparkOptions, there: AlreadyThere) -> int:
    """Say so; return the exit code."""
    if not options.verbosity.quiet:
        say(f"{'nothing':<10}to do: {escape(options.out)} {there}")
    return 0


def reason(error: BaseException, options: SparkInputs) -> str:
    """Why there is no result, in a line. Bugs of wiredecode are raised again."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, CannotStart | Occupied | UnreadableFile | OSError | ValueError):
        return str(error)
    if isinstance(error, PySparkException | Py4JError):
        return one_line(error) + (
            "" if options.verbosity.verbose or UnreadableFile.__name__ in str(error) else "; -v shows what Spark says"
        )
    raise error


def check_combined(options: SparkOptions) -> None:
    """Refuse options that would do nothing."""
    given = [f"--{name}" for name in ("stream", "increment") if getattr(options, name) is not None]
    is_lake, follows = kind_of(options.out) is not None, options.stream is not None and not options.finish
    timed = [name for name in ("every", "settle") if getattr(options, name) is not None]
    refuse(
        ("-" in options.inputs, "tasks open the captures, and standard input is read once: save it first"),
        (len(given) > 1, "--stream repeats --increment: give one of them"),
        (given and not is_lake, f"{''.join(given)} adds to tables: -o delta:PATH or iceberg:CATALOG"),
        (timed and not follows, f"--{''.join(timed[:1])} needs --stream, without --finish"),
        (
            given and "flows" in (options.level or ""),
            f"flows are those of whole captures: leave out {''.join(given)}, or flows",
        ),
        (options.finish and not given, "--finish needs --stream or --increment"),
        (
            options.overwrite and (given or not is_lake),
            "--overwrite needs captures, and tables as target: -o delta:PATH or iceberg:CATALOG",
        ),
        (follows and options.summary_json is not None, "--stream does not end: leave out --summary-json"),
    )


@contextmanager
def log_of(options: SparkInputs) -> Iterator[IO[bytes] | None]:
    """Where Java writes to. With -v or a log level of the user's it is seen, and py4j's lines on an interrupt."""
    if options.verbosity.verbose or "spark.log.level" in options.cluster.settings:
        yield None
        return
    before = logging.root.manager.disable
    logging.disable()
    try:
        with tempfile.TemporaryFile() as log:
            yield log
    finally:
        logging.disable(before)


class SparkRun:
    """One run, and its output."""

    def __init__(self, options: SparkOptions, demand: TableDemand, inputs: Inputs) -> None:
        self.options, self.demand, self.inputs = options, demand, inputs
        self.states = options.stream or options.increment
        self.folder: Folder | None = None
        self.written = False

    def check(self) -> None:
        """Check inputs, output and states before Spark starts. Raises as :func:`run` handles it."""
        options, inputs = self.options, self.inputs
        check_size(options.split_bytes or 0)
        if inputs.problems and self.demand.fail_fast:
            raise UnreadableFile(inputs.problems[0].text)
        if self.states is not None:
            self.increment(self.states).log()
            open_lake(options.out)
        if not inputs.files and options.stream is None and not options.finish:
            complain_of_inputs(inputs, options.inputs)
            raise UnreadableFile(f"nothing could be read; {options.out} was not written")
        if self.states is None and kind_of(options.out):
            _ = self.tables
        elif self.states is None:
            Folder(options.out).check()

    def work(self, spark: SparkSession) -> TaskReports:
        """Write the tables."""
        options = self.options
        is_lake = kind_of(options.out) is not None
        with nullcontext() if is_lake else lock_folder(options.out), self.progress(spark) as metrics:
            if self.states is not None:
                accounts = self.increment(self.states, metrics).run(spark, self.inputs, finish=options.finish)
                if accounts is None:
                    raise AlreadyThere("has all of these files")
            elif is_lake:
                self.demand = replace(self.demand, levels=tuple(self.tables.runs))
                rows = decode_plan(spark, self.plan(spark), self.tables.sink, metrics=metrics)
                accounts = self.tables.commit(rows)
            else:
                return self.into_folder(spark, Folder(options.out), metrics)
        self.written = anything(accounts)
        return accounts

    def into_folder(self, spark: SparkSession, folder: Folder, metrics: Metrics) -> TaskReports:
        """Write the tables of a folder anew."""
        self.folder, levels = folder, self.demand.levels
        folder.begin()
        rows = decode_plan(spark, self.plan(spark), folder.sink(levels), metrics=metrics)
        accounts = folder.publish(rows, levels)
        if anything(accounts):
            folder.commit(self.summary(accounts))
            self.written = True
        else:
            folder.discard()
        self.folder = None
        return accounts

    @cached_property
    def tables(self) -> LakeRun:
        """The run's part of tables of Iceberg or Delta. Raises AlreadyThere, LakeError."""
        options, demand, files = self.options, self.demand, contents(self.inputs.changed)

        def run(level: str) -> TableRun:
            return run_of(files, self.describe_selection(level), demand.columns if level in demand.levels else None)

        return LakeRun(options.out, demand.levels, run, self.describe_selection, overwrite=options.overwrite)

    def follow(self, spark: SparkSession) -> NoReturn:
        """Add what is new again and again, until the user interrupts it."""
        assert self.states is not None
        options, increment = self.options, self.increment(self.states)
        every = EVERY_SECONDS if options.every is None else options.every
        settle = SETTLE_SECONDS if options.settle is None else options.settle
        heads: dict[Listed, int] = {}
        reported: set[FileProblem] = set()
        while True:
            begun = time.monotonic()
            inputs = settled_files(find(options.inputs, options.source, heads), settle, time.time())
            earlier, reported = reported, set(inputs.problems)
            inputs.problems = [each for each in inputs.problems if each not in earlier]
            accounts = increment.run(spark, inputs)
            for _, _, problem in () if accounts is None else accounts.problems:
                complain(escape(problem))
            if accounts is not None and accounts.totals.packets and not options.verbosity.quiet:
                say(f"{'added':<10}{accounts.totals.packets:,} packets to {escape(options.out)}")
            time.sleep(max(0.0, every - (time.monotonic() - begun)))

    def increment(self, states: str, metrics: Metrics | None = None) -> Increment:
        """Return the runs whose states are in a folder."""
        options = self.options
        demand = replace(self.demand, buckets=options.partitions or INCREMENT_BUCKETS)
        book = ProcessedFiles(states)
        return Increment(options.out, book, demand, self.describe_selection, options.source, self.how, metrics)

    def describe_selection(self, level: str) -> str:
        """The selection of rows of a level, as tables remember it."""
        options = self.options
        source = None if options.source == "none" else options.source
        return selection(level, options.display_filter, source=source)

    @property
    def how(self) -> dict[str, Any]:
        """Options of ``pipeline.make_plan``."""
        return {name: getattr(self.options, name) for name in ("partitions", "split_bytes")}

    def plan(self, spark: SparkSession) -> Plan:
        return make_plan(spark, self.inputs, self.demand, **self.how)

    @contextmanager
    def progress(self, spark: SparkSession) -> Iterator[Metrics]:
        """The metrics of a run; they are shown on a terminal while it lasts."""
        metrics = Metrics(spark)
        quiet = self.options.verbosity.quiet or not sys.stderr.isatty()
        with nullcontext() if quiet else progress(spark, metrics):
            yield metrics

    def summary(self, accounts: TaskReports) -> dict[str, Any]:
        """Contents of ``_SUCCESS`` and ``--summary-json``."""
        row = totals_record(accounts.totals)
        row["errors"] = [problem for _, _, problem in accounts.problems]
        row["apart"] = [{"protocol": name, "port": port} for name, port in accounts.apart]
        return {"level": ",".join(self.demand.levels), **row}

    def discard(self) -> None:
        """Leave nothing that takes room."""
        if self.folder is not None:
            self.folder.discard()

    def report_failure(self, error: BaseException) -> int:
        """Report in a line why there is no result; return the exit code."""
        if (
            isinstance(error, KeyboardInterrupt) or interrupt.is_interrupted()
        ):  # tasks fail too, when the signal reaches all
            complain(self.describe_failure("interrupted"))
            return INTERRUPTED
        if self.options.verbosity.verbose:
            traceback.print_exception(error)
        complain(self.describe_failure(reason(error, self.options)))
        return FAILED

    def describe_failure(self, why: str) -> str:
        why, out = escape(why), escape(self.options.out)
        if self.states is not None:
            return f"{why}; {out} keeps what was decoded, and the same command continues from there"
        if kind_of(self.options.out):
            return f"{why}; the same command adds to {out} what is not there yet"
        return f"{why}; {out} was not written, what was there before is untouched"

    def show_totals(self, accounts: TaskReports) -> int:
        """Show the totals, what could not be read, and where the result is; return the exit code."""
        options, totals = self.options, accounts.totals
        if not options.verbosity.quiet and self.written:
            say(totals_text(totals, verbose=options.verbosity.verbose, width=totals_width()))
        complain_of(accounts, apart=not options.verbosity.quiet and self.written)
        if options.summary_json is not None:
            write_summary(options.summary_json, self.summary(accounts))
        if not self.written:
            complain(self.describe_failure("nothing could be read"))
        elif accounts.problems:
            complain(f"{escape(options.out)} holds what could be decoded")
        elif not options.verbosity.quiet:
            say(f"{'written':<10}{escape(options.out)}")
        return FAILED if accounts.problems else 0


def complain_of_inputs(inputs: Inputs, names: Sequence[str]) -> None:
    """Say why there is nothing to read."""
    nothing = [] if inputs.changed else [f"{', '.join(names)}: the folder holds no file with the name of a capture"]
    for text in [problem.text for problem in inputs.problems] or nothing:
        complain(escape(text))


def complain_of(accounts: TaskReports, *, apart: bool = True) -> None:
    """Say what could not be read, and which connections were decoded ``apart``."""
    for name, port in accounts.apart if apart else ():
        complain(f"connections of {name} on port {port} are decoded separately here: use -d {port}={name}")
    for _, _, problem in accounts.problems:
        complain(escape(problem))


def anything(accounts: TaskReports) -> bool:
    """Whether there is something to keep: not if there are only reasons why nothing was read."""
    return bool(accounts.totals.packets) or not accounts.problems


@contextmanager
def progress(spark: SparkSession, metrics: Metrics) -> Iterator[None]:
    """Stages, tasks and metrics on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    over = threading.Event()
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as shown:
        bar = shown.add_task("starting", total=None)
        watching = threading.Thread(target=_watch, args=(spark, metrics, shown, bar, over), daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join(PROGRESS_SECONDS)


def _watch(spark: SparkSession, metrics: Metrics, shown: Any, bar: Any, over: threading.Event) -> None:
    """Ask Spark now and then; it may be gone in between."""
    with suppress(Exception):
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(PROGRESS_SECONDS):
            stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
            if stages:
                names = ", ".join(str(stage.stageId) for stage in stages)
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                counts = f"{metrics.packets.value:,} packets, {metrics.frames.value:,} frames"
                shown.update(bar, description=f"stage {names}: {counts}", completed=done, total=total)
