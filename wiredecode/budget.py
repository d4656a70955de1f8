"""Limits the memory that one frame takes when it is read: few bytes can announce, or inflate to, many elements.

All decoders of a thread share ``BUDGET.own``, also those of fields inside fields, for they do not know of their frame.
"""

import threading

FRAME_BYTES = 32 * 1024 * 1024
"""Most that one frame may grow to: what is decompressed, and the elements of arrays."""
STRUCTURE_BYTES = 128
"""Counted for each structure in an array: it becomes an object with keys and values."""
PLAIN_BYTES = 16
"""Counted for each other element."""
CAREFUL_BYTES = 1024
"""Counted for each structure that is read with the ranges of its fields."""
TOO_MANY = f"more than {FRAME_BYTES >> 20} MiB of elements in one frame"


class Budget:
    """The rest for the frame that a thread reads; outside a frame each array is counted by itself."""

    __slots__ = ("in_frame", "remaining")

    def __init__(self) -> None:
        self.remaining, self.in_frame = FRAME_BYTES, False

    def begin(self) -> None:
        """A frame is read from now on, or again in another way."""
        self.remaining, self.in_frame = FRAME_BYTES, True

    def end(self) -> int:
        """The frame was read; return the bytes counted."""
        made, self.remaining, self.in_frame = FRAME_BYTES - self.remaining, FRAME_BYTES, False
        return made

    def spend(self, amount: int) -> None:
        """Count bytes that were made."""
        if self.in_frame:
            self.remaining -= amount

    def take(self, amount: int) -> bool:
        """Count elements to be made; False: there are too many, and they are not counted."""
        left = self.remaining - amount
        if self.in_frame and left >= 0:
            self.remaining = left
        return left >= 0


class _OfThread(threading.local):
    """Holds the budget of each thread: reading its attributes here would take several times as long."""

    def __init__(self) -> None:
        self.own = Budget()


BUDGET = _OfThread()
