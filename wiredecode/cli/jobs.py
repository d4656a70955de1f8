"""Work of a command in several processes: each decodes its share of the connections of the whole capture (``--jobs``).

The shares are those of Spark's tasks (:mod:`wiredecode.net.buckets`). The command itself does the first one, and
merges; the other processes are forked before a capture is opened, and write nothing.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wiredecode.cli.options import refuse

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe
    from multiprocessing.context import ForkProcess

    from wiredecode.capture import PacketBatch
    from wiredecode.net.types import Connection


def check(files: Sequence[str]) -> None:
    """Raise UsageError if several processes cannot read the files, each for itself."""
    once = [name for name in files if name == "-" or (Path(name).exists() and not Path(name).is_file())]
    refuse(
        (sys.platform != "linux", "--jobs needs Linux"),
        (once, f"--jobs reads the captures in every process, and {''.join(once[:1])} can be read only once"),
    )


class Jobs:
    """Calls ``work`` with the numbers from 1 to below ``count`` in processes, and with 0 in none: that is the caller's.

    A context manager: the processes end with it, done or not.
    """

    def __init__(self, count: int, work: Callable[[int], Any]) -> None:
        self._count, self._work = count, work
        self._running: list[tuple[ForkProcess, Pipe]] = []

    def __enter__(self) -> Self:
        context = get_context("fork")
        for number in range(1, self._count):
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(self._work, number, there), daemon=True)
            process.start()
            there.close()
            self._running.append((process, here))
        return self

    def results(self) -> Iterator[Any]:
        """The results, by number. Raises what ``work`` raised, ChildProcessError if a process was ended."""
        for process, pipe in self._running:
            try:
                result, error = pickle.loads(pipe.recv_bytes())
            except EOFError:
                process.join()
                raise ChildProcessError(f"a process of --jobs was ended (exit code {process.exitcode})") from None
            if error is not None:
                raise error
            yield result

    def __exit__(self, *_: object) -> None:
        for process, pipe in self._running:
            process.kill()
            process.join()
            pipe.close()
        self._running.clear()


def _run(work: Callable[[int], Any], number: int, pipe: Pipe) -> None:
    """Do the work of a process. Ctrl-C reaches all of the terminal's; the first one then ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    try:
        answer = pickle.dumps((work(number), None))
    except Exception as error:
        try:
            answer = pickle.dumps((None, error))
        except Exception:
            answer = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    try:
        pipe.send_bytes(answer)
    except BrokenPipeError:  # the command has ended
        os._exit(1)


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
