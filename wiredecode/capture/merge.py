"""Several files as one capture in time order, with one batch per overlapping file in memory.

The order is that of a merge by heads: always the earliest of the files' next packets, ties in the order of
the files (that is: by the time of their first packet, then as given). A packet that is earlier than its
predecessor in the same file therefore follows it directly. Files are opened when their time has come, so that
hundreds of rotated files need one open file.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from wiredecode.arrays import Int32s, Int64s
from wiredecode.capture.batch import COLUMNS, PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import FileInfo, Interface
from wiredecode.capture.source import FIRST_BATCH_BYTES
from wiredecode.dataclasses import dataclass, field, replace


class MergedFile(Protocol):
    """A file to merge, as :mod:`wiredecode.capture.reader` has it, which imports this module."""

    batch_bytes: int
    info: FileInfo
    size: int | None

    def batches(self) -> Generator[PacketBatch]: ...


class _Waiting(NamedTuple):
    """A file that has not been reached yet; what was read of it is kept only if it cannot be read again."""

    time_ns: int
    given: int
    batches: Iterator[PacketBatch] | None


class _MergedFile:
    """A file in the merge: the part of its batch that has not been passed on."""

    def __init__(self, rank: int, file: MergedFile, batches: Iterator[PacketBatch]) -> None:
        self.rank = rank
        self.file = file
        self.interfaces: dict[int, int] = {}
        """Interface of the file to interface of the capture."""
        self.error: CaptureError | None = None
        self._batches = batches
        self.advance()

    def advance(self) -> None:
        """Continue with the next batch; at the end set ``done``, and keep nothing in memory."""
        batch = None
        try:
            batch = next(self._batches, None)
        except CaptureError as error:
            self.error = error
        self.done = batch is None
        self.batch, self.at = batch or PacketBatch.from_packets(()), 0
        self.keys: Int64s = np.maximum.accumulate(self.batch.time_ns)
        """Time, but never earlier than the packet before in the batch (a batch is left only when its last
        packet is the earliest of all, so that the batch before does not matter)."""
        self.last = 0 if self.done else int(self.keys[-1])

    def until(self, edge: "_MergedFile") -> int:
        """End of the packets before everything that ``edge`` has after its batch."""
        side: Literal["right", "left"] = "right" if self.rank <= edge.rank else "left"
        return int(np.searchsorted(self.keys, edge.last, side=side))


@dataclass(eq=False)
class Merge:
    """Merges ``files``; errors are collected in ``errors`` as (index of the file, error)."""

    files: Sequence[MergedFile]
    interfaces: list[Interface]
    batch_bytes: int
    batch_packets: int
    errors: list[tuple[int, CaptureError]] = field(default_factory=list)
    _count: int = 0

    def batches(self) -> Iterator[PacketBatch]:
        waiting = deque(sorted(self._peek(), key=lambda reader: reader[:2]))
        active: list[_MergedFile] = []
        opened: list[tuple[int, _MergedFile]] = []
        while active or waiting:
            edge = min(active, key=lambda reader: (reader.last, reader.rank), default=None)
            if waiting and (edge is None or waiting[0].time_ns < edge.last):
                reader = waiting.popleft()
                opened.append((reader.given, self._open(reader, len(opened))))
                active.append(opened[-1][1])
            elif edge is not None:
                yield from self._emit([(reader, reader.until(edge)) for reader in active])
                for one_open in active:
                    if one_open.at == len(one_open.batch):
                        one_open.advance()
            active = [one_open for one_open in active if not one_open.done]
            for one_open in active:
                one_open.file.batch_bytes = max(FIRST_BATCH_BYTES, self.batch_bytes // len(active))
        self.errors += [(given, one_open.error) for given, one_open in opened if one_open.error is not None]
        self._add_unused_interfaces(opened)

    def _peek(self) -> Iterator[_Waiting]:
        for given, file in enumerate(self.files):
            batches = file.batches()
            try:
                first = next(batches)
            except StopIteration:
                continue
            except CaptureError as error:
                self.errors.append((given, error))
                continue
            time_ns = int(first.time_ns[0])
            if file.size is None:
                yield _Waiting(time_ns, given, chain([first], batches))
            else:
                batches.close()
                yield _Waiting(time_ns, given, None)

    def _open(self, waiting: _Waiting, rank: int) -> _MergedFile:
        file = self.files[waiting.given]
        return _MergedFile(rank, file, waiting.batches or file.batches())

    def _emit(self, ends: list[tuple[_MergedFile, int]]) -> Iterator[PacketBatch]:
        parts = [(reader, reader.at, end) for reader, end in ends if end > reader.at]
        whole, order = _join_by_time(parts)
        count = len(whole)
        number = np.arange(self._count + 1, self._count + 1 + count, dtype=np.int64)
        self._count += count
        ranks = np.array([reader.rank for reader, _, _ in parts], np.int64)
        owner = np.repeat(ranks, [end - at for _, at, end in parts])[order]
        interface = self._renumber_interfaces({reader.rank: reader for reader, _, _ in parts}, owner, whole.interface)
        for reader, _, end in parts:
            reader.at = end
        secrets = tuple(secret for reader, _, _ in parts for secret in reader.batch.secrets)
        names = tuple(name for reader, _, _ in parts for name in reader.batch.names)
        whole = replace(whole, interface=interface, number=number, origin=None, secrets=secrets, names=names)
        for low in range(0, count, self.batch_packets):
            yield whole.part(low, low + self.batch_packets)

    def _renumber_interfaces(self, opened: dict[int, _MergedFile], owner: Int64s, local: Int32s) -> Int32s:
        """Interfaces of the files as interfaces of the capture, new ones in order of first packet."""
        keys, first, inverse = np.unique(owner << 32 | local, return_index=True, return_inverse=True)
        table = np.zeros(len(keys), np.int32)
        for k in np.argsort(first).tolist():
            reader, index = opened[int(keys[k]) >> 32], int(keys[k]) & 0xFFFFFFFF
            if index not in reader.interfaces:
                reader.interfaces[index] = len(self.interfaces)
                self.interfaces.append(reader.file.info.interfaces[index])
            table[k] = reader.interfaces[index]
        return table[inverse]

    def _add_unused_interfaces(self, opened: list[tuple[int, _MergedFile]]) -> None:
        used = {given: reader.interfaces for given, reader in opened}
        for given, file in enumerate(self.files):
            for index, interface in enumerate(file.info.interfaces):
                if index not in used.get(given, {}):
                    self.interfaces.append(interface)


def _join_by_time(parts: list[tuple[_MergedFile, int, int]]) -> tuple[PacketBatch, Int64s]:
    """Packets at..end of all parts as one batch in time order, and that order. Numbers are still those of the files."""
    if len(parts) == 1:
        reader, at, end = parts[0]
        return reader.batch.part(at, end), np.arange(end - at, dtype=np.int64)
    pieces: list[bytes] = []
    starts: list[Int64s] = []
    size = 0
    for reader, at, end in parts:
        batch = reader.batch
        low, high = int(batch.start[at]), int(batch.start[end - 1] + batch.captured[end - 1])
        pieces.append(batch.buffer[low:high])
        starts.append(batch.start[at:end] + (size - low))
        size += high - low
    order = np.argsort(np.concatenate([reader.keys[at:end] for reader, at, end in parts]), kind="stable")
    others = ([getattr(reader.batch, name)[at:end] for reader, at, end in parts] for name in COLUMNS[1:])
    columns: list[Any] = [np.concatenate(column)[order] for column in (starts, *others)]
    return PacketBatch(b"".join(pieces), *columns), order
