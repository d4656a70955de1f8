"""Totals of a dissection, and the notes of reassembly until a frame gets them."""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush
from operator import itemgetter

from wiredecode.dissect.tracker import Tracker
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import GROUP as INTERNAL
from wiredecode.frames.frame import OK, Finding, Frame
from wiredecode.frames.totals import Totals
from wiredecode.net.logical_time import logical_time, packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Connection, Direction, Note

MAX_NOTES = 64
"""Most notes that a frame gets; further ones are only counted in the totals."""


def note_finding(note: Note) -> Finding:
    """A note of reassembly as a finding of a frame."""
    group = "limit" if note.code == "limit-reached" else "reassembly"
    packet = f", packet {packet_of(note.ready)}" if note.direction.connection.stable_id is None else ""
    return Finding("warning", group, note.code, f"{note.message} (stream offset {note.offset}{packet})")


class Accounts:
    """Counts packets, frames and bytes into ``totals``; holds notes until a frame of their direction gets them."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.sessions: set[tuple[str, int]] = set()
        """Protocols with a session, and the ports of their servers."""
        self.largest = 0, ""
        """The connection with most bytes: how many, and its ends."""
        self._notes: dict[Direction, list[tuple[int, int, Note]]] = {}
        """Those that wait for a frame, a heap: logical time, number, note."""
        self._many: dict[Direction, None] = {}
        """Directions with more notes than one frame gets."""

    def add_note(self, note: Note) -> None:
        """Hold a note until a frame of its direction is ready."""
        self.totals.notes[note.code] += 1
        notes = self._notes.setdefault(note.direction, [])
        heappush(notes, (note.ready, self.totals.notes.total(), note))
        if len(notes) == MAX_NOTES + 1:
            self._many[note.direction] = None

    def limit_notes(self, watermark: int | None) -> None:
        """Frames up to packet ``watermark`` (None: all) were decoded: keep only the first notes up to there."""
        for direction in list(self._many):
            notes = sorted(self._notes.get(direction, ()))
            later = len(notes) if watermark is None else bisect_right(notes, logical_time(watermark), key=itemgetter(0))
            if len(notes) > MAX_NOTES < later:
                notes = self._notes[direction] = notes[:MAX_NOTES] + notes[later:]
            if len(notes) <= MAX_NOTES:
                del self._many[direction]

    def has_notes(self, connection: Connection, side: int) -> bool:
        """Whether a direction has notes for its next frame."""
        return connection.directions[side] in self._notes

    def frame(self, frame: Frame) -> None:
        """Count a decoded frame, and add the notes of its direction."""
        if self._notes:
            self._attach_notes(frame)
        self.count_skipped(frame, frame.status)
        if frame.findings:
            self.count_findings(frame.findings)

    def count_skipped(self, frame: Frame, status: str = OK) -> None:
        """Count a frame that was not decoded."""
        counts, key = self.totals.frames, (frame.protocol, frame.type or "", status)
        counts[key] = counts.get(key, 0) + 1
        connection = frame.connection
        connection.directions[frame.side].frames += 1
        if frame.protocol not in connection.protocols and frame.protocol:
            connection.protocols[frame.protocol] = None

    def count_block(self, block: FrameBlock) -> None:
        """Count the frames of a decoded block."""
        counts = self.totals.frames
        for key, count in block.counted():
            counts[key] = counts.get(key, 0) + count
            block.connection.protocols[key[0]] = None
            block.connection.directions[block.side].frames += count

    def count_findings(self, findings: Sequence[Finding]) -> None:
        """Count reached limits, and bugs of ours."""
        for finding in findings:
            if finding.group == "limit":
                self.totals.limits[finding.code] += 1
            elif finding.group == INTERNAL:
                self.totals.failures[finding.message] += 1

    def close_connection(self, connection: Connection, tracker: Tracker | None) -> None:
        """End of a connection: add up its bytes. ``tracker``: None if it had no payload."""
        totals = self.totals
        totals.connections += 1
        first, second = connection.directions
        size = first.captured + second.captured
        totals.captured += size
        totals.duplicate += first.duplicate + second.duplicate
        totals.late += first.late + second.late
        totals.ignored += first.ignored + second.ignored
        totals.missing += first.missing + second.missing
        if size > self.largest[0]:
            self.largest = size, " and ".join(connection.named_endpoints)
        if tracker is None:
            return
        if tracker.failures:
            totals.failures.update(tracker.failures)
        if tracker.conversation is not None:
            connection.client = tracker.conversation.client
        client = connection.initiator if connection.client is None else connection.client
        server = connection.ports[1 if client is None else 1 - client]
        if tracker.protocol is not None and tracker.protocol.has_session:
            self.sessions.add((tracker.protocol.name, server))
        if tracker.framers is None:
            key = tracker.foreign or "unknown", server
            totals.other[key] += tracker.undecoded
            totals.other_connections[key] += 1
        for framer in tracker.framers or ():
            totals.framed += framer.framed
            totals.undecoded += framer.undecoded

    def drop_notes(self, connection: Connection) -> None:
        """Drop the notes of a connection without further frames."""
        for direction in connection.directions if self._notes else ():
            self._notes.pop(direction, None)

    def finish(self, network: Network) -> None:
        """End of the capture: add up its packets."""
        totals = self.totals
        totals.packets, totals.tcp_packets = network.packets, network.tcp_packets
        totals.not_decoded, totals.copies = network.not_decoded, network.copies
        totals.limits.update(network.limits_hit)

    def _attach_notes(self, frame: Frame) -> None:
        """Give a frame the notes that were known when it was ready."""
        direction = frame.connection.directions[frame.side]
        notes = self._notes.get(direction)
        if notes is None:
            return
        due = []
        while notes and notes[0][0] <= frame.ready:
            due.append(heappop(notes)[2])
        frame.findings = [*map(note_finding, due[:MAX_NOTES]), *frame.findings]
        if not notes:
            del self._notes[direction]
