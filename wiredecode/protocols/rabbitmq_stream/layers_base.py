"""What all frames of the RabbitMQ Stream protocol have in common: the header, and fields that many of them have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wiredecode.fields import (
    Array,
    Kind,
    LengthOf,
    Optional,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    When,
    redacted,
)
from wiredecode.fields.credentials import is_secret_name, is_secret_value
from wiredecode.fields.layer import Added, Layer, Range
from wiredecode.protocols.rabbitmq_stream.names import KEYS, OFFSET_TYPES, RESPONSE_BIT, RESPONSE_CODES


class Command(Layer):
    """Base of all frames."""

    filter_name = "rabbitmq_stream"
    added = Added.NOTHING
    by_record = ("properties", "arguments")
    verbatim = ("messages.data", "chunk.entries.data")


def header(key: int, version: int = 1) -> list[Any]:
    return [
        UInt32("size", "bytes that follow", unit="bytes", fill=LengthOf()),
        UInt16("key", "command, with the top bit in responses", names=KEYS, default=key),
        UInt16("version", "version of the command", default=version),
    ]


def request(key: int, *fields: Kind) -> list[Any]:
    """A frame that is answered: it carries a correlation id."""
    return [*header(key), correlation(), *fields]


def response(key: int, *fields: Kind) -> list[Any]:
    """The answer: the correlation id again, and a response code."""
    return [*header(key | RESPONSE_BIT), correlation(), code(), *fields]


def correlation() -> Kind:
    return UInt32("correlation_id", "ties a response to its request")


def code() -> Kind:
    return UInt16("response_code", "outcome", names=RESPONSE_CODES, default=1)


def stream() -> Kind:
    return Text("stream", "name of the stream")


def publisher() -> Kind:
    return UInt8("publisher_id", "publisher of this connection, chosen by the client")


def subscription() -> Kind:
    return UInt8("subscription_id", "subscription of this connection, chosen by the client")


def offset_specification() -> list[Any]:
    return [
        UInt16("offset_type", "where to start", names=OFFSET_TYPES, default=1),
        Optional(UInt64("offset", "offset in the stream"), When("offset_type == 4")),
        Optional(Timestamp("timestamp", "time in the stream"), When("offset_type == 5")),
    ]


class Property(Layer):
    """A pair; whether the value is a secret is told by the name, or by itself."""

    fields_desc = [Text("key", "name"), Text("value", "value, always text")]

    @classmethod
    def holds_secrets(cls) -> bool:
        return True

    def secret_ranges(self) -> Iterator[Range]:
        if "value" in self.ranges and is_secret(self.fields):
            start, stop = self.ranges["value"]
            yield start + 2, stop


def is_secret(pair: Mapping[str, Any]) -> bool:
    """Whether a property carries credentials."""
    value = pair.get("value")
    return isinstance(value, str) and (is_secret_name(pair.get("key") or "") or is_secret_value(value))


def hide_properties(record: Mapping[str, Any]) -> None:
    """Hide the values of properties that carry credentials."""
    for pairs in record.values():
        for pair in pairs if isinstance(pairs, list) else ():
            if isinstance(pair, dict) and "value" in pair and is_secret(pair):
                pair["value"] = redacted(pair["value"])


def properties(name: str = "properties", doc: str = "properties", bulk: bool = False) -> Kind:
    return Array(name, Property, doc, bulk=bulk)


def texts(name: str, doc: str) -> Kind:
    return Array(name, Text(name), doc, bulk=True)


class Tune(Command):
    """Limits: offered by the server, answered by the client with the same body and without correlation id."""

    fields_desc = [
        *header(20),
        UInt32("frame_max", "largest frame; 0: no limit", unit="bytes"),
        UInt32("heartbeat", "interval; 0: off", unit="s"),
    ]
    facts = ("frame_max", "heartbeat")


class CommandVersion(Layer):
    fields_desc = [
        UInt16("key", "command", names=KEYS),
        UInt16("min_version", "lowest version spoken"),
        UInt16("max_version", "highest version spoken"),
    ]
