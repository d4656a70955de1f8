"""``wiredecode check``: the problems of captures, or of an interface while it is captured."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import OptionalLive, capturing
from wiredecode.cli.output import complain, say, wants_color

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.check import Problem
    from wiredecode.check.live import Event
    from wiredecode.check.text import Layout
    from wiredecode.cli.live import SniffSession
    from wiredecode.cli.options import Reading
    from wiredecode.cli.session import Session
    from wiredecode.net.types import Connection
    from wiredecode.view.times import Times


Severity = Literal["error", "warning", "note"]
LEAST_WIDTH, MOST_WIDTH = 60, 160
"""Columns of the report on a terminal."""
TIME_OF_DAY = slice(11, 23)
"""Its place in a local time, with milliseconds."""


@options.group
class Checked(options.Captures):
    """Captures, or an interface."""

    files: options.OptionalFiles = None  # type: ignore[assignment]  # else an interface
    live: OptionalLive


def check(
    captures: Checked,
    connection: int | None = Option(
        None, "-n", "--connection", min=1, metavar="N", help="Only problems of the connection with this number."
    ),
    display_filter: options.CheckFilter = None,
    severity: Severity = Option("warning", help="The least severity that is shown."),
    fail_on: Literal["error", "warning", "note", "undecoded"] | None = Option(
        None, help="Exit 1 if any problem is at least this severe; undecoded: exit 3 if bytes were not decoded."
    ),
    json: bool = Option(False, "--json", help="One JSON object per problem, then one with the verdict (NDJSON)."),
    write: Path | None = Option(
        None, "-w", "--write", metavar="OUT.pcapng", help="Write the packets of all evidence, too."
    ),
    time: options.Time = None,
    color: options.Color = "auto",
    two_passes: options.TwoPasses = False,
    timeline: bool = Option(
        False, "--timeline", help="After the problems: what changed when; with --json one more object."
    ),
) -> int:
    """Find out what is wrong in captures: one block per cause, with evidence and what to do.

    The last line says what was judged. In a pipe, nothing is printed if nothing is wrong and all was decoded.
    Exit code 3: nothing could be judged. Numbers of frames and packets are those of other commands and of Wireshark.
    With -n and -Y the whole capture is judged, and problems of other connections are left out. With -i problems of an
    interface are printed as they begin and as they end, until Ctrl-C.
    """
    live, least = captures.live, severity
    if live.interface is not None:
        alone = connection or display_filter or write or two_passes or timeline or not captures.span.is_whole
        options.refuse(
            (captures.files, "-i checks an interface: leave out files"),
            (alone, "-n, -Y, -w, -2, --timeline, --from and --to go with files"),
        )
        clock = options.times(time or (None if json else "absolute"), utc=captures.span.utc, records=json)
        return watch(captures, live, least=least, fail_on=fail_on, json=json, times=clock, color=color)
    files, span, verbosity = captures.files or [], captures.span, captures.verbosity
    options.refuse(
        (not files, "nothing to check: give capture files, or -i IFACE"),
        (live.capture_filter or live.duration is not None or live.via is not None, "-f, --duration and --via need -i"),
    )
    from wiredecode.check import SEVERITIES, Checker
    from wiredecode.check.timeline import Timeline
    from wiredecode.check.verdict import NOT_JUDGED, verdict
    from wiredecode.cli.checking import judged, show_timeline
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import Selection, Session
    from wiredecode.dissect.dissector import LEAST

    if write is not None:
        options.check_writing(files, write)
    checker = Checker()
    when = Timeline() if timeline else None
    layout = _layout(files, options.times(time, utc=span.utc, records=json), color, asked=time is not None or span.utc)
    display = options.display_filter(display_filter, utc=span.utc)
    chosen: set[int] | None = None if connection is None and display is None else set()
    """Numbers of the connections asked for; None: all."""

    def end(one: Connection, other: str | None) -> None:
        if chosen is not None and display is None and one.number == connection:
            chosen.add(one.number)
        checker.end(one, other)

    kind, selection = PipeSession if is_pipe(files) else Session, Selection(span=span, display=display)
    over = None if when is None else when.end
    demand = replace(LEAST, analyse=True)
    session = kind.of(captures, files, selection, demand, two_passes=two_passes, on_end=end, on_decoded=over)
    session.shows_totals, session.on_terminal = verbosity.verbose and not verbosity.quiet, False
    found: list[Problem] = []
    final = NOT_JUDGED

    def work() -> None:
        try:
            for frame in judged(session, checker):
                number = frame.connection.number
                if chosen is not None and connection in (None, number) and (display is None or display.matches(frame)):
                    chosen.add(number)
                if when is not None and session.within(frame.time_ns):
                    when.frame(frame)
        finally:
            if session.totals.packets or sys.exc_info()[0] is None:  # else nothing could be read
                conclude()

    def conclude() -> None:
        nonlocal final
        found.extend(each for each in checker.finish() if chosen is None or concerns(each, chosen))
        shown = [each for each in found if SEVERITIES.index(each.severity) <= SEVERITIES.index(least)]
        conclusion = verdict(checker.coverage, found, session.totals, notes_shown=least == "note")
        final = 0 if conclusion.judged and (conclusion.whole or fail_on != "undecoded") else NOT_JUDGED
        show(session, shown, layout, json=json)
        if json:
            session.output.json(conclusion.record(checker.coverage, found))
        elif shown or not conclusion.whole or sys.stdout.isatty() or verbosity.verbose:
            shown_text = textwrap.fill(conclusion.text, layout.width, break_on_hyphens=False)
            session.output.text(f"{shown_text if sys.stdout.isatty() else conclusion.text}\n")
        if when is not None:
            show_timeline(session, when, json=json, connections=chosen)

    code = session.work(work)
    if checker.report.omitted and not verbosity.quiet:
        say(f"and {checker.report.omitted:,} more problems of the same kinds")
    if code:
        return code
    if chosen is not None and not chosen:
        complain("no connection matches: wiredecode follow lists them")
        return 1
    if write is not None and (code := write_evidence(captures, found, write)):
        return code
    worst = min((SEVERITIES.index(each.severity) for each in found), default=len(SEVERITIES))
    return 1 if fail_on in SEVERITIES and worst <= SEVERITIES.index(fail_on) else final


def _layout(files: list[str], times: Times, color: str, *, asked: bool) -> Layout:
    """The layout that fits the terminal, or a pipe; a terminal shows the clock unless other times were asked for."""
    from wiredecode.check.text import WIDTH, Layout
    from wiredecode.view.times import Times

    terminal = sys.stdout.isatty()
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, LEAST_WIDTH), MOST_WIDTH) if terminal else WIDTH
    clock = None if times.is_usual else times.text
    if terminal and not asked:
        times = Times("absolute")
        clock = lambda time_ns, first_ns: times.text(time_ns, first_ns)[TIME_OF_DAY]  # noqa: E731
    return Layout(width, wants_color(color, sys.stdout), clock, files)


def concerns(problem: Problem, connections: set[int]) -> bool:
    """Whether a problem or one of its effects is of one of these connections; those of the whole capture are of all."""
    members = set[int]().union(problem.members, *(each.members for each in problem.effects))
    return not members or not members.isdisjoint(connections)


def show(session: Session, found: list[Problem], layout: Layout, *, json: bool) -> None:
    """Write the problems."""
    from wiredecode.check import text

    if json:
        from wiredecode.frames.record import dumps

        for problem in found:
            session.output.write(dumps(text.record(problem, layout.files)))
        return
    for _, line in text.report_lines(found, session.first_ns, layout):
        session.output.text(f"{line}\n")


def write_evidence(captures: options.Captures, problems: list[Problem], out: Path) -> int:
    """Write the packets of the frames and packets that problems cite; the exit code."""
    from wiredecode.capture import CaptureError
    from wiredecode.cli.session import Session
    from wiredecode.export.atomic import NewFile
    from wiredecode.export.packets import ChosenPackets, PacketFile

    cited = [one for each in problems for one in (each, *each.effects)]
    frames, also = {n for each in cited for n in each.frames}, {n for each in cited for n in each.packets}
    session, chosen = Session.of(captures, captures.files), ChosenPackets(whole=False)
    with NewFile(out) as stream:
        packets = PacketFile(stream)
        with suppress(CaptureError):  # the first pass has reported it
            chosen.select(frame for frame in session.all_frames() if frame.number in frames)
        chosen.finish(also)
        packets.copy(captures.files, chosen, session.totals.packets, captures.decoding.limits)
    if not captures.verbosity.quiet:
        say(f"{out}: {packets}")
    return 0


def watch(
    settings: Reading,
    live: OptionalLive,
    *,
    least: str,
    fail_on: str | None,
    json: bool,
    times: Times,
    color: str,
) -> int:
    """Report problems of at least this severity until Ctrl-C or the end of the duration; the exit code of ``check``."""
    from wiredecode.check import SEVERITIES, Checker
    from wiredecode.check.live import Watch
    from wiredecode.check.verdict import NOT_JUDGED, verdict
    from wiredecode.cli.checking import judged
    from wiredecode.cli.live import PATIENCE_NS, SniffSession
    from wiredecode.dissect.dissector import LEAST

    checker = Checker()
    watching, shown, worst = Watch(checker), SEVERITIES.index(least), len(SEVERITIES)
    seen = 0

    def show(session: SniffSession, events: list[Event]) -> None:
        nonlocal seen, worst
        for event in events:
            severity = SEVERITIES.index(event.problem.severity)
            worst = min(worst, severity)
            if severity <= shown:
                seen += event.what == "began"
                session.output.text(line(event, session.first_ns, times, json=json, color=color))
        session.output.flush()

    with capturing(live.wanted, live.via, live.duration, saves=False) as sniffer:
        demand = replace(LEAST, analyse=True, wait_ns=PATIENCE_NS)
        session = SniffSession.of(settings, sniffer, demand=demand, on_end=checker.end)
        session.on_terminal = True
        final = NOT_JUDGED

        def look(_: PacketBatch) -> None:
            show(session, watching.look(time.time_ns()))

        def work() -> None:
            nonlocal final
            for _ in judged(session, checker, look):
                pass
            show(session, watching.finish())
            conclusion = verdict(checker.coverage, watching.problems, session.totals, notes_shown=least == "note")
            final = 0 if conclusion.judged and (conclusion.whole or fail_on != "undecoded") else NOT_JUDGED
            if json:
                session.output.json(conclusion.record(checker.coverage, watching.problems))
            else:
                session.output.text(f"{conclusion.text}\n")

        if code := session.work(work):
            return code
    return 1 if fail_on in SEVERITIES and worst <= SEVERITIES.index(fail_on) else final


def line(event: Event, first_ns: int, times: Times, *, json: bool, color: str) -> str:
    """An event as a line, or as a JSON object."""
    from wiredecode.check.text import COLORS, record
    from wiredecode.frames.escape import escape
    from wiredecode.frames.record import dumps

    problem = event.problem
    if json:
        return dumps({"event": event.what, **record(problem)}).decode()
    ns = problem.first_ns if event.what == "began" else problem.last_ns
    code = f"{problem.severity}[{problem.name}]"
    if wants_color(color, sys.stdout):
        code = f"\x1b[{COLORS[problem.severity]}m{code}\x1b[0m"
    where = f"  frame {problem.frames[0]}" if problem.frames else ""
    when = "" if ns is None else times.text(ns, first_ns)
    return f"{when}  {event.what}  {code}  {escape(problem.what)}{where}\n"
