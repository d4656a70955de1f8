"""The protocols that are spoken: those of this package, and those that other packages add.

Another package adds one by an entry point in the group ``wiredecode.protocols`` whose value is its
:class:`~wiredecode.protocols.base.Protocol` class; see docs/add-a-protocol.md.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from wiredecode.protocols.base import Protocol

GROUP = "wiredecode.protocols"


@cache
def protocols() -> tuple[Protocol, ...]:
    """All protocols, in the order in which they are tried on unknown bytes: the least mistakable first."""
    from wiredecode.protocols.rabbitmq_stream import RabbitMQStream

    added = (entry.load()() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name))
    return (RabbitMQStream(), *added)


def by_name(name: str) -> Protocol | None:
    """The protocol of that name, or None."""
    return next((protocol for protocol in protocols() if protocol.name == name), None)
