"""Measurements that the gauges of all protocols read off the frames of a capture."""

from collections.abc import Sequence

from wiredecode.check.codes import offers
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import Gauge, Measurement

LIMIT = 1 << 63
"""Beyond it nothing is an offset or a count: some clients store 2**64 - 1 for none."""


class Gauges:
    """Receives the frames in order."""

    def __init__(self) -> None:
        self._gauges: dict[tuple[str, str | None], list[Gauge]] = {}
        for name, checks in offers():
            for gauge in (kind() for kind in checks.gauges):
                for each in gauge.types:
                    self._gauges.setdefault((name, each), []).append(gauge)

    def read(self, frame: Frame) -> Sequence[Measurement]:
        """Return the measurements of the next frame."""
        gauges = self._gauges.get((frame.protocol, frame.type))
        if gauges is None:
            return ()
        return [each for gauge in gauges for each in read_gauge(gauge, frame)]


def read_gauge(gauge: Gauge, frame: Frame) -> list[Measurement]:
    """Measurements of a frame; none if it is truncated, or has odd values."""
    try:
        return [each for each in gauge.read(frame) if -LIMIT <= each.value < LIMIT]
    except (LookupError, TypeError, ValueError, AttributeError):
        return []
