"""One capture in several processes (``--jobs``): each takes the packets of its own connections.

All read the same packets, in the same parts. After each part, a *step*, a process sends the others the places of its
frames in the capture, from which follow their numbers, and the notes of frames whose connections know of each other
(:mod:`wiredecode.dissect.following`). It does so before it decodes the step, and some steps ahead: waits are short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.dataclasses import dataclass, field
from wiredecode.dissect.following import NoteEntry, PacketNotes
from wiredecode.dissect.order import BlockOrder, FrameOrder
from wiredecode.net.buckets import Dealt
from wiredecode.net.logical_time import packets_of
from wiredecode.net.types import Connection

AHEAD = 2
"""Steps whose frames are known to the others before a step is decoded."""


@dataclass(slots=True, eq=False)
class DecodingStep:
    """The frames and blocks that some packets completed."""

    order: FrameOrder | BlockOrder
    watermark: int | None
    """The number of the next packet; None: there is none."""
    ended: list[tuple[Connection, str | None]]
    """Connections without further frames, with their likely protocol."""

    # With several processes.
    last: int = 0
    """Number of the last frame, of all processes."""
    size: int = 0
    """Bytes of all frames up to it."""
    inside: Bools | None = None
    """Whether each frame sent to others is inside the one before; None: none is."""
    before: Mapping[int, int] = field(default_factory=dict)
    """By number of a frame of this process: bytes of all frames before it."""


class Reached(NamedTuple):
    """A step is decoded: all frames of this process up to ``number`` were yielded."""

    number: int
    last: int
    """Number of the last frame, of all processes."""
    size: int
    """Bytes of all frames up to it."""


class _Told(NamedTuple):
    """A step, as others get it."""

    keys: Int64s
    opened: list[int]
    """First packets of connections."""
    notes: list[NoteEntry]
    """Frames by their index in ``keys``, from 1 on."""


class Peers:
    """The other processes; :mod:`wiredecode.cli.jobs` has those that are real."""

    def tell(self, step: _Told) -> None:
        """Send a step to all others."""
        raise NotImplementedError

    def told(self) -> Sequence[_Told]:
        """The next step of each."""
        raise NotImplementedError


class Share:
    """The connections of process ``number``; see :class:`Dealt`."""

    def __init__(
        self, number: int, speeds: Sequence[float], peers: Peers, together: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self.number, self._peers = number, peers
        self.bucket = Dealt(number, speeds, together)
        self._steps: deque[tuple[DecodingStep, _Told, list[Connection]]] = deque()
        self.last = self._connections = self.size = 0
        """Numbers of the last frame and connection, and bytes of all frames, of the steps that were due."""
        self.opened: list[Connection] = []
        """Connections since the last step."""
        self.waiting: list[PacketNotes] = []
        """Notes of others since the last step; their places are numbers of frames."""

    def begin(self, step: DecodingStep, notes: list[NoteEntry], inner: Sequence[int]) -> None:
        """Send the others the frames and notes of a step. ``inner``: for each frame inside another one, the index of
        that in the step, from 1 on.
        """
        opened, self.opened[:] = [*self.opened], []
        keys = step.order.keys()
        if inner:
            counts = np.bincount(inner, minlength=len(keys) + 1)[1:]
            step.inside = np.ones(len(keys) + len(inner), np.bool_)
            step.inside[np.arange(len(keys)) + np.cumsum(counts) - counts] = False
            keys = np.repeat(keys, counts + 1, axis=0)
            keys[step.inside, 2] = 0
        told = _Told(keys, [each.first for each in opened], notes)
        self._peers.tell(told)
        self._steps.append((step, told, opened))

    def due(self) -> Iterator[DecodingStep]:
        """The steps to decode now, at the end of the capture all, with the numbers of their frames."""
        while self._steps and (len(self._steps) > AHEAD or self._steps[-1][0].watermark is None):
            step, own, opened = self._steps.popleft()
            every = [own, *self._peers.told()]
            self._number_connections(opened, [first for each in every for first in each.opened])
            keys = np.concatenate([each.keys for each in every])
            order = np.lexsort((keys[:, 1], packets_of(keys[:, 0])))
            numbers = np.empty(len(keys), np.int64)
            numbers[order] = np.arange(self.last + 1, self.last + 1 + len(keys))
            before = np.empty(len(keys), np.int64)
            sums = np.cumsum(keys[order, 2])
            before[order] = self.size + sums - keys[order, 2]
            mine = numbers[: len(own.keys)]
            step.order.number_all(mine if step.inside is None else mine[~step.inside])
            step.before = dict(zip(mine.tolist(), before[: len(mine)].tolist(), strict=True))
            self.last += len(keys)
            self.size += int(sums[-1]) if len(sums) else 0
            step.last, step.size = self.last, self.size
            self._take_notes(every, numbers)
            yield step

    def _number_connections(self, own: list[Connection], firsts: list[int]) -> None:
        numbers = {first: number for number, first in enumerate(sorted(firsts), self._connections + 1)}
        self._connections += len(firsts)
        for connection in own:
            connection.number = numbers[connection.first]

    def _take_notes(self, every: Sequence[_Told], numbers: Int64s) -> None:
        """Put the notes of all others in the order of the capture."""
        found: list[PacketNotes] = []
        starts = [0, *accumulate(len(each.keys) for each in every)]
        for start, told in zip(starts[1:], every[1:], strict=False):
            own = numbers[start : start + len(told.keys)].tolist()
            for entry in told.notes:
                places = tuple(own[index - 1] for index in entry.numbers)
                found.append(PacketNotes(places[0] if places else self.last, -1, b"", [entry.placed(places)]))
        found.sort(key=lambda notes: notes.packet)
        self.waiting = found
