"""``wiredecode stats``: counts, latencies and throughput of captures, as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.stats_output import StatsOptions, parse_tables, show
from wiredecode.dataclasses import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wiredecode.capture import PacketBatch
    from wiredecode.cli.jobs import Numbers, Send
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import ConnectionCallback, Demand
    from wiredecode.filter import Filter
    from wiredecode.frames.totals import Totals
    from wiredecode.net.types import Connection
    from wiredecode.stats.tables import Statistic
    from wiredecode.stats.tallies import Counted

CONSUMERS = "consumers"
"""The table whose rows need all connections: they name some by their numbers."""


@options.group
class CaptureOptions(options.CaptureReading):
    """Options for counting captures."""

    form: StatsOptions
    hops: bool = Option(False, "--hops", help="Latency: count a request again on each hop between servers.")
    timeline: bool = Option(False, "--timeline", help="In place of tables: what changed when, on one screen.")
    jobs: int = Option(
        1, "--jobs", min=1, metavar="N", help="Count in N processes, for large captures; not the table consumers."
    )
    display_filter: options.DisplayFilter = None
    two_passes: options.TwoPasses = False

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, utc=self.span.utc)

    def session(
        self, demand: Demand, on_decoded: ConnectionCallback | None, verbosity: options.Verbosity | None = None
    ) -> CaptureSession:
        """One pass over the captures; ``verbosity``: if not that of the options."""
        from wiredecode.cli.session import CaptureSession, Selection

        reading = self if verbosity is None else replace(self, verbosity=verbosity)
        selection = Selection(span=self.span, display=self.display)
        two_passes = self.two_passes
        return CaptureSession.of(
            reading, self.files, selection, demand, two_passes=two_passes, on_decoded=on_decoded, to_stdout=False
        )

    def check_jobs(self) -> None:
        """Raise UsageError if several processes cannot do it."""
        if self.jobs == 1:
            return
        from wiredecode.cli import jobs

        jobs.check(self.files)
        if self.display is not None:
            try:
                self.display.check_stable()
            except ValueError as error:
                text = str(error).replace("stable ids", "--jobs")
                raise options.UsageError(text) from None
        self.decoding.keys  # noqa: B018 - before there are processes


def stats(settings: CaptureOptions) -> int:
    """Count what is in captures: frames, latency percentiles, publish to confirm, throughput, findings, connections.

    With -Y, --from and --to only the frames and messages chosen count.
    """
    form = settings.form
    if settings.timeline:
        options.refuse(
            (form.csv or form.table, "--timeline is no table: leave out --table and --csv"),
            (settings.jobs > 1, "--timeline is made by one process: leave out --jobs"),
        )
        return _timeline(settings)
    try:
        statistics, length = parse_tables(form)
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    settings.check_jobs()
    names = [statistic.name for statistic in statistics]
    apart = settings.jobs > 1 and CONSUMERS in names
    options.refuse((apart, f"--jobs counts connections apart, and {CONSUMERS} need all: name the tables with --table"))
    code, counted = _count(settings, statistics, length)
    if counted is not None:
        show([(statistic, counted.table(statistic)) for statistic in statistics], form)
    return code


class Counting:
    """Counts the connections of process ``number``, or all. ``sessions``: with several, see :class:`Buckets`."""

    def __init__(
        self,
        settings: CaptureOptions,
        statistics: Sequence[Statistic],
        interval: int | None,
        number: int = 0,
        sessions: Mapping[int, str] | None = None,
        verbosity: options.Verbosity | None = None,
    ) -> None:
        from wiredecode.dissect.dissector import Demand
        from wiredecode.stats.counters import Counters

        whole = settings.display is None and settings.span.is_whole
        counters = self._counters = Counters(statistics, interval, hops=settings.hops, whole=whole)
        self.numbers: Numbers | None = None
        """With several jobs."""
        demand, end = Demand(), counters.end
        if sessions is not None:
            from wiredecode.cli.jobs import Numbers
            from wiredecode.net.buckets import Bucket, Buckets

            demand = replace(demand, bucket=Bucket(Buckets(settings.jobs, sessions), number))
            self.numbers, end = Numbers(sessions), self._end
        self.session = settings.session(counters.demand(demand), end, verbosity)

    def count(self, on_batch: Callable[[PacketBatch], None] | None = None) -> None:
        """Count all frames. Raises CaptureError."""
        for frame, counts in self.session.chosen_frames(on_batch):
            self._counters.frame(frame, counts=counts)

    def finish(self) -> Counted:
        """The results."""
        return self._counters.finish()

    def _end(self, connection: Connection, foreign: str | None) -> None:
        if self._counters.end is not None:
            self._counters.end(connection, foreign)
        if self.numbers is not None:
            self.numbers.end(connection)


def _count(
    settings: CaptureOptions, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counted | None]:
    """The exit code, and the results; None: there are none."""
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    if settings.jobs > 1:
        return _count_in_processes(settings, statistics, interval)
    share = Counting(settings, statistics, interval)
    code = share.session.work(share.count)
    failed = code == INTERRUPTED or (code and not share.session.totals.packets)
    return code, None if failed else share.finish()


def _count_in_processes(
    settings: CaptureOptions, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counted | None]:
    """As :func:`_count`, each process its connections."""
    from wiredecode.capture.errors import Postponed
    from wiredecode.cli.jobs import Apart, Jobs, ParentWatch
    from wiredecode.cli.output import say
    from wiredecode.cli.session import collect_less
    from wiredecode.protocols.registry import session_ports
    from wiredecode.stats import counters  # noqa: F401 - the same

    def of(number: int, _: Send) -> tuple[Counted, Numbers | None, Totals]:
        share = Counting(settings, statistics, interval, number, sessions, options.Verbosity(quiet=True))
        collect_less()
        with Postponed():  # all processes find the same error
            share.count(ParentWatch())
        return share.finish(), share.numbers, share.session.totals

    sessions = session_ports(settings.decoding.ports)  # imports what all processes need
    counted: Counted | None = None

    def work() -> None:
        nonlocal counted
        postponed = Postponed()
        try:
            with postponed:
                share.count()
            results = [*jobs.results()]
        except KeyboardInterrupt:
            share.session.shows_totals = False  # they are of some connections only
            raise
        counted = _merge(share, results)
        postponed.raise_again()

    try:
        with Jobs(settings.jobs, of) as jobs:
            share = Counting(settings, statistics, interval, 0, sessions)
            code = share.session.work(work)
    except Apart as apart:
        if not settings.verbosity.quiet:
            say(f"{apart}; counted again in one process, -d {apart.port}={apart.protocol} is faster")
        return _count(replace(settings, jobs=1), statistics, interval)
    return code, counted if code != INTERRUPTED and (not code or share.session.totals.packets) else None


def _merge(share: Counting, results: Sequence[tuple[Counted, Numbers | None, Totals]]) -> Counted:
    """The results of all processes; the totals go to those of the first one. Raises Apart."""
    from wiredecode.cli.jobs import Apart, in_capture

    counted, totals = share.finish(), share.session.totals
    numbered = [
        (part, numbers) for part, numbers in ((counted, share.numbers), *(each[:2] for each in results)) if numbers
    ]
    every = [numbers for _, numbers in numbered]
    apart = sorted({place for numbers in every for place in numbers.apart})
    if apart:
        raise Apart(*apart[0])
    places = in_capture(every)
    for (part, _), numbers in zip(numbered, places, strict=True):
        part.renumber(numbers)
    for part, _, other in results:
        counted.merge(part)
        totals.add_connections(other)
        totals.copies += other.copies
    return counted


def _timeline(settings: CaptureOptions) -> int:
    """Show what changed when, of the connections of the frames chosen."""
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.judging import show_timeline
    from wiredecode.dissect.dissector import ANALYSED

    changes = Timeline()
    chosen: set[Connection] = set()

    def over(connection: Connection, foreign: str | None) -> None:
        if settings.display is None or connection in chosen:
            changes.end(connection, foreign)

    session = settings.session(ANALYSED, on_decoded=over)

    def work() -> None:
        try:
            for frame in session.frames():
                chosen.add(frame.connection)
                changes.frame(frame)
        finally:
            show_timeline(session, changes, json=settings.form.json)

    return session.work(work)
