"""Starts the processes, and puts their rows in the order of one."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.frames.totals import Totals
from wiredecode.jobs import Unsplittable
from wiredecode.jobs.exchange import END, Peers, pipes
from wiredecode.jobs.worker import GONE, Done, Failed, Sent, quiet
from wiredecode.tables.gather import flat

PACKET_TOTALS = ("packets", "tcp_packets", "not_decoded", "first_ns", "last_ns")
"""Each process sees all packets."""

Work = Callable[[int, Peers, Connection], Done]
"""What a process does: its index, what it hears of the others, where its rows go."""


class Died(Exception):
    """A process ended early."""


@dataclass
class Source:
    """One process, as the one that merges sees it."""

    process: BaseProcess
    pipe: Connection
    rows: deque[pa.RecordBatch] = field(default_factory=deque)
    complete: int = 0
    done: Done | None = None

    def receive(self) -> Sent | Done:
        """The next message of the process; its rows are kept."""
        told: Sent | Done | Failed = self.pipe.recv()
        if isinstance(told, Failed):
            raise Unsplittable(told.text) if told.unsplittable else Died(told.text)
        if isinstance(told, Done):
            self.done, self.complete = told, END
            return told
        self.complete = told.complete
        if told.has_rows:
            self.rows += pa.ipc.open_stream(pa.py_buffer(mapped(recv_handle(self.pipe))))
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have been the last, and the process gone
            self.pipe.send_bytes(b"")
        return told

    def take(self, last: int) -> Iterator[pa.RecordBatch]:
        """The rows of frames up to number ``last``."""
        while self.rows:
            batch = self.rows[0]
            count = int(np.searchsorted(numbers(batch), last, "right"))
            if count < len(batch):
                if count:
                    self.rows[0] = batch.slice(count)
                    yield batch.slice(0, count)
                return
            yield self.rows.popleft()


def mapped(handle: int) -> mmap.mmap:
    """A file in memory, which stays as long as somebody has its rows."""
    try:
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(handle)


def numbers(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The frame of each row, never decreasing."""
    column = batch.column(0)  # not its to_numpy: that imports pandas
    return np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)


class Merge:
    """Rows of ``count`` processes in the order of the capture, in batches that begin with the column ``frame``.

    Iterating starts the processes; they are gone when it ends, however it ends. Raises :class:`Unsplittable`,
    :class:`Died`, and, after all rows, the CaptureError of a damaged capture. ``progress`` is told how many bytes of
    the capture have been read. ``totals`` and ``done`` are there at the end.
    """

    def __init__(self, count: int, work: Work, progress: Callable[[int], None]) -> None:
        self.count, self._work, self._progress = count, work, progress
        self.totals = Totals()
        self.done: list[Done] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        sources = start(self.count, self._work)
        try:
            yield from self._merged(sources)
        except (EOFError, ConnectionResetError):
            raise reason(sources) from None
        finally:
            for source in sources:
                source.process.terminate()
            for source in sources:
                source.process.join()
                source.pipe.close()
        if self.done[0].error is not None:
            raise self.done[0].error

    def _merged(self, sources: list[Source]) -> Iterator[pa.RecordBatch]:
        out = 0
        while reading := {source.pipe: source for source in sources if source.done is None}:
            # Whoever has something: nobody may wait for one that waits for another. They stay close to each other.
            for pipe in wait([*reading]):
                told = reading[pipe].receive()  # type: ignore[index]
                if isinstance(told, Sent):
                    self._progress(told.bytes_read)
            last = min(source.complete for source in sources)
            if last > out:
                out = last
                yield from merged([batch for source in sources for batch in source.take(last)])
        self.done = [source.done for source in sources if source.done is not None]
        self.totals = added([done.totals for done in self.done])


def merged(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches, each in the order of frames, as one; a frame's rows are all in the batches of one process."""
    if len(batches) == 1:
        yield batches[0]
    elif batches:
        whole = pa.concat_batches(batches)
        frames = numbers(whole)
        if (frames[1:] >= frames[:-1]).all():
            yield whole
        else:
            yield whole.take(flat(pa.int64(), np.argsort(frames, kind="stable"), None))


def start(count: int, work: Work) -> list[Source]:
    """Start the processes. They share what has been imported: memory is copied when it is written to."""
    between = pipes(count)
    own = [multiprocessing.Pipe() for _ in range(count)]  # sockets: files can be handed over
    context = multiprocessing.get_context("fork")

    def child(index: int) -> None:
        peers = [other for other in range(count) if other != index]
        outgoing = [pair[1] for other in peers if (pair := between[index][other]) is not None]
        incoming = [pair[0] for other in peers if (pair := between[other][index]) is not None]
        kept = {id(end) for end in (*outgoing, *incoming, own[index][1])}
        for pair in every(between, own):
            for end in pair:
                if id(end) not in kept:
                    end.close()
        pipe = own[index][1]
        code = quiet(lambda: work(index, Peers(outgoing, incoming), pipe), pipe)
        pipe.close()
        if code:
            raise SystemExit(code)

    processes = [context.Process(target=child, args=(index,), daemon=True) for index in range(count)]
    for process in processes:
        process.start()
    for row in between:
        for pair in row:
            if pair is not None:
                pair[0].close()
                pair[1].close()
    for _, writing in own:
        writing.close()
    return [Source(process, reading) for process, (reading, _) in zip(processes, own, strict=True)]


def every(
    between: list[list[tuple[Connection, Connection] | None]], own: list[tuple[Connection, Connection]]
) -> Iterator[tuple[Connection, Connection]]:
    for row in between:
        yield from (pair for pair in row if pair is not None)
    yield from own


def reason(sources: list[Source]) -> Exception:
    """Why a process ended before it was done: one that ended because another did is not to blame."""
    for source in sources:
        try:
            while source.done is None:
                source.receive()
        except (Unsplittable, Died) as error:
            return error
        except (EOFError, OSError):
            source.process.join()
    codes = [source.process.exitcode for source in sources]
    code = next((code for code in codes if code not in (0, GONE, None)), None)
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return Died(f"one of the processes was ended {how}")


def added(parts: list[Totals]) -> Totals:
    """The totals of all processes together."""
    total = parts[0]
    for part in parts[1:]:
        for each in fields(Totals):
            if each.name in PACKET_TOTALS:
                continue
            have, more = getattr(total, each.name), getattr(part, each.name)
            if isinstance(have, Counter):
                have.update(more)
            elif isinstance(have, dict):
                for key, count in more.items():
                    have[key] = have.get(key, 0) + count
            else:
                setattr(total, each.name, have + more)
    return total
