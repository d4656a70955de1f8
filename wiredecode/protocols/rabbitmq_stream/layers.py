"""The frames of the RabbitMQ Stream protocol, in the order of their keys.

Source: RabbitMQ's protocol reference (deps/rabbitmq_stream/docs/PROTOCOL.adoc) and, where it and the wire disagree,
the wire: see docs/protocols/rabbitmq_stream.md. All integers are big-endian. Every frame begins::

    size uint32 | key uint16 | version uint16 | [correlation_id uint32] | [response_code uint16] | ...

``size`` counts the bytes after itself; the top bit of ``key`` marks a response.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from wiredecode.data import storable
from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    Int64,
    Kind,
    LengthOf,
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
from wiredecode.fields.layer import Added, Layer, fact_names
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, entry_fields, number_offsets
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import message
from wiredecode.protocols.rabbitmq_stream.names import CORRELATED, KEYS, OFFSET_TYPES, RESPONSE_BIT, RESPONSE_CODES

NO_LEADER = 0xFFFF


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


def command(
    key: int, *fields: Kind, facts: int = 9, version: int = 1, doc: str | None = None, bare: bool = False
) -> type[Command]:
    """The layer of a key; ``fields`` follow the header, the correlation id and the response code.

    Lines show the first ``facts`` of the fields. A ``bare`` command has neither correlation id nor code in front.
    """
    shown = fact_names(facts, fields)
    front = header(key, version)
    if key & ~RESPONSE_BIT in CORRELATED and not bare:
        front.append(correlation())
    if key & RESPONSE_BIT and not bare:
        front.append(code())
        shown = ("response_code", *shown)
    name, remade = KEYS[key] + ("V2" if version == 2 else ""), (layer_of, (key, version))
    return Command.declare(name, *front, *fields, doc=doc, facts=shown, remade=remade)


@storable
def layer_of(key: int, version: int) -> type[Layer]:
    return LAYERS[key, version]


structure = partial(Layer.declare, module=__name__)


def correlation() -> Kind:
    return UInt32("correlation_id", "ties a response to its request")


def code() -> Kind:
    return UInt16("response_code", "outcome", names=RESPONSE_CODES, default=1)


def stream() -> Kind:
    return Text("stream", "name of the stream")


def super_stream() -> Kind:
    return Text("super_stream", "name of the super stream")


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
    """A pair; whether the value is a secret follows from the name, or from the value itself."""

    fields_desc = [Text("key", "name"), Text("value", "value, always text", named_by="key")]


def properties(name: str = "properties", doc: str = "properties", bulk: bool = False) -> Kind:
    return Array(name, Property, doc, bulk=bulk)


def texts(name: str, doc: str, bulk: bool = True) -> Kind:
    return Array(name, Text(name), doc, bulk=bulk)


def number() -> Kind:
    return UInt64("publishing_id", "sequence number given by the publisher")


CommandVersion = structure(
    "CommandVersion",
    UInt16("key", "command", names=KEYS),
    UInt16("min_version", "lowest version spoken"),
    UInt16("max_version", "highest version spoken"),
)


class Unknown(Command):
    """A key this package does not know: the size still delimits it."""

    fields_desc = [*header(0), Rest("body", "everything after the header", secret=True)]
    facts = ("key", "version")


class UnknownSasl(Command):
    """SaslAuthenticate of an unknown version: the secret is not shown, wherever it is."""

    fields_desc = [*header(19), Rest("body", "everything after the header", secret=True)]
    facts = Unknown.facts


# Requests, and messages without a response.

DeclarePublisher = command(1, publisher(), Text("publisher_reference", "name for deduplication; empty: none"), stream())

PublishedMessage = structure(
    "PublishedMessage",
    number(),
    *entry_fields(),
    numbered_by="publishing_id",
    marked_by="sub_batch",
)
Publish = command(2, publisher(), Array("messages", PublishedMessage, "messages and sub-batches", bulk=True))

FilteredMessage = structure(
    "FilteredMessage",
    number(),
    Text("filter_value", "what subscribers filter on; null: unfiltered", null=0xFFFF),
    Binary("data", "the message", inner=message),
    numbered_by="publishing_id",
)
PublishV2 = command(
    2,
    publisher(),
    Array("messages", FilteredMessage, "messages", bulk=True),
    version=2,
    doc="Publish with filter values: simple messages only.",
)

confirmed = UInt64("publishing_ids")
PublishConfirm = command(
    3, publisher(), Array("publishing_ids", confirmed, "confirmed ids; one may confirm a sub-batch", bulk=True)
)
PublishingError = structure("PublishingError", UInt64("publishing_id", "id that failed"), code())
PublishError = command(4, publisher(), Array("errors", PublishingError, "ids that failed, and why"))
QueryPublisherSequence = command(5, Text("publisher_reference", "name for deduplication"), stream())
DeletePublisher = command(6, publisher())
Subscribe = command(
    7,
    subscription(),
    stream(),
    *offset_specification(),
    UInt16("credit", "chunks the broker may send", unit="chunks"),
    Optional(properties(), When("left")),
    facts=6,
)


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


Credit = command(9, subscription(), UInt16("credit", "chunks more that may be sent", unit="chunks"))
StoreOffset = command(10, Text("reference", "consumer reference"), stream(), UInt64("offset", "offset to remember"))
QueryOffset = command(11, Text("reference", "consumer reference"), stream())
Unsubscribe = command(12, subscription())
Create = command(13, stream(), properties("arguments", "arguments of the stream"), facts=1)
Delete = command(14, stream())
Metadata = command(15, texts("streams", "names of the streams asked for"))
MetadataUpdate = command(16, code(), stream())
PeerProperties = command(17, properties(bulk=True))
SaslHandshake = command(18)
SaslAuthenticate = command(
    19,
    Text("mechanism", "SASL mechanism"),
    Binary("data", "credentials", null=0xFFFFFFFF, secret=True),
    facts=1,
)
Tune = command(
    20,
    UInt32("frame_max", "largest frame; 0: no limit", unit="bytes"),
    UInt32("heartbeat", "interval; 0: off", unit="s"),
    doc="Limits: offered by the server, answered by the client with the same body and without correlation id.",
)
Open = command(21, Text("virtual_host", "virtual host", free=True))
Close = command(
    22,
    UInt16("closing_code", "why; clients may use any number", names=RESPONSE_CODES),
    Text("closing_reason", "why, in words", free=True),
)
Heartbeat = command(23)
Route = command(24, Text("routing_key", "key to route"), super_stream())
Partitions = command(25, super_stream())
ConsumerUpdate = command(
    26,
    subscription(),
    Boolean("active", "whether the consumer becomes active"),
    doc="From the server: a single active consumer becomes active or steps down.",
)
ExchangeCommandVersions = command(27, Array("commands", CommandVersion, "versions the client speaks", bulk=True))
StreamStats = command(28, stream())
CreateSuperStream = command(
    29,
    super_stream(),
    texts("partitions", "names of the streams", bulk=False),
    texts("binding_keys", "routing key of each stream", bulk=False),
    properties("arguments", "arguments of the streams"),
    facts=2,
)
DeleteSuperStream = command(30, super_stream())
ResolveOffsetSpec = command(31, stream(), *offset_specification(), Optional(properties(), When("left")), facts=4)

# Responses. Many carry nothing but their code.

PLAIN_RESPONSES = [command(key | RESPONSE_BIT) for key in (1, 6, 7, 12, 13, 14, 22, 29, 30)]
QueryPublisherSequenceResponse = command(0x8005, UInt64("sequence", "last publishing id known; 0: none"))
CreditResponse = command(
    0x8009, code(), subscription(), bare=True, doc="Errors only; no correlation id, and the code comes first."
)
QueryOffsetResponse = command(0x800B, UInt64("offset", "stored offset"))

Broker = structure(
    "Broker",
    UInt16("reference", "number used below"),
    Text("host", "advertised host"),
    UInt32("port", "advertised port"),
)
StreamMetadata = structure(
    "StreamMetadata",
    stream(),
    code(),
    UInt16("leader_reference", "broker of the leader", names={NO_LEADER: "none"}),
    Array("replica_references", UInt16("replica_references"), "brokers of the replicas"),
)


class MetadataResponse(Command):
    """The only response without its own response code: each stream has one."""

    fields_desc = [
        *header(15 | RESPONSE_BIT),
        correlation(),
        Array("brokers", Broker, "brokers of the cluster"),
        Array("streams", StreamMetadata, "streams, in any order", bulk=True),
    ]
    facts = ("brokers", "streams")


PeerPropertiesResponse = command(0x8011, properties(bulk=True))
SaslHandshakeResponse = command(0x8012, texts("mechanisms", "SASL mechanisms offered"))
SaslAuthenticateResponse = command(
    0x8013,
    Optional(Binary("challenge", "what the server asks", length=UInt16, secret=True), When("peek(2) == left - 2")),
    Optional(
        Binary("long_challenge", "the same, as the reference spells it", secret=True), When("peek(4) == left - 4")
    ),
    facts=0,
    doc="Code 10 brings a challenge; brokers write its length as uint16, the reference says int32.",
)
TuneResponse = command(
    0x8014,
    *Tune.fields_desc[3:],
    bare=True,
    doc="The client's answer in the form with the response bit; as Tune, it has neither correlation id nor code.",
)
OpenResponse = command(
    0x8015, Optional(properties("properties", "addresses of the broker", bulk=True), When("left")), facts=0
)
RouteResponse = command(0x8018, texts("streams", "streams of the routing key"))
PartitionsResponse = command(0x8019, texts("streams", "streams of the super stream"))
ConsumerUpdateResponse = command(
    0x801A,
    *offset_specification(),
    doc="From the client: where to continue. Some clients write 8 bytes of offset for every type.",
)
ExchangeCommandVersionsResponse = command(
    0x801B, Array("commands", CommandVersion, "versions the server speaks", bulk=True)
)
Statistic = structure("Statistic", Text("key", "name"), Int64("value", "value; -1: empty stream"))
StreamStatsResponse = command(0x801C, Array("statistics", Statistic, "statistics of the stream"))
ResolveOffsetSpecResponse = command(0x801F, *offset_specification(), facts=2)


def _declared_commands() -> Iterator[tuple[tuple[int, int], type[Command]]]:
    layers = [each for kind in globals().values() for each in (kind if kind is PLAIN_RESPONSES else (kind,))]
    for layer in layers:
        if isinstance(layer, type) and issubclass(layer, Command) and layer not in (Command, Unknown, UnknownSasl):
            _, key, version = (kind.default for kind in layer.fields_desc[:3])
            yield (key, version), layer


LAYERS: dict[tuple[int, int], type[Command]] = dict(_declared_commands())
"""The layer of each (key, version)."""
