"""Identities of Kafka clients."""

from collections.abc import Mapping
from functools import partial

from wiredecode.frames.who import IdentityReader, texts

SOFTWARE = {"product": "client_software_name", "version": "client_software_version"}
FIELDS = {"name": "client_id", "group": "group_id", **SOFTWARE}
TYPES = ("ApiVersions", "Metadata", "Produce", "JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys(
    (f"{name}Request" for name in TYPES), partial(texts, FIELDS)
)
