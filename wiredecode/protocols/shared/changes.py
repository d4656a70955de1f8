"""What a protocol tells a timeline: which of its frames say that something is other than before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from wiredecode.frames.frame import Frame

LEADER, TERM, REPLICAS, GROUP, STREAM, STATE = "leader", "term", "replicas", "group", "stream", "state"
"""Who leads; elections; which replicas are in sync; who consumes what; what was made, deleted or moved; the rest."""


class Change(NamedTuple):
    """One thing that changed."""

    kind: str
    key: str
    """What it is about: ``"orders[0]"``. The same words about the same thing are told once, until others come."""
    what: str
    """What holds from now on, printable: ``"lb-b leads orders[0]"``."""


ChangeReader = Callable[["Frame"], Iterator[Change]]
"""What a frame changes; of a frame that is cut it may raise what :func:`read_changes` catches."""


def read_changes(reader: ChangeReader, frame: Frame) -> list[Change]:
    """What a frame changes; one that is cut, or has other values than it should have, changes nothing."""
    try:
        return [*reader(frame)]
    except (LookupError, TypeError, ValueError, AttributeError):
        return []
