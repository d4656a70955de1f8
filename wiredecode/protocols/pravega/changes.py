"""What changes for Pravega's segments."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.changes import STREAM, Change

DONE = {
    "SegmentCreated": "created",
    "SegmentSealed": "sealed",
    "SegmentTruncated": "truncated",
    "SegmentDeleted": "deleted",
    "SegmentsMerged": "merged",
    "SegmentPolicyUpdated": "given another policy",
}


def segment(frame: Frame) -> Iterator[Change]:
    name = printable(frame.values.get("segment") or frame.values["target"])
    yield Change(STREAM, name, f"segment {name} is {DONE[frame.type or '']}")


CHANGES = dict.fromkeys(DONE, segment)
