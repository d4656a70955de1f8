"""Rows of the list of frames, in files: memory stays small for any number of frames."""

import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools
from wiredecode.frames.frame import Frame
from wiredecode.view.summary import SummaryLines, remarks, worst_of

PAGE = 1 << 17
"""Rows that are searched at a time, and that the first map has room for."""
SEARCHED_ROWS = 4096
"""Frames whose texts are searched at a time."""
ROW = np.dtype(
    [
        *(("time_ns", "i8"), ("text", "i8"), ("packet", "i8"), ("latency_ns", "i8")),
        *(("connection", "u4"), ("length", "u4"), ("request", "u4"), ("response", "u4")),
        *(("kind", "u2"), ("side", "u1"), ("sender", "u1"), ("severity", "u1")),
    ]
)
"""``text``: where its details end in the file of texts. Numbers of frames count from 1, 0 is none."""
SENDERS = (None, "client", "server")
SEVERITIES = ("", "note", "warning", "error")

Rows = npt.NDArray[np.void]
Test = Callable[[Rows], Bools]


class FrameRow(NamedTuple):
    """One frame of the list."""

    number: int
    time_ns: int
    connection: int
    side: int
    sender: str | None
    protocol: str
    type: str
    """Type of the frame, or its status without one."""
    length: int
    packet: int
    request: int
    response: int
    latency_ns: int
    """-1: none."""
    severity: str
    details: str
    """Key facts and findings; escaped."""


class RowStore:
    """Rows 1 to ``count``; one thread adds, others read."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        """Rows that can be read: set last."""
        self.kinds: list[tuple[str, str]] = []
        """Protocol and type by number."""
        self._kind_numbers: dict[tuple[str, str], int] = {}
        self._file = (folder / "rows").open("w+b")
        self._texts = (folder / "texts").open("w+b")
        self._rows: Rows = np.empty(0, ROW)
        """The file, mapped; anew whenever it gets longer."""
        self._size = 0
        self._lines = SummaryLines()

    def close(self) -> None:
        """Close the files; the owner of the folder removes it."""
        self._rows = np.empty(0, ROW)
        self._file.close()
        self._texts.close()

    def add(self, frames: Iterable[Frame]) -> None:
        """Add the next frames, which are numbered on from ``count``."""
        rows: list[tuple[Any, ...]] = []
        texts: list[bytes] = []
        answers: dict[int, int] = {}
        for frame in frames:
            texts.append(self._details(frame).encode("utf-8", "backslashreplace"))
            self._size += len(texts[-1])
            rows.append(self._row(frame, self._size))
            requests = [confirmation.request for confirmation in frame.confirmations] or [frame.request or 0]
            answers |= dict.fromkeys((each for each in requests if 0 < each <= frame.number), frame.number)
        self._texts.write(b"".join(texts))
        self._texts.flush()
        count = self.count + len(rows)
        if count > len(self._rows):
            room = max(PAGE, 2 * len(self._rows), count)
            self._file.truncate(room * ROW.itemsize)
            self._rows = np.memmap(self._file, ROW, "r+", shape=(room,))
        self._rows[self.count : count] = np.array(rows, ROW)
        responses = self._rows["response"]
        for request, number in answers.items():
            responses[request - 1] = number
        self.count = count

    def _details(self, frame: Frame) -> str:
        return "  ".join([self._lines.facts(frame)[1:], *(text for _, text in remarks(frame, 3))])

    def _row(self, frame: Frame, size: int) -> tuple[Any, ...]:
        kind = frame.protocol or "-", frame.shown_type
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = min(len(self.kinds), 0xFFFF)
            if number == len(self.kinds):
                self.kinds.append(kind)
        return (
            *(frame.time_ns, size, frame.packets[0] if frame.packets else frame.packet_ready),
            *(-1 if frame.latency_ns is None else frame.latency_ns, frame.connection.number),
            *(min(frame.length, 0xFFFFFFFF), frame.request or 0, 0, number, frame.side, SENDERS.index(frame.sender)),
            SEVERITIES.index(worst_of(frame)),
        )

    def __getitem__(self, number: int) -> FrameRow:
        """The row of frame ``number``. Raises ``IndexError``."""
        if not 0 < number <= self.count:
            raise IndexError(number)
        row = dict(zip(ROW.names or (), self._rows[number - 1].item(), strict=True))
        protocol, kind = self.kinds[row.pop("kind")]
        sender, severity = SENDERS[row.pop("sender")], SEVERITIES[row.pop("severity")]
        begin, end = self._ends(number - 1), row.pop("text")
        details = os.pread(self._texts.fileno(), end - begin, begin).decode("utf-8", "replace")
        return FrameRow(number, protocol=protocol, type=kind, sender=sender, severity=severity, details=details, **row)

    def _ends(self, number: int) -> int:
        """Where the text of a frame ends, in bytes; of frame 0, where the first one begins."""
        return int(self._rows["text"][number - 1]) if number else 0

    def find(self, start: int, step: int, test: Test) -> int | None:
        """The frame next to ``start`` (not itself), forwards for ``step`` 1 and backwards for -1, that fits."""
        low, high = (start, self.count) if step > 0 else (0, start - 1)
        while low < high:
            begin, end = (low, min(low + PAGE, high)) if step > 0 else (max(low, high - PAGE), high)
            rows_there = np.flatnonzero(test(self._rows[begin:end]))
            if len(rows_there):
                return begin + int(rows_there[0 if step > 0 else -1]) + 1
            low, high = (end, high) if step > 0 else (low, begin)
        return None

    def search(self, start: int, word: str, step: int = 1) -> int | None:
        """The next frame after ``start``, for ``step`` -1 before it, with ``word`` in type or details, in any case."""
        wanted = word.lower()
        kinds = [number for number, kind in enumerate(self.kinds) if wanted in " ".join(kind).lower()]
        by_kind = self.find(start, step, lambda rows: np.isin(rows["kind"], kinds)) if kinds else None
        low, high = (start, by_kind or self.count) if step > 0 else (by_kind or 0, start - 1)
        while low < high:
            begin, end = (low, min(low + SEARCHED_ROWS, high)) if step > 0 else (max(low, high - SEARCHED_ROWS), high)
            frames = self._with_text(begin, end, wanted.encode())
            if frames:
                return frames[0 if step > 0 else -1]
            low, high = (end, high) if step > 0 else (low, begin)
        return by_kind

    def _with_text(self, begin: int, end: int, wanted: bytes) -> list[int]:
        """The frames after ``begin``, up to ``end``, whose details hold it."""
        ends = [self._ends(begin), *self._rows["text"][begin:end].tolist()]
        data = os.pread(self._texts.fileno(), ends[-1] - ends[0], ends[0]).lower()
        if wanted not in data:
            return []
        rows_there = enumerate(pairwise(each - ends[0] for each in ends), begin + 1)
        return [number for number, (first, last) in rows_there if data.find(wanted, first, last) >= 0]
