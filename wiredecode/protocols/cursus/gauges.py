"""How far groups have come, as they commit it."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import MOST_KNOWN, POSITION, Gauge, Reading
from wiredecode.protocols.shared.pairing import Newest


class Commits(Gauge):
    """Offsets that groups go on from, from the answer on that accepts them."""

    types = frozenset({"COMMIT_OFFSET", "BATCH_COMMIT", "OK"})

    def __init__(self) -> None:
        self._waiting: Newest[int, list[Reading]] = Newest(MOST_KNOWN)
        """By frame of the commit; those that are refused are forgotten last."""

    def read(self, frame: Frame) -> Iterator[Reading]:
        if frame.type == "OK":
            if frame.request is not None:
                yield from self._waiting.pop(frame.request, ())
            return
        self._waiting.put(frame.id, list(_committed(frame)))


def _committed(frame: Frame) -> Iterator[Reading]:
    """What a commit asks for."""
    told = frame.generated
    topic, group = str(told["topic"]), told["group"]
    commits = told.get("commits") or f"{told['partition']}:{told['offset']}"
    for each in commits.removesuffix(",...").split(","):
        partition, offset = map(int, each.split(":"))
        yield Reading(POSITION, f"{topic}[{partition}], group {group}", offset, (topic, partition, offset - 1))


GAUGES = (Commits,)
