"""Where consumers begin, and the offsets that groups commit."""

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, Step
from wiredecode.protocols.shared.pairing import Newest

STARTS = {"earliest": flows.FIRST, "latest": flows.LATEST}
COMMITS = ("COMMIT_OFFSET", "BATCH_COMMIT")


class GroupFlows(FlowReader):
    """Steps of one capture."""

    types, counts = frozenset({"CONSUME", "STREAM", "JOIN_GROUP", "OK"}), False

    def __init__(self) -> None:
        self._asked: Newest[tuple[int, str, int], None] = Newest(MAX_KNOWN)
        """Partitions that a connection has asked for."""

    def read(self, frame: Frame) -> Iterator[Step]:
        facts = frame.generated
        if frame.type == "JOIN_GROUP":
            yield Step(flows.MEMBER, "")
        elif frame.type != "OK":
            key = frame.connection.number, facts["topic"], facts["partition"]
            if self._asked.add(key, None):
                start = STARTS.get(facts.get("auto_offset_reset", ""), "")
                start = f"offset {facts['offset']}" if "offset" in facts else start
                yield Step(flows.SUBSCRIBE, *key[1:], start=start)
        elif frame.asked is not None and frame.asked.type in COMMITS:
            asked = frame.asked.facts
            for partition, offset in commits_of(asked):
                yield Step(flows.STORE, asked["topic"], partition, asked["group"], first=offset)


def commits_of(facts: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Partitions and offsets that a commit requests."""
    commits = facts.get("commits") or f"{facts['partition']}:{facts['offset']}"
    for each in commits.removesuffix(",...").split(","):
        partition, offset = map(int, each.split(":"))
        yield partition, offset
