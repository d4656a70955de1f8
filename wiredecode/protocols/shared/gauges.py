"""Measurements in a protocol's traffic of values that go up and down, such as credit and lag.

A protocol offers :class:`Gauge` classes (``Checks.gauges``); a report makes one of each for a capture. The state
of a gauge has to be bounded. Changes go to a timeline: frames after which a state differs from before.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, NamedTuple

from wiredecode.frames.frame import DAMAGED, Frame
from wiredecode.protocols.shared.facts import Kind

CREDIT, LAG, POSITION = "credit", "lag", "position"
"""Quantities: credit of a consumer; messages (Pravega: bytes) by which it, or a replica, lags; its offset."""
MAX_KNOWN = 65_536
"""Subscriptions, partitions and the like that a gauge keeps at most; others are not measured."""


class Measurement(NamedTuple):
    """A value at the time of a frame."""

    quantity: str
    """:data:`CREDIT`, :data:`LAG` or :data:`POSITION`."""
    of: str
    """Subject of the value: a subscription, a partition ...; may contain text from the wire."""
    value: int
    covers: tuple[str, int | None, int] | None = None
    """Stream or topic, partition, and the last offset that a consumer has finished, if its position contains it."""


class Gauge:
    """Reads values off frames."""

    types: ClassVar[frozenset[str]] = frozenset()
    """Message types that it reads, of its protocol."""

    def read(self, frame: Frame) -> Iterable[Measurement]:
        """The values after a frame of :attr:`types`; frames come in order."""
        raise NotImplementedError


LEADER, TERM, REPLICAS, GROUP, STREAM, STATE = "leader", "term", "replicas", "group", "stream", "state"
"""Kinds: leader; election; in-sync replicas; consumer group; stream made, deleted, set or moved; all others."""


class Change(NamedTuple):
    """One thing that changed."""

    kind: str
    key: str
    """Subject of the change: ``"orders[0]"``. Repeated words about the same subject are reported once."""
    state: str
    """The state from now on, printable: ``"lb-b leads orders[0]"``."""
    fact: Kind | None = None
    """An action of a client, for ``check``: it made or deleted it, its messages or bindings, or set it."""
    what: str = ""
    """The settings, if it changed some."""


ChangeReader = Callable[["Frame"], Iterator[Change]]
"""Changes of a frame; for a truncated frame it may raise exceptions that :func:`read_changes` catches."""


def read_changes(reader: ChangeReader, frame: Frame) -> list[Change]:
    """Changes of a frame; none if it is truncated, or has other values than it should have."""
    try:
        return [*reader(frame)]
    except DAMAGED:
        return []
