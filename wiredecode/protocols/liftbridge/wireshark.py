"""Liftbridge in Wireshark, inside NATS: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields.lua import LuaWriter, Script
from wiredecode.protocols.catalogue import source_beside
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.layers import LAYERS, Unknown
from wiredecode.protocols.liftbridge.layers_messagepack import Keyed
from wiredecode.protocols.liftbridge.layers_replication import Entries, Extension


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    return {
        "envelopes": {code: writer.layer(layer) for code, layer in LAYERS.items()},
        "unknown_envelope": writer.layer(Unknown),
        "message_types": names.MESSAGE_TYPES,
        "requests": set(names.REQUESTS),
        "responses": set(names.REQUESTS.values()),
    }


SCRIPT = Script(
    source_beside(__file__),
    tables,
    kinds={
        Extension: lambda writer, kind: ("extension", {}),
        Entries: lambda writer, kind: ("log_entries", {"layer": writer.layer(kind.element.layer)}),
        Keyed: lambda writer, kind: ("rest", {}),  # Raft's MessagePack is not read in Lua
    },
    added={
        "liftbridge.namespace": "string",
        "liftbridge.stream": "string",
        "liftbridge.partition": "int32",
        "liftbridge.replica_id": "string",
        "liftbridge.crc_status": "string",
        "liftbridge.messages_crc_status": "string",
        "liftbridge.entries.crc_status": "string",
    },
)
