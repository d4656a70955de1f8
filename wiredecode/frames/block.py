"""Blocks: consecutive whole, plain frames of one direction, as columns."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s, UInt8s
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, Frame, frame_ids
from wiredecode.frames.message import Column, MessagePart, Messages
from wiredecode.net.types import Connection

PIECES = ("ready", "time_ns", "first_ns", "low", "high")


@dataclass(slots=True, eq=False)
class BulkSplit:
    """The frames at the front of a buffer, as :meth:`Protocol.split` returns them, and their kinds.

    Frame i is ``buffer[starts[i] : starts[i + 1]]``: ``starts`` has one element more than there are frames.
    ``kinds[i]`` is 0 for a frame that must be decoded one by one, else an index into :attr:`Bulk.types`.
    ``parts`` are further columns for :meth:`Bulk.decode`, one element per frame.
    """

    starts: Int64s
    kinds: UInt8s
    parts: dict[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FrameBlock:
    """n frames of any kinds but 0."""

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
    """Logical time at which each frame was complete, never decreasing."""
    time_ns: Int64s
    """Time of the packet that completed each frame."""
    first_ns: Int64s
    low: Int64s
    """Index in ``packet`` of the first piece that carried the frame."""
    high: Int64s
    """Index in ``packet`` of the last piece."""
    packet: Int64s
    """Packet numbers of the pieces of the buffer."""
    bulk: "Bulk"
    """The protocol's reader that found the block, and reads it."""
    protocol: str
    numbers: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Frame numbers; empty until they are known."""
    sender: str | None = None
    samples: "Samples | None" = None
    """Its fields, if no messages are collected."""
    refused: bool = False
    """It cannot be decoded as a whole, but its frames one by one."""

    @property
    def ids(self) -> Int64s:
        """As :attr:`Frame.id`."""
        label = self.connection.stable_id
        return self.numbers if label is None else frame_ids(label, self.side, self.base + self.starts)

    def __len__(self) -> int:
        return len(self.starts)

    def frames(self) -> list[Frame]:
        """The frames as objects, to be decoded one by one."""
        connection, side, buffer, base = self.connection, self.side, self.buffer, self.base
        packet = self.packet.tolist()
        numbers = self.numbers if len(self.numbers) else np.zeros(len(self), np.int64)
        columns = (self.starts, self.stops, self.low, self.high, self.ready, self.time_ns, self.first_ns, numbers)
        frames = []
        for start, stop, low, high, ready, time_ns, first_ns, number in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            carriers = [packet[low]] if low == high else sorted({*packet[low : high + 1]})
            size = stop - start
            frame = Frame(
                connection, side, buffer, start, stop, base + start, size, 0, carriers, ready, time_ns, first_ns
            )
            frame.number = number
            frames.append(frame)
        return frames

    def counted(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """``(protocol, type, status)``, and the number of such frames."""
        for kind, count in enumerate(np.bincount(self.kinds).tolist()):
            if count:
                yield (self.protocol, self.bulk.types[kind], OK), count

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
            samples=self.samples and self.samples.part(chosen),
            **{name: getattr(self, name)[chosen] for name in PIECES},
        )


class Samples(NamedTuple):
    """The fields of the frames of a block, which have one layer: those of a few frames, and one that always differs."""

    layer: type[Layer]
    values: list[dict[str, Any]]
    """Fields of each sample, without payloads."""
    generated: list[Mapping[str, Any]]
    """Generated fields of each sample."""
    which: Int64s
    """Index of its sample, for each frame of the block."""
    field: str
    """The field that differs."""
    numbers: Int64s
    """Its value, for each frame of the block."""

    def part(self, rows: slice) -> "Samples":
        return self._replace(which=self.which[rows], numbers=self.numbers[rows])


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
    """Reads many frames of a protocol in bulk, if :meth:`Protocol.bulk` returns one. Stateless.

    It only reads plain frames. The conversation decodes the others: :meth:`split` gives them kind 0, or :meth:`decode`
    returns False. Both ways give the same rows.
    """

    types: tuple[str, ...] = ()
    """Type of the frames of each kind, as ``Frame.type`` has it; index 0 is unused."""

    @abstractmethod
    def split(self, data: bytes) -> BulkSplit:
        """Split whole frames off the front of ``data``, which starts at a frame.

        It may stop before any frame: ``Protocol.split`` continues there.
        """

    def samples(self, conversation: Any, block: FrameBlock) -> Samples | None:
        """Samples of the frames of a block that :meth:`decode` will read; None: they must be decoded one by one."""
        return None

    def notes(self, block: FrameBlock) -> Iterable[Any] | None:
        """As :meth:`Conversation.note`, of each frame of a block that was decoded; None: no frame needs one."""
        return None

    @abstractmethod
    def decode(self, conversation: Any, block: FrameBlock, out: Messages | None) -> bool:
        """Decode a block as the :class:`Conversation` of its connection would decode its frames.

        True: done, their messages are in ``out``, and the state of the conversation is the same; no frame has a
        finding, or is a request or a response. False: nothing was done, the frames must be decoded one by one.
        """


def has_blocks(items: Iterable[Frame | FrameBlock]) -> bool:
    """Whether some of the items are blocks."""
    return FrameBlock in set(map(type, items))
