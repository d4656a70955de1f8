"""Rules of Cursus for ``wiredecode anonymize``."""

from __future__ import annotations

import re

from wiredecode.fields.layer import Layer
from wiredecode.protocols.cursus import names
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.redaction import Rules, words

_TEXTS = (
    *(*names.COMMANDS, *names.PARAMETERS, *names.DISCOVERY, *names.REPLY_TEXTS, *names.REPLY_INTEGERS),
    *(*names.STREAM_CLOSE_REASONS, *names.ERROR_CLASSES, *names.OTHER_TYPES, names.MARKER_PREFIX.rstrip(":")),
)
PARTITIONS = frozenset(f"P{number}" for number in range(1000))
"""As lists of offsets spell them."""
WORDS = PARTITIONS.union(
    (part for text in _TEXTS for form in (text, text.lower()) for part in re.split(r"[_-]", form)),
    words(
        """
    Topic topics now has true false none null batch gzip snappy lz4 zstd ready commit abort earliest latest status
    features REBALANCE REQUIRED closed close CLOSE all
    last offset offsets seq start end producer id epoch leader error topic name state partition count members member
    rebalance group generation replicas leo heartbeat isr hwm assignments policy partitions partitioner cleanup auth
    success key node address OK ERROR
    """
    ),
)
"""Words of the protocol in places of names."""


def is_compressed(owner: Layer, name: str) -> bool:
    return True


DISGUISES = {
    **proxy.DISGUISES,
    "cursus": Rules(
        kept=words("command_name equals gap tail_name outcome error_code pad partition acks")
        | {"arguments.key", "details.key", "reply_fields.key"},
        json=frozenset({"json_text", "metadata"}),
        bodies=frozenset({"message"}),
        texts=frozenset({"text"}),
        words=WORDS,
        digits=True,
    ),
    "cursus_compressed": Rules(compressed=is_compressed),
}
