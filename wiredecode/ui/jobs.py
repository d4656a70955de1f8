"""Work behind the screen, one thread each; it can be stopped and tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    from wiredecode.ui.model import CaptureModel


class Stopped(Exception):
    """The work was told to end."""


class Job:
    """Runs ``work(job)``; then ``done(job)``, in its own thread. ``result`` is what it returned."""

    def __init__(self, name: str, work: Callable[[Job], Any], done: Callable[[Job], object]) -> None:
        self.name, self.share = name, 0.0
        self.result: Any = None
        self.problem: str | None = None
        self.finished = False
        self._stop = Event()
        self._work, self._done = work, done
        self._thread = Thread(target=self._run, name=f"wiredecode {name}", daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def progress(self, share: float) -> None:
        """It is so far: 0 to 1."""
        self.share = share

    def stop(self) -> None:
        """Let it end soon."""
        self._stop.set()

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except Stopped:
            self._stop.set()
        except Exception as error:
            self.problem = escape(f"{self.name}: {str(error) or type(error).__name__}")
        self.finished = True
        self._done(self)


class Loader:
    """Reads the frame that was asked for last; ``done`` gets its number and the frame, or what went wrong."""

    def __init__(self, model: CaptureModel, done: Callable[[int, Any], object]) -> None:
        self._reading, self._done = model, done
        self._wanted: SimpleQueue[int | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="wiredecode frame", daemon=True)
        self._thread.start()

    def want(self, number: int) -> None:
        """Frame ``number`` is to be shown, and no other."""
        self._wanted.put(number)

    def close(self) -> None:
        """End, after what is being read."""
        self._wanted.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (number := self._wanted.get()) is not None:
            if not self._wanted.empty():
                continue
            found: Any
            try:
                found = self._reading.frame(number)
            except Exception as error:
                found = error
            self._done(number, found)
