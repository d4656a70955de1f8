"""Going back: dissectors as they were at places of the capture, kept in files, so that reading goes on from there."""

from __future__ import annotations

import io
import pickle
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import perf_counter
from typing import BinaryIO, NamedTuple, cast

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.capture.pcap import FILE_HEADER_BYTES, MAGICS
from wiredecode.dissect.dissector import Dissector

EVERY_SECONDS = 0.15
"""So much dissecting lies between two states at least: what has to be read again to show a frame."""
COST_SHARE = 6
"""Keeping states takes one part in so many of the time at most."""
MOST_STATES, MOST_BYTES = 256, 512 << 20
"""When there are more, every second one is dropped and they are made half as often."""


class Place(NamedTuple):
    """Between two packets of a capture."""

    packet: int = 0
    """The number of the packet before."""
    offset: int | None = None
    """Where the next one begins in the file, of a plain pcap file; None: not known, or there are several files."""


@dataclass(frozen=True)
class State:
    """A dissector that has handed out all frames up to ``frame``."""

    frame: int
    place: Place
    path: Path
    size: int


class States:
    """Keeps states in ``folder``; one thread makes them, others ask."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._states, self._frames = folder, list[State](), list[int]()
        self._made, self._least = 0, EVERY_SECONDS
        self._every = self._least
        self._since = perf_counter()

    def __len__(self) -> int:
        return len(self._states)

    @property
    def size(self) -> int:
        """Bytes of all states."""
        return sum(state.size for state in self._states)

    def offer(self, dissector: Dissector, frame: int, place: Place) -> None:
        """Keep the state of ``dissector``, if it is time."""
        began = perf_counter()
        if began - self._since < self._every:
            return
        try:
            data = pickle.dumps(dissector, pickle.HIGHEST_PROTOCOL)
        except Exception:  # TLS is decrypted, say: frames are read again from the last state, or from the beginning
            self._every = inf
            return
        path = self._folder / f"state-{self._made}"
        self._made += 1
        path.write_bytes(data)
        states = [*self._states, State(frame, place, path, len(data))]
        if len(states) > MOST_STATES or sum(state.size for state in states) > MOST_BYTES:
            for state in states[::2]:
                state.path.unlink(missing_ok=True)
            states, self._least = states[1::2], self._least * 2
        self._states, self._frames = states, [state.frame for state in states]
        self._since = perf_counter()
        self._every = max(self._least, COST_SHARE * (self._since - began))

    def before(self, number: int) -> tuple[Dissector, Place] | None:
        """A dissector whose next frames lead to frame ``number``, and where it goes on; None: at the beginning."""
        states = self._states
        at = bisect_left([state.frame for state in states], number) - 1
        while at >= 0:
            try:
                dissector: Dissector = pickle.loads(states[at].path.read_bytes())
                return dissector, states[at].place
            except OSError:  # dropped meanwhile
                at -= 1
        return None


def packets(files: Sequence[str], place: Place = Place()) -> Iterator[PacketBatch]:  # noqa: B008 - immutable
    """The packets behind ``place``; of plain pcap files what lies before is not read."""
    if place.offset is None:
        for batch in open_capture(files):
            if len(batch) and int(batch.number[-1]) > place.packet:
                skip = max(0, place.packet + 1 - int(batch.number[0]))
                yield batch.part(skip, len(batch)) if skip else batch
        return
    with Path(files[0]).open("rb") as file:
        try:
            for batch in open_capture([cast(BinaryIO, Behind(file, place.offset))]):
                yield replace(batch, number=batch.number + place.packet)
        except CaptureError as error:
            raise CaptureError(files[0], error.what, None, None, error.advice) from None


class Behind(io.RawIOBase):
    """A pcap file without what lies between its header and ``offset``."""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self.name = file.name
        self._file, self._head = file, file.read(FILE_HEADER_BYTES)
        file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head or self._file.read(size)


class Offsets:
    """Follows where packets begin in a plain pcap file."""

    def __init__(self, files: Sequence[str]) -> None:
        self._record, self._offset = 0, FILE_HEADER_BYTES
        if len(files) == 1 and Path(files[0]).is_file():
            with Path(files[0]).open("rb") as file:
                head = file.read(FILE_HEADER_BYTES)
            if len(head) == FILE_HEADER_BYTES and head[:4] in MAGICS:
                self._record = MAGICS[head[:4]][1][2]

    def behind(self, batch: PacketBatch) -> Place:
        """The place behind a batch; all have to be told in order."""
        if not len(batch):
            raise ValueError("a place is behind packets")
        self._offset += int(batch.captured.sum()) + self._record * len(batch)
        return Place(int(batch.number[-1]), self._offset if self._record else None)
