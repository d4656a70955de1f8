"""Connections that other processes decode, as far as those of this one depend on them: on Spark, see docs/spark.md.

Some protocols link connections: a reply comes on another one than its request, a consumer gets a copy of what another
client published. A process that decodes a part of the connections writes a *note* of each frame that others may need to
know, without payload (:meth:`Conversation.note`). All others take it in the order of the capture
(:meth:`Conversation.follow`). So each has the memory of one process that decodes all, and its frames get the same links.
"""

import marshal
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import Frame
from wiredecode.net.logical_time import logical_time
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Conversation, Protocol, Start


class PacketNotes(NamedTuple):
    """Notes of the frames that a packet completed."""

    packet: int
    """Its number; in a batch of packets, that of the last packet before it that this process has."""
    first_ns: int
    """At the end of the capture, where frames come by connection: when that began. Before it -1."""
    content: bytes


@dataclass(slots=True, eq=False)
class FollowedFrame(Frame):
    """A frame that another process decodes, with what its note says."""


class NoteWriter:
    """Collects notes of frames in the order in which they are decoded."""

    def __init__(self) -> None:
        self._notes: list[tuple[int, int, list[Any]]] = []
        self._introduced: set[int] = set()

    def add(self, frame: Frame, note: Any, protocol: str, *, at_end: bool) -> None:
        connection, introduction = frame.connection, None
        if connection.id not in self._introduced:
            self._introduced.add(connection.id)
            introduction = protocol, connection.endpoints, connection.ports
        place = (0, connection.first_ns) if at_end else (frame.packet_ready, -1)
        if not self._notes or self._notes[-1][:2] != place:
            self._notes.append((*place, []))
        at = connection.id, frame.side, frame.offset, frame.inner_index, frame.time_ns, frame.sender
        self._notes[-1][2].append((*at, introduction, note))

    def take(self) -> list[PacketNotes]:
        """The notes since the last call."""
        notes, self._notes = self._notes, []
        return [PacketNotes(packet, first_ns, marshal.dumps(each)) for packet, first_ns, each in notes]


class Following:
    """Takes notes of other processes in order. ``protocol``: that of a name, with the state of the capture."""

    def __init__(self, protocol: Callable[[str], Protocol], *, copies: bool) -> None:
        self._protocol, self._copies = protocol, copies
        self.waiting: deque[PacketNotes] = deque()
        self._conversations: dict[int, Conversation] = {}

    def due(self, packet: int | None, first_ns: int | None = None) -> Iterator[tuple[Frame, Conversation, Any]]:
        """The frames of others before the packet of a number; None: before a frame at the end of the capture, of a
        connection that began at ``first_ns``, or all. Each comes with its conversation and note.
        """
        waiting = self.waiting
        while waiting:
            notes = waiting[0]
            if packet is not None and (notes.packet >= packet or notes.first_ns >= 0):
                break
            if first_ns is not None and notes.first_ns >= first_ns:
                break
            waiting.popleft()
            for each in marshal.loads(notes.content):
                yield self._frame(notes.packet, *each)

    def _frame(
        self,
        packet: int,
        label: int,
        side: int,
        offset: int,
        inner_index: int,
        time_ns: int,
        sender: str | None,
        introduction: tuple[str, tuple[str, str], tuple[int, int]] | None,
        note: Any,
    ) -> tuple[Frame, Conversation, Any]:
        if introduction is not None:
            protocol, endpoints, ports = introduction
            connection = Connection(-1 - len(self._conversations), endpoints, ports, stable_id=label)
            start = Start(connection, copies=self._copies)
            self._conversations[label] = self._protocol(protocol).conversation(start)
        conversation = self._conversations[label]
        frame = FollowedFrame(
            connection=conversation.connection,
            side=side,
            buffer=b"",
            start=0,
            stop=0,
            offset=offset,
            length=0,
            missing=0,
            packets=[],
            ready=logical_time(packet),
            time_ns=time_ns,
            first_ns=time_ns,
            inner_index=inner_index,
            sender=sender,
        )
        return frame, conversation, note
