"""Rules of TANK for ``wiredecode anonymize``."""

from wiredecode.fields.layer import Layer
from wiredecode.protocols.shared.redaction import Rules
from wiredecode.protocols.tank.names import CODEC_MASK


def is_compressed(owner: Layer, name: str) -> bool:
    """Message sets of bundles with a codec, and fields that cannot be distinguished from them."""
    return name in ("message_set", "undecided") and bool(owner.fields.get("flags", 0) & (CODEC_MASK | 0x80))


DISGUISES = {"tank": Rules(addresses=frozenset({"endpoint"}), compressed=is_compressed)}
