"""What changes in a Liftbridge cluster: leaders, terms, replicas in sync, streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.changes import LEADER, REPLICAS, STREAM, TERM, Change
from wiredecode.protocols.shared.checking import inner_values


def operation(frame: Frame) -> Iterator[Change]:
    """What a server asks the metadata leader to do."""
    values = inner_values(frame)
    for name, tell in OPERATIONS.items():
        said = values.get(name)
        if isinstance(said, Mapping):
            yield tell(said)


def named(said: Mapping[str, Any], name: str) -> str:
    return printable(str(said.get(name) or "?"))


def partition(said: Mapping[str, Any]) -> str:
    return f"{named(said, 'stream')}[{said.get('partition', 0)}]"


def reported(said: Mapping[str, Any]) -> Change:
    of = partition(said)
    return Change(LEADER, of, f"{named(said, 'replica')} reports that {named(said, 'leader')} does not lead {of}")


def led(said: Mapping[str, Any]) -> Change:
    return Change(LEADER, partition(said), f"{named(said, 'leader')} leads {partition(said)}")


def shrunk(said: Mapping[str, Any]) -> Change:
    replica = named(said, "replica_to_remove")
    return Change(REPLICAS, f"{replica} {partition(said)}", f"{replica} is out of sync with {partition(said)}")


def expanded(said: Mapping[str, Any]) -> Change:
    replica = named(said, "replica_to_add")
    return Change(REPLICAS, f"{replica} {partition(said)}", f"{replica} is in sync with {partition(said)} again")


def created(said: Mapping[str, Any]) -> Change:
    stream = said.get("stream")
    name = named(stream, "stream_name") if isinstance(stream, Mapping) else named(said, "stream")
    return Change(STREAM, name, f"stream {name} is created")


def deleted(said: Mapping[str, Any]) -> Change:
    return Change(STREAM, named(said, "stream"), f"stream {named(said, 'stream')} is deleted")


OPERATIONS: dict[str, Callable[[Mapping[str, Any]], Change]] = {
    "report_leader_op": reported,
    "change_leader_op": led,
    "shrink_isr_op": shrunk,
    "expand_isr_op": expanded,
    "create_stream_op": created,
    "delete_stream_op": deleted,
}


def votes(frame: Frame) -> Iterator[Change]:
    values = inner_values(frame)
    candidate, term = named(values, "candidate"), values["term"]
    yield Change(TERM, f"{candidate} {term}", f"{candidate} asks for votes in term {term}")


def leads(frame: Frame) -> Iterator[Change]:
    """The metadata leader tells its term with every AppendEntries."""
    values = inner_values(frame)
    yield Change(LEADER, "metadata", f"{named(values, 'leader')} leads the cluster's metadata, term {values['term']}")


CHANGES = {
    "PropagatedRequest": operation,
    "RequestVote": votes,
    "AppendEntries": leads,
}
