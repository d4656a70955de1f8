"""Identities of Kafka clients."""

from functools import partial

from wiredecode.frames.identity import texts
from wiredecode.protocols.kafka import names

IDENTITIES = dict.fromkeys(names.TYPES["identities"], partial(texts, names.NAMES["identity"]))
