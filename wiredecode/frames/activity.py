"""What each connection said: frames, bytes and findings by side, protocols, and when it began and ended.

Names and users are kept with the connection itself, see :mod:`wiredecode.frames.who`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wiredecode.frames.who import client_side

if TYPE_CHECKING:
    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Connection


@dataclass(slots=True, eq=False)
class Activity:
    """What one connection said."""

    connection: Connection
    began_ns: int | None = None
    """When the first byte of its first frame came; None: it has no frames."""
    ended_ns: int = 0
    """Time of its last frame; packets may be out of order, so others may be later."""
    first_ns: int = 0
    last_ns: int = 0
    """Times of its earliest and latest frame."""
    client: int | None = None
    """The endpoint that is the client, as the protocol told."""
    protocols: dict[str, None] = field(default_factory=dict)
    """Of its frames, in the order in which they came."""
    frames: list[int] = field(default_factory=lambda: [0, 0])
    """By side."""
    length: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes of these, by side."""
    findings: int = 0
    other: str | None = None
    """What it looks like, if it is not decoded."""

    def add(self, frame: Frame) -> None:
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

    def merge(self, part: Activity) -> None:
        """Add what another reader counted of the same connection."""
        if part.began_ns is not None:
            if self.began_ns is None or part.first_ns < self.first_ns:
                self.began_ns, self.first_ns = part.began_ns, part.first_ns
            if part.last_ns > self.last_ns:
                self.ended_ns, self.last_ns = part.ended_ns, part.last_ns
        self.protocols |= part.protocols
        self.client = part.client if self.client is None else self.client
        for side in (0, 1):
            self.frames[side] += part.frames[side]
            self.length[side] += part.length[side]
        self.findings += part.findings

    @property
    def captured(self) -> int:
        """Payload bytes captured, of both sides."""
        return sum(direction.captured for direction in self.connection.directions)

    @property
    def client_side(self) -> int:
        """Which endpoint is the client: as the protocol, else as TCP tells."""
        return client_side(self.connection) if self.client is None else self.client


class Activities:
    """What the connections of a capture said, by their numbers."""

    def __init__(self) -> None:
        self.by_number: dict[int, Activity] = {}

    def __iter__(self) -> Iterator[Activity]:
        """In order of the numbers."""
        return (each for _, each in sorted(self.by_number.items()))

    def frame(self, frame: Frame) -> Activity:
        """Count the next frame; return what its connection said so far."""
        found = self.by_number.get(frame.connection.number) or self.of(frame.connection)
        found.add(frame)
        return found

    def of(self, connection: Connection) -> Activity:
        """What a connection said so far, possibly nothing."""
        found = self.by_number.get(connection.number)
        if found is None:
            found = self.by_number[connection.number] = Activity(connection)
        return found
