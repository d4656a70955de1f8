"""Background work, one thread each; it can be stopped and reports its progress."""

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic
from typing import Any

from wiredecode.frames.escape import escape

PARTIAL_SECONDS, PARTIAL_SHARE = 0.5, 10
"""Partial results are made at most this often, and take at most a tenth of the time."""


class JobStopped(Exception):
    """The work was stopped."""


class Job:
    """Runs ``work(job)``; then ``done(job)``, in its own thread. ``result`` is what it returned."""

    def __init__(self, name: str, work: "Callable[[Job], Any]", done: "Callable[[Job], object]") -> None:
        self.name, self.share = name, 0.0
        self.result: Any = None
        self.problem: str | None = None
        self.finished = False
        self._due = monotonic() + PARTIAL_SECONDS
        self._stop = Event()
        self._work, self._done = work, done
        self._thread = Thread(target=self._run, name=f"wiredecode {name}", daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def progress(self, share: float) -> None:
        """Set the progress: 0 to 1."""
        self.share = share

    def so_far(self, make: Callable[[], Any]) -> None:
        """Now and then, set ``result`` to the partial result that ``make`` returns."""
        began = monotonic()
        if began >= self._due:
            self.result, now = make(), monotonic()
            self._due = now + max(PARTIAL_SECONDS, PARTIAL_SHARE * (now - began))

    def stop(self) -> None:
        """Let it end soon."""
        self._stop.set()

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except JobStopped:
            self._stop.set()
        except Exception as error:
            self.problem = escape(f"{self.name}: {str(error) or type(error).__name__}")
        self.finished = True
        self._done(self)
