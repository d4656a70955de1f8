"""Work of a command in several processes: each decodes its share of the connections of the whole capture (``--jobs``).

The command itself does the first share, and merges; the other processes are forked before a capture is opened, and
write nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from wiredecode.cli.options import refuse
from wiredecode.dissect.share import Peers, Reached

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess

    from wiredecode.frames.frame import Frame


PIPE_BYTES = 1 << 20
"""Bytes that a pipe holds."""
SWITCH_SECONDS = 0.0005
"""The thread that empties pipes waits at most this long for its turn."""
STEP, PART, RESULT = range(3)
"""Kinds of messages: a step of a capture (:mod:`wiredecode.dissect.share`), texts, the result."""


def check(files: Sequence[str]) -> None:
    """Raise UsageError if several processes cannot read the files, each for itself."""
    once = [name for name in files if name == "-" or (Path(name).exists() and not Path(name).is_file())]
    refuse(
        (sys.platform != "linux", "--jobs needs Linux"),
        (once, f"--jobs reads the captures in every process, and {''.join(once[:1])} can be read only once"),
    )


class Others(Peers):
    """The other processes, as process ``number`` sees them: a pipe to each, and one from each.

    A thread per process empties its pipe, so that no sender waits.
    """

    def __init__(
        self,
        number: int,
        pipes: dict[tuple[int, int], tuple[Pipe, Pipe]],
        how_ended: Callable[[int], str] = lambda _: "",
    ) -> None:
        """``pipes``: by sender and receiver the ends to read and to write; all others are closed.

        ``how_ended``: more about the end of a process, for people.
        """
        self._how_ended = how_ended
        self._numbers = sorted({receiver for sender, receiver in pipes if sender == number})
        self._pipes: dict[int, Pipe] = {}
        self._queues: dict[int, list[SimpleQueue[bytes | None]]] = {}
        inputs = {}
        for (sender, receiver), (read, write) in pipes.items():
            if sender == number:
                self._pipes[receiver] = write
            else:
                write.close()
            if receiver == number:
                inputs[sender] = read
            else:
                read.close()
        for sender, pipe in inputs.items():
            queues = self._queues[sender] = [SimpleQueue() for _ in range(RESULT + 1)]
            Thread(target=self._empty, args=(pipe, queues), daemon=True).start()

    @staticmethod
    def _empty(pipe: Pipe, queues: list[SimpleQueue[bytes | None]]) -> None:
        with suppress(EOFError, OSError):
            while True:
                message = pipe.recv_bytes()
                queues[message[0]].put(message)
        for queue in queues:
            queue.put(None)

    def send(self, receiver: int, kind: int, content: Any) -> None:
        """Send a message. Raises BrokenPipeError if the other process has ended."""
        self._pipes[receiver].send_bytes(bytes([kind]) + pickle.dumps(content, pickle.HIGHEST_PROTOCOL))

    def receive(self, sender: int, kind: int) -> Any:
        """The next message of a kind. Raises what the other's work raised, ChildProcessError if it has ended."""
        message = self._queues[sender][kind].get()
        if message is not None:
            content = pickle.loads(memoryview(message)[1:])
            if kind == RESULT and content[1] is not None:
                raise content[1]
            return content
        if kind != RESULT:
            self.receive(sender, RESULT)
        raise ChildProcessError(f"a process of --jobs was ended{self._how_ended(sender)}")

    def results(self) -> Iterator[Any]:
        """The results of all, by number. Raises as :meth:`receive`."""
        return (self.receive(number, RESULT)[0] for number in self._numbers)

    def tell(self, step: Any) -> None:
        for number in self._numbers:
            try:
                self.send(number, STEP, step)
            except BrokenPipeError:
                while True:  # until it says why
                    self.receive(number, STEP)

    def told(self) -> Sequence[Any]:
        return [self.receive(number, STEP) for number in self._numbers]


Work = Callable[[int, Others], Any]
"""The work of the process of a number."""


class Jobs:
    """Calls ``work`` with the numbers from 1 to below ``count`` in processes, and with 0 in none: that is the caller's.

    A context manager: the processes end with it, done or not.
    """

    def __init__(self, count: int, work: Work) -> None:
        self._count, self._work = count, work
        self._running: list[ForkProcess] = []

    def __enter__(self) -> Others:
        import fcntl  # not on all systems

        context, numbers = get_context("fork"), range(self._count)
        pipes = {
            (sender, receiver): context.Pipe(duplex=False)
            for sender in numbers
            for receiver in numbers
            if sender != receiver
        }
        for _, write in pipes.values():
            with suppress(OSError):  # more than the user may have
                fcntl.fcntl(write.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        for number in numbers[1:]:
            process = context.Process(target=_run, args=(self._work, number, pipes), daemon=True)
            process.start()
            self._running.append(process)
        sys.setswitchinterval(SWITCH_SECONDS)
        return Others(0, pipes, self._how_ended)

    def _how_ended(self, number: int) -> str:
        process = self._running[number - 1]
        process.join()
        return f" (exit code {process.exitcode})"

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.kill()
            process.join()
        self._running.clear()


def _run(work: Work, number: int, pipes: dict[tuple[int, int], tuple[Pipe, Pipe]]) -> None:
    """Do the work of a process. Ctrl-C reaches all of the terminal's; the first one then ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    sys.setswitchinterval(SWITCH_SECONDS)
    others = Others(number, pipes)
    try:
        try:
            others.send(0, RESULT, (work(number, others), None))
        except BrokenPipeError:
            raise
        except Exception as error:
            try:
                others.send(0, RESULT, (None, error))
            except BrokenPipeError:
                raise
            except Exception:
                others.send(0, RESULT, (None, RuntimeError(f"{type(error).__name__}: {error}")))
    except BrokenPipeError:  # the command has ended
        os._exit(1)


# Texts of the frames of several processes, in order.


class Text(NamedTuple):
    """A frame of another process, as that one has written it."""

    number: int
    text: Any


class Sender:
    """In all processes but the first: sends the texts of frames, step by step."""

    is_first = False

    def __init__(self, others: Others, count: int) -> None:
        self._others, self.count = others, count
        self._texts: list[Any] = []
        self._numbers: list[int] = []

    def frames(self, frames: Iterable[Any]) -> Iterator[Frame]:
        for frame in frames:
            if type(frame) is Reached:
                self._send(frame.number)
            else:
                yield frame

    def making(self, make: Callable[[Frame], Any], _: Any = None) -> Callable[[Frame], Any]:
        """``make``, and its texts are sent."""

        def sending(frame: Frame) -> Any:
            made = make(frame)
            self._texts.append(made)
            self._numbers.append(frame.number)
            return made

        return sending

    def rows(self, rows: Sequence[tuple[int, str]], _: Callable[[list[str]], list[str]]) -> list[str]:
        """Send all numbers and texts of a step."""
        self._numbers, self._texts = ([*each] for each in zip(*rows, strict=True)) if rows else ([], [])
        self._send(0)
        return []

    def gather(self, content: Any) -> list[Any]:
        """Send content to the first process."""
        self._others.send(0, PART, content)
        return []

    def _send(self, reached: int) -> None:
        texts, self._texts = self._texts, []
        numbers, self._numbers = self._numbers, []
        joined = "".join(texts) if texts and isinstance(texts[0], str) else b"".join(texts)
        data = joined.encode("utf-8", "surrogatepass") if isinstance(joined, str) else joined
        self._others.send(0, PART, (reached, numbers, [*map(len, texts)], isinstance(joined, str), data))


class Merger:
    """In the first process: its own frames and the texts of all others, in order."""

    is_first = True

    def __init__(self, others: Others, count: int) -> None:
        self._others, self.count = others, count
        self._texts: list[deque[Text]] = [deque() for _ in range(count)]
        self._reached = [0] * count
        """By process: number up to which all its frames are known."""

    def frames(self, frames: Iterable[Any]) -> Iterator[Any]:
        """Frames, and :class:`Text`."""
        own: deque[Frame] = deque()
        for item in frames:
            if type(item) is not Reached:
                own.append(item)
                continue
            self._reached[0] = item.number
            self._receive()
            limit = min(self._reached)
            waiting: list[deque[Any]] = [own, *self._texts[1:]]
            while some := [each for each in waiting if each and each[0].number <= limit]:
                first = min(some, key=lambda each: each[0].number)
                edge = min((each[0].number for each in some if each is not first), default=limit + 1)
                while first and first[0].number < edge:
                    yield first.popleft()

    def gather(self, content: Any) -> list[Any]:
        """Content of this process, and that of all others."""
        return [content, *(self._others.receive(process, PART) for process in range(1, self.count))]

    def _receive(self) -> None:
        """Take the texts of the next step of all others."""
        for process in range(1, self.count):
            self._reached[process], numbers, texts = self._parts(process)
            self._texts[process].extend(map(Text, numbers, texts))

    def _parts(self, process: int) -> tuple[int, list[int], list[Any]]:
        """The next step of another process: number up to which all its frames are known, their numbers and texts."""
        reached, numbers, sizes, is_text, data = self._others.receive(process, PART)
        joined = data.decode("utf-8", "surrogatepass") if is_text else data
        return reached, numbers, [joined[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]

    def making(
        self, make: Callable[[Frame], Any], place: Callable[[Any], Any] | None = None
    ) -> Callable[[Frame | Text], Any]:
        """``make``, also of texts. ``place``: completes a text by what came before it."""

        def taking(frame: Frame | Text) -> Any:
            text = frame.text if type(frame) is Text else make(frame)  # type: ignore[arg-type]
            return text if place is None else place(text)

        return taking

    def rows(self, rows: list[tuple[int, str]], place: Callable[[list[str]], list[str]]) -> list[str]:
        """The texts of all processes of a step in order; ``rows``: numbers and texts of this one."""
        for process in range(1, self.count):
            _, numbers, texts = self._parts(process)
            rows += zip(numbers, texts, strict=True)
        rows.sort()
        return place([text for _, text in rows])
