"""Compressed captures: gzip, zstd and lz4, in one or several members."""

from collections.abc import Callable
from typing import Any

from wiredecode.capture.errors import CaptureError, TruncatedCapture
from wiredecode.capture.info import FileInfo
from wiredecode.capture.source import RawSource, Source, fill
from wiredecode.decompressors import GZIP, LZ4, SKIPPABLE, ZSTD, Gzip, Zstd, lz4
from wiredecode.extras import install

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
