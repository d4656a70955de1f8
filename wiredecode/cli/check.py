"""``wiredecode check``: the problems of captures, or of an interface while it is captured."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import OptionalLive, capturing
from wiredecode.cli.output import complain, say, wants_color
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.check import Problem
    from wiredecode.check.live import Event
    from wiredecode.check.text import Layout
    from wiredecode.check.timeline import Timeline
    from wiredecode.check.verdict import Verdict
    from wiredecode.cli.live import SniffSession
    from wiredecode.cli.options import Reading
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection
    from wiredecode.view.times import Times


Severity = Literal["error", "warning", "note"]
MIN_WIDTH, MAX_WIDTH = 60, 160
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
    from wiredecode.check.timeline import Timeline

    live, span = captures.live, captures.span
    asked = CheckOptions(severity=severity, fail_on=fail_on, json=json, color=color)
    if live.interface is not None:
        alone = connection or display_filter or write or two_passes or timeline or not span.is_whole
        options.refuse(
            (captures.files, "-i checks an interface: leave out files"),
            (alone, "-n, -Y, -w, -2, --timeline, --from and --to go with files"),
        )
        clock = options.times(time or (None if json else "absolute"), utc=span.utc, records=json)
        return watch(captures, live, asked, clock)
    files = captures.files or []
    options.refuse(
        (not files, "nothing to check: give capture files, or -i IFACE"),
        (live.capture_filter or live.duration is not None or live.via is not None, "-f, --duration and --via need -i"),
    )
    if write is not None:
        options.check_writing(files, write)
    layout = _layout(files, options.times(time, utc=span.utc, records=json), color, asked=time is not None or span.utc)
    display = options.display_filter(display_filter, utc=span.utc)
    changes = Timeline() if timeline else None
    judging = FileCheck(captures, asked, layout, connection, display, changes, two_passes=two_passes)
    if code := judging.run():
        return code
    if judging.chosen is not None and not judging.chosen:
        complain("no connection matches: wiredecode follow lists them")
        return 1
    if write is not None and (code := write_evidence(captures, judging.found, write)):
        return code
    return judging.exit_code


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options for files and for an interface alike."""

    severity: str
    fail_on: str | None
    json: bool
    color: str

    def shows(self, severity: str) -> bool:
        """Whether problems of this severity are shown."""
        from wiredecode.check import SEVERITIES

        return SEVERITIES.index(severity) <= SEVERITIES.index(self.severity)

    def exit_code(self, conclusion: Verdict, severities: Iterable[str]) -> int:
        """The exit code for this verdict and problems of these severities."""
        from wiredecode.check import SEVERITIES
        from wiredecode.check.verdict import NOT_JUDGED

        least = SEVERITIES.index(self.fail_on) if self.fail_on in SEVERITIES else -1
        if any(SEVERITIES.index(each) <= least for each in severities):
            return 1
        return 0 if conclusion.judged and (conclusion.whole or self.fail_on != "undecoded") else NOT_JUDGED


class FileCheck:
    """Judges capture files. ``connection`` and ``display`` choose the connections whose problems are shown."""

    def __init__(
        self,
        captures: Checked,
        asked: CheckOptions,
        layout: Layout,
        connection: int | None,
        display: Filter | None,
        timeline: Timeline | None,
        *,
        two_passes: bool,
    ) -> None:
        from wiredecode.check import Checker
        from wiredecode.check.verdict import NOT_JUDGED
        from wiredecode.cli.live import PipeSession, is_pipe
        from wiredecode.cli.session import Selection, Session
        from wiredecode.dissect.dissector import ANALYSED

        self.asked, self.layout, self.verbosity = asked, layout, captures.verbosity
        self.connection, self.display, self.timeline = connection, display, timeline
        self.checker, self.exit_code = Checker(), NOT_JUDGED
        self.found: list[Problem] = []
        self.chosen: set[int] | None = None if connection is None and display is None else set()
        """Numbers of the connections asked for; None: all."""
        files = captures.files or []
        kind = PipeSession if is_pipe(files) else Session
        over, selection = None if timeline is None else timeline.end, Selection(span=captures.span, display=display)
        self.session = kind.of(
            *(captures, files, selection, ANALYSED),
            two_passes=two_passes,
            on_end=self._end,
            on_decoded=over,
            totals=captures.verbosity.verbose,
            to_stdout=False,
        )

    def run(self) -> int:
        """Judge the files, and write the problems and the verdict; nonzero: the files could not be read."""
        code = self.session.work(self._work)
        if self.session.interrupted and not self.verbosity.quiet:
            say("interrupted: only the packets before are judged")
        if self.checker.report.omitted and not self.verbosity.quiet:
            say(f"and {self.checker.report.omitted:,} more problems of the same kinds")
        return code

    def _end(self, one: Connection, other: str | None) -> None:
        if self.chosen is not None and self.display is None and one.number == self.connection:
            self.chosen.add(one.number)
        self.checker.end(one, other)

    def _work(self) -> None:
        from wiredecode.cli.checking import feed_checker

        session, timeline = self.session, self.timeline
        chosen, connection, display = self.chosen, self.connection, self.display
        try:
            for frame in feed_checker(session, self.checker):
                number = frame.connection.number
                if chosen is not None and connection in (None, number) and (display is None or display.matches(frame)):
                    chosen.add(number)
                if timeline is not None and session.within(frame.time_ns):
                    timeline.frame(frame)
        finally:
            if session.totals.packets or sys.exc_info()[0] is None:  # else nothing could be read
                self._conclude()

    def _conclude(self) -> None:
        from wiredecode.check.text import record, report_lines
        from wiredecode.check.verdict import verdict
        from wiredecode.cli.checking import show_timeline
        from wiredecode.frames.record import dumps

        session, asked, chosen = self.session, self.asked, self.chosen
        found = self.found = [each for each in self.checker.finish() if chosen is None or concerns(each, chosen)]
        shown = [each for each in found if asked.shows(each.severity)]
        conclusion = verdict(self.checker.coverage, found, session.totals, notes_shown=asked.severity == "note")
        self.exit_code = asked.exit_code(conclusion, (each.severity for each in found))
        terminal = sys.stdout.isatty()
        if asked.json:
            for problem in shown:
                session.output.write(dumps(record(problem, self.layout.files)))
            session.output.json(conclusion.record(self.checker.coverage, found))
        else:
            for _, text in report_lines(shown, session.first_ns, self.layout):
                session.output.text(f"{text}\n")
            if shown or not conclusion.whole or terminal or self.verbosity.verbose:
                text = textwrap.fill(conclusion.text, self.layout.width, break_on_hyphens=False)
                session.output.text(f"{text if terminal else conclusion.text}\n")
        if self.timeline is not None:
            show_timeline(session, self.timeline, json=asked.json, connections=chosen)


def _layout(files: list[str], times: Times, color: str, *, asked: bool) -> Layout:
    """The layout that fits the terminal, or a pipe; a terminal shows the clock unless other times were asked for."""
    from wiredecode.check.text import WIDTH, Layout
    from wiredecode.view.times import Times

    terminal = sys.stdout.isatty()
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, MIN_WIDTH), MAX_WIDTH) if terminal else WIDTH
    clock = None if times.is_usual else times.text
    if terminal and not asked:
        times = Times("absolute")
        clock = lambda time_ns, first_ns: times.text(time_ns, first_ns)[TIME_OF_DAY]  # noqa: E731
    return Layout(width, wants_color(color, sys.stdout), clock, files)


def concerns(problem: Problem, connections: set[int]) -> bool:
    """Whether a problem or one of its effects is of one of these connections; those of the whole capture are of all."""
    members = set[int]().union(problem.members, *(each.members for each in problem.effects))
    return not members or not members.isdisjoint(connections)


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


def watch(settings: Reading, live: OptionalLive, asked: CheckOptions, times: Times) -> int:
    """Report problems until Ctrl-C or the end of the duration; the exit code of ``check``."""
    from wiredecode.check import Checker
    from wiredecode.check.live import Watch
    from wiredecode.check.verdict import NOT_JUDGED, verdict
    from wiredecode.cli.checking import feed_checker
    from wiredecode.cli.live import PATIENCE_NS, SniffSession
    from wiredecode.dissect.dissector import ANALYSED

    checker = Checker()
    watching, severities, exit_code = Watch(checker), set[str](), NOT_JUDGED

    def show(session: SniffSession, events: list[Event]) -> None:
        for event in events:
            severities.add(event.problem.severity)
            if asked.shows(event.problem.severity):
                session.output.text(line(event, session.first_ns, times, asked))
        session.output.flush()

    with capturing(live.wanted, live.via, live.duration, saves=False) as sniffer:
        demand = replace(ANALYSED, wait_ns=PATIENCE_NS)
        session = SniffSession.of(settings, sniffer, demand=demand, on_end=checker.end)

        def look(_: PacketBatch) -> None:
            show(session, watching.look(time.time_ns()))

        def work() -> None:
            nonlocal exit_code
            for _ in feed_checker(session, checker, look):
                pass
            show(session, watching.finish())
            notes_shown = asked.severity == "note"
            conclusion = verdict(checker.coverage, watching.problems, session.totals, notes_shown=notes_shown)
            exit_code = asked.exit_code(conclusion, severities)
            if asked.json:
                session.output.json(conclusion.record(checker.coverage, watching.problems))
            else:
                session.output.text(f"{conclusion.text}\n")

        if code := session.work(work):
            return code
    return exit_code


def line(event: Event, first_ns: int, times: Times, asked: CheckOptions) -> str:
    """An event as a line, or as a JSON object."""
    from wiredecode.check.text import COLORS, record
    from wiredecode.frames.record import dumps

    problem = event.problem
    if asked.json:
        return dumps({"event": event.what, **record(problem)}).decode()
    ns = problem.first_ns if event.what == "began" else problem.last_ns
    code = f"{problem.severity}[{problem.name}]"
    if wants_color(asked.color, sys.stdout):
        code = f"\x1b[{COLORS[problem.severity]}m{code}\x1b[0m"
    where = f"  frame {problem.frames[0]}" if problem.frames else ""
    when = "" if ns is None else times.text(ns, first_ns)
    return f"{when}  {event.what}  {code}  {escape(problem.what)}{where}\n"
