"""Who Cursus clients are, and which of their requests wait for data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.checking import Checks


def member(frame: Frame) -> Mapping[str, Any]:
    """The names in ``generated`` are printable."""
    told = frame.generated
    return {"name": told["member"], "role": f"in group {told['group']}"} if "member" in told and "group" in told else {}


CHECKS = Checks(names=dict.fromkeys(("JOIN_GROUP", "STREAM"), member), waits=frozenset({"STREAM", "CONSUME"}))
