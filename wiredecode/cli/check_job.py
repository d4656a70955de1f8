"""The work of ``wiredecode check``: judges captures or an interface, and writes problems and the verdict."""

import shutil
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.check import Checker, Problem
from wiredecode.check.live import ProblemChange, Watch
from wiredecode.check.text import COLORS, WIDTH, Layout, fact_record, record, report_lines
from wiredecode.check.timeline import Timeline
from wiredecode.check.verdict import NOT_JUDGED, concerns, verdict
from wiredecode.cli import options
from wiredecode.cli.check_options import CheckOptions
from wiredecode.cli.judging import feed_checker, show_timeline
from wiredecode.cli.live import PATIENCE_NS, PipeSession, SniffSession, is_pipe
from wiredecode.cli.options import CaptureReading
from wiredecode.cli.output import say, wants_color
from wiredecode.cli.session import CaptureSession, Selection
from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import DEFAULT
from wiredecode.export.atomic import NewFile
from wiredecode.export.packets import ChosenPackets, PacketFile
from wiredecode.frames.escape import escape
from wiredecode.frames.record import dumps
from wiredecode.net.types import Connection
from wiredecode.view.times import Times

MIN_WIDTH, MAX_WIDTH = 60, 160
"""Columns of the report on a terminal."""
TIME_OF_DAY = slice(11, 23)
"""Its place in a local time, with milliseconds."""


class FileCheck:
    """Judges capture files."""

    def __init__(self, settings: CheckOptions) -> None:
        self.settings, self.layout, self.verbosity = settings, make_layout(settings), settings.verbosity
        display = self.display = options.display_filter(settings.display_filter, utc=settings.span.utc)
        self.timeline = Timeline() if settings.timeline else None
        self.checker, self.exit_code = Checker(), NOT_JUDGED
        self.problems: list[Problem] = []
        self.chosen: set[int] | None = None if settings.connection is None and display is None else set()
        """Numbers of the connections asked for; None: all."""
        files = settings.files or []
        kind = PipeSession if is_pipe(files) else CaptureSession
        self.session = kind.of(
            settings,
            files,
            Selection(span=settings.span, display=display),
            self.checker.demand(DEFAULT),
            two_passes=settings.two_passes,
            on_end=self._end,
            on_decoded=None if self.timeline is None else self.timeline.end,
            totals=settings.verbosity.verbose,
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

    def _end(self, connection: Connection, foreign: str | None) -> None:
        if self.chosen is not None and self.display is None and connection.number == self.settings.connection:
            self.chosen.add(connection.number)
        self.checker.end(connection, foreign)

    def _work(self) -> None:
        session, timeline = self.session, self.timeline
        chosen, connection, display = self.chosen, self.settings.connection, self.display
        try:
            for frame in feed_checker(session, self.checker):
                number = frame.connection.number
                if chosen is not None and connection in (None, number) and (display is None or display.matches(frame)):
                    chosen.add(number)
                if timeline is not None and session.within(frame.time_ns):
                    timeline.frame(frame)
        finally:
            damaged = isinstance(sys.exc_info()[1], CaptureError)
            if session.totals.packets or sys.exc_info()[0] is None:  # else nothing could be read
                self._conclude(damaged=damaged)

    def _conclude(self, *, damaged: bool) -> None:
        session, settings, chosen = self.session, self.settings, self.chosen
        problems = self.problems = [each for each in self.checker.finish() if chosen is None or concerns(each, chosen)]
        shown = [each for each in problems if settings.shows(each.severity)]
        notes_shown = settings.least == "note"
        conclusion = verdict(self.checker.coverage, problems, session.totals, notes_shown=notes_shown, damaged=damaged)
        self.exit_code = settings.exit_code(conclusion, (each.severity for each in problems))
        terminal = sys.stdout.isatty()
        if settings.json:
            for fact in self.checker.report.facts if settings.facts else ():
                session.output.write(dumps(fact_record(fact)))
            for problem in shown:
                session.output.write(dumps(record(problem, self.layout.files)))
            session.output.json(conclusion.record(self.checker.coverage, problems))
        else:
            for _, text in report_lines(shown, session.first_ns, self.layout):
                session.output.text(f"{text}\n")
            if shown or not conclusion.whole or terminal or self.verbosity.verbose:
                text = textwrap.fill(conclusion.text, self.layout.width, break_on_hyphens=False)
                session.output.text(f"{text if terminal else conclusion.text}\n")
        if self.timeline is not None:
            show_timeline(session, self.timeline, json=settings.json, connections=chosen)


def make_layout(settings: CheckOptions) -> Layout:
    """The layout that fits the terminal, or a pipe; a terminal shows the clock unless other times were asked for."""
    times = options.times(settings.time, utc=settings.span.utc, records=settings.json)
    terminal, usual = sys.stdout.isatty(), settings.time is None and not settings.span.utc
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, MIN_WIDTH), MAX_WIDTH) if terminal else WIDTH
    clock = time_of_day if terminal and usual else None if times.is_usual else times.text
    return Layout(width, wants_color(settings.color, sys.stdout), clock, settings.files or [])


def time_of_day(time_ns: int, first_ns: int) -> str:
    """The local time, without the date, with milliseconds."""
    return Times("absolute").text(time_ns, first_ns)[TIME_OF_DAY]


def write_evidence(captures: CaptureReading, problems: list[Problem], out: Path) -> int:
    """Write the packets of the frames and packets that problems cite; the exit code."""
    cited = [cause for each in problems for cause in (each, *each.effects)]
    frames, also = {n for each in cited for n in each.frames}, {n for each in cited for n in each.packets}
    session, chosen = CaptureSession.of(captures, captures.files), ChosenPackets(whole=False)
    with NewFile(out) as stream:
        packets = PacketFile(stream)
        with suppress(CaptureError):  # the first pass has reported it
            chosen.select(frame for frame in session.all_frames() if frame.number in frames)
        chosen.finish(also)
        packets.copy(captures.files, chosen, session.totals.packets, captures.decoding.limits)
    if not captures.verbosity.quiet:
        say(f"{out}: {packets}")
    return 0


def watch(settings: CheckOptions) -> int:
    """Report problems until Ctrl-C or the end of the duration; the exit code of ``check``."""
    watching, severities, exit_code = Watch(), set[str](), NOT_JUDGED
    checker, form = watching.checker, settings.time or (None if settings.json else "absolute")
    times = options.times(form, utc=settings.span.utc, records=settings.json)

    def show(session: SniffSession, events: list[ProblemChange]) -> None:
        for event in events:
            severities.add(event.problem.severity)
            if settings.shows(event.problem.severity):
                session.output.text(line(event, session.first_ns, times, settings))
        session.output.flush()

    with settings.live.capturing(saves=False) as sniffer:
        demand = replace(checker.demand(DEFAULT), wait_ns=PATIENCE_NS)
        session = SniffSession.of(settings, sniffer, demand=demand, on_end=checker.end)

        def look(_: PacketBatch) -> None:
            show(session, watching.look(time.time_ns()))

        def work() -> None:
            nonlocal exit_code
            for _ in feed_checker(session, checker, look):
                pass
            show(session, watching.finish())
            notes_shown = settings.least == "note"
            conclusion = verdict(checker.coverage, watching.problems, session.totals, notes_shown=notes_shown)
            exit_code = settings.exit_code(conclusion, severities)
            if settings.json:
                session.output.json(conclusion.record(checker.coverage, watching.problems))
            else:
                session.output.text(f"{conclusion.text}\n")

        if code := session.work(work):
            return code
    return exit_code


def line(event: ProblemChange, first_ns: int, times: Times, settings: CheckOptions) -> str:
    """An event as a line, or as a JSON object."""
    problem = event.problem
    if settings.json:
        return dumps({"event": event.change, **record(problem)}).decode()
    ns = problem.first_ns if event.change == "began" else problem.last_ns
    code = f"{problem.severity}[{problem.name}]"
    if wants_color(settings.color, sys.stdout):
        code = f"\x1b[{COLORS[problem.severity]}m{code}\x1b[0m"
    where = f"  frame {problem.frames[0]}" if problem.frames else ""
    when = "" if ns is None else times.text(ns, first_ns)
    return f"{when}  {event.change}  {code}  {escape(problem.title)}{where}\n"
