"""How a carried protocol reads many messages at a time, where the one that carries it does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from wiredecode.arrays import Bools, Int64s
from wiredecode.fields.bulk import Source

if TYPE_CHECKING:
    from wiredecode.arrays import UInt8s
    from wiredecode.frames.block import FrameBlock
    from wiredecode.frames.message import Column


PLACES = 3


@dataclass(slots=True, eq=False)
class Payloads:
    """The payloads of one protocol in a block, where they are plain."""

    block: FrameBlock
    rows: Int64s
    """Which frames: their index in the block."""
    kinds: UInt8s
    """What :meth:`CarriedBulk.kinds` called them."""
    starts: Int64s
    """Where they start in the buffer of the block ..."""
    stops: Int64s
    codes: Int64s
    """``subjects[codes[i]]``: what message i was published on."""
    subjects: list[str]
    places: Int64s
    """What :meth:`CarriedBulk.kinds` found in each."""

    def at(self, chosen: Bools) -> Payloads:
        """Some of them."""
        where = self.starts[chosen], self.stops[chosen], self.codes[chosen]
        return Payloads(self.block, self.rows[chosen], self.kinds[chosen], *where, self.subjects, self.places[chosen])


class CarriedBulk(ABC):
    """Stateless. Kinds of messages count from 1; whatever is not plain is left to the row decoder, by a kind of 0."""

    types: ClassVar[tuple[str, ...]]
    """Type of each kind, from 1 on."""
    linked: ClassVar[frozenset[int]] = frozenset()
    """Kinds of requests and responses."""

    @abstractmethod
    def kinds(self, source: Source, starts: Int64s, stops: Int64s) -> tuple[UInt8s, Int64s]:
        """The kinds of payloads that begin with the prefix of the protocol; and :data:`PLACES` in the buffer of each.

        These are what the protocol will want again once the payloads are a block.
        """

    @abstractmethod
    def accepts(self, session: Any, payloads: Payloads) -> bool:
        """Whether nothing about these messages is worth telling. Nothing is remembered yet."""

    @abstractmethod
    def decode(self, session: Any, payloads: Payloads, *, original: bool, links: bool) -> None:
        """Remember what the row decoder would. ``original``: a client published them; ``links``: requests, too.

        What these ask, and the block answers, is tied together by :meth:`CarriedSession.link`.
        """

    @abstractmethod
    def messages(self, session: Any, payloads: Payloads) -> tuple[Int64s, dict[str, Column]]:
        """The rows that count as messages of this protocol, and their columns; the others are messages of the carrier.

        Columns are as those of :class:`BlockMessages`, but for ``index`` and ``operation``.
        """
