"""Several files as one capture in time order, with one batch per overlapping file in memory.

The order is that of a merge by heads: always the earliest of the files' next packets, ties in the order of
the files (that is: by the time of their first packet, then as given). A packet that is earlier than its
predecessor in the same file therefore follows it at once. Files are opened when their time has come, so that
hundreds of rotated files need one open file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from wiredecode.arrays import Int32s, Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.file import FIRST_BATCH_BYTES, CaptureFile
from wiredecode.capture.info import Interface


class _Waiting(NamedTuple):
    """A file that has not been reached yet; what was read of it is kept only if it cannot be read again."""

    time_ns: int
    given: int
    batch: PacketBatch | None
    rest: Generator[PacketBatch] | None


class _Open:
    """A file in the merge: the part of its batch that has not been handed on."""

    def __init__(self, rank: int, file: CaptureFile, first: PacketBatch | None, rest: Iterator[PacketBatch]) -> None:
        self.rank = rank
        self.file = file
        self.interfaces: dict[int, int] = {}
        """Interface of the file to interface of the capture."""
        self.error: CaptureError | None = None
        self._rest = rest
        self._comments_done = 0
        self.done = False
        if first is None:
            self.advance()
        else:
            self._open(first)

    def _open(self, batch: PacketBatch) -> None:
        self.batch, self.at = batch, 0
        self.keys: Int64s = np.maximum.accumulate(batch.time_ns)
        """Time, but never earlier than the packet before in the batch (a batch is left only when its last
        packet is the earliest of all, so that the batch before does not matter)."""
        self.last = int(self.keys[-1])

    def advance(self) -> None:
        """Go on to the next batch; ``done``, and nothing of it in memory, when there is none."""
        try:
            self._open(next(self._rest))
            return
        except StopIteration:
            pass
        except CaptureError as error:
            self.error = error
        self.done = True
        self._close()

    def _close(self) -> None:
        self.batch, self.at = PacketBatch.from_packets(()), 0
        self.keys = self.batch.time_ns
        self._rest = iter(())

    def until(self, edge: _Open) -> int:
        """End of the packets that come before whatever ``edge`` has after its batch."""
        side: Literal["right", "left"] = "right" if self.rank <= edge.rank else "left"
        return int(np.searchsorted(self.keys, edge.last, side=side))

    def number_comments(self, local: Int64s, number: Int64s) -> None:
        """Give packet comments the number over the capture; ``local`` (ascending) is that of the file."""
        comments = self.file.info.comments
        while self._comments_done < len(comments):
            comment = comments[self._comments_done]
            if comment.number is not None:
                if comment.number > local[-1]:
                    return
                comment.number = int(number[np.searchsorted(local, comment.number)])
            self._comments_done += 1


class Merge:
    """Merges ``files``; errors are collected in ``errors`` as (index of the file, error)."""

    def __init__(
        self, files: Sequence[CaptureFile], interfaces: list[Interface], batch_bytes: int, batch_packets: int
    ) -> None:
        self._files = files
        self._interfaces = interfaces
        self._batch_bytes = batch_bytes
        self._batch_packets = batch_packets
        self._count = 0
        self.errors: list[tuple[int, CaptureError]] = []

    def batches(self) -> Iterator[PacketBatch]:
        waiting = deque(sorted(self._peek(), key=lambda one: one[:2]))
        active: list[_Open] = []
        opened: list[tuple[int, _Open]] = []
        while active or waiting:
            edge = min(active, key=lambda one: (one.last, one.rank), default=None)
            if waiting and (edge is None or waiting[0].time_ns < edge.last):
                one = waiting.popleft()
                opened.append((one.given, self._open(one, len(opened))))
                active.append(opened[-1][1])
            elif edge is not None:
                yield from self._emit([(one, one.until(edge)) for one in active])
                for one_open in active:
                    if one_open.at == len(one_open.batch):
                        one_open.advance()
            active = [one_open for one_open in active if not one_open.done]
            for one_open in active:
                one_open.file.batch_bytes = max(FIRST_BATCH_BYTES, self._batch_bytes // len(active))
        self.errors += [(given, one_open.error) for given, one_open in opened if one_open.error is not None]
        self._add_unused_interfaces(opened)

    def _peek(self) -> Iterator[_Waiting]:
        """Time of the first packet of every file that has one."""
        for given, file in enumerate(self._files):
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
                yield _Waiting(time_ns, given, first, batches)
            else:
                batches.close()
                yield _Waiting(time_ns, given, None, None)

    def _open(self, one: _Waiting, rank: int) -> _Open:
        file = self._files[one.given]
        return _Open(rank, file, one.batch, file.batches() if one.rest is None else one.rest)

    def _emit(self, ends: list[tuple[_Open, int]]) -> Iterator[PacketBatch]:
        """Hand on the packets ``at`` to end of every file, in order."""
        parts = [(one, one.at, end) for one, end in ends if end > one.at]
        whole, order = _joined(parts)
        count = len(whole)
        number = np.arange(self._count + 1, self._count + 1 + count, dtype=np.int64)
        self._count += count
        ranks = np.array([one.rank for one, _, _ in parts], np.int64)
        owner = np.repeat(ranks, [end - at for _, at, end in parts])[order]
        interface = self._renumbered({one.rank: one for one, _, _ in parts}, owner, whole.interface)
        for one, _, end in parts:
            mine = owner == one.rank
            one.number_comments(whole.number[mine], number[mine])
            one.at = end
        for low in range(0, count, self._batch_packets):
            cut = slice(low, low + self._batch_packets)
            yield PacketBatch(
                buffer=whole.buffer,
                start=whole.start[cut],
                captured=whole.captured[cut],
                original=whole.original[cut],
                time_ns=whole.time_ns[cut],
                linktype=whole.linktype[cut],
                interface=interface[cut],
                number=number[cut],
                secrets=tuple(secret for one, _, _ in parts for secret in one.batch.secrets),
                names=tuple(name for one, _, _ in parts for name in one.batch.names),
            )

    def _renumbered(self, opened: dict[int, _Open], owner: Int64s, local: Int32s) -> Int32s:
        """Interfaces of the files as interfaces of the capture, new ones in order of first packet."""
        keys, first, inverse = np.unique(owner << 32 | local, return_index=True, return_inverse=True)
        table = np.zeros(len(keys), np.int32)
        for k in np.argsort(first).tolist():
            one, index = opened[int(keys[k]) >> 32], int(keys[k]) & 0xFFFFFFFF
            if index not in one.interfaces:
                one.interfaces[index] = len(self._interfaces)
                self._interfaces.append(one.file.info.interfaces[index])
            table[k] = one.interfaces[index]
        return table[inverse]

    def _add_unused_interfaces(self, opened: list[tuple[int, _Open]]) -> None:
        used = {given: one.interfaces for given, one in opened}
        for given, file in enumerate(self._files):
            for index, interface in enumerate(file.info.interfaces):
                if index not in used.get(given, {}):
                    self._interfaces.append(interface)


def _joined(parts: list[tuple[_Open, int, int]]) -> tuple[PacketBatch, Int64s]:
    """The packets at..end of all parts (by rank) as one batch in time order, and that order.

    Numbers and interfaces are still those of the files.
    """
    if len(parts) == 1:
        one, at, end = parts[0]
        columns = [getattr(one.batch, name)[at:end] for name in _COLUMNS]
        return PacketBatch(one.batch.buffer, *columns), np.arange(end - at, dtype=np.int64)
    pieces: list[bytes] = []
    starts: list[Int64s] = []
    size = 0
    for one, at, end in parts:
        batch = one.batch
        low, high = int(batch.start[at]), int(batch.start[end - 1] + batch.captured[end - 1])
        pieces.append(batch.buffer[low:high])
        starts.append(batch.start[at:end] + (size - low))
        size += high - low
    order = np.argsort(np.concatenate([one.keys[at:end] for one, at, end in parts]), kind="stable")
    columns = [np.concatenate(starts)[order]]
    for name in _COLUMNS[1:]:
        columns.append(np.concatenate([getattr(one.batch, name)[at:end] for one, at, end in parts])[order])
    return PacketBatch(b"".join(pieces), *columns), order


_COLUMNS = ("start", "captured", "original", "time_ns", "linktype", "interface", "number")
