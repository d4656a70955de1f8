"""The messages of TANK, in the order of their ids; of each id the request, then the response.

Source: TANK's tank_protocol.md and, where it and the broker disagree, the broker: see docs/protocols/tank.md. All
integers are little-endian. Every message, in both directions::

    message_id u8 | payload_length u32 | payload

A request differs from a response only in the side that sends it.
"""

from functools import partial
from typing import Any

from wiredecode.fields import Array, Boolean, Flags, Kind, LengthOf, Number, Optional, Rest, Text, UInt8, Varint32, When
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Added, Facts, Layer, fact_names
from wiredecode.fields.sized import OPAQUE
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers_bundle import Chunks, produced_bundle
from wiredecode.protocols.tank.layers_kinds import (
    U16,
    U32,
    U64,
    Endpoint,
    HeaderArray,
    HeaderRest,
    InHeader,
    Seconds,
)


class TankFrame(Layer):
    """Base of all messages: fills in ``payload_length`` when building."""

    filter_name = "tank"
    added = Added.IN_ELEMENTS


def frame(message_id: int, *fields: Kind) -> list[Any]:
    return [
        UInt8("message_id", "what it is", names=names.MESSAGES, default=message_id),
        U32("payload_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        *fields,
    ]


def message(
    message_id: int, *fields: Kind, facts: Facts = 0, answer: bool = False, doc: str | None = None
) -> type[TankFrame]:
    """A message of the client, or the broker's ``answer`` to it."""
    name = names.MESSAGES[message_id] + ("Response" if answer else "")
    return TankFrame.declare(name, *frame(message_id, *fields), doc=doc, facts=fact_names(facts, fields))


def correlated_message(message_id: int, *fields: Kind, facts: Facts = 1, **more: Any) -> type[TankFrame]:
    """A message that begins with the request id."""
    return message(message_id, request_id(), *fields, facts=facts, **more)


structure = partial(Layer.declare, module=__name__)


def request_id() -> Kind:
    return U32("request_id", "ties a response to its request")


def topic() -> Kind:
    return Text("topic", "name of the topic", length=UInt8)


def partition() -> Kind:
    return U16("partition", "number of the partition")


def sent_by(client_id: str) -> list[Any]:
    """First fields of Produce and Consume."""
    return [
        U16("client_version", "of the client; from 3 on Consume has options", default=2),
        request_id(),
        Text("client_id", "name of the client program", length=UInt8, default=client_id),
    ]


def waiting(when_idle: str = "") -> list[Any]:
    """Time that an answer may be held back."""
    return [
        U64("max_wait", f"how long to wait for data{when_idle}", unit="ms"),
        U32("min_bytes", "data worth answering for while waiting", unit="bytes"),
    ]


def endpoint() -> Kind:
    return Optional(Endpoint("endpoint", "node to ask instead"), When(f"result == {names.REDIRECT}"))


def when_data(kind: Kind) -> Kind:
    return Optional(kind, When(f"result not in {names.WITHOUT_DATA}"))


class Unknown(TankFrame):
    """An id that does not exist, or a message that its sender never sends: the length still delimits it."""

    fields_desc = frame(0, Rest("body", "everything after the header", **OPAQUE))
    facts = ("message_id",)


HEADER = Unknown.front()
"""Message id and payload length."""


# 1 and 5: Produce.


def produced_topic(name: str, element: str, *numbered: Kind) -> type[Layer]:
    """A topic with its bundles; a base sequence number lies between the length and the bundle that it measures."""
    bundle = structure(
        element,
        partition(),
        Varint32("bundle_length", "size of the bundle", unit="bytes", fill=LengthOf("bundle")),
        *numbered,
        produced_bundle(),
    )
    partitions = Array("partitions", bundle, "one bundle for each; a partition may come again", count=UInt8)
    return structure(name, topic(), partitions)


def produce(message_id: int, element: type[Layer], doc: str) -> type[TankFrame]:
    return message(
        message_id,
        *sent_by("c++"),
        UInt8("required_acks", "cluster: 0 all in-sync replicas, 255 a quorum, else this many besides the leader"),
        U32("ack_timeout", "cluster: how long to wait for them; 0: 8 s", unit="ms"),
        Array("topics", element, "what to store where", count=UInt8),
        facts=("request_id", "client_id"),
        doc=doc,
    )


Produce = produce(
    names.PRODUCE,
    produced_topic("ProducedTopic", "ProducedBundle"),
    "``client_version u16 | request_id u32 | client_id str8 | required_acks u8 | ack_timeout u32 | topics u8 ...``",
)
base_number = U64("base_sequence_number", "number of the first message; the one of a sparse bundle wins")
ProduceWithBaseSequenceNumber = produce(
    names.PRODUCE_WITH_BASE,
    produced_topic("NumberedTopic", "NumberedBundle", base_number),
    "Produce of the mirror tool, which keeps the numbers of the origin. The answer has the id of Produce.",
)
ProduceResult = structure("ProduceResult", UInt8("result", "outcome", names=names.PRODUCE_RESULTS), endpoint())
ProduceResponse = correlated_message(
    names.PRODUCE,
    Array("results", ProduceResult, "outcomes, without names", count=None),
    facts=2,
    answer=True,
    doc="""One result for each partition of the request, in its order; only the request contains the partitions.

    "unknown topic" and "read-only" apply to all partitions of their topic.
    """,
)


# 2 and 9: Consume. A replica's has no request id and wider counts; one is outstanding at a time.

WantedPartition = structure(
    "WantedPartition",
    partition(),
    U64("sequence_number", "where to start: 0 the first available, 2^64-1 the end"),
    U32("fetch_size", "bytes wanted; brokers end on a bundle", unit="bytes"),
)


def wanted_topics(name: str, count: type[Number]) -> Kind:
    element = structure(name, topic(), Array("partitions", WantedPartition, "where to read", count=count))
    return Array("topics", element, "what to read", count=count)


Consume = message(
    names.CONSUME,
    *sent_by(""),
    *waiting("; 0: answer immediately"),
    Optional(Flags("options", "how to serve", names=names.CONSUME_OPTIONS), When("client_version not in (0, 1, 2)")),
    wanted_topics("WantedTopic", UInt8),
    facts=("request_id", "max_wait", "min_bytes"),
)
ConsumeAsPeer = message(
    names.CONSUME_AS_PEER,
    U16("replica_id", "node that reads"),
    *waiting(),
    wanted_topics("PeerTopic", U16),
    facts=2,
    doc="Consume of a replica: no request id, wider counts. One is outstanding at a time.",
)
ConsumedPartition = structure(
    "ConsumedPartition",
    partition(),
    UInt8("result", "outcome, or what the chunk begins with", names=names.CONSUME_RESULTS),
    endpoint(),
    Optional(
        U64("base_sequence_number", "of the first message; in empty answers the first available, or 0"),
        When(f"result not in {(*names.WITHOUT_DATA, names.SPARSE_FIRST)}"),
    ),
    when_data(U64("high_water_mark", "last committed sequence number")),
    when_data(U32("chunk_length", "size of the chunk", unit="bytes")),
    Optional(U64("first_available", "first sequence number of the partition"), When(f"result == {names.BOUNDARY}")),
)


def consume_fields(first: Kind, topic_name: str, topics: type[Number], partitions: type[Number]) -> list[Any]:
    """The header, which follows its length, and the chunks."""
    element = structure(
        topic_name,
        topic(),
        partitions("partition_count", "partitions of the topic in this answer"),
        Optional(U16("unknown_topic", "65535: the topic is unknown, nothing follows"), When("peek(2) == 0xFFFF")),
        Optional(
            Array("partitions", ConsumedPartition, "what was read", count="partition_count"),
            When("not has(unknown_topic)"),
        ),
    )
    return [
        U32(
            "header_length",
            "bytes that follow up to the chunks",
            unit="bytes",
            fill=LengthOf(first.name, "topics", "header_rest"),
        ),
        first,
        HeaderArray("topics", element, "what was read", count=topics),
        Optional(
            HeaderRest("header_rest", "bytes of the header after the last topic", **OPAQUE),
            When("left_of(header_length) > 0"),
        ),
        Chunks("chunks", "data, in the order of the partitions that announce some"),
    ]


ConsumeResponse = message(
    names.CONSUME,
    *consume_fields(request_id(), "ConsumedTopic", UInt8, UInt8),
    facts=("request_id",),
    answer=True,
    doc="""The header (topics and partitions), then the chunks of the partitions that have one.

    ::

        header_length u32 | request_id u32 | topics u8 { topic, partitions } | chunks
                          |<---------------- header_length ----------------->|
    """,
)


class StrayBytes(InHeader, U32):
    """Inside the header."""


stray = Optional(
    StrayBytes("stray", "where the answer to Consume has its request id"),
    When("left_of(header_length) >= 6 and peek(2) == 0"),
)
ConsumeAsPeerResponse = message(
    names.CONSUME_AS_PEER,
    *consume_fields(stray, "ConsumedPeerTopic", U16, U16),
    answer=True,
    doc="As the answer to Consume, without a request id; after a wait that expired, with four zero bytes in its place.",
)


# 3 and 4.

Ping = message(names.PING, doc="From the broker, once, when it has accepted the connection.")
RegisterReplica = message(
    names.REGISTER_REPLICA,
    U16("replica_id", "follower that reads"),
    facts=1,
    doc="Obsolete: brokers close the connection.",
)


# 6: Discover partitions.

DiscoverPartitions = correlated_message(
    names.DISCOVER_PARTITIONS,
    topic(),
    Optional(Array("partitions", U16("partitions"), "only these; none: all", count=None), When("left")),
    facts=2,
)
PartitionState = structure(
    "PartitionState",
    U64("first_available", "first sequence number; 0 of an empty partition"),
    U64("high_water_mark", "last committed sequence number; 0 of an empty partition"),
    Optional(
        UInt8("reason", "why the numbers are left out", names=names.DISCOVER_REASONS),
        When(f"first_available == high_water_mark == {names.END_OF_LOG}"),
    ),
    Optional(Endpoint("endpoint", "node to ask instead"), When(f"reason == {names.REDIRECT}")),
)
DiscoverPartitionsResponse = correlated_message(
    names.DISCOVER_PARTITIONS,
    topic(),
    U16("partition_count", "partitions; 0: the topic is unknown"),
    Array("partitions", PartitionState, "state of each", count=None),
    facts=3,
    answer=True,
    doc="Records without partition ids: of all partitions in order, or of those asked for; disabled ones are left out.",
)


# 7 and 8: administration.

CreateTopic = correlated_message(
    names.CREATE_TOPIC,
    topic(),
    U16("partition_count", "partitions to create"),
    Varint32("configuration_length", "size of the configuration", unit="bytes", fill=LengthOf("configuration")),
    Text("configuration", "lines of key=value", length="configuration_length"),
    facts=3,
)
CreateTopicResponse = correlated_message(
    names.CREATE_TOPIC, topic(), UInt8("result", "outcome", names=names.CREATE_RESULTS), facts=3, answer=True
)
ReloadPartitionConfiguration = correlated_message(names.RELOAD_CONFIGURATION, topic(), partition(), facts=3)
ReloadPartitionConfigurationResponse = correlated_message(
    names.RELOAD_CONFIGURATION,
    topic(),
    partition(),
    UInt8("result", "outcome", names=names.RELOAD_RESULTS),
    facts=4,
    answer=True,
)


# 10 to 12: the broker and its cluster.


def in_cluster(kind: Kind, field: str = "cluster_aware != 0") -> Kind:
    return Optional(kind, When(field))


Status = correlated_message(names.STATUS)
StatusResponse = correlated_message(
    names.STATUS,
    UInt8("global_flags", "always 0"),
    Boolean("cluster_aware", "the broker is a node of a cluster"),
    U32("topic_count", "topics"),
    U32("partition_count", "partitions"),
    in_cluster(UInt8("cluster_flags", "always 0")),
    in_cluster(Text("cluster_name", "name of the cluster", length=UInt8)),
    in_cluster(U32("available_nodes", "nodes that can be reached")),
    Optional(U32("open_partitions", "partitions that are open"), When("left")),
    Optional(U32("open_time", "time spent opening partitions", unit="ms"), When("left")),
    Optional(Seconds("start_time", "when the broker started"), When("left")),
    Optional(U32("release", "major * 100 + minor"), When("left")),
    facts=("request_id", "topic_count", "partition_count", "cluster_name", "release"),
    answer=True,
    doc="Older brokers stop after the cluster's fields, or before the release.",
)


def listed_topic(name: str, *cluster: Kind) -> type[Layer]:
    return structure(
        name, topic(), Boolean("enabled", "the topic can be used"), U16("partition_count", "partitions"), *cluster
    )


ListedTopic = listed_topic("ListedTopic")
ReplicatedTopic = listed_topic(
    "ReplicatedTopic", Optional(UInt8("replication_factor", "nodes that hold a copy"), When("True"))
)


class ListedTopics(Array):
    """The topics of a broker: the fields of each depend on whether it is in a cluster."""

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, ReplicatedTopic, doc, count="topic_count")
        self.alone = Array(name, ListedTopic, count="topic_count")

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        if layer.fields["cluster_aware"]:
            return super().read(data, position, end, layer)
        return self.alone.read(data, position, end, layer)

    def emit(self, em: Emitter) -> str:
        value, cluster = em.variable(self.name), em.reference("cluster_aware")
        with em.block(f"if {cluster}:"):
            em.line(f"{value} = {super().emit(em)}")
        with em.block("else:"):
            em.line(f"{value} = {self.alone.emit(em)}")
        return value


DiscoverTopics = correlated_message(names.DISCOVER_TOPICS, UInt8("flags", "0"))
DiscoverTopicsResponse = correlated_message(
    names.DISCOVER_TOPICS,
    U32("topic_count", "topics"),
    Boolean("cluster_aware", "the broker is a node of a cluster"),
    ListedTopics("topics", "topics"),
    facts=2,
    answer=True,
)
DiscoverTopology = correlated_message(names.DISCOVER_TOPOLOGY, UInt8("flags", "0"))
Node = structure(
    "Node",
    U16("node_id", "number of the node"),
    Flags("flags", "state", names=names.NODE_FLAGS),
    Optional(Endpoint("endpoint", "where it listens"), When("flags & 1 == 1")),
    U16("partition_count", "partitions it is a replica of"),
)
NOT_ALONE = f"node_count != {names.STAND_ALONE}"
DiscoverTopologyResponse = correlated_message(
    names.DISCOVER_TOPOLOGY,
    U16("node_count", "nodes; 65535: no cluster"),
    in_cluster(Text("cluster_name", "name of the cluster", length=UInt8), NOT_ALONE),
    in_cluster(Array("nodes", Node, "nodes", count="node_count"), NOT_ALONE),
    facts=3,
    answer=True,
    doc="65535 nodes: the broker is standalone.",
)


def _by_id(*layers: type[TankFrame]) -> dict[int, type[TankFrame]]:
    return {layer.fields_desc[0].default: layer for layer in layers}


REQUESTS = _by_id(
    Produce,
    Consume,
    Ping,
    RegisterReplica,
    ProduceWithBaseSequenceNumber,
    DiscoverPartitions,
    CreateTopic,
    ReloadPartitionConfiguration,
    ConsumeAsPeer,
    Status,
    DiscoverTopics,
    DiscoverTopology,
)
"""Messages of clients, by id; brokers send PING, too."""
RESPONSES = _by_id(
    ProduceResponse,
    ConsumeResponse,
    Ping,
    DiscoverPartitionsResponse,
    CreateTopicResponse,
    ReloadPartitionConfigurationResponse,
    ConsumeAsPeerResponse,
    StatusResponse,
    DiscoverTopicsResponse,
    DiscoverTopologyResponse,
)
"""Messages of brokers, by id."""
