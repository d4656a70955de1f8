"""From packets to frames: the loop that joins reassembly, TLS, framing, decoding and open requests.

:meth:`Dissector.feed` takes a batch of packets, divides it, reassembles, decodes what is ready, and links responses.
Frames of all connections come out in the order of the packets that completed them, for any size of batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from wiredecode.budget import BUDGET
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError, Postponed
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.dissect.accounts import Accounts
from wiredecode.dissect.following import NoteMaker, NoteReader, NoteWriter
from wiredecode.dissect.identify import Candidate, choices_of
from wiredecode.dissect.ledger import LIMIT, WAIT_NS, KnownOutcome, Ledger
from wiredecode.dissect.order import STEP_BYTES, BlockOrder, FrameOrder, frames_of, partial_limits
from wiredecode.dissect.share import DecodingStep, Reached, Share
from wiredecode.dissect.tracker import Tracker
from wiredecode.extras import installed
from wiredecode.frames.block import has_blocks
from wiredecode.frames.followed import FollowedFrame, FollowedFrames
from wiredecode.frames.frame import NOTHING, OK, UNDECODED, Frame, connection_id, merge_generated, strip
from wiredecode.frames.identity import IdentityReader, learn
from wiredecode.frames.totals import Totals
from wiredecode.net.limits import DEFAULT_LIMITS, Limits
from wiredecode.net.logical_time import END, logical_time, packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, Connection, Event, Note
from wiredecode.protocols import registry
from wiredecode.protocols.base import Conversation
from wiredecode.tls.keylog import KeyLog
from wiredecode.tls.stage import Decryption

if TYPE_CHECKING:
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.block import FrameBlock
    from wiredecode.frames.message import Messages
    from wiredecode.net.buckets import Bucket
    from wiredecode.protocols.base import Protocol
    from wiredecode.protocols.registry import DecodeAs


PART_FRAMES = 16 * 1024
"""Approximate number of frames per part."""
LINED_FRAMES = 64
"""Most frames that are decoded before their lines are made: passing each by itself takes longer."""
MIN_PART_BYTES = 256 * 1024
"""Captured bytes of the first part, and of the smallest."""
SHARED_PART_BYTES = 1024 * 1024
"""The same of the first part with several processes, which deal out connections by it."""
FrameReader = tuple[
    Callable[[Frame, "Style | None"], None], "Style | None", Mapping[str | None, IdentityReader], frozenset[str]
]
"""Of a conversation: the function that decodes its frames, their style, what these say about client and server, and the
generated fields that no record shows."""
ConnectionCallback = Callable[[Connection, str | None], None]
EventCallback = Callable[[list[Event]], None]


@dataclass(frozen=True)
class Demand:
    """One pass over a capture: how packets are read, which frames are chosen, and what is made of them.

    The command line, :func:`wiredecode.read`, exports and Spark fill it; a :class:`Dissector` or a reader of tables
    (:mod:`wiredecode.tables.reader`) gets it.
    """

    decode_as: Mapping[int, DecodeAs] = field(default_factory=dict)
    """Protocols of ports, chosen by the user."""
    limits: Limits = DEFAULT_LIMITS
    bucket: Bucket | None = None
    """Only its connections are dissected; None: all."""
    share: Share | None = None
    """One of several processes: only its connections are dissected. None: the only one."""
    notes: NoteWriter | None = None
    """Collects notes for other processes (:mod:`wiredecode.dissect.following`); then only protocols whose connections
    know of each other are decoded."""
    decrypt: bool = True
    """Use TLS secrets: those in captures, and ``keys``."""
    keys: KeyLog | None = None
    """TLS secrets of the user."""
    resolve: bool = False
    """Connections get the names of their addresses found in the capture."""
    protocols: tuple[Protocol, ...] | None = None
    """Protocols to try; None: all that are installed."""
    stable_ids: bool = False
    """Records have stable ids of connections and frames (:mod:`wiredecode.frames.frame`), and times of packets."""
    two_passes: bool = False
    """Requests know responses that are too late for one pass, see :meth:`read_twice`."""
    levels: tuple[str, ...] = ()
    """Tables that are made: ``frames``, ``messages``, ``connections``, ``flows``; or ``packets`` alone."""
    columns: Sequence[str] | None = None
    """Columns of the only table; None: all."""
    bytes_choice: str = "raw"
    """Bytes in tables: as they are, or as text (a key of :data:`wiredecode.frames.record.BYTES`)."""
    show_secrets: bool = False
    """Passwords and tokens stay readable in tables."""
    style: Style | None = None
    """Style of the JSON-ready record of every frame (``Frame.layers``); None: there are no records."""
    recorded: frozenset[str] | None = None
    """Protocols of whose frames records are made; None: of all."""
    link_responses: bool = True
    """Requests know their response: output lags by up to 1000 frames, see :mod:`wiredecode.dissect.ledger`."""
    wait_ns: int = WAIT_NS
    """Capture time, ns, that requests wait for their response; live captures wait less."""
    in_order: bool = True
    """Frames come in their order; else a request may come after later ones, and wait longer for its response."""
    frame: type[Frame] = Frame
    """Class of the frames."""
    copies: bool = True
    """Messages name the frame that they are a copy of, also if only their contents show it."""
    answers: Mapping[int, KnownOutcome] | None = None
    """With two passes: outcomes that the first pass found for requests that wait longer than ``wait_ns``."""
    late_outcomes: dict[int, KnownOutcome] | None = None
    """With two passes: the first pass collects these outcomes here."""
    messages: Messages | None = None
    """Collects the published and delivered messages; the caller empties it."""
    blocks: bool = False
    """Only messages or lines are wanted: runs of plain frames become blocks, see `Dissector.frames_and_blocks`."""
    select: Filter | None = None
    """Filter of the frames that will be shown: no records are made of others. Not with ``blocks``."""
    skip_hidden: bool = False
    """Only number the frames of connections that ``select`` excludes, if that does not change the output. Totals are
    wrong then."""
    analyse: bool = False
    """Connections get their TCP analysis (``Connection.health``)."""
    facts: bool = False
    """... and facts of their last packets (``ConnectionHealth.facts``)."""

    def __post_init__(self) -> None:
        if self.blocks and self.select is not None:
            raise ValueError("blocks come whole: nothing selects among their frames")

    def for_filters(self, *filters: Filter | None) -> Demand:
        """Return this demand with what ``select`` and other filters need to decide about a frame."""
        demand = self
        for each in (self.select, *filters):
            if each is not None:
                demand = replace(
                    demand,
                    style=each.style(demand.style),
                    link_responses=demand.link_responses or each.needs_responses,
                    copies=demand.copies or each.needs_copies,
                    analyse=demand.analyse or each.needs.analysis,
                    facts=demand.facts or each.needs.facts,
                )
        return demand

    def read_twice(self, read: Callable[[], Iterable[PacketBatch]]) -> Demand:
        """Return this demand with what a first pass over the packets of ``read`` finds, if that is wanted."""
        linked = self.link_responses and not {"packets", "connections", "flows"}.intersection(self.levels[:1])
        return replace(self, answers=find_answers(read(), self)) if self.two_passes and linked else self


DEFAULT = Demand()
FRAMES_ONLY = Demand(link_responses=False, copies=False)
"""Frames without records, responses and copies."""
ANALYSED = replace(FRAMES_ONLY, analyse=True)
"""The same with TCP analysis: the demand of a check."""


class Dissector:
    """Dissects one capture as ``demand`` and its filter say.

    Call :meth:`frames`, or :meth:`feed`, :meth:`tick` (live) and :meth:`finish`; with blocks :meth:`frames_and_blocks`.

    ``on_end`` is called with each connection at its end, and its likely protocol if that is not decoded; ``on_decoded``
    with the same once all its frames are decoded; ``on_events`` with the events of reassembly. A dissector can be
    pickled, without its demand: see :meth:`resume`.
    """

    def __init__(
        self,
        demand: Demand = DEFAULT,
        *,
        on_end: ConnectionCallback | None = None,
        on_decoded: ConnectionCallback | None = None,
        on_events: EventCallback | None = None,
    ) -> None:
        self.demand = demand = demand.for_filters()
        share = demand.share
        bucket = demand.bucket if share is None else share.bucket
        self.network = Network(
            demand.limits, bucket, analyse=demand.analyse, resolve=demand.resolve, facts=demand.facts
        )
        if share is not None:
            self.network.opened = share.opened
        self._tls = Decryption(KeyLog() if demand.keys is None else demand.keys) if demand.decrypt else None
        self.accounts = Accounts()
        self._on_end, self.on_decoded, self._on_events = on_end, on_decoded, on_events
        entries = registry.protocol_entries() if demand.protocols is None else map(registry.as_entry, demand.protocols)
        self._candidates = [*map(Candidate, entries)]
        self._ports = frozenset().union(*(each.ports for each in self._candidates))
        self._orders: dict[tuple[int, ...], tuple[Candidate, ...]] = {}
        """Candidates by the ports of protocols."""
        self._decode_as = choices_of(self._candidates, demand.decode_as)
        self._trackers: dict[Connection, Tracker] = {}
        self._ended: list[tuple[Connection, str | None]] = []
        """Connections that ended, until all their frames are decoded."""
        self._pending: dict[Tracker, None] = {}
        """Connections with frames that wait for earlier frames of other connections."""
        self._ledger = Ledger(demand.wait_ns, demand.answers, demand.late_outcomes, in_order=demand.in_order)
        self._held: deque[Frame] = deque()
        """Frames from the oldest request on that is held back for its response."""
        self._readers: dict[Conversation, FrameReader] = {}
        self._following = self._follows()
        self._notes = NoteWriter() if share is not None else demand.notes
        self._note_maker = (
            None if self._notes is None else NoteMaker(self._new_protocol, self._notes, copies=self._notes_copies)
        )
        self._number = 0
        self._part_bytes = MIN_PART_BYTES if share is None else SHARED_PART_BYTES

    @property
    def totals(self) -> Totals:
        """Totals of the capture; complete at its end."""
        return self.accounts.totals

    @property
    def decrypts(self) -> bool:
        """Whether there are TLS secrets."""
        return self._tls is not None and not self._tls.keys.empty

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in vars(self).items() if name not in ("demand", "_following")}
        return kept | {"_readers": {}, "_orders": {}}

    def resume(self, demand: Demand, on_decoded: ConnectionCallback | None = None) -> None:
        """Continue after pickling, with the same ``demand``."""
        if self._tls is not None and demand.keys is not None:
            self._tls.keys.follow(demand.keys)
        self.demand, self.on_decoded, self._readers = demand.for_filters(), on_decoded or self.on_decoded, {}
        self._following = self._follows()

    def frames(self, batches: Iterable[PacketBatch]) -> Iterator[Any]:
        """Yield the frames of a capture; raise an error of the capture after the frames before it.

        Of one of several processes: its frames, and :class:`Reached`.
        """
        with Postponed() as postponed:
            for batch in batches:
                yield from self.feed(batch)
        yield from self.finish()
        postponed.raise_again()

    def feed(self, batch: PacketBatch) -> Iterator[Any]:
        """Take the next packets; yield the frames that are ready."""
        for part in self._parts(batch):
            self._reassemble(part)
            yield from self._finish_steps(self.network.watermark)

    def _finish_steps(self, watermark: int | None) -> Iterator[Any]:
        for step in self._steps(watermark):
            yield from self._link_responses(self._decode_ready(step), step)
            if self.demand.share is not None:
                self._ledger.skip_others(step.last, step.size)
                yield from self._release_held()
                yield Reached(self._held[0].number - 1 if self._held else step.last, step.last, step.size)

    def tick(self, time_ns: int, patience_ns: int) -> Iterator[Frame]:
        """Live capture: no packet came up to ``time_ns``; yield the frames that have waited long enough.

        ``patience_ns``: how long requests are held back for their response.
        """
        self._take_events(self.network.tick(time_ns))
        yield from self._finish_steps(None)
        self._ledger.tick(time_ns, patience_ns)
        yield from self._release_held()

    def finish(self) -> Iterator[Any]:
        """End of the capture: yield the remaining frames and complete the totals."""
        self._take_events(self.network.finish())
        yield from self._finish_steps(None)
        self._ledger.finish(self.totals.last_ns)
        yield from self._release_held()
        if self.demand.share is not None:
            yield Reached(END, END, END)
        self.totals.late_requests += self._ledger.late_count
        if self._ledger.missed:
            self.totals.limits[LIMIT] += self._ledger.missed
        self.accounts.finish(self.network)

    def frames_and_blocks(self, batches: Iterable[PacketBatch]) -> Iterator[list[Any]]:
        """Yield lists of numbered frames and blocks, each list unordered. Requests do not get their response.

        Of one of several processes: the last element is the :class:`DecodingStep`.
        """
        with Postponed() as postponed:
            for part in chain.from_iterable(map(self._parts, batches)):
                self._reassemble(part)
                yield from self._decode_in_steps(self.network.watermark)
        self._take_events(self.network.finish())
        yield from self._decode_in_steps(None)
        self.accounts.finish(self.network)
        postponed.raise_again()

    def _decode_in_steps(self, watermark: int | None) -> Iterator[list[Any]]:
        """Decode what is ready, some of it at a time: after a gap many frames may have waited."""
        items = [item for tracker in self._pending for item in tracker.out]
        if self._notes is not None:
            del items
            last = self.demand.share is not None
            yield from ([*self._decode_ready(step), *[step] * last] for step in self._steps(watermark))
            return
        if not has_blocks(items):
            yield from self._decode_singly(watermark)
            return
        limits = partial_limits(items, END if watermark is None else logical_time(watermark - 1))
        del items
        for limit in [*map(packet_of, limits), watermark]:
            yield from ([*self._decode_ready(step)] for step in self._steps(limit))

    def _decode_singly(self, watermark: int | None) -> Iterator[list[Frame | FrameBlock]]:
        """The ready frames, in portions with few messages and bytes: a small frame may hold many."""
        messages, size = self.demand.messages, 0
        most = LINED_FRAMES if messages is None else END
        frames: list[Frame | FrameBlock] = []
        for frame in chain.from_iterable(map(self._decode_ready, self._steps(watermark))):
            frames.append(frame)
            size += frame.length
            if size >= STEP_BYTES or len(frames) >= most or (messages is not None and messages.count >= PART_FRAMES):
                yield frames
                frames, size = [], 0
        if frames:
            yield frames

    # From packets to frames that are not decoded yet.

    def _parts(self, batch: PacketBatch) -> Iterator[PacketBatch]:
        """Divide packets into parts of a limited number of frames: many tiny frames take much memory."""
        ends = np.cumsum(batch.captured)
        low = start = 0
        while low < len(batch):
            high = max(int(np.searchsorted(ends, start + self._part_bytes, "right")), low + 1)
            part = batch if high - low == len(batch) else batch.part(low, high)
            before = self._number
            yield replace(part, secrets=(), names=(), notes=()) if low else part
            low, size, start = high, int(ends[high - 1]) - start, int(ends[high - 1])
            share, frames = self.demand.share, self._number - before
            if share is not None:
                frames, size = share.last, share.size or size
            fitting = PART_FRAMES * size // max(frames, 1)
            self._part_bytes = max(min(fitting, 2 * self._part_bytes), MIN_PART_BYTES)
        if not len(batch):
            yield batch

    def _reassemble(self, batch: PacketBatch) -> None:
        if len(batch):
            self.totals.add_times(batch.time_ns)
        self._following.waiting += batch.notes
        if batch.secrets and self._tls is not None and installed("cryptography"):
            for secret in batch.secrets:
                self._tls.keys.add(secret)
        self._take_events(self.network.feed(batch))

    def _take_events(self, events: list[Event]) -> None:
        self._dispatch(events if self._tls is None else self._tls.open(events))
        self._close_ended()

    def _dispatch(self, events: list[Event]) -> None:
        """Pass events, decrypted if possible, to their connections; the frames wait there for `_take_ready`.

        A connection whose protocol is unknown gets the events of the batch together: both sides may be needed.
        """
        if self._on_events is not None:
            self._on_events(events)
        unknown: dict[Tracker, list[Event]] = {}
        for event in events:
            if isinstance(event, Note):
                self.accounts.add_note(event)
                continue
            tracker = self._tracker(event.direction.connection)
            if self.demand.stable_ids and isinstance(event, Chunk):
                event.packet = event.time_ns  # stable: packets are named by their times
            if tracker.identifier is not None:
                unknown.setdefault(tracker, []).append(event)
            else:
                tracker.feed(event)
                self._note_pending(tracker)
        for tracker, waiting in unknown.items():
            tracker.identify(waiting)
            self._note_pending(tracker)
        for record in self._tls.pop_records() if self._tls is not None else ():
            tracker = self._tracker(record.direction.connection)
            if self.demand.stable_ids:
                record.packets = record.times
            tracker.tls_record(record)
            self._note_pending(tracker)

    def _note_pending(self, tracker: Tracker) -> None:
        if tracker.out:
            self._pending[tracker] = None

    def _tracker(self, connection: Connection) -> Tracker:
        tracker = self._trackers.get(connection)
        if tracker is None:
            if self.demand.stable_ids:
                connection.stable_id = connection_id(connection.endpoints, connection.first_ns)
            one, other = connection.ports
            candidates = self._in_order(one if one in self._ports else 0, other if other in self._ports else 0)
            tracker = self._trackers[connection] = Tracker(
                connection,
                candidates,
                self._decode_as,
                blocks=self.demand.blocks or self.demand.share is not None,
                copies=self._notes_copies,
                frame=self.demand.frame,
            )
        return tracker

    def _in_order(self, *ports: int) -> tuple[Candidate, ...]:
        """Candidates for a connection, those with its ports first: if one recognises it, others are not imported."""
        found = self._orders.get(ports)
        if found is None:
            order = sorted(self._candidates, key=lambda candidate: candidate.ports.isdisjoint(ports))
            found = self._orders[ports] = tuple(order)
        return found

    def _close_ended(self) -> None:
        for connection in self.network.pop_forgotten():
            if self._tls is not None:
                self._dispatch(self._tls.forget(connection))
            tracker = self._trackers.get(connection)
            if tracker is not None:
                tracker.end()
                self._note_pending(tracker)
            elif self.demand.stable_ids:  # it had no payload
                connection.stable_id = connection_id(connection.endpoints, connection.first_ns)
            self.accounts.close_connection(connection, tracker)
            if tracker is not None:
                tracker.framers = None
            foreign = None if tracker is None else tracker.foreign
            self._ended.append((connection, foreign))
            if self._on_end is not None:
                self._on_end(connection, foreign)

    def _forget_ended(self, ended: list[tuple[Connection, str | None]]) -> None:
        """Drop connections of which all frames are decoded."""
        for connection, foreign in ended:
            tracker = self._trackers.pop(connection, None)
            if self._note_maker is not None:
                self._note_maker.end(connection, self.network.watermark - 1)
                if tracker is not None and tracker.conversation is not None:
                    connection.client = tracker.conversation.client
            if tracker is not None:
                for conversation in filter(None, (tracker.conversation, tracker.security)):
                    self._readers.pop(conversation, None)
            self.accounts.drop_notes(connection)
            if self.on_decoded is not None:
                self.on_decoded(connection, foreign)
            connection.part()

    # From ready frames to output.

    def _steps(self, watermark: int | None) -> Iterator[DecodingStep]:
        """The steps to decode once all packets before ``watermark`` (None: all) were taken."""
        share = self.demand.share
        items = self._take_ready(watermark)
        ended, self._ended = (self._ended, []) if not self._pending else ([], self._ended)
        if self._note_maker is None or self._notes is None:
            yield DecodingStep(self._ordered(items), watermark, ended)
            return
        last = self._write_notes(items, watermark)
        if share is None:
            yield DecodingStep(FrameOrder([], last), watermark, ended)
            return
        inner, self._note_maker.inner = self._note_maker.inner, []
        share.begin(DecodingStep(self._ordered(items), watermark, ended), self._notes.entries(inner), inner)
        for due in share.due():
            self._following.waiting.extend(share.waiting)
            yield due

    def _write_notes(self, items: list[list[Any]], watermark: int | None) -> int:
        """Write the notes of frames and blocks; return the number of the last one."""
        assert self._note_maker is not None and self._notes is not None
        shared = self.demand.share is not None
        protocols = (self._trackers[some[0].connection].protocol for some in items if some)
        if not any(protocol is not None and protocol.has_session for protocol in protocols):
            return self._number
        order = (BlockOrder if any(map(has_blocks, items)) else FrameOrder)(items, 0 if shared else self._number)
        self._notes.at_end = watermark is None and not shared
        self._note_maker.note(order, self._trackers)
        return order.last

    def _ordered(self, items: Sequence[list[Any]]) -> FrameOrder | BlockOrder:
        if self.demand.blocks and any(map(has_blocks, items)):
            return BlockOrder(items, self._number)
        return FrameOrder([frames_of(some) for some in items], self._number)

    def _decode_ready(self, step: DecodingStep) -> Iterator[Any]:
        """Decode the frames and blocks of a step, in order, and yield them."""
        order, watermark, trackers = step.order, step.watermark, self._trackers
        select, share = self.demand.select, self.demand.share
        following = self._following
        for item, number in order:
            tracker = trackers[item.connection]
            if following.waiting and share is not None:
                before = number if isinstance(item, Frame) else int(item.numbers[-1])
                for followed, other in following.due(before) if following.waiting[0].packet < before else ():
                    yield from self._follow(followed, other)
            elif following.waiting and isinstance(item, Frame):
                at = (item.packet_ready, None) if watermark is not None else (None, item.connection.first_ns)
                for followed, other in following.due(*at):
                    followed.numbers = range(number, number + len(followed.notes))
                    order.insert_before(len(followed.notes))
                    yield from self._follow(followed, other)
                    number += len(followed.notes)
            conversation = tracker.conversation_of(item)
            if not isinstance(item, Frame):
                item.refused = not self._decode_block(item, conversation)
                if not item.refused:
                    yield item
                continue
            if select is not None and self._skip(item, number, tracker, conversation, select):
                continue
            self._decode(item, number, conversation, item.status == OK or tracker.can_decode(item))
            yield item
            if not conversation.inner_frames:
                continue
            for count, inner in enumerate(conversation.inner_frames, 1):  # decoding one may add others
                inner.inner_index = count
                self._decode(inner, self._number + 1, conversation, True)
                order.insert()
                yield inner
            conversation.inner_frames.clear()
        for followed, other in following.due(watermark if share is None else None):
            if share is None:
                followed.numbers = range(order.last + 1, order.last + 1 + len(followed.notes))
                order.insert(len(followed.notes))
            yield from self._follow(followed, other)
        self._number = order.last if share is None else step.last
        self.accounts.limit_notes(watermark)
        self._forget_ended(step.ended)

    @property
    def _notes_copies(self) -> bool:
        """Whether conversations look for copies: of blocks none are shown, but other processes may need them."""
        return self.demand.copies and not (self.demand.blocks and self.demand.notes is None)

    def _follows(self) -> NoteReader:
        return NoteReader(self._protocol_named, copies=self.demand.copies and not self.demand.blocks)

    def _new_protocol(self, name: str) -> Protocol:
        return next(each.entry.load().new_session() for each in self._candidates if each.entry.name == name)

    def _protocol_named(self, name: str) -> Protocol:
        return next(each.protocol for each in self._candidates if each.entry.name == name)

    def _follow(self, followed: FollowedFrames, conversation: Conversation) -> Iterator[Frame]:
        """Take frames that another process decodes; yield those that are responses."""
        self._number = followed.numbers[-1]
        for frame in conversation.follow(followed):
            if self.demand.link_responses and (frame.request is not None or frame.confirmations):
                yield frame

    def _take_ready(self, watermark: int | None) -> list[list[Any]]:
        """Take what trackers have ready before packet ``watermark`` (None: all)."""
        limit = END if watermark is None else logical_time(watermark - 1)
        pending = sorted(self._pending, key=attrgetter("connection.first"))
        may_have_blocks = self.demand.blocks or self.demand.share is not None
        in_blocks = may_have_blocks and any(has_blocks(tracker.out) for tracker in pending)
        taken: list[Any] = [tracker.take(limit) if in_blocks else tracker.take_frames(limit) for tracker in pending]
        self._pending = {tracker: None for tracker in pending if tracker.out}
        return taken

    def _link_responses(self, frames: Iterator[Frame], step: DecodingStep) -> Iterator[Frame]:
        """Hold requests back until their response is known, if responses are wanted."""
        if not self.demand.link_responses:
            yield from frames
            return
        held, ledger, before = self._held, self._ledger, step.before
        for frame in frames:
            if before and (held or frame.expects_response):
                ledger.skip_others(frame.number - 1, before.get(frame.number, 0))
            if type(frame) is FollowedFrame:
                waiting = ledger.follow(frame)
            else:
                waiting = ledger.frame(frame)
                held.append(frame)
            while len(held) > waiting:
                oldest = held.popleft()
                if not ledger.overtaken or oldest.id not in ledger.overtaken:
                    yield oldest
            if ledger.settled:
                yield from ledger.take_settled()

    def _release_held(self) -> Iterator[Frame]:
        while len(self._held) > self._ledger.waiting:
            yield self._held.popleft()
        yield from self._ledger.take_settled()

    def _decode_block(self, block: FrameBlock, conversation: Conversation) -> bool:
        """Decode a block as a whole; False: its frames must be decoded one by one."""
        if self.accounts.has_notes(block.connection, block.side):
            return False
        if self.demand.messages is None:
            block.samples = block.bulk.samples(conversation, block)
            if block.samples is None:
                return False
        if not block.bulk.decode(conversation, block, self.demand.messages):
            return False
        block.sender = conversation.sender(block)
        self.accounts.count_block(block)
        return True

    def _decode(self, frame: Frame, number: int, conversation: Conversation, readable: bool) -> None:
        frame.number = self._number = number
        if readable:
            budget = BUDGET.own
            try:
                budget.begin()
                reader = self._readers.get(conversation) or self._reader(frame.connection, conversation)
                decode, style, identities, unshown = reader
                decode(frame, style)
                if frame.layers and frame.generated is not NOTHING:
                    merge_generated(frame, unshown)
                read_identity = identities.get(frame.type)
                if read_identity is not None:
                    learn(frame, read_identity)
            except Exception as error:
                frame.layers = {} if self.demand.style is not None else None
                strip(frame, error)
                frame.status = UNDECODED
            frame.made = budget.end()
            if frame.is_partial and not frame.missing:  # its end was never sent: it gets no response
                frame.expects_response = False
        else:
            frame.sender = conversation.sender(frame)
            frame.layers = {} if self.demand.style is not None else None
        self.accounts.frame(frame)

    def _reader(self, connection: Connection, conversation: Conversation) -> FrameReader:
        """Make the reader of a conversation; it calls only `Conversation.decode` if nothing more is needed."""
        demand, tracker = self.demand, self._trackers[connection]
        protocol = tracker.protocol
        recorded = demand.recorded is None or (protocol is not None and protocol.name in demand.recorded)
        style, select, messages = demand.style if recorded else None, demand.select, demand.messages
        if messages is not None and not messages.wants("" if protocol is None else protocol.name):
            messages = None
        later = style is not None and conversation.records_later and (select is not None or messages is not None)

        unshown = frozenset() if protocol is None else protocol.unshown
        identities = tracker.identities_of(conversation)
        if select is None and messages is None:
            reader = self._readers[conversation] = conversation.decode, style, identities, unshown
            return reader

        def read(frame: Frame, style: Style | None) -> None:
            hidden = select is not None and select.arrival(frame) is False
            conversation.decode(frame, None if later or hidden else style)
            if messages is not None:
                BUDGET.own.begin()
                conversation.messages(frame, messages)
            if later and style is not None and not (hidden or (select is not None and select.cannot_match(frame))):
                BUDGET.own.begin()
                conversation.record(frame, style)

        reader = self._readers[conversation] = read, style, identities, unshown
        return reader

    def _skip(self, frame: Frame, number: int, tracker: Tracker, conversation: Conversation, select: Filter) -> bool:
        """Number and count a frame without decoding it, if it is not shown and no later frame depends on it."""
        frame.number = number
        if not tracker.hidden:
            if select.arrival(frame) is not False:
                return False
            tracker.hidden = select.excludes(frame.connection)
        if not (self.demand.skip_hidden and tracker.hidden) or tracker.protocol is None or tracker.protocol.has_session:
            if frame.status != OK or not conversation.skip(frame, connection_hidden=tracker.hidden):
                return False
            self.accounts.count_skipped(frame)
            self._ledger.skip(frame)
        self._number = number
        return True


def find_answers(packets: Iterable[PacketBatch], demand: Demand) -> Mapping[int, KnownOutcome]:
    """First pass of two: outcomes of requests that are answered too late for one pass, for :attr:`Demand.answers`.

    ``demand``: of the second pass. It ends at an error of the capture.
    """
    outcomes: dict[int, KnownOutcome] = {}
    names = "decode_as", "limits", "bucket", "keys", "stable_ids"
    reading: dict[str, Any] = {name: getattr(demand, name) for name in names}
    with suppress(CaptureError):
        for _ in Dissector(Demand(late_outcomes=outcomes, copies=False, **reading)).frames(packets):
            pass
    return outcomes
