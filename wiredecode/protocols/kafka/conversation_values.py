"""Values of requests and responses: topics, partitions, batches, errors, and what a response needs of its request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wiredecode.fields import printable
from wiredecode.fields.sized import Uuid
from wiredecode.protocols.kafka import names
from wiredecode.protocols.shared.pairing import Newest, Request


@dataclass(slots=True)
class Asked(Request):
    """A request that waits for its response."""

    key: int
    version: int
    values: Mapping[str, Any]


KEPT = {names.FETCH: ("replica_id", "replica_state")}


def kept(key: int, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a request that its response needs."""
    return {name: values[name] for name in KEPT.get(key, ()) if name in values}


def lists_of(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The structures in the arrays of a message."""
    for value in values.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from value


def topic_of(values: Mapping[str, Any], known: Mapping[bytes, str]) -> str | None:
    """The name of a topic, or its id where the name is not known."""
    name = values.get("topic")
    if isinstance(name, str):
        return printable(name)
    number = values.get("topic_id")
    if isinstance(number, bytes):
        return printable(known[number]) if number in known else Uuid.spell(number)
    return None


def learn_topics(values: Mapping[str, Any], known: Newest[bytes, str]) -> None:
    """The names of topic ids in an answer to Metadata."""
    for topic in values.get("topics") or ():
        if isinstance(topic.get("topic_id"), bytes) and topic.get("topic"):
            known.put(topic["topic_id"], topic["topic"])


def number_of(values: Mapping[str, Any]) -> int | None:
    """The number of a partition."""
    return next((values[name] for name in names.PARTITIONS if name in values), None)


def places(values: Mapping[str, Any], known: Mapping[bytes, str]) -> Iterator[tuple[str, int | None]]:
    """Topics and partitions that a message is about."""
    for each in lists_of(values):
        topic = topic_of(each, known)
        if topic is None:
            continue
        numbers = [number for inner in lists_of(each) if isinstance(number := number_of(inner), int)]
        yield from ((topic, number) for number in numbers or (None,))


def raw_batches(values: Mapping[str, Any]) -> Iterator[bytes]:
    """The fields with batches."""
    for topic in lists_of(values):
        for partition in lists_of(topic):
            raw = partition.get("batches")
            if raw:
                yield raw


def errors_in(values: Mapping[str, Any]) -> Iterator[int]:
    """All error codes but 0."""
    for name, value in values.items():
        if isinstance(value, int):
            if value and (name == "error" or name.endswith("_error")):
                yield value
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for each in value:
                yield from errors_in(each)
        elif isinstance(value, dict):
            yield from errors_in(value)
