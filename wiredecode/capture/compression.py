"""Compressed captures: gzip, zstd and lz4, in one or several members."""

import zlib
from collections.abc import Callable
from typing import Any

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import FileInfo
from wiredecode.capture.source import RawSource, Source, fill
from wiredecode.extras import install

MAGIC_BYTES = 4
_INPUT_BYTES = 256 * 1024
_LEAST_OUTPUT = 64 * 1024
_SKIPPABLE = b"\x2a\x4d\x18"  # bytes 1 to 3 of a zstd or lz4 frame of user data: their decoders skip it
_ZSTD_INPUT_BYTES = 2048  # its decoder has no limit of output, and 4 bytes of input can give 128 KiB


class _Gzip:
    """One member of a compressed stream, as ``lz4.frame.LZ4FrameDecompressor`` reads one."""

    eof = property(lambda self: self._inner.eof)
    unused_data = property(lambda self: self._inner.unused_data)

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # a full output may leave more inside zlib even when all input is consumed
        self.needs_input = not self._inner.unconsumed_tail and len(output) < max_length
        return output


class _Zstd:
    eof = property(lambda self: self._inner.eof)
    needs_input = property(lambda self: not self._rest)
    unused_data = property(lambda self: self._inner.unused_data + self._rest)

    def __init__(self) -> None:
        import zstandard

        self._inner = zstandard.ZstdDecompressor().decompressobj()
        self._rest = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        rest = self._rest + data
        self._rest = rest[_ZSTD_INPUT_BYTES:]
        return self._inner.decompress(rest[:_ZSTD_INPUT_BYTES])


def _lz4() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


_CODECS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b": ("gzip", _Gzip),
    b"\x28\xb5\x2f\xfd": ("zstd", _Zstd),
    b"\x04\x22\x4d\x18": ("lz4", _lz4),
}


def recognise(head: bytes) -> str:
    """Name of the compression that ``head`` starts with, or an empty string."""
    return next((name for magic, (name, _) in _CODECS.items() if head.startswith(magic)), "")


class DecompressedSource:
    """The decompressed bytes of a source; several members one after another are one stream."""

    def __init__(self, raw: RawSource, name: str) -> None:
        self.error: CaptureError | None = None
        self._raw = raw
        self._name = name
        self._magic, (_, self._make) = next(item for item in _CODECS.items() if item[1][0] == name)
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
                    self.error = self._raw.error or self._damaged("is cut", "the end is missing")
                    break
            try:
                output: bytes = self._codec.decompress(data, max(size, _LEAST_OUTPUT))
            except Exception as error:  # every library has its own
                self.error = self._damaged("is corrupt", str(error).strip() or type(error).__name__)
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
        if not rest.startswith(self._magic) and rest[1:4] != _SKIPPABLE:
            self.error = self._damaged("is damaged", f"other bytes follow a complete {self._name} part")
            return False
        self._raw.unread(rest)
        self._codec = self._make()
        return True

    def _damaged(self, what: str, why: str) -> CaptureError:
        return CaptureError(
            self._raw.name,
            f"the {self._name} compression {what}: {why}",
            self._produced,
            advice="the byte counts decompressed bytes; everything before it has been read",
        )


def decompressed(raw: RawSource, info: FileInfo) -> Source:
    """The bytes of ``raw``, decompressed if they are compressed; ``info`` says by what."""
    head = fill(raw, b"", MAGIC_BYTES, MAGIC_BYTES)
    raw.unread(head)
    info.compression = recognise(head)
    return DecompressedSource(raw, info.compression) if info.compression else raw
