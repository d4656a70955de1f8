"""What ties messages, their copies and their acks together, in the order of frames, whatever run these came in."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from wiredecode.frames.run import Link

Key = tuple[str, ...] | bytes
"""Of requests: what its subject is for, and the reply subject; of published messages see :func:`ack_key`."""


class Hop(NamedTuple):
    """A request or a publish as it was seen on one connection."""

    frame: int
    time_ns: int
    connection: int
    side: int
    message_type: int
    facts: dict[str, Any]
    """What it tells about its response."""


make_hop = partial(tuple.__new__, Hop)
"""Of a tuple: twice as fast as ``Hop._make``."""


class Sent(NamedTuple):
    """A published message or an ack of a run."""

    asks: bool
    """It asks for an ack."""
    key: bytes | None
    """What it has in common with its ack, or with what that answers; see :func:`ack_key`."""
    copy_key: tuple[str, int, int]
    """What it has in common with its copies."""
    hop: Hop
    of_client: bool
    """A client sent it: it is no copy."""
    link: Link
    """To be filled in."""


@dataclass(slots=True)
class Waiting:
    """Messages and acks of runs that nobody asked about so far."""

    runs: list[tuple[list[int], list[Sent]]] = field(default_factory=list)
    """Numbers of the frames, and what they are."""
    first: int = 0
    """The lowest number."""

    def add(self, numbers: list[int], sent: list[Sent]) -> None:
        self.first = min(self.first, numbers[0]) if self.runs else numbers[0]
        self.runs.append((numbers, sent))

    def take(self, number: int | None) -> list[Sent]:
        """Hand over those before a number, or all, in their order."""
        due: list[tuple[int, Sent]] = []
        left = []
        for numbers, sent in self.runs:
            count = len(numbers) if number is None else bisect_left(numbers, number)
            due += zip(numbers[:count], sent[:count], strict=True)
            if count < len(numbers):
                left.append((numbers[count:], sent[count:]))
        due.sort(key=itemgetter(0))
        self.runs, self.first = left, min((numbers[0] for numbers, _ in left), default=0)
        return [sent for _, sent in due]
