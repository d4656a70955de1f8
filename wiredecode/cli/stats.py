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
    from collections.abc import Sequence

    from wiredecode.cli.session import Session
    from wiredecode.dissect.dissector import ConnectionCallback, Demand
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection
    from wiredecode.stats.counters import Counters
    from wiredecode.stats.tables import Statistic


@options.group
class CaptureOptions(options.Captures):
    """Options for counting captures."""

    form: StatsOptions
    hops: bool = Option(False, "--hops", help="Latency: count a request again on each hop between servers.")
    timeline: bool = Option(False, "--timeline", help="In place of tables: what changed when, on one screen.")
    display_filter: options.DisplayFilter = None
    two_passes: options.TwoPasses = False

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, utc=self.span.utc)

    def session(self, demand: Demand, on_decoded: ConnectionCallback | None) -> Session:
        """One pass over the captures."""
        from wiredecode.cli.session import Selection, Session

        selection = Selection(span=self.span, display=self.display)
        two_passes = self.two_passes
        return Session.of(
            *(self, self.files, selection, demand), two_passes=two_passes, on_decoded=on_decoded, to_stdout=False
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
    code, counters = _count(settings, statistics, length)
    if counters is not None:
        show([(statistic, counters.table(statistic)) for statistic in statistics], form)
    return code


def _count(
    settings: CaptureOptions, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counters | None]:
    """The exit code, and the counters; None: nothing could be counted."""
    from wiredecode.dissect.dissector import FRAMES_ONLY
    from wiredecode.stats.counters import Counters
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    display = settings.display
    counters = Counters(statistics, interval, hops=settings.hops, whole=display is None and settings.span.is_whole)
    end = None if counters.connections is None else counters.connections.end
    demand = replace(FRAMES_ONLY, analyse=end is not None, messages=counters.messages, copies=counters.link)
    session = settings.session(demand, on_decoded=end)

    def work() -> None:
        for frame in session.all_frames():
            counts = session.within(frame.time_ns) and (display is None or display.matches(frame))
            counters.frame(frame, counts=counts)

    code = session.work(work)
    failed = code == INTERRUPTED or (code and not session.totals.packets)
    return code, None if failed else counters


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
