"""A pane of lines with a cursor: lines are made as they come into view, however many there are."""

import os
from typing import ClassVar, Self

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from wiredecode.dataclasses import dataclass
from wiredecode.frames.escape import LIKE, escape
from wiredecode.ui import keys

CURSOR, UNFOCUSED = Style(reverse=True), Style(bold=True, underline=True)
"""Seen without colours, too."""
DISTANT = bool(os.environ.get("SSH_CONNECTION"))
"""Over a network half a page is scrolled at a time: a line is sent once, not with every key."""
THUMB, TRACK = "█", "│"
WHEEL = 3
"""Lines that a step of the mouse wheel scrolls."""


class Lines(ScrollView, can_focus=True):
    """Lines 0 to ``count``; subclasses define :meth:`line`, and call :meth:`recount` when there are more."""

    DEFAULT_CSS = """
    Lines { overflow: hidden hidden; }
    Lines:focus { border-title-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings("lines")]

    BAR: ClassVar[bool] = True
    """Whether the line with the cursor is highlighted."""

    @dataclass
    class Moved(Message):
        """The cursor of ``pane`` is on another line."""

        pane: "Lines"

    class Chosen(Message):
        """Enter, or a click on the line with the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as widgets call it
        super().__init__(id=id)
        self.cursor = 0
        self.count = 0
        self._drawn: dict[int, Strip] = {}
        """Last drawn strips, by line of the pane."""
        self._stale = False
        """Whether it may have changed since."""
        self.widest = 0
        """Columns of the widest line; 0: lines fit themselves into the pane."""

    def line(self, at: int) -> Text:
        raise NotImplementedError

    def recount(self, count: int, cursor: int | None = None) -> None:
        """There are other lines now."""
        self.count = count
        size = Size(self.widest, count)
        if size != self.virtual_size:  # not by assigning it: no new layout is needed
            self.set_reactive(ScrollView.virtual_size, size)
            self._scroll_update(size)
        self.move_to(self.cursor if cursor is None else cursor)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Only what has changed is drawn again: over a slow line each byte counts."""
        whole = not regions or regions == (self.size.region,)
        if not whole or layout or recompose or not repaint or not self._drawn:
            self._drawn = {} if whole else self._drawn
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if not self._stale:
            self._stale = True
            self.call_next(self._refresh_changed)  # once for all that one key changes
        return self

    def _refresh_changed(self) -> None:
        self._stale = False
        plain = self.rich_style  # it takes about as long as the line itself
        for y, before in list(self._drawn.items()):
            now = self._strip(y, plain)
            if now != before:
                begin, end = changed_columns(before, now)
                super().refresh(Region(begin, y, end - begin, 1))

    def render_line(self, y: int) -> Strip:
        strip = self._drawn[y] = self._strip(y, self.rich_style)
        return strip

    def _strip(self, y: int, plain: Style) -> Strip:
        left, top = self.scroll_offset
        at, width = top + y, self.scrollable_content_region.width
        scrollbar = self._clean(self._scrollbar(y, top)) if self.has_scrollbar else ""
        bar, width = Segment(scrollbar, plain), width - len(scrollbar)
        if not 0 <= at < self.count:
            return Strip([Segment(" " * width, plain), bar])
        try:
            text = self.line(at)
        except Exception as error:
            text = Text(escape(f"cannot be shown: {type(error).__name__}: {error}"), "red")
        if not text.spans:
            text.stylize(text.style)  # rich renders the style of the whole only beside that of parts
        cursor = (CURSOR if self.has_focus else UNFOCUSED) if self.BAR and at == self.cursor else None
        segments = [
            Segment(self._clean(each.text.rstrip("\n")), each.style)  # the last guard: nothing raw from the wire
            for each in text.render(self.app.console)
        ]
        strip = Strip(segments).crop(left, left + width).extend_cell_length(width)
        return Strip([*Segment.apply_style(strip, plain, cursor), bar]).simplify()

    @property
    def has_scrollbar(self) -> bool:
        """Whether the last column shows the scroll position."""
        return True

    def _clean(self, text: str) -> str:
        return in_ascii(escape(text)) if getattr(self.app, "ascii", False) else escape(text)

    def _scrollbar(self, y: int, top: int) -> str:
        """Where in all lines these are: one column, part of the lines, so that only what changes of it is sent."""
        height = self.scrollable_content_region.height
        if self.count <= height:
            return " "
        size = max(1, height * height // self.count)
        begin = round(top * (height - size) / max(1, self.count - height))
        return THUMB if begin <= y < begin + size else TRACK

    def move_to(self, at: int) -> None:
        """Put the cursor on line ``at``, or the nearest, and show it."""
        before, self.cursor = self.cursor, max(0, min(at, self.count - 1))
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if self.cursor < top or (height and self.cursor >= top + height):
            down = self.cursor - height + 1 if self.cursor >= top + height else self.cursor
            far = abs(self.cursor - before) > height or DISTANT
            self._scroll_lines(self.cursor - height // 2 if far else down)
        self.refresh()
        if self.cursor != before:
            self.moved()

    def _scroll_lines(self, top: int) -> None:
        """Line ``top`` is the first one shown."""
        self.scroll_to(y=max(0, top), animate=False, force=True)

    @on(events.MouseScrollDown)
    @on(events.MouseScrollUp)
    def _wheel(self, event: events.MouseEvent) -> None:
        event.stop()
        self._scroll_lines(self.scroll_offset.y + (WHEEL if isinstance(event, events.MouseScrollDown) else -WHEEL))

    def moved(self) -> None:
        """The cursor is on another line."""
        self.post_message(self.Moved(self))

    def action_move(self, step: int) -> None:
        self.move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        self.move_to(self.cursor + step * max(1, self.scrollable_content_region.height - 1))

    def action_edge(self, step: int) -> None:
        self.move_to(self.count - 1 if step > 0 else 0)

    def action_aside(self, step: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + 8 * step, animate=False, force=True)

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        row = event.y - self.content_region.y + self.region.y
        height = self.scrollable_content_region.height
        if event.x == self.size.width - 1 and self.count > height:  # the scroll bar
            self._scroll_lines((self.count - height) * row // max(1, height - 1))
            return
        at = self.scroll_offset.y + row
        if not 0 <= at < self.count:
            return
        if at == self.cursor and event.chain > 1:
            self.action_choose()
        self.move_to(at)

    @on(events.Focus)
    @on(events.Blur)
    def _redraw(self) -> None:
        self.refresh()


def in_ascii(text: str) -> str:
    """For terminals without other characters: as wide, with what is like them or question marks."""
    if text.isascii():
        return text
    text = text.translate(LIKE)
    return text if text.isascii() else "".join(each if each.isascii() else "?" * cell_len(each) for each in text)


def changed_columns(before: Strip, now: Strip) -> tuple[int, int]:
    """The columns in which a line is another one: all of them where characters are wide."""
    first, second = _cells(before), _cells(now)
    if len(first) != before.cell_length or len(second) != now.cell_length or len(first) != len(second):
        return 0, max(before.cell_length, now.cell_length)
    differing = [at for at, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1]]
    return (differing[0], differing[-1] + 1) if differing else (0, 0)


def _cells(strip: Strip) -> list[tuple[str, Style | None]]:
    return [(letter, segment.style) for segment in strip for letter in segment.text]


class TextLine(Widget):
    DEFAULT_CSS = "TextLine { height: 1; link-style: none; link-color: $foreground; link-background: $surface; }"

    def __init__(self, id: str) -> None:  # noqa: A002 - as widgets call it
        super().__init__(id=id)
        self.text = Text(no_wrap=True, overflow="ellipsis")

    def show(self, text: Text | str) -> None:
        """Show it, if it is another one."""
        shown = Text(escape(text)) if isinstance(text, str) else text
        if getattr(self.app, "ascii", False):
            shown = Text(in_ascii(shown.plain), shown.style, spans=shown.spans)
        shown.no_wrap, shown.overflow = True, "ellipsis"
        if shown != self.text or shown.spans != self.text.spans:
            self.text = shown
            self.refresh()

    def render(self) -> Text:
        """As wide as the line, so that its colours are."""
        text = self.text.copy()
        text.align("left", self.size.width)
        return text
