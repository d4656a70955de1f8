"""Rules of RabbitMQ Stream for ``wiredecode anonymize``."""

from __future__ import annotations

import zlib

from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream.layers_chunk import DATA, Chunk
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.redaction import Rules, words

UNCOMPRESSED = 0x80
WORDS = words(
    """
    true false first last next offset timestamp RabbitMQ localhost max length bytes age segment size initial cluster
    leader locator random client least leaders balanced queue single active consumer super stream filter match
    unfiltered name advertised host port connection product version platform copyright information chunk id
    committed identifier reference PLAIN AMQPLAIN EXTERNAL ANONYMOUS SCRAM SHA PLUS OAUTHBEARER XOAUTH2 GSSAPI
    RABBIT CR DEMO
    """
)


def is_compressed(owner: Layer, name: str) -> bool:
    """Sub-batches with a codec."""
    return name == "data" and owner.fields.get("codec", UNCOMPRESSED) & 0x70 != 0


def seal_chunk(layer: Layer, data: bytes, out: bytearray) -> None:
    """CRC-32 of the data section."""
    chunk = layer.fields.get("chunk")
    if not isinstance(chunk, Chunk) or "reserved" not in chunk.ranges:
        return
    start = chunk.start + Chunk.minimum()
    stop, at = start + chunk.data_length, chunk.ranges["crc"][0]
    if stop <= len(data) and zlib.crc32(data[start:stop]) == chunk.crc and any(name in chunk.fields for name in DATA):
        out[at : at + 4] = zlib.crc32(out[start:stop]).to_bytes(4, "big")


DISGUISES = {
    **proxy.DISGUISES,
    "rabbitmq_stream": Rules(
        kept=frozenset({"mechanism", "mechanisms", "properties.key", "arguments.key", "statistics.key"}),
        hosts=frozenset({"brokers.host"}),
        compressed=is_compressed,
        words=WORDS,
        seals=(seal_chunk,),
    ),
}
