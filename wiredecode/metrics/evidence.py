"""The packets of an alert: those of the last minute between the hosts concerned, written when an error begins."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.info import Interface
from wiredecode.capture.live.pcapng_writer import PcapNgWriter
from wiredecode.export.atomic import NewFile
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.protocols.shared.problems import Problem

LAST_NS = 60_000_000_000
"""Packets are kept for this long ..."""
MAX_BYTES = 64 << 20
"""... and at most this much of them."""
MAX_FILES = 100
"""Files that are written; the evidence of later problems is in the ring only."""


class AlertPackets:
    """Feed all batches with :meth:`look`; :meth:`save` writes a file for each error that is new."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._batches: deque[PacketBatch] = deque()
        self._interfaces: Sequence[Interface] = ()
        self._size = 0
        self._seen: set[tuple[str, int | None]] = set()
        self._reader = HeaderReader(DEFAULT_LIMITS, Counter(), Counter())

    def look(self, batch: PacketBatch, interfaces: Sequence[Interface]) -> None:
        self._interfaces = interfaces
        if not len(batch):
            return
        self._batches.append(batch)
        self._size += len(batch.buffer)
        until = int(batch.time_ns[-1]) - LAST_NS
        while len(self._batches) > 1 and (self._size > MAX_BYTES or int(self._batches[0].time_ns[-1]) < until):
            self._size -= len(self._batches.popleft().buffer)

    def save(self, problems: Iterable[Problem]) -> Iterator[str]:
        """Write the packets of errors that were not there before; what was done, a line each."""
        for problem in problems:
            key = problem.name, problem.first_ns
            if problem.severity == "error" and key not in self._seen and len(self._seen) < MAX_FILES:
                self._seen.add(key)
                yield self._write(problem)

    def _write(self, problem: Problem) -> str:
        when = datetime.fromtimestamp((problem.first_ns or 0) / 1e9, UTC).strftime("%Y%m%dT%H%M%S")
        path = self._folder / f"{when}-{problem.name}-{len(self._seen)}.pcapng"
        count = 0
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with NewFile(path) as file:
                writer = PcapNgWriter(file)
                for batch in self._batches:
                    part = batch.select(self._rows(batch, problem.paths))
                    writer.write(part, [*self._interfaces])
                    count += len(part)
        except OSError as error:
            return f"{path}: {error.strerror}"
        return f"{path}: {count} packets, {problem.name}: {problem.title}"

    def _rows(self, batch: PacketBatch, paths: set[tuple[str, ...]]) -> Int64s:
        """Places of the packets between these pairs of hosts."""
        segments = self._reader.read(batch)
        wanted = np.zeros(len(segments.row), np.bool_)
        for first, second in (map(halves, hosts) for hosts in paths):
            for source, target in ((first, second), (second, first)):
                wanted |= (
                    (segments.source_high == source[0])
                    & (segments.source_low == source[1])
                    & (segments.target_high == target[0])
                    & (segments.target_low == target[1])
                )
        return np.unique(segments.row[wanted])


def halves(host: str) -> tuple[int, int]:
    """Upper and lower half of an address, as segments have it: IPv4 is in the lower one."""
    return divmod(int(ip_address(host.strip("[]"))), 1 << 64)
