"""Further screens: lines that lead back to frames, and help."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from wiredecode.frames.escape import escape
from wiredecode.ui import keys
from wiredecode.ui.framelist import COLUMNS, column
from wiredecode.ui.jobs import Job
from wiredecode.ui.lines import Lines, TextLine
from wiredecode.ui.reports import ReportLine
from wiredecode.view import theme

PROGRESS_SECONDS = 0.2
BAR = 32


class Listing(Lines):
    """Lines that were made before."""

    def __init__(self) -> None:
        super().__init__(id="listing")
        self.report: Sequence[ReportLine] = ()

    def fill(self, report: Sequence[ReportLine]) -> None:
        """Show these."""
        self.report = report
        self.widest = max((each.text.cell_len for each in report), default=0)
        self.recount(len(report))

    @property
    def has_scrollbar(self) -> bool:
        """Not where it would cover the end of lines that just fit."""
        return self.widest != self.size.width

    def line(self, at: int) -> Text:
        return self.report[at].text.copy()


class BackScreen(Screen[int]):
    """A screen that q and Esc leave; it gives the frame to go to, or 0."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("screen")]

    def __init__(self) -> None:
        super().__init__()
        self.lines = Listing()
        self.bottom = TextLine("bottom")

    def compose(self) -> ComposeResult:
        yield self.lines
        self.bottom.styles.text_style = "reverse"
        yield self.bottom

    def on_mount(self) -> None:
        self.lines.focus()

    def action_leave(self) -> None:
        self.dismiss(0)


class ReportScreen(BackScreen):
    """Lines of one of :data:`wiredecode.ui.reports.MAKERS`; Enter goes to the frame of a line."""

    def __init__(self, title: str, cursor: int) -> None:
        super().__init__()
        self.heading, self._cursor = title, cursor
        self.job: Job | None = None
        self.progress = TextLine("progress")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self.progress

    def on_mount(self) -> None:
        super().on_mount()  # before the rest, although Textual calls it again
        self.set_interval(PROGRESS_SECONDS, self.show_status)
        if self.lines.report:
            self.call_after_refresh(self._begin)
        self.show_status()

    def _begin(self) -> None:
        """The cursor goes to where it was, or to the first line that leads to a frame."""
        leading = (at for at, each in enumerate(self.lines.report) if each.frames)
        self.lines.move_to(self._cursor or next(leading, 0))

    def show_status(self, text: str = "") -> None:
        """The line at the bottom."""
        job = self.job
        busy = self.progress.display = job is not None and not job.finished
        if job is not None and busy:
            done = round(job.share * BAR)
            self.progress.show(f"{'█' * done}{'─' * (BAR - done)} {job.share:4.0%}")
            text = text or ("so far" if self.lines.report else "reading")
            if job.result is not None and job.result is not self.lines.report:
                self.lines.fill(job.result)
        at = self.lines.cursor
        frames = self.lines.report[at].frames if at < len(self.lines.report) else ()
        leads = f"Enter: frame {frames[0]:,}  " if frames else ""
        line = Text(f" {self.heading} │ {f'{text}  ' if text else leads}")
        self.bottom.show(line.append(keys.link("Esc: back", "leave")))

    def finished(self, job: Job) -> None:
        """The lines are ready, or could not be made; the user may have left."""
        if self not in self.app.screen_stack:
            return
        if job.problem:
            self.job = None
            self.lines.fill([ReportLine(Text(job.problem, theme.SEVERITY["warning"]))])
        elif job.result is not None:
            self.lines.fill(job.result)
            if not self.lines.cursor:
                self.call_after_refresh(self._begin)
        self.show_status()

    @on(Lines.Moved)
    def _moved(self) -> None:
        self.show_status()

    @on(Lines.Chosen)
    def _chosen(self) -> None:
        line = self.lines.report[self.lines.cursor]
        if line.frames:
            self.dismiss(line.frames[0])
        else:
            self.show_status("this line is about no frame")

    def action_leave(self) -> None:
        if self.job is not None:
            self.job.stop()
        self.dismiss(0)


class ColumnsScreen(Screen[list[str]]):
    """The columns of the list: which, and in what order. Gives the names, none for what fits the width."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("columns")]
    HELP = " Columns │ Space: take or leave  < >: order  d: as usual  Enter: done  Esc: back"

    def __init__(self, chosen: Sequence[str]) -> None:
        super().__init__()
        self.chosen = list(chosen)
        self.lines = Listing()

    def compose(self) -> ComposeResult:
        yield self.lines
        yield TextLine("keys")

    def on_mount(self) -> None:
        self.query_one("#keys", TextLine).show(self.HELP)
        self.lines.focus()
        self._fill()

    @property
    def names(self) -> list[str]:
        """All columns, the chosen ones first."""
        return self.chosen + [name for name in COLUMNS if name not in self.chosen]

    def _fill(self, name: str = "") -> None:
        rows = [f"[{'x' if each in self.chosen else ' '}] {each:<32} {column(each).description}" for each in self.names]
        self.lines.fill([ReportLine(Text(escape(row))) for row in rows])
        if name:
            self.lines.move_to(self.names.index(name))

    def action_choose(self) -> None:
        name = self.names[self.lines.cursor]
        self.chosen.remove(name) if name in self.chosen else self.chosen.append(name)
        self._fill(name)

    def action_order(self, step: int) -> None:
        name = self.names[self.lines.cursor]
        if name in self.chosen:
            at = self.chosen.index(name)
            self.chosen.insert(max(0, at + step), self.chosen.pop(at))
            self._fill(name)

    def action_usual(self) -> None:
        self.chosen = []
        self._fill()

    @on(Lines.Chosen)
    def action_take(self) -> None:
        self.dismiss(list(self.chosen))


class HelpScreen(BackScreen):
    """All keys."""

    def on_mount(self) -> None:
        super().on_mount()
        rows = [Text(f"  {shown:<14} {action}") if action else Text(shown, theme.HEAD) for shown, action in keys.text()]
        self.lines.fill([ReportLine(row) for row in rows])
        self.bottom.show(Text(" Help │ ").append(keys.link("Esc: back", "leave")))
