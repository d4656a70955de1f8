"""Blocks: whole, plain frames that follow one another in one direction, as columns."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s, UInt8s
from wiredecode.frames.frame import OK, Frame, frame_ids
from wiredecode.frames.message import Column, MessagePart, Messages
from wiredecode.net.types import Connection

PIECES = ("ready", "time_ns", "first_ns", "low", "high")


@dataclass(slots=True, eq=False)
class Cut:
    """The frames at the front of a buffer, as :meth:`Protocol.split` finds them, and their kinds.

    Frame i is ``buffer[starts[i] : starts[i + 1]]``: ``starts`` has one element more than there are frames.
    ``kinds[i]`` is 0 for a frame that must be read singly, else the kind by the protocol's :class:`Bulk`.
    ``parts`` are further columns that the protocol found on the way, one element per frame.
    """

    starts: Int64s
    kinds: UInt8s
    parts: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FrameBlock:
    """n frames of kinds other than 0. They need not be of the same kind."""

    connection: Connection
    side: int
    buffer: bytes
    base: int
    """Stream offset of ``buffer[0]``."""
    starts: Int64s
    """n: where each frame starts in ``buffer``."""
    stops: Int64s
    kinds: UInt8s
    parts: dict[str, npt.NDArray[Any]]
    ready: Int64s
    """Packet that completed each frame, never decreasing."""
    time_ns: Int64s
    """Its time."""
    first_ns: Int64s
    low: Int64s
    """Index in ``packet`` of the first piece that carried the frame ..."""
    high: Int64s
    """... and of the last."""
    packet: Int64s
    """Packet numbers of the pieces of the buffer."""
    bulk: "Bulk"
    """The protocol's reader that found the block, and reads it."""
    protocol: str
    numbers: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Frame numbers, once known."""
    sender: str | None = None

    @property
    def ids(self) -> Int64s:
        """As :attr:`Frame.id`."""
        label = self.connection.stable_id
        return self.numbers if label is None else frame_ids(label, self.side, self.base + self.starts)

    @property
    def types(self) -> tuple[str, ...]:
        """Type by kind."""
        return self.bulk.types

    def __len__(self) -> int:
        return len(self.starts)

    def frames(self) -> list[Frame]:
        """The frames one by one, as the row decoder wants them."""
        packet = self.packet
        columns = (self.starts, self.stops, self.low, self.high, self.ready, self.time_ns, self.first_ns, self.numbers)
        frames = []
        for start, stop, low, high, ready, time_ns, first_ns, number in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            carriers = sorted({*packet[low : high + 1].tolist()})
            where = (self.buffer, start, stop, self.base + start, stop - start, 0)
            frame = Frame(self.connection, self.side, *where, carriers, ready, time_ns, first_ns)
            frame.number = number
            frames.append(frame)
        return frames

    def counted(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """``(protocol, type, status)`` and how many frames are that."""
        for kind, count in enumerate(np.bincount(self.kinds).tolist()):
            if count:
                yield (self.protocol, self.types[kind], OK), count

    def part(self, low: int, high: int) -> "FrameBlock":
        """Frames ``low`` up to ``high``."""
        if low == 0 and high == len(self):
            return self
        chosen = slice(low, high)
        return replace(
            self,
            starts=self.starts[chosen],
            stops=self.stops[chosen],
            kinds=self.kinds[chosen],
            parts={name: column[chosen] for name, column in self.parts.items()},
            numbers=self.numbers[chosen],
            **{name: getattr(self, name)[chosen] for name in PIECES},
        )


@dataclass(slots=True, eq=False)
class BlockMessages(MessagePart):
    """The messages of a block. ``rows[i]`` is the frame (index in the block) of message i, never decreasing."""

    block: FrameBlock
    rows: Int64s
    columns: dict[str, Column]
    """By name of the columns of the table, from ``index`` and ``operation`` on."""

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """Bytes of the frames."""
        return int(self.block.stops[-1] - self.block.starts[0])


class Bulk(ABC):
    """Reads many frames of a protocol together. Stateless; ``Protocol.bulk`` holds it, if there is one.

    Other than plain frames are left to the row decoder: :meth:`cut` gives kind 0, or :meth:`decode` False. So both
    ways agree, and only what is common needs to be fast.
    """

    types: tuple[str, ...] = ()
    """Type of the frames of each kind, as ``Frame.type`` has it; index 0 is unused."""

    @abstractmethod
    def cut(self, data: bytes) -> Cut:
        """Cut the whole frames off the front of ``data``, which starts at a frame.

        It may stop before a frame that it cannot judge, at any place where ``Protocol.split`` would also cut: what is
        left is given to that.
        """

    @abstractmethod
    def decode(self, conversation: Any, block: FrameBlock, out: Messages | None) -> bool:
        """Decode a block as the :class:`Conversation` of its connection would its frames, one after another.

        True: done; the state is as if they had been decoded, none of them has a finding or is a request or a response,
        and their messages are in ``out``. False: nothing was done, they must be decoded one by one.
        """
