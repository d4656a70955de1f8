"""Where consumers are, and how far behind the last message."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.checking import values_of
from wiredecode.protocols.shared.gauges import LAG, POSITION, Gauge, Reading


class Consumers(Gauge):
    """By the answers to Consume: where it was asked to begin, and the broker's high water mark."""

    types = frozenset({"ConsumeResponse"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        for topic in values_of(frame).get("topics") or ():
            for each in topic["partitions"]:
                begin = each.get("base_sequence_number") or frame.generated.get("sequence_number")
                last = each.get("high_water_mark")
                if begin is None or last is None:
                    continue
                of = f"{topic['topic']}[{each['partition']}] of #{frame.connection.number}"
                yield Reading(POSITION, of, begin)
                yield Reading(LAG, of, max(last + 1 - begin, 0))


GAUGES = (Consumers,)
