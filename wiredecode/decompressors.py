"""Decompressors of one gzip member, zstd frame or LZ4 frame, with the interface of ``lz4.frame.LZ4FrameDecompressor``.

``decompress(data, max_length)`` takes all of ``data`` and returns at most ``max_length`` bytes. If ``needs_input`` is
false, it has more output without further data. After ``eof``, ``unused_data`` holds the input that was not read.
"""

import zlib
from typing import Any

GZIP, ZSTD, LZ4 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
"""First bytes of each."""
SKIPPABLE = tuple(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16))
"""First bytes of frames of user data, which decoders of LZ4 and zstd skip."""
_ZSTD_STEPS, _ZSTD_MUCH = (16, 512), 65_536
"""Input bytes that zstandard gets at a time, first and at most: few again after much output, as its output has no
limit, and four bytes may give 128 KiB."""


class Gzip:
    eof = property(lambda self: self._inner.eof)
    unused_data = property(lambda self: self._inner.unused_data)

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # a full output may leave more inside zlib even when all input is consumed
        self.needs_input = not self._inner.unconsumed_tail and len(output) < max_length
        return output


class Zstd:
    """``context``: a ``ZstdDecompressor`` that reads no other frame at the same time."""

    eof = property(lambda self: self._inner.eof and not self._output)
    needs_input = property(lambda self: not self._output and self._position == len(self._input))
    unused_data = property(lambda self: self._inner.unused_data + self._input[self._position :])

    def __init__(self, context: Any = None) -> None:
        import zstandard

        self._inner = (context or zstandard.ZstdDecompressor()).decompressobj()
        self._input = self._output = b""
        self._position, self._step = 0, _ZSTD_STEPS[0]

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._input, self._position = self._input[self._position :] + data, 0
        output = self._output
        if not output:
            step = self._input[self._position : self._position + self._step]
            self._position += len(step)
            output = self._inner.decompress(step)
            self._step = min(2 * self._step, _ZSTD_STEPS[1]) if len(output) < _ZSTD_MUCH else _ZSTD_STEPS[0]
        self._output = output[max_length:]
        return output[:max_length]


def lz4() -> Any:
    from lz4.frame import LZ4FrameDecompressor

    return LZ4FrameDecompressor()
