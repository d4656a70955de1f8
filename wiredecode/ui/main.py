"""The main screen: the list of frames, the tree and the bytes of the selected one, and the actions of keys."""

from array import array
from bisect import insort
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.screen import Screen
from textual.theme import Theme

from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.escape import escape
from wiredecode.frames.frame import Frame
from wiredecode.protocols.registry import by_name, summary_keys
from wiredecode.settings import Settings, SettingsError, load, write
from wiredecode.ui import entry, keys, reports, save_actions
from wiredecode.ui.detail import BytePane, TreePane
from wiredecode.ui.entry import Entry, time_of, wanted_bytes
from wiredecode.ui.framelist import FrameList
from wiredecode.ui.jobs import Job
from wiredecode.ui.lines import Lines, TextLine
from wiredecode.ui.live import Live
from wiredecode.ui.model import CaptureModel, Loader
from wiredecode.ui.reports import MAKERS, OF_FRAME
from wiredecode.ui.screens import ColumnsScreen, HelpScreen, ReportScreen
from wiredecode.ui.store import Test
from wiredecode.view.screen import cut, cut_middle
from wiredecode.view.theme import TreeOptions
from wiredecode.view.times import Times

WIDE = 150
"""From this width on tree and bytes are side by side."""
SHORT = 16
"""Below this height there is no line for a filter if there is none."""
UPDATE_SECONDS = 0.1
NOTHING_SET = Settings()
CONTRAST = Theme("high-contrast", "#ffff00", foreground="#ffffff", background="#000000", surface="#000000", dark=True)
ANSI = "ansi-dark"
THEMES = ("textual-dark", "textual-light", CONTRAST.name, ANSI, "ansi-light")
TAIL_SECONDS = 1.0
"""While the cursor follows a live capture a frame is shown for this long."""
MOST_BACK, MOST_FILTERED, RECENT = 100, 8, 5
"""Jumps that can be gone back, filters whose frames are remembered, filters that are offered."""


class MainScreen(Screen[None]):
    """Everything of one capture."""

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
        self.header, self.heading, self.asked = map(TextLine, ("header", "heading", "asked"))
        self.problem_line, self.status_line = map(TextLine, ("problem", "status"))
        self.frame: Frame | None = None
        """The frame that tree and bytes show."""
        self.select = select
        self.filtering: Job | None = None
        self._filtered: dict[str, Job] = {}
        """The last filters, so that none is repeated."""
        self._recent: list[str] = []
        self.entry = Entry(settings)
        self.message = ""
        """The last event, in the status line."""
        self.words: dict[str, str] = {}
        """The last searched texts, by kind."""
        self._sought = entry.WORD
        self._jumps: list[int] = []
        """Frames where jumps began."""
        self._asked_secrets = False
        self._wanted_at, self._late = 0.0, False
        self.reports: dict[str, list[reports.ReportLine]] = {}
        """Those that were made of the whole capture."""
        self.visited: dict[str, int] = {}
        self._jobs: list[Job] = []

    def compose(self) -> ComposeResult:
        yield self.header
        yield Horizontal(self.asked, self.entry, id="bar")
        yield self.problem_line
        yield self.heading
        yield self.frames
        yield Container(self.fields, self.octets, id="detail")
        yield self.status_line
        yield TextLine("keys")

    def on_mount(self) -> None:
        self.loader = Loader(self.model, partial(self.call_later, self._loaded))
        self.frames.focus()
        self.query_one("#keys", TextLine).show(keys.bottom())
        self.set_interval(UPDATE_SECONDS, self.update)
        if self.select is not None:
            self.filter_by(self.select)
        self._rest()
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
        self.set_class(event.size.height < SHORT, "short")
        self.call_after_refresh(self.update)

    # The panes.

    def update(self) -> None:
        """Look for new frames: called often."""
        self.frames.update()
        self.heading.show(self.frames.header())
        saving = self.live.problem if self.live is not None else None
        self.message = self.message or self.model.problem or saving or self.frames.looks.problem or ""
        if self._late:
            self._want()
        self.header.show(self.state())
        self.status_line.show(self.status())

    def state(self) -> str:
        """The line at the top: file, place, time mode, and all that changes what is shown."""
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
        return cut(f" {' │ '.join(parts)}", width)

    def status(self) -> str:
        """The line below: place among the bytes, progress, and what happened last."""
        model, parts = self.model, [self.message] if self.message else []
        if self.octets.has_focus and self.octets.count:
            parts.append(self.octets.place())
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
            self._want()
        elif event.pane is self.fields:
            branch = self.fields.branch
            self.octets.mark(None if branch is None else branch.span)
        self.update()

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
        self.update()

    def _loaded(self, number: int, found: Any) -> None:
        """A frame was read, or reading it failed."""
        if number != self.frames.number:
            return
        if not isinstance(found, Frame):
            self.say(f"frame {number} cannot be shown: {found or 'it no longer exists'}")
            return
        self.frame = found
        try:
            secrets = self.model.secrets
            self.octets.show(self.frame, secrets=secrets)
            form = self.settings.time if self.settings.time in ("absolute", "epoch") else "relative"
            self.fields.show(self.frame, self.model.first_ns, TreeOptions(secrets=secrets, times=Times(form)))
            self.fields.moved()
        except Exception as error:
            self.say(f"frame {number} cannot be shown: {type(error).__name__}: {error}")

    @on(Lines.Chosen)
    def _chosen(self, event: Lines.Chosen) -> None:
        self.action_pane(1)

    # Input.

    def action_ask(self, kind: str) -> None:
        text = self.select.text if kind == entry.FILTER and self.select is not None else ""
        self.entry.ask(kind, text or self.words.get(kind, ""))
        self._asks()
        self.say(keys.PROMPTS[kind])

    def _asks(self) -> None:
        """Name what is typed; below it, if that is a filter, the last ones."""
        kind, current = self.entry.kind, "" if self.select is None else self.select.text
        recent = self._recent = [each for each in reversed(self.entry.history) if each != current][:RECENT]
        self.asked.show(f"{'go to' if kind == entry.NUMBER else kind:<8}")
        self.problem_line.display = kind == entry.FILTER and bool(recent) and self.entry.has_focus
        line = Text("recent  ")
        for at, text in enumerate(recent):
            line.append(" │ " if at else "").append(keys.link(escape(text), f"recent({at})"))
        self.problem_line.show(line)

    def action_recent(self, at: int) -> None:
        self._entered(Entry.Entered(entry.FILTER, self._recent[at]))

    @on(events.DescendantFocus, "#entry")
    @on(events.DescendantBlur, "#entry")
    def _focus_moved(self) -> None:
        if self.entry.has_focus or not self.app.app_focus:
            self._asks()
        else:
            self._rest()

    def _rest(self) -> None:
        """Nothing is asked: the line shows the filter."""
        self.entry.rest("" if self.select is None else self.select.text)
        self.set_class(self.select is not None, "filtered")
        self._asks()

    @on(Entry.Judged)
    def _judged(self, event: Entry.Judged) -> None:
        if not event.text:
            self._asks()
            return
        line, at = self.problem_line, event.at + self.asked.size.width
        line.display = self.entry.has_focus
        carets = " " * at + "^" * max(1, event.length)
        line.show(Text(f"{carets} {event.text}" if len(carets) < 40 else f"at {event.at + 1}: {event.text}", "red"))

    @on(Entry.Left)
    def _left(self) -> None:
        self.message = ""
        self.frames.focus()

    @on(Entry.Entered)
    def _entered(self, event: Entry.Entered) -> None:
        self._left()
        match event.kind:
            case entry.FILTER:
                self.filter_as_typed(event.text)
            case entry.NUMBER:
                self.go_to_place(event.text)
            case entry.WORD | entry.BYTES:
                self.search(event.text, in_bytes=event.kind == entry.BYTES)
            case entry.FILE if event.text:
                self.save(event.text)

    # Filters.

    def filter_as_typed(self, text: str) -> None:
        """Names of saved filters are filled in; ``@name = filter`` saves one, without a filter it takes it away."""
        saved = entry.SAVED.match(text)
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
                self.update()
        except SettingsError as error:
            self.say(str(error))
            return False
        return True

    def filter_by(self, select: Filter) -> None:
        """Show the frames that match, as they are found; immediately if they were found before."""
        self.no_filter()
        self.select = select
        known = self._filtered.pop(select.text, None)
        if known is None or known.result is None:
            numbers: array[int] = array("Q")
            self.frames.show(numbers)
            outside = self.frames.outside

            def work(job: Job) -> "array[int]":
                for number in self.model.fitting(select, job):
                    if number in outside:
                        outside.discard(number)
                    else:
                        insort(numbers, number)  # at the end, but before frames that a jump led to
                return numbers

            known = self.start("filtering", work)
        else:
            self.frames.show(known.result)
        self.filtering = self._filtered[select.text] = known
        if len(self._filtered) > MOST_FILTERED:
            del self._filtered[next(iter(self._filtered))]
        self._rest()

    def no_filter(self) -> None:
        """Show all frames."""
        if self.filtering is not None:
            self.filtering.stop()
        self.filtering = self.select = None
        if self.frames.numbers is not None:
            self.frames.show(None)
        self._rest()

    def action_take_field(self, how: str = "") -> None:
        made = save_actions.field_filter(self.frame, self.fields) if self.frame is not None else None
        if made is None:
            self.say("this line has no filter: Tab goes to the tree, to a field with a value")
            return
        if how == "not":
            made = f"!({made})"
        if how == "and" and self.select is not None:
            made = f"({self.select.text}) && {made}"
        self.entry.remember(made)
        self.filter_by(compile_filter(made))

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
        """Make the lines of a screen, in the background; those of the whole capture are kept."""
        title, make = MAKERS[kind]
        number, width = self.frames.number, self.size.width - 1  # a scrollbar
        keep = self.model.finished and kind not in OF_FRAME

        def done(job: Job) -> None:
            if keep and job.result is not None and not job.stopped:
                self.reports[kind] = job.result
            self.call_later(screen.made, job)

        screen.job = Job(title.lower(), lambda job: make(self.model, job, number, width), done)
        self._jobs.append(screen.job)

    def action_columns(self) -> None:
        """Choose the columns of the list."""

        def chosen(names: list[str] | None) -> None:
            if names is not None and self.keep("ui.columns", names or None):
                self.say(f"columns: {', '.join(names) or 'as many as fit the width'}")

        self.app.push_screen(ColumnsScreen(self.frames.columns), chosen)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    # From frame to frame.

    def go_to(self, number: int, *, remember: bool = True) -> None:
        """Show frame ``number``; one that does not match the filter is added to those that do."""
        if not 0 < number <= self.model.rows.count or (self.frames.held and not self.frames.holds(number)):
            self.say(f"there is no frame {number:,}" + ("" if self.model.finished else " yet"))
            return
        if remember:
            self._jumps = [*self._jumps[-MOST_BACK:], self.frames.number]
        self.frames.update()
        if not self.frames.go_to(number):
            self.frames.admit(number)
            self.say(f"frame {number:,} does not match the filter: + marks it")

    def action_step(self, step: int) -> None:
        self.frames.action_move(step)

    def action_pane(self, step: int) -> None:
        panes: list[Lines] = [self.frames, self.fields, self.octets]
        here = next((at for at, pane in enumerate(panes) if pane.has_focus), 0)
        panes[(here + step) % len(panes)].focus()

    def action_answer(self) -> None:
        if not self.frames.count:
            return
        row = self.model.rows[self.frames.number]
        if row.request or row.response:
            self.go_to(row.request or row.response)
        else:
            self.say("it has no request and no response")

    def _next(self, find: Callable[[int], int | None], otherwise: str) -> None:
        """Go to the next frame that ``find`` leads to, over those that are not shown."""
        number = find(self.frames.number)
        while number is not None and not self.frames.holds(number):
            number = find(number)
        if number is None:
            self.say(otherwise)
        else:
            self.go_to(number)

    def _find(self, step: int, test: Test, otherwise: str) -> None:
        self._next(lambda number: self.model.rows.find(number, step, test), otherwise)

    def action_along(self, step: int) -> None:
        if self.frames.count:
            connection = self.model.rows[self.frames.number].connection
            self._find(step, lambda rows: rows["connection"] == connection, "no further frame of the connection")

    def action_finding(self) -> None:
        self._find(1, lambda rows: rows["severity"] > 0, "no further finding")

    def action_mark(self) -> None:
        if self.frames.count:
            self.frames.marks ^= {self.frames.number}
            self.frames.refresh()
            self.update()

    def action_marked(self) -> None:
        marks = sorted(self.frames.marks)
        if not marks:
            self.say("nothing is marked: m marks a frame")
            return
        self.go_to(next((number for number in marks if number > self.frames.number), marks[0]))

    def action_back(self) -> None:
        if self._jumps:
            self.go_to(self._jumps.pop(), remember=False)

    def action_zero(self) -> None:
        if self.frames.count:
            self.frames.zero = 0 if self.frames.zero else self.frames.number
            self.frames.refresh()
            self.update()

    # Searching.

    def go_to_place(self, text: str) -> None:
        """To a frame by its number, or by a time: ``12.5s`` of the capture, ``+0.5s`` from here, or a date or hour."""
        number, rows, here = text.replace(",", ""), self.model.rows, self.frames.number
        if number.isdecimal():
            self.go_to(int(number))
        elif (time := time_of(text.strip(), self.model.first_ns, rows[here].time_ns if here else None)) is None:
            self.say(f"{text} is no number of a frame, nor a time as 12.5s, +0.5s, 12:30:01 or 2026-01-31T12:00:00Z")
        elif (found := rows.find(0, 1, lambda some: some["time_ns"] >= time)) is None:
            self.say("the capture ends before that time")
        else:
            self.go_to(found)

    def search(self, text: str, *, in_bytes: bool) -> None:
        """Begin to search for a text in types and details, or for a text or digits in the bytes of frames."""
        self._sought = entry.BYTES if in_bytes else entry.WORD
        self.words[self._sought] = text
        self.action_search_on(1)

    def action_search_on(self, step: int) -> None:
        """The next frame shown with what was searched for last, or the one before."""
        word = self.words.get(self._sought, "")
        if not word:
            self.say("nothing to search for: s asks for text, X for bytes")
        elif self._sought == entry.WORD:
            otherwise = f"{word!r} is not further {'on' if step > 0 else 'up'}"
            self._next(lambda number: self.model.rows.search(number, word, step), otherwise)
        else:
            wanted, what = wanted_bytes(word)
            self.seek(step, lambda frame: holds(frame, wanted), None, what)

    def seek(self, step: int, test: Callable[[Frame], bool], select: Filter | None, what: str) -> None:
        """Read on, or back, in the background to the next frame shown that fits."""
        if not self.frames.count:
            self.say("no frames")
            return
        number, holds = self.frames.number, self.frames.holds

        def work(job: Job) -> int | None:
            def fits(frame: Frame) -> bool:
                return holds(frame.number) and test(frame)

            return self.model.seek(number, step, fits, select, job)

        def sought(found: int | None) -> None:
            self.say("" if found is not None else f"{what}: not further {'on' if step > 0 else 'up'}")
            if found is not None:
                self.go_to(found)

        self.say(f"searching for {what}; Esc stops")
        self.start("searching", work, sought)

    def action_alike(self, step: int) -> None:
        """The next frame with the same value: of the field under the cursor in the tree, else of stream or topic."""
        frame = self.frame
        if frame is None:
            return
        made = save_actions.field_filter(frame, self.fields) if self.fields.has_focus else None
        if made is None or "==" not in made:
            made = self._stream_of(frame)
        if made is None:
            self.say("it has no stream, topic or subject: Tab goes to the tree, to a field with a value")
            return
        select = compile_filter(made)
        self.seek(step, select.matches, select, made)

    def _stream_of(self, frame: Frame) -> str | None:
        """The filter of its stream, topic or subject: of a text by which the protocol distinguishes frames."""
        made = (
            save_actions.field_filter(frame, self.fields, branch)
            for name in summary_keys(frame.protocol)
            for branch in self.fields.every
            if branch.path.rpartition(".")[2] == name
        )
        return next((each for each in made if each is not None and each.endswith('"')), None)

    def action_copy_of(self) -> None:
        """The frame that it is a copy of; else its next copy."""
        frame = self.frame
        if frame is None:
            return
        protocol, name = by_name(frame.protocol), f"{frame.protocol}.copy_of"
        if (original := frame.generated.get("copy_of")) is not None:
            self.go_to(original)
        elif protocol is None or name not in protocol.generated_fields():
            self.say("no copies are known in this protocol")
        else:
            select = compile_filter(f"{name} == {frame.number}")
            self.seek(1, select.matches, select, f"copies of frame {frame.number}")

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
        self.start("saving", lambda job: save_actions.save(self.model, name, numbers, job), self.say)

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
        """Twice, so that secrets are not shown by mistake."""
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


def holds(frame: Frame, wanted: bytes) -> bool:
    """Whether bytes are in a frame, or in what it carries compressed."""
    return wanted in frame.data or any(wanted in inner.data for inner in frame.inner)
