"""Files of a live capture: one pcapng file, or a ring of files, named as dumpcap names them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import Interface
from wiredecode.capture.live.pcapng_writer import PcapNgWriter, Statistics, block_sizes
from wiredecode.capture.reader import NOTHING
from wiredecode.capture.write import open_private


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the next file begins, and how many are kept; None: never, all."""

    size: int | None = None
    """Bytes; the packet that exceeds it is the last one of its file."""
    seconds: float | None = None
    files: int | None = None

    @property
    def wanted(self) -> bool:
        return self.size is not None or self.seconds is not None


class Saving:
    """Writes batches to ``path``, or with a rotation to ``base_00001_20260131120000.ext``, ``base_00002_...``.

    statistics: asked whenever a file ends. The first file is made immediately, so that an error shows before
    the capture begins, as an OSError with its name. Later ones raise CaptureError.
    """

    def __init__(self, path: Path, rotation: Rotation, statistics: Callable[[], Statistics]) -> None:
        self._path, self._rotation, self._statistics = path, rotation, statistics
        self._kept: deque[Path] = deque()
        self._number = 0
        self._interfaces: list[Interface] = []
        self.packets = 0
        self._ended = False
        """Whether the current file is whole."""
        self._current, self._writer, self._began = self._open()

    @property
    def files(self) -> list[Path]:
        """The files that are there, oldest first."""
        return list(self._kept)

    def write(self, batch: PacketBatch, interfaces: list[Interface]) -> None:
        """Save a batch, in as many files as it takes. An empty one only lets time pass."""
        self._interfaces = interfaces
        limit = self._rotation.seconds
        if limit is not None and time.monotonic() - self._began >= limit:
            self._rotate()
        while self._rotation.size is not None and len(batch):
            ends = np.cumsum(block_sizes(batch))
            fit = int(np.searchsorted(ends, self._rotation.size - self._writer.size)) + 1
            if fit > len(batch):
                break
            self._put(batch.part(0, fit))
            batch = batch.part(fit, len(batch))
            self._rotate()
        self._put(batch)

    def close(self) -> None:
        if self._ended:
            return  # the next file of a ring could not be opened
        self._ended = True
        try:
            self._put(NOTHING)  # an interface is described even if nothing came from it
        finally:
            with self._telling():
                self._writer.close(self._statistics())

    def _put(self, batch: PacketBatch) -> None:
        with self._telling():
            self._writer.write(batch, self._interfaces)
        self.packets += len(batch)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CaptureError(str(self._current), f"can no longer be written: {error.strerror}") from None

    def _rotate(self) -> None:
        self.close()
        try:
            self._current, self._writer, self._began = self._open()
            self._ended = False
        except OSError as error:
            raise CaptureError(str(error.filename), f"cannot be written: {error.strerror}") from None

    def _open(self) -> tuple[Path, PcapNgWriter, float]:
        self._number += 1
        path = self._path
        if self._rotation.wanted:
            stamp = time.strftime("%Y%m%d%H%M%S")
            path = path.with_name(f"{path.stem}_{self._number:05}_{stamp}{path.suffix}")
        while self._rotation.files is not None and len(self._kept) >= self._rotation.files:
            self._kept.popleft().unlink(missing_ok=True)
        writer = PcapNgWriter(open_private(path))
        self._kept.append(path)
        return path, writer, time.monotonic()
