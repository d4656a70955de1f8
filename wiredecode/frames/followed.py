"""Frames that another process decodes, for :mod:`wiredecode.dissect.following`."""

from collections.abc import Sequence
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import Frame
from wiredecode.net.logical_time import logical_time
from wiredecode.net.types import Connection


@dataclass(slots=True, eq=False)
class FollowedFrame(Frame):
    """A frame that another process decodes, with what its note says."""

    stable_id: int = 0

    @property
    def id(self) -> int:
        return self.stable_id


@dataclass(slots=True, eq=False)
class FollowedFrames:
    """Frames of one side of a connection that a packet completed: id and note of each."""

    connection: Connection
    side: int
    time_ns: int
    sender: str | None
    packet: int
    notes: list[tuple[int, Any]]
    numbers: Sequence[int] = ()
    """Numbers of the frames, once known."""

    def frame(self, number: int, stable_id: int) -> FollowedFrame:
        """One of the frames."""
        ready, at_ns = logical_time(self.packet), self.time_ns
        frame = FollowedFrame(
            self.connection, self.side, b"", 0, 0, 0, 0, 0, [], ready, at_ns, at_ns, stable_id=stable_id
        )
        frame.number, frame.sender = number, self.sender
        return frame
