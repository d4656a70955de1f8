"""Work of a command in several processes: each decodes its share of the connections of the whole capture (``--jobs``).

The shares are those of Spark's tasks (:mod:`wiredecode.net.buckets`). The command itself does the first one, and
merges; the other processes are forked before a capture is opened, and write nothing.
"""

from __future__ import annotations

import fcntl
import io
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wiredecode.cli.options import refuse
from wiredecode.cli.output import Output
from wiredecode.dataclasses import replace

if TYPE_CHECKING:
    import pyarrow as pa

    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess

    from wiredecode.capture import PacketBatch
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.dissector import Demand
    from wiredecode.frames.frame import Frame
    from wiredecode.frames.totals import Totals
    from wiredecode.net.types import Connection
    from wiredecode.tables.merge import Places, RowMerger
    from wiredecode.tables.reader import LevelsReader, Rows


Send = Callable[..., None]
PIPE_BYTES = 1 << 20
"""A process is ahead of the first one by so much."""


def check(files: Sequence[str]) -> None:
    """Raise UsageError if several processes cannot read the files, each for itself."""
    once = [name for name in files if name == "-" or (Path(name).exists() and not Path(name).is_file())]
    refuse(
        (sys.platform != "linux", "--jobs needs Linux"),
        (once, f"--jobs reads the captures in every process, and {''.join(once[:1])} can be read only once"),
    )


class Jobs:
    """Calls ``work`` with the numbers from 1 to below ``count`` in processes, and with 0 in none: that is the caller's.

    A context manager: the processes end with it, done or not. ``work`` gets a function, too, that sends parts of what
    it makes, which :meth:`receive` returns.
    """

    def __init__(self, count: int, work: Callable[[int, Send], Any]) -> None:
        self._count, self._work = count, work
        self._running: list[tuple[ForkProcess, Pipe]] = []

    def __enter__(self) -> Self:
        context = get_context("fork")
        for number in range(1, self._count):
            here, there = context.Pipe(duplex=False)
            with suppress(OSError):  # more than the user may have
                fcntl.fcntl(there.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            process = context.Process(target=_run, args=(self._work, number, there), daemon=True)
            process.start()
            there.close()
            self._running.append((process, here))
        return self

    def receive(self, number: int) -> tuple[Any, bool, bytes]:
        """The next part, or the result, of a process; whether it is the result; and the bytes sent with it.

        Raises what ``work`` raised, ChildProcessError if a process was ended.
        """
        process, pipe = self._running[number - 1]
        try:
            answer, is_result, error, size = pickle.loads(pipe.recv_bytes())
            data = pipe.recv_bytes() if size else b""
        except EOFError:
            process.join()
            raise ChildProcessError(f"a process of --jobs was ended (exit code {process.exitcode})") from None
        if error is not None:
            raise error
        return answer, is_result, data

    def results(self) -> Iterator[Any]:
        """The results, by number; parts before them are dropped. Raises as :meth:`receive`."""
        for number in range(1, self._count):
            answer, is_result, _ = self.receive(number)
            while not is_result:
                answer, is_result, _ = self.receive(number)
            yield answer

    def __exit__(self, *_: object) -> None:
        for process, pipe in self._running:
            process.kill()
            process.join()
            pipe.close()
        self._running.clear()


def _run(work: Callable[[int, Send], Any], number: int, pipe: Pipe) -> None:
    """Do the work of a process. Ctrl-C reaches all of the terminal's; the first one then ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)

    def send(answer: Any, data: bytes = b"", *, is_result: bool = False, error: Exception | None = None) -> None:
        message = pickle.dumps((answer, is_result, error, len(data)))
        try:
            pipe.send_bytes(message)
            if data:
                pipe.send_bytes(data)
        except BrokenPipeError:  # the command has ended
            os._exit(1)

    try:
        send(work(number, send), is_result=True)
    except Exception as error:
        try:
            send(None, error=error)
        except Exception:
            send(None, error=RuntimeError(f"{type(error).__name__}: {error}"))


class ParentWatch:
    """Ends this process with the next packets if the one that started it is gone."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def __call__(self, batch: PacketBatch) -> None:
        if os.getppid() != self._parent:
            os._exit(1)


class Apart(Exception):
    """Connections that know of each other were decoded in several processes: the port does not show it."""

    def __init__(self, protocol: str, port: int) -> None:
        super().__init__(f"connections of {protocol} know of each other, also on port {port}")
        self.protocol, self.port = protocol, port


class Numbers:
    """Connections that a process has seen: what their numbers in the whole capture follow from.

    Connections are numbered in the order of their first packets, which every process counts alike.
    """

    def __init__(self, sessions: Mapping[int, str]) -> None:
        from wiredecode.protocols.registry import protocols

        self._ports = frozenset(sessions)
        self._linked = {each.name for each in protocols() if each.has_session}
        self.first: dict[int, int] = {}
        """By number here: number of the first packet."""
        self.apart: set[tuple[str, int]] = set()
        """Protocols whose connections know of each other, on ports by which they were not dealt out; and the port."""

    def end(self, connection: Connection) -> None:
        """A connection ended, and its frames are decoded."""
        self.first[connection.number] = connection.first
        if self._ports.isdisjoint(connection.ports):
            self.apart.update((name, min(connection.ports)) for name in self._linked.intersection(connection.protocols))


def in_capture(every: Sequence[Numbers]) -> list[dict[int, int]]:
    """For each process: from numbers of connections there to those in the whole capture."""
    firsts = sorted(first for each in every for first in each.first.values())
    number = {first: index for index, first in enumerate(firsts, 1)}
    return [{here: number[first] for here, first in each.first.items()} for each in every]


# Frames of several processes in their order: see wiredecode.dissect.share.

MERGING = 1.3
"""The first process also merges and writes: the others are this much faster."""
AS_UTF8 = "utf-8", "surrogatepass"
PART_BYTES, PART_FRAMES = 256 * 1024, 4000
"""Texts that are sent together; frames of other processes after which the first one is told that there is no text."""


def speeds(count: int, merging: float = MERGING) -> tuple[float, ...]:
    return (1.0, *[merging] * (count - 1))


class Sender:
    """In all processes but the first: makes the texts of its own frames, and sends them with their numbers."""

    def __init__(self, number: int, send: Send) -> None:
        self.number, self._send = number, send
        self._texts: list[Any] = []
        self._numbers: list[int] = []
        self._passed = self._size = 0

    def frames(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The process's own frames."""
        own = self.number
        for frame in frames:
            if frame.connection.process == own:
                yield frame
            self._passed += 1
            if self._passed >= PART_FRAMES or self._size >= PART_BYTES:
                self.send(frame.number)

    def send(self, reached: float) -> None:
        """Send all texts: those of the frames up to number ``reached``."""
        texts = self._texts
        data = "".join(texts).encode(*AS_UTF8) if texts and isinstance(texts[0], str) else b"".join(texts)
        is_text = len(texts) > 0 and isinstance(texts[0], str)
        self._send((self._numbers, [*map(len, texts)], is_text, reached), data)
        self._texts, self._numbers, self._passed, self._size = [], [], 0, 0

    def making(self, make: Callable[[Frame], Any], _: Any = None) -> Callable[[Frame], Any]:
        def sending(frame: Frame) -> Any:
            made = make(frame)
            self._texts.append(made)
            self._numbers.append(frame.number)
            self._size += len(made)
            return made

        return sending


class Merger:
    """In the first process: its own frames and those of others that have a text, in order."""

    number = 0

    def __init__(self, jobs: Jobs, count: int) -> None:
        self._jobs = jobs
        self._texts: list[Iterator[tuple[float, Any]]] = [iter(())] * count
        self._next: list[tuple[float, Any]] = [(0, None)] * count
        """Of each process: number and text of its next frame that has one; or a number after that of the frame that it has reached."""

    def frames(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        following = self._next
        for frame in frames:
            process = frame.connection.process
            if process:
                number = frame.number
                while following[process][0] < number:
                    self._receive(process)
                if following[process][0] != number:
                    continue
            yield frame

    def _receive(self, process: int) -> None:
        (numbers, sizes, is_text, reached), _, data = self._jobs.receive(process)
        joined = data.decode(*AS_UTF8) if is_text else data
        ends = [*accumulate(sizes)]
        texts = (joined[end - size : end] for end, size in zip(ends, sizes, strict=True))
        self._texts[process] = chain(zip(numbers, texts, strict=True), [(reached + 0.5, None)])
        self._next[process] = next(self._texts[process])

    def making(
        self, make: Callable[[Frame], Any], place: Callable[[Frame, Any], Any] | None = None
    ) -> Callable[[Frame], Any]:
        """``place``: completes a text of another process by what came before it."""

        def taking(frame: Frame) -> Any:
            process = frame.connection.process
            if not process:
                return make(frame)
            text = self._next[process][1]
            self._next[process] = next(self._texts[process])
            return text if place is None else place(frame, text)

        return taking


def quiet(session: CaptureSession) -> None:
    """Another process writes what the session shows."""
    from wiredecode.cli.session import collect_less

    session.output, session.shows_totals = Output(binary=io.BytesIO()), False
    session.output.write = session.output.text = lambda _: None  # type: ignore[method-assign, assignment]
    collect_less()


def show(
    count: int,
    open_session: Callable[[Demand], CaptureSession],
    demand: Demand,
    write: Callable[[CaptureSession], Callable[[Iterable[Frame]], None]],
) -> int:
    """Show the frames of a capture, each process those of its connections; return the exit code.

    ``open_session``: with a demand; ``write``: makes the writer of its frames.
    """
    from wiredecode.capture.errors import Postponed
    from wiredecode.dissect.share import Share

    def session_of(number: int, shared: Sender | Merger) -> CaptureSession:
        session = open_session(replace(demand, share=Share(number, speeds(count))))
        session.shared = shared
        return session

    def work(number: int, send: Send) -> Any:
        sender = Sender(number, send)
        session = session_of(number, sender)
        quiet(session)
        with Postponed():  # all processes find the same error
            write(session)(session.frames())
        sender.send(float("inf"))
        return session.totals

    def all_shown() -> None:
        with Postponed() as postponed:
            write(session)(session.frames())
        for totals in jobs.results():
            session.totals.add_connections(totals)
        postponed.raise_again()

    with Jobs(count, work) as jobs:
        merger = Merger(jobs, count)
        session = session_of(0, merger)
        return session.work(all_shown)


# Rows of several processes in their order.

WRITING = 2.0
"""As :data:`MERGING`, where the first process also writes tables."""
SENT_CONNECTIONS = 500


class TableMerger:
    """In the first process: adds rows of the others to those of its ``reader``."""

    def __init__(self, jobs: Jobs, count: int, reader: LevelsReader) -> None:
        self._jobs, self._count, self._reader = jobs, count, reader
        self._connections: list[deque[dict[str, Any]]] = [deque() for _ in range(count)]
        reader.merged, reader.other_connection = self.rows, self.connection

    def rows(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        """Rows in the order of the capture."""
        from wiredecode.tables.merge import Places, RowMerger

        reader, merger = self._reader, None
        ((level, schema),) = reader.schemas.items()
        for _, batch, places, reached in chain(parts(rows, reader), [(level, None, Places.of([]), float("inf"))]):
            if places is None or reader.collected is None:
                if batch is not None:
                    yield level, batch
                continue
            if merger is None:
                collected = reader.collected
                merger = RowMerger(schema, self._count, collected.most_rows, collected.most_bytes)
            merger.add(0, batch, places, reached)
            for process in range(1, self._count):
                while merger.reached(process) < reached:
                    self._receive(merger, process, schema)
            yield from ((level, each) for each in merger.batches())

    def _receive(self, merger: RowMerger, process: int, schema: pa.Schema) -> None:
        import pyarrow as pa

        (places, reached), _, data = self._jobs.receive(process)
        merger.add(process, pa.ipc.read_record_batch(pa.py_buffer(data), schema) if data else None, places, reached)

    def connection(self, process: int) -> dict[str, Any]:
        """The row of the next connection of a process that ended."""
        waiting = self._connections[process]
        while not waiting:
            waiting.extend(self._jobs.receive(process)[0])
        return waiting.popleft()


def parts(rows: Iterable[Rows], reader: LevelsReader) -> Iterator[tuple[str, pa.RecordBatch, Places | None, float]]:
    """Level and rows that were passed on together, their places (None: of connections), and the frame reached."""
    import pyarrow as pa

    from wiredecode.tables.merge import Places

    waiting: list[pa.RecordBatch] = []
    for level, batch in rows:
        collected = reader.collected
        if collected is None or collected.places is None:
            yield level, batch, None, 0
            continue
        waiting.append(batch)
        places = Places.of(collected.places)
        if sum(map(len, waiting)) == places.rows.sum():
            collected.places = []
            (whole,) = pa.Table.from_batches(waiting).combine_chunks().to_batches() or [batch]
            waiting = []
            yield level, whole, places, reader.reached


def send_rows(reader: LevelsReader, number: int, packets: Iterable[PacketBatch], send: Send) -> Totals:
    """In the other processes: send all rows of the own connections."""
    from wiredecode.capture.errors import Postponed
    from wiredecode.tables.connections import ConnectionTable
    from wiredecode.tables.merge import Places

    ended, reader.ended = reader.ended, None
    collected = ConnectionTable() if ended is None else ended

    def end(connection: Connection, foreign: str | None) -> None:
        if connection.process == number:
            collected.end(connection, foreign)
            if len(collected.rows) >= SENT_CONNECTIONS:
                send(collected.rows)
                collected.rows = []

    if ended is not None:
        reader.on_decoded = end
    with Postponed():  # all processes find the same error
        for _, batch, places, reached in parts(reader.rows(packets), reader):
            send((places, reached), batch.serialize() if len(batch) else b"")
    if ended is not None:
        send(collected.rows)
    elif reader.collected is not None:
        send((Places.of([]), float("inf")))
    return reader.totals
