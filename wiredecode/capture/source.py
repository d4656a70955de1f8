"""Where a capture's bytes come from: files, standard input, pipes, file objects; never read whole."""

import os
import select
import stat
import sys
import time
from pathlib import Path
from typing import BinaryIO, Protocol

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.remote import is_local, open_file, remote_size

Target = str | Path | BinaryIO
STANDARD_INPUT = "-"
FIRST_BATCH_BYTES = 64 * 1024
"""The first batch of a file is small, so that its first packets show early; the next ones grow."""
POLL_SECONDS = 0.1
"""Interval of looking for new bytes in a growing file."""


class Source(Protocol):
    """A stream of bytes that hands out what is there."""

    error: CaptureError | None
    """Why the stream ended, when it did not end by itself."""

    def read(self, size: int) -> bytes:
        """At least one byte and about ``size`` at most, waiting when there is none yet; empty at the end."""
        ...

    def ready(self, wait: float = 0) -> bool:
        """Whether ``read`` would not have to wait, after ``wait`` seconds at most."""
        ...


def target_name(target: Target) -> str:
    if isinstance(target, str | Path):
        return "<standard input>" if str(target) == STANDARD_INPUT else str(target)
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else "<stream>"


def regular_size(target: Target) -> int | None:
    """Bytes of a target that is a regular file, or one elsewhere (it can be opened again), else None."""
    if not isinstance(target, str | Path) or str(target) == STANDARD_INPUT:
        return None
    if not is_local(str(target)):
        return remote_size(str(target))
    try:
        status = Path(target).stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class RawSource:
    """The bytes as they are stored. Closes only what it has opened itself."""

    def __init__(self, target: Target, *, follow: bool = False) -> None:
        """``follow``: of a regular file, wait at its end for more."""
        self.name = target_name(target)
        self.error: CaptureError | None = None
        self.bytes_read = 0
        self._pushed = b""
        self._opened: BinaryIO | None = None
        if isinstance(target, str | Path):
            self._stream = self._standard_input() if str(target) == STANDARD_INPUT else self._open(target)
        else:
            self._stream = target
        # read1 returns what is there; an unbuffered file's read does so as well
        self._read = getattr(self._stream, "read1", self._stream.read)
        self._always_ready, self._descriptor = self._waiting()
        self._grows = follow and self._always_ready
        self._always_ready = self._always_ready and not follow

    def _standard_input(self) -> BinaryIO:
        stream = None if sys.stdin is None else getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise CaptureError(self.name, "is closed")
        if stream.isatty():
            raise CaptureError(self.name, "is a terminal", advice="pipe a capture into it or name a file")
        found: BinaryIO = stream
        return found

    def _open(self, path: str | Path) -> BinaryIO:
        self._opened = stream = open_file(str(path))
        return stream

    def _waiting(self) -> tuple[bool, int | None]:
        """(reading never waits, descriptor to ask whether it would)."""
        try:
            descriptor = self._stream.fileno()
            return stat.S_ISREG(os.fstat(descriptor).st_mode), descriptor
        except (OSError, ValueError, AttributeError):  # not a real file
            return False, None

    @property
    def waits(self) -> bool:
        """Whether `ready` can find out that reading would have to wait: a pipe, a socket."""
        return self._descriptor is not None and not self._always_ready

    def read(self, size: int) -> bytes:
        if self._pushed:
            data, self._pushed = self._pushed[:size], self._pushed[size:]
            return data
        if self.error is not None:
            return b""
        while self._grows and not self.ready(POLL_SECONDS):
            pass
        try:
            data = self._read(size)
            if self._grows and not data:
                raise ValueError("it was cut short")
            while data is None and self._descriptor is not None:  # non-blocking, and nothing there
                select.select([self._descriptor], [], [])
                data = self._read(size)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self.error = CaptureError(self.name, f"cannot be read on: {reason}", self.bytes_read)
            return b""
        data = data or b""
        self.bytes_read += len(data)
        return bytes(data)

    def unread(self, data: bytes) -> None:
        """Put bytes back in front of the stream."""
        self._pushed = data + self._pushed

    def ready(self, wait: float = 0) -> bool:
        if self._pushed or self._always_ready:
            return True
        if self._descriptor is None:
            return False
        if self._grows:
            if wait and not self._has_grown(self._descriptor):
                time.sleep(wait)
            return self._has_grown(self._descriptor)
        try:
            return bool(select.select([self._descriptor], [], [], wait)[0])
        except (OSError, ValueError):
            return False

    def _has_grown(self, descriptor: int) -> bool:
        """Whether a file has another size than was read: there is more, or it was cut short."""
        return os.fstat(descriptor).st_size != self.bytes_read

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def fill(source: Source, have: bytes, need: int, size: int) -> bytes:
    """``have`` and the bytes after it: at least ``need`` unless the stream ends.

    Up to ``size`` bytes are read only without waiting, so that a slow pipe shows its packets immediately.
    """
    parts = [have] if have else []
    total = len(have)
    goal = max(need, size)
    while total < need or (total < goal and source.ready()):
        part = source.read(goal - total)
        if not part:
            break
        parts.append(part)
        total += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
