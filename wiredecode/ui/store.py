"""What the list of frames shows, a row per frame, in files: memory stays small however many frames there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools
from wiredecode.frames.frame import OK, Frame
from wiredecode.view.summary import SummaryLines, remark, status_text

PAGE_BITS = 17
PAGE = 1 << PAGE_BITS
"""Rows that are mapped at a time."""
SEARCH_BYTES = 1 << 20
"""Of the texts, that are searched at a time."""
STRETCH = 4096
"""Frames that are searched at a time where the last one is wanted."""
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
STATUS_SEVERITY = {"partial": 2, "undecoded": 2, "malformed": 3}

Rows = npt.NDArray[np.void]
Test = Callable[[Rows], Bools]


class Row(NamedTuple):
    """One frame of the list."""

    number: int
    time_ns: int
    connection: int
    side: int
    sender: str | None
    protocol: str
    type: str
    """Its type, or its status where it has none."""
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
        self._rows = (folder / "rows").open("w+b")
        self._texts = (folder / "texts").open("w+b", buffering=0)
        self._pages: list[Rows] = []
        self._size = 0
        self._lines = SummaryLines()

    def close(self) -> None:
        """Let go of the files; whoever made the folder removes it."""
        self._pages.clear()
        self._rows.close()
        self._texts.close()

    def add(self, frames: Iterable[Frame]) -> None:
        """Add the next frames, which are numbered on from ``count``."""
        rows: list[tuple[Any, ...]] = []
        texts: list[bytes] = []
        answers: dict[int, int] = {}
        size = self._size
        for frame in frames:
            text = self._details(frame).encode("utf-8", "backslashreplace")
            texts.append(text)
            size += len(text)
            rows.append(self._row(frame, size))
            for confirmation in frame.confirmations:
                answers[confirmation.request] = frame.number
            if frame.request is not None and not frame.confirmations:
                answers[frame.request] = frame.number
        if not rows:
            return
        self._texts.write(b"".join(texts))
        self._size = size
        self._put(np.array(rows, ROW))
        self._answer(answers)
        self.count += len(rows)

    def _details(self, frame: Frame) -> str:
        text = self._lines.facts(frame)[1:]
        if frame.status != OK and frame.type:
            text += f"  [{status_text(frame)}]"
        return text + "".join(f"  [{finding.severity}: {remark(finding)}]" for finding in frame.findings[:3])

    def _row(self, frame: Frame, size: int) -> tuple[Any, ...]:
        kind = frame.protocol or "-", frame.type or frame.status
        number = self._kind_numbers.get(kind)
        if number is None:
            number = self._kind_numbers[kind] = min(len(self.kinds), 0xFFFF)
            if number == len(self.kinds):
                self.kinds.append(kind)
        severity = max((SEVERITIES.index(each.severity) for each in frame.findings), default=0)
        return (
            *(frame.time_ns, size, frame.packets[0] if frame.packets else frame.packet_ready),
            *(-1 if frame.latency_ns is None else frame.latency_ns, frame.connection.number),
            *(min(frame.length, 0xFFFFFFFF), frame.request or 0, 0, number, frame.side, SENDERS.index(frame.sender)),
            max(severity, STATUS_SEVERITY.get(frame.status, 0)),
        )

    def _put(self, rows: Rows) -> None:
        done = 0
        while done < len(rows):
            at = self.count + done
            page, place = at >> PAGE_BITS, at & PAGE - 1
            if page == len(self._pages):
                self._rows.truncate((page + 1) * PAGE * ROW.itemsize)
                offset = page * PAGE * ROW.itemsize
                self._pages.append(np.memmap(self._rows, ROW, "r+", offset, (PAGE,)))
            part = rows[done : done + PAGE - place]
            self._pages[page][place : place + len(part)] = part
            done += len(part)

    def _answer(self, answers: dict[int, int]) -> None:
        for request, number in answers.items():
            if 0 < request <= number:
                self._pages[request - 1 >> PAGE_BITS]["response"][request - 1 & PAGE - 1] = number

    def __getitem__(self, number: int) -> Row:
        """The row of frame ``number``. Raises ``IndexError``."""
        if not 0 < number <= self.count:
            raise IndexError(number)
        row = self._raw(number)
        protocol, kind = self.kinds[row["kind"]]
        place = number, int(row["time_ns"]), int(row["connection"]), int(row["side"])
        counts = int(row["length"]), int(row["packet"]), int(row["request"]), int(row["response"])
        severity = SEVERITIES[row["severity"]]
        sender = SENDERS[row["sender"]]
        return Row(*place, sender, protocol, kind, *counts, int(row["latency_ns"]), severity, self._text(number))

    def _raw(self, number: int) -> Any:
        return self._pages[number - 1 >> PAGE_BITS][number - 1 & PAGE - 1]

    def _ends(self, number: int) -> int:
        """Where the text of a frame ends, in bytes; of frame 0, where the first one begins."""
        return int(self._raw(number)["text"]) if number else 0

    def _text(self, number: int) -> str:
        begin, end = self._ends(number - 1), self._ends(number)
        return os.pread(self._texts.fileno(), end - begin, begin).decode("utf-8", "replace")

    def find(self, start: int, step: int, test: Test) -> int | None:
        """The frame next to ``start`` (not itself), forwards for ``step`` 1 and backwards for -1, that fits."""
        at, count = start + step, self.count
        while 0 < at <= count:
            page = at - 1 >> PAGE_BITS
            low, high = page * PAGE, min((page + 1) * PAGE, count)
            begin, end = (at - 1, high) if step > 0 else (low, at)
            places = np.flatnonzero(test(self._pages[page][begin - low : end - low]))
            if len(places):
                return begin + int(places[0 if step > 0 else -1]) + 1
            at = high + 1 if step > 0 else low
        return None

    def search(self, start: int, word: str, step: int = 1) -> int | None:
        """The next frame behind ``start``, for ``step`` -1 before it, with ``word`` in type or details, in any case."""
        wanted = word.lower()
        kinds = [number for number, kind in enumerate(self.kinds) if wanted in " ".join(kind).lower()]
        by_kind = self.find(start, step, lambda rows: np.isin(rows["kind"], kinds)) if kinds else None
        by_text = (self._search_text if step > 0 else self._search_back)(start, wanted.encode())
        return (min if step > 0 else max)((each for each in (by_kind, by_text) if each is not None), default=None)

    def _search_back(self, start: int, wanted: bytes) -> int | None:
        """The last frame before ``start`` whose details hold it: each stretch is searched forwards."""
        high = min(start, self.count + 1)
        while high > 1:
            low, found = max(1, high - STRETCH), None
            at: int | None = low - 1
            while at is not None and (at := self._search_text(at, wanted, high - 1)) is not None:
                found = at
            if found is not None:
                return found
            high = low
        return None

    def _search_text(self, start: int, wanted: bytes, last: int = 0) -> int | None:
        """The first frame behind ``start``, up to ``last`` or the end."""
        count = last or self.count
        at, stop = self._ends(min(start, count)), self._ends(count)
        while at < stop:
            data = os.pread(self._texts.fileno(), min(SEARCH_BYTES, stop - at), at).lower()
            place = data.find(wanted)
            while place >= 0:
                number = self._frame_at(at + place, start, count)
                if at + place + len(wanted) <= self._ends(number):  # not across two of them
                    return number
                place = data.find(wanted, place + 1)
            if at + len(data) >= stop:
                break
            at += max(1, len(data) - len(wanted) + 1)
        return None

    def _frame_at(self, place: int, low: int, high: int) -> int:
        """The frame whose text holds the byte at ``place``: behind ``low``, up to ``high``."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._ends(middle) <= place else (low, middle)
        return high
