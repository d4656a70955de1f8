"""Rules of Cursus for ``wiredecode anonymize``."""

import re

from wiredecode.dataclasses import replace
from wiredecode.fields.layer import Layer
from wiredecode.protocols.cursus import names
from wiredecode.protocols.shared.redaction import read_rules

_TEXTS = (
    *(*names.COMMANDS, *names.PARAMETERS, *names.DISCOVERY, *names.REPLY_TEXTS, *names.REPLY_INTEGERS),
    *(*names.STREAM_CLOSE_REASONS, *names.ERROR_CLASSES, *names.OTHER_TYPES, names.MARKER_PREFIX.rstrip(":")),
)
PARTITIONS = frozenset(f"P{number}" for number in range(1000))
"""As lists of offsets spell them."""
WORDS = PARTITIONS.union(part for text in _TEXTS for form in (text, text.lower()) for part in re.split(r"[_-]", form))
"""Words of the protocol in places of names, besides those of ``redaction.toml``."""


def is_compressed(owner: Layer, name: str) -> bool:
    return True


DISGUISES = read_rules("cursus", cursus_compressed={"compressed": is_compressed})
DISGUISES["cursus"] = replace(DISGUISES["cursus"], words=DISGUISES["cursus"].words | WORDS)
