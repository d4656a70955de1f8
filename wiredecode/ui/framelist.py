"""The list of frames: all of them, or those that a filter found."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from rich.text import Text
from textual import events
from textual.message import Message

from wiredecode.settings import Settings
from wiredecode.ui.columns import COLUMNS, TIMES, Column, column, heading
from wiredecode.ui.lines import Lines
from wiredecode.ui.looks import Looks, Painter
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.store import Row
from wiredecode.view import theme
from wiredecode.view.screen import Columns, columns, cut, cut_middle, pad

CONNECTION = 5
"""Columns of the number of the connection."""
MARK = "*"


class FrameList(Lines):
    """A line per frame. ``numbers``: of the frames shown; None: of all."""

    class Painted(Message):
        """How frames look is known by now."""

    def __init__(self, model: CaptureModel, settings: Settings) -> None:
        super().__init__(id="frames")
        self.model = model
        self.columns: tuple[str, ...] = ()
        """Those that the user has chosen; empty: what fits the width."""
        self._time: Column | None = None
        """Another time than seconds since the first packet."""
        self.looks = Looks(Settings(), ())
        self.painter: Painter | None = None
        self.use(settings)
        self.numbers: array[int] | None = None
        self.marks: set[int] = set()
        self.zero_ns: int | None = None
        """Times count from then; None: since the first packet."""
        self.tail = model.live
        """Whether the cursor stays on the last frame when more come."""
        self.held = False
        """Whether frames that come are not shown yet."""
        self._form = columns(80)

    def on_resize(self, event: events.Resize) -> None:
        self._form = columns(event.size.width)
        self.refresh()  # lines may have been drawn before the width was known

    def use(self, settings: Settings) -> None:
        """Columns and colours as the user wants them."""
        self.close()
        self.columns = settings.columns or ()
        self._time = TIMES.get(settings.time or "")
        self.looks = Looks(settings, [name for name in self.columns if name not in COLUMNS])
        if self.looks.select is not None:
            self.painter = Painter(self.model, self.looks, lambda: self.post_message(self.Painted()))
        self.refresh()

    def on_frame_list_painted(self) -> None:
        self.refresh()

    def close(self) -> None:
        """Paint no more."""
        painter, self.painter = self.painter, None
        if painter is not None:
            painter.close()

    @property
    def number(self) -> int:
        """The frame under the cursor; 0: there is none."""
        return self.number_at(self.cursor) if self.count else 0

    def number_at(self, at: int) -> int:
        return at + 1 if self.numbers is None else self.numbers[at]

    def update(self) -> None:
        """There may be more frames, and others in view."""
        if self.painter is not None:
            top, height = self.scroll_offset.y, self.scrollable_content_region.height
            self.painter.want([self.number_at(at) for at in range(top, min(top + height, self.count))])
        if self.held:
            return
        rows = self.model.rows.count
        count = rows if self.numbers is None else bisect_left(self.numbers, rows + 1)
        if count != self.count:
            first = not self.count
            self.recount(count, count - 1 if self.tail and self.model.source.grows else None)
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
        if self.columns:
            text = heading(self.columns)
        else:
            time = self._form.time if self._time is None or self.zero_ns is not None else self._time.width
            text = f" {self._form.heading(time, CONNECTION)}"
        return Text(text, theme.HEAD, no_wrap=True, overflow="crop")

    def line(self, at: int) -> Text:
        row, form, width = self.model.rows[self.number_at(at)], self._form, self.scrollable_content_region.width - 1
        look = self.painter.look(row.number) if self.painter is not None else None
        text = Text(
            MARK if row.number in self.marks else " ", look.style if look else "", no_wrap=True, overflow="crop"
        )
        if self.columns:
            self._chosen(text, row)
            text.truncate(width, overflow="ellipsis")
            return text
        text.append(f"{row.number:>{form.number}} {self._when(row)} {f'#{row.connection}':<{CONNECTION}} ")
        self._way(text, row, form)
        worst = theme.SEVERITY.get(row.severity, "")
        text.append(pad(cut_middle(row.type, form.type), form.type), worst or theme.HEAD)
        latency = f"  ({row.latency_ns / 1e6:.3f} ms)" if row.latency_ns >= 0 else ""
        text.append(cut(f" {row.details}", width - text.cell_len - len(latency)), worst)
        return text.append(latency, theme.GENERATED)

    def _when(self, row: Row) -> str:
        """Its time, as the settings have it; but once ``t`` was pressed since that frame."""
        if self._time is not None and self.zero_ns is None:
            return self._time.cell(self, row)
        width = self._form.time
        return f"{self.since(row):{width}.{6 if width > 9 else 4}f}"

    def _chosen(self, text: Text, row: Row) -> None:
        """A line of the columns that the user has chosen."""
        worst = theme.SEVERITY.get(row.severity, "")
        styles = {"type": worst or theme.HEAD, "details": worst, "latency": theme.GENERATED}
        styles["arrow"] = theme.SIDE.get(row.sender or "", "")
        for name in self.columns:
            text.append(column(name).cell(self, row), styles.get(name, "")).append(" ")

    def since(self, row: Row) -> float:
        """Seconds since the first packet, or the frame that times count from."""
        zero = self.model.first_ns if self.zero_ns is None else self.zero_ns
        return (row.time_ns - zero) / 1e9

    def client(self, row: Row) -> int:
        """The side that is the client, as far as that is known."""
        return row.side if row.sender == "client" else 1 - row.side if row.sender else 0

    def arrow(self, row: Row) -> str:
        return "→" if row.side == self.client(row) else "←"

    def value(self, row: Row, name: str) -> str:
        """A field of a frame, once it is known."""
        look = self.painter.look(row.number) if self.painter is not None else None
        return look.values.get(name, "") if look is not None else ""

    def _way(self, text: Text, row: Row, form: Columns) -> None:
        """The arrow, and where there is room the addresses and the protocol."""
        client = self.client(row)
        arrow = (self.arrow(row), theme.SIDE.get(row.sender or "", ""))
        if form.address:
            seen = self.model.survey.activities.by_number.get(row.connection)
            ends = seen.connection.called if seen is not None else ("", "")
            text.append(f"{cut_middle(ends[client], form.address):<{form.address}} ").append(*arrow)
            text.append(f" {cut_middle(ends[1 - client], form.address):<{form.address}} ")
        else:
            text.append(*arrow).append(" ")
        if form.protocol:
            text.append(pad(cut(row.protocol, form.protocol), form.protocol) + " ")
