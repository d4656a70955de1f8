"""Sessions over input that continues while it is read: a pipe, an interface."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.capture.reader import IDLE_SECONDS
from wiredecode.cli.output import say
from wiredecode.cli.session import CaptureSession, Source
from wiredecode.dataclasses import asdict

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.frames.frame import Frame

PATIENCE_NS = 100_000_000
"""Time, live, that a request waits for its response before it is shown without."""
MARGIN_NS = 200_000_000
"""When nothing came for a while, packets that passed this long ago may still be on their way."""
RECORDED_NS = 60_000_000_000
"""A pipe whose packets are older than this carries a recorded capture: it may pause without meaning anything."""


def is_pipe(files: list[str]) -> bool:
    """Whether this is standard input, and no regular file."""
    if files != ["-"] or sys.stdin is None:
        return False
    try:
        return not stat.S_ISREG(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):  # not a real file
        return False


class LiveSession(CaptureSession):
    """A session that shows what it has when nothing more comes for a while."""

    recorded_ns: int | None = None
    """Packets older than this do not count as live."""

    def all_frames(self, on_batch: Callable[[PacketBatch], None] | None = None) -> Iterator[Frame]:
        """As `Dissector.frames`; while nothing comes, what waits is shown when its time is over."""
        dissector = self.dissector
        last_ns: int | None = None
        since = 0
        with Postponed() as damage:
            for batch in self.batches(on_batch):
                if len(batch):
                    yield from dissector.feed(batch)
                    last_ns, since = int(batch.time_ns.max()), time.monotonic_ns()
                elif last_ns is not None and not self._is_recording(last_ns):
                    now_ns = last_ns + time.monotonic_ns() - since - MARGIN_NS
                    yield from dissector.tick(max(now_ns, last_ns), PATIENCE_NS)
        yield from dissector.finish()
        damage.raise_again()

    def _is_recording(self, last_ns: int) -> bool:
        return self.recorded_ns is not None and abs(time.time_ns() - last_ns) > self.recorded_ns


class PipeSession(LiveSession):
    """Standard input is a pipe, at whose other end a capture may be running.

    Ctrl-C ends reading cleanly; the exit code shows that there may have been more.
    """

    recorded_ns = RECORDED_NS

    def __init__(self, source: Source, *rest: Any, **options: Any) -> None:
        packets = open_capture(source, idle_seconds=IDLE_SECONDS) if isinstance(source, list) else source
        super().__init__(packets, *rest, **options)

    def work(self, work: Callable[[], None]) -> int:
        with _ending(self._interrupt):
            return super().work(work)

    def _interrupt(self) -> None:
        self.interrupted = self.stopped = True

    def _report_totals(self, how: str, failure: CaptureError | None) -> None:
        if self.interrupted and how == "stopped":
            say("interrupted; until now:")
            how = ""
        super()._report_totals(how, failure)


class SniffSession(LiveSession):
    """A live capture on this machine: Ctrl-C ends it cleanly, and lost packets are reported."""

    capture: Sniffer

    def work(self, work: Callable[[], None]) -> int:
        def until_the_end() -> None:
            with closing(self.capture):
                work()

        with _ending(self.capture.stop):
            return super().work(until_the_end)

    def _report_totals(self, how: str, failure: CaptureError | None) -> None:
        super()._report_totals(how, failure)
        counts = self.capture.counts
        if failure is not None and not counts.received:
            return
        texts = [f"{counts.received:,} received, {counts.dropped:,} dropped by the kernel"]
        if self.capture.saving is not None:
            files = self.capture.saving.files
            texts.append(f"{counts.saved:,} saved in {files[-1].name if len(files) == 1 else f'{len(files)} files'}")
        if counts.skipped:
            texts.append(f"{counts.skipped:,} not decoded (too slow)")
        say(f"{'capture':<10}{', '.join(texts)}")
        if counts.dropped or counts.skipped:
            say(f"{'hint':<10}to drop less: -f, a larger --buffer, --summary, output to a file; or decode later: -w")

    def totals_record(self) -> dict[str, Any]:
        return {**super().totals_record(), "capture": asdict(self.capture.counts)}


@contextmanager
def _ending(stop: Callable[[], None]) -> Iterator[None]:
    """While it lasts, the first SIGINT or SIGTERM calls ``stop``; the next one ends the program."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop()

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        restore()
