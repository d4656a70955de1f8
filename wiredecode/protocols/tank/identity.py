"""Identities of TANK clients."""

from collections.abc import Mapping
from functools import partial

from wiredecode.frames.identity import IdentityReader, texts

IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys(
    ("Consume", "Produce", "DiscoverPartitions"), partial(texts, {"name": "client_id"})
)
