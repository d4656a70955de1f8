"""The responses of the RabbitMQ Stream protocol, in the order of their keys."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from wiredecode.fields import Array, Binary, Int64, Optional, Text, UInt16, UInt32, UInt64, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream.layers_base import (
    Command,
    CommandVersion,
    Tune,
    code,
    correlation,
    header,
    offset_specification,
    properties,
    response,
    stream,
    subscription,
    texts,
)
from wiredecode.protocols.rabbitmq_stream.names import KEYS, RESPONSE_BIT

NO_LEADER = 0xFFFF


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
