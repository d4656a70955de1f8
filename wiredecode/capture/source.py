"""Where a capture's bytes come from: files, standard input, pipes, file objects, decompressed; never read whole."""

import os
import select
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from wiredecode.capture.errors import CaptureError, TruncatedCapture
from wiredecode.capture.info import FileInfo
from wiredecode.capture.remote import is_local, open_file, remote_size
from wiredecode.decompressors import GZIP, LZ4, SKIPPABLE, ZSTD, Gzip, Zstd, lz4
from wiredecode.extras import install

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
            on = " on" if self.bytes_read else ""
            self.error = CaptureError(self.name, f"cannot be read{on}: {reason}", self.bytes_read or None)
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


MAGIC_BYTES = 4
_INPUT_BYTES = 256 * 1024
_MIN_OUTPUT = 64 * 1024


_FORMATS: dict[str, tuple[Callable[[], Any], tuple[bytes, ...]]] = {
    "gzip": (Gzip, (GZIP,)),
    "zstd": (Zstd, (ZSTD, *SKIPPABLE)),
    "lz4": (lz4, (LZ4, *SKIPPABLE)),
}
"""Decompressor and magic numbers of each format; a capture starts with the first magic number."""


def recognise(head: bytes) -> str:
    """Name of the compression that ``head`` starts with, or an empty string."""
    return next((name for name, (_, magic) in _FORMATS.items() if head.startswith(magic[0])), "")


class DecompressedSource:
    """The decompressed bytes of a source; several members one after another are one stream."""

    def __init__(self, raw: RawSource, name: str) -> None:
        self.error: CaptureError | None = None
        self._raw = raw
        self._name = name
        self._make, self._magic = _FORMATS[name]
        try:
            self._codec = self._make()
        except ImportError:
            raise CaptureError(
                raw.name, f"is compressed with {name}, whose package is not installed", advice=install(name)
            ) from None
        self._produced = 0

    def ready(self, wait: float = 0) -> bool:
        return not self._codec.needs_input or self._raw.ready(wait)

    def read(self, size: int) -> bytes:
        while self.error is None:
            if self._codec.eof and not self._next_member():
                break
            data = b""
            if self._codec.needs_input:
                data = self._raw.read(_INPUT_BYTES)
                if not data:
                    self.error = self._raw.error or self._error(TruncatedCapture, "is truncated", "the end is missing")
                    break
            try:
                output: bytes = self._codec.decompress(data, max(size, _MIN_OUTPUT))
            except Exception as error:  # every library has its own
                self.error = self._error(CaptureError, "is corrupt", str(error).strip() or type(error).__name__)
                break
            if output:
                self._produced += len(output)
                return output
        return b""

    def _next_member(self) -> bool:
        """Start on the bytes after a complete member; zero bytes after the last one are padding."""
        rest = self._codec.unused_data or b""  # lz4 has None at the end of its input
        while len(rest) < MAGIC_BYTES or not rest.strip(b"\0"):
            more = self._raw.read(_INPUT_BYTES)
            if not more:
                break
            rest = rest + more if rest.strip(b"\0") else more
        if not rest.strip(b"\0"):
            self.error = self._raw.error
            return False
        if not rest.startswith(self._magic):
            self.error = self._error(CaptureError, "is damaged", f"other bytes follow a complete {self._name} part")
            return False
        self._raw.unread(rest)
        self._codec = self._make()
        return True

    def _error(self, kind: type[CaptureError], what: str, why: str) -> CaptureError:
        return kind(
            self._raw.name,
            f"the {self._name} compression {what}: {why}",
            self._produced,
            advice="the byte counts decompressed bytes; everything before it has been read",
        )


def open_decompressed(raw: RawSource, info: FileInfo) -> Source:
    """The bytes of ``raw``, decompressed if they are compressed; ``info`` says by what."""
    head = fill(raw, b"", MAGIC_BYTES, MAGIC_BYTES)
    raw.unread(head)
    info.compression = recognise(head)
    return DecompressedSource(raw, info.compression) if info.compression else raw
