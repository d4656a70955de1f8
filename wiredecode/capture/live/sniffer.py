"""A live capture on its way: a thread empties the source and saves, the caller decodes what it is handed.

Between them waits at most `QUEUE_BYTES`. When decoding is too slow for longer than that, either the source has to wait
(and the kernel counts what it drops), or, when packets are saved too, they go into the file only, which is counted
here: a file without gaps is worth more than frames on a screen.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Condition, Thread

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import CaptureInfo
from wiredecode.capture.live.pcapng_writer import CaptureWriter, Rotation, Statistics
from wiredecode.capture.live.source import LiveSource
from wiredecode.capture.reader import IDLE_SECONDS, NOTHING
from wiredecode.dataclasses import dataclass

QUEUE_BYTES = 32 * 1024 * 1024
END_SECONDS = 3.0
"""After the end, waiting packets are decoded for this long; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of the packets that passed the capture filter."""

    received: int
    """Seen by the kernel; read, or dropped by it."""
    dropped: int
    """By the kernel: its buffer was full."""
    skipped: int
    """Read (and saved) but not decoded: decoding was too slow."""
    saved: int


class Sniffer:
    """The packets of a live source, to be iterated once; an empty batch means that none has come for a while.

    Iterating ends after `stop` or ``duration`` seconds, and raises CaptureError where the source or saving
    fails. Always `close` it.
    """

    def __init__(self, source: LiveSource, *, duration: float | None = None) -> None:
        self._source, self._duration = source, duration
        self.info = CaptureInfo([source.info], source.info.interfaces)
        self.bytes_read = 0
        self.bytes_total: int | None = None
        self.saving: CaptureWriter | None = None
        self._start_ns = time.time_ns()
        self._queue: deque[PacketBatch] = deque()
        self._queued = self._skipped = 0
        self._changed = Condition()
        self._error: Exception | None = None
        self._reading = self._closed = self._ended = False
        self._overdue: float | None = None
        """After the end: when what waits is given up."""
        self._thread = Thread(target=self._read, name="capture", daemon=True)

    def save(self, path: Path, rotation: Rotation) -> None:
        """Save to ``path`` as well; before iterating. Raises OSError."""
        self.saving = CaptureWriter(path, rotation, self._statistics)

    @property
    def counts(self) -> Counts:
        received, dropped = self._source.counts()
        return Counts(received, dropped, self._skipped, self.saving.packets if self.saving else 0)

    def __iter__(self) -> Iterator[PacketBatch]:
        self._reading = True
        self._thread.start()
        while (batch := self._next()) is not None:
            yield batch
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Take nothing more in; what is in still comes out."""
        if self._overdue is None:
            self._overdue = time.monotonic() + END_SECONDS
        self._source.stop()

    def close(self) -> None:
        """End everything, in any state."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._source.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._end()

    def _next(self) -> PacketBatch | None:
        """The next batch; empty if nothing comes for a while, None at the end."""
        with self._changed:
            if not self._queue and self._reading:
                self._changed.wait(IDLE_SECONDS)
            if self._overdue is not None and time.monotonic() > self._overdue:
                self._skipped += sum(map(len, self._queue))
                self._queue.clear()
                self._queued = 0
                self._changed.notify_all()
            if not self._queue:
                return NOTHING if self._reading else None
            batch = self._queue.popleft()
            self._queued -= len(batch.buffer)
            self._changed.notify_all()
            return batch

    def _read(self) -> None:
        end = None if self._duration is None else time.monotonic() + self._duration
        try:
            for batch in self._source.batches():
                if end is not None and time.monotonic() >= end:
                    self.stop()
                if self.saving is not None:
                    self.saving.write(batch, self.info.interfaces)
                if len(batch):
                    self.bytes_read += len(batch.buffer)
                    self._hand_on(batch)
        except Exception as error:  # to be raised where it is seen
            self._error = error
        finally:
            self._end()
            with self._changed:
                self._reading = False
                self._changed.notify_all()

    def _hand_on(self, batch: PacketBatch) -> None:
        with self._changed:
            while self._queue and self._queued + len(batch.buffer) > QUEUE_BYTES and not self._closed:
                if self.saving is not None:
                    self._skipped += len(batch)
                    return
                self._changed.wait()
            if not self._closed:
                self._queue.append(batch)
                self._queued += len(batch.buffer)
                self._changed.notify_all()

    def _end(self) -> None:
        """Close source and file; the first error counts."""
        if self._ended:
            return
        self._ended = True
        actions: list[Callable[[], None]] = [self._source.close, self.saving.close if self.saving else lambda: None]
        for step in actions:
            try:
                step()
            except (CaptureError, OSError) as error:
                self._error = self._error or error

    def _statistics(self) -> Statistics:
        received, dropped = self._source.counts()
        return Statistics(self._start_ns, time.time_ns(), received, dropped)
