"""``wiredecode flows``: who publishes what, and who gets it."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import FilesOrLive
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain, wants_color
from wiredecode.dataclasses import replace
from wiredecode.net.logical_time import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wiredecode.cli.output import Output
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.share import Reached, Share
    from wiredecode.flows import Flows
    from wiredecode.flows.table import Row
    from wiredecode.frames.message import Messages

MAX_ROWS, MAX_NAMED = 40, 5
"""Most rows on a terminal."""


@options.group
class FlowOptions(FilesOrLive):
    """Captures or an interface, choice of flows, and the form of the output."""

    topic: str | None = Option(None, metavar="NAME", help="Only topics whose name has this text.")
    client: str | None = Option(None, metavar="NAME", help="Only publishers and consumers whose name has this text.")
    by: Literal["topic", "partition", "client", "second"] = Option(
        "topic", help="A row for each topic and consumer; or for each partition, client or second, too."
    )
    display_filter: options.DisplayFilter = None
    two_passes: options.TwoPasses = False
    jobs: options.Jobs = None
    json: bool = Option(False, "--json", help="One JSON object per row (NDJSON).")
    form: Literal["text", "tabs", "json", "ek"] | None = Option(
        None, "-T", help="As tshark: the table, its columns with tabs, a JSON array of rows, one row per line."
    )
    color: options.Color = "auto"

    def check(self) -> None:
        """Refuse options that do not go together."""
        missing, refusal = "which flows? Give capture files, or -i IFACE", "-2, --from and --to go with files"
        self.check_source("shows", missing, self.two_passes, refusal)
        options.refuse((self.json and self.form, f"-T {self.form} and --json exclude each other"))

    @cached_property
    def number_of_processes(self) -> int:
        """Number of processes that decode. Raises UsageError."""
        return self.processes(
            self.jobs, (self.two_passes, "does not go with -2"), (self.live.interface, "goes with files, not -i")
        )

    @property
    def is_records(self) -> bool:
        """Whether JSON is written."""
        return self.json or self.form in ("json", "ek")


def flows(settings: FlowOptions) -> int:
    """See who publishes and who gets messages: confirmed, delivered, again, skipped, late.

    A row is a topic and one of its consumers. "skipped" counts messages that were written while a consumer was away and
    that it never got, "again" those that it got more than once. Times are from publish to delivery, in ms. A capture of
    one side only shows that side. With -i the rows come at the end, after Ctrl-C or --duration.
    """
    from wiredecode.dissect.dissector import Demand
    from wiredecode.flows import Flows
    from wiredecode.frames.message import Messages

    settings.check()
    from wiredecode.cli.live import SniffSession
    from wiredecode.cli.session import CaptureSession, Selection

    counted = Flows(by_second=settings.by == "second", copies=True, shares=settings.number_of_processes > 1)
    messages = Messages()
    display = options.display_filter(settings.display_filter, utc=settings.span.utc)
    demand, selection = counted.demand(Demand(), messages), Selection(span=settings.span, display=display)
    if settings.live.interface is not None:
        with settings.live.capturing(saves=False) as sniffer:
            session = SniffSession.of(settings, sniffer, selection, demand)
            code = session.work(lambda: _count(session, counted, messages))
            return _report(code, settings, session, counted)
    files, two_passes = settings.files or [], settings.two_passes

    def opened(share: Share | None) -> CaptureSession:
        part = replace(demand, share=share)
        return CaptureSession.of(settings, files, selection, part, two_passes=two_passes, to_stdout=False)

    processes = settings.number_of_processes
    if processes > 1:
        from wiredecode.cli.sharing import shared

        try:
            code, first = shared(processes, opened, lambda session: _count(session, counted, messages))
        except ChildProcessError as error:
            complain(str(error))
            return 2
    else:
        first = opened(None)
        code = first.work(lambda: _count(first, counted, messages))
    return _report(code, settings, first, counted)


def _count(session: CaptureSession, counted: Flows, messages: Messages) -> None:
    """One pass."""

    def reached(step: Reached) -> None:
        assert session.shared is not None
        counted.share(session.shared.gather, last=step.number == END)

    for frame, counts in session.chosen_frames(on_reached=reached):
        parts = messages.of(frame)
        if counts:
            counted.frame(frame, parts)


def _report(code: int, settings: FlowOptions, session: CaptureSession, counted: Flows) -> int:
    """The rows; return the exit code."""
    from wiredecode.flows.table import rows

    if code == INTERRUPTED or (code and not session.totals.packets):
        return code
    made = rows(counted, settings.by)
    chosen = [row for row in made if _is_chosen(row, settings)]
    if chosen or settings.is_records:
        _show(chosen, settings, session.output, session.first_ns)
    else:
        complain(_why_none(made, settings))
    _remark(counted, chosen)
    return code


def _is_chosen(row: Row, settings: FlowOptions) -> bool:
    client = settings.client
    named = client is None or any(client in name for name in (*row.publishers, row.consumer))
    return named and (settings.topic is None or settings.topic in row.topic)


def _why_none(rows: Sequence[Row], settings: FlowOptions) -> str:
    """Why there is no row that is chosen; the names that there are."""
    if not rows:
        return "no flows: no known protocol carried messages"
    if settings.topic is not None and not any(settings.topic in row.topic for row in rows):
        topics = [*dict.fromkeys(row.topic for row in rows)]
        more = f" and {len(topics) - MAX_NAMED:,} more" if len(topics) > MAX_NAMED else ""
        return f"no topic has {settings.topic!r} in its name; there is {', '.join(topics[:MAX_NAMED])}{more}"
    return f"no flow is of a client with {settings.client!r} in its name"


def _show(rows: Sequence[Row], settings: FlowOptions, output: Output, first_ns: int) -> None:
    if settings.is_records:
        _show_records(rows, output, array=settings.form == "json")
    elif settings.form == "tabs":
        from wiredecode.view.flows import columns_of

        columns = columns_of(rows, first_ns, settings.by)
        for line in ([*columns], *zip(*columns.values(), strict=True)):
            output.text("\t".join(line) + "\n")
    else:
        _show_table(rows, settings, output, first_ns)
    output.flush()


def _show_records(rows: Sequence[Row], output: Output, *, array: bool) -> None:
    from wiredecode.frames.record import JsonArray, dumps

    records = (dumps(row.record()) for row in rows)
    if not array:
        for record in records:
            output.write(record)
        return
    with closing(JsonArray(output.write)) as elements:
        for record in records:
            elements.add(record)


def _show_table(rows: Sequence[Row], settings: FlowOptions, output: Output, first_ns: int) -> None:
    from wiredecode.view import theme
    from wiredecode.view.console import tree_console
    from wiredecode.view.flows import DROPPED, columns_of, grid
    from wiredecode.view.grid import fitting, plain, remarks

    terminal, color = sys.stdout.isatty(), wants_color(settings.color, sys.stdout)
    shown = rows[: MAX_ROWS if terminal else None]
    columns = columns_of(shown, first_ns, settings.by, terminal=terminal)
    console = tree_console(output, color=color, terminal=terminal)
    equal = {name: texts[0] for name, texts in columns.items() if len(texts) > 1 and len(set(texts)) == 1}
    names = fitting([*columns], [*equal, *DROPPED.split()] if terminal else (), partial(grid, columns), console)
    left_out = [name for name in columns if name not in names]
    if terminal or color:
        console.print(grid(columns, names, theme.HEAD))
        same = {name: text for name, text in equal.items() if name in left_out}
        for line in remarks([name for name in left_out if name not in same], same, ": --json"):
            console.print(line)
    else:
        output.text("".join(f"{line}\n" for line in plain(grid(columns, names))))
    if len(shown) < len(rows):
        complain(f"the first {MAX_ROWS} of {len(rows):,} rows; a pipe and --json get all")


def _remark(counted: Flows, rows: Sequence[Row]) -> None:
    """Remarks beside the table."""
    from wiredecode.flows import MAX_FLOWS

    if counted.omitted:
        complain(f"more than {MAX_FLOWS:,} flows: further topics are counted as (others), or not at all")
    if rows and not any(row.publishers for row in rows):
        complain("no publisher was captured: what was published is not known")
