"""One of the processes: dissects its connections, and sends rows to the one that started it."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import IO

import pyarrow as pa

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import CaptureInfo
from wiredecode.frames.totals import Totals
from wiredecode.jobs import Unsplittable
from wiredecode.jobs.dissector import SharedDissector
from wiredecode.jobs.exchange import Gone
from wiredecode.jobs.rows import Rows

GONE = 3
"""Exit code of a process that ended because another had."""
MAX_UNTAKEN = 3
"""Files of rows that wait to be taken; a process that has so many waits."""


@dataclass(slots=True)
class Sent:
    """Goes before the file that holds a record batch stream, if there are rows."""

    complete: int
    """All rows of frames up to that number have been sent with it, or before."""
    bytes_read: int
    has_rows: bool


@dataclass(slots=True)
class Done:
    """A process has read and sent everything."""

    totals: Totals
    info: CaptureInfo
    error: CaptureError | None
    stopped: bool


@dataclass(slots=True)
class Failed:
    """A process cannot go on."""

    text: str
    unsplittable: bool


class Worker:
    """``shape`` makes rows ready to be written; it keeps their number, and has no column ``frame`` of its own."""

    def __init__(self, pipe: Connection, shape: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._pipe, self._shape = pipe, shape
        self._untaken = 0

    def run(
        self, dissector: SharedDissector, rows: Rows, batches: Iterator[PacketBatch], read: Callable[[], int]
    ) -> CaptureError | None:
        """Send the rows of all; return what could not be read."""
        complete = 0
        try:
            for items, done in dissector.parts(batches):
                for item in items:
                    if rows.add(item):
                        self._send(rows.take(), complete, read())
                if done:
                    complete = done
                    self._send(rows.take(), complete, read())
        except CaptureError as error:
            return error
        return None

    def _send(self, batches: Iterable[pa.RecordBatch], complete: int, read: int) -> None:
        shaped = []
        for batch in batches:
            rows = self._shape(batch)
            if len(rows):
                shaped.append(rows)
        if self._untaken == MAX_UNTAKEN:
            self._pipe.recv_bytes()
            self._untaken -= 1
        self._pipe.send(Sent(complete, read, bool(shaped)))
        self._untaken += 1
        if shaped:
            with memory_file() as file:
                with pa.ipc.new_stream(file, shaped[0].schema) as writer:
                    for rows in shaped:
                        writer.write_batch(rows)
                file.flush()
                send_handle(self._pipe, file.fileno(), None)


def memory_file() -> IO[bytes]:
    """A file that is gone when nobody has it open any more, in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("rows"), "w+b")
    return tempfile.TemporaryFile()


def quiet(work: Callable[[], Done], pipe: Connection) -> int:
    """Do the work of a process; whatever goes wrong is told to the one that started it. Return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the one that started all: it ends them
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        try:
            pipe.send(work())
        except Unsplittable as error:
            pipe.send(Failed(str(error), unsplittable=True))
        except (Gone, BrokenPipeError, EOFError):
            return GONE
        except Exception as error:  # a bug, which the one that started all tells as its own
            pipe.send(Failed(f"{type(error).__name__}: {error}", unsplittable=False))
    except OSError:
        return GONE
    return 0
