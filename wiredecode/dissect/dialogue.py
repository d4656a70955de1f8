"""One connection: its protocol is looked for, then both directions are cut into frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from wiredecode.dissect.identify import Candidate, DecodeAs, Identified, Identifier
from wiredecode.dissect.streams import SHORT_RUN, Passed, Stream
from wiredecode.frames.frame import UNDECODED, Frame
from wiredecode.net.types import Chunk, Connection, Event, Gap
from wiredecode.protocols.base import Conversation, Protocol

if TYPE_CHECKING:
    from wiredecode.frames.run import Run


@dataclass(slots=True, frozen=True)
class Wanted:
    """How a dissector wants frames; see there."""

    runs: bool
    columns: bool
    """For the table of frames."""
    alone: bool
    """Frames of connections that know of each other are wanted in order: no runs there."""
    selected: bool
    """Most will be left out."""

    def runs_of(self, protocol: Protocol) -> bool:
        """Whether frames of a protocol may come in runs."""
        if self.alone and protocol.has_session:
            return False
        return self.runs


class Dialogue:
    """One connection on its way: first its protocol is looked for, then both directions are cut into frames."""

    def __init__(
        self,
        connection: Connection,
        candidates: tuple[Candidate, ...],
        decode_as: Mapping[int, DecodeAs],
        out: list[Frame | Run | Passed],
        wanted: Wanted,
        tally: Callable[[Conversation, str, int, bytes, list[int]], bool] | None,
    ) -> None:
        self.connection, self.out, self.wanted = connection, out, wanted
        self.identifier: Identifier | None = Identifier(connection, candidates, decode_as)
        self.streams: tuple[Stream, Stream] | None = None
        self.protocol: Protocol | None = None
        self.conversation: Conversation | None = None
        self.header_bytes = 0
        self.other: str | None = None
        """What it looks like, if it is nothing that is decoded here."""
        self.undecoded = 0
        self.unseen = tally is not None
        """No frame of it will be shown."""
        self.tally = tally
        """Counts frames that need not be made, if nothing of it will be shown."""
        forced = self.identifier.forced()
        if forced is not None:
            self._begin(forced)

    def event(self, event: Event) -> None:
        """One event of a connection whose protocol is no longer looked for."""
        if self.streams is not None:
            self._feed(self.streams[event.direction.side], event)
        else:
            self.undecoded += len(event.data) if isinstance(event, Chunk) else 0

    def identify(self, events: list[Event]) -> None:
        """All events of a batch, while the protocol is looked for."""
        assert self.identifier is not None
        known = self.identifier.events(events)
        if known is not None:
            self._begin(known)
        elif self.identifier.hopeless:
            known = self.identifier.by_port()
            if known is None:
                self._dismiss()
            else:
                self._begin(known)

    def end(self, reason: str, ready: int) -> None:
        """The connection or the capture is over, as packet ``ready`` tells."""
        if self.identifier is not None:
            known = self.identifier.finish()
            if known is None:
                self._dismiss()
            else:
                known.ready = ready
                self._begin(known)
        for stream in self.streams or ():
            stream.end(reason, ready)

    def can_decode(self, frame: Frame) -> bool:
        """Whether a frame with holes, or a stretch of undecoded bytes, says what it is."""
        return frame.status != UNDECODED and frame.stop - frame.start >= self.header_bytes

    def _begin(self, known: Identified) -> None:
        identifier, self.identifier = self.identifier, None
        assert identifier is not None
        self.protocol, self.header_bytes = known.protocol, known.protocol.header_bytes
        self.conversation = known.protocol.conversation(self.connection, known.dialect)
        self.conversation.hand_on = []
        first, second = (
            Stream(direction, known.protocol, self.out, direction.started) for direction in self.connection.directions
        )
        self.streams = first, second
        if self.tally is not None:
            for stream in self.streams:
                stream.passes = partial(self.tally, self.conversation, known.protocol.name, stream.direction.side)
        if known.verdict is not None:
            self.conversation.started_by(known.side, known.verdict.client)
            told = self.streams[known.side]
            if known.offset or not told.in_step:
                told.in_step, told.sync_at = False, known.offset
        before = len(self.out)
        for event in identifier.waiting:
            self._feed(self.streams[event.direction.side], event)
        # None of these was known before the protocol was: they follow that packet, in the order in which they came.
        passed = [item for item in self.out[before:] if isinstance(item, Passed)]
        for item in passed:
            item.ready = [max(ready, known.ready) for ready in item.ready]
        rows = [item for item in self.out[before:] if isinstance(item, Frame)]
        begun = sorted(rows, key=attrgetter("ready"))
        self.out[before:] = [*begun, *passed]
        for frame in begun:
            if frame.ready >= known.ready:
                break
            frame.ready = known.ready
        counted = self.tally is not None and type(self.conversation).tally is not Conversation.tally
        if self.wanted.runs_of(known.protocol) and not counted:
            bulk = first.bulk = second.bulk = known.protocol.bulk()
            if bulk is not None and self.wanted.columns:
                first.kinds = second.kinds = bulk.with_layers
            if self.wanted.selected:
                first.shortest = second.shortest = SHORT_RUN

    def _dismiss(self) -> None:
        identifier, self.identifier = self.identifier, None
        assert identifier is not None
        self.other = identifier.foreign()
        self.undecoded = identifier.size

    def _feed(self, stream: Stream, event: Event) -> None:
        if isinstance(event, Chunk):
            stream.chunk(event)
        elif isinstance(event, Gap):
            stream.gap(event)
