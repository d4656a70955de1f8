"""Append blocks: which bytes a segment gets from an AppendBlock and the AppendBlockEnd after it."""

from __future__ import annotations

from dataclasses import dataclass

from wiredecode.protocols.pravega.layers_base import HEADER

PADDING, PARTIAL_EVENT = -1, -2


@dataclass(slots=True)
class Block:
    """An AppendBlock that was not ended yet."""

    writer: bytes
    data: bytes | None
    """None: not all of it was captured."""
    frame: int
    front: bytes = b""
    """What was captured in front of the hole, where not all of it was."""


@dataclass(slots=True)
class Rebuilt:
    """The bytes of an append group, or why there are none: a finding's code and message."""

    data: bytes | None
    problem: tuple[str, str] | None = None


def rebuild(block: bytes, whole: int, rest: bytes) -> Rebuilt:
    """Join the whole appends of a block, the first bytes of the one it cut, and the ``rest`` of that.

    ``whole`` is what AppendBlockEnd says of the block: how many of its leading bytes are whole appends.
    """
    if not 0 <= whole <= len(block):
        message = f"{whole} bytes of whole events do not fit into a block of {len(block)} bytes"
        return Rebuilt(None, ("block-size", message))
    left = len(block) - whole
    if not left:
        return Rebuilt(block)
    if left < HEADER.size:
        return Rebuilt(None, ("block-tail", f"a tail of {left} bytes is too short for a Padding or PartialEvent"))
    kind, length = HEADER.unpack_from(block, whole)
    if kind not in (PADDING, PARTIAL_EVENT):
        message = f"the block ends with a message of type {kind}, not Padding or PartialEvent"
        return Rebuilt(None, ("block-tail", message))
    if length != left - HEADER.size:
        message = f"the tail says {length} bytes, the block has {left - HEADER.size} left"
        return Rebuilt(None, ("block-tail", message))
    if kind == PARTIAL_EVENT:
        return Rebuilt(block[:whole] + block[whole + HEADER.size :] + rest)
    if rest:
        message = f"a block that ends with Padding is followed by {len(rest)} bytes of an event"
        return Rebuilt(block[:whole], ("padded-event", message))
    return Rebuilt(block[:whole])


def tail_name(block: bytes, whole: int) -> str | None:
    """How a block ends: ``PartialEvent``, ``Padding``, or None."""
    if not 0 <= whole <= len(block) - HEADER.size:
        return None
    kind = HEADER.unpack_from(block, whole)[0]
    return {PADDING: "Padding", PARTIAL_EVENT: "PartialEvent"}.get(kind)
