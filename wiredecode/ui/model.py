"""Reads a capture in the background, and its frames again when they are shown.

States of dissectors at places of the capture are kept in files, so that reading resumes there.
"""

import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from math import inf
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import thread_time
from typing import Any
from zlib import compress, decompress

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.dataclasses import dataclass, replace
from wiredecode.dissect.dissector import DEFAULT, Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.filter import Filter, number_range
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.net.health import ConnectionHealth
from wiredecode.net.network import Network
from wiredecode.net.types import Connection
from wiredecode.ui.jobs import Job, JobStopped
from wiredecode.ui.packets import CaptureFiles, Growing, Position, Stop
from wiredecode.ui.store import RowStore
from wiredecode.view.follow import Survey
from wiredecode.view.values import Raw

EVERY_SECONDS = 0.1
"""Least dissecting, in CPU time, between two states: it is repeated to show a frame."""
COST_SHARE = 2
"""Dissecting between two states takes at least this many times as long as keeping one."""
MAX_STATES, MAX_BYTES, MAX_IN_MEMORY = 4096, 512 << 20, 64 << 20
"""When there are more, every second one is dropped and they are made half as often."""
COMPRESSION = 1
"""Level of zlib: a quarter of the bytes, for a fifth more time."""


@dataclass(frozen=True)
class State:
    """A dissector that has handed out all frames up to ``frame``."""

    frame: int
    position: Position
    kept: bytes | Path
    """In memory, or the file."""
    size: int


class States:
    """Keeps states in ``folder``; those with secrets of TLS in memory. One thread makes them, others ask."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._states = folder, list[State]()
        self._made, self._least = 0, EVERY_SECONDS
        self._every = self._least
        self._since = 0.0  # the thread that reads has just begun

    def offer(self, dissector: Dissector, frame: int, position: Position) -> None:
        """Keep the state of ``dissector``, if it is time."""
        began = thread_time()
        if began - self._since < self._every:
            return
        try:
            data = compress(pickle.dumps(dissector, pickle.HIGHEST_PROTOCOL), COMPRESSION)
        except Exception:  # frames are read again from the last state, or from the beginning
            self._every = inf
            return
        kept: bytes | Path = data
        if not dissector.decrypts:
            kept = self._folder / f"state-{self._made}"
            self._made += 1
            kept.write_bytes(data)
        self._states = [*self._states, State(frame, position, kept, len(data))]
        most = MAX_IN_MEMORY if dissector.decrypts else MAX_BYTES
        if len(self._states) > MAX_STATES or sum(state.size for state in self._states) > most:
            self._drop(self._states[::2])
            self._least *= 2
        self._since = thread_time()
        self._every = max(self._least, COST_SHARE * (self._since - began))

    def drop(self, parts: int) -> None:
        """The first files are gone, and with them all that could be read on from their states."""
        self._drop([state for state in self._states if state.position.part < parts])

    def _drop(self, states: list[State]) -> None:
        self._states = [state for state in self._states if state not in states]
        for state in states:
            if isinstance(state.kept, Path):
                state.kept.unlink(missing_ok=True)

    def edge(self, number: int) -> int:
        """The last frame before the state that leads to frame ``number``; 0: there is none."""
        return max((state.frame for state in self._states if state.frame < number), default=0)

    def first(self) -> tuple[Dissector, Position] | None:
        """The earliest one."""
        return self.before(self._states[0].frame + 1) if self._states else None

    def before(self, number: int) -> tuple[Dissector, Position] | None:
        """A dissector whose next frames lead to frame ``number``, and its position; None: at the beginning."""
        for state in reversed(self._states):
            with suppress(Exception):  # dropped meanwhile, or damaged: an earlier one does, or the beginning
                if state.frame < number:
                    data = state.kept.read_bytes() if isinstance(state.kept, Path) else state.kept
                    return pickle.loads(decompress(data)), state.position
        return None


PART_PACKETS = 256
"""Packets that are dissected at a time: between two parts others have their turn, and states are kept."""
PART_FRAMES = 4096
"""Frames that become visible at a time."""
AHEAD, KEPT_FRAMES = 24, 128
"""Frames after a shown one that are read with it, and number of frames that are remembered."""

OnEnd = Callable[["Connection", str | None], None]
Look = Callable[[PacketBatch], None]


class Ends:
    """Passes on the ended connections of a dissector; one that was pickled passes on nothing."""

    def __init__(self, to: OnEnd | None = None) -> None:
        self._to = to

    def __reduce__(self) -> "tuple[type[Ends], tuple[()]]":
        return Ends, ()

    def over(self, connection: Connection, foreign: str | None) -> None:
        if self._to is not None:
            self._to(connection, foreign)


class CaptureModel:
    """One capture: rows of all its frames, read by :meth:`run`, and its frames by number."""

    def __init__(
        self,
        files: Sequence[str] | Growing,
        reading: Demand = DEFAULT,
    ) -> None:
        self.source = files if isinstance(files, Growing) else CaptureFiles(files)
        self.reading = reading
        """The options of the user."""
        self._folder = tempfile.TemporaryDirectory(prefix="wiredecode-ui-")
        folder = Path(self._folder.name)
        self.rows, self.states, self.survey = RowStore(folder), States(folder), Survey()
        self.first_ns = 0
        """Time of the first packet."""
        self.packets = 0
        self.problem: str | None = None
        """Read error."""
        self.finished = False
        self._stop = Event()
        self._gone = 0
        """Files of a ring that no longer exist."""
        self._kept: OrderedDict[int, Frame] = OrderedDict()
        self._lock = Lock()
        """Held while a frame is read for display."""
        self.secrets = False

    def close(self) -> None:
        """Stop reading; remove the files. Wait for the thread of :meth:`run` first."""
        self.rows.close()
        self._folder.cleanup()

    def stop(self) -> None:
        """Let :meth:`run` end soon."""
        self._stop.set()

    @property
    def files(self) -> list[str]:
        """Where the packets are."""
        return self.source.files

    @property
    def live(self) -> bool:
        """Whether more may come, whenever that is."""
        return self.source.grows and not self.finished

    @property
    def progress(self) -> float:
        """Share of the files that has been read: 0 to 1."""
        return 1.0 if self.finished else self.source.progress

    # The pass over the whole capture.

    def run(self) -> None:
        """Read to the end, in a separate thread; ``problem`` is the error, if any."""
        dissector = self.dissector(self.demand(), on_end=self.survey.end)
        try:
            self._read(dissector)
        except CaptureError as error:
            self.problem = "; ".join(map(str, error.errors))
            self._store(dissector.finish())
        except Exception as error:
            self.problem = f"reading stopped: {type(error).__name__}: {error}"
        self.finished = True

    def _read(self, dissector: Dissector) -> None:
        for part in self._parts(self.source.first(self._stop.is_set)):
            self._give_way()
            if not self.first_ns:
                self.first_ns = int(part.time_ns[0])
            self._store(dissector.feed(part))
            self.packets = int(part.number[-1])
            self.states.offer(dissector, self.rows.count, self.source.position_after(part))
            if self.source.gone > self._gone:
                self._gone = self.source.gone
                self.states.drop(self._gone)
        self._store(dissector.finish())

    def _parts(self, batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        for batch in batches:
            for begin in range(0, len(batch), PART_PACKETS):
                if self._stop.is_set():
                    return
                yield batch.part(begin, min(begin + PART_PACKETS, len(batch)))

    def _store(self, frames: Iterator[Frame]) -> None:
        survey = self.survey.frame
        while some := list(islice(frames, PART_FRAMES)):
            self.rows.add(some)
            for frame in some:
                survey(frame)

    # Passes of others.

    def demand(self, **wanted: Any) -> Demand:
        """Demand on the dissector, with the choices of the user."""
        return replace(self.reading, **{"link_responses": False, **wanted})

    def dissector(self, demand: Demand, *, on_end: OnEnd | None = None, on_decoded: OnEnd | None = None) -> Dissector:
        """A dissector that calls these functions at the ends of connections."""
        over = None if on_decoded is None else Ends(on_decoded).over
        return Dissector(demand, on_end=Ends(on_end).over, on_decoded=over)

    def frames(
        self, dissector: Dissector, job: Job, look: Look = lambda batch: None, so_far: Callable[[], Any] | None = None
    ) -> Iterator[Frame]:
        """All frames once more; :meth:`run` reports errors. ``look``: gets packets first. Raises :class:`JobStopped`.

        ``so_far`` makes the intermediate result of the job.
        """
        if self._gone:
            raise RuntimeError("the ring has dropped its first files: save with -w to keep all of them")
        stop = self._ended(job)

        def see(batch: PacketBatch) -> None:
            look(batch)
            if so_far is not None:
                job.so_far(so_far)

        return self._frames(dissector, self.source.again(stop, job.progress), stop, see)

    def health(self, job: Job) -> dict[int, ConnectionHealth]:
        """The TCP analysis of all connections, by number; empty if a ring has dropped its first files."""
        network = Network(self.reading.limits, analyse=True)
        by_number: dict[int, ConnectionHealth] = {}
        if self._gone:
            return by_number
        stop = self._ended(job)
        with suppress(CaptureError):
            for part in self._parts(self.source.again(stop, job.progress)):
                network.feed(part)
                by_number |= _health(network)
        network.finish()
        return by_number | _health(network)

    def _ended(self, job: Job) -> Stop:
        return lambda: job.stopped or self._stop.is_set()

    def _frames(
        self, dissector: Dissector, batches: Iterable[PacketBatch], stop: Stop, look: Look = lambda batch: None
    ) -> Iterator[Frame]:
        with suppress(CaptureError):
            for part in self._parts(batches):
                self._give_way()
                look(part)
                for frame in dissector.feed(part):
                    yield frame
                    if stop():
                        raise JobStopped
        if stop():
            raise JobStopped
        yield from dissector.finish()

    def _give_way(self) -> None:
        """Somebody waits for the frame under the cursor: it comes first."""
        with self._lock:
            pass

    # Frames by number.

    def frame(self, number: int) -> Frame | None:
        """Frame ``number`` with everything that trees show; None: there is none. Takes a while: not for the screen."""
        with self._lock:
            frame = self._kept.get(number)
            if frame is None:
                for each in self.some(number, number + AHEAD):
                    self._kept[each.number] = each
                    if len(self._kept) > KEPT_FRAMES:
                        self._kept.popitem(last=False)
                frame = self._kept.get(number)
        if frame is not None and number <= self.rows.count:
            frame.response = self.rows[number].response or None
        return frame

    def forget(self) -> None:
        """Forget read frames: the display changes."""
        with self._lock:
            self._kept.clear()

    def some(self, first: int, last: int) -> Iterator[Frame]:
        """Frames ``first`` to ``last`` as trees need them, read on from the nearest state."""
        demand = self.demand(style=Style(Raw, self.secrets), select=number_range(first, last))
        return self._resume(first, last, demand)

    def messages(self, number: int, messages: Messages) -> Iterator[Frame]:
        """Frame ``number`` and some before it; their messages are collected."""
        return self._resume(self.states.edge(number) + 1, number, self.demand(messages=messages))

    def _resume(self, first: int, last: int, demand: Demand) -> Iterator[Frame]:
        state = self.states.before(first)
        if state is None and self._gone:
            return
        dissector, position = (self.dissector(demand), Position()) if state is None else state
        dissector.resume(demand)
        with suppress(CaptureError):  # a problem of run
            for part in self._parts(self.source.after(position, self._stop.is_set)):
                for frame in dissector.feed(part):
                    if frame.number > last:
                        return
                    if frame.number >= first:
                        yield frame
        if not self.live:  # else more comes of what would be cut short now
            yield from (frame for frame in dissector.finish() if first <= frame.number <= last)

    # Frames that fit.

    def seek(
        self, number: int, step: int, test: Callable[[Frame], bool], select: Filter | None, job: Job
    ) -> int | None:
        """The next frame after ``number`` that fits, or before it for ``step`` -1. Raises :class:`JobStopped`."""
        stop = self._ended(job)
        last, fitting = self.rows.count if step > 0 else number - 1, None
        while last > 0 and fitting is None:
            first = number + 1 if step > 0 else self.states.edge(last) + 1
            for frame in self.between(first, last, select):
                if stop():
                    raise JobStopped
                if test(frame):
                    fitting = frame.number
                    if step > 0:
                        return fitting
            last = first - 1 if step < 0 else 0
        return fitting

    def between(self, first: int, last: int, select: Filter | None) -> Iterator[Frame]:
        """Frames ``first`` to ``last``, as a filter needs them."""
        return self._resume(first, last, self.demand(select=select))

    def fitting(self, select: Filter, job: Job) -> Iterator[int]:
        """The numbers of all frames that fit, and while more comes of those to come. Raises :class:`JobStopped`."""
        demand, stop = self.demand(select=select), self._ended(job)
        dissector, position = (self.states.first() if self._gone else None) or (self.dissector(demand), Position())
        dissector.resume(demand)
        batches = self.source.after(position, stop, wait=True) if self.live else self.source.again(stop, job.progress)
        for frame in self._frames(dissector, batches, stop):
            if select.matches(frame):
                yield frame.number


def _health(network: Network) -> dict[int, ConnectionHealth]:
    """TCP analysis of the connections that ended since the last call."""
    return {each.number: each.health for each in network.pop_forgotten() if each.health is not None}


class Loader:
    """Reads the frame that was asked for last; ``done`` gets its number and the frame, or what went wrong."""

    def __init__(self, model: CaptureModel, done: Callable[[int, Any], object]) -> None:
        self._reading, self._done = model, done
        self._wanted: SimpleQueue[int | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="wiredecode frame", daemon=True)
        self._thread.start()

    def want(self, number: int) -> None:
        """Show frame ``number``, and no other."""
        self._wanted.put(number)

    def close(self) -> None:
        """End, after what is being read."""
        self._wanted.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (number := self._wanted.get()) is not None:
            if not self._wanted.empty():
                continue
            result: Any
            try:
                result = self._reading.frame(number)
            except Exception as error:
                result = error
            self._done(number, result)
