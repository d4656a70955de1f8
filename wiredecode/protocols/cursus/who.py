"""Who Cursus clients are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.frames.frame import Frame
from wiredecode.frames.who import IdentityReader


def member(frame: Frame) -> Mapping[str, Any]:
    """The names in ``generated`` are printable."""
    told = frame.generated
    return {"name": told["member"], "group": told["group"]} if "member" in told and "group" in told else {}


IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys(("JOIN_GROUP", "STREAM"), member)
