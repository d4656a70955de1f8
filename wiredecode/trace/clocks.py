"""Clock offsets between captures of several hosts, from their common connections.

An acknowledgement is never before the acknowledged bytes. Where data of one direction is in the first capture and its
ACK in the second, the difference of their times is the offset between the clocks plus a time that is not negative: an
upper bound of the offset. Data in the second capture whose ACK is in the first gives a lower bound. The estimate lies
between both, in the middle: as for NTP, it is off by half of how much the ways there and back differ. Neither capture
has to hold both directions, or the same packets.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from wiredecode.capture import CaptureError, open_capture
from wiredecode.dataclasses import dataclass, field
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.net.segments import ACK, FIN, MASK, RST, SYN, FlowKey, Segments, reverse

MAX_FILES = 8
"""More files are the rotated files of one capture, on one clock."""
MAX_SEGMENTS = 300_000
"""Segments per file that are compared."""
ODD_SHARE = 0.01
"""This share of the closest pairs may be wrong, as when only a repeated segment was captured."""


class Offset(NamedTuple):
    """Time by which the clock of a file is ahead of the first file's."""

    file: str
    offset_ns: int
    error_ns: int
    """Largest error of the offset."""


@dataclass(slots=True)
class SequenceTimes:
    """When sequence numbers were first seen in a file: sent, and acknowledged. By flow of the sender of the data."""

    sent: dict[tuple[FlowKey, int], int] = field(default_factory=dict)
    acknowledged: dict[tuple[FlowKey, int], int] = field(default_factory=dict)

    def add(self, segments: Segments) -> None:
        facts = (segments.seq, segments.ack, segments.flags, segments.length, segments.time_ns)
        rows = zip(segments.flows(), *(column.tolist() for column in facts), strict=True)
        for key, seq, ack, flags, length, time_ns in rows:
            if flags & RST:
                continue
            size = length + bool(flags & SYN) + bool(flags & FIN)
            if size:
                self.sent.setdefault((key, (seq + size) & MASK), time_ns)
            if flags & ACK:
                self.acknowledged.setdefault((reverse(key), ack), time_ns)


def seen_in(file: str | Path) -> SequenceTimes:
    """Return the first segments of a file; read errors are reported when the file is decoded."""
    seen, reader, remaining = SequenceTimes(), HeaderReader(DEFAULT_LIMITS, Counter(), Counter()), MAX_SEGMENTS
    try:
        for batch in open_capture([file]):
            if len(batch) == 0:
                continue
            segments = reader.read(batch)
            seen.add(segments)
            remaining -= len(segments)
            if remaining <= 0:
                break
    except CaptureError:
        pass
    return seen


def upper_bound(sent: SequenceTimes, acknowledged: SequenceTimes) -> int | None:
    """The clock of ``acknowledged`` is ahead of that of ``sent`` by no more than this, ns; None: unknown."""
    times = sent.sent
    waits = sorted(time_ns - times[key] for key, time_ns in acknowledged.acknowledged.items() if key in times)
    return next(islice(waits, int(len(waits) * ODD_SHARE), None), None)


def between(one: SequenceTimes, other: SequenceTimes) -> tuple[int, int] | None:
    """Return by how much the clock of ``other`` is ahead of that of ``one``, and the largest error, ns."""
    most, least = upper_bound(one, other), upper_bound(other, one)
    if most is None or least is None or most < -least:
        return None
    return (most - least) // 2, (most + least + 1) // 2


def compare(files: Sequence[str | Path]) -> list[Offset | None]:
    """Offset of each file's clock to the first; 0 if one clock explains both; None if no connection shows it."""
    first = Offset(str(files[0]), 0, 0)
    if not 1 < len(files) <= MAX_FILES:
        return [first, *(Offset(str(file), 0, 0) for file in files[1:])]
    seen = [seen_in(file) for file in files]
    offsets: dict[int, Offset] = {0: first}
    while len(offsets) < len(files):
        step = min(connect_files(files, seen, offsets), key=lambda step_to: step_to[1].error_ns, default=None)
        if step is None:
            break
        offsets[step[0]] = step[1]
    return [offsets.get(index) for index in range(len(files))]


def connect_files(
    files: Sequence[str | Path], seen: Sequence[SequenceTimes], offsets: dict[int, Offset]
) -> Iterable[tuple[int, Offset]]:
    """Files that share connections with one whose offset is known."""
    for index, file in enumerate(files):
        for number, base in offsets.items():
            if index not in offsets and (estimate := between(seen[number], seen[index])) is not None:
                offset, error = estimate
                offset = 0 if abs(offset) <= error else offset
                yield index, Offset(str(file), base.offset_ns + offset, base.error_ns + error)
