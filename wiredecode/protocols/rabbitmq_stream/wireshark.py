"""RabbitMQ Stream in Wireshark: see ``wireshark.lua`` beside this file."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Array, Struct, plain
from wiredecode.fields.lua import LuaReader, LuaWriter, Script, array
from wiredecode.protocols.catalogue import generated_types, source_beside
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.rabbitmq_stream.evidence import UNMARKED
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown, UnknownSasl
from wiredecode.protocols.rabbitmq_stream.layers_chunk import ChunkEntry
from wiredecode.protocols.rabbitmq_stream.protocol import GENERATED


def tables(writer: LuaWriter) -> Mapping[str, Any]:
    layers = {key << 16 | version: writer.layer(layer) for (key, version), layer in LAYERS.items()}
    for key, layer in UNMARKED.items():
        layers.setdefault((key | names.RESPONSE_BIT) << 16 | 1, writer.layer(layer))
    return {
        "layers": layers,
        "keys": names.KEYS,
        "client_keys": names.CLIENT_KEYS,
        "server_keys": names.SERVER_KEYS,
        "unmarked": set(UNMARKED),
        "codes": names.RESPONSE_CODES,
        "challenge": names.SASL_CHALLENGE,
        "unknown": writer.layer(Unknown),
        "unknown_sasl": writer.layer(UnknownSasl),
    }


def entries(writer: LuaWriter, kind: Array) -> LuaReader:
    """Entries of chunks get their offsets."""
    read, more = array(writer, kind)
    inner = plain(kind.element)
    return ("chunk_entries" if isinstance(inner, Struct) and inner.layer is ChunkEntry else read), more


SCRIPT = Script(
    source_beside(__file__),
    tables,
    kinds={Array: entries},
    added=generated_types(GENERATED, without=(".requests", ".problem", ".amqp")),
)
