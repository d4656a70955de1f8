"""Rules of Liftbridge for ``wiredecode anonymize``."""

import crc32c

from wiredecode.fields.layer import Layer
from wiredecode.protocols.shared.redaction import Rules, read_rules


def seal_envelope(layer: Layer, data: bytes, out: bytearray) -> None:
    """CRC-32C of the payload, and of the stored messages in it."""
    for entry in layer.fields.get("entries") or ():
        if isinstance(entry, Layer) and entry.problem is None and "crc" in entry.ranges:
            at = entry.ranges["crc"][0]
            _seal(data, out, at, at + 4, entry.stop, entry.fields["crc"])
    if layer.fields.get("crc") is not None and "header_length" in layer.fields:
        _seal(data, out, layer.ranges["crc"][0], layer.start + layer.fields["header_length"], layer.stop, layer.crc)


def _seal(data: bytes, out: bytearray, at: int, start: int, stop: int, stored: int) -> None:
    if crc32c.crc32c(data[start:stop]) == stored:
        out[at : at + 4] = crc32c.crc32c(bytes(out[start:stop])).to_bytes(4, "big")


DISGUISES = read_rules("liftbridge", liftbridge={"seals": (seal_envelope,)})
_WORDS = Rules(words=DISGUISES["liftbridge"].words)
DISGUISES |= dict.fromkeys(("raft", "raft_snapshot", "liftbridge_cursor", "liftbridge_activity"), _WORDS)
