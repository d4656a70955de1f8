"""The protocols this package speaks."""

from __future__ import annotations

from functools import cache

from wiredecode.protocols.base import Protocol


@cache
def protocols() -> tuple[Protocol, ...]:
    """All protocols, in the order in which they are tried on unknown bytes."""
    from wiredecode.protocols.rabbitmq_stream import RabbitMQStream

    return (RabbitMQStream(),)


def by_name(name: str) -> Protocol | None:
    """The protocol of that name, or None."""
    return next((protocol for protocol in protocols() if protocol.name == name), None)
