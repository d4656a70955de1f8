"""The columns of the list of frames that a user may choose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wiredecode.view.screen import MAX_TYPE, cut, cut_middle, pad

if TYPE_CHECKING:
    from wiredecode.ui.model import CaptureModel
    from wiredecode.ui.store import Row

FIELD = 20
"""Columns of a field."""


class Frames(Protocol):
    """What columns ask of the list of frames."""

    model: CaptureModel

    def since(self, row: Row) -> float: ...
    def client(self, row: Row) -> int: ...
    def arrow(self, row: Row) -> str: ...
    def value(self, row: Row, name: str) -> str: ...


class Column(NamedTuple):
    """One of them."""

    what: str
    width: int
    """0: all that is left."""
    text: Callable[[Frames, Row], str]
    right: bool = False

    def cell(self, frames: Frames, row: Row) -> str:
        """Its text, as wide as the column."""
        text = self.text(frames, row)
        if not self.width:
            return text
        return f"{text:>{self.width}}" if self.right else pad(cut_middle(text, self.width), self.width)


def _since(frames: Frames, row: Row) -> str:
    return f"{frames.since(row):.6f}"


def _latency(frames: Frames, row: Row) -> str:
    return f"{row.latency_ns / 1e6:.3f}" if row.latency_ns >= 0 else ""


def _delta(frames: Frames, row: Row) -> str:
    before = frames.model.rows[row.number - 1].time_ns if row.number > 1 else row.time_ns
    return f"{(row.time_ns - before) / 1e9:.6f}"


def _epoch(frames: Frames, row: Row) -> str:
    return f"{row.time_ns // 1000 / 1e6:.6f}"


def _clock(frames: Frames, row: Row) -> str:
    return f"{datetime.fromtimestamp(row.time_ns // 10**9).astimezone():%H:%M:%S}.{row.time_ns % 10**9 // 1000:06}"


def _number(number: int) -> str:
    return str(number) if number else ""


def _end(which: str) -> Callable[[Frames, Row], str]:
    def get(frames: Frames, row: Row) -> str:
        seen = frames.model.survey.activities.by_number.get(row.connection)
        ends = seen.connection.called if seen is not None else ("", "")
        side = {"src": row.side, "dst": 1 - row.side}.get(which, frames.client(row))
        return ends[1 - side] if which == "server" else ends[side]

    return get


COLUMNS = {
    "number": Column("number of the frame", 7, lambda frames, row: str(row.number), True),
    "time": Column("seconds since the first packet, or since t", 11, _since, True),
    "delta": Column("seconds since the frame before", 10, _delta, True),
    "clock": Column("time of day", 15, _clock),
    "epoch": Column("seconds since 1970", 17, _epoch, True),
    "connection": Column("number of the connection", 5, lambda frames, row: f"#{row.connection}"),
    "client": Column("address of the client", 21, _end("client")),
    "arrow": Column("from client to server or back", 1, lambda frames, row: frames.arrow(row)),
    "server": Column("address of the server", 21, _end("server")),
    "src": Column("address of the sender", 21, _end("src")),
    "dst": Column("address of the receiver", 21, _end("dst")),
    "sender": Column("client or server", 6, lambda frames, row: row.sender or ""),
    "protocol": Column("protocol", 15, lambda frames, row: cut(row.protocol, 15)),
    "type": Column("type of the message", MAX_TYPE, lambda frames, row: row.type),
    "length": Column("bytes on the wire", 9, lambda frames, row: str(row.length), True),
    "packet": Column("first packet that carries it", 8, lambda frames, row: _number(row.packet), True),
    "request": Column("frame that it answers", 7, lambda frames, row: _number(row.request), True),
    "response": Column("frame that answers it", 8, lambda frames, row: _number(row.response), True),
    "latency": Column("milliseconds since its request", 10, _latency, True),
    "details": Column("key facts and findings", 0, lambda frames, row: row.details),
}


TIMES = {"absolute": COLUMNS["clock"], "delta": COLUMNS["delta"], "epoch": COLUMNS["epoch"]}
"""What stands for seconds since the first packet where the setting ``time`` says so."""


def column(name: str) -> Column:
    """The column of that name, else that of a field."""
    known = COLUMNS.get(name)
    return known or Column("a field", FIELD, lambda frames, row: frames.value(row, name))


def heading(names: tuple[str, ...]) -> str:
    """The line above all others."""
    cells = []
    for name in names:
        one, head = column(name), "" if name == "arrow" else name
        width = one.width or len(head)
        cells.append(f"{head:>{width}}" if one.right else pad(cut_middle(head, width), width))
    return " " + " ".join(cells)
