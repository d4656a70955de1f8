"""Identities of TANK clients."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.who import IdentityReader


def client(frame: Frame) -> Mapping[str, Any]:
    return {"name": printable(frame.values.get("client_id") or "")}


IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys(("Consume", "Produce", "DiscoverPartitions"), client)
