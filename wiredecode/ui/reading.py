"""Reading a capture behind the screen, and its frames again when they are shown."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.dissector import Dissector
from wiredecode.fields.layer import Style
from wiredecode.filter import Filter, compile_filter
from wiredecode.net import Network
from wiredecode.net.limits import Limits
from wiredecode.ui.packets import Files, Growing, Place, Stop, never
from wiredecode.ui.states import States
from wiredecode.ui.store import RowStore
from wiredecode.view.follow import Survey
from wiredecode.view.values import Raw

if TYPE_CHECKING:
    from wiredecode.dissect.identify import DecodeAs
    from wiredecode.frames.frame import Frame
    from wiredecode.frames.message import Messages
    from wiredecode.net.types import Connection

PART_PACKETS = 512
"""Packets that are dissected at a time: between two parts others have their turn, and states are kept."""
PART_FRAMES = 4096
"""Frames that become visible at a time."""
AHEAD, KEPT_FRAMES = 24, 128
"""Frames behind one that is shown are read with it, and so many are remembered."""


class Stopped(Exception):
    """Somebody else's turn: the work was told to end."""


class Ends:
    """Is told by a dissector which connections are over; one that was pickled tells nobody."""

    def __init__(self, tell: Callable[[Connection, str | None], None] | None = None) -> None:
        self._tell = tell

    def __reduce__(self) -> tuple[type[Ends], tuple[()]]:
        return Ends, ()

    def over(self, connection: Connection, other: str | None) -> None:
        if self._tell is not None:
            self._tell(connection, other)


class Reading:
    """One capture: rows of all its frames, read by :meth:`run`, and its frames by number."""

    def __init__(
        self,
        files: Sequence[str] | Growing,
        decode_as: Mapping[int, DecodeAs] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.source = files if isinstance(files, Growing) else Files(files)
        self.decode_as, self.limits = dict(decode_as or {}), limits or Limits()
        self._folder = tempfile.TemporaryDirectory(prefix="wiredecode-ui-")
        folder = Path(self._folder.name)
        self.rows, self.states, self.survey = RowStore(folder), States(folder), Survey()
        self.first_ns = 0
        """Time of the first packet."""
        self.packets = 0
        self.problem: str | None = None
        """What could not be read."""
        self.finished = False
        self._stop = Event()
        self._gone = 0
        """Files of a ring that are not there any more."""
        self._kept: OrderedDict[int, Frame] = OrderedDict()
        self._lock = Lock()
        self.secrets = False

    def close(self) -> None:
        """Stop reading; remove the files. Whoever runs :meth:`run` has to be waited for first."""
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
        """How much of the files has been read: 0 to 1."""
        return 1.0 if self.finished else self.source.progress

    # The pass over all of it.

    def run(self) -> None:
        """Read to the end, in a thread of its own; ``problem`` tells what went wrong."""
        dissector = self.dissector(Demand(link_responses=False, decode_as=self.decode_as), tell=self.survey.end)
        try:
            self._read(dissector)
        except CaptureError as error:
            self.problem = "; ".join(map(str, error.errors))
            self._take(dissector.finish())
        except Exception as error:
            self.problem = f"reading stopped: {type(error).__name__}: {error}"
        self.finished = True

    def _read(self, dissector: Dissector) -> None:
        for part in self._parts(self.source.first(self._stop.is_set)):
            if not self.first_ns:
                self.first_ns = int(part.time_ns[0])
            self._take(dissector.feed(part))
            self.packets = int(part.number[-1])
            self.states.offer(dissector, self.rows.count, self.source.place(part))
            if self.source.gone > self._gone:
                self._gone = self.source.gone
                self.states.drop(self._gone)
        self._take(dissector.finish())

    def _parts(self, batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        for batch in batches:
            for begin in range(0, len(batch), PART_PACKETS):
                if self._stop.is_set():
                    return
                yield batch.part(begin, min(begin + PART_PACKETS, len(batch)))

    def _take(self, frames: Iterator[Frame]) -> None:
        see = self.survey.see
        while some := list(islice(frames, PART_FRAMES)):
            self.rows.add(some)
            for frame in some:
                see(frame)

    # Passes of others.

    def dissector(
        self,
        demand: Demand,
        *,
        analyse: bool = False,
        tell: Callable[[Connection, str | None], None] | None = None,
        over: Callable[[Connection, str | None], None] | None = None,
    ) -> Dissector:
        """A dissector that decodes as the user said."""
        network = Network(self.limits, analyse=analyse)
        return Dissector(demand, network, on_end=Ends(tell).over, on_over=None if over is None else Ends(over).over)

    def frames(
        self,
        dissector: Dissector,
        stop: Stop = never,
        *,
        look: Callable[[PacketBatch], None] = lambda batch: None,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[Frame]:
        """All frames once more. What cannot be read was told by :meth:`run`. Raises :class:`Stopped`."""
        if self._gone:
            raise RuntimeError("the ring has dropped its first files: save with -w to keep all of them")
        yield from self._frames(
            dissector, self.source.again(lambda: stop() or self._stop.is_set(), progress), stop, look
        )

    def _frames(
        self,
        dissector: Dissector,
        batches: Iterable[PacketBatch],
        stop: Stop,
        look: Callable[[PacketBatch], None],
    ) -> Iterator[Frame]:
        try:
            for part in self._parts(batches):
                look(part)
                for frame in dissector.feed(part):
                    yield frame
                    if stop():
                        raise Stopped
        except CaptureError:
            pass
        if stop() or self._stop.is_set():
            raise Stopped
        yield from dissector.finish()

    # Frames by number.

    def frame(self, number: int) -> Frame | None:
        """Frame ``number`` with everything that trees show; None: there is none. Takes a while: not for the screen."""
        with self._lock:
            found = self._kept.get(number)
            if found is None:
                for each in self.some(number, number + AHEAD):
                    self._kept[each.number] = each
                    if len(self._kept) > KEPT_FRAMES:
                        self._kept.popitem(last=False)
                found = self._kept.get(number)
        if found is not None and number <= self.rows.count:
            found.response = self.rows[number].response or None
        return found

    def forget(self) -> None:
        """Read frames anew: they are to be shown in another way."""
        with self._lock:
            self._kept.clear()

    def some(self, first: int, last: int) -> Iterator[Frame]:
        """Frames ``first`` to ``last`` as trees need them, read on from the nearest state."""
        select = compile_filter(f"frame.number >= {first} && frame.number <= {last}")
        style = Style(Raw, self.secrets)
        return self._resumed(first, last, Demand(style, link_responses=False, select=select, decode_as=self.decode_as))

    def messages(self, number: int, messages: Messages) -> Iterator[Frame]:
        """Frame ``number`` and some before it; their messages are collected."""
        demand = Demand(link_responses=False, messages=messages, decode_as=self.decode_as)
        return self._resumed(self.states.edge(number) + 1, number, demand)

    def _resumed(self, first: int, last: int, demand: Demand) -> Iterator[Frame]:
        state = self.states.before(first)
        if state is None and self._gone:
            return
        dissector, place = (self.dissector(demand), Place()) if state is None else state
        dissector.resume(demand)
        try:
            for part in self._parts(self.source.after(place, self._stop.is_set)):
                for frame in dissector.feed(part):
                    if frame.number > last:
                        return
                    if frame.number >= first:
                        yield frame
        except CaptureError:  # told by run
            pass
        if not self.live:  # else more comes of what would be cut short now
            yield from (frame for frame in dissector.finish() if first <= frame.number <= last)

    def seek(
        self, number: int, step: int, test: Callable[[Frame], bool], select: Filter | None, stop: Stop
    ) -> int | None:
        """The next frame behind ``number`` that fits, or before it for ``step`` -1. Raises :class:`Stopped`."""
        last = self.rows.count if step > 0 else number - 1
        while last > 0:
            first = number + 1 if step > 0 else self.states.edge(last) + 1
            found = None
            for frame in self.between(first, last, select):
                if stop() or self._stop.is_set():
                    raise Stopped
                if test(frame):
                    found = frame.number
                    if step > 0:
                        return found
            if found is not None or step > 0:
                return found
            last = first - 1
        return None

    def between(self, first: int, last: int, select: Filter | None) -> Iterator[Frame]:
        """Frames ``first`` to ``last``, as a filter needs them."""
        if select is not None:
            select.clock.first_ns = self.first_ns
        style = None if select is None else select.style(None)
        links = select is not None and select.needs_responses
        return self._resumed(first, last, Demand(style, link_responses=links, select=select, decode_as=self.decode_as))

    def fitting(self, select: Filter, stop: Stop, progress: Callable[[float], None]) -> Iterator[int]:
        """The numbers of all frames that fit, and while more comes of those to come. Raises :class:`Stopped`."""
        select.clock.first_ns = self.first_ns
        links = select.needs_responses
        demand = Demand(select.style(None), link_responses=links, select=select, decode_as=self.decode_as)

        def look(batch: PacketBatch) -> None:
            select.clock.first_ns = select.clock.first_ns or int(batch.time_ns[0])

        dissector, place = (self.states.first() if self._gone else None) or (self.dissector(demand), Place())
        dissector.resume(demand)

        def ended() -> bool:
            return stop() or self._stop.is_set()

        batches = self.source.after(place, ended, wait=True) if self.live else self.source.again(ended, progress)
        for frame in self._frames(dissector, batches, stop, look):
            if select.matches(frame):
                yield frame.number
