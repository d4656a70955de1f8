"""The input line for filters, times, numbers and words; filters are checked and completed."""

import re
from asyncio import to_thread
from datetime import datetime
from typing import ClassVar

from textual import events, work
from textual.binding import BindingType
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input

from wiredecode.dataclasses import dataclass
from wiredecode.filter import FilterError, compile_filter
from wiredecode.filter.values import time_ns
from wiredecode.frames.escape import escape
from wiredecode.settings import Settings, SettingsError, keep_recent_filters, recent_filters
from wiredecode.ui import keys

FILTER, NUMBER, WORD, BYTES, FILE = "filter", "number", "word", "bytes", "file"
MAX_KEPT = 20
"""Filters that are remembered, and kept between runs."""
SAVED = re.compile(r"\s*@([A-Za-z_][\w-]*)\s*=(?!=)\s*")
"""Before a filter: save it by this name."""
HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]*)+")
SECONDS = re.compile(r"([+-]?)(\d+(?:\.\d*)?)\s*s?")
CLOCK = re.compile(r"\d\d?:\d\d(:\d\d(\.\d+)?)?")


class Completion(Suggester):
    """Names of fields, for the last word."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.settings = settings

    def complete(self, value: str) -> list[str]:
        """Completions of the last word: a field, or a saved filter."""
        from wiredecode.filter.names import completions

        before, at, word = value.rpartition("@")
        if at and (not word or word.replace("-", "_").isidentifier()):
            return [f"{before}@{name}" for name in self.settings.filters if name.startswith(word)]
        return completions(value)

    async def get_suggestion(self, value: str) -> str | None:
        completions = await to_thread(self.complete, value)
        return completions[0] if completions and completions[0] != value else None


class InputLine(Input):
    """One line of input; while nothing is asked, it shows the filter."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("entry")]

    @dataclass
    class Entered(Message):
        """Enter: ``text`` for the question."""

        kind: str
        text: str

    class Left(Message):
        """Escape: nothing was entered."""

    @dataclass
    class Judged(Message):
        """The error of the filter being typed; empty: none. ``at``: its position, in characters."""

        text: str
        at: int = 0
        length: int = 0

    def __init__(self, settings: Settings) -> None:
        super().__init__(id="entry", compact=True, select_on_focus=False, placeholder="none; press / to type one")
        self.cursor_blink = False  # bytes that say nothing
        self.kind = FILTER
        self.history = recent_filters()
        self._index = 0
        self.completion = Completion(settings)

    def ask(self, kind: str, text: str = "") -> None:
        self.kind, self._index = kind, len(self.history)
        self.suggester = self.completion if kind == FILTER else None
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def rest(self, text: str) -> None:
        """Nothing is asked now: show a filter."""
        self.kind, self._index, self.value, self.cursor_position = FILTER, len(self.history), text, 0

    def remember(self, text: str) -> None:
        """A filter is used: it is the last of all, also next time."""
        self.history = [*(each for each in self.history if each != text), text][-MAX_KEPT:]
        keep_recent_filters(self.history)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self.kind == FILTER:
            self._judge(self.value)

    @work(group="judge", exclusive=True)
    async def _judge(self, text: str) -> None:
        """Judge a filter beside the keys: the first one needs all names, which takes a second."""
        judged = await to_thread(judge, text, self.completion.settings)
        if self.kind == FILTER and text == self.value:
            self.post_message(judged)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = self.value.strip()
        if self.kind == FILTER and text and judge(text, self.completion.settings).text:
            return  # the error is shown below
        if self.kind == FILTER and text:
            self.remember(text)
        self.post_message(self.Entered(self.kind, text))

    def on_key(self, event: events.Key) -> None:
        if event.key == "tab" and self.kind == FILTER:
            event.stop()
            event.prevent_default()
            self.complete()

    def complete(self) -> None:
        """Take the first name that completes the word, or the common prefix of all."""
        completions = self.completion.complete(self.value)
        if completions:
            shared = completions[0]
            while not all(each.startswith(shared) for each in completions):
                shared = shared[:-1]
            self.value = shared if len(shared) > len(self.value) else completions[0]
            self.cursor_position = len(self.value)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_earlier(self, step: int) -> None:
        index = self._index + step
        if self.kind == FILTER and 0 <= index <= len(self.history):
            self._index = index
            self.value = self.history[index] if index < len(self.history) else ""
            self.cursor_position = len(self.value)


def judge(text: str, settings: Settings) -> InputLine.Judged:
    """Whether a text is a filter, or one to be saved."""
    saved = SAVED.match(text)
    begin = saved.end() if saved is not None else 0
    typed = expanded = text[begin:]
    try:
        expanded = settings.expand(typed)
        if typed.strip():
            compile_filter(expanded)
    except FilterError as error:
        if expanded == typed:  # else places are those in the filters of the names
            return InputLine.Judged(escape(error.message), begin + error.start, error.stop - error.start)
        return InputLine.Judged(escape(error.message), begin, len(typed))
    except SettingsError as error:
        return InputLine.Judged(escape(str(error)), begin, len(typed))
    return InputLine.Judged("")


def time_of(text: str, first_ns: int, here_ns: int | None) -> int | None:
    """Nanoseconds since the epoch; None: no time. Times are since ``first_ns``, those with a sign since ``here_ns``."""
    if (seconds := SECONDS.fullmatch(text)) is not None:
        ns = round(float(seconds[2]) * 1e9)
        if not seconds[1]:
            return first_ns + ns
        return None if here_ns is None else here_ns + (ns if seconds[1] == "+" else -ns)
    if CLOCK.fullmatch(text):
        day = datetime.fromtimestamp((here_ns or first_ns) / 1e9).astimezone()
        text = f"{day:%Y-%m-%d}T{text:0>8}"
    return time_ns(text)


def wanted_bytes(text: str) -> tuple[bytes, str]:
    """The searched bytes, and their description: digits, or a text; one in quotes is never digits."""
    if HEX.fullmatch(text):
        wanted = bytes.fromhex(re.sub(r"[\s:]", "", text))
        return wanted, f"bytes {wanted.hex(' ')}"
    quoted = len(text) > 2 and text[0] == text[-1] == '"'
    wanted = (text[1:-1] if quoted else text).encode(errors="surrogateescape")
    return wanted, f"text {escape(text)!r}"
