"""``wiredecode report``: one page for a ticket or a colleague."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import group, with_groups
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.filter import Filter
    from wiredecode.report.gather import Gathering
    from wiredecode.report.sequence import Sequence

EXAMPLES = """\b
Examples:
  wiredecode report a.pcap -o report.html              one page, for any browser
  wiredecode report a.pcap -o r.html --connection 3    the sequence of connection 3
  wiredecode report a.pcap -o r.html -Y 'ip.addr == 10.0.0.7'
  wiredecode report a.pcap* -o r.html --from 60 --to 90 --title 'Ticket 4711'
"""


@group
class ReportOptions:
    """What the page is made of."""

    files: options.Files
    out: Annotated[Path, typer.Option("-o", "--output", metavar="OUT.html", dir_okay=False, help="Write this file.")]
    connection: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--connection",
            min=1,
            metavar="N",
            help="The connection whose sequence is drawn. [default: that of the worst finding, or the busiest]",
        ),
    ] = None
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None
    decoding: options.Decoding
    span: options.Span
    verbosity: options.Verbosity
    display_filter: options.DisplayFilter = None


@with_groups
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
        return Reporting(settings, source).run()


class Reporting:
    """Both passes over the captures, then the page."""

    def __init__(self, settings: ReportOptions, source: list[str | BinaryIO]) -> None:
        self.settings, self._source = settings, source

    def run(self) -> int:
        from wiredecode.report.gather import Gathering, chosen

        display = options.display_filter(self.settings.display_filter, utc=self.settings.span.utc)
        gathering = Gathering(filtered=display is not None)
        watched = {"analyse": True, "on_end": gathering.end, "on_over": gathering.over}
        session = self._session(display, messages=gathering.messages, **watched)
        code = session.work(lambda: self._gather(session, gathering))
        totals = session.totals
        if code == INTERRUPTED or (code and not totals.packets):
            return code
        number = self.settings.connection
        if number is not None and number not in gathering.connections:
            complain(f"there is no connection #{number}; wiredecode follow FILE lists them")
            return 2
        number = chosen(gathering) if number is None else number
        sequence = None if number is None else self._sequence(number, gathering)
        self._write(gathering, session, number, sequence)
        return code

    def _session(self, display: Filter | None, **wanted: Any) -> Session:
        from wiredecode.cli.session import Session

        for each in self._source:
            if not isinstance(each, str):
                each.seek(0)
        settings = self.settings
        return Session.of(
            *(self._source, settings.decoding, settings.verbosity), span=settings.span, display=display, **wanted
        )

    @staticmethod
    def _gather(session: Session, gathering: Gathering) -> None:
        """Tell all frames."""
        from wiredecode.cli.checking import judged

        display = session.display
        try:
            for frame in judged(session, gathering.checker):
                gathering.frame(frame, counts=display is None or display.matches(frame))
        finally:
            gathering.first_ns = session.first_ns
            gathering.finish()

    def _sequence(self, number: int, gathering: Gathering) -> Sequence:
        """The second pass, over one connection."""
        from wiredecode.capture import CaptureError
        from wiredecode.filter import compile_filter
        from wiredecode.report.sequence import Sequence

        evidence = {
            frame for problem in gathering.problems if number in problem.connections for frame in problem.frames
        }
        sequence, display = Sequence(evidence), compile_filter(f"tcp.stream == {number}")
        session = self._session(display, select=display, alone=True)
        session.quiet = True

        def collect() -> None:
            with suppress(CaptureError):  # told in the first pass
                sequence.add_frames(session.frames())

        session.work(collect)
        return sequence

    def _write(self, gathering: Gathering, session: Session, number: int | None, sequence: Sequence | None) -> None:
        from wiredecode.export.atomic import NewFile
        from wiredecode.extras import version_number
        from wiredecode.report.page import Source, page

        settings = self.settings
        source = Source(settings.files, settings.title, session.totals, version_number())
        text = page(gathering, source, number, sequence)
        with NewFile(settings.out) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
