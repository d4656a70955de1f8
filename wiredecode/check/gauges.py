"""Measurements that the gauges of all protocols read off the frames of a capture."""

from collections.abc import Sequence

from wiredecode.frames.frame import DAMAGED, Frame
from wiredecode.protocols.checks import ByProtocol, by_type
from wiredecode.protocols.shared.gauges import Gauge, Measurement

LIMIT = 1 << 63
"""Beyond it nothing is an offset or a count: some clients store 2**64 - 1 for none."""


class Gauges:
    """Receives the frames in order."""

    def __init__(self) -> None:
        self._gauges = ByProtocol(lambda checks: by_type(checks.gauges))

    def frame(self, frame: Frame) -> Sequence[Measurement]:
        """Return the measurements of the next frame."""
        gauges = self._gauges[frame.protocol].get(frame.type)
        if gauges is None:
            return ()
        return [each for gauge in gauges for each in read_gauge(gauge, frame)]


def read_gauge(gauge: Gauge, frame: Frame) -> list[Measurement]:
    """Measurements of a frame; none if it is truncated, or has odd values."""
    try:
        readings = gauge.read(frame)
        return [each for each in readings if -LIMIT <= each.value < LIMIT] if readings else []
    except DAMAGED:
        return []
