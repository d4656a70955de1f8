"""A capture: one or several files, compressed or not, standard input, as one sequence of batches."""

import tomllib
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wiredecode.capture import pcap, pcapng
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import CaptureInfo, FileInfo
from wiredecode.capture.merge import Merge
from wiredecode.capture.source import FIRST_BATCH_BYTES, RawSource, Source, Target, fill, regular_size, target_name
from wiredecode.extras import install

MAGIC_BYTES = 4
_INPUT_BYTES = 256 * 1024
_LEAST_OUTPUT = 64 * 1024
_SKIPPABLE = b"\x2a\x4d\x18"  # bytes 1 to 3 of a zstd or lz4 frame of user data: their decoders skip it
_ZSTD_INPUT_BYTES = 2048  # its decoder has no limit of output, and 4 bytes of input can give 128 KiB


class _Gzip:
    """One member of a compressed stream, as ``lz4.frame.LZ4FrameDecompressor`` reads one."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        output = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # a full output may leave more inside zlib even when all input is consumed
        self.needs_input = not self._inner.unconsumed_tail and len(output) < max_length
        return output

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self._inner = zstandard.ZstdDecompressor().decompressobj()
        self._rest = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        rest = self._rest + data
        self._rest = rest[_ZSTD_INPUT_BYTES:]
        return self._inner.decompress(rest[:_ZSTD_INPUT_BYTES])

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data + self._rest


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


_GROWTH = 4
_MAGIC_BYTES = 4
TLS_KEY_LOG = 0x544C534B
"""The kind of decryption secrets that are lines of a key log."""
IDLE_SECONDS = 0.1
"""After this long without data, live input yields an empty batch."""
NOTHING = PacketBatch.from_packets(())


Format = pcap.Pcap | pcapng.PcapNg


class CaptureFile:
    """Reads one file: packet numbers and interfaces count within the file.

    batch_bytes may be changed while reading.
    """

    def __init__(self, target: Target, index: int, batch_bytes: int, batch_packets: int, max_record: int) -> None:
        self.target = target
        self.name = target_name(target)
        self.size = regular_size(target)
        self.batch_bytes = batch_bytes
        self._batch_packets = batch_packets
        self._max_record = max_record
        self.idle_seconds: float | None = None
        """Live input: an empty batch means that nothing came for this long."""
        self.follow = False
        """Its end is not the end: it grows, and is read on for ever."""
        self.shift_ns = 0
        """Added to all its times: its clock was slow by this much."""
        self._raw: RawSource | None = None
        self.info = FileInfo(self.name, index)

    @property
    def bytes_read(self) -> int:
        """Bytes read up to now, as they are stored."""
        return 0 if self._raw is None else self._raw.bytes_read

    def batches(self) -> Generator[PacketBatch]:
        """The packets up to the end or the damage. Raises CaptureError, after the last good batch."""
        self.info.clear()
        self._raw = raw = RawSource(self.target, follow=self.follow)
        try:
            while self.idle_seconds is not None and raw.waits and not raw.ready(self.idle_seconds):
                yield NOTHING
            yield from self._read(raw, _decompressed(raw, self.info))
        finally:
            raw.close()

    def _read(self, raw: RawSource, source: Source) -> Generator[PacketBatch]:
        buffer, position, base = b"", 0, 0  # base: offset of the buffer in the file
        need, size, count = _MAGIC_BYTES, FIRST_BATCH_BYTES, 0
        brought = named = 0  # secrets and names that were passed on
        form: Format | None = None
        info = self.info
        while True:
            if len(buffer) - position < need:
                base += position
                rest, buffer, position = buffer[position:], b"", 0  # let go of the old buffer
                while self.idle_seconds is not None and raw.waits and not source.ready(self.idle_seconds):
                    yield NOTHING
                buffer = fill(source, rest, need, min(size, self.batch_bytes))
                size = min(size * _GROWTH, max(self.batch_bytes, FIRST_BATCH_BYTES))
                if len(buffer) < need:
                    break
            if form is None:
                form = self._recognise(buffer)
            parsed = form.parse(buffer, position, self._batch_packets)
            position, need = parsed.position, parsed.need
            if parsed.columns is not None:
                first, count = count + 1, count + len(parsed.columns.start)
                batch = PacketBatch(
                    *(buffer, *parsed.columns, np.arange(first, count + 1, dtype=np.int64)),
                    origin=None if info.compression else base,
                    secrets=tuple(data for kind, data in info.secrets[brought:] if kind == TLS_KEY_LOG),
                    names=tuple((one.address, one.names[0]) for one in info.name_records[named:] if one.names),
                )
                brought, named = len(info.secrets), len(info.name_records)
                yield batch if not self.shift_ns else replace(batch, time_ns=batch.time_ns + self.shift_ns)
                parsed.columns = None
                del batch
            if parsed.damage is not None:
                what, offset, advice = parsed.damage
                raise CaptureError(self.name, what, base + offset, count + 1, advice)
        self._check_end(source, form, buffer, need, base, count)

    def _recognise(self, head: bytes) -> Format:
        if head[:_MAGIC_BYTES] in pcap.MAGICS:
            return pcap.Pcap(head[:_MAGIC_BYTES], self.info, self._max_record)
        if head.startswith(pcapng.MAGIC):
            self.info.format = "pcapng"
            return pcapng.PcapNg(self.info, self._max_record)
        inside = f" inside {self.info.compression}" if self.info.compression else ""
        what, advice = looks_like(head)
        what = f"is not a pcap or pcapng file, it looks like {what}{inside}"
        raise CaptureError(self.name, what, advice=advice)

    def _check_end(self, source: Source, form: Format | None, rest: bytes, need: int, base: int, count: int) -> None:
        """At the end of the bytes: was it the end of the capture?"""
        if source.error is not None:
            raise source.error
        if form is None:
            if not rest:
                raise CaptureError(self.name, "is empty")
            raise CaptureError(self.name, f"is not a capture: it has only {len(rest)} bytes")
        if rest or form.unit() == "the file header":
            raise CaptureError(
                self.name,
                f"is cut in the middle of {form.unit()} ({len(rest)} of at least {need} bytes are there)",
                base,
                count + 1,
                advice="everything before it has been read",
            )


def _decompressed(raw: RawSource, info: FileInfo) -> Source:
    head = fill(raw, b"", MAGIC_BYTES, MAGIC_BYTES)
    raw.unread(head)
    info.compression = recognise(head)
    return DecompressedSource(raw, info.compression) if info.compression else raw


DEFAULT_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_PACKETS = 16_384
MAX_RECORD_BYTES = 1024 * 1024
"""Longest packet that is believed: twice the largest that segmentation offload makes."""


class Capture:
    """The packets of ``paths`` in time order; iterate to get a PacketBatch at a time.

    paths: file names, ``-`` for standard input, or binary file objects (read from where they are, never
    closed), in any order. batch_bytes: about this many bytes are read at a time (a longer packet is still
    read whole), batch_packets: most packets of a batch; neither changes what packets come out. max_record:
    a packet longer than this many bytes is damage. idle_seconds: an empty batch means that a single pipe
    brought nothing for this long. follow: a growing file is read without end. shifts_ns: nanoseconds added to
    the times of each file, where their clocks differ.

    Iterating raises CaptureError after the last packet when something could not be read: a damaged file
    costs its own rest only. A capture of named files can be iterated again and starts anew.
    """

    def __init__(
        self,
        paths: Sequence[str | Path | BinaryIO],
        *,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        batch_packets: int = MAX_BATCH_PACKETS,
        max_record: int = MAX_RECORD_BYTES,
        idle_seconds: float | None = None,
        follow: bool = False,
        shifts_ns: Sequence[int] = (),
    ) -> None:
        if not paths:
            raise ValueError("a capture needs at least one file")
        if min(batch_bytes, batch_packets, max_record) < 1:
            raise ValueError("batch_bytes, batch_packets and max_record must be positive")
        self._batch_bytes = batch_bytes
        self._batch_packets = batch_packets
        self._files = [
            CaptureFile(path, index, batch_bytes, batch_packets, max_record) for index, path in enumerate(paths)
        ]
        if len(self._files) == 1:
            self._files[0].idle_seconds = idle_seconds
            self._files[0].follow = follow
        for file, shift_ns in zip(self._files, shifts_ns, strict=False):
            file.shift_ns = shift_ns
        self.info = CaptureInfo([file.info for file in self._files])
        self.errors: list[CaptureError] = []
        """Read errors, in the order of the files; complete after iterating."""

    @property
    def bytes_read(self) -> int:
        """Bytes read up to now, as they are stored (compressed)."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Value of ``bytes_read`` at the end; None if a pipe or stream is among the files."""
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def __iter__(self) -> Iterator[PacketBatch]:
        self.errors = []
        if len(self._files) == 1:
            self.info.interfaces = self._files[0].info.interfaces
            try:
                yield from self._files[0].batches()
            except CaptureError as error:
                self.errors = [error]
                raise
            return
        self.info.interfaces = []
        merge = Merge(self._files, self.info.interfaces, self._batch_bytes, self._batch_packets)
        yield from merge.batches()
        self.errors = [error for _, error in sorted(merge.errors, key=lambda found: found[0])]
        if self.errors:
            first = self.errors[0]
            first.errors = self.errors
            raise first


open_capture = Capture  # nothing is opened before it is iterated


_TEXT_BYTES = 64


def looks_like(head: bytes) -> tuple[str, str]:
    """(what the first bytes of a file look like, what to do about it, possibly empty)."""
    for known in tomllib.loads((files(__package__) / "formats.toml").read_text("utf-8"))["format"]:
        if head.startswith(known["magic"].encode("latin-1"), known.get("offset", 0)):
            return known["name"], known.get("advice", "")
    if not head.strip(b"\0"):
        return "nothing but zero bytes", ""
    start = head[:_TEXT_BYTES]
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        shown = start.split(b"\n")[0].strip()[:24].decode("ascii")
        return f"text ({shown!r})", ""
    return f"unknown data ({head[:8].hex(' ')})", ""
