"""The accounts of a dissection: what became of every packet, byte and frame, and what reassembly noted."""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from operator import itemgetter

from wiredecode.dissect.tracker import Tracker
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.failure import GROUP as INTERNAL
from wiredecode.frames.frame import OK, Finding, Frame
from wiredecode.frames.totals import Totals
from wiredecode.net import Network
from wiredecode.net.logical_time import logical_time, packet_of
from wiredecode.net.types import Connection, Direction, Note

MOST_NOTES = 64
"""Notes of one direction that its next frame gets; further ones are only counted in the totals."""


def note_finding(note: Note) -> Finding:
    """Return a note of reassembly as a finding of a frame."""
    group = "limit" if note.code == "limit-reached" else "reassembly"
    packet = f", packet {packet_of(note.ready)}" if note.direction.connection.stable_id is None else ""
    return Finding("warning", group, note.code, f"{note.message} (stream offset {note.offset}{packet})")


class Accounts:
    """Counts packets, frames and bytes into ``totals``; keeps notes until the frame comes that they are about."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.sessions: set[tuple[str, int]] = set()
        """Protocols whose connections know of each other, and the ports of their servers."""
        self._notes: dict[Direction, list[tuple[int, int, Note]]] = {}
        """Those that wait for a frame, a heap: logical time, number, note."""
        self._many: dict[Direction, None] = {}
        """Directions with more notes than one frame gets."""

    def note(self, note: Note) -> None:
        """Keep a note until the frame comes that it is about."""
        self.totals.notes[note.code] += 1
        notes = self._notes.setdefault(note.direction, [])
        heappush(notes, (note.ready, self.totals.notes.total(), note))
        if len(notes) == MOST_NOTES + 1:
            self._many[note.direction] = None

    def released(self, watermark: int | None) -> None:
        """All frames up to a packet were decoded, or all: of the notes up to there the next frame gets the first."""
        for direction in list(self._many):
            notes = sorted(self._notes.get(direction, ()))
            later = len(notes) if watermark is None else bisect_right(notes, logical_time(watermark), key=itemgetter(0))
            if len(notes) > MOST_NOTES < later:
                notes = self._notes[direction] = notes[:MOST_NOTES] + notes[later:]
            if len(notes) <= MOST_NOTES:
                del self._many[direction]

    def has_notes(self, connection: Connection, side: int) -> bool:
        """Whether a note of a direction waits for a frame."""
        return connection.directions[side] in self._notes

    def frame(self, frame: Frame) -> None:
        """A frame was decoded: count it, and give it the notes of its direction."""
        if self._notes:
            self._attach_notes(frame)
        self.skipped(frame, frame.status)
        if frame.findings:
            self.findings(frame.findings)

    def skipped(self, frame: Frame, status: str = OK) -> None:
        """A frame need not be decoded: it is only counted."""
        counts, key = self.totals.frames, (frame.protocol, frame.type or "", status)
        counts[key] = counts.get(key, 0) + 1
        connection = frame.connection
        connection.directions[frame.side].frames += 1
        if frame.protocol not in connection.protocols and frame.protocol:
            connection.protocols[frame.protocol] = None

    def block(self, block: FrameBlock) -> None:
        """A block was decoded."""
        counts = self.totals.frames
        for key, count in block.counted():
            counts[key] = counts.get(key, 0) + count
            block.connection.protocols[key[0]] = None
            block.connection.directions[block.side].frames += count

    def findings(self, findings: Sequence[Finding]) -> None:
        """Count the limits that were reached, and mistakes of our own."""
        for finding in findings:
            if finding.group == "limit":
                self.totals.limits[finding.code] += 1
            elif finding.group == INTERNAL:
                self.totals.failures[finding.message] += 1

    def close(self, connection: Connection, tracker: Tracker | None) -> None:
        """A connection is over: add up its bytes. ``tracker``: None where it had no payload."""
        totals = self.totals
        totals.connections += 1
        for direction in connection.directions:
            for name in ("captured", "duplicate", "late", "ignored", "missing"):
                setattr(totals, name, getattr(totals, name) + getattr(direction, name))
        if tracker is None:
            return
        totals.failures.update(tracker.failures)
        if tracker.conversation is not None:
            connection.client = tracker.conversation.client
        server = connection.ports[1 if connection.initiator is None else 1 - connection.initiator]
        if tracker.protocol is not None and tracker.protocol.has_session:
            self.sessions.add((tracker.protocol.name, server))
        if tracker.framers is None:
            key = tracker.other or "unknown", server
            totals.other[key] += tracker.undecoded
            totals.other_connections[key] += 1
        for framer in tracker.framers or ():
            totals.framed += framer.framed
            totals.undecoded += framer.undecoded

    def forget(self, connection: Connection) -> None:
        """No more frames of a connection will come, so no frame gets its notes."""
        for direction in connection.directions:
            self._notes.pop(direction, None)

    def finish(self, network: Network) -> None:
        """The capture is over: add up its packets."""
        totals = self.totals
        totals.packets, totals.tcp_packets = network.packets, network.tcp_packets
        totals.not_decoded, totals.copies = network.not_decoded, network.copies
        totals.limits.update(network.limits_hit)

    def _attach_notes(self, frame: Frame) -> None:
        """A note goes to the first frame of its direction that was complete with its packet, or after it."""
        direction = frame.connection.directions[frame.side]
        notes = self._notes.get(direction)
        if notes is None:
            return
        due = []
        while notes and notes[0][0] <= frame.ready:
            due.append(heappop(notes)[2])
        frame.findings = [*map(note_finding, due[:MOST_NOTES]), *frame.findings]
        if not notes:
            del self._notes[direction]
