"""The list of frames: all of them, or those that a filter found."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from rich.text import Text
from textual import events

from wiredecode.ui.lines import Lines
from wiredecode.ui.reading import Reading
from wiredecode.ui.store import Row
from wiredecode.view import theme
from wiredecode.view.screen import Columns, columns, cut, cut_middle, pad

CONNECTION = 5
"""Columns of the number of the connection."""
MARK = "*"


class FrameList(Lines):
    """A line per frame. ``numbers``: of the frames shown; None: of all."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(id="frames")
        self.reading = reading
        self.numbers: array[int] | None = None
        self.marks: set[int] = set()
        self.zero_ns: int | None = None
        """Times are told since then; None: since the first packet."""
        self.tail = reading.live
        """Whether the cursor stays on the last frame when more come."""
        self.held = False
        """Whether frames that come are not shown yet."""
        self._form = columns(80)

    def on_resize(self, event: events.Resize) -> None:
        self._form = columns(event.size.width)

    @property
    def number(self) -> int:
        """The frame under the cursor; 0: there is none."""
        return self.number_at(self.cursor) if self.count else 0

    def number_at(self, at: int) -> int:
        return at + 1 if self.numbers is None else self.numbers[at]

    def update(self) -> None:
        """There may be more frames."""
        if self.held:
            return
        rows = self.reading.rows.count
        count = rows if self.numbers is None else bisect_left(self.numbers, rows + 1)
        if count != self.count:
            first = not self.count
            self.recount(count, count - 1 if self.tail and self.reading.source.grows else None)
            if first:
                self.moved()

    def moved(self) -> None:
        self.tail = self.cursor == self.count - 1
        super().moved()

    def show(self, numbers: array[int] | None) -> None:
        """Show other frames; the cursor stays on its frame, or goes to the next one shown."""
        here, tail, held = self.number, self.tail, self.held
        self.numbers, self.count, self.held = numbers, 0, False
        self.update()
        self.go_to(here, near=True)
        self.tail, self.held = tail, held

    def go_to(self, number: int, *, near: bool = False) -> bool:
        """Put the cursor on frame ``number``; False: it is not shown."""
        at = number - 1 if self.numbers is None else bisect_left(self.numbers, number)
        found = 0 <= at < self.count and self.number_at(at) == number
        if found or near:
            self.move_to(at)
        return found

    def holds(self, number: int) -> bool:
        """Whether frame ``number`` is shown."""
        if self.numbers is None:
            return 0 < number <= self.count
        at = bisect_left(self.numbers, number)
        return at < self.count and self.numbers[at] == number

    def header(self) -> Text:
        """The line above all others."""
        form = self._form
        text = f" {'frame':>{form.number}} {'time':>{form.time}} {'conn':<{CONNECTION}} "
        text += f"{'client':<{form.address}}   {'server':<{form.address}} " if form.address else "  "
        text += f"{'protocol':<{form.protocol}} " if form.protocol else ""
        return Text(f"{text}{'type':<{form.type}} details", theme.HEAD, no_wrap=True, overflow="crop")

    def line(self, at: int) -> Text:
        row, form = self.reading.rows[self.number_at(at)], self._form
        zero = self.reading.first_ns if self.zero_ns is None else self.zero_ns
        seconds = (row.time_ns - zero) / 1e9
        text = Text(MARK if row.number in self.marks else " ", no_wrap=True, overflow="crop")
        text.append(f"{row.number:>{form.number}} {seconds:{form.time}.{6 if form.time > 9 else 4}f} ")
        text.append(f"{f'#{row.connection}':<{CONNECTION}} ")
        self._way(text, row, form)
        worst = theme.SEVERITY.get(row.severity, "")
        text.append(pad(cut_middle(row.type, form.type), form.type), worst or theme.HEAD)
        text.append(f" {row.details}", worst)
        if row.latency_ns >= 0:
            text.append(f"  ({row.latency_ns / 1e6:.3f} ms)", theme.GENERATED)
        return text

    def _way(self, text: Text, row: Row, form: Columns) -> None:
        """The arrow, and where there is room the addresses and the protocol."""
        client = row.side if row.sender == "client" else 1 - row.side if row.sender else 0
        arrow = ("→" if row.side == client else "←", theme.SIDE.get(row.sender or "", ""))
        if form.address:
            seen = self.reading.survey.seen.get(row.connection)
            ends = seen.connection.endpoints if seen is not None else ("", "")
            text.append(f"{cut_middle(ends[client], form.address):<{form.address}} ").append(*arrow)
            text.append(f" {cut_middle(ends[1 - client], form.address):<{form.address}} ")
        else:
            text.append(*arrow).append(" ")
        if form.protocol:
            text.append(pad(cut(row.protocol, form.protocol), form.protocol) + " ")
