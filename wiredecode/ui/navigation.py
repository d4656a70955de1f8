"""Keys that go from frame to frame: jumps, marks, searches."""

from collections.abc import Callable
from typing import Any

from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.frame import Frame
from wiredecode.protocols.registry import by_name, summary_keys
from wiredecode.ui import entry, save_actions
from wiredecode.ui.entry import time_of, wanted_bytes
from wiredecode.ui.jobs import Job
from wiredecode.ui.panes import PanesScreen
from wiredecode.ui.store import Test

MAX_BACK = 100
"""Jumps that can be undone."""


class NavigationScreen(PanesScreen):
    """Moves the cursor to other frames."""

    def __init__(self, *panes: Any) -> None:
        super().__init__(*panes)
        self.words: dict[str, str] = {}
        """The last searched texts, by kind."""
        self._searched = entry.WORD
        """Kind of the last search."""
        self._jumps: list[int] = []
        """Frames where jumps began."""

    def go_to(self, number: int, *, remember: bool = True) -> None:
        """Go to frame ``number``; one that does not match the filter is shown among those that do."""
        if not 0 < number <= self.model.rows.count or (self.frames.held and not self.frames.holds(number)):
            self.say(f"there is no frame {number:,}" + ("" if self.model.finished else " yet"))
            return
        if remember:
            self._jumps = [*self._jumps[-MAX_BACK:], self.frames.number]
        self.frames.update()
        if not self.frames.go_to(number):
            self.frames.admit(number)
            self.say(f"frame {number:,} does not match the filter: + marks it")

    def action_step(self, step: int) -> None:
        self.frames.action_move(step)

    def action_answer(self) -> None:
        if not self.frames.count:
            return
        row = self.model.rows[self.frames.number]
        if row.request or row.response:
            self.go_to(row.request or row.response)
        else:
            self.say("it has no request and no response")

    def _next(self, find: Callable[[int], int | None], otherwise: str) -> None:
        """Go to the next shown frame by ``find``, which returns the number after a number."""
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
        """Go to a frame by number or time: ``12.5s`` of the capture, ``+0.5s`` from here, a date or an hour."""
        number, rows, here = text.replace(",", ""), self.model.rows, self.frames.number
        if number.isdecimal():
            self.go_to(int(number))
        elif (time := time_of(text.strip(), self.model.first_ns, rows[here].time_ns if here else None)) is None:
            self.say(f"{text} is no number of a frame, nor a time as 12.5s, +0.5s, 12:30:01 or 2026-01-31T12:00:00Z")
        elif (at := rows.find(0, 1, lambda some: some["time_ns"] >= time)) is None:
            self.say("the capture ends before that time")
        else:
            self.go_to(at)

    def search(self, text: str, *, in_bytes: bool) -> None:
        """Search for a text in types and details, or for text or digits in the bytes of frames."""
        self._searched = entry.BYTES if in_bytes else entry.WORD
        self.words[self._searched] = text
        self.action_search_on(1)

    def action_search_on(self, step: int) -> None:
        """Repeat the last search, forwards or backwards."""
        word = self.words.get(self._searched, "")
        if not word:
            self.say("nothing to search for: s asks for text, X for bytes")
        elif self._searched == entry.WORD:
            otherwise = f"{word!r} is not further {'on' if step > 0 else 'up'}"
            self._next(lambda number: self.model.rows.search(number, word, step), otherwise)
        else:
            wanted, description = wanted_bytes(word)
            self.seek(step, lambda frame: contains(frame, wanted), None, description)

    def seek(self, step: int, test: Callable[[Frame], bool], select: Filter | None, description: str) -> None:
        """Go to the next shown frame that passes ``test``, in the background; ``select``: a filter that implies it."""
        if not self.frames.count:
            self.say("no frames")
            return
        number, holds = self.frames.number, self.frames.holds

        def work(job: Job) -> int | None:
            def fits(frame: Frame) -> bool:
                return holds(frame.number) and test(frame)

            return self.model.seek(number, step, fits, select, job)

        def sought(number: int | None) -> None:
            self.say("" if number is not None else f"{description}: not further {'on' if step > 0 else 'up'}")
            if number is not None:
                self.go_to(number)

        self.say(f"searching for {description}; Esc stops")
        self.start("searching", work, sought)

    def action_alike(self, step: int) -> None:
        """Go to the next frame with the same value of the field under the cursor, or of its stream or topic."""
        frame = self.frame
        if frame is None:
            return
        expression = save_actions.field_filter(frame, self.fields) if self.fields.has_focus else None
        if expression is None or "==" not in expression:
            expression = self._stream_of(frame)
        if expression is None:
            self.say("it has no stream, topic or subject: Tab goes to the tree, to a field with a value")
            return
        select = compile_filter(expression)
        self.seek(step, select.matches, select, expression)

    def _stream_of(self, frame: Frame) -> str | None:
        """The filter for the stream, topic or subject of a frame."""
        filters = (
            save_actions.field_filter(frame, self.fields, branch)
            for name in summary_keys(frame.protocol)
            for branch in self.fields.every
            if branch.path.rpartition(".")[2] == name
        )
        return next((each for each in filters if each is not None and each.endswith('"')), None)

    def action_copy_of(self) -> None:
        """Go to the original of a copy, or to the next copy of an original."""
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


def contains(frame: Frame, wanted: bytes) -> bool:
    """Whether bytes are in a frame, or in its decompressed layers."""
    return wanted in frame.data or any(wanted in inner.data for inner in frame.inner)
