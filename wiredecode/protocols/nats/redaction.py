"""Rules of NATS for ``wiredecode anonymize``."""

import re

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.shared.redaction import read_rules


def seal_s2(layer: Layer, data: bytes, out: bytearray) -> None:
    """Blanked bytes are no S2 block, and have no CRC: their chunk becomes padding, which readers skip."""
    if layer.fields.get("chunk_type") in (s2.COMPRESSED, s2.UNCOMPRESSED):
        out[layer.start] = s2.PADDING


REFUSAL = re.compile(
    rb'\{(?:"type":"io\.nats\.jetstream[^"]*",)?"error":\{"code":(\d+),"err_code":(\d+),"description":"[^"\\]*"\}'
)
"""An answer of JetStream that says no."""


def seal_refusal(layer: Layer, data: bytes, out: bytearray) -> None:
    """A refusal keeps its numbers, which say nothing of anybody, so the request is still one that was refused."""
    start, stop = layer.ranges.get("data", (0, 0))
    if match := REFUSAL.match(data, start, stop):
        kept = b'{"error":{"code":%b,"err_code":%b}}' % match.groups()
        out[start:stop] = kept.ljust(stop - start)


DISGUISES = read_rules("nats", nats={"seals": (seal_refusal,)}, nats_s2={"seals": (seal_s2,)})
