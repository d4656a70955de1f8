"""Liftbridge: envelopes and Raft streams inside NATS messages. No ports of its own: NATS calls :func:`attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wiredecode.protocols.base import Generated
from wiredecode.protocols.liftbridge.conversation import attach, interrupt, introduce

if TYPE_CHECKING:
    from wiredecode.fields.layer import Layer

__all__ = ["GENERATED", "all_layers", "attach", "interrupt", "introduce"]

GENERATED = {
    "liftbridge.crc_status": Generated("string", "good or bad: whether the CRC-32C of the envelope fits its payload"),
    "liftbridge.messages_crc_status": Generated(
        "string", "good, or bad if the CRC-32C of one stored message does not fit"
    ),
    "liftbridge.entries.crc_status": Generated("string", "good or bad: whether the CRC-32C of the stored message fits"),
    "liftbridge.stream": Generated(
        "string", "of replication requests: from the subject; of their responses: from the request"
    ),
    "liftbridge.partition": Generated("int32", "as stream"),
    "liftbridge.replica_id": Generated("string", "of replication responses: the replica that asked"),
    "liftbridge.copy_of": Generated("int64", "frame in which a client sent what a server hands on here"),
    "raft.entries.raft_log": Generated("json", "what a command of the log does"),
    "raft.entries.configuration": Generated("json", "servers of a configuration of the log"),
    "raft.further": Generated("list<json>", "the RPCs after the first one of a message"),
}
"""Fields that no layer declares, for the catalogue."""


def all_layers() -> tuple[type[Layer], ...]:
    """All message types, for the field catalogue."""
    from wiredecode.protocols.liftbridge import layers, operations, raft

    stored = (operations.ActivityStreamEvent, operations.Cursor)
    return (*layers.LAYERS.values(), layers.Unknown, *stored, *raft.LAYERS)
