"""One file of a capture, as batches."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from wiredecode.capture import compress, pcap, pcapng
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.columns import Columns, Format
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.identify import looks_like
from wiredecode.capture.info import FileInfo
from wiredecode.capture.source import RawSource, Source, Target, fill, regular_size, target_name

FIRST_BATCH_BYTES = 64 * 1024
"""The first batch of a file is small, so that its first packets show at once; the next ones grow."""
_GROWTH = 4
_MAGIC_BYTES = 4
TLS_KEY_LOG = 0x544C534B
"""The kind of decryption secrets that are lines of a key log."""
IDLE_SECONDS = 0.1
"""When live input has brought nothing for so long, that is told as an empty batch."""
NOTHING = PacketBatch.from_packets(())


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
        """Live input: an empty batch tells that nothing came for so long."""
        self.follow = False
        """Its end is not the end: it grows, and is read on for ever."""
        self.shift_ns = 0
        """Added to all its times: its clock was behind by so much."""
        self._raw: RawSource | None = None
        self.info = FileInfo(self.name, index)

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they are stored."""
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
        brought = named = 0  # secrets and names that were handed on
        form: Format | None = None
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
                origin = None if self.info.compression else base
                batch = _batch(buffer, origin, parsed.columns, count + 1)
                if len(self.info.secrets) > brought:
                    batch = replace(
                        batch, secrets=tuple(data for kind, data in self.info.secrets[brought:] if kind == TLS_KEY_LOG)
                    )
                    brought = len(self.info.secrets)
                if len(self.info.name_records) > named:
                    batch = replace(batch, names=_names(self.info, named))
                    named = len(self.info.name_records)
                yield batch if not self.shift_ns else replace(batch, time_ns=batch.time_ns + self.shift_ns)
                count += len(parsed.columns)
                parsed.columns = None
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


def _names(info: FileInfo, named: int) -> tuple[tuple[str, str], ...]:
    return tuple((record.address, record.names[0]) for record in info.name_records[named:] if record.names)


def _decompressed(raw: RawSource, info: FileInfo) -> Source:
    head = fill(raw, b"", compress.MAGIC_BYTES, compress.MAGIC_BYTES)
    raw.unread(head)
    info.compression = compress.recognise(head)
    return compress.DecompressedSource(raw, info.compression) if info.compression else raw


def _batch(buffer: bytes, origin: int | None, columns: Columns, first_number: int) -> PacketBatch:
    return PacketBatch(
        buffer=buffer,
        origin=origin,
        start=columns.start,
        captured=columns.captured,
        original=columns.original,
        time_ns=columns.time_ns,
        linktype=columns.linktype,
        interface=columns.interface,
        number=np.arange(first_number, first_number + len(columns), dtype=np.int64),
    )
