"""One run of ``wiredecode spark``: starts Spark, shows its progress, and reports the result."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NoReturn

from wiredecode.cli import interrupt
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import complain, say
from wiredecode.cli.session import totals_width, write_summary
from wiredecode.export.lake import kind_of, open_lake
from wiredecode.export.lake.run import AlreadyThere
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wiredecode.capture.listing import Listed
    from wiredecode.cli.spark_options import SparkOptions
    from wiredecode.export.lake.run import TableRun
    from wiredecode.spark.accounts import Accounts
    from wiredecode.spark.decode import TableDemand
    from wiredecode.spark.files import Found, Problem
    from wiredecode.spark.folder import Folder
    from wiredecode.spark.increments import Increment
    from wiredecode.spark.pipeline import Metrics, Planned

FAILED = 2
INCREMENT_BUCKETS = 8
"""Buckets of each source without --partitions: they stay the same for the life of a folder of states."""
EVERY_SECONDS, SETTLE_SECONDS = 60.0, 60.0
PROGRESS_SECONDS = 0.5


def run(options: SparkOptions) -> int:
    """Run it; return the exit code."""
    from wiredecode.spark import session
    from wiredecode.spark.files import find

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it, too, removes unfinished files
    cluster = options.cluster
    check_combined(options)
    try:
        session.check(cluster.master)
        demand = options.demand()
        if kind_of(options.out):
            open_lake(options.out)
        found = find(options.inputs, options.source)
    except session.CannotStart as error:
        complain(escape(str(error)))
        return FAILED
    except ValueError as error:
        raise UsageError(str(error)) from None
    if refused := unreadable(options, found):
        for text in refused:
            complain(escape(text))
        return FAILED
    run = SparkRun(options, demand, found)
    try:
        with log_of(options) as log, session.session(cluster.master, settings=cluster.settings, log=log) as spark:
            try:
                if options.stream is not None and not options.finish:
                    run.follow(spark, options.stream)
                states = options.stream or options.increment
                accounts = run.work(spark) if states is None else run.add(spark, states)
            finally:
                interrupt.arrived()  # the session may take a while to end, and must not be interrupted in that again
    except AlreadyThere as there:
        if not options.verbosity.quiet:
            say(f"{'nothing':<10}to do: {escape(options.out)} {there}")
        return 0
    except (KeyboardInterrupt, Exception) as error:
        interrupt.arrived()
        run.discard()
        return run.failed(error)
    return run.show_totals(accounts)


def reason(error: BaseException, options: SparkOptions) -> str:
    """Why there is no result, in a line. Bugs of wiredecode are raised again."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from wiredecode.spark.folder import Occupied
    from wiredecode.spark.pipeline import Stopped
    from wiredecode.spark.session import CannotStart, one_line

    if isinstance(error, CannotStart | Occupied | Stopped | OSError | ValueError):
        return str(error)
    if isinstance(error, PySparkException | Py4JError):
        return one_line(error) + (
            "" if options.verbosity.verbose or "Stopped" in str(error) else "; -v shows what Spark says"
        )
    raise error


def unreadable(options: SparkOptions, found: Found) -> list[str]:
    """Why a run would have nothing to read, in lines, before Spark starts."""
    if found.files or options.stream is not None or options.finish:
        return []
    out = escape(options.out)
    return [*(problem.text for problem in found.problems), f"nothing could be read; {out} was not written"]


def check_combined(options: SparkOptions) -> None:
    """Refuse options that would do nothing."""
    states = {"--stream": options.stream, "--increment": options.increment}
    given = [name for name, value in states.items() if value is not None]
    if len(given) > 1:
        raise UsageError("--stream repeats --increment: give one of them")
    if given and not kind_of(options.out):
        raise UsageError(f"{given[0]} adds to tables: -o delta:PATH or iceberg:CATALOG")
    if options.stream is None or options.finish:
        alone = [name for name in ("every", "settle") if getattr(options, name) is not None]
        if alone:
            raise UsageError(f"--{alone[0]} needs --stream, without --finish")
    if options.finish and not given:
        raise UsageError("--finish needs --stream or --increment")
    if options.overwrite and (given or not kind_of(options.out)):
        raise UsageError("--overwrite needs captures, and tables as target: -o delta:PATH or iceberg:CATALOG")
    if options.stream is not None and options.summary_json is not None and not options.finish:
        raise UsageError("--stream does not end: leave out --summary-json")


@contextmanager
def log_of(options: SparkOptions) -> Iterator[IO[bytes] | None]:
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
    """One run, and the folder that it writes into."""

    def __init__(self, options: SparkOptions, demand: TableDemand, found: Found) -> None:
        self.options, self.demand, self.found = options, demand, found
        self.folder: Folder | None = None
        self.written = False

    def work(self, spark: SparkSession) -> Accounts:
        """Write the tables and give them their names."""
        from wiredecode.spark.folder import Folder, alone

        options = self.options
        if kind_of(options.out):
            return self.into_tables(spark)
        with alone(options.out), self.progress(spark) as metrics:
            return self.into_folder(spark, Folder(options.out), metrics)

    def into_folder(self, spark: SparkSession, folder: Folder, metrics: Metrics) -> Accounts:
        """Write the tables of a folder anew."""
        from wiredecode.spark import pipeline

        self.folder, levels = folder, self.demand.levels
        folder.begin()
        rows = pipeline.decoded(spark, self.planned(spark), folder.sink(levels), metrics=metrics)
        accounts = folder.publish(rows, levels)
        if anything(accounts):
            folder.commit(self.summary(accounts))
            self.written = True
        else:
            folder.discard()
        self.folder = None
        return accounts

    def add(self, spark: SparkSession, states: str) -> Accounts:
        """Add what is new to the tables."""
        from wiredecode.spark.pipeline import Stopped

        options, found = self.options, self.found
        if self.demand.fail_fast and found.problems:
            raise Stopped(found.problems[0].text)
        with self.progress(spark) as metrics:
            accounts = self.increment(states, metrics).run(spark, found, finish=options.finish)
        if accounts is None:
            raise AlreadyThere("has all of these files")
        self.written = anything(accounts)
        return accounts

    def follow(self, spark: SparkSession, states: str) -> NoReturn:
        """Add what is new again and again, until the user interrupts it."""
        from wiredecode.spark.files import find, settled

        options, increment = self.options, self.increment(states)
        every = EVERY_SECONDS if options.every is None else options.every
        settle = SETTLE_SECONDS if options.settle is None else options.settle
        heads: dict[Listed, int] = {}
        reported: set[Problem] = set()
        while True:
            begun = time.monotonic()
            found = settled(find(options.inputs, options.source, heads), settle, time.time())
            known, reported = reported, set(found.problems)
            found.problems = [each for each in found.problems if each not in known]
            accounts = increment.run(spark, found)
            for _, _, problem in () if accounts is None else accounts.problems:
                complain(escape(problem))
            if accounts is not None and accounts.totals.packets and not options.verbosity.quiet:
                say(f"{'added':<10}{accounts.totals.packets:,} packets to {escape(options.out)}")
            time.sleep(max(0.0, every - (time.monotonic() - begun)))

    def increment(self, states: str, metrics: Metrics | None = None) -> Increment:
        """Return the runs whose states are in a folder."""
        from wiredecode.spark.increments import Increment, ProcessedFiles

        options = self.options
        demand = replace(self.demand, buckets=options.partitions or INCREMENT_BUCKETS)
        book = ProcessedFiles(states)
        return Increment(options.out, book, demand, self.selected, options.source, self.how, metrics)

    def selected(self, level: str) -> str:
        """The selection of rows of a level, as tables remember it."""
        from wiredecode.export.lake.run import selection

        options = self.options
        source = None if options.source == "none" else options.source
        return selection(level, options.display_filter, source=source)

    @property
    def how(self) -> dict[str, Any]:
        """Options of ``pipeline.planned``."""
        return {name: getattr(self.options, name) for name in ("partitions", "split_bytes")}

    @contextmanager
    def progress(self, spark: SparkSession) -> Iterator[Metrics]:
        """The metrics of a run; they are shown on a terminal while it lasts."""
        from wiredecode.spark.pipeline import Metrics

        metrics = Metrics(spark)
        quiet = self.options.verbosity.quiet or not sys.stderr.isatty()
        with nullcontext() if quiet else progress(spark, metrics):
            yield metrics

    def into_tables(self, spark: SparkSession) -> Accounts:
        """Add to tables of Iceberg or Delta what is not there yet."""
        from wiredecode.export.lake.run import contents, run_of
        from wiredecode.spark import pipeline
        from wiredecode.spark.lake import LakeRun

        options, demand, files = self.options, self.demand, contents(self.found.changed)

        def run(level: str) -> TableRun:
            return run_of(files, self.selected(level), demand.columns if level in demand.levels else None)

        tables = LakeRun(options.out, demand.levels, run, self.selected, overwrite=options.overwrite)
        self.demand = replace(self.demand, levels=tuple(tables.runs))
        with self.progress(spark) as metrics:
            accounts = tables.commit(pipeline.decoded(spark, self.planned(spark), tables.sink, metrics=metrics))
        self.written = anything(accounts)
        return accounts

    def planned(self, spark: SparkSession) -> Planned:
        """Return the plan of the run."""
        from wiredecode.spark.pipeline import planned

        return planned(spark, self.found, self.demand, **self.how)

    def summary(self, accounts: Accounts) -> dict[str, Any]:
        """Contents of ``_SUCCESS`` and ``--summary-json``."""
        from wiredecode.frames.record import totals_record

        row = totals_record(accounts.totals)
        row["errors"] = [problem for _, _, problem in accounts.problems]
        row["apart"] = [{"protocol": name, "port": port} for name, port in accounts.apart]
        return {"level": ",".join(self.demand.levels), **row}

    def discard(self) -> None:
        """Leave nothing that takes room."""
        if self.folder is not None:
            self.folder.discard()

    def failed(self, error: BaseException) -> int:
        """Report in a line why there is no result; return the exit code."""
        if isinstance(error, KeyboardInterrupt) or interrupt.came():  # tasks fail too, when the signal reaches all
            complain(self.undone("interrupted"))
            return INTERRUPTED
        if self.options.verbosity.verbose:
            traceback.print_exception(error)
        complain(self.undone(reason(error, self.options)))
        return FAILED

    def undone(self, why: str) -> str:
        why, out = escape(why), escape(self.options.out)
        if kind_of(self.options.out) and self.options.stream is None and self.options.increment is None:
            return f"{why}; the same command adds to {out} what is not there yet"
        if self.options.stream is not None or self.options.increment is not None:
            return f"{why}; {out} keeps what was decoded, and the same command continues from there"
        return f"{why}; {out} was not written, what was there before is untouched"

    def show_totals(self, accounts: Accounts) -> int:
        """Show the totals, what could not be read, and where the result is; return the exit code."""
        from wiredecode.view.totals import totals_text

        options, totals = self.options, accounts.totals
        if not options.verbosity.quiet and self.written:
            say(totals_text(totals, verbose=options.verbosity.verbose, width=totals_width()))
            for name, port in accounts.apart:
                complain(f"connections of {name} on port {port} are decoded separately here: use -d {port}={name}")
        for _, _, problem in accounts.problems:
            complain(escape(problem))
        if options.summary_json is not None:
            write_summary(options.summary_json, self.summary(accounts))
        if not self.written:
            complain(self.undone("nothing could be read"))
        elif accounts.problems:
            complain(f"{escape(options.out)} holds what could be decoded")
        elif not options.verbosity.quiet:
            say(f"{'written':<10}{escape(options.out)}")
        return FAILED if accounts.problems else 0


def anything(accounts: Accounts) -> bool:
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
            stages = [found for stage in tracker.getActiveStageIds() if (found := tracker.getStageInfo(stage))]
            if stages:
                names = ", ".join(str(stage.stageId) for stage in stages)
                done, total = sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                counts = f"{metrics.packets.value:,} packets, {metrics.frames.value:,} frames"
                shown.update(bar, description=f"stage {names}: {counts}", completed=done, total=total)
