"""Work of a command in several processes: each decodes its share of the connections of the whole capture (``--jobs``).

The shares are those of Spark's tasks (:mod:`wiredecode.net.buckets`). The command itself does the first one, and
merges; the other processes are forked before a capture is opened, and write nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wiredecode.cli.options import refuse

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess

    from wiredecode.capture import PacketBatch
    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Connection


Send = Callable[..., None]
PIPE_BYTES = 1 << 20
"""Bytes by which a process can be ahead of the first one."""


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
        import fcntl  # not on all systems

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
"""The first process also merges and writes: the others do this many times its work."""
PART_BYTES, PART_FRAMES = 256 * 1024, 4000
"""Texts that are sent together, and frames: those of other processes count, too."""
AS_UTF8 = "utf-8", "surrogatepass"


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
        is_text = len(texts) > 0 and isinstance(texts[0], str)
        data = "".join(texts).encode(*AS_UTF8) if is_text else b"".join(texts)
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
        """Of each process: number and text of its next frame that has one; or a number beyond the frame reached."""

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
