"""Keys that lead from frame to frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wiredecode.filter import compile_filter
from wiredecode.filter.values import time_ns
from wiredecode.frames.escape import escape
from wiredecode.protocols.registry import by_name, summary_keys
from wiredecode.ui import filterline, save_actions
from wiredecode.ui.jobs import Job

if TYPE_CHECKING:
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
    from wiredecode.ui.detail import BytePane, TreePane
    from wiredecode.ui.framelist import FrameList
    from wiredecode.ui.lines import Lines
    from wiredecode.ui.model import CaptureModel
    from wiredecode.ui.store import Test

MOST_BACK = 100
SEEKING = "searching"
HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]*)+")
SECONDS = re.compile(r"([+-]?)(\d+(?:\.\d*)?)\s*s?")
CLOCK = re.compile(r"\d\d?:\d\d(:\d\d(\.\d+)?)?")


class Navigation:
    """What a screen needs to move; the screen has the rest."""

    model: CaptureModel
    frames: FrameList
    fields: TreePane
    octets: BytePane
    frame: Frame | None
    words: dict[str, str]
    say: Callable[[str], None]
    update: Callable[[], None]
    start: Callable[[str, Callable[[Job], Any]], Job]
    no_filter: Callable[[], None]
    _behind: list[int]
    _sought: str
    _after: str
    """For the status line where a search finds nothing."""

    def go_to(self, number: int) -> None:
        """Show frame ``number``; a filter that leaves it out is taken away."""
        if not 0 < number <= self.model.rows.count:
            self.say(f"there is no frame {number:,}" + ("" if self.model.finished else " yet"))
            return
        self._behind = [*self._behind[-MOST_BACK:], self.frames.number]
        if not self.frames.go_to(number):
            self.no_filter()
            self.frames.go_to(number)
            self.say(f"frame {number:,} does not fit the filter, which was taken away")

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
            self.say("it answers nothing, and nothing answers it")

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
        if self._behind:
            number = self._behind.pop()
            self.go_to(number)
            self._behind.pop()

    def action_zero(self) -> None:
        if self.frames.count:
            here = self.model.rows[self.frames.number].time_ns
            self.frames.zero_ns = None if self.frames.zero_ns is not None else here
            self.frames.refresh()

    # Searching.

    def go_to_place(self, text: str) -> None:
        """To a frame by its number, or by a time: ``12.5s`` of the capture, ``+0.5s`` from here, or a date or hour."""
        number = text.replace(",", "")
        if number.isdecimal():
            self.go_to(int(number))
            return
        time = self._time(text.strip())
        if time is None:
            self.say(f"{text} is no number of a frame, nor a time as 12.5s, +0.5s, 12:30:01 or 2026-01-31T12:00:00Z")
            return
        found = self.model.rows.find(0, 1, lambda rows: rows["time_ns"] >= time)
        if found is None:
            self.say("the capture ends before that time")
            return
        self.go_to(found)

    def _time(self, text: str) -> int | None:
        """Nanoseconds since the epoch."""
        seconds = SECONDS.fullmatch(text)
        rows, here = self.model.rows, self.frames.number
        if seconds is not None:
            ns = round(float(seconds[2]) * 1e9)
            if seconds[1]:
                return rows[here].time_ns + (ns if seconds[1] == "+" else -ns) if here else None
            return self.model.first_ns + ns
        if CLOCK.fullmatch(text):
            day = datetime.fromtimestamp((rows[here].time_ns if here else self.model.first_ns) / 1e9).astimezone()
            text = f"{day:%Y-%m-%d}T{text:0>8}"
        return time_ns(text)

    def search(self, text: str, *, in_bytes: bool) -> None:
        """Begin to search for a text in types and details, or for a text or digits in the bytes of frames."""
        self._sought = filterline.BYTES if in_bytes else filterline.WORD
        self.words[self._sought] = text
        self.action_search_on(1)

    def action_search_on(self, step: int) -> None:
        """The next frame shown with what was searched for last, or the one before."""
        word = self.words.get(self._sought, "")
        if not word:
            self.say("nothing to search for: s asks for text, X for bytes")
        elif self._sought == filterline.WORD:
            otherwise = f"{word!r} is not further {'on' if step > 0 else 'up'}"
            self._next(lambda number: self.model.rows.search(number, word, step), otherwise)
        else:
            wanted, what = wanted_bytes(word)
            self.seek(step, lambda frame: holds(frame, wanted), None, what)

    def seek(self, step: int, test: Callable[[Frame], bool], select: Filter | None, what: str) -> None:
        """Read on, or back, behind the screen to the next frame shown that fits."""
        if not self.frames.count:
            self.say("no frames")
            return
        number, holds = self.frames.number, self.frames.holds

        def work(job: Job) -> int | None:
            def fits(frame: Frame) -> bool:
                return holds(frame.number) and test(frame)

            return self.model.seek(number, step, fits, select, job)

        self._after = f"{what}: not further {'on' if step > 0 else 'up'}"
        self.say(f"searching for {what}; Esc stops")
        self.start(SEEKING, work)

    def sought(self, number: int | None) -> None:
        """A search is over."""
        if number is None:
            self.say(self._after)
        else:
            self.say("")
            self.go_to(number)

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
        """The filter of its stream, topic or subject: of a text by which the protocol tells frames apart."""
        made = (
            save_actions.field_filter(frame, self.fields, branch)
            for name in summary_keys(frame.protocol)
            for branch in self.fields.every
            if branch.path.rpartition(".")[2] == name
        )
        return next((each for each in made if each is not None and each.endswith('"')), None)

    def action_copy_of(self) -> None:
        """What it is a copy of; else its next copy."""
        frame = self.frame
        if frame is None:
            return
        original = frame.generated.get("copy_of")
        if original is not None:
            self.go_to(original)
            return
        protocol = by_name(frame.protocol)
        name = f"{frame.protocol}.copy_of"
        if protocol is None or name not in protocol.generated_fields():
            self.say("no copies are known in this protocol")
            return
        select = compile_filter(f"{name} == {frame.number}")
        self.seek(1, select.matches, select, f"copies of frame {frame.number}")


def wanted_bytes(text: str) -> tuple[bytes, str]:
    """What is searched for in bytes, and in words: digits, or a text; one in quotes is never digits."""
    if HEX.fullmatch(text):
        found = bytes.fromhex(re.sub(r"[\s:]", "", text))
        return found, f"bytes {found.hex(' ')}"
    quoted = len(text) > 2 and text[0] == text[-1] == '"'
    found = (text[1:-1] if quoted else text).encode(errors="surrogateescape")
    return found, f"text {escape(text)!r}"


def holds(frame: Frame, wanted: bytes) -> bool:
    """Whether bytes are in a frame, or in what it carries compressed."""
    return wanted in frame.data or any(wanted in inner.data for inner in frame.inner)
