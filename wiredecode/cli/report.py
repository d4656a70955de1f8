"""``wiredecode report``: one page for a ticket or a colleague."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain
from wiredecode.dataclasses import replace

if TYPE_CHECKING:
    from wiredecode.report.gather import Gathering
    from wiredecode.report.sequence import Sequence


@options.group
class ReportOptions(options.CaptureReading):
    """Options of the page."""

    out: Path = Option(
        ..., "-o", "--output", metavar="OUT.html", dir_okay=False, help="Write this file; - is standard output."
    )
    connection: int | None = Option(
        None,
        "-n",
        "--connection",
        min=1,
        metavar="N",
        help="The connection whose sequence is drawn. [default: that of the worst finding, or the busiest]",
    )
    title: str | None = Option(None, metavar="TEXT", help="Heading of the page.")
    display_filter: options.DisplayFilter = None


def report(settings: ReportOptions) -> int:
    """Make one self-contained HTML page: summary, findings, timeline, plots, a sequence diagram, tables.

    The page loads nothing from elsewhere and runs no scripts; it is for light and dark screens and for paper. Needs
    matplotlib and Jinja (extra report).
    """
    from wiredecode.extras import need

    for module in ("matplotlib", "jinja2"):
        need(module, "a report")
    options.require_folder(settings.out)
    from wiredecode.cli.session import rereadable

    with rereadable(settings.files) as source:
        return _run(settings, source)


def _run(settings: ReportOptions, source: list[str | BinaryIO]) -> int:
    """Read the captures once for everything and once for the sequence, then write the page."""
    from wiredecode.cli.judging import feed_checker
    from wiredecode.cli.session import CaptureSession, Selection
    from wiredecode.dissect.dissector import DEFAULT
    from wiredecode.export.atomic import open_output
    from wiredecode.extras import version_number
    from wiredecode.report.gather import Gathering, most_interesting
    from wiredecode.report.page import ReportSource, page

    display = options.display_filter(settings.display_filter, utc=settings.span.utc)
    gathering = Gathering(filtered=display is not None)
    selection = Selection(span=settings.span, display=display)
    demand = gathering.checker.demand(DEFAULT)
    session = CaptureSession.of(
        settings, source, selection, demand, on_end=gathering.end, on_decoded=gathering.over, to_stdout=False
    )

    def gather() -> None:
        try:
            for frame in feed_checker(session, gathering.checker):
                gathering.frame(frame, counts=display is None or display.matches(frame))
        finally:
            gathering.finish(session.first_ns)

    code = session.work(gather)
    totals, number = session.totals, settings.connection
    if code == INTERRUPTED or (code and not totals.packets):
        return code
    if number is not None and number not in gathering.connections:
        complain(f"there is no connection #{number}; wiredecode follow FILE lists them")
        return 1
    number = most_interesting(gathering) if number is None else number
    sequence = None if number is None else _sequence(settings, source, number, gathering)
    text = page(gathering, ReportSource(settings.files, settings.title, totals, version_number()), number, sequence)
    with open_output(settings.out) as file:
        file.write(text.encode("utf-8", "backslashreplace"))
    return code


def _sequence(settings: ReportOptions, source: list[str | BinaryIO], number: int, gathering: Gathering) -> Sequence:
    """Read the captures again, for one connection."""
    from wiredecode.capture import CaptureError
    from wiredecode.cli.session import CaptureSession, Selection
    from wiredecode.dissect.dissector import FRAMES_ONLY
    from wiredecode.filter import compile_filter
    from wiredecode.report.sequence import Sequence

    evidence = {frame for problem in gathering.problems if number in problem.connections for frame in problem.frames}
    sequence, only = Sequence(evidence), compile_filter(f"tcp.stream == {number}")
    selection = Selection(span=settings.span, display=only)
    demand = replace(FRAMES_ONLY, select=only, skip_hidden=True)
    session = CaptureSession.of(settings, source, selection, demand, totals=False, to_stdout=False)

    def collect() -> None:
        with suppress(CaptureError):  # the first pass reported it
            sequence.add_frames(session.frames())

    session.work(collect)
    return sequence
