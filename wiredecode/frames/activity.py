"""Traffic by connection: frames, bytes and findings of each side, protocols, first and last times.

Names and users are kept with the connection itself, see :mod:`wiredecode.frames.identity`.
"""

from collections.abc import Iterator

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side
from wiredecode.net.types import Connection


@dataclass(slots=True, eq=False)
class Activity:
    """Traffic of one connection."""

    connection: Connection
    began_ns: int | None = None
    """Time of the first byte of its first frame, or None if it has no frames."""
    ended_ns: int = 0
    """Time of its last frame; packets may be out of order, so others may be later."""
    first_ns: int = 0
    last_ns: int = 0
    """Times of its earliest and latest frame."""
    client: int | None = None
    """The endpoint that is the client, if the protocol shows it."""
    protocols: dict[str, None] = field(default_factory=dict)
    """Protocols of its frames, in order of appearance."""
    frames: list[int] = field(default_factory=lambda: [0, 0])
    """By side."""
    length: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes of the frames, by side."""
    findings: int = 0
    foreign: str | None = None
    """Likely protocol of a connection that is not decoded."""

    def frame(self, frame: Frame) -> None:
        """Count a frame of the connection."""
        self.ended_ns = time_ns = frame.time_ns
        side, protocol = frame.side, frame.protocol
        if self.began_ns is None:
            self.began_ns, self.first_ns = frame.first_ns, time_ns
            self.last_ns = self.last_ns or time_ns
        elif time_ns < self.first_ns:
            self.first_ns = time_ns
        if time_ns > self.last_ns:
            self.last_ns = time_ns
        self.frames[side] += 1
        self.length[side] += frame.length
        if protocol and protocol not in self.protocols:
            self.protocols[protocol] = None
        if self.client is None and frame.sender is not None:
            self.client = side if frame.sender == "client" else 1 - side
        if frame.findings:
            self.findings += len(frame.findings)

    @property
    def captured(self) -> int:
        """Payload bytes captured, of both sides."""
        return sum(direction.captured for direction in self.connection.directions)

    @property
    def client_side(self) -> int:
        """The client's endpoint, from the protocol or else from TCP."""
        return client_side(self.connection) if self.client is None else self.client


class Activities:
    """Traffic of the connections of a capture, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, Activity] = {}

    def __iter__(self) -> Iterator[Activity]:
        """In order of the numbers."""
        return (each for _, each in sorted(self.by_number.items()))

    def frame(self, frame: Frame) -> Activity:
        """Count the next frame; return the traffic of its connection."""
        activity = self.by_number.get(frame.connection.number) or self.of(frame.connection)
        activity.frame(frame)
        return activity

    def of(self, connection: Connection) -> Activity:
        """Return the traffic of a connection, which may have no frames yet."""
        activity = self.by_number.get(connection.number)
        if activity is None:
            activity = self.by_number[connection.number] = Activity(connection)
        return activity
