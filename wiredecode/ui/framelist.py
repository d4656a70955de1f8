"""The list of frames: all frames, or those that match a filter; colour rules and columns of fields of those in view."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import events

from wiredecode.filter import compile_filter
from wiredecode.filter.model import Field
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import label
from wiredecode.settings import Settings
from wiredecode.ui.jobs import Job
from wiredecode.ui.lines import Lines
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.store import FrameRow
from wiredecode.view import theme
from wiredecode.view.colors import ColorRules
from wiredecode.view.screen import MAX_TYPE, columns, cut, cut_middle, pad
from wiredecode.view.times import seconds_text

MAX_LOOKS = 8192
"""Frames whose look is remembered."""
NEAR = 64
"""Frames between two that are wanted which are read with them."""
MAX_CHARACTERS = 60


class Look(NamedTuple):
    """Style and field values of a frame in the list."""

    style: str
    """Style of the first colour rule that fits, or ""."""
    values: Mapping[str, str]
    """Values of columns that are fields, by name."""


NOTHING = Look("", {})


class ListSettings:
    """Rules and fields of the settings. ``problem``: error of a rule or field, which is ignored."""

    def __init__(self, settings: Settings, columns: Sequence[str]) -> None:
        self._rules = ColorRules(settings)
        self.problem = self._rules.problem
        self._fields: dict[str, Field] = {}
        if columns:
            from wiredecode.filter.names import Names

            names = Names()
            fields = {name: field for name in columns if (field := names.find(name)) is not None and not field.secret}
            for name in columns:
                if name not in fields:
                    self.problem = escape(f"no column is called {name}")
            self._fields = fields
        texts = [*self._rules.filters, *self._fields]
        self.select = compile_filter(" || ".join(f"({text})" for text in texts)) if texts else None
        """Fits what has another look than others; None: nothing has."""

    def of(self, frame: Frame) -> Look:
        values = {name: _text(field, frame) for name, field in self._fields.items()}
        return Look(self._rules.style(frame), values)


def _text(field: Field, frame: Frame) -> str:
    values = [each for each in field.get(frame) if not isinstance(each, dict | list)]
    shown = (each.hex() if isinstance(each, bytes) else str(each) for each in values[:4])
    return shorten(escape(", ".join(shown) + (", …" if len(values) > 4 else "")), MAX_CHARACTERS)


class Painter:
    """Reads the frames in view, in the background; whenever some looks are known, a job calls ``painted``."""

    def __init__(self, model: CaptureModel, looks: ListSettings, painted: Callable[[], object]) -> None:
        self._reading, self._looks, self._painted = model, looks, painted
        self._kept: OrderedDict[int, Look] = OrderedDict()
        self._wanted: tuple[int, ...] = ()
        self._turn = Lock()

    def look(self, number: int) -> Look | None:
        """The look of a frame; None: not known yet."""
        return self._kept.get(number)

    def want(self, numbers: Sequence[int]) -> None:
        """Ask for the looks of frames in view."""
        missing = tuple(number for number in numbers if number not in self._kept)
        if missing != self._wanted:
            self._wanted = missing
            Job("looks", lambda job: self._paint(missing), lambda job: None)

    def close(self) -> None:
        """The screen is closed; the threads end soon."""
        self._wanted = ()

    def _paint(self, wanted: tuple[int, ...]) -> None:
        with self._turn:
            for first, last in ranges_of(wanted):
                if wanted is not self._wanted:
                    return
                looks: dict[int, Look] = dict.fromkeys(range(first, last + 1), NOTHING)
                try:
                    for frame in self._reading.between(first, last, self._looks.select):
                        looks[frame.number] = self._looks.of(frame)
                        if not self._wanted:
                            return
                except Exception as error:
                    self._looks.problem = escape(f"colours: {type(error).__name__}: {error}")
                self._kept |= looks
                while len(self._kept) > MAX_LOOKS:
                    self._kept.popitem(last=False)
                self._painted()


def ranges_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of those that lie near each other."""
    if not numbers:
        return []
    cuts = [at for at, (number, following) in enumerate(pairwise(numbers), 1) if following - number > NEAR]
    bounds = [0, *cuts, len(numbers)]
    return [(numbers[begin], numbers[end - 1]) for begin, end in pairwise(bounds)]


CONNECTION = 5
"""Columns of the number of the connection."""
MARK, OUTSIDE = "*", "+"
FIELD = 20


class Column(NamedTuple):
    description: str
    width: int
    """0: all that is left."""
    text: Callable[[FrameList, FrameRow], str]
    right: bool = False

    def cell(self, frames: FrameList, row: FrameRow) -> str:
        """Text of a frame, as wide as the column."""
        text = self.text(frames, row)
        if not self.width:
            return text
        return f"{text:>{self.width}}" if self.right else pad(cut_middle(text, self.width), self.width)


def _delta(frames: FrameList, row: FrameRow) -> str:
    before = frames.model.rows[row.number - 1].time_ns if row.number > 1 else row.time_ns
    return seconds_text(row.time_ns - before)


def _clock(frames: FrameList, row: FrameRow) -> str:
    return f"{datetime.fromtimestamp(row.time_ns // 10**9).astimezone():%H:%M:%S}.{row.time_ns % 10**9 // 1000:06}"


def _milliseconds(row: FrameRow) -> str:
    return f"{row.latency_ns / 1e6:.3f}" if row.latency_ns >= 0 else ""


COLUMNS = {
    "number": Column("number of the frame", 7, lambda frames, row: str(row.number), True),
    "time": Column(
        "seconds since the first packet, or since t", 11, lambda frames, row: f"{frames.since(row):.6f}", True
    ),
    "delta": Column("seconds since the frame before", 10, _delta, True),
    "clock": Column("time of day", 15, _clock),
    "epoch": Column("seconds since 1970", 17, lambda frames, row: f"{row.time_ns // 1000 / 1e6:.6f}", True),
    "connection": Column("number of the connection", 5, lambda frames, row: f"#{row.connection}"),
    "client": Column("address of the client", 21, lambda frames, row: frames.end(row, frames.client(row))),
    "arrow": Column("from client to server or back", 1, lambda frames, row: frames.arrow(row)),
    "server": Column("address of the server", 21, lambda frames, row: frames.end(row, 1 - frames.client(row))),
    "src": Column("address of the sender", 21, lambda frames, row: frames.end(row, row.side)),
    "dst": Column("address of the receiver", 21, lambda frames, row: frames.end(row, 1 - row.side)),
    "sender": Column("client or server", 6, lambda frames, row: row.sender or ""),
    "protocol": Column("protocol", 15, lambda frames, row: cut(row.protocol, 15)),
    "type": Column("type of the message", MAX_TYPE, lambda frames, row: row.type),
    "length": Column("bytes on the wire", 9, lambda frames, row: str(row.length), True),
    "packet": Column("first packet that carries it", 8, lambda frames, row: str(row.packet or ""), True),
    "request": Column("frame that it answers", 7, lambda frames, row: str(row.request or ""), True),
    "response": Column("frame that answers it", 8, lambda frames, row: str(row.response or ""), True),
    "latency": Column("milliseconds since its request", 10, lambda frames, row: _milliseconds(row), True),
    "details": Column("key facts and findings", 0, lambda frames, row: row.details),
}

TIMES = {"absolute": COLUMNS["clock"], "delta": COLUMNS["delta"], "epoch": COLUMNS["epoch"]}
"""Columns that replace seconds since the first packet, by the setting ``time``."""


def column(name: str) -> Column:
    """The column of that name, else that of a field."""
    declared = COLUMNS.get(name)
    return declared or Column("a field", FIELD, lambda frames, row: frames.value(row, name))


def heading(names: tuple[str, ...]) -> str:
    """The line above all others."""
    cells = []
    for name in names:
        declared, head = column(name), "" if name == "arrow" else name
        width = declared.width or len(head)
        cells.append(f"{head:>{width}}" if declared.right else pad(cut_middle(head, width), width))
    return " " + " ".join(cells)


def details(row: FrameRow, width: int) -> str:
    """Key facts and findings in ``width`` columns; key facts are cut first, to a half."""
    facts, begins, problems = f" {row.details}".partition("  [") if row.severity else (f" {row.details}", "", "")
    facts = cut(facts, max(width // 2, width - cell_len(begins + problems)))
    return cut(facts + begins + problems, width)


class FrameList(Lines):
    """A line per frame. ``numbers``: of the frames shown; None: of all."""

    def __init__(self, model: CaptureModel, settings: Settings) -> None:
        super().__init__(id="frames")
        self.model = model
        self.columns: tuple[str, ...] = ()
        """Columns that the user chose; empty: as many as fit."""
        self._time: Column | None = None
        """Another time than seconds since the first packet."""
        self.looks = ListSettings(Settings(), ())
        self.painter: Painter | None = None
        self.use(settings)
        self.numbers: array[int] | None = None
        self.outside: set[int] = set()
        """Frames shown that do not match the filter, because a jump led to them."""
        self._here = 0
        """The frame under the cursor when it moved last."""
        self.marks: set[int] = set()
        self.zero = 0
        """Times count from this frame; 0: since the first packet."""
        self.tail = model.live
        """Whether the cursor stays on the last frame when more come."""
        self.held = False
        """Whether frames that come are not shown yet."""
        self._form = columns(80)

    def on_resize(self, event: events.Resize) -> None:
        self._fit()
        self.refresh()  # lines may have been drawn before the width was known

    def _fit(self) -> None:
        """Choose columns for the width: that of the protocol once there are two."""
        several = len({protocol for protocol, _ in self.model.rows.kinds}) > 1
        form = columns(self.size.width, several)
        if form != self._form:
            self._form = form
            self.refresh()

    def use(self, settings: Settings) -> None:
        """Columns and colours as the user wants them."""
        self.close()
        self.columns = settings.columns or ()
        self._time = TIMES.get(settings.time or "")
        self.looks = ListSettings(settings, [name for name in self.columns if name not in COLUMNS])
        if self.looks.select is not None:
            self.painter = Painter(self.model, self.looks, lambda: self.call_later(self.refresh))
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
        self._fit()
        count = rows if self.numbers is None else bisect_left(self.numbers, rows + 1)
        if count != self.count:
            first, cursor = not self.count, None
            if self.tail and self.model.source.grows:
                cursor = count - 1
            elif self.numbers is not None and self.outside:  # frames may have come before it
                cursor = bisect_left(self.numbers, self._here)
            self.recount(count, cursor)
            if first:
                self.moved()

    def moved(self) -> None:
        self.tail, self._here = self.cursor == self.count - 1, self.number
        super().moved()

    def show(self, numbers: array[int] | None) -> None:
        """Show other frames; the cursor stays on its frame, or goes to the next one shown."""
        here, tail, held = self.number, self.tail, self.held
        for number in self.outside:
            assert self.numbers is not None  # else nothing is outside
            self.numbers.remove(number)
        self.outside = set()
        self.numbers, self.count, self.held = numbers, 0, False
        self.update()
        self.go_to(here, near=True)
        self.tail, self.held = tail, held

    def go_to(self, number: int, *, near: bool = False) -> bool:
        """Put the cursor on frame ``number``; False: it is not shown."""
        at = number - 1 if self.numbers is None else bisect_left(self.numbers, number)
        shown = 0 <= at < self.count and self.number_at(at) == number
        if shown or near:
            self.move_to(at)
        return shown

    def admit(self, number: int) -> None:
        """Show frame ``number`` among those of the filter, which it does not match."""
        if self.numbers is not None:
            self.outside.add(number)
            insort(self.numbers, number)
            self.update()
            self.go_to(number)

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
            time = self._form.time if self._time is None or self.zero else self._time.width
            text = f" {self._form.heading(time, CONNECTION)}"
        return Text(text, theme.HEAD, no_wrap=True, overflow="crop")

    def line(self, at: int) -> Text:
        row, form, width = self.model.rows[self.number_at(at)], self._form, self.scrollable_content_region.width - 1
        worst, side = theme.SEVERITY.get(row.severity, ""), theme.SIDE.get(row.sender or "", "")
        mark = MARK if row.number in self.marks else OUTSIDE if row.number in self.outside else " "
        text = Text(mark, self._look(row).style, no_wrap=True, overflow="crop")
        if self.columns:
            styles = {"type": worst or theme.HEAD, "details": worst, "latency": theme.GENERATED, "arrow": side}
            for name in self.columns:
                text.append(column(name).cell(self, row), styles.get(name, "")).append(" ")
            text.truncate(width, overflow="ellipsis")
            return text
        text.append(f"{row.number:>{form.number}} {self._when(row)} {f'#{row.connection}':<{CONNECTION}} ")
        client, arrow = self.client(row), (self.arrow(row), side)
        if form.address:
            ends = (f"{cut_middle(self.end(row, each), form.address):<{form.address}}" for each in (client, 1 - client))
            text.append(f"{next(ends)} ").append(*arrow).append(f" {next(ends)} ")
        else:
            text.append(*arrow).append(" ")
        if form.protocol:
            text.append(pad(cut(row.protocol, form.protocol), form.protocol) + " ")
        text.append(pad(cut_middle(row.type, form.type), form.type), worst or theme.HEAD)
        latency = f"  ({_milliseconds(row)} ms)" if row.latency_ns >= 0 else ""
        text.append(details(row, width - text.cell_len - len(latency)), worst)
        return text.append(latency, theme.GENERATED)

    def _when(self, row: FrameRow) -> str:
        """Time of a frame, in the form of the settings, or since the frame where ``t`` was pressed."""
        if self._time is not None and not self.zero:
            return self._time.cell(self, row)
        width = self._form.time
        return f"{self.since(row):{width}.{6 if width > 9 else 4}f}"

    def since(self, row: FrameRow) -> float:
        """Seconds since the first packet, or the frame that times count from."""
        zero_ns = self.model.rows[self.zero].time_ns if self.zero else self.model.first_ns
        return (row.time_ns - zero_ns) / 1e9

    def times(self) -> str:
        """The meaning of the times in the list."""
        if self.zero:
            return f"time since frame {self.zero:,}: t ends"
        if self.columns or self._time is None:
            return "time since start"
        return self._time.description

    def client(self, row: FrameRow) -> int:
        """The side that is the client, as far as that is known."""
        return row.side if row.sender == "client" else 1 - row.side if row.sender else 0

    def arrow(self, row: FrameRow) -> str:
        return "→" if row.side == self.client(row) else "←"

    def end(self, row: FrameRow, side: int) -> str:
        """The address of one side of its connection."""
        seen = self.model.survey.activities.by_number.get(row.connection)
        return seen.connection.named_endpoints[side] if seen is not None else ""

    def who(self) -> str:
        """The connection under the cursor and its client: ``#5 report-export``."""
        if not self.count:
            return ""
        row = self.model.rows[self.number]
        seen = self.model.survey.activities.by_number.get(row.connection)
        name = escape(label(seen.connection)) if seen is not None else ""
        return f"#{row.connection} {name or self.end(row, self.client(row))}".rstrip()

    def value(self, row: FrameRow, name: str) -> str:
        """A field of a frame, once it is known."""
        return self._look(row).values.get(name, "")

    def _look(self, row: FrameRow) -> Look:
        return (self.painter.look(row.number) if self.painter is not None else None) or NOTHING
