"""Connections that other processes decode, as far as those of this one depend on them: ``--jobs``, docs/spark.md.

Some protocols link connections: a reply comes on another one than its request, a consumer gets a copy of what another
client published. A process that decodes a part of the connections writes a *note* of each frame that others may need to
know, without payload (:meth:`Conversation.note`). All others take it in the order of the capture
(:meth:`Conversation.follow`). So each has the memory of one process that decodes all, and makes the same links.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from wiredecode.budget import BUDGET
from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.followed import FollowedFrames
from wiredecode.frames.frame import OK, Frame
from wiredecode.net.logical_time import END, packets_of
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Conversation, Protocol, Start

if TYPE_CHECKING:
    from wiredecode.dissect.order import Item
    from wiredecode.dissect.tracker import Tracker


class NoteEntry(NamedTuple):
    """Notes of frames of one side of a connection that a packet completed; without any, the connection is over."""

    label: int
    """The connection: its stable id, or first packet."""
    side: int
    time_ns: int
    sender: str | None
    notes: list[tuple[int, Any]]
    """Id and note of each frame."""
    introduction: tuple[str, tuple[str, str], tuple[int, int]] | None
    """At first: name of the protocol, endpoints and ports."""
    numbers: Sequence[int] = ()
    """Numbers of the frames, where they are known."""

    def placed(self, numbers: Sequence[int]) -> NoteEntry:
        """The same with the numbers of its frames in the capture, which are their ids if the notes have none."""
        notes = self.notes
        if notes and not notes[0][0]:
            notes = [(number, note) for number, (_, note) in zip(numbers, notes, strict=True)]
        return self._replace(notes=notes, numbers=numbers)


class PacketNotes(NamedTuple):
    """Notes of the frames that a packet completed."""

    packet: int
    """Its number; in a batch of packets, that of the last packet before it that this process has. Between processes of
    ``--jobs``: number of the first frame."""
    first_ns: int
    """At the end of the capture, where frames come by connection: when that began. Before it -1."""
    content: bytes
    entries: Sequence[NoteEntry] = ()
    """The notes, or else they are in ``content``."""


JSON_BYTES = struct.Struct("<I")


def packed(entries: Sequence[NoteEntry]) -> bytes:
    """Entries as data: the length of JSON, JSON, and one after the other the bytes that notes have as members."""
    raw: list[bytes] = []
    rows, places = [], []
    for row, entry in enumerate(entries):
        notes = entry.notes
        for index, (stable_id, note) in enumerate(notes):
            if len(note) > 2:
                found = [place for place, member in enumerate(note) if type(member) is bytes]
                places += [(row, index, place, len(note[place])) for place in found]
                raw += [note[place] for place in found]
                plain = [None if place in found else member for place, member in enumerate(note)]
                notes = [*notes[:index], (stable_id, plain), *notes[index + 1 :]] if found else notes
        rows.append((entry.label, entry.side, entry.time_ns, entry.sender, notes, entry.introduction))
    try:
        text = orjson.dumps((rows, places))
    except TypeError:  # texts that are not UTF-8
        text = json.dumps((rows, places)).encode()
    return b"".join((JSON_BYTES.pack(len(text)), text, *raw))


def unpacked(content: bytes) -> Iterator[NoteEntry]:
    """The entries of :func:`packed`. Raises ValueError."""
    (size,) = JSON_BYTES.unpack_from(content)
    text = content[JSON_BYTES.size : JSON_BYTES.size + size]
    try:
        rows, places = orjson.loads(text)
    except orjson.JSONDecodeError:
        rows, places = json.loads(text)
    end = JSON_BYTES.size + size
    for (row, index, place, length), stop in zip(
        places, accumulate((each[3] for each in places), initial=end), strict=False
    ):
        rows[row][4][index][1][place] = content[stop : stop + length]
    return (NoteEntry(*each) for each in rows)


Place = tuple[int, int]
"""Packet, and :attr:`PacketNotes.first_ns`."""


@dataclass(slots=True)
class _Entry:
    place: Place
    number: int
    connection: Connection
    side: int
    time_ns: int
    sender: str | None
    notes: list[tuple[int, Any]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


class NoteWriter:
    """Collects notes of decoded frames."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._protocols: dict[Connection, str] = {}
        self._introduced: set[Connection] = set()
        self.at_end = False
        """Whether frames are at the end of the capture, and no longer at a packet."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, frame: Frame, note: Any, protocol: str) -> None:
        """Add the note of a frame. ``protocol``: the name of that of its connection."""
        connection = frame.connection
        self._protocols.setdefault(connection, protocol)
        place = (END, connection.first_ns) if self.at_end else (frame.packet_ready, -1)
        last = self._entries[-1] if self._entries else None
        if (
            last is None
            or last.place != place
            or last.connection is not connection
            or (last.side, last.time_ns, last.sender) != (frame.side, frame.time_ns, frame.sender)
        ):
            last = _Entry(place, frame.number, connection, frame.side, frame.time_ns, frame.sender)
            self._entries.append(last)
        last.notes.append((0 if connection.stable_id is None else frame.id, note))
        last.numbers.append(frame.number)

    def add_block(self, block: FrameBlock) -> None:
        """Add the notes of the frames of a block."""
        notes = block.bulk.notes(block)
        if notes is None:
            return
        connection, place = block.connection, (END, block.connection.first_ns)
        self._protocols.setdefault(connection, block.protocol)
        packets = packets_of(block.ready).tolist()
        ids = [0] * len(block) if connection.stable_id is None else block.ids.tolist()
        columns = (packets, block.numbers.tolist(), block.time_ns.tolist(), ids, notes)
        last = None
        for packet, number, time_ns, stable_id, note in zip(*columns, strict=True):
            if last is None or packet != last.place[0] or time_ns != last.time_ns:
                at = place if self.at_end else (packet, -1)
                last = _Entry(at, number, connection, block.side, time_ns, block.sender)
                self._entries.append(last)
            last.notes.append((stable_id, note))
            last.numbers.append(number)

    def end(self, connection: Connection, packet: int) -> None:
        """A connection is over: others forget it."""
        if connection in self._protocols and not self.at_end:
            self._entries.append(_Entry((packet, -1), END, connection, 0, 0, None))

    def take(self, *, last: bool = False) -> list[PacketNotes]:
        """The notes since the last call; unless it is the ``last`` one, without those at the place reached."""
        entries = sorted(self._entries, key=attrgetter("place", "number"))  # blocks come later than single frames
        self._entries = [] if last else [each for each in entries if each.place == entries[-1].place]
        entries = entries[: len(entries) - len(self._entries)]
        return [
            PacketNotes(packet, first_ns, packed([self._plain(each) for each in some]))
            for (packet, first_ns), some in groupby(entries, key=attrgetter("place"))
        ]

    def entries(self, inner: Sequence[int]) -> list[NoteEntry]:
        """The notes since the last call, by numbers that count frames inside; ``inner``: :attr:`NoteMaker.inner`."""
        if inner:
            around = sorted(inner)
            for entry in self._entries:
                entry.numbers = [
                    number + bisect_left(around, number)
                    if number > 0
                    else (outer := inner[~number]) + bisect_left(around, outer) + inner[:-number].count(outer)
                    for number in entry.numbers
                ]
                entry.number = entry.numbers[0] if entry.numbers else END
        entries, self._entries = sorted(self._entries, key=attrgetter("number")), []
        return [*map(self._plain, entries)]

    def _plain(self, entry: _Entry) -> NoteEntry:
        connection, introduction = entry.connection, None
        if not entry.notes:
            self._introduced.discard(connection)
            self._protocols.pop(connection)
        elif connection not in self._introduced:
            self._introduced.add(connection)
            introduction = self._protocols[connection], connection.endpoints, connection.ports
        label = connection.first if connection.stable_id is None else connection.stable_id
        return NoteEntry(label, entry.side, entry.time_ns, entry.sender, entry.notes, introduction, entry.numbers)


class NoteMaker:
    """Makes the notes of frames before these are numbered, by other conversations.

    ``protocol``: that of a name, new. ``copies``: notes of what others may have a copy of.
    """

    def __init__(self, protocol: Callable[[str], Protocol], writer: NoteWriter, *, copies: bool) -> None:
        self._protocol, self._writer, self._copies = protocol, writer, copies
        self._sessions: dict[str, Protocol] = {}
        self._conversations: dict[Connection, Conversation] = {}
        self.inner: list[int] = []
        """Numbers of the frames around frames inside; those have -1, -2, ... in their notes."""

    def note(self, items: Iterable[tuple[Item, int]], trackers: Mapping[Connection, Tracker]) -> None:
        """Write the notes of frames and blocks, which come with their numbers."""
        for item, number in items:
            tracker = trackers[item.connection]
            protocol = tracker.protocol
            if protocol is None or not protocol.has_session or tracker.is_security(item):
                continue
            conversation = self._conversations.get(item.connection) or self._converse(tracker, protocol)
            if isinstance(item, FrameBlock):
                item.refused = not item.bulk.decode(conversation, item, None)
                if not item.refused and self._copies:
                    item.sender = conversation.sender(item)
                    self._writer.add_block(item)
                continue
            frame = item.again()
            frame.number = number
            self._note(frame, conversation, protocol, readable=frame.status == OK or tracker.can_decode(frame))
            for count, inner in enumerate(conversation.inner_frames, 1):
                self.inner.append(number)
                inner.inner_index, inner.number = count, -len(self.inner)
                self._note(inner, conversation, protocol, readable=True)
            conversation.inner_frames.clear()

    def _note(self, frame: Frame, conversation: Conversation, protocol: Protocol, *, readable: bool) -> None:
        BUDGET.own.begin()
        try:
            if readable:
                note = conversation.decode_note(frame)
            else:
                frame.sender, note = conversation.sender(frame), conversation.note(frame)
        except Exception:  # the frame has it as its finding when it is decoded
            return
        if note is not None:
            self._writer.add(frame, note, protocol.name)

    def end(self, connection: Connection, packet: int) -> None:
        """A connection is over, at a packet."""
        if self._conversations.pop(connection, None) is not None:
            self._writer.end(connection, packet)

    def _converse(self, tracker: Tracker, protocol: Protocol) -> Conversation:
        session = self._sessions.get(protocol.name)
        if session is None:
            session = self._sessions[protocol.name] = self._protocol(protocol.name)
        assert tracker.start is not None
        conversation = self._conversations[tracker.connection] = session.conversation(tracker.start)
        return conversation


class NoteReader:
    """Takes notes of other processes in order. ``protocol``: that of a name, with the state of the capture."""

    def __init__(self, protocol: Callable[[str], Protocol], *, copies: bool) -> None:
        self._protocol, self._copies = protocol, copies
        self.waiting: deque[PacketNotes] = deque()
        self._conversations: dict[int, Conversation] = {}
        self._count = 0

    def due(self, packet: int | None, first_ns: int | None = None) -> Iterator[tuple[FollowedFrames, Conversation]]:
        """The frames of others before the packet of a number; None: before a frame at the end of the capture, of a
        connection that began at ``first_ns``, or all. They come with their conversations.
        """
        waiting = self.waiting
        while waiting:
            notes = waiting[0]
            if packet is not None and (notes.packet >= packet or notes.first_ns >= 0):
                break
            if first_ns is not None and notes.first_ns >= first_ns:
                break
            waiting.popleft()
            for entry in notes.entries or unpacked(notes.content):
                if not entry.notes:
                    self._conversations.pop(entry.label, None)
                    continue
                conversation = self._conversations.get(entry.label)
                if conversation is None:
                    assert entry.introduction is not None
                    conversation = self._introduce(entry.label, *entry.introduction)
                yield self._followed(entry, notes.packet, conversation), conversation

    @staticmethod
    def _followed(entry: NoteEntry, packet: int, conversation: Conversation) -> FollowedFrames:
        facts = conversation.connection, entry.side, entry.time_ns, entry.sender, packet
        return FollowedFrames(*facts, entry.notes, entry.numbers)

    def _introduce(self, label: int, protocol: str, endpoints: tuple[str, str], ports: tuple[int, int]) -> Conversation:
        self._count += 1
        connection = Connection(-self._count, endpoints, ports, stable_id=label)
        conversation = self._protocol(protocol).conversation(Start(connection, copies=self._copies))
        self._conversations[label] = conversation
        return conversation
