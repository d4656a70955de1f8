"""One line per frame for a terminal: columns chosen and cut to its width."""

import shutil
from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from wiredecode.frames.frame import OK, Frame
from wiredecode.protocols.registry import summary_keys
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.view import theme
from wiredecode.view.summary import SummaryLines, left_side, remarks, worst_of
from wiredecode.view.theme import paint
from wiredecode.view.times import USUAL, Times

ELLIPSIS = "…"
WIDE, WIDER, WIDEST = 100, 120, 160
"""From these widths on there is room for microseconds, for the protocol, and for addresses."""
ROOMY = 45
"""Details of this many columns always show the latency, narrower ones if the facts that distinguish messages fit."""
ADDRESS = 21
"""Columns of an address. Where there is no room for addresses the number of the connection identifies."""
MAX_TYPE = 24
CONNECTION = 4
NARROW_TIME = 9
"""Columns of seconds since the first packet, to a tenth of a millisecond."""
VALUE_WIDTHS = (1000, 40, 32, 24, 20, 16, 12)
"""Columns of a value, tried until the facts that distinguish messages fit."""
USUAL_WIDTH = 16
"""Columns of a value where that never fits: then the least telling is left out."""
OTHER_WIDTH = 24
"""Columns of the other values, where not all fits."""
OUTCOMES = frozenset({"response_code", "error_code", "error", "description", "reason", "closing_reason", "status"})
"""Values that say how it went: of them at least :data:`OUTCOME_WIDTH` columns are kept."""
OUTCOME_WIDTH = 32
FINDING_SHARE = 2
"""Findings get at most the details' width divided by this."""

MAX_NAMED = 4096
"""Connections that are remembered; another line about one of the others does not harm."""

Pair = tuple[str, str]


class ColumnWidths(NamedTuple):
    """Widths of the columns of a terminal; 0: left out."""

    number: int
    time: int
    address: int
    protocol: int
    type: int

    def heading(self, time: int, connection: int) -> str:
        """The names of all columns; of two, in the given width."""
        ends = f"{'client':<{self.address}}   {'server':<{self.address}} " if self.address else "  "
        protocol = f"{'protocol':<{self.protocol}} " if self.protocol else ""
        front = f"{'frame':>{self.number}} {'time':>{time}} {'conn':<{connection}} {ends}"
        return f"{front}{protocol}{'type':<{self.type}} details"


def columns(width: int, several: bool = True) -> ColumnWidths:
    """The columns for a terminal of ``width``; ``several``: lines of more than one protocol were written."""
    return ColumnWidths(
        number=7 if width >= WIDE else 5,
        time=11 if width >= WIDE else NARROW_TIME,
        address=ADDRESS if width >= WIDEST else 0,
        protocol=0 if width < WIDER or not several else 10 if width < WIDEST else 15,
        type=16 if width < WIDE else 20 if width < WIDER else MAX_TYPE,
    )


class ScreenLines:
    """Makes the lines of one capture for a terminal; none is wider than ``width()`` columns."""

    def __init__(
        self,
        *,
        color: bool = False,
        times: Times = USUAL,
        width: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._color, self._times, self._width = color, times, width
        self._lines = SummaryLines(times=times)
        self._protocol: str | None = None
        self._several = False
        self._named: Newest[int, str] = Newest(MAX_NAMED)
        """Connections whose ends were shown, and their protocol."""

    def header(self) -> str:
        """The line above all others."""
        width = self._width()
        form = columns(width, self._several)
        text = form.heading(form.time if self._times.is_usual else self._times.width, CONNECTION)
        return paint(cut(text, width), theme.HEAD, color=self._color) + "\n"

    def line(self, frame: Frame) -> str:
        """The line of ``frame``, with its newline; with the second protocol the column of protocols begins."""
        if frame.protocol and not self._several and frame.protocol != self._protocol:
            self._several, self._protocol = self._protocol is not None, frame.protocol
            if self._several and self._width() >= WIDER:
                return self.header() + self._line(frame)
        return self._line(frame)

    def ends(self, frame: Frame) -> str:
        """A line about a connection above its first frame, where lines have no room for its ends."""
        width, number = self._width(), frame.connection.number
        if width >= WIDEST or self._named.get(number) == frame.protocol:
            return ""
        self._named.put(number, frame.protocol)
        left, ends = left_side(frame), frame.connection.named_endpoints
        protocol = f"  {frame.protocol}" if frame.protocol else ""
        text = cut(f"{f'#{number}':<{CONNECTION}} {ends[left]} → {ends[1 - left]}{protocol}", width)
        return self._paint(text, theme.RANGE) + "\n"

    def _line(self, frame: Frame) -> str:
        width = self._width()
        form = columns(width, self._several)
        before, arrow, after = self._head(frame, form)
        kind = cut_middle(frame.shown_type, MAX_TYPE)
        room = width - cell_len(before) - 1 - cell_len(after) - max(form.type, cell_len(kind)) - 1
        if room < 1:
            return cut(f"{before}{arrow}{after}{kind}", width) + "\n"
        details, remarks = self._details(frame, room)
        worst = worst_of(frame)
        text = before + self._paint(arrow, theme.SIDE.get(frame.sender or "", "")) + after
        text += self._paint(kind, theme.SEVERITY[worst] if worst else theme.HEAD)
        text += " " * (form.type - cell_len(kind)) + (f" {details}" if details or remarks else "")
        return text.rstrip() + self._paint(remarks, theme.SEVERITY[worst] if worst else "") + "\n"

    def _paint(self, text: str, style: str) -> str:
        return paint(text, style, color=self._color)

    def _head(self, frame: Frame, form: ColumnWidths) -> tuple[str, str, str]:
        """The text before the arrow, the arrow, and the text between it and the type."""
        first_ns = frame.connection.capture_ns
        if self._times.is_usual:
            time = f"{(frame.time_ns - first_ns) / 1e9:{form.time}.{4 if form.time == NARROW_TIME else 6}f}"
        else:
            time = self._times.column(frame.time_ns, first_ns)
        before = f"{frame.number:>{form.number}} {time} {f'#{frame.connection.number}':<{CONNECTION}} "
        left, ends = left_side(frame), frame.connection.named_endpoints
        arrow, after = "→" if frame.side == left else "←", " "
        if form.address:
            texts = (cut_middle(ends[left], form.address), cut_middle(ends[1 - left], form.address))
            before += f"{texts[0]:<{form.address}} "
            after += f"{texts[1]:<{form.address}} "
        if form.protocol:
            after += pad(cut(frame.protocol or "-", form.protocol), form.protocol) + " "
        return before, arrow, after

    def _details(self, frame: Frame, room: int) -> tuple[str, str]:
        """Facts, then findings, in ``room`` columns."""
        pairs = self._pairs(frame)
        latency = f"  ({frame.latency_ns / 1e6:.3f} ms)" if frame.latency_ns is not None else ""
        whole = cell_len("".join(f" {name}={value}" for name, value in pairs)) - 1
        remarks = ""
        if frame.findings or frame.status != OK:
            remarks = _remarks(frame, max(room // FINDING_SHARE, room - whole))
            if pairs and pairs[0][0] in OUTCOMES and pairs[0][1].startswith('"') and worst_of(frame) == "note":
                needed = cell_len(_text(pairs[:1], OUTCOME_WIDTH))
                remarks = "" if room - cell_len(remarks) < needed <= room else remarks  # words say more than "refused"
        free, first = room - cell_len(remarks), self._first(frame, pairs)
        needed = min(cell_len(_text(pairs[:first], VALUE_WIDTHS[0])) + 3, whole)
        if latency and (free >= ROOMY or needed + len(latency) <= free):
            free -= len(latency)
        else:
            latency = ""
        return (fit(pairs, first, free) + latency).lstrip(), remarks

    def _pairs(self, frame: Frame) -> list[Pair]:
        """The key facts: those that distinguish messages, then others, then those of the frame around it."""
        own, carrier = self._lines.pairs(frame)
        order = {name: rank for rank, name in enumerate(summary_keys(frame.protocol))}
        own.sort(key=lambda pair: order.get(pair[0], len(order)))
        return own + carrier

    def _first(self, frame: Frame, pairs: list[Pair]) -> int:
        """Number of the pairs that distinguish messages."""
        names = summary_keys(frame.protocol)
        return next((index for index, (name, _) in enumerate(pairs) if name not in names), len(pairs))


def fit(pairs: list[Pair], first: int, width: int) -> str:
    """``name=value ...`` in ``width`` columns: shortens values until the ``first`` pairs fit, then omits pairs."""
    text = " ".join(f"{name}={value}" for name, value in pairs)
    if cell_len(text) <= width:
        return text
    texts = (_text(pairs[:first], limit) for limit in VALUE_WIDTHS)
    room = width - 2 * (first < len(pairs))
    text = next((text for text in texts if cell_len(text) <= room), _text(pairs[:first], USUAL_WIDTH))
    rest = _text(pairs[first:], OTHER_WIDTH)
    return cut(f"{text} {rest}" if text and rest else text + rest, width)


def _text(pairs: list[Pair], limit: int) -> str:
    widths = limit, max(limit, OUTCOME_WIDTH)
    return " ".join(f"{name}={cut_middle(value, widths[name in OUTCOMES])}" for name, value in pairs)


def cut(text: str, width: int) -> str:
    """At most ``width`` columns, an ellipsis at the end where something is left out."""
    if cell_len(text) <= width:
        return text
    return "" if width < 1 else set_cell_size(text, width - 1).rstrip(f" {ELLIPSIS}") + ELLIPSIS


def cut_middle(text: str, width: int) -> str:
    """At most ``width`` columns, an ellipsis in the middle if shortened: the ends distinguish names."""
    if cell_len(text) <= width:
        return text
    if width < 3:
        return cut(text, width)
    tail = (width - 1) // 2
    end = text[-tail:]
    while cell_len(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - cell_len(end)).rstrip() + ELLIPSIS + end


def pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _remarks(frame: Frame, width: int) -> str:
    """Status and findings; their codes, where there is no room for messages."""
    texts = [text for _, text in remarks(frame)]
    if cell_len("  ".join(["", *texts])) > width:
        codes = [f"[{finding.severity}: {finding.code}]" for finding in frame.findings]
        texts[len(texts) - len(codes) :] = codes
    return cut("  ".join(["", *texts]), width)
