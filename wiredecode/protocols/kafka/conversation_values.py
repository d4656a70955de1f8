"""Values of requests and responses: topics, partitions, batches, errors, and the request's values for its response."""

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields import printable
from wiredecode.fields.sized import Uuid
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.layers_records import message_count, slots
from wiredecode.protocols.shared.pairing import Request, TopicPartition

Produced = tuple[str, int | None, bytes]
"""Topic, partition and checksum of a batch: followers and consumers get the same."""


@dataclass(slots=True)
class KafkaRequest(Request):
    """A request that waits for its response."""

    key: int
    version: int
    copies: bool
    """Another broker asks for records."""
    shares: Mapping[TopicPartition, tuple[int, int]]
    """Of a Produce to several partitions: index of the first message to each one, and their number."""
    values: Mapping[str, Any]
    """Its fields, if its response is judged by them (``retold`` in ``names.toml``)."""


def lists_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The structures in the arrays of a message."""
    lists = (value for value in values.values() if type(value) is list and value and type(value[0]) is dict)
    return [each for value in lists for each in value]


def topic_of(values: Mapping[str, Any]) -> str | None:
    """The name of a topic, or its id where the name is not known."""
    name, number = values.get("topic"), values.get("topic_id")
    if isinstance(name, str):
        return printable(name)
    return Uuid.spell(number) if isinstance(number, bytes) else None


def name_topics(values: Mapping[str, Any], names: Mapping[bytes, str]) -> None:
    """Put the known names of topics beside their ids."""
    for each in lists_of(values):
        if each.get("topic") is None and each.get("topic_id") in names:
            each["topic"] = names[each["topic_id"]]


def replica_of(values: Mapping[str, Any]) -> int:
    """The broker that asks for records; -1: a client does."""
    return int((values.get("replica_state") or values).get("replica_id", -1))


def number_of(values: Mapping[str, Any]) -> int | None:
    return next((values[name] for name in names.PARTITIONS if name in values), None)


def partitions_of(values: Mapping[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Topics and partitions that a message is about."""
    for each in lists_of(values):
        topic = topic_of(each)
        if topic is not None:
            numbers = [number for inner in lists_of(each) if isinstance(number := number_of(inner), int)]
            yield from ((topic, number) for number in numbers or (None,))


def partitions(values: Mapping[str, Any]) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Topic, number and values of all partitions."""
    for topic in lists_of(values):
        yield from ((topic_of(topic) or "", number_of(each), each) for each in lists_of(topic))


def shares_of(values: Mapping[str, Any]) -> dict[TopicPartition, tuple[int, int]]:
    """See :attr:`KafkaRequest.shares`."""
    shares, first, several = {}, 0, [*partitions(values)]
    for topic, number, each in several if len(several) > 1 else ():
        raw = each.get("batches") or b""
        count = sum(message_count(raw, slot) for slot in slots(raw)[0])
        shares[topic, number] = first, count
        first += count
    return shares


def errors_in(values: Mapping[str, Any]) -> Iterator[int]:
    """All error codes but 0."""
    for name, value in values.items():
        if type(value) is list:
            if value and type(value[0]) is dict:
                for each in value:
                    yield from errors_in(each)
        elif type(value) is dict:
            yield from errors_in(value)
        elif value and (name == "error" or name.endswith("_error")) and isinstance(value, int):
            yield value
