"""The frames of the RabbitMQ Stream protocol, in the order of their keys.

Source: RabbitMQ's protocol reference (deps/rabbitmq_stream/docs/PROTOCOL.adoc) and, where it and the wire disagree,
the wire: see docs/protocols/rabbitmq_stream.md. All integers are big-endian. Every frame begins::

    size uint32 | key uint16 | version uint16 | [correlation_id uint32] | [response_code uint16] | ...

``size`` counts the bytes after itself; the top bit of ``key`` marks a response.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, ClassVar

from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    Int64,
    Kind,
    Optional,
    Rest,
    Struct,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    When,
)
from wiredecode.fields.layer import Added, Layer
from wiredecode.protocols.rabbitmq_stream.chunk import Chunk, entry_fields, message, number_offsets
from wiredecode.protocols.rabbitmq_stream.names import KEYS, OFFSET_TYPES, RESPONSE_BIT, RESPONSE_CODES

NO_LEADER = 0xFFFF


class Command(Layer):
    """Base of all frames: fills in ``size`` when building."""

    filter_name = "rabbitmq_stream"
    added = Added.NOTHING
    verbatim = ("messages.data", "chunk.entries.data")

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.size is None:
            pkt = struct.pack(">I", len(pkt) + len(pay) - 4) + pkt[4:]
        return pkt + pay


def header(key: int, version: int = 1) -> list[Any]:
    return [
        UInt32("size", "bytes that follow", unit="bytes", default=None),
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
    fields_desc = [Text("key", "name"), Text("value", "value, always text")]


def properties(name: str = "properties", doc: str = "properties", bulk: bool = False) -> Kind:
    return Array(name, Property, doc, bulk=bulk)


def texts(name: str, doc: str) -> Kind:
    return Array(name, Text(name), doc, bulk=True)


class Unknown(Command):
    """A key this package does not know: the size still delimits it."""

    fields_desc = [*header(0), Rest("body", "everything after the header")]
    facts = ("key", "version")


class UnknownSasl(Command):
    """SaslAuthenticate of an unknown version: wherever the secret stands, it is not shown."""

    fields_desc = [*header(19), Rest("body", "everything after the header", secret=True)]
    facts = Unknown.facts


class DeclarePublisher(Command):
    fields_desc = request(1, publisher(), Text("publisher_reference", "name for deduplication; empty: none"), stream())
    facts = ("publisher_id", "publisher_reference", "stream")


class PublishedMessage(Layer):
    fields_desc = [UInt64("publishing_id", "sequence number given by the publisher"), *entry_fields()]


class FilteredMessage(Layer):
    fields_desc = [
        UInt64("publishing_id", "sequence number given by the publisher"),
        Text("filter_value", "what subscribers filter on; null: unfiltered", null=0xFFFF),
        Binary("data", "the message", inner=message),
    ]


class Publish(Command):
    fields_desc = [
        *header(2),
        publisher(),
        Array("messages", PublishedMessage, "messages and sub-batches", bulk=True),
    ]
    facts = ("publisher_id", "messages")


class PublishV2(Command):
    """Publish with filter values: simple messages only."""

    fields_desc = [*header(2, 2), publisher(), Array("messages", FilteredMessage, "messages", bulk=True)]
    facts = ("publisher_id", "messages")


class PublishConfirm(Command):
    fields_desc = [
        *header(3),
        publisher(),
        Array(
            "publishing_ids",
            UInt64("publishing_ids"),
            "confirmed ids; one may stand for a sub-batch",
            bulk=True,
        ),
    ]
    facts = ("publisher_id", "publishing_ids")


class PublishingError(Layer):
    fields_desc = [UInt64("publishing_id", "id that failed"), code()]


class PublishError(Command):
    fields_desc = [*header(4), publisher(), Array("errors", PublishingError, "ids that failed, and why")]
    facts = ("publisher_id", "errors")


class QueryPublisherSequence(Command):
    fields_desc = request(5, Text("publisher_reference", "name for deduplication"), stream())
    facts = ("publisher_reference", "stream")


class DeletePublisher(Command):
    fields_desc = request(6, publisher())
    facts = ("publisher_id",)


class Subscribe(Command):
    fields_desc = request(
        7,
        subscription(),
        stream(),
        *offset_specification(),
        UInt16("credit", "chunks the broker may send", unit="chunks"),
        Optional(properties(), When("left")),
    )
    facts = ("subscription_id", "stream", "offset_type", "offset", "timestamp", "credit")


class Deliver(Command):
    fields_desc = [*header(8), subscription(), Struct("chunk", Chunk, "Osiris chunk")]
    facts = ("subscription_id", "chunk.chunk_id", "chunk.num_entries", "chunk.num_records")

    @classmethod
    def complete_record(cls, record: dict[str, Any]) -> None:
        if "chunk" in record:
            number_offsets(record["chunk"])


class DeliverV2(Deliver):
    """Deliver with the last committed chunk."""

    fields_desc = [
        *header(8, 2),
        subscription(),
        UInt64("committed_chunk_id", "last chunk that is committed"),
        Struct("chunk", Chunk, "Osiris chunk"),
    ]


class Credit(Command):
    fields_desc = [
        *header(9),
        subscription(),
        UInt16("credit", "chunks more that may be sent", unit="chunks"),
    ]
    facts = ("subscription_id", "credit")


class StoreOffset(Command):
    fields_desc = [
        *header(10),
        Text("reference", "consumer reference"),
        stream(),
        UInt64("offset", "offset to remember"),
    ]
    facts = ("reference", "stream", "offset")


class QueryOffset(Command):
    fields_desc = request(11, Text("reference", "consumer reference"), stream())
    facts = ("reference", "stream")


class Unsubscribe(Command):
    fields_desc = request(12, subscription())
    facts = ("subscription_id",)


class Create(Command):
    fields_desc = request(13, stream(), properties("arguments", "arguments of the stream"))
    facts = ("stream",)


class Delete(Command):
    fields_desc = request(14, stream())
    facts = ("stream",)


class Metadata(Command):
    fields_desc = request(15, texts("streams", "names of the streams asked for"))
    facts = ("streams",)


class MetadataUpdate(Command):
    fields_desc = [*header(16), code(), stream()]
    facts = ("response_code", "stream")


class PeerProperties(Command):
    fields_desc = request(17, properties(bulk=True))
    facts = ("properties",)


class SaslHandshake(Command):
    fields_desc = request(18)


class SaslAuthenticate(Command):
    fields_desc = request(
        19,
        Text("mechanism", "SASL mechanism"),
        Binary("data", "credentials", null=0xFFFFFFFF, secret=True),
    )
    facts = ("mechanism",)


class Tune(Command):
    """Limits: offered by the server, answered by the client with the same body and without correlation id."""

    fields_desc = [
        *header(20),
        UInt32("frame_max", "largest frame; 0: no limit", unit="bytes"),
        UInt32("heartbeat", "interval; 0: off", unit="s"),
    ]
    facts = ("frame_max", "heartbeat")


class Open(Command):
    fields_desc = request(21, Text("virtual_host", "virtual host"))
    facts = ("virtual_host",)


class Close(Command):
    fields_desc = request(
        22,
        UInt16("closing_code", "why; clients may use any number", names=RESPONSE_CODES),
        Text("closing_reason", "why, in words"),
    )
    facts = ("closing_code", "closing_reason")


class Heartbeat(Command):
    fields_desc = header(23)


class Route(Command):
    fields_desc = request(24, Text("routing_key", "key to route"), Text("super_stream", "name of the super stream"))
    facts = ("routing_key", "super_stream")


class Partitions(Command):
    fields_desc = request(25, Text("super_stream", "name of the super stream"))
    facts = ("super_stream",)


class ConsumerUpdate(Command):
    """From the server: a single active consumer becomes active or steps down."""

    fields_desc = request(26, subscription(), Boolean("active", "whether the consumer is to be active"))
    facts = ("subscription_id", "active")


class CommandVersion(Layer):
    fields_desc = [
        UInt16("key", "command", names=KEYS),
        UInt16("min_version", "lowest version spoken"),
        UInt16("max_version", "highest version spoken"),
    ]


class ExchangeCommandVersions(Command):
    fields_desc = request(27, Array("commands", CommandVersion, "versions the client speaks", bulk=True))
    facts = ("commands",)


class StreamStats(Command):
    fields_desc = request(28, stream())
    facts = ("stream",)


class CreateSuperStream(Command):
    fields_desc = request(
        29,
        Text("super_stream", "name of the super stream"),
        Array("partitions", Text("partitions"), "names of the streams"),
        Array("binding_keys", Text("binding_keys"), "routing key of each stream"),
        properties("arguments", "arguments of the streams"),
    )
    facts = ("super_stream", "partitions")


class DeleteSuperStream(Command):
    fields_desc = request(30, Text("super_stream", "name of the super stream"))
    facts = ("super_stream",)


class ResolveOffsetSpec(Command):
    fields_desc = request(31, stream(), *offset_specification(), Optional(properties(), When("left")))
    facts = ("stream", "offset_type", "offset", "timestamp")


# Responses


class Response(Command):
    facts: ClassVar[tuple[str, ...]] = ("response_code",)


@cache
def plain_response(key: int) -> type[Response]:
    """A response that carries nothing but its code."""
    members = {"fields_desc": response(key), "__doc__": Response.__doc__, "remade": (plain_response, (key,))}
    return type(KEYS[key | RESPONSE_BIT], (Response,), members)


class QueryPublisherSequenceResponse(Response):
    fields_desc = response(5, UInt64("sequence", "last publishing id known; 0: none"))
    facts = ("response_code", "sequence")


class CreditResponse(Response):
    """Errors only; no correlation id, and the code comes first."""

    fields_desc = [*header(9 | RESPONSE_BIT), code(), subscription()]
    facts = ("response_code", "subscription_id")


class QueryOffsetResponse(Response):
    fields_desc = response(11, UInt64("offset", "stored offset"))
    facts = ("response_code", "offset")


class Broker(Layer):
    fields_desc = [
        UInt16("reference", "number used below"),
        Text("host", "advertised host"),
        UInt32("port", "advertised port"),
    ]


class StreamMetadata(Layer):
    fields_desc = [
        stream(),
        code(),
        UInt16("leader_reference", "broker of the leader", names={NO_LEADER: "none"}),
        Array("replica_references", UInt16("replica_references"), "brokers of the replicas"),
    ]


class MetadataResponse(Command):
    """The only response without a response code of its own: each stream has one."""

    fields_desc = [
        *header(15 | RESPONSE_BIT),
        correlation(),
        Array("brokers", Broker, "brokers of the cluster"),
        Array("streams", StreamMetadata, "streams, in any order", bulk=True),
    ]
    facts = ("brokers", "streams")


class PeerPropertiesResponse(Response):
    fields_desc = response(17, properties(bulk=True))
    facts = ("response_code", "properties")


class SaslHandshakeResponse(Response):
    fields_desc = response(18, texts("mechanisms", "SASL mechanisms offered"))
    facts = ("response_code", "mechanisms")


class SaslAuthenticateResponse(Response):
    """Code 10 brings a challenge; brokers write its length as uint16, the reference says int32."""

    fields_desc = response(
        19,
        Optional(Binary("challenge", "what the server asks", length=UInt16, secret=True), When("peek(2) == left - 2")),
        Optional(
            Binary("long_challenge", "the same, as the reference spells it", secret=True), When("peek(4) == left - 4")
        ),
    )


class TuneResponse(Tune):
    """The client's answer in the form with the response bit; as Tune, it has neither correlation id nor code."""

    fields_desc = [*header(20 | RESPONSE_BIT), *Tune.fields_desc[3:]]


class OpenResponse(Response):
    fields_desc = response(
        21, Optional(properties("properties", "how the broker is to be reached", bulk=True), When("left"))
    )


class RouteResponse(Response):
    fields_desc = response(24, texts("streams", "streams of the routing key"))
    facts = ("response_code", "streams")


class PartitionsResponse(Response):
    fields_desc = response(25, texts("streams", "streams of the super stream"))
    facts = ("response_code", "streams")


class ConsumerUpdateResponse(Response):
    """From the client: where to go on. Some clients write 8 bytes of offset for every type."""

    fields_desc = response(26, *offset_specification())
    facts = ("response_code", "offset_type", "offset", "timestamp")


class ExchangeCommandVersionsResponse(Response):
    fields_desc = response(27, Array("commands", CommandVersion, "versions the server speaks", bulk=True))
    facts = ("response_code", "commands")


class Statistic(Layer):
    fields_desc = [Text("key", "name"), Int64("value", "value; -1: empty stream")]


class StreamStatsResponse(Response):
    fields_desc = response(28, Array("statistics", Statistic, "statistics of the stream"))
    facts = ("response_code", "statistics")


class ResolveOffsetSpecResponse(Response):
    fields_desc = response(31, *offset_specification())
    facts = ("response_code", "offset_type", "offset")


def _by_key(*layers: type[Layer]) -> dict[tuple[int, int], type[Layer]]:
    def default(layer: type[Layer], name: str) -> Any:
        return next(kind.default for kind in layer.fields_desc if kind.name == name)

    return {(default(layer, "key"), default(layer, "version")): layer for layer in layers}


LAYERS = _by_key(
    *(
        DeclarePublisher,
        Publish,
        PublishV2,
        PublishConfirm,
        PublishError,
        QueryPublisherSequence,
        DeletePublisher,
    ),
    *(Subscribe, Deliver, DeliverV2, Credit, StoreOffset, QueryOffset, Unsubscribe, Create, Delete, Metadata),
    *(MetadataUpdate, PeerProperties, SaslHandshake, SaslAuthenticate, Tune, Open, Close, Heartbeat, Route),
    *(Partitions, ConsumerUpdate, ExchangeCommandVersions, StreamStats, CreateSuperStream, DeleteSuperStream),
    ResolveOffsetSpec,
    *(plain_response(key) for key in (1, 6, 7, 12, 13, 14, 22, 29, 30)),
    *(
        QueryPublisherSequenceResponse,
        CreditResponse,
        QueryOffsetResponse,
        MetadataResponse,
        PeerPropertiesResponse,
    ),
    *(
        SaslHandshakeResponse,
        SaslAuthenticateResponse,
        TuneResponse,
        OpenResponse,
        RouteResponse,
        PartitionsResponse,
    ),
    *(
        ConsumerUpdateResponse,
        ExchangeCommandVersionsResponse,
        StreamStatsResponse,
        ResolveOffsetSpecResponse,
    ),
)
"""The layer of each (key, version)."""
