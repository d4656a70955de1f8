"""A thread that writes, while the next rows are made: Arrow and its codecs let Python go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")

ROOM = 4
"""Items wait to be written, or are being written, up to so much of their size."""

ENDS = 8
"""How often the end may be waited for; an interrupt can come in between."""


class Background(Generic[Item]):
    """Hands items to ``write``, in order, in a thread of its own.

    ``size`` tells how much of :data:`ROOM` an item takes; a larger one takes all. What ``write`` raises is raised by
    the next :meth:`put`, or by :meth:`finish`. Use it where writing cannot block for ever, for nothing interrupts it.
    An interrupt may reach the caller at any moment: the queues are in C, so it leaves no lock behind.
    """

    def __init__(self, write: Callable[[Item], object], size: Callable[[Item], int]) -> None:
        self._write, self._size = write, size
        self._items: SimpleQueue[tuple[Item, int] | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._free(ROOM)
        self._failure: BaseException | None = None
        self._given_up = False
        self._ended: SimpleQueue[None] = SimpleQueue()
        """Not :meth:`Thread.join`: after an interrupt it takes a thread that still runs for one that has ended."""
        Thread(target=self._run, name="writer", daemon=True).start()

    def put(self, item: Item) -> None:
        """Have an item written after those before; wait until there is room for it."""
        size = min(self._size(item), ROOM)
        for _ in range(size):
            self._room.get()
        self._raise()
        self._items.put((item, size))

    def finish(self) -> None:
        """Wait until all is written."""
        self._end()
        self._raise()

    def give_up(self) -> None:
        """Drop what waits; nothing is written any more when this returns."""
        self._given_up = True
        self._end()

    def _end(self) -> None:
        self._items.put(None)
        self._ended.get()

    def _free(self, size: int) -> None:
        for _ in range(size):
            self._room.put(None)

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while (found := self._items.get()) is not None:
            item, size = found
            del found
            if self._failure is None and not self._given_up:
                try:
                    self._write(item)
                except BaseException as error:  # raised where the items come from
                    self._failure = error
            del item  # its memory is free before there is room again
            self._free(size)
        for _ in range(ENDS):
            self._ended.put(None)
