"""Where consumers begin to read."""

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, Step
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.tank.conversation_bundles import entries_of
from wiredecode.protocols.tank.names import END_OF_LOG

STARTS = {0: flows.FIRST, END_OF_LOG: flows.LATEST}


class ConsumeFlows(FlowReader):
    """Steps of one capture."""

    types, counts = frozenset({"Consume"}), False

    def __init__(self) -> None:
        self._asked: Newest[tuple[int, str, int], None] = Newest(MAX_KNOWN)
        """Partitions that a connection has asked for."""

    def read(self, frame: Frame) -> Iterator[Step]:
        for topic, each in entries_of(frame.values["topics"]):
            key = frame.connection.number, printable(topic["topic"]), each["partition"]
            if self._asked.add(key, None):
                number = each["sequence_number"]
                yield Step(flows.SUBSCRIBE, *key[1:], start=STARTS.get(number, f"offset {number}"))
