"""From packets to frames: the loop that joins capture, net and protocols.

Frames of all connections come out in the order of the packets that completed them, so that a conversation sees both of
its sides as they happened and numbers do not depend on how the capture was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.dissect.accounts import Accounts
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.identify import Candidates
from wiredecode.dissect.lookahead import Lookahead
from wiredecode.dissect.order import FrameOrder, Order
from wiredecode.dissect.tracker import Tracker
from wiredecode.extras import installed
from wiredecode.frames.failure import unread
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.ids import connection_id
from wiredecode.frames.totals import Totals
from wiredecode.frames.who import learn
from wiredecode.net import Network
from wiredecode.net.moments import END, at_packet, place
from wiredecode.net.types import Chunk, Connection, Event, Note
from wiredecode.protocols import registry
from wiredecode.protocols.base import Conversation
from wiredecode.tls import Decryption, Keyed, KeyLog

if TYPE_CHECKING:
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.block import FrameBlock

PIECE_BYTES = 1024 * 1024
DEFAULT = Demand()


def _label(connection: Connection) -> None:
    if connection.label is None:
        connection.label = connection_id(connection.endpoints, connection.first_ns)


class Dissector:
    """Dissects one capture as ``demand`` says; ``network`` reassembles its connections.

    Without runs take :meth:`frames`, or :meth:`feed`, :meth:`tick` and :meth:`finish`; with runs :meth:`mixed`.

    ``on_end`` is told each connection when it is over, and what it looks like if it is nothing that is decoded;
    ``on_over`` the same once all of its frames have been decoded, so that everything is known of it;
    ``on_events`` what reassembly hands on. A dissector can be pickled, without its demand: see :meth:`resume`.
    """

    def __init__(
        self,
        demand: Demand = DEFAULT,
        network: Network | None = None,
        *,
        on_end: Callable[[Connection, str | None], None] | None = None,
        on_over: Callable[[Connection, str | None], None] | None = None,
        on_events: Callable[[list[Event]], None] | None = None,
    ) -> None:
        self.demand, self.network = demand, network or Network()
        if demand.select is not None and demand.select.needs_analysis:
            self.network.analyse()
        limits = self.network.limits
        keys = limits.keys if isinstance(limits, Keyed) else None
        self._tls = Decryption(KeyLog() if keys is None else keys) if demand.decrypt else None
        self.accounts = Accounts()
        self._on_end, self._on_over, self._on_events = on_end, on_over, on_events
        protocols = demand.protocols
        self._candidates = Candidates(registry.known() if protocols is None else map(registry.as_known, protocols))
        self._decode_as = self._candidates.of_capture(demand.decode_as)
        self._trackers: dict[Connection, Tracker] = {}
        self._ended: list[tuple[Connection, str | None]] = []
        """Connections that are over; what is known of them stays while frames of theirs may wait."""
        self._pending: dict[Tracker, None] = {}
        """Connections with frames that others may still precede."""
        self._lookahead = Lookahead(demand.lookahead_ns, demand.answers)
        self._waiting: deque[Frame] = deque()
        """Frames from the oldest request on that waits for its response."""
        self._number = 0

    def watch_connections(self, over: Callable[[Connection, str | None], None]) -> None:
        """Before the first packet: ``over`` is to be told as ``on_over`` is, with TCP analysis."""
        self.network.analyse()
        before = self._on_over

        def both(connection: Connection, other: str | None) -> None:
            over(connection, other)
            if before is not None:
                before(connection, other)

        self._on_over = both

    @property
    def totals(self) -> Totals:
        """What became of the capture; whole at its end."""
        return self.accounts.totals

    @property
    def decrypts(self) -> bool:
        """Whether it has secrets of TLS, and what was decrypted with them."""
        return self._tls is not None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "demand"}

    def resume(self, demand: Demand, on_over: Callable[[Connection, str | None], None] | None = None) -> None:
        """Go on after pickling; ``demand`` is as it was, ``on_over`` where it is another."""
        self.demand, self._on_over = demand, on_over or self._on_over

    def frames(self, batches: Iterable[PacketBatch]) -> Iterator[Frame]:
        """Yield the frames of a capture; an error of the capture is raised after everything before it came out."""
        error: CaptureError | None = None
        try:
            for batch in batches:
                yield from self.feed(batch)
        except CaptureError as raised:
            error = raised
        yield from self.finish()
        if error is not None:
            raise error

    def feed(self, batch: PacketBatch) -> Iterator[Frame]:
        """Take the next packets, yield the frames that are ready."""
        self._receive(batch)
        yield from self._linked(self._release(self.network.watermark))

    def tick(self, time_ns: int, patience_ns: int) -> Iterator[Frame]:
        """Live capture: no packet came up to ``time_ns``; yield the frames that have waited long enough.

        ``patience_ns``: how long requests may have waited for their response.
        """
        self._events(self.network.tick(time_ns))
        self._close_ended()
        yield from self._linked(self._release(None))
        self._lookahead.tick(time_ns, patience_ns)
        yield from self._not_waiting()

    def finish(self) -> Iterator[Frame]:
        """The capture is over: yield everything that is left and close the accounts."""
        self._end()
        yield from self._linked(self._release(None))
        self._lookahead.finish()
        while self._waiting:
            yield self._waiting.popleft()
        self.accounts.finish(self.network)

    def mixed(self, batches: Iterable[PacketBatch]) -> Iterator[list[Frame | FrameBlock]]:
        """As :meth:`frames`, with runs: what each batch made ready, all numbered but not in this order.

        Requests are not told their response.
        """
        error: CaptureError | None = None
        try:
            for batch in batches:
                self._receive(batch)
                yield from self._released(self.network.watermark)
        except CaptureError as raised:
            error = raised
        self._end()
        yield from self._released(None)
        self.accounts.finish(self.network)
        if error is not None:
            raise error

    # From packets to what waits for its turn.

    def _receive(self, batch: PacketBatch) -> None:
        self.accounts.packets(batch)
        if batch.secrets and self._tls is not None and installed("cryptography"):
            for secret in batch.secrets:
                self._tls.keys.add(secret)
        self._events(self.network.feed(batch))
        self._close_ended()

    def _end(self) -> None:
        self._events(self.network.finish())
        self._close_ended()

    def _events(self, events: list[Event]) -> None:
        self._dispatch(events if self._tls is None else self._tls.open(events))

    def _dispatch(self, events: list[Event]) -> None:
        """Events in clear, as far as that is possible."""
        if self._on_events is not None:
            self._on_events(events)
        unknown: dict[Tracker, list[Event]] = {}
        for event in events:
            if isinstance(event, Note):
                self.accounts.note(event)
                continue
            connection = event.direction.connection
            if self.demand.stable_ids:
                _label(connection)
                if isinstance(event, Chunk):
                    event.packet = event.time_ns  # nothing of it is called by numbers
            tracker = self._trackers.get(connection) or self._track(connection)
            if tracker.identifier is not None:
                unknown.setdefault(tracker, []).append(event)
            else:
                tracker.event(event)
                self._waits(tracker)
        for tracker, waiting in unknown.items():
            tracker.identify(waiting)
            self._waits(tracker)
        for record in self._tls.pop_records() if self._tls is not None else ():
            connection = record.direction.connection
            if self.demand.stable_ids:
                _label(connection)
                record.packets = record.times
            tracker = self._trackers.get(connection) or self._track(connection)
            tracker.secured(record)
            self._waits(tracker)

    def _waits(self, tracker: Tracker) -> None:
        """Remember a connection whose frames wait for their turn."""
        if tracker.out:
            self._pending[tracker] = None

    def _track(self, connection: Connection) -> Tracker:
        runs = self.demand.runs
        tracker = self._trackers[connection] = Tracker(
            *(connection, self._candidates.order(connection), self._decode_as),
            runs=runs,
            copies=self.demand.copies and not runs,
        )
        return tracker

    def _close_ended(self) -> None:
        """Close the accounts of connections that are over."""
        for connection in self.network.pop_forgotten():
            if self._tls is not None:
                self._dispatch(self._tls.forget(connection))
            tracker = self._trackers.get(connection)
            if tracker is not None:
                tracker.end()
                self._waits(tracker)
            self.accounts.close(connection, tracker)
            if tracker is not None:
                tracker.framers = None
            other = None if tracker is None else tracker.other
            self._ended.append((connection, other))
            if self._on_end is not None:
                self._on_end(connection, other)

    def _forget_ended(self) -> None:
        """Forget the connections that are over, once no frame of theirs waits."""
        if self._pending:
            return
        for connection, other in self._ended:
            self._trackers.pop(connection, None)
            self.accounts.forget(connection)
            if self._on_over is not None:
                self._on_over(connection, other)
        self._ended.clear()

    # From what has its turn to what comes out.

    def _release(self, watermark: int | None) -> Iterator[Frame | FrameBlock]:
        """Decode and hand on what nothing can come before any more. Frames are in order where there are no runs."""
        yield from self._decode_ready(self._order(watermark), watermark)

    def _decode_ready(self, order: FrameOrder, watermark: int | None) -> Iterator[Frame | FrameBlock]:
        select = self.demand.select
        for item, number in order:
            if not isinstance(item, Frame):
                if self._decode_run(item):
                    yield item
                else:
                    order.refuse(item)
                continue
            if select is not None and self._skip(item, number, select):
                continue
            inner = self._decode(item, number)
            yield item
            for each in inner:
                order.insert()
                yield each
        self._number = order.last
        self.accounts.released(watermark)
        self._forget_ended()

    def _order(self, watermark: int | None) -> FrameOrder:
        """What is ready before packet ``watermark`` (None: all), in the order in which it is decoded."""
        demand, limit = self.demand, END if watermark is None else at_packet(watermark - 1)
        pending = sorted(self._pending, key=attrgetter("connection.first"))
        every = (item for tracker in pending for item in tracker.out)
        if demand.runs and not all(isinstance(item, Frame) for item in every):
            order: FrameOrder = Order([tracker.take(limit) for tracker in pending], self._number)
        else:
            order = FrameOrder([tracker.take_frames(limit) for tracker in pending], self._number)
        self._pending = {tracker: None for tracker in pending if tracker.out}
        return order

    def _released(self, watermark: int | None) -> Iterator[list[Frame | FrameBlock]]:
        """What is ready, little by little: behind a hole much may have waited."""
        from wiredecode.dissect.order import partial_limits

        items = [item for tracker in self._pending for item in tracker.out]
        limits = partial_limits(items, END if watermark is None else at_packet(watermark - 1))
        del items
        for step in [*(place(limit) for limit in limits), watermark]:
            linkers = dict.fromkeys(each.linker for each in self._trackers.values() if each.linker is not None)
            for items in self._pieces(step):
                for link in linkers:
                    link()
                yield items

    def _pieces(self, watermark: int | None) -> Iterator[list[Frame | FrameBlock]]:
        """What is ready: by the megabyte, for decoded it takes more; all where there are runs: they lack order."""
        piece: list[Frame | FrameBlock] = []
        order, size = self._order(watermark), 0
        in_order = not isinstance(order, Order)
        for item in self._decode_ready(order, watermark):
            piece.append(item)
            if in_order and isinstance(item, Frame):
                size += item.length
            if size >= PIECE_BYTES:
                yield piece
                piece, size = [], 0
        yield piece

    def _linked(self, frames: Iterator[Any]) -> Iterator[Frame]:
        """The frames, where it is wanted with their responses."""
        return self._held_back(frames) if self.demand.link_responses else frames

    def _held_back(self, frames: Iterator[Any]) -> Iterator[Frame]:
        """Hold requests back until their response is known, within bounds."""
        waiting, lookahead = self._waiting, self._lookahead
        for frame in frames:
            lookahead.add(frame)
            waiting.append(frame)
            while len(waiting) > lookahead.waiting:
                yield waiting.popleft()

    def _not_waiting(self) -> Iterator[Frame]:
        waiting, lookahead = self._waiting, self._lookahead
        while len(waiting) > lookahead.waiting:
            yield waiting.popleft()

    # Runs.

    def _decode_run(self, run: FrameBlock) -> bool:
        """Decode a run at once; False: its frames must be decoded one by one."""
        conversation, demand = self._trackers[run.connection].conversation_of(run), self.demand
        if self.accounts.has_notes(run.connection, run.side) or not run.bulk.decode(conversation, run, demand.messages):
            return False
        run.sender = conversation.sender(run)
        self.accounts.run(run)
        return True

    # Frames.

    def _decode(self, frame: Frame, number: int) -> Iterable[Frame]:
        """Number and decode a frame; return those that end inside it, which are decoded as they are taken."""
        tracker = self._trackers[frame.connection]
        conversation = tracker.conversation_of(frame)
        self._decode_one(frame, number, conversation, frame.status == OK or tracker.can_decode(frame))
        return self._handed_on(conversation) if conversation.inner_frames else ()

    def _handed_on(self, conversation: Conversation) -> Iterator[Frame]:
        for number, inner in enumerate(conversation.inner_frames, 1):  # decoding one may add others
            inner.place = number
            self._decode_one(inner, self._number + 1, conversation, True)
            yield inner
        conversation.inner_frames.clear()

    def _decode_one(self, frame: Frame, number: int, conversation: Conversation, readable: bool) -> None:
        """Number and decode a frame, and count it."""
        frame.number = self._number = number
        style = self.demand.style
        if readable:
            try:
                self._read(frame, conversation)
            except Exception as error:
                frame.layers = {} if style is not None else None
                unread(frame, error)
            if frame.is_cut and not frame.missing:  # its end was never sent: nobody answers it
                frame.expects_response = False
        else:
            frame.sender = conversation.sender(frame)
            frame.layers = {} if style is not None else None
        self.accounts.frame(frame)

    def _read(self, frame: Frame, conversation: Conversation) -> None:
        """Decode a frame as far as it is wanted."""
        if self.demand.is_plain:
            conversation.decode(frame, self.demand.style)
        else:
            self._read_wanted(frame, conversation)
        read_identity = conversation.identities.get(frame.type)
        if read_identity is not None:
            learn(frame, read_identity)

    def _read_wanted(self, frame: Frame, conversation: Conversation) -> None:
        demand = self.demand
        style = demand.style if demand.recorded is None else self._style(frame, demand.recorded)
        after_messages = style is not None and demand.messages is not None and demand.select is None
        record_later = conversation.records_later and after_messages
        if record_later:
            conversation.decode(frame, None)
        elif demand.select is None:
            conversation.decode(frame, style)
        else:
            self._decode_selected(frame, conversation, demand.select)
        if demand.messages is not None:
            conversation.messages(frame, demand.messages)
        if record_later and style is not None:
            conversation.record(frame, style)

    def _style(self, frame: Frame, recorded: frozenset[str]) -> Style | None:
        """The style of the records that are wanted of some protocols only."""
        protocol = self._trackers[frame.connection].protocol
        return self.demand.style if protocol is not None and protocol.name in recorded else None

    def _decode_selected(self, frame: Frame, conversation: Conversation, select: Filter) -> None:
        """Decode a frame, with no record where it will not be shown."""
        style = self.demand.style
        if style is None or not conversation.records_later:
            conversation.decode(frame, None if select.arrival(frame) is False else style)
            return
        conversation.decode(frame, None)
        if not select.unwanted(frame):
            conversation.record(frame, style)

    def _skip(self, frame: Frame, number: int, select: Filter) -> bool:
        """Number and count a frame that nobody will see, and that nothing later depends on."""
        tracker = self._trackers[frame.connection]
        conversation = tracker.conversation_of(frame)
        frame.number = number
        if not tracker.unseen:
            if select.arrival(frame) is not False:
                return False
            tracker.unseen = select.excludes(frame.connection)
        if self.demand.alone and tracker.unseen and conversation.dispensable(frame):
            self._number = number
            return True
        if frame.status != OK or not conversation.skip(frame, forever=tracker.unseen):
            return False
        self._number = number
        self.accounts.skipped(frame)
        return True
