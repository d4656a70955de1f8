"""The frames of the RabbitMQ Stream protocol, in the order of their keys.

Source: RabbitMQ's protocol reference (deps/rabbitmq_stream/docs/PROTOCOL.adoc) and, where it and the wire disagree,
the wire: see docs/protocols/rabbitmq_stream.md. All integers are big-endian. Every frame begins::

    size uint32 | key uint16 | version uint16 | [correlation_id uint32] | [response_code uint16] | ...

``size`` counts the bytes after itself; the top bit of ``key`` marks a response.
"""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Array, Binary, Boolean, Optional, Rest, Struct, Text, UInt16, UInt64, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers_responses as responses
from wiredecode.protocols.rabbitmq_stream.layers_base import (
    Command,
    CommandVersion,
    Tune,
    code,
    header,
    offset_specification,
    properties,
    publisher,
    request,
    stream,
    subscription,
    texts,
)
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, entry_fields, number_offsets
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import message
from wiredecode.protocols.rabbitmq_stream.names import RESPONSE_CODES


class Unknown(Command):
    """A key this package does not know: the size still delimits it."""

    fields_desc = [*header(0), Rest("body", "everything after the header", secret=True)]
    facts = ("key", "version")


class UnknownSasl(Command):
    """SaslAuthenticate of an unknown version: wherever the secret stands, it is not shown."""

    fields_desc = [*header(19), Rest("body", "everything after the header", secret=True)]
    facts = Unknown.facts


class DeclarePublisher(Command):
    fields_desc = request(1, publisher(), Text("publisher_reference", "name for deduplication; empty: none"), stream())
    facts = ("publisher_id", "publisher_reference", "stream")


class PublishedMessage(Layer):
    numbered_by = "publishing_id"
    marked_by = "sub_batch"
    fields_desc = [UInt64("publishing_id", "sequence number given by the publisher"), *entry_fields()]


class FilteredMessage(Layer):
    numbered_by = "publishing_id"
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
    *(responses.plain_response(key) for key in (1, 6, 7, 12, 13, 14, 22, 29, 30)),
    *(
        responses.QueryPublisherSequenceResponse,
        responses.CreditResponse,
        responses.QueryOffsetResponse,
        responses.MetadataResponse,
        responses.PeerPropertiesResponse,
    ),
    *(
        responses.SaslHandshakeResponse,
        responses.SaslAuthenticateResponse,
        responses.TuneResponse,
        responses.OpenResponse,
        responses.RouteResponse,
        responses.PartitionsResponse,
    ),
    *(
        responses.ConsumerUpdateResponse,
        responses.ExchangeCommandVersionsResponse,
        responses.StreamStatsResponse,
        responses.ResolveOffsetSpecResponse,
    ),
)
"""The layer of each (key, version)."""
