"""From packets to frames: the loop that joins capture, net and protocols.

Frames of all connections come out in the order of the packets that completed them, so that a conversation sees both of
its sides as they happened and numbers do not depend on how the capture was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.dissect.dialogue import Dialogue, Wanted
from wiredecode.dissect.identify import Candidates, DecodeAs
from wiredecode.dissect.lookahead import LOOKAHEAD_NS, Lookahead
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import OK, Finding, Frame
from wiredecode.frames.ids import connection_id
from wiredecode.frames.message import Messages
from wiredecode.frames.totals import Totals
from wiredecode.net import Limits, Network
from wiredecode.net.types import Chunk, Connection, Event, Gap, Note
from wiredecode.protocols import registry
from wiredecode.protocols.base import Conversation, Protocol

if TYPE_CHECKING:
    from wiredecode.dissect.order import Release
    from wiredecode.filter import Filter
    from wiredecode.filter.rows import Mask
    from wiredecode.frames.run import Run

ENDINGS = {"FIN": "the connection was closed", "RST": "the connection was reset"}


def note_finding(note: Note) -> Finding:
    group = "limit" if note.code == "limit-reached" else "reassembly"
    packet = f", packet {note.packet}" if note.direction.connection.label is None else ""
    return Finding("warning", group, note.code, f"{note.message} (stream offset {note.offset}{packet})")


class Dissector:
    """Dissects one capture.

    ``style`` asks for the JSON-ready record of every frame (``frame.layers``). ``link_responses`` lets requests know
    their response: output then lags by up to 1000 frames, see ``dissect/lookahead.py``. ``messages`` collects the
    published and delivered messages, and whoever gave it empties it. ``runs``: long stretches of plain frames may come
    out as runs, see :meth:`mixed`; with ``facts``, for summaries, only those that have some. ``known`` replaces the
    protocols that are tried. ``select``: what will be shown; records are not made of frames that it excludes, and with
    ``runs`` it picks those of runs: what comes out of them one by one, here or in :meth:`frames`, may match.
    ``stable_ids``: records call connections and frames by ids (``frames/ids.py``), and packets by their times.
    """

    def __init__(
        self,
        *,
        decode_as: Mapping[int, DecodeAs] | None = None,
        limits: Limits | None = None,
        style: Style | None = None,
        link_responses: bool = True,
        messages: Messages | None = None,
        runs: bool = False,
        facts: bool = False,
        known: tuple[Protocol, ...] | None = None,
        select: Filter | None = None,
        stable_ids: bool = False,
    ) -> None:
        self.select, self.stable_ids = select, stable_ids
        self.network = Network(limits or Limits())
        self.style, self.link_responses, self.messages = style, link_responses, messages
        self.totals = Totals()
        tried = registry.known() if known is None else map(registry.as_known, known)
        self._candidates = Candidates(tried)
        sessions = {one.known.name: one for one in self._candidates.all}
        self._decode_as = {
            port: DecodeAs(sessions[said.protocol.name].protocol, said.dialect)
            if said.protocol.name in sessions
            else said
            for port, said in (decode_as or {}).items()
        }
        self._dialogues: dict[Connection, Dialogue] = {}
        self._ended: list[Connection] = []
        """Connections that are over; their conversations stay while frames of theirs may wait."""
        self.runs, self.facts = runs, facts
        self.columns = False
        """Runs will be read as columns: only those come that can be, with ``Run.layers``."""
        self._mixing = False
        """Whether runs come out."""
        self._pending: list[Any] = []
        """Frames, runs, and frames that were passed over."""
        self.sessions: set[tuple[str, int]] = set()
        """Protocols whose connections know of each other, and the ports of their servers."""
        self.lookahead_ns = LOOKAHEAD_NS
        """How long, in capture time, requests wait for their response; live captures wait less."""
        self._lookahead = Lookahead()
        self._waiting: deque[Frame] = deque()
        self._notes: dict[tuple[Connection, int], list[Note]] = {}
        self._number = 0
        self.on_end: Callable[[Connection, str | None], None] | None = None
        """Told each connection when it is over, and what it looks like if it is nothing that is decoded."""
        self.on_events: Callable[[list[Event]], None] | None = None
        """Told what reassembly hands on."""

    def frames(self, batches: Iterable[PacketBatch]) -> Iterator[Frame]:
        """Yield the frames of a capture; an error of the capture is raised after everything before it came out."""
        error: Exception | None = None
        source = iter(batches)
        while True:
            try:
                batch = next(source, None)
            except CaptureError as raised:
                error = raised
                break
            if batch is None:
                break
            yield from self.feed(batch)
        yield from self.finish()
        if error is not None:
            raise error

    def feed(self, batch: PacketBatch) -> Iterator[Frame]:
        """Take the next packets, yield the frames that are ready."""
        self._receive(batch)
        yield from self._released(self.network.watermark)

    def tick(self, time_ns: int, patience_ns: int) -> Iterator[Frame]:
        """Live capture: no packet came up to ``time_ns``; yield the frames that have waited long enough.

        ``patience_ns``: how long requests may have waited for their response.
        """
        self._events(self.network.tick(time_ns))
        self._forget_ended("another connection took its place")
        yield from self._release(self.network.watermark)
        self._lookahead.tick(time_ns, patience_ns)
        yield from self._not_waiting()

    def finish(self) -> Iterator[Frame]:
        """The capture is over: yield everything that is left and close the accounts."""
        self._end()
        yield from self._released(None)
        while self._waiting:
            yield self._waiting.popleft()
        self._close()

    def mixed(self, batches: Iterable[PacketBatch]) -> Iterator[list[Frame | Run]]:
        """As :meth:`frames`, with runs: what each batch made ready, all numbered but not in this order.

        Needs ``runs``, and no ``link_responses``.
        """
        error: CaptureError | None = None
        self._mixing = True
        try:
            for batch in batches:
                self._receive(batch)
                yield from self._released_mixed(self.network.watermark)
        except CaptureError as raised:
            error = raised
        self._end()
        yield from self._released_mixed(None)
        self._close()
        if error is not None:
            raise error

    def _receive(self, batch: PacketBatch) -> None:
        if len(batch):
            first, last = int(batch.time_ns.min()), int(batch.time_ns.max())
            totals = self.totals
            totals.first_ns = first if totals.first_ns is None else min(first, totals.first_ns)
            totals.last_ns = max(totals.last_ns, last)
        self._events(self.network.feed(batch))
        self._forget_ended("another connection took its place")

    def _end(self) -> None:
        self._events(self.network.finish())
        self._forget_ended("the capture ends")

    def _close(self) -> None:
        totals, network = self.totals, self.network
        totals.packets, totals.tcp_packets = network.packets, network.tcp_packets
        totals.not_decoded, totals.connections = network.not_decoded, network.connections
        totals.limits.update(network.limits_hit)

    def _events(self, events: list[Event]) -> None:
        if self.on_events is not None:
            self.on_events(events)
        unknown: dict[Dialogue, list[Event]] = {}
        for event in events:
            connection = event.direction.connection
            if isinstance(event, Note):
                self.totals.notes[event.code] += 1
                self._notes.setdefault((connection, event.direction.side), []).append(event)
                continue
            if self.stable_ids:
                self._label(event)
            dialogue = self._dialogues.get(connection)
            if dialogue is None:
                candidates = self._candidates.order(connection)
                selected = self.select is not None
                wanted = Wanted(self.runs, self.facts, self.columns, alone=not self._mixing, selected=selected)
                unseen = self.runs and self.select is not None and self.select.excluded(connection)
                tally = self._tally if unseen else None
                dialogue = Dialogue(connection, candidates, self._decode_as, self._pending, wanted, tally)
                self._dialogues[connection] = dialogue
            if dialogue.identifier is not None:
                unknown.setdefault(dialogue, []).append(event)
            else:
                dialogue.event(event)
        for dialogue, waiting in unknown.items():
            dialogue.identify(waiting)

    def _label(self, event: Chunk | Gap) -> None:
        """Nothing of it is called by numbers."""
        connection = event.direction.connection
        if connection.label is None:
            connection.label = connection_id(connection.endpoints, connection.first_ns)
        if isinstance(event, Chunk):
            event.packet = event.time_ns

    def _forget_ended(self, reason: str) -> None:
        """Close the accounts of connections that are over; ``reason`` holds for those that did not say so."""
        for connection in self.network.take_forgotten():
            self._forget(connection, ENDINGS.get(connection.closed or "", reason))

    def _forget(self, connection: Connection, reason: str) -> None:
        totals = self.totals
        for direction in connection.directions:
            totals.captured += direction.captured
            totals.duplicate += direction.duplicate
            totals.late += direction.late
            totals.ignored += direction.ignored
            totals.missing += direction.missing
        dialogue = self._dialogues.get(connection)
        if dialogue is not None:
            self._close_accounts(dialogue, connection, reason)
        if self.on_end is not None:
            self.on_end(connection, None if dialogue is None else dialogue.other)

    def _close_accounts(self, dialogue: Dialogue, connection: Connection, reason: str) -> None:
        totals = self.totals
        dialogue.end(reason, connection.ended)
        server = connection.ports[1 if connection.initiator is None else 1 - connection.initiator]
        if dialogue.protocol is not None and dialogue.protocol.has_session:
            self.sessions.add((dialogue.protocol.name, server))
        if dialogue.streams is None:
            key = dialogue.other or "unknown", server
            totals.other[key] += dialogue.undecoded
            totals.other_connections[key] += 1
        for stream in dialogue.streams or ():
            totals.framed += stream.framed
            totals.undecoded += stream.undecoded
        dialogue.streams = None
        self._ended.append(connection)

    def _released(self, watermark: int | None) -> Iterator[Frame]:
        """Frames in order, also those that a filter left of runs."""
        if not self.runs:
            yield from self._release(watermark)
            return
        frames = cast("list[Frame]", [*self._release_mixed(watermark)])
        for frame in sorted(frames, key=attrgetter("number")):
            yield from self._link(frame) if self.link_responses else (frame,)

    def _release(self, watermark: int | None) -> Iterator[Frame]:
        """Decode and hand on, in capture order, the frames that nothing can come before any more."""
        pending = cast("list[Frame]", self._pending)
        pending.sort(key=attrgetter("connection.first"))  # so it does not matter where they waited
        pending.sort(key=attrgetter("ready"))
        count = len(pending)
        if watermark is not None:
            while count and pending[count - 1].ready >= watermark:
                count -= 1
        linking, passing = self.link_responses, self.select is not None
        ready = pending[:count]
        del pending[:count]
        ready.reverse()
        while ready:
            frame = ready.pop()  # so that a frame that was handed on is not kept until the last one is
            if passing and self._pass_over(frame, self._number + 1):
                continue
            handed_on = self._decode(frame, self._number + 1)
            if linking:
                yield from self._link(frame)
            else:
                yield frame
            for inner in handed_on:
                yield from self._link(inner) if linking else (inner,)
        self._let_go()

    def _released_mixed(self, watermark: int | None) -> Iterator[list[Frame | Run]]:
        """What is ready, little by little: behind a hole much may have waited."""
        from wiredecode.dissect.order import steps

        for step in [*steps(self._pending, watermark), watermark]:
            yield [*self._release_mixed(step)]

    def _release_mixed(self, watermark: int | None) -> Iterator[Frame | Run]:
        """The same where runs are among them: what comes out is numbered in that order, but not in it."""
        release = self._order(watermark)
        yield from self._together(release) if self.facts else self._one_by_one(release)
        self._number = release.last
        self._let_go()

    def _one_by_one(self, release: Release) -> Iterator[Frame | Run]:
        """Each connection in order."""
        for frame, rank in release.rows():
            for run in release.runs_before(frame.connection.number, rank):
                yield from self._take(run)
            if self.select is not None and self._pass_over(frame, release.number(rank)):
                continue
            handed_on = self._decode(frame, release.number(rank))
            yield frame
            for inner in handed_on:
                release.insert(rank)
                yield inner
        for run in release.runs():
            yield from self._take(run)

    def _together(self, release: Release) -> Iterator[Frame | Run]:
        """All connections in order, so that runs can tell what frames of other connections tell about theirs."""
        from wiredecode.dissect.together import Schedule

        schedule, last = Schedule(release, lambda frame: self._talk(frame).disturbs(frame)), None
        for item, rank in schedule:
            if not isinstance(item, Frame):
                item.linked = True
                taken = self._taken(item)
                if taken is None:
                    schedule.refuse(item)
                else:
                    yield from taken
                    last = item
                continue
            number = item.number if rank is None else release.number(rank)
            if self.select is not None and self._pass_over(item, number):
                continue
            handed_on = self._decode(item, number)
            yield item
            for inner in handed_on:
                assert rank is not None
                release.insert(rank)
                yield inner
        if last is not None:  # all that have runs share what they know
            self._count_limits(last.bulk.settle(self._talk(last)))

    def _talk(self, item: Frame | Run) -> Conversation:
        conversation = self._dialogues[item.connection].conversation
        assert conversation is not None
        return conversation

    def _order(self, watermark: int | None) -> Release:
        from wiredecode.dissect.order import Release

        return Release(self._pending, watermark, self._number)

    def _take(self, run: Run) -> Iterator[Frame | Run]:
        """Decode a run at once, or else its frames."""
        taken = self._taken(run)
        if taken is not None:
            yield from taken
            return
        for frame in run.frames():  # frames of a run hand nothing on
            if self.select is None or not self._pass_over(frame, frame.number):
                self._decode(frame, frame.number)
                yield frame

    def _taken(self, run: Run) -> tuple[Run, ...] | None:
        """Decode a run at once, and tell what will be seen of it; None: its frames must be decoded."""
        conversation = self._talk(run)
        noted = (run.connection, run.side) in self._notes
        shown = None if self.select is None or noted else self._shown(run, conversation, self.select)
        whole = not noted and (self.select is None or shown is not None)
        passed = shown is not None and not shown.any() and conversation.skip_run(run)
        if not passed and not (whole and run.bulk.take(conversation, run, self.messages)):
            return None
        run.sender = conversation.sender(run)
        counts = self.totals.frames
        for key, count in run.counted():
            counts[key] = counts.get(key, 0) + count
        if shown is not None:
            if not shown.any():
                return ()
            run = run.chosen(shown)
        if self.facts:
            run.facts = run.bulk.facts(conversation, run)
        if self.columns:
            run.layers = run.bulk.layers(conversation, run)
        return (run,)

    def _tally(self, conversation: Conversation, protocol: str, side: int, data: bytes, starts: list[int]) -> bool:
        """Count frames of a connection that nobody will see; False: they have to be decoded."""
        found = conversation.tally(side, data, starts)
        for type_, count in (found or {}).items():
            key = protocol, type_, OK
            self.totals.frames[key] = self.totals.frames.get(key, 0) + count
        return found is not None

    def _shown(self, run: Run, conversation: Conversation, select: Filter) -> Mask | None:
        """Which frames of a run are shown; None: they have to be looked at one by one."""
        sure, may = select.masks(run, conversation.sender(run))
        if not may.any():
            return may
        return sure if self._mixing and not (may & ~sure).any() else None

    def _let_go(self) -> None:
        """Forget the connections that are over, once no frame of theirs waits."""
        if self._pending:
            return
        for connection in self._ended:
            self._dialogues.pop(connection, None)
            self._notes.pop((connection, 0), None)
            self._notes.pop((connection, 1), None)
        self._ended.clear()

    def _decode(self, frame: Frame, number: int) -> Iterable[Frame]:
        """Number and decode a frame; return those that end inside it, which are decoded as they are taken."""
        dialogue = self._dialogues[frame.connection]
        conversation = dialogue.conversation
        assert conversation is not None
        self._decode_one(frame, number, conversation, frame.status == OK or dialogue.can_decode(frame))
        return self._handed_on(conversation) if conversation.hand_on else ()

    def _handed_on(self, conversation: Conversation) -> Iterator[Frame]:
        for place, inner in enumerate(conversation.hand_on, 1):  # decoding one may add others
            inner.place = place
            self._decode_one(inner, self._number + 1, conversation, True)
            yield inner
        conversation.hand_on.clear()

    def _decode_one(self, frame: Frame, number: int, conversation: Conversation, readable: bool) -> None:
        """Number and decode a frame, and count it."""
        frame.number = self._number = number
        if readable:
            if self.columns and conversation.records_later and frame.status == OK:
                conversation.decode(frame, None)
                if conversation.is_plain(frame):
                    frame.recorder = conversation.record
                elif self.style is not None:
                    conversation.record(frame, self.style)
            elif self.select is None:
                conversation.decode(frame, self.style)
            else:
                self._decode_selected(frame, conversation, self.select)
            if self.messages is not None:
                conversation.messages(frame, self.messages)
        else:
            frame.sender = conversation.sender(frame)
            frame.layers = {} if self.style is not None else None
        if self._notes:
            self._attach_notes(frame)
        counts, key = self.totals.frames, (frame.protocol, frame.type or "", frame.status)
        counts[key] = counts.get(key, 0) + 1
        self._count_limits(frame.findings)

    def _count_limits(self, findings: Sequence[Finding]) -> None:
        for finding in findings:
            if finding.group == "limit":
                self.totals.limits[finding.code] += 1

    def _pass_over(self, frame: Frame, number: int) -> bool:
        """Number and count a frame that nobody will see, and that nothing later depends on."""
        dialogue, select = self._dialogues[frame.connection], self.select
        conversation = dialogue.conversation
        assert select is not None
        assert conversation is not None
        frame.number = number
        if not dialogue.unseen:
            if select.arrival(frame) is not False:
                return False
            dialogue.unseen = select.excludes(frame.connection)
        if frame.status != OK or not conversation.skip(frame, forever=dialogue.unseen):
            return False
        self._number = number
        counts, key = self.totals.frames, (frame.protocol, frame.type or "", OK)
        counts[key] = counts.get(key, 0) + 1
        return True

    def _decode_selected(self, frame: Frame, conversation: Conversation, select: Filter) -> None:
        """Decode a frame, with no record where it will not be shown."""
        style = self.style
        if style is None or not conversation.records_later:
            conversation.decode(frame, None if select.arrival(frame) is False else style)
            return
        conversation.decode(frame, None)
        if not select.unwanted(frame):
            conversation.record(frame, style)

    def _attach_notes(self, frame: Frame) -> None:
        """Tell what reassembly met in the first frame of the direction that was complete after it."""
        key = frame.connection, frame.side
        notes = self._notes.get(key)
        if notes is None:
            return
        told = [note for note in notes if note.packet <= frame.ready]
        frame.findings = [*map(note_finding, told), *frame.findings]
        later = [note for note in notes if note.packet > frame.ready]
        if later:
            self._notes[key] = later
        else:
            del self._notes[key]

    def _link(self, frame: Frame) -> Iterator[Frame]:
        """Hold requests back until their response is known, within bounds."""
        self._lookahead.add(frame, self.lookahead_ns)
        self._waiting.append(frame)
        yield from self._not_waiting()

    def _not_waiting(self) -> Iterator[Frame]:
        waiting, lookahead = self._waiting, self._lookahead
        while len(waiting) > lookahead.waiting:
            yield waiting.popleft()
