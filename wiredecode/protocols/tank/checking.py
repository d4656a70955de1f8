"""Who TANK clients are, and which of their requests wait for data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.checking import Checks


def client(frame: Frame) -> Mapping[str, Any]:
    return {"name": printable(frame.values.get("client_id") or "")}


CHECKS = Checks(names=dict.fromkeys(("Consume", "Produce", "DiscoverPartitions"), client), waits=frozenset({"Consume"}))
