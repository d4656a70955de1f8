"""Tracks one connection: identifies its protocol, then splits both directions into frames."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from wiredecode.dissect.identify import Candidate, Identified, Identifier
from wiredecode.dissect.order import Item, gap_since, own_order, take_ready
from wiredecode.frames.frame import UNDECODED, Frame
from wiredecode.frames.framer import Framer
from wiredecode.net.types import Chunk, Connection, End, Event, Gap
from wiredecode.protocols.base import Conversation, Protocol, Start
from wiredecode.protocols.registry import DecodeAs

if TYPE_CHECKING:
    from wiredecode.frames.block import FrameBlock
    from wiredecode.frames.identity import IdentityReader
    from wiredecode.protocols.shared.tls import TlsConversation
    from wiredecode.tls.half import Record

AROUND = -1
"""``Frame.inner_index`` of a TLS record: its offset counts encrypted bytes."""
CLOSED = {"FIN": "the sender closed", "RST": "the sender reset the connection"}


class Tracker:
    """Tracks one connection; ``blocks``, ``copies`` and ``frame`` are those of the demand."""

    __slots__ = (
        *("blocks", "connection", "conversation", "copies", "failures", "foreign", "frame", "framers", "header_bytes"),
        *("hidden", "identifier", "out", "protocol", "security", "start", "undecoded"),
    )

    def __init__(
        self,
        connection: Connection,
        candidates: tuple[Candidate, ...],
        decode_as: Mapping[int, DecodeAs],
        *,
        blocks: bool = False,
        copies: bool = True,
        frame: type[Frame] = Frame,
    ) -> None:
        self.connection = connection
        self.out: list[Any] = []
        """Frames and blocks that were framed but not taken yet."""
        self.blocks, self.copies, self.frame = blocks, copies, frame
        self.identifier: Identifier | None = Identifier(connection, candidates, decode_as)
        self.failures = self.identifier.failures
        self.framers: tuple[Framer, Framer] | None = None
        self.protocol: Protocol | None = None
        self.conversation: Conversation | None = None
        self.start: Start | None = None
        """Facts with which the conversation began."""
        self.security: TlsConversation | None = None
        """Decodes TLS records without content, such as handshakes."""
        self.header_bytes = 0
        self.foreign: str | None = None
        """Its likely protocol, if that is not decoded."""
        self.undecoded = 0
        self.hidden = False
        """Whether none of its frames will be shown."""
        forced = self.identifier.find_forced() if decode_as else None
        if forced is not None:
            self._start_framing(forced)

    def feed(self, event: Event) -> None:
        """Take an event, once the protocol is known or given up; its framer appends the frames to `out`."""
        if self.framers is not None:
            self._feed_safely(self.framers[event.direction.side], event)
        else:
            self.undecoded += len(event.data) if isinstance(event, Chunk) else 0

    def tls_record(self, record: Record) -> None:
        """Add a TLS record without content as a frame."""
        from wiredecode.protocols.shared.tls import DECRYPTED, NAME, TlsConversation

        if self.security is None:
            self.security = TlsConversation(Start(self.connection))
        direction, size = record.direction, len(record.data)
        frame = self.frame(
            connection=self.connection,
            side=direction.side,
            buffer=record.data,
            start=0,
            stop=size,
            offset=record.offset,
            length=size,
            missing=0,
            packets=record.packets,
            ready=record.ready,
            time_ns=record.ready_ns,
            first_ns=record.first_ns,
            protocol=NAME,
            layer=TlsConversation.layer,
            inner_index=AROUND,
        )
        frame.generated = DECRYPTED if record.decrypted else frame.generated
        self.out.append(frame)

    def conversation_of(self, item: Frame | FrameBlock) -> Conversation:
        """The conversation that decodes a frame or block of the connection."""
        conversation = self.conversation
        if self.security is not None and self.is_security(item):
            conversation = self.security
        assert conversation is not None
        return conversation

    def is_security(self, item: Frame | FrameBlock) -> bool:
        """Whether it is a TLS record without content."""
        return self.security is not None and isinstance(item, Frame) and item.layer is self.security.layer

    def identities_of(self, conversation: Conversation) -> Mapping[str | None, IdentityReader]:
        """What the frames of a conversation of the connection say about client and server, by message type."""
        if self.security is not None and conversation is self.security:
            return self.security.identities
        assert self.protocol is not None
        return self.protocol.identities()

    def identify(self, events: list[Event]) -> None:
        """Take all events of a batch, while the protocol is unknown."""
        assert self.identifier is not None
        match = self.identifier.feed(events)
        if match is not None:
            self._start_framing(match)
        elif self.identifier.given_up:
            self._give_up_identifying()

    def end(self) -> None:
        """End of the connection: emit what is left."""
        reason, ready = self.connection.end_reason, self.connection.ended_at
        if self.identifier is not None:
            match = self.identifier.finish()
            if match is None:
                self._give_up_identifying()
            else:
                match.ready = ready
                self._start_framing(match)
        for framer in self.framers or ():
            try:
                self._close(framer, reason, ready)
            except Exception as error:
                framer.stop(error)
                self._close(framer, reason, ready)

    def _close(self, framer: Framer, reason: str, ready: int) -> None:
        if self.connection.closed == "RST":  # by the other side; or this side closed before
            framer.close("the receiver reset the connection", ready, beyond=framer.direction.acked_beyond)
        framer.end(reason, ready)

    def take_frames(self, limit: int) -> list[Frame]:
        """Remove and return the frames ready at logical time ``limit``, in the order of the connection; no blocks."""
        own_order(self.out, gap_since(self.connection))
        count = len(self.out)
        if count and self.out[-1].ready > limit:
            count = bisect_right(self.out, limit, key=attrgetter("ready"))
        taken = self.out[:count]
        del self.out[:count]
        return taken

    def take(self, limit: int) -> list[Item]:
        """Remove and return the frames and blocks ready at logical time ``limit``."""
        taken, self.out[:] = take_ready(self.out, limit)  # framers hold the list
        return taken

    def can_decode(self, frame: Frame) -> bool:
        """Whether enough of a partial frame was captured to decode it; never undecoded bytes."""
        return frame.status != UNDECODED and frame.stop - frame.start >= self.header_bytes

    def _start_framing(self, match: Identified) -> None:
        identifier, self.identifier = self.identifier, None
        assert identifier is not None
        protocol = match.protocol
        self.protocol, self.header_bytes = protocol, protocol.header_bytes
        splitter = match.verdict.splitter if match.verdict else None
        recognised = match.verdict is not None
        self.start = Start(self.connection, match.dialect, recognised, match.client, splitter, self.copies)
        self.conversation = protocol.conversation(self.start)
        one, other = self.connection.directions
        by, out = splitter or protocol, self.out
        first, second = Framer(one, by, out, one.started, self.frame), Framer(other, by, out, other.started, self.frame)
        self.framers = first, second
        if match.verdict is not None:
            self.framers[match.side].start_at(match.offset)
        before = len(self.out)
        for event in identifier.waiting:
            self._feed_safely(self.framers[event.direction.side], event)
        self._delay_frames(before, match.ready)
        if self.blocks:
            first.bulk = second.bulk = protocol.bulk()

    def _delay_frames(self, before: int, ready: int) -> None:
        """Frames of bytes that waited for the protocol are ready when that was identified."""
        out = self.out
        out[before:] = sorted(out[before:], key=attrgetter("ready"))
        while before < len(out) and out[before].ready < ready:
            out[before].ready = ready
            before += 1

    def _give_up_identifying(self) -> None:
        identifier, self.identifier = self.identifier, None
        assert identifier is not None
        self.foreign = identifier.foreign()
        self.undecoded = sum(len(event.data) for event in identifier.waiting if isinstance(event, Chunk))

    def _feed_safely(self, framer: Framer, event: Event) -> None:
        try:
            self._feed_framer(framer, event)
        except Exception as error:
            framer.stop(error)
            if not isinstance(event, Chunk):  # the framer has the bytes of a chunk already
                self._feed_framer(framer, event)

    def _feed_framer(self, framer: Framer, event: Event) -> None:
        if isinstance(event, Chunk):
            if not event.offset and framer.sync_at is None:
                framer.in_sync = event.direction.started  # a SYN may have been captured since
            framer.chunk(event)
        elif isinstance(event, Gap):
            framer.gap(event)
        elif isinstance(event, End):
            framer.close(CLOSED[event.how], event.ready, event.ready_ns, event.beyond)
