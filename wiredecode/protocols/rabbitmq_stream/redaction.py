"""Rules of RabbitMQ Stream for ``wiredecode anonymize``."""

import zlib

from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream.layers_chunk import DATA, Chunk
from wiredecode.protocols.shared.redaction import read_rules

UNCOMPRESSED = 0x80


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


DISGUISES = read_rules("rabbitmq_stream", rabbitmq_stream={"compressed": is_compressed, "seals": (seal_chunk,)})
