"""Changes that a protocol reports to a timeline: frames after which a state differs from before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from wiredecode.frames.frame import Frame

LEADER, TERM, REPLICAS, GROUP, STREAM, STATE = "leader", "term", "replicas", "group", "stream", "state"
"""Kinds: leader; election; in-sync replicas; consumer group; stream made, deleted or moved; all others."""


class Change(NamedTuple):
    """One thing that changed."""

    kind: str
    key: str
    """Subject of the change: ``"orders[0]"``. Repeated words about the same subject are reported once."""
    what: str
    """The state from now on, printable: ``"lb-b leads orders[0]"``."""


ChangeReader = Callable[["Frame"], Iterator[Change]]
"""Changes of a frame; for a truncated frame it may raise exceptions that :func:`read_changes` catches."""


def read_changes(reader: ChangeReader, frame: Frame) -> list[Change]:
    """Changes of a frame; none if it is truncated, or has other values than it should have."""
    try:
        return [*reader(frame)]
    except (LookupError, TypeError, ValueError, AttributeError):
        return []
