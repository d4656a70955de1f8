"""Where readers begin to read a segment."""

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, Step
from wiredecode.protocols.shared.pairing import Newest


class ReaderFlows(FlowReader):
    """Steps of one capture."""

    types, counts, numbered = frozenset({"ReadSegment"}), False, False

    def __init__(self) -> None:
        self._asked: Newest[tuple[int, str], None] = Newest(MAX_KNOWN)
        """Segments that a connection has asked for."""

    def read(self, frame: Frame) -> Iterator[Step]:
        segment, offset = printable(frame.values["segment"]), frame.values["offset"]
        key = frame.connection.number, segment
        if self._asked.add(key, None):
            yield Step(flows.SUBSCRIBE, segment, start=f"offset {offset}" if offset else flows.FIRST)
