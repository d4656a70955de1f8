"""Panes of the main screen: list of frames, tree and bytes of the selected one, status lines; background jobs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.screen import Screen

from wiredecode.filter import Filter
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Frame
from wiredecode.settings import Settings
from wiredecode.ui import keys
from wiredecode.ui.detail import BytePane, TreePane
from wiredecode.ui.entry import InputLine
from wiredecode.ui.framelist import FrameList
from wiredecode.ui.jobs import Job
from wiredecode.ui.lines import Lines, TextLine
from wiredecode.ui.live import Live
from wiredecode.ui.model import CaptureModel, Loader
from wiredecode.view.screen import cut, cut_middle
from wiredecode.view.theme import TreeOptions
from wiredecode.view.times import Times

WIDE = 150
"""From this width on tree and bytes are side by side."""
SHORT = 16
"""Below this height there is no line for a filter if there is none."""
UPDATE_SECONDS = 0.1
TAIL_SECONDS = 1.0
"""While the cursor follows a live capture a frame is shown for this long."""


class PanesScreen(Screen[None]):
    """The panes of one capture, and the jobs that work for them."""

    def __init__(self, model: CaptureModel, live: Live | None, settings: Settings) -> None:
        super().__init__()
        self.model, self.live, self.settings = model, live, settings
        self.frames, self.fields, self.octets = FrameList(model, settings), TreePane(), BytePane()
        self.entry = InputLine(settings)
        self.header, self.heading, self.prompt = map(TextLine, ("header", "heading", "asked"))
        self.problem_line, self.status_line = map(TextLine, ("problem", "status"))
        self.frame: Frame | None = None
        """The frame in tree and bytes."""
        self.select: Filter | None = None
        self.filtering: Job | None = None
        self.message = ""
        """The last event, in the status line."""
        self._load_at, self._load_later = 0.0, False
        self._jobs: list[Job] = []

    def compose(self) -> ComposeResult:
        yield self.header
        yield Horizontal(self.prompt, self.entry, id="bar")
        yield self.problem_line
        yield self.heading
        yield self.frames
        yield Container(self.fields, self.octets, id="detail")
        yield self.status_line
        yield TextLine("keys")

    def on_mount(self) -> None:
        self.loader = Loader(self.model, partial(self.call_later, self._show_loaded))
        self.frames.focus()
        self.query_one("#keys", TextLine).show(keys.bottom())
        self.set_interval(UPDATE_SECONDS, self.update)
        self.begin()
        self.update()

    def begin(self) -> None:
        """Called once the panes are mounted. (Textual itself calls the ``on_mount`` of every base class.)"""

    def on_unmount(self) -> None:
        self.loader.close()
        self.frames.close()
        for job in self._jobs:
            job.stop()
        for job in self._jobs:
            job.wait()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "wide")
        self.set_class(event.size.height < SHORT, "short")
        self.call_after_refresh(self.update)

    def update(self) -> None:
        """Show new frames; called ten times a second."""
        self.frames.update()
        self.heading.show(self.frames.header())
        saving = self.live.problem if self.live is not None else None
        self.message = self.message or self.model.problem or saving or self.frames.looks.problem or ""
        if self._load_later:
            self._load_selected()
        self.header.show(self.state())
        self.status_line.show(self.status())

    def state(self) -> str:
        """The line at the top: file, frame, filter, form of times, marks, connection."""
        model, shown = self.model, self.frames
        names, width = [escape(Path(name).name) for name in model.files], self.size.width
        name = cut_middle(names[0] if names else "no file", max(width // 4, SHORT))
        name += f" and {len(names) - 1} more" if len(names) > 1 else ""
        parts = [name if self.live is None else "live capture"]
        parts.append(f"frame {shown.number:,} of {model.rows.count:,}" if shown.count else "no frames")
        if self.select is not None:
            others = f", +{len(shown.outside):,} that do not" if shown.outside else ""
            parts.append(f"{shown.count - len(shown.outside):,} match{others}")
        parts.append(shown.times())
        if shown.held:
            parts.append("held: P continues")
        if shown.marks:
            parts.append(f"{len(shown.marks)} marked")
        if model.secrets:
            parts.append("secrets shown: Z hides")
        parts.append(shown.who())
        return cut(f" {' │ '.join(filter(None, parts))}", width)

    def status(self) -> str:
        """The line below: last event, byte under the cursor, progress of reading and of jobs."""
        model, parts = self.model, [self.message] if self.message else []
        if self.octets.has_focus and self.octets.count:
            parts.append(self.octets.position_text())
        if self.live is not None:
            parts.append(self.live.text())
        elif not model.finished:
            parts.append("following the file" if model.live else f"reading {model.progress:.0%}")
        busy = [job for job in self._jobs if not job.finished and not (job is self.filtering and model.live)]
        return " " + " │ ".join(parts + [f"{job.name} {job.share:.0%}, Esc stops" for job in busy])

    def say(self, text: str) -> None:
        """Report an event in the status line."""
        self.message = escape(text)
        self.update()

    @on(Lines.Moved)
    def _moved(self, event: Lines.Moved) -> None:
        if event.pane is self.frames and self.frames.number:
            self.message = ""
            self._load_selected()
        elif event.pane is self.fields:
            branch = self.fields.branch
            self.octets.mark(None if branch is None else branch.line.span)
        self.update()

    def _load_selected(self) -> None:
        """Load the frame under the cursor; once a second while the cursor follows a live capture."""
        now = monotonic()
        self._load_later = self.frames.tail and self.model.live and now < self._load_at + TAIL_SECONDS
        if not self._load_later:
            self._load_at = now
            self.loader.want(self.frames.number)

    @on(BytePane.Stepped)
    def _stepped(self, event: BytePane.Stepped) -> None:
        if not self.fields.has_focus:
            self.fields.find(event.byte)
        self.update()

    def _show_loaded(self, number: int, loaded: Any) -> None:
        """Show a frame that was read, or why reading failed."""
        if number != self.frames.number:
            return
        if not isinstance(loaded, Frame):
            self.say(f"frame {number} cannot be shown: {loaded or 'it no longer exists'}")
            return
        self.frame = loaded
        try:
            secrets = self.model.secrets
            self.octets.show(self.frame, secrets=secrets)
            form = self.settings.time if self.settings.time in ("absolute", "epoch") else "relative"
            self.fields.show(self.frame, TreeOptions(secrets=secrets, times=Times(form)))
            self.fields.moved()
        except Exception as error:
            self.say(f"frame {number} cannot be shown: {type(error).__name__}: {error}")

    @on(Lines.Chosen)
    def _chosen(self, event: Lines.Chosen) -> None:
        self.action_pane(1)

    def action_pane(self, step: int) -> None:
        panes: list[Lines] = [self.frames, self.fields, self.octets]
        here = next((at for at, pane in enumerate(panes) if pane.has_focus), 0)
        panes[(here + step) % len(panes)].focus()

    # Jobs.

    def action_stop(self) -> None:
        self.say("nothing to stop: q quits")
        for job in self._jobs:
            if not job.finished:
                job.stop()
                self.say(f"{job.name} was stopped")

    def start(self, name: str, work: Callable[[Job], Any], done: Callable[[Any], None] | None = None) -> Job:
        """Run a job in the background; then ``done(result)``, unless it was stopped or failed."""

        def over(job: Job) -> None:
            if job.problem:
                self.say(job.problem)
            elif done is not None and not job.stopped:
                done(job.result)
            self.update()

        job = Job(name, work, partial(self.call_later, over))
        self._jobs = [*(each for each in self._jobs if not each.finished), job]
        return job
