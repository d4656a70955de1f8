"""Work of a command in several processes: each decodes its share of the connections of the whole capture (``--jobs``).

The command itself does the first share, and merges; the other processes are forked before a capture is opened, and
write nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import accumulate
from multiprocessing import get_context
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from wiredecode.dissect.share import Peers, Reached
from wiredecode.frames.totals import Totals
from wiredecode.net.logical_time import END

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess

    from wiredecode.frames.frame import Frame


PIPE_BYTES = 1 << 20
"""Bytes that a pipe holds."""
SWITCH_SECONDS = 0.0005
"""The thread that empties pipes waits at most this long for its turn."""
CODING = "utf-8", "surrogatepass"
"""Of texts between processes."""
STEP, PART, RESULT = range(3)
"""Kinds of messages: a step of a capture (:mod:`wiredecode.dissect.share`), texts, the result."""


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
        self._message = BytesIO()
        """The last message; the memory of a long one is used again."""
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
        message = self._message
        message.seek(0)
        message.write(bytes([kind]))
        pickle.dump(content, message, pickle.HIGHEST_PROTOCOL)
        with message.getbuffer() as data:
            self._pipes[receiver].send_bytes(data, 0, message.tell())

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


class _Texts:
    """Texts of the frames of a step from one process; :meth:`take` takes them from the front."""

    def __init__(self, numbers: list[int], sizes: list[int], data: bytes, is_text: bool) -> None:
        self.numbers, self._ends, self._data, self._is_text = numbers, [0, *accumulate(sizes)], data, is_text
        self._taken = 0

    def __bool__(self) -> bool:
        return self._taken < len(self.numbers)

    @property
    def number(self) -> int:
        """Number of the first frame."""
        return self.numbers[self._taken]

    def take(self, edge: int) -> Any:
        """The texts of the frames before a number, at least one."""
        start, self._taken = self._taken, bisect_left(self.numbers, edge, self._taken + 1)
        data = self._data[self._ends[start] : self._ends[self._taken]]
        return data.decode(*CODING) if self._is_text else data


class TextExchange:
    """Brings the texts of the frames of all processes to the first one. ``count``: all processes."""

    def __init__(self, others: Others, number: int, count: int) -> None:
        """``number``: of this process, from 0 on."""
        self._others, self.is_first, self.count = others, not number, count
        self._texts: list[deque[_Texts]] = [deque() for _ in range(count)]
        self._numbers: list[int] = []
        self._sizes: list[int] = []
        self._data = BytesIO()  # a list of texts would take new memory in each step
        self._is_text = False
        self.received = 0
        """Frames of other processes."""
        self.totals = Totals()
        """Those of this process."""
        self.decoded: list[Totals] = []
        """Those of others, when they sent the newest content."""

    def frames(self, frames: Iterable[Any]) -> Iterator[Any]:
        """The frames of this process, and in the first one the texts of those of all, in order."""
        for frame in frames:
            if type(frame) is Reached:
                yield from self._step(frame.number)
            else:
                yield frame

    def making(self, make: Callable[[Frame], Any], place: Callable[[Any], Any] | None = None) -> Callable[[Any], Any]:
        """``make``, for what :meth:`frames` yields. ``place``: completes texts by what came before them."""
        numbers, sizes, write = self._numbers.append, self._sizes.append, self._data.write

        def taking(item: Any) -> Any:
            if isinstance(item, str | bytes):
                return item if place is None else place(item)
            text = make(item)
            self._is_text = isinstance(text, str)
            numbers(item.number)
            sizes(write(text.encode(*CODING) if self._is_text else text))
            return text[:0]  # it comes with those of others

        return taking

    def rows(self, rows: list[tuple[int, str]], place: Callable[[str], str]) -> str:
        """In the first process the lines of all of a step, in order; ``rows``: numbers and texts of this one."""
        self._is_text = True
        self._numbers += [number for number, _ in rows]
        self._sizes += [self._data.write(text.encode(*CODING)) for _, text in rows]
        return place("".join(self._step(END)))

    def gather(self, content: Any) -> list[Any]:
        """In the first process the content of all; in others nothing."""
        if not self.is_first:
            self._others.send(0, PART, (content, self.totals))
            return []
        received = [self._others.receive(process, PART) for process in range(1, self.count)]
        self.decoded = [totals for _, totals in received]
        return [content, *(content for content, _ in received)]

    def _step(self, reached: int) -> Iterable[Any]:
        """A step is over: all frames of this process up to ``reached`` were made."""
        every = self.gather((reached, *self._made()))
        for texts, (_, numbers, *content) in zip(self._texts, every, strict=False):
            if numbers:
                texts.append(_Texts(numbers, *content))
        self.received += sum(len(numbers) for _, numbers, *_ in every[1:])
        return self._in_order(min((reached for reached, *_ in every), default=0))

    def _made(self) -> tuple[list[int], list[int], bytes, bool]:
        """The texts since the last call; see :class:`_Texts`."""
        made = [*self._numbers], [*self._sizes], bytes(self._data.getbuffer()[: self._data.tell()]), self._is_text
        self._numbers.clear()
        self._sizes.clear()
        self._data.seek(0)
        return made

    def _in_order(self, limit: int) -> Iterator[Any]:
        """The texts of the frames up to a number."""
        while some := [texts for texts in self._texts if texts and texts[0].number <= limit]:
            first = min(some, key=lambda texts: texts[0].number)
            yield first[0].take(min((texts[0].number for texts in some if texts is not first), default=limit + 1))
            if not first[0]:
                first.popleft()
