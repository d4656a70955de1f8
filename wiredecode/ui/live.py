"""A live capture in the background: packets are saved, and read from the saved files, so that none is lost."""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from wiredecode.capture.live.sniffer import Sniffer
from wiredecode.frames.escape import escape

RATE_SECONDS = 2.0
"""Rates are those of the last seconds."""


class Live:
    """Empties a sniffer that saves; the files grow meanwhile."""

    def __init__(self, sniffer: Sniffer) -> None:
        self._sniffer = sniffer
        self.problem: str | None = None
        self.over = False
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])
        self._thread = Thread(target=self._run, name="wiredecode saving", daemon=True)
        self._thread.start()

    @property
    def files(self) -> Sequence[Path]:
        """The saved files that still exist, oldest first."""
        return self._sniffer.saving.files if self._sniffer.saving is not None else []

    def text(self) -> str:
        """Rate and losses, for the status line."""
        counts = self._sniffer.counts
        now = time.monotonic()
        self._seen.append((now, counts.received))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        rate = (counts.received - before) / max(now - since, 0.001)
        lost = f"{counts.dropped:,} lost" if counts.dropped else "none lost"
        return f"{'ended' if self.over else 'live'}: {counts.received:,} packets, {rate:,.0f}/s, {lost}"

    def close(self) -> None:
        """End capturing; what is saved stays."""
        self._sniffer.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            for _ in self._sniffer:
                pass
        except Exception as error:
            self.problem = escape(str(error) or type(error).__name__)
        self.over = True
