"""Counts the lines and branches that an input is the first to reach.

Python 3.12 and later report a place once, then run at full speed (``sys.monitoring``). Older Pythons trace some inputs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

OURS = (f"{Path(__file__).parents[2] / 'wiredecode'}/", " decoder of ", "<steps>")
"""Parts of the names of files that count, those of generated code among them."""
AGAIN_SECONDS = 1.0
"""Shortest time after which places are reported again, since both ways of a branch count as one place."""
monitoring: Any = getattr(sys, "monitoring", None)


class Coverage:
    """``seen``: places reached; ``fresh``: number that the last input added."""

    def __init__(self) -> None:
        self.seen: set[tuple[object, ...]] = set()
        self.fresh = 0
        self._again = 0.0
        if monitoring is not None:
            tool, events = monitoring.COVERAGE_ID, monitoring.events
            monitoring.use_tool_id(tool, "fuzz")
            monitoring.register_callback(tool, events.LINE, self._place)
            monitoring.register_callback(tool, events.BRANCH, self._place)
            monitoring.set_events(tool, events.LINE | events.BRANCH)

    def of(self, run: Callable[[bytes], object], data: bytes) -> int:
        """Run an input; return the number of new places."""
        self.fresh = 0
        began = time.process_time()
        if began > self._again:
            self.restart()
        try:
            run(data)
        finally:
            if sys.gettrace() is not None:
                sys.settrace(None)
            if began > self._again:
                self._again = time.process_time() + max(AGAIN_SECONDS, 10 * (time.process_time() - began))
        return self.fresh

    def restart(self) -> None:
        """Trace the next input."""
        if monitoring is None:
            sys.settrace(self._traced)
        else:
            monitoring.restart_events()

    def _place(self, code: CodeType, *where: int) -> Any:
        name = code.co_filename
        key = (name, code.co_qualname, *where)
        if key not in self.seen and any(each in name for each in OURS):
            self.seen.add(key)
            self.fresh += 1
        return monitoring and monitoring.DISABLE

    def _traced(self, frame: FrameType, event: str, argument: object) -> Any:
        if not any(each in frame.f_code.co_filename for each in OURS):
            return None
        if event == "line":
            self._place(frame.f_code, frame.f_lineno)
        return self._traced
