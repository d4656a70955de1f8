"""``wiredecode stats``: counts, latencies and throughput of captures, as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.stats_output import StatsOptions, parse_tables, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import ConnectionCallback, Demand
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection
    from wiredecode.stats.tables import Statistic
    from wiredecode.stats.tallies import Counted


@options.group
class CaptureOptions(options.CaptureReading):
    """Options for counting captures."""

    form: StatsOptions
    hops: bool = Option(False, "--hops", help="Latency: count a request again on each hop between servers.")
    timeline: bool = Option(False, "--timeline", help="In place of tables: what changed when, on one screen.")
    display_filter: options.DisplayFilter = None
    two_passes: options.TwoPasses = False

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, utc=self.span.utc)

    def session(self, demand: Demand, on_decoded: ConnectionCallback | None) -> CaptureSession:
        """One pass over the captures."""
        from wiredecode.cli.session import CaptureSession, Selection

        selection = Selection(span=self.span, display=self.display)
        two_passes = self.two_passes
        return CaptureSession.of(
            self, self.files, selection, demand, two_passes=two_passes, on_decoded=on_decoded, to_stdout=False
        )


def stats(settings: CaptureOptions) -> int:
    """Count what is in captures: frames, latency percentiles, publish to confirm, throughput, findings, connections.

    With -Y, --from and --to only the frames and messages chosen count.
    """
    form = settings.form
    if settings.timeline:
        if form.csv or form.table:
            raise options.UsageError("--timeline is no table: leave out --table and --csv")
        return _timeline(settings)
    try:
        statistics, length = parse_tables(form)
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    code, counted = _count(settings, statistics, length)
    if counted is not None:
        show([(statistic, counted.table(statistic)) for statistic in statistics], form)
    return code


def _count(
    settings: CaptureOptions, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counted | None]:
    """The exit code, and the counters; None: nothing could be counted."""
    from wiredecode.dissect.dissector import Demand
    from wiredecode.stats.counters import Counters
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    display = settings.display
    counters = Counters(statistics, interval, hops=settings.hops, whole=display is None and settings.span.is_whole)
    session = settings.session(counters.demand(Demand()), on_decoded=counters.end)

    def work() -> None:
        for frame in session.all_frames():
            counts = session.within(frame.time_ns) and (display is None or display.matches(frame))
            counters.frame(frame, counts=counts)

    code = session.work(work)
    failed = code == INTERRUPTED or (code and not session.totals.packets)
    return code, None if failed else counters.finish()


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
