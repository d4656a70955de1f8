"""Published and delivered messages as rows, of any protocol (docs/tables.md, "Messages")."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields.credentials import is_secret_pair
from wiredecode.fields.sized import printable, redact
from wiredecode.frames.frame import Frame

PUBLISH, DELIVER, FORWARD = "publish", "deliver", "forward"
"""``operation``: on its way to the broker, from it, or from one broker to another: a copy of a published message."""

Header = tuple[str, bytes]


def header_of(name: str, value: bytes, secrets: bool) -> Header:
    """A header for people; unless ``secrets`` without what carries credentials, as in records."""
    return printable(name), redact(value).encode() if not secrets and is_secret_pair(name, value) else value


class MessagePart(ABC):
    """Messages that were decoded together: those of a frame, or of a block of frames."""

    __slots__ = ()

    @property
    @abstractmethod
    def count(self) -> int:
        """Messages."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that they take, about."""


@dataclass(slots=True, eq=False)
class FrameMessages(MessagePart):
    """The messages of one frame. Scalars hold for all messages, lists have one element each or are None."""

    frame: Frame
    operation: str
    bodies: Sequence[bytes | None]
    """None: it was not captured."""
    topic: str | None = None
    """Stream, topic, subject or segment."""
    partition: int | None = None
    compression: str | None = None
    """Codec of the data with the messages."""
    keys: Sequence[bytes | None] | None = None
    offsets: Sequence[int | None] | None = None
    """Places in the broker's log."""
    sequences: Sequence[int | None] | None = None
    """The publisher's numbers."""
    times_ns: Sequence[int | None] | None = None
    """The messages' own times, nanoseconds since the epoch."""
    headers: Sequence[list[Header] | None] | None = None
    shares: Sequence[int] | None = None
    """The number of each in confirms; None: its place in the frame. The messages of a sub-batch share one."""
    chunk: int | None = None
    """First offset of the chunk that they were delivered in."""
    namespace: str | None = None
    """Namespace of the cluster, if several share a network."""
    published_ns: int | None = None
    """When their publisher was seen to send what is delivered here for the first time."""

    @property
    def count(self) -> int:
        return len(self.bodies)

    @property
    def size(self) -> int:
        """Bytes of the bodies."""
        return sum(map(len, filter(None, self.bodies)))


@dataclass(slots=True, eq=False)
class Slices:
    """A column of byte strings: ``buffer[starts[i] : stops[i]]``; null where ``starts[i]`` is negative."""

    buffer: bytes
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Coded:
    """A column of few different texts: ``values[codes[i]]``; null where ``codes[i]`` is negative."""

    codes: npt.NDArray[np.int32]
    values: list[str]


@dataclass(slots=True, eq=False)
class HeaderLists:
    """A column of headers: those of row i are pairs ``stops[i]`` up to ``stops[i + 1]``; null where not ``valid``."""

    stops: npt.NDArray[np.int64]
    keys: Slices
    """Names, in ASCII."""
    values: Slices
    valid: npt.NDArray[np.bool_]


Column = str | int | None | npt.NDArray[Any] | Slices | Coded | HeaderLists
"""A column of a block: one value for all rows, or one of these per row."""


MAX_MILLISECONDS = (1 << 63) // 1_000_000
"""Times beyond it, in the year 2262, do not fit into 64 bits of nanoseconds: they are null."""


def nanoseconds(milliseconds: int) -> int | None:
    """A time since the epoch in nanoseconds; None: it does not fit."""
    return milliseconds * 1_000_000 if -MAX_MILLISECONDS < milliseconds < MAX_MILLISECONDS else None


@dataclass(slots=True)
class Messages:
    """Collection that conversations add messages to, in the order of decoding; its owner takes ``parts``."""

    parts: list[MessagePart] = field(default_factory=list)
    count: int = 0
    """Messages in ``parts``."""
    secrets: bool = False
    """Whether bodies and headers that carry credentials by their purpose are wanted."""
    of_protocol: Callable[[str], bool] | None = None
    """Whether those of a protocol are wanted; None: of all."""

    def wants(self, protocol: str) -> bool:
        """Whether the messages of a protocol are wanted."""
        return self.of_protocol is None or self.of_protocol(protocol)

    def add(self, frame: Frame, operation: str, bodies: Sequence[bytes | None], **columns: Any) -> None:
        """Add messages of a frame just decoded, also in several calls; columns as of :class:`FrameMessages`."""
        if bodies:
            self.count += len(bodies)
            self.parts.append(FrameMessages(frame, operation, bodies, **columns))

    def add_part(self, part: MessagePart) -> None:
        """Add the messages of a block."""
        if part.count:
            self.count += part.count
            self.parts.append(part)

    def drain(self) -> list[MessagePart]:
        """Take all that was added."""
        parts, self.parts, self.count = self.parts, [], 0
        return parts

    def of(self, frame: Frame) -> Sequence[FrameMessages]:
        """Those of a frame; those of frames before it are dropped. Not for blocks."""
        parts: list[Any] = self.parts
        if not parts:
            return ()
        passed = 0
        while passed < len(parts) and parts[passed].frame.number < frame.number:
            passed += 1
        del parts[:passed]
        return [*takewhile(lambda part: part.frame is frame, parts)]
