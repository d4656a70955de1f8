"""The main screen: input, filters, further screens, and settings; panes and jumps are in its base classes."""

from array import array
from bisect import insort
from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.binding import BindingType
from textual.theme import Theme

from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.escape import escape
from wiredecode.settings import Settings, SettingsError, load, write
from wiredecode.ui import entry, keys, reports, save_actions
from wiredecode.ui.entry import InputLine
from wiredecode.ui.jobs import Job
from wiredecode.ui.live import Live
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.navigation import NavigationScreen
from wiredecode.ui.reports import MAKERS, OF_FRAME
from wiredecode.ui.screens import ColumnsScreen, HelpScreen, ReportScreen

CONTRAST = Theme("high-contrast", "#ffff00", foreground="#ffffff", background="#000000", surface="#000000", dark=True)
ANSI = "ansi-dark"
THEMES = ("textual-dark", "textual-light", CONTRAST.name, ANSI, "ansi-light")
MAX_FILTERED, RECENT = 8, 5
"""Filters whose frames are remembered, and filters that are offered."""


class MainScreen(NavigationScreen):
    """Everything of one capture; ``select``: the filter that it begins with."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings()]

    def __init__(self, model: CaptureModel, select: Filter | None, live: Live | None, settings: Settings) -> None:
        super().__init__(model, live, settings)
        self.select = select
        self._filtered: dict[str, Job] = {}
        """The last filters with their frames, by text."""
        self._recent: list[str] = []
        self._asked_secrets = False
        self.reports: dict[str, list[reports.ReportLine]] = {}
        """Reports of the whole capture that were made, by kind."""
        self.visited: dict[str, int] = {}

    def begin(self) -> None:
        if self.select is not None:
            self.filter_by(self.select)
        self._show_filter()

    # Input.

    def action_ask(self, kind: str) -> None:
        text = self.select.text if kind == entry.FILTER and self.select is not None else ""
        self.entry.ask(kind, text or self.words.get(kind, ""))
        self._show_question()
        self.say(keys.PROMPTS[kind])

    def _show_question(self) -> None:
        """Show the kind of input, and below a filter the recent ones."""
        kind, current = self.entry.kind, "" if self.select is None else self.select.text
        recent = self._recent = [each for each in reversed(self.entry.history) if each != current][:RECENT]
        self.prompt.show(f"{'go to' if kind == entry.NUMBER else kind:<8}")
        self.problem_line.display = kind == entry.FILTER and bool(recent) and self.entry.has_focus
        line = Text("recent  ")
        for at, text in enumerate(recent):
            line.append(" │ " if at else "").append(keys.link(escape(text), f"recent({at})"))
        self.problem_line.show(line)

    def action_recent(self, at: int) -> None:
        self._entered(InputLine.Entered(entry.FILTER, self._recent[at]))

    @on(events.DescendantFocus, "#entry")
    @on(events.DescendantBlur, "#entry")
    def _focus_moved(self) -> None:
        if self.entry.has_focus or not self.app.app_focus:
            self._show_question()
        else:
            self._show_filter()

    def _show_filter(self) -> None:
        """End of input: the line shows the filter."""
        self.entry.rest("" if self.select is None else self.select.text)
        self.set_class(self.select is not None, "filtered")
        self._show_question()

    @on(InputLine.Judged)
    def _judged(self, event: InputLine.Judged) -> None:
        if not event.text:
            self._show_question()
            return
        line, at = self.problem_line, event.at + self.prompt.size.width
        line.display = self.entry.has_focus
        carets = " " * at + "^" * max(1, event.length)
        line.show(Text(f"{carets} {event.text}" if len(carets) < 40 else f"at {event.at + 1}: {event.text}", "red"))

    @on(InputLine.Left)
    def _left(self) -> None:
        self.message = ""
        self.frames.focus()

    @on(InputLine.Entered)
    def _entered(self, event: InputLine.Entered) -> None:
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
        """Apply a typed filter: ``@name`` is a saved one, ``@name = filter`` saves one, ``@name =`` deletes it."""
        saved = entry.SAVED.match(text)
        if saved is not None:
            text = text[saved.end() :]
            if self.set(f"filters.{saved[1]}", text or None):
                self.say(f"@{saved[1]} is {'saved' if text else 'gone'}")
        message = self.message
        if text:
            self.filter_by(compile_filter(self.settings.expand(text)))
        elif saved is None:
            self.no_filter()
        self.message = message

    def set(self, name: str, value: str | list[str] | None) -> bool:
        """Write a setting and use it; False if that fails, with a message."""
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
        """Show the frames that match, as they are found; immediately if the filter was used before."""
        self.no_filter()
        self.select = select
        earlier = self._filtered.pop(select.text, None)
        if earlier is None or earlier.result is None:
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

            earlier = self.start("filtering", work)
        else:
            self.frames.show(earlier.result)
        self.filtering = self._filtered[select.text] = earlier
        if len(self._filtered) > MAX_FILTERED:
            del self._filtered[next(iter(self._filtered))]
        self._show_filter()

    def no_filter(self) -> None:
        """Show all frames."""
        if self.filtering is not None:
            self.filtering.stop()
        self.filtering = self.select = None
        if self.frames.numbers is not None:
            self.frames.show(None)
        self._show_filter()

    def action_take_field(self, how: str = "") -> None:
        expression = save_actions.field_filter(self.frame, self.fields) if self.frame is not None else None
        if expression is None:
            self.say("this line has no filter: Tab goes to the tree, to a field with a value")
            return
        if how == "not":
            expression = f"!({expression})"
        if how == "and" and self.select is not None:
            expression = f"({self.select.text}) && {expression}"
        self.entry.remember(expression)
        self.filter_by(compile_filter(expression))

    # Screens.

    def action_report(self, kind: str) -> None:
        """Show a report screen, then go to the frame chosen there."""
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
        """Make a report in the background; keep it if the whole capture was read."""
        title, make = MAKERS[kind]
        number, width = self.frames.number, self.size.width - 1  # a scrollbar
        keep = self.model.finished and kind not in OF_FRAME

        def done(job: Job) -> None:
            if keep and job.result is not None and not job.stopped:
                self.reports[kind] = job.result
            self.call_later(screen.finished, job)

        screen.job = Job(title.lower(), lambda job: make(self.model, job, number, width), done)
        self._jobs.append(screen.job)

    def action_columns(self) -> None:
        """Choose the columns of the list."""

        def chosen(names: list[str] | None) -> None:
            if names is not None and self.set("ui.columns", names or None):
                self.say(f"columns: {', '.join(names) or 'as many as fit the width'}")

        self.app.push_screen(ColumnsScreen(self.frames.columns), chosen)

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen())

    # Save and copy.

    def action_copy(self, what: str) -> None:
        text, shown = save_actions.copy_text(what, self.frame, self.fields, self.model.files, self.select)
        if text is None:
            self.say(shown)
            return
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {shown}")

    def save(self, name: str) -> None:
        """Save the screen (``.svg``) or the frames shown."""
        if name.endswith(".svg"):
            self.say(save_actions.save_screen(self.app, name))
            return
        numbers: Iterable[int] | None = None if self.frames.numbers is None else array("Q", self.frames.numbers)
        self.start("saving", lambda job: save_actions.save(self.model, name, numbers, job), self.say)

    # The rest.

    def action_hold(self) -> None:
        """Stop or continue showing new frames of a live capture."""
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
        if self.set("ui.theme", theme):
            self.say(f"colours: {theme}")

    def action_secrets(self) -> None:
        """Show or hide secrets; to show them the key must be pressed twice."""
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
