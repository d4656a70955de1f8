"""Which published message a delivered one is a copy of, where neither asks nor answers: by subject and contents.

Messages with the same contents are told apart by what NATS promises: a subscription gets the messages of one publisher
in the order in which they were published. Where that does not decide, nothing is told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from crc32c import crc32c

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.pairing import Newest

if TYPE_CHECKING:
    from wiredecode.frames.block import FrameBlock, Int64s
    from wiredecode.protocols.nats.conversation_sides import Side, Subscription

    Numbers = Sequence[int] | Int64s

LAYER = "nats"
MAX_CONTENTS = 4_096
"""Different messages remembered: at least the last so many published, at most twice as many."""
MAX_SAME = 4_096
"""Messages of one publisher with the same contents; at most twice as many."""
MAX_PUBLISHERS = 16
"""Publishers of the same contents that are told apart."""
MAX_LAST = 1_024
"""Publishers whose last message a receiver remembers."""
MAX_DOUBTED = 1_024
"""Contents that a receiver got without a publish, and subjects with the same contents again, that are remembered."""

Key = tuple[str, int]
"""Subject, and CRC-32C of the payload."""
Place = tuple[int, int]
"""Number and id of a frame: in the order of the capture."""


@dataclass(slots=True, eq=False)
class Publisher:
    """One end of a connection that publishes, or hands on what was not seen before; and the server it talks to."""

    server: str = ""


@dataclass(slots=True, eq=False)
class Receiver:
    """Who gets messages one after another: a subscription, or a server."""

    since: int = 0
    """Number of the frame that subscribed; 0: it was not captured."""
    server: str = ""
    gets_all: bool = False
    """It gets every message of its subjects: no queue shares them."""
    hands_on: Publisher | None = None
    """What it gets is the first passage, where there was none before: between servers."""
    last: dict[Publisher, int] = field(default_factory=dict)
    """Number of the last message that it got of each publisher."""
    doubted: Newest[Key, None] = field(default_factory=lambda: Newest(MAX_DOUBTED))
    """Contents that it got before their publish was captured: its messages and those publishes cannot be counted."""

    def doubt(self, key: Key) -> None:
        self.gets_all = False
        self.doubted.put(key, None)


class Repeated:
    """Messages with the same contents, by publisher."""

    def __init__(self, publisher: Publisher, number: int, ident: int) -> None:
        self.places: dict[Publisher, list[Place]] = {publisher: [(number, ident)]}
        self.forgotten = 0
        """Number of the last one that is not remembered."""

    def add(self, publisher: Publisher, place: Place) -> None:
        if len(self.places) >= MAX_PUBLISHERS and publisher not in self.places:
            self.forgotten = place[0]
            return
        places = self.places.setdefault(publisher, [])
        places.append(place)
        if len(places) > 2 * MAX_SAME:
            self.forgotten = max(self.forgotten, places[MAX_SAME - 1][0])
            del places[:MAX_SAME]

    def next(self, receiver: Receiver, key: Key) -> tuple[Publisher, int, int] | None:
        """The publisher, number and id of the message that a receiver gets next; None: that does not follow."""
        found: list[tuple[Place, Publisher]] = []
        count, exact = 0, receiver.gets_all
        for publisher, places in self.places.items():
            before = receiver.last.get(publisher, receiver.since)
            at = bisect_right(places, before, key=itemgetter(0))
            if at < len(places):
                found.append((places[at], publisher))
                count += len(places) - at
                known = publisher in receiver.last or (receiver.since and receiver.server == publisher.server)
                exact = exact and bool(known) and before >= self.forgotten
        if not found:
            receiver.doubted.put(key, None)
        if not found or not (exact or (count == 1 and not self.forgotten)):
            return None
        (number, ident), publisher = min(found, key=itemgetter(0))
        return publisher, number, ident


class Copies:
    """Published messages of a capture, and their copies; bounded."""

    def __init__(self) -> None:
        self._contents: dict[Key, tuple[Publisher, int, int] | Repeated] = {}
        """What was published once: by whom, number and id of the frame."""
        self._before: dict[Key, tuple[Publisher, int, int] | Repeated] = {}
        """Contents that were new before those."""
        self.lossy = False
        self._repeating: Newest[str, None] = Newest(MAX_DOUBTED)
        """Subjects of which the same contents were published again."""
        self.links_later = False
        """Frames and runs do not come in order: :meth:`link` is called when all up to some packet came."""
        self._waiting: list[tuple[Frame | FrameBlock | None, Numbers, Sequence[Key], Sequence[Who]]] = []

    def lose(self, number: int) -> None:
        """Messages before this frame may be missing: those of the same contents cannot be counted any more."""
        if self.links_later:
            self._waiting.append((None, [number], [NO_KEY], [None]))
        else:
            self.lossy = True

    def note(self, frame: Frame, key: Key, said: Side, subscriptions: Mapping[str, Subscription]) -> None:
        """A message was published, or delivered, or handed on to another server."""
        if frame.type in ("PUB", "HPUB"):
            if self.links_later:
                self._waiting.append((frame, [frame.number], [key], [said.publisher]))
            else:
                self._publish(key, said.publisher, frame.number, frame.id)
            return
        receiver = said.receiver(frame.values.get("sid"), subscriptions)
        if self.links_later:
            self._waiting.append((frame, [frame.number], [key], [receiver]))
        else:
            mark_copy(frame, self._deliver(key, receiver, frame.number, frame.id))

    def note_run(self, run: FrameBlock, rows: Int64s, keys: Sequence[Key], whos: Sequence[Who]) -> None:
        """Messages of a run."""
        self._waiting.append((run, run.numbers[rows], keys, whos))

    def _publish(self, key: Key, publisher: Publisher, number: int, ident: int) -> None:
        known = self._contents.get(key) or self._before.get(key)
        if known is None:
            self._contents[key] = publisher, number, ident
        else:
            self._contents[key] = known = known if isinstance(known, Repeated) else Repeated(*known)
            known.add(publisher, (number, ident))
            self._repeating.put(key[0], None)
        if len(self._contents) >= MAX_CONTENTS:
            self._before, self._contents = self._contents, {}

    def _deliver(self, key: Key, receiver: Receiver, number: int, ident: int) -> int | None:
        """The id of the message that a receiver gets; None: that is not known."""
        known = self._contents.get(key) or self._before.get(key)
        if known is None and receiver.hands_on is not None:
            self._publish(key, receiver.hands_on, number, ident)
        elif receiver.doubted and key in receiver.doubted:
            return None
        elif isinstance(known, Repeated):
            known = None if self.lossy else known.next(receiver, key)
            if known is None:
                receiver.gets_all = False  # it got what cannot be counted
                return None
        elif self.lossy and key[0] in self._repeating:
            return None  # another publish of the same may be lost
        if known is None:
            receiver.doubt(key)
            return None
        publisher, found, original = known
        last = receiver.last
        if found <= last.get(publisher, receiver.since):
            receiver.doubt(key)
            return None
        if len(last) >= MAX_LAST:
            last.clear()
            receiver.gets_all = False
        last[publisher] = found
        return original

    def link(self) -> None:
        """Tell those that waited what they are copies of, in the order of the capture."""
        items, self._waiting = self._waiting, []
        if not items:
            return
        order = np.argsort(np.concatenate([np.asarray(each, np.int64) for _, each, _, _ in items]), kind="stable")
        places = [place for item, own, _, _ in items for place in places_of(item, own)]
        keys = [key for _, _, own, _ in items for key in own]
        whos = [who for *_, own in items for who in own]
        found = [0] * len(keys)
        for at in order.tolist():
            who = whos[at]
            if who.__class__ is Receiver:
                found[at] = self._deliver(keys[at], who, *places[at]) or 0
            elif who is None:
                self.lossy = True
            else:
                self._publish(keys[at], who, *places[at])
        first = 0
        for item, own, _, _ in items:
            copied = found[first : first + len(own)]
            first += len(own)
            if isinstance(item, Frame):
                mark_copy(item, copied[0])
            elif item is not None:
                item.copies = np.zeros(len(item), np.int64)
                item.copies[np.searchsorted(item.numbers, own)] = copied


Who = Publisher | Receiver | None
"""None: messages were lost."""
NO_KEY = "", 0


def places_of(item: Frame | FrameBlock | None, numbers: Numbers) -> Sequence[Place]:
    """Those of the frames of an item."""
    if item is None or isinstance(item, Frame):
        return [(numbers[0], 0 if item is None else item.id)]
    ids = item.ids[np.searchsorted(item.numbers, numbers)]
    return [*zip(np.asarray(numbers).tolist(), ids.tolist(), strict=True)]


def mark_copy(frame: Frame, original: int | None) -> None:
    """Tell which frame this one is a copy of, if it is one."""
    if original and "copy_of" not in frame.generated:
        frame.generate("copy_of", original)
        if frame.layers is not None and LAYER in frame.layers:
            frame.layers[LAYER]["copy_of"] = original


def keys_of(buffer: bytes, starts: Int64s, stops: Int64s, subjects: Iterable[str]) -> list[Key]:
    """The keys of messages of a run: where their payloads start and stop, and the subject of each."""
    contents = [crc32c(buffer[start:stop]) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    return [*zip(subjects, contents, strict=True)]
