"""Liftbridge: envelopes and Raft streams inside NATS messages. No ports of its own: NATS calls :func:`attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiredecode.protocols.liftbridge.conversation import attach, introduce

if TYPE_CHECKING:
    from wiredecode.layer import Layer

__all__ = ["all_layers", "attach", "introduce"]


def all_layers() -> tuple[type[Layer], ...]:
    """All message types, for the field catalogue."""
    from wiredecode.protocols.liftbridge import layers, operations, raft

    stored = (operations.ActivityStreamEvent, operations.Cursor)
    return (*layers.LAYERS.values(), layers.Unknown, *stored, *raft.LAYERS)
