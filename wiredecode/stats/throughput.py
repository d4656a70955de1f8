"""Messages by topic and time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from wiredecode.frames.message import FrameMessages
from wiredecode.protocols.registry import protocols
from wiredecode.stats.tables import FITTING, fitting

MOST_CELLS = 65_536
"""Topics times intervals that are counted separately, if the interval is not given: beyond it, it gets longer."""
MOST_TOPICS = 20_000
OTHERS = "(others)"
"""All topics beyond these."""
SECOND_NS = 1_000_000_000
Key = tuple[str, str | None, str, int]


class Throughput:
    """``interval`` in seconds; None: one that fits."""

    def __init__(self, interval: int | None) -> None:
        self._fits = interval is None
        self._interval = interval or FITTING[0]
        self._cells: dict[Key, list[int]] = {}
        """By protocol, topic, operation and second: messages, those of known size, and the bytes of the latter."""
        self._topics: set[tuple[str, str | None, str]] = set()
        self._first_ns: int | None = None
        self._last_ns = 0
        self._begins = tuple(dict.fromkeys(begin for one in protocols() for begin in one.reply_topics))

    def add(self, part: FrameMessages) -> None:
        """Add the messages of the next frame, or some of its messages."""
        known = [len(body) for body in part.bodies if body is not None]
        where = part.frame.time_ns, part.frame.protocol, part.topic, part.operation
        self.count(*where, part.count, len(known), sum(known))

    def count(
        self, time_ns: int, protocol: str, topic: str | None, operation: str, messages: int, known: int, size: int
    ) -> None:
        """Count messages, those of ``known`` size, and the bytes of the latter."""
        if self._first_ns is None or time_ns < self._first_ns:
            self._first_ns = time_ns
        if time_ns > self._last_ns:
            self._last_ns = time_ns
        start = time_ns // SECOND_NS
        key = protocol, topic, operation, start - start % self._interval
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cell(*key)
        cell[0] += messages
        cell[1] += known
        cell[2] += size

    def _cell(self, protocol: str, topic: str | None, operation: str, start: int) -> list[int]:
        for begin in self._begins:
            if topic is not None and (at := f".{topic}".find(f".{begin}")) >= 0:
                topic = f"{topic[:at]}{begin}*"
        if (protocol, topic, operation) not in self._topics:
            if len(self._topics) < MOST_TOPICS:
                self._topics.add((protocol, topic, operation))
            else:
                topic = OTHERS
        while self._fits and len(self._cells) > MOST_CELLS and self._lengthen():
            start -= start % self._interval
        return self._cells.setdefault((protocol, topic, operation, start), [0, 0, 0])

    def _lengthen(self, least: int = 0) -> bool:
        """Continue with the next interval that is a multiple, of ``least`` seconds or more; False if there is none."""
        longer = (each for each in FITTING if each > self._interval and each >= least and not each % self._interval)
        if not (interval := next(longer, 0)):
            return False
        self._interval = interval
        cells, self._cells = self._cells, {}
        for (protocol, topic, operation, start), counts in cells.items():
            cell = self._cells.setdefault((protocol, topic, operation, start // interval * interval), [0, 0, 0])
            for place, count in enumerate(counts):
                cell[place] += count
        return True

    def rows(self) -> Iterator[dict[str, Any]]:
        """The table, in any order; nothing more comes."""
        fits = fitting(self._last_ns - (self._first_ns or 0))
        if self._fits and self._cells and self._interval < fits:
            self._lengthen(fits)
        for (protocol, topic, operation, start), (messages, known, size) in self._cells.items():
            yield {
                "protocol": protocol,
                "topic": topic,
                "operation": operation,
                "start": datetime.fromtimestamp(start, UTC),
                "messages": messages,
                "bytes": size if known else None,
                "messages_per_s": messages / self._interval,
                "bytes_per_s": size / self._interval if known else None,
            }
