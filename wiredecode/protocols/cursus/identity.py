"""Identities of Cursus clients."""

from collections.abc import Mapping
from typing import Any

from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader


def member(frame: Frame) -> Mapping[str, Any]:
    """The names in ``generated`` are printable."""
    facts = frame.generated
    return {"name": facts["member"], "group": facts["group"]} if "member" in facts and "group" in facts else {}


IDENTITIES: Mapping[str | None, IdentityReader] = dict.fromkeys(("JOIN_GROUP", "STREAM"), member)
