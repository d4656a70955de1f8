"""A pane of lines with a cursor: lines are made as they come into view, however many there are."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from wiredecode.frames.escape import escape

CURSOR, UNFOCUSED = Style(reverse=True), Style(bold=True, underline=True)
"""Seen without colours, too."""


class Lines(ScrollView, can_focus=True):
    """Lines 0 to ``count``; classes below say what :meth:`line` is, and tell by :meth:`recount` when there are more."""

    DEFAULT_CSS = """
    Lines { scrollbar-size: 0 1; }
    Lines:focus { border-title-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "page down", show=False),
        Binding("home,g", "edge(-1)", "first", show=False),
        Binding("end,G", "edge(1)", "last", show=False),
        Binding("left,h", "aside(-1)", "left", show=False),
        Binding("right,l", "aside(1)", "right", show=False),
        Binding("enter", "choose", "open", show=False),
    ]

    BAR: ClassVar[bool] = True
    """Whether the line with the cursor stands out."""

    class Moved(Message):
        """The cursor of ``pane`` is on another line."""

        def __init__(self, pane: Lines) -> None:
            super().__init__()
            self.pane = pane

    class Chosen(Message):
        """Enter, or a click on the line with the cursor."""

        def __init__(self, pane: Lines) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as widgets call it
        super().__init__(id=id)
        self.cursor = 0
        self.count = 0
        self.widest = 0
        """Columns of the widest line; 0: lines fit themselves into the pane."""

    def line(self, at: int) -> Text:
        """Line ``at``."""
        raise NotImplementedError

    def recount(self, count: int, cursor: int | None = None) -> None:
        """There are other lines now."""
        self.count = count
        self.virtual_size = Size(self.widest, count)
        self.move_to(self.cursor if cursor is None else cursor)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        at, width, plain = top + y, self.scrollable_content_region.width, self.rich_style
        if not 0 <= at < self.count:
            return Strip.blank(width, plain)
        try:
            text = self.line(at)
        except Exception as error:
            text = Text(escape(f"cannot be shown: {type(error).__name__}: {error}"), "red")
        bar = (CURSOR if self.has_focus else UNFOCUSED) if self.BAR and at == self.cursor else None
        segments = [
            Segment(escape(each.text.rstrip("\n")), each.style)  # the last guard: nothing raw from the wire
            for each in text.render(self.app.console)
        ]
        strip = Strip(segments).crop(left, left + width).extend_cell_length(width)

        return Strip(Segment.apply_style(strip, plain, bar))

    def move_to(self, at: int) -> None:
        """Put the cursor on line ``at``, or the nearest, and show it."""
        before, self.cursor = self.cursor, max(0, min(at, self.count - 1))
        height, top = self.scrollable_content_region.height, self.scroll_offset.y
        if self.cursor < top or (height and self.cursor >= top + height):
            down = self.cursor - height + 1 if self.cursor >= top + height else self.cursor
            far = abs(self.cursor - before) > height
            self.scroll_to(y=max(0, self.cursor - height // 2 if far else down), animate=False, force=True)
        self.refresh()
        if self.cursor != before:
            self.moved()

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
        self.scroll_to(x=self.scroll_offset.x + 8 * step, animate=False)

    def action_choose(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        at = self.scroll_offset.y + event.y - self.content_region.y + self.region.y
        if not 0 <= at < self.count:
            return
        if at == self.cursor and event.chain > 1:
            self.action_choose()
        self.move_to(at)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
