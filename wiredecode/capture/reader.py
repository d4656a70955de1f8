"""A capture: one or several files, compressed or not, standard input, as one sequence of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.file import CaptureFile
from wiredecode.capture.info import CaptureInfo
from wiredecode.capture.merge import Merge

DEFAULT_BATCH_BYTES = 4 * 1024 * 1024
MAX_BATCH_PACKETS = 16_384
MAX_RECORD_BYTES = 1024 * 1024
"""Longest packet that is believed: twice the largest that segmentation offload makes."""


class Capture:
    """The packets of ``paths`` in time order; iterate to get a PacketBatch at a time.

    paths: file names, ``-`` for standard input, or binary file objects (read from where they are, never
    closed), in any order. batch_bytes: about this many bytes are read at a time (a longer packet is still
    read whole), batch_packets: most packets of a batch; neither changes what packets come out. max_record:
    a packet longer than this many bytes is taken for damage. idle_seconds: an empty batch tells that a single pipe
    brought nothing for so long. follow: a single file is read on as it grows, without end. shifts_ns: what is added to
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
        """What could not be read, in the order of the files; complete after iterating."""

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they are stored (compressed)."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """What ``bytes_read`` will be at the end; None when a pipe or stream is among the files."""
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
