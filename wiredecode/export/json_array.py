"""One JSON array, written element by element."""

from __future__ import annotations

from collections.abc import Callable


class JsonArray:
    """Writes ``begin``, the elements with commas between them, and ``end``."""

    def __init__(self, write: Callable[[bytes], object], begin: bytes = b"[", end: bytes = b"]\n") -> None:
        self._write, self._before, self._end = write, begin, end
        self._empty = True

    def add(self, element: bytes) -> None:
        """Write the next element, which ends without a newline."""
        self._write(self._before + element)
        self._before, self._empty = b",\n", False

    def close(self) -> None:
        """Write the end, also of an array without elements."""
        self._write(b"[]\n" if self._empty else self._end)
