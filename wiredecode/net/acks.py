"""What was acknowledged while something waits behind a hole: from then on the hole is one of the capture."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from wiredecode.net.limits import Limits
from wiredecode.net.serial import distance

END = 1 << 62
"""A position behind every other."""


class Acks:
    """Positions in a stream, each with the capture time at which so much was acknowledged; both rise."""

    __slots__ = ("_acked", "_base", "_grain", "_window")

    def __init__(self, base: int, offset: int, limits: Limits) -> None:
        """``base``: sequence number of stream offset 0; nothing before ``offset`` is of interest."""
        self._base = base
        self._grain, self._window = int(limits.hole_seconds * 1e6), limits.window_bytes
        self._acked = [(offset, 0)]

    def add(self, ack: int, clock: int) -> None:
        """All before sequence number ``ack`` was received, as was told at ``clock``."""
        acked = self._acked
        last = acked[-1][0]
        if last == END:
            return
        ahead = distance((self._base + last) & 0xFFFFFFFF, ack)
        if not 0 < ahead <= self._window:
            return
        if clock - acked[-1][1] < self._grain:  # a thousandth of the wait: so there are not many
            clock = acked.pop()[1]
        acked.append((last + ahead, clock))

    def end(self, clock: int) -> None:
        """The connection was reset: nobody acknowledges, or sends again, what is missing."""
        acked = self._acked
        while len(acked) > 1 and acked[-1][1] > clock:
            acked.pop()
        if acked[-1][0] != END:
            acked.append((END, clock))

    def since(self, position: int) -> int | None:
        """Capture time since which all before ``position`` is known to have been received."""
        acked = self._acked
        at = bisect_left(acked, (position, 0), 1)
        return acked[at][1] if at < len(acked) else None

    def forget(self, offset: int) -> None:
        """The stream reached ``offset``: what lies before is of no interest any more."""
        if len(self._acked) > 64:
            del self._acked[1 : bisect_left(self._acked, (offset, 0), 1)]


class AckHistory:
    """Positions in a stream that the other side had received although they were not captured yet, and since when."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: list[tuple[int, int]] = []

    def add(self, position: int, time_ns: int, offset: int) -> None:
        """All before ``position`` was received at ``time_ns``; what lies before ``offset`` is of no interest."""
        del self._since[: bisect_right(self._since, (offset, END))]
        if not self._since or position > self._since[-1][0]:
            self._since.append((position, time_ns))

    def since(self, offset: int, at_most: int) -> int:
        """Since when anything from ``offset`` on is known to have been received, or ``at_most``."""
        place = bisect_right(self._since, (offset, END))
        return min(self._since[place][1], at_most) if place < len(self._since) else at_most
