"""Identities of Kafka clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.who import IdentityReader


def client(frame: Frame) -> Mapping[str, Any]:
    values = frame.values
    facts = {
        "name": values.get("client_id"),
        "product": values.get("client_software_name"),
        "version": values.get("client_software_version"),
        "group": values.get("group_id"),
    }
    return {key: printable(value) for key, value in facts.items() if isinstance(value, str)}


TYPES = ("ApiVersions", "Metadata", "Produce", "JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat")
IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys((f"{name}Request" for name in TYPES), client)
