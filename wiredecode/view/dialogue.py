"""One connection as a dialogue: a block per message, answers below their requests."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from rich.text import Text

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import counted, escape
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.view import theme
from wiredecode.view.console import TextSink, tree_console
from wiredecode.view.hexdump import hexdump
from wiredecode.view.summary import MAX_FINDINGS, SummaryLines, left_side, remark
from wiredecode.view.theme import TreeOptions, paint
from wiredecode.view.values import body_text

SHOWN_BODIES = 3
"""Message bodies of a frame."""
NARROW, INDENT = 4, 2
"""Indentation of answers, and of the parts of a message."""


@dataclass(slots=True)
class DialogueExchange:
    """A message, and the answers to it that came while it waited for them."""

    frame: Frame
    answers: list[Frame] = field(default_factory=list)

    def waits(self, reached: float) -> bool:
        """Whether its answer is on its way: frames up to number ``reached`` have come."""
        response = self.frame.response
        return response is not None and not self.answers and response > reached


class DialogueExchanges:
    """Puts answers to their requests; frames between them come after both.

    Frames have to come from a dissector with ``link_responses``, so that a request has its answer and the wait
    is bounded. An answer whose request has been passed on is shown alone.
    """

    def __init__(self) -> None:
        self._waiting: deque[DialogueExchange] = deque()
        self._open: dict[int, DialogueExchange] = {}

    def frame(self, frame: Frame) -> Iterator[DialogueExchange]:
        """Take the next frame, give what is complete."""
        request = None if frame.request is None else self._open.get(frame.request)
        if request is not None:
            request.answers.append(frame)
        else:
            exchange = DialogueExchange(frame)
            self._waiting.append(exchange)
            self._open[frame.number] = exchange
        yield from self._give(frame.number)

    def rest(self) -> Iterator[DialogueExchange]:
        """Give everything: nothing more comes."""
        yield from self._give(inf)

    def _give(self, reached: float) -> Iterator[DialogueExchange]:
        waiting = self._waiting
        while waiting and not waiting[0].waits(reached):
            exchange = waiting.popleft()
            del self._open[exchange.frame.number]
            yield exchange


class DetailLine(NamedTuple):
    """One line below a message; its text is escaped."""

    text: str
    style: str = ""
    mark: str = ""


class Dialogue:
    """Writes the messages of one connection to ``output``.

    ``→`` is what the client says, ``←`` the server, each in its colour. ``messages``: what the dissector collects the
    bodies in; None where they are not wanted. ``guarded`` makes of what reads a frame what never fails.
    """

    def __init__(
        self,
        output: TextSink,
        options: TreeOptions,
        *,
        color: bool = False,
        terminal: bool = False,
        messages: Messages | None = None,
        guarded: Callable[[Callable[[Frame], Any]], Callable[[Frame], Any]] = lambda make: make,
    ) -> None:
        self._contents_of, self._dump_of = guarded(self._contents), guarded(self._dump)
        self._output, self._options, self._color, self._messages = output, options, color, messages
        self._console = tree_console(output, color=color, terminal=terminal)
        self._lines = SummaryLines()
        self._bodies: dict[int, Sequence[FrameMessages]] = {}
        self._left: int | None = None
        self._protocol = ""

    def show(self, frames: Iterable[Frame]) -> None:
        exchanges = DialogueExchanges()
        for frame in frames:
            if self._messages is not None and (parts := self._messages.of(frame)):
                self._bodies[frame.number] = parts
            for exchange in exchanges.frame(frame):
                self._exchange(exchange)
        for exchange in exchanges.rest():
            self._exchange(exchange)

    def _exchange(self, exchange: DialogueExchange) -> None:
        if self._left is None:
            self._head(exchange.frame)
        self._block(exchange.frame, answers=None)
        for answer in exchange.answers:
            self._block(answer, answers=exchange.frame)

    def _head(self, frame: Frame) -> None:
        """The heading with both endpoints."""
        self._left, self._protocol = left_side(frame), frame.protocol
        ends, roles = frame.connection.named_endpoints, ("client ", "server ") if frame.sender else ("", "")
        sides = (self._left, f"{roles[0]}{ends[self._left]} →"), (1 - self._left, f"{roles[1]}{ends[1 - self._left]} ←")
        name = f"Connection #{frame.connection.number}  {frame.protocol}".rstrip()
        fits = len("  ".join((name, *(text for _, text in sides)))) <= self._console.width
        texts, gap = "  ".join(self._paint(text, side) for side, text in sides), "  " if fits else "\n  "
        self._output.text(f"{paint(name, 'bold', color=self._color)}{gap}{texts}\n")

    def _block(self, frame: Frame, answers: Frame | None) -> None:
        """One message: a line that says what it is, below it what is in it."""
        when = self._options.times.column(frame.time_ns, frame.connection.capture_ns)
        margin = " " * (len(when) + INDENT + (NARROW if answers is not None else 0))
        protocol = f"{frame.protocol} " if frame.protocol not in ("", self._protocol) else ""
        arrow = "→" if frame.side == self._left else "←"
        head = self._paint(f"{arrow} {protocol}{frame.shown_type}", frame.side)
        number = paint(f"  frame {frame.number}", "dim", color=self._color)
        self._output.text(f"{when}{margin[len(when) :]}{head}{number}{self._remark(frame, answers)}\n")
        inner = margin + " " * INDENT
        if self._options.hexdump:
            margin = inner if self._console.width > len(inner) + 75 else margin[: NARROW if answers else 0]
            self._write_dump(self._dump_of(frame), margin)
        else:
            for line in self._contents_of(frame):
                self._text(line.text, inner, line.style, line.mark)
        for finding in frame.findings[:MAX_FINDINGS]:
            self._text(f"{finding.severity}: {remark(finding)}", inner, theme.SEVERITY[finding.severity])
        if len(frame.findings) > MAX_FINDINGS:
            self._text(f"{len(frame.findings) - MAX_FINDINGS} more findings", inner)

    def _remark(self, frame: Frame, answers: Frame | None) -> str:
        """Remark after the name: the request that it answers, the latency, and whether it is whole."""
        text = ""
        if frame.request is not None and answers is None:
            text += f"  answers frame {frame.request}"
        if frame.latency_ns is not None:
            text += f"  after {frame.latency_ns / 1e6:.3f} ms"
        if frame.status != OK and frame.type:
            missing = f", {frame.missing:,} bytes missing" if frame.missing else ""
            text += paint(f"  [{frame.status}{missing}]", theme.STATUS[frame.status], color=self._color)
        return text

    def _contents(self, frame: Frame) -> list[DetailLine]:
        """Key facts of a frame, and the bodies of its messages."""
        lines = [DetailLine(self._lines.facts(frame).strip())]
        bodies = [body for part in self._bodies.pop(frame.number, ()) for body in part.bodies]
        most = self._options.limit(SHOWN_BODIES)
        for body in bodies[:most]:
            text = "not captured" if body is None else body_text(body, self._options)
            lines.append(DetailLine(text.strip(), theme.VALUE, "| "))
        if most is not None and len(bodies) > most:
            more = counted(len(bodies) - most, "more message")
            lines.append(DetailLine(f"and {more} (--full shows all)", "dim", "| "))
        return lines

    def _dump(self, frame: Frame) -> Text:
        return hexdump(frame, frame.layer(frame.data) if frame.layer is not None else None, self._options)

    def _write_dump(self, text: Text, margin: str) -> None:
        if self._color:
            from rich.padding import Padding

            self._console.print(Padding(text, (0, 0, 0, len(margin)), expand=False))
        else:
            self._output.text("".join(f"{margin}{line}\n" for line in text.plain.splitlines()))

    def _text(self, text: str, margin: str, style: str = "", mark: str = "") -> None:
        """A text of several lines, where the terminal is narrow; it must be escaped."""
        room = max(self._console.width - len(margin) - len(mark), 20)
        lines = textwrap.wrap(text, room, break_on_hyphens=False) if len(text) > room else [text] if text else []
        self._output.text("".join(f"{margin}{mark}{paint(line, style, color=self._color)}\n" for line in lines))

    def _paint(self, text: str, side: int) -> str:
        return paint(text, theme.SIDE["client" if side == self._left else "server"], color=self._color)


def body_line(body: bytes | None, show: Callable[[bytes], str]) -> str:
    """A message body on its own line: escaped, and marked if it was not captured."""
    return "not captured" if body is None else escape(show(body))
