"""The main screen: the list of frames, the tree and the bytes of one of them, and what keys do there."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.theme import Theme

from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Frame
from wiredecode.settings import Settings, SettingsError, load, write
from wiredecode.ui import filterline, keys, reports, save_actions
from wiredecode.ui.detail import BytePane, TreePane
from wiredecode.ui.filterline import Entry
from wiredecode.ui.framelist import FrameList
from wiredecode.ui.jobs import Job
from wiredecode.ui.lines import Lines, TextLine
from wiredecode.ui.model import CaptureModel, Loader
from wiredecode.ui.navigation import SEEKING, Navigation
from wiredecode.ui.reports import MAKERS, OF_FRAME
from wiredecode.ui.screens import ColumnsScreen, HelpScreen, ReportScreen
from wiredecode.view.theme import TreeOptions
from wiredecode.view.times import Times

if TYPE_CHECKING:
    from wiredecode.ui.live import Live

WIDE = 150
"""From this width on tree and bytes stand side by side."""
UPDATE_SECONDS = 0.1
NOTHING_SET = Settings()
CONTRAST = Theme("high-contrast", "#ffff00", foreground="#ffffff", background="#000000", surface="#000000", dark=True)
ANSI = "ansi-dark"
THEMES = ("textual-dark", "textual-light", CONTRAST.name, ANSI, "ansi-light")
TAIL_SECONDS = 1.0
"""While the cursor follows a live capture a frame is shown for so long."""


class Loaded(Message):
    """A frame was read, or reading it failed."""

    def __init__(self, number: int, found: Any) -> None:
        super().__init__()
        self.number, self.found = number, found


class Done(Message):
    """A job is over."""

    def __init__(self, job: Job, screen: ReportScreen | None = None) -> None:
        super().__init__()
        self.job, self.screen = job, screen


class MainScreen(Navigation, Screen[None]):
    """Everything of one capture."""

    DEFAULT_CSS = """
    MainScreen #heading { text-style: bold; }
    MainScreen #frames { height: 1fr; }
    MainScreen #detail { height: 1fr; layout: vertical; border-top: solid $primary; }
    MainScreen #tree { height: 3fr; }
    MainScreen #bytes { height: 2fr; border-top: solid $primary; }
    MainScreen.wide #detail { layout: horizontal; }
    MainScreen.wide #tree { width: 1fr; height: 100%; }
    MainScreen.wide #bytes { width: 80; height: 100%; border-top: none; border-left: solid $primary; }
    MainScreen #entry { height: 1; display: none; }
    MainScreen #problem { display: none; }
    MainScreen #status { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings()]

    def __init__(
        self,
        model: CaptureModel,
        select: Filter | None = None,
        live: Live | None = None,
        settings: Settings = NOTHING_SET,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.model, self.live = model, live
        self.frames, self.fields, self.octets = FrameList(model, settings), TreePane(), BytePane()
        self.heading, self.problem_line, self.status_line = map(TextLine, ("heading", "problem", "status"))
        self.frame: Frame | None = None
        """The frame that tree and bytes show."""
        self.select = select
        self.filtering: Job | None = None
        self.entry = Entry(settings)
        self.message = ""
        """What happened last, in the status line."""
        self.words: dict[str, str] = {}
        """What was searched for last, by kind."""
        self._sought = filterline.WORD
        self._behind: list[int] = []
        self._asked_secrets = False
        self._wanted_at, self._late = 0.0, False
        self.reports: dict[str, list[reports.ReportLine]] = {}
        """Those that were made of the whole capture."""
        self.visited: dict[str, int] = {}
        self._jobs: list[Job] = []

    def compose(self) -> ComposeResult:
        yield self.heading
        yield self.frames
        yield Container(self.fields, self.octets, id="detail")
        yield self.entry
        yield self.problem_line
        yield self.status_line
        yield TextLine("keys")

    def on_mount(self) -> None:
        self.loader = Loader(self.model, lambda number, found: self.post_message(Loaded(number, found)))
        self.frames.focus()
        self.query_one("#keys", TextLine).show(keys.bottom())
        self.set_interval(UPDATE_SECONDS, self.update)
        if self.select is not None:
            self.filter_by(self.select)
        self.update()

    def on_unmount(self) -> None:
        self.loader.close()
        self.frames.close()
        for job in self._jobs:
            job.stop()
        for job in self._jobs:
            job.wait()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "wide")
        self.call_after_refresh(self._heading)

    def _heading(self) -> None:
        self.heading.show(self.frames.header())

    # What is shown.

    def update(self) -> None:
        """Look for what is new: called often."""
        self.frames.update()
        self._heading()
        saving = self.live.problem if self.live is not None else None
        problem = self.model.problem or saving or self.frames.looks.problem
        if problem and not self.message:
            self.message = problem
        if self._late:
            self._want()
        self.status_line.show(self.status())

    def status(self) -> str:
        """Place, counts, filter, progress, and what happened last."""
        model, shown = self.model, self.frames
        parts = [f"frame {shown.number:,} of {model.rows.count:,}" if shown.count else "no frames"]
        if self.octets.has_focus and self.octets.count:
            parts.append(self.octets.place())
        if self.live is not None:
            parts.append(self.live.text())
        elif not model.finished:
            parts.append("following the file" if model.live else f"reading {model.progress:.0%}")
        if shown.held:
            parts.append("held: P goes on")
        if self.select is not None:
            busy = self.filtering is not None and not self.filtering.finished and not model.live
            going = f", {self.filtering.share:.0%}" if self.filtering is not None and busy else ""
            parts.append(f"{shown.count:,} fit{going}")
        if shown.marks:
            parts.append(f"{len(shown.marks)} marked")
        parts += [f"{job.name} {job.share:.0%}" for job in self._jobs if not job.finished and job is not self.filtering]
        parts += [self.message] if self.message else [f"filter {self.select.text}"] if self.select is not None else []
        return " " + " │ ".join(parts)

    def say(self, text: str) -> None:
        """Tell what happened, in the status line."""
        self.message = escape(text)
        self.update()

    @on(Lines.Moved)
    def _moved(self, event: Lines.Moved) -> None:
        if event.pane is self.frames and self.frames.number:
            self.message = ""
            self._want()
        elif event.pane is self.fields:
            branch = self.fields.branch
            self.octets.mark(None if branch is None else branch.span)
        self.status_line.show(self.status())

    def _want(self) -> None:
        """Load the frame under the cursor; where the cursor follows a live capture not every one."""
        now = monotonic()
        self._late = self.frames.tail and self.model.live and now < self._wanted_at + TAIL_SECONDS
        if not self._late:
            self._wanted_at = now
            self.loader.want(self.frames.number)

    @on(BytePane.Stepped)
    def _stepped(self, event: BytePane.Stepped) -> None:
        if not self.fields.has_focus:
            self.fields.find(event.byte)
        self.status_line.show(self.status())

    @on(Loaded)
    def _loaded(self, event: Loaded) -> None:
        if event.number != self.frames.number:
            return
        if not isinstance(event.found, Frame):
            self.say(f"frame {event.number} cannot be shown: {event.found or 'it is not there any more'}")
            return
        self.frame = event.found
        try:
            secrets = self.model.secrets
            self.octets.show(self.frame, secrets=secrets)
            form = self.settings.time if self.settings.time in ("absolute", "epoch") else "relative"
            self.fields.show(self.frame, self.model.first_ns, TreeOptions(secrets=secrets, times=Times(form)))
            self.fields.moved()
        except Exception as error:
            self.say(f"frame {event.number} cannot be shown: {type(error).__name__}: {error}")

    @on(Lines.Chosen)
    def _chosen(self, event: Lines.Chosen) -> None:
        self.action_pane(1)

    # What is typed.

    def action_ask(self, kind: str) -> None:
        self.problem_line.display = False
        text = self.select.text if kind == filterline.FILTER and self.select is not None else ""
        self.entry.ask(kind, text or self.words.get(kind, ""))
        self.say(filterline.PROMPTS[kind])

    @on(Entry.Judged)
    def _judged(self, event: Entry.Judged) -> None:
        line = self.problem_line
        line.display = bool(event.text) and bool(self.entry.display)
        carets = " " * event.at + "^" * max(1, event.length)
        line.show(Text(f"{carets} {event.text}" if len(carets) < 40 else f"at {event.at + 1}: {event.text}", "red"))

    @on(Entry.Left)
    def _left(self) -> None:
        self.entry.display = False
        self.problem_line.display = False
        self.message = ""
        self.frames.focus()

    @on(Entry.Entered)
    def _entered(self, event: Entry.Entered) -> None:
        self._left()
        match event.kind:
            case filterline.FILTER:
                self.filter_as_typed(event.text)
            case filterline.NUMBER:
                self.go_to_place(event.text)
            case filterline.WORD | filterline.BYTES:
                self.search(event.text, in_bytes=event.kind == filterline.BYTES)
            case filterline.FILE if event.text:
                self.save(event.text)

    # Filters.

    def filter_as_typed(self, text: str) -> None:
        """Names of saved filters are filled in; ``@name = filter`` saves one, without a filter it takes it away."""
        saved = filterline.SAVED.match(text)
        if saved is not None:
            text = text[saved.end() :]
            if self.keep(f"filters.{saved[1]}", text or None):
                self.say(f"@{saved[1]} is {'saved' if text else 'gone'}")
        message = self.message
        if text:
            self.filter_by(compile_filter(self.settings.expanded(text)))
        elif saved is None:
            self.no_filter()
        self.message = message

    def keep(self, name: str, value: str | list[str] | None) -> bool:
        """Write a setting, and use it from now on; False: it could not be, which is said."""
        try:
            write(name, value)
            self.settings = self.entry.completion.settings = load()
            if name.partition(".")[0] == "filters" or name == "ui.columns":
                self.frames.use(self.settings)
                self._heading()
        except SettingsError as error:
            self.say(str(error))
            return False
        return True

    def filter_by(self, select: Filter) -> None:
        """Show the frames that fit, as they are found."""
        self.no_filter()
        self.select = select
        numbers: array[int] = array("Q")

        def work(job: Job) -> None:
            for number in self.model.fitting(select, job):
                numbers.append(number)

        self.frames.show(numbers)
        self.filtering = self.start("filtering", work)

    def no_filter(self) -> None:
        """Show all frames."""
        if self.filtering is not None:
            self.filtering.stop()
        self.filtering = self.select = None
        if self.frames.numbers is not None:
            self.frames.show(None)

    def action_take_field(self, how: str = "") -> None:
        made = save_actions.field_filter(self.frame, self.fields) if self.frame is not None else None
        if made is None:
            self.say("no filter has this line: Tab goes to the tree, to a field with a value")
            return
        if how == "not":
            made = f"!({made})"
        if how == "and" and self.select is not None:
            made = f"({self.select.text}) && {made}"
        self.entry.history.append(made)
        self.filter_by(compile_filter(made))

    def action_stop(self) -> None:
        self.say("nothing to stop: q quits")
        for job in self._jobs:
            if not job.finished:
                job.stop()
                self.say(f"{job.name} was stopped")

    def start(self, name: str, work: Callable[[Job], Any]) -> Job:
        """Work behind the screen."""
        job = Job(name, work, lambda job: self.post_message(Done(job)))
        self._jobs = [*(each for each in self._jobs if not each.finished), job]
        return job

    @on(Done)
    def _done(self, event: Done) -> None:
        if event.screen is not None:
            event.screen.made(event.job)
        elif event.job.problem:
            self.say(event.job.problem)
        elif event.job.name == SEEKING and not event.job.stopped:
            self.sought(event.job.result)
        elif event.job.name == save_actions.SAVING and not event.job.stopped:
            self.say(event.job.result)
        self.update()

    # Screens.

    def action_report(self, kind: str) -> None:
        """Show a further screen; it gives back the frame that it leads to."""
        of_frame = kind in OF_FRAME
        if of_frame and not self.frames.count:
            self.say("no frame to begin with")
            return
        screen = ReportScreen(MAKERS[kind][0], 0 if of_frame else self.visited.get(kind, 0))
        if kind in self.reports:
            screen.lines.fill(self.reports[kind])
        else:
            self._make_report(kind, screen)

        def back(frame: int | None) -> None:
            self.visited[kind] = screen.lines.cursor
            if frame:
                self.go_to(frame)

        self.app.push_screen(screen, back)

    def _make_report(self, kind: str, screen: ReportScreen) -> None:
        """Make the lines of a screen, behind it; those of the whole capture are kept."""
        title, make = MAKERS[kind]
        number, width = self.frames.number, self.size.width
        keep = self.model.finished and kind not in OF_FRAME

        def done(job: Job) -> None:
            if keep and job.result is not None and not job.stopped:
                self.reports[kind] = job.result
            self.post_message(Done(job, screen))

        screen.job = Job(title.lower(), lambda job: make(self.model, job, number, width), done)
        self._jobs.append(screen.job)

    def action_columns(self) -> None:
        """Choose the columns of the list."""

        def chosen(names: list[str] | None) -> None:
            if names is not None and self.keep("ui.columns", names or None):
                self.say(f"columns: {', '.join(names) or 'what fits the width'}")

        self.app.push_screen(ColumnsScreen(self.frames.columns), chosen)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    # Take away.

    def action_copy(self, what: str) -> None:
        text, shown = save_actions.copied(what, self.frame, self.fields, self.model.files, self.select)
        if text is None:
            self.say(shown)
            return
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {shown}")

    def save(self, name: str) -> None:
        """Save what is shown."""
        if name.endswith(".svg"):
            self.say(save_actions.save_screen(self.app, name))
            return
        numbers: Iterable[int] | None = None if self.frames.numbers is None else array("Q", self.frames.numbers)
        self.start(save_actions.SAVING, lambda job: save_actions.save(self.model, name, numbers, job))

    # The rest.

    def action_hold(self) -> None:
        """Frames that come are not shown until the same key says so."""
        if not self.model.source.grows:
            self.say("nothing comes in: this is no live capture")
            return
        self.frames.held = not self.frames.held
        if not self.frames.held:
            self.frames.update()
            self.frames.action_edge(1)
        self.update()

    def action_theme(self) -> None:
        theme = self.app.theme = THEMES[(THEMES.index(self.app.theme) + 1) % len(THEMES)]
        if self.keep("ui.theme", theme):
            self.say(f"colours: {theme}")

    def action_secrets(self) -> None:
        """Twice, so that nobody shows them by mistake."""
        if not self.model.secrets and not self._asked_secrets:
            self._asked_secrets = True
            self.say("Z again shows passwords and tokens")
            return
        self._asked_secrets = False
        self.model.secrets = not self.model.secrets
        self.model.forget()
        self.loader.want(self.frames.number)
        self.say("secrets are shown" if self.model.secrets else "secrets are hidden")

    def action_quit(self) -> None:
        self.app.exit(0)
