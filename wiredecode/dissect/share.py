"""One capture in several processes (``--jobs``): each divides all packets into frames, which gives all frames and
connections their numbers, and decodes those of its own connections.

Dividing costs a tenth to a third of decoding and showing. All processes see the same packets, so each knows, without a
word from the others, which process decodes a connection: the one that has the fewest bytes to do.
"""

from wiredecode.dissect.tracker import Tracker
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection

FRAME_BYTES = 500
"""Added to the length of each frame."""


class NumbersInside(Exception):
    """Frames inside others have numbers of their own, which only the process that decodes them knows."""

    def __init__(self) -> None:
        super().__init__("frames hold others (NATS routes), which only one process can number: leave out --jobs")


class Share:
    """The connections of process ``number``. ``speeds``: how much each process decodes, relative to others."""

    def __init__(self, number: int, speeds: tuple[float, ...]) -> None:
        self.number, self._speeds = number, speeds
        self._loads = [0.0] * len(speeds)
        self._together: dict[str, int] = {}
        """Protocols whose connections know of each other, and the process of them all."""

    def assign(self, connection: Connection, tracker: Tracker | None) -> int:
        """The process that decodes a connection."""
        if connection.process is None:
            protocol = None if tracker is None else tracker.protocol
            chosen = self._loads.index(min(self._loads))
            if protocol is not None and protocol.has_session:
                chosen = self._together.setdefault(protocol.name, chosen)
            connection.process = chosen
        return connection.process

    def is_own(self, frame: Frame, tracker: Tracker) -> bool:
        """Whether this process decodes the next frame."""
        process = self.assign(frame.connection, tracker)
        self._loads[process] += (frame.length + FRAME_BYTES) / self._speeds[process]
        return process == self.number
