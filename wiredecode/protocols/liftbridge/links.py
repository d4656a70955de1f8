"""What ties requests to their responses."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

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
