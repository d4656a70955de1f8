"""What changes for Cursus topics and groups."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.changes import GROUP, STREAM, Change


def member(frame: Frame) -> Iterator[Change]:
    """The names in ``generated`` are printable."""
    told = frame.generated
    did = "joins" if frame.type == "JOIN_GROUP" else "leaves"
    yield Change(GROUP, f"{told['member']} {told['group']}", f"{told['member']} {did} group {told['group']}")


def generation(frame: Frame) -> Iterator[Change]:
    told = frame.generated
    yield Change(GROUP, told["group"], f"group {told['group']} is in generation {told['generation']}")


def topic(frame: Frame) -> Iterator[Change]:
    did = "create" if frame.type == "CREATE" else "delete"
    yield Change(STREAM, frame.generated["topic"], f"a client asks to {did} topic {frame.generated['topic']}")


CHANGES = {
    **dict.fromkeys(("JOIN_GROUP", "LEAVE_GROUP"), member),
    "SYNC_GROUP": generation,
    **dict.fromkeys(("CREATE", "DELETE"), topic),
}
