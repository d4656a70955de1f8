"""Standard output as blocks of bytes, and what may be done with a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar

from wiredecode.frames.escape import terminal_bytes, terminal_safe

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wiredecode.capture import Capture
    from wiredecode.capture.live.sniffer import Sniffer

Batch = TypeVar("Batch")
BLOCK_BYTES = 64 * 1024
"""Bytes that are written together."""
BAR_SECONDS = 1.0
"""Progress is shown if work takes longer."""


MIN_COLUMN = 12
"""Columns that the last column of a table keeps."""


def terminal() -> os.terminal_size | None:
    """The size of the terminal that standard output is; None: it is none."""
    return shutil.get_terminal_size() if sys.stdout.isatty() else None


class OutputClosed(Exception):
    """Standard output has no reader; not an OSError, which click would make an exit code of 1."""


class ReadingBar:
    """Progress of reading, on standard error if that is a terminal and work takes longer than a second."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._begins = monotonic() + BAR_SECONDS
        self._progress: Progress | None = None
        self._tasks: dict[int, TaskID] = {}
        self._over = not wanted

    def show(self, capture: Capture | Sniffer) -> None:
        """Show how much of a capture has been read, unless all has been."""
        if self._over or monotonic() < self._begins or not sys.stderr.isatty():
            return
        if self._progress is None and capture.bytes_read == capture.bytes_total:
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._progress.start()
        if id(capture) not in self._tasks:
            self._tasks[id(capture)] = self._progress.add_task("reading", total=capture.bytes_total)
        self._progress.update(self._tasks[id(capture)], completed=capture.bytes_read, refresh=True)

    def along(self, batches: Iterable[Batch], capture: Capture) -> Iterator[Batch]:
        """Pass batches of a capture on, and show how much has been read."""
        for batch in batches:
            yield batch
            self.show(capture)

    def end(self) -> None:
        """Remove it for good."""
        self._over = True
        if self._progress is not None:
            self._progress.stop()


def reason_of(error: Exception) -> str:
    """Why the system did not do what was asked for."""
    reason = getattr(error, "strerror", None) or str(error)
    named = getattr(error, "filename", None)
    return f"cannot write: {reason}" if named is None else f"{named}: {reason}"


class Output:
    """Collects what goes to standard output or a file; :meth:`flush` whenever more may take a while to come."""

    def __init__(self, binary: BinaryIO | None = None) -> None:
        if binary is None:
            sys.stdout.flush()
        self._stream: BinaryIO = sys.stdout.buffer if binary is None else binary
        self._guarded = binary is None and sys.stdout.isatty()
        self.encoding = sys.stdout.encoding or "utf-8"
        self._parts: list[bytes] = []
        self._texts: list[str] = []
        self._size = 0
        self._block = 1  # the first line is shown immediately

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= self._block:
            self.flush()

    def text(self, text: str) -> None:
        """Write text, not mixed with bytes; characters missing in the terminal's encoding are escaped."""
        self._texts.append(text)
        self._size += len(text)
        if self._size >= self._block:
            self.flush()

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Aligned columns; on a terminal the last one continues in the next line."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        screen, before = terminal(), sum(widths[:-1]) + 2 * (len(widths) - 1)
        room = widths[-1] if screen is None else max(screen.columns - before, MIN_COLUMN)
        for *front, last in rows:
            texts = [*map(str.ljust, front, widths), f"\n{'':{before}}".join(wrap(last, room))]
            self.text("  ".join(texts).rstrip() + "\n")

    def json(self, row: dict[str, Any]) -> None:
        """A line of NDJSON."""
        from wiredecode.frames.record import dumps

        self.write(dumps(row))

    def flush(self) -> None:
        if self._size:
            self._size, self._block = 0, BLOCK_BYTES
            data = b"".join(self._parts)
            if self._guarded:
                data = terminal_bytes(data.decode("utf-8", "backslashreplace"), self.encoding)
            data += terminal_bytes("".join(self._texts), self.encoding)
            self._parts.clear()
            self._texts.clear()
            try:
                self._stream.write(data)
                self._stream.flush()
            except BrokenPipeError:
                raise OutputClosed from None


def wants_color(choice: str, stream: TextIO) -> bool:
    """Whether to colour what goes to ``stream``; ``auto`` respects NO_COLOR and TERM=dumb."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def complain(text: str) -> None:
    """One line for people, on standard error; ignored if it has no reader."""
    say(f"wiredecode: {text}")


def say(text: str) -> None:
    """Text for people, on standard error."""
    text = terminal_safe(text)
    try:
        print(
            text.encode(sys.stderr.encoding or "utf-8", "wiredecode").decode(sys.stderr.encoding or "utf-8"),
            file=sys.stderr,
            flush=True,
        )
    except (BrokenPipeError, ValueError):
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """``stream`` has no reader: let the interpreter flush it into nothing at its end."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
