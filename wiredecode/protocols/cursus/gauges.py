"""How far groups have come, as they commit it."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import POSITION, Gauge, Reading


class Commits(Gauge):
    """Offsets that groups go on from."""

    types = frozenset({"COMMIT_OFFSET", "BATCH_COMMIT"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        told = frame.generated
        topic, group = str(told["topic"]), told["group"]
        for each in told.get("offsets") or [told]:
            partition, offset = int(each["partition"]), int(each["offset"])
            yield Reading(POSITION, f"{topic}[{partition}], group {group}", offset, (topic, partition, offset - 1))


GAUGES = (Commits,)
