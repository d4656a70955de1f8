"""What the processes tell each other: the order of their frames, never the frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from queue import SimpleQueue
from threading import Thread

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

END = 1 << 62
"""Watermark of a process that has read everything."""


@dataclass(slots=True)
class Told:
    """What one batch of packets brought to one process; one row per frame in all columns but ``opened``."""

    watermark: int
    """Every frame to come has ``ready`` at or after this packet number."""
    opened: Int64s
    """First packets of its new connections."""
    ready: Int64s
    first: Int64s
    """First packet of the connection."""
    length: Int64s
    """Empty where requests do not wait for their responses, as is ``time_ns``."""
    time_ns: Int64s


class Gone(Exception):
    """Another process, or the one that started all, is not there any more."""


class Peers:
    """The other processes, as one of them sees them.

    Threads take what the others tell, so that nobody has to wait until it is heard.
    """

    def __init__(self, outgoing: list[Connection], incoming: list[Connection]) -> None:
        self.count = len(incoming)
        self.heard = [0] * self.count
        """Batches that each has told of."""
        self.marks = [0] * self.count
        """The last watermark of each."""
        self.told = 0
        self._outgoing = outgoing
        self._queue: SimpleQueue[tuple[int, Told | None]] = SimpleQueue()
        for peer, pipe in enumerate(incoming):
            Thread(target=self._listen, args=(peer, pipe), daemon=True).start()

    def _listen(self, peer: int, pipe: Connection) -> None:
        try:
            while True:
                self._queue.put((peer, pipe.recv()))
        except (EOFError, OSError):
            self._queue.put((peer, None))

    def tell(self, told: Told) -> None:
        """Tell all others. Raises :class:`Gone`, as :meth:`hear` does."""
        self.told += 1
        try:
            for pipe in self._outgoing:
                pipe.send(told)
        except OSError:
            raise Gone from None

    def hear(self, *, wait: bool) -> Iterator[Told]:
        """What the others told since the last time; with ``wait`` at least something."""
        while wait or not self._queue.empty():
            wait = False
            peer, told = self._queue.get()
            if told is None:
                if self.marks[peer] == END:
                    continue
                raise Gone
            self.heard[peer] += 1
            self.marks[peer] = told.watermark
            yield told

    @property
    def ahead(self) -> int:
        """By how many batches this process is ahead of the slowest that still reads."""
        heard = [count for count, mark in zip(self.heard, self.marks, strict=True) if mark != END]
        return self.told - min(heard, default=self.told)

    @property
    def watermark(self) -> int:
        """The lowest of the others."""
        return min(self.marks, default=END)


def pipes(count: int) -> list[list[tuple[Connection, Connection] | None]]:
    """A pipe from each of ``count`` processes (row) to each other (column): its reading and its writing end."""
    return [[None if one == other else Pipe(duplex=False) for other in range(count)] for one in range(count)]
