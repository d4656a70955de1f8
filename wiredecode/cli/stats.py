"""``wiredecode stats``: counts, latencies and throughput of captures, as tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.stats_output import StatsOptions, parse_tables, show
from wiredecode.dissect.share import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import ConnectionCallback, Demand
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection
    from wiredecode.stats.tables import Statistic
    from wiredecode.stats.tallies import Counted

LINKED = frozenset(("latency", "confirms"))
"""Tables of frames of several connections."""
CONSUMERS = "consumers"
"""The table whose rows need all connections: they name some by their numbers."""


@options.group
class CaptureOptions(options.CaptureReading):
    """Options for counting captures."""

    form: StatsOptions
    hops: bool = Option(False, "--hops", help="Latency: count a request again on each hop between servers.")
    timeline: bool = Option(False, "--timeline", help="In place of tables: what changed when, on one screen.")
    jobs: options.Jobs = None
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
        options.refuse(
            (form.csv or form.table, "--timeline is no table: leave out --table and --csv"),
            ((settings.jobs or 1) > 1, "--timeline is made by one process: leave out --jobs"),
        )
        return _timeline(settings)
    try:
        statistics, length = parse_tables(form)
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    names = {statistic.name for statistic in statistics}
    need_all = f"counts connections apart, and {CONSUMERS} need all: name the tables with --table"
    may_repeat = settings.jobs is None and not names.isdisjoint(LINKED), "may count twice"
    processes = settings.processes(settings.jobs, (CONSUMERS in names, need_all), may_repeat)
    code, counted = _count(settings, processes, statistics, length)
    if counted is not None:
        show([(statistic, counted.table(statistic)) for statistic in statistics], form)
    return code


class Apart(Exception):
    """Connections of :data:`LINKED` tables were counted in several processes: the port does not show it."""

    def __init__(self, protocol: str, port: int) -> None:
        super().__init__(f"connections of {protocol} know of each other, also on port {port}")
        self.protocol, self.port = protocol, port


class Counting:
    """Counts the connections of a share, or all."""

    def __init__(
        self,
        settings: CaptureOptions,
        statistics: Sequence[Statistic],
        interval: int | None,
        share: Share | None = None,
    ) -> None:
        from wiredecode.dissect.dissector import Demand
        from wiredecode.stats.counters import Counters

        whole = settings.display is None and settings.span.is_whole
        counters = self._counters = Counters(statistics, interval, hops=settings.hops, whole=whole)
        self.session = settings.session(counters.demand(Demand(share=share)), counters.end)

    def count(self) -> None:
        """Count all frames. Raises CaptureError."""
        for frame, counts in self.session.chosen_frames():
            self._counters.frame(frame, counts=counts)

    @property
    def counted(self) -> Counted:
        """The results until now."""
        return self._counters.counted

    def finish(self) -> Counted:
        """The results."""
        return self._counters.finish()


def _count(
    settings: CaptureOptions, processes: int, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counted | None]:
    """The exit code, and the results; None: there are none."""
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    if processes > 1:
        return _count_in_processes(settings, processes, statistics, interval)
    counting = Counting(settings, statistics, interval)
    code = counting.session.work(counting.count)
    failed = code == INTERRUPTED or (code and not counting.session.totals.packets)
    return code, None if failed else counting.finish()


def _count_in_processes(
    settings: CaptureOptions, processes: int, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counted | None]:
    """As :func:`_count`, each process its connections."""
    from wiredecode.capture.errors import Postponed
    from wiredecode.cli.output import complain, say
    from wiredecode.cli.sharing import shared
    from wiredecode.protocols.registry import session_ports
    from wiredecode.stats import counters  # noqa: F401 - the same for all processes

    linked = any(statistic.name in LINKED for statistic in statistics)
    together = session_ports(settings.decoding.ports) if linked else {}
    parts: list[Counting] = []
    """That of this process."""

    def opened(share: Share) -> CaptureSession:
        parts.append(Counting(settings, statistics, interval, share))
        return parts[0].session

    def count(session: CaptureSession) -> None:
        assert session.shared is not None
        with Postponed() as postponed:
            parts[0].count()
        every = session.shared.gather((parts[0].finish(), session.dissector.accounts.sessions))
        for other, _ in every[1:]:
            parts[0].counted.merge(other)
        for name, port in sorted(set().union(*(sessions for _, sessions in every))) if linked else ():
            if port not in together:
                raise Apart(name, port)
        postponed.raise_again()

    try:
        code, session = shared(processes, opened, count, 0, together)
    except Apart as apart:
        if not settings.verbosity.quiet:
            say(f"{apart}; counted again in one process, -d {apart.port}={apart.protocol} is faster")
        return _count(settings, 1, statistics, interval)
    except ChildProcessError as error:
        complain(str(error))
        return 2, None
    return code, parts[0].counted if code != INTERRUPTED and (not code or session.totals.packets) else None


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
