"""A capture: one or several files, compressed or not, standard input, as one sequence of batches."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from wiredecode.capture import pcap, pcapng
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError, TruncatedCapture
from wiredecode.capture.info import CaptureInfo, FileInfo
from wiredecode.capture.merge import Merge
from wiredecode.capture.source import (
    FIRST_BATCH_BYTES,
    MAGIC_BYTES,
    RawSource,
    Source,
    Target,
    fill,
    open_decompressed,
    regular_size,
    target_name,
)
from wiredecode.data import tables_of
from wiredecode.dataclasses import dataclass, replace

_GROWTH = 4
TLS_KEY_LOG = 0x544C534B
"""The kind of decryption secrets that are lines of a key log."""
IDLE_SECONDS = 0.1
"""After this long without data, live input yields an empty batch."""
NOTHING = PacketBatch.from_packets(())


Format = pcap.Pcap | pcapng.PcapNg


@dataclass(eq=False)
class CaptureFile:
    """Reads one file: packet numbers and interfaces count within the file.

    batch_bytes may be changed while reading.
    """

    target: Target
    index: int
    batch_bytes: int
    batch_packets: int
    max_record: int
    idle_seconds: float | None
    """Live input: an empty batch means that nothing came for this long."""
    follow: bool
    """Whether to wait at its end for more, as the file grows."""
    shift_ns: int
    """Added to all its times: its clock was slow by this much."""

    def __post_init__(self) -> None:
        self.name, self.size = target_name(self.target), regular_size(self.target)
        self.info = FileInfo(self.name, self.index)
        self._raw: RawSource | None = None

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
            yield from self._read(raw, open_decompressed(raw, self.info))
        finally:
            raw.close()

    def _read(self, raw: RawSource, source: Source) -> Generator[PacketBatch]:
        buffer, position, base = b"", 0, 0  # base: offset of the buffer in the file
        need, size, count = MAGIC_BYTES, FIRST_BATCH_BYTES, 0
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
            parsed = form.parse(buffer, position, self.batch_packets)
            position, need = parsed.position, parsed.need
            if parsed.columns is not None:
                first, count = count + 1, count + len(parsed.columns.start)
                batch = PacketBatch(
                    buffer,
                    *parsed.columns,
                    np.arange(first, count + 1, dtype=np.int64),
                    origin=None if info.compression else base,
                    secrets=tuple(data for kind, data in info.secrets[brought:] if kind == TLS_KEY_LOG),
                    names=tuple((each.address, each.names[0]) for each in info.name_records[named:] if each.names),
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
        if head[:MAGIC_BYTES] in pcap.MAGICS:
            return pcap.Pcap(head[:MAGIC_BYTES], self.info, self.max_record)
        if head.startswith(pcapng.MAGIC):
            self.info.format = "pcapng"
            return pcapng.PcapNg(self.info, self.max_record)
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
            raise TruncatedCapture(
                self.name,
                f"is truncated in the middle of {form.unit()} ({len(rest)} of at least {need} bytes are there)",
                base,
                count + 1,
                advice="everything before it has been read",
            )


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
        sizes = batch_bytes, batch_packets, max_record
        live = (idle_seconds, follow) if len(paths) == 1 else (None, False)
        shifts = [*shifts_ns, *[0] * len(paths)]
        self._files = [CaptureFile(path, index, *sizes, *live, shifts[index]) for index, path in enumerate(paths)]
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
        self.errors = [error for _, error in sorted(merge.errors, key=lambda pair: pair[0])]
        if self.errors:
            first = self.errors[0]
            first.errors = self.errors
            raise first


open_capture = Capture  # nothing is opened before it is iterated


_TEXT_BYTES = 64


def looks_like(head: bytes) -> tuple[str, str]:
    """(what the first bytes of a file look like, what to do about it, possibly empty)."""
    for entry in tables_of(__package__, "formats.toml")["format"]:
        if head.startswith(entry["magic"].encode("latin-1"), entry.get("offset", 0)):
            return entry["name"], entry.get("advice", "")
    if not head.strip(b"\0"):
        return "nothing but zero bytes", ""
    start = head[:_TEXT_BYTES]
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        shown = start.split(b"\n")[0].strip()[:24].decode("ascii")
        return f"text ({shown!r})", ""
    return f"unknown data ({head[:8].hex(' ')})", ""
