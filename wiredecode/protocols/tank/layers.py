"""The messages of TANK, in the order of their ids; of each id the request, then the response.

Source: TANK's tank_protocol.md and, where it and the broker disagree, the broker: see docs/protocols/tank.md. All
integers are little-endian. Every message, in both directions::

    message_id u8 | payload_length u32 | payload

Nothing tells a request from a response but the side that sends it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar

from wiredecode.fields import Array, Boolean, Is, Kind, More, Optional, Rest, Test, Text, UInt8
from wiredecode.layer import Layer
from wiredecode.protocols.tank.bundle import Chunks, produced_bundle
from wiredecode.protocols.tank.kinds import (
    U16,
    U32,
    U64,
    BitFlags,
    Bits,
    Endpoint,
    HeaderArray,
    HeaderLength,
    HeaderRest,
    InHeader,
    IsNot,
    IsThere,
    MoreHeader,
    Next,
    Seconds,
    Stray,
    Varint32,
)
from wiredecode.protocols.tank.names import (
    BOUNDARY,
    CONSUME,
    CONSUME_AS_PEER,
    CONSUME_OPTIONS,
    CONSUME_RESULTS,
    CREATE_RESULTS,
    CREATE_TOPIC,
    DISCOVER_PARTITIONS,
    DISCOVER_REASONS,
    DISCOVER_TOPICS,
    DISCOVER_TOPOLOGY,
    END_OF_LOG,
    MESSAGES,
    NODE_FLAGS,
    PING,
    PRODUCE,
    PRODUCE_RESULTS,
    PRODUCE_WITH_BASE,
    REDIRECT,
    REGISTER_REPLICA,
    RELOAD_CONFIGURATION,
    RELOAD_RESULTS,
    SPARSE_FIRST,
    STAND_ALONE,
    STATUS,
    WITHOUT_DATA,
)

if TYPE_CHECKING:
    from wiredecode.compiler import Emitter

HEADER = struct.Struct("<BI")
"""Message id and payload length."""


class Frame(Layer):
    """Base of all messages: fills in ``payload_length`` when building."""

    filter_name = "tank"
    facts: ClassVar[tuple[str, ...]] = ()
    """The fields that a one-line summary shows."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.payload_length is None:
            pkt = pkt[:1] + struct.pack("<I", len(pkt) + len(pay) - HEADER.size) + pkt[HEADER.size :]
        return pkt + pay


def frame(message_id: int, *fields: Kind) -> list[Kind]:
    return [
        UInt8("message_id", "what it is", names=MESSAGES, default=message_id),
        U32("payload_length", "bytes that follow", unit="bytes", default=None),
        *fields,
    ]


def correlated(message_id: int, *fields: Kind) -> list[Kind]:
    """A message that begins with the request id."""
    return frame(message_id, request_id(), *fields)


def request_id() -> Kind:
    return U32("request_id", "ties a response to its request")


def topic() -> Kind:
    return Text("topic", "name of the topic", length=UInt8)


def partition() -> Kind:
    return U16("partition", "number of the partition")


def sent_by(version: int, client_id: str) -> list[Kind]:
    """How Produce and Consume begin."""
    return [
        U16("client_version", "of the client; from 3 on Consume has options", default=version),
        request_id(),
        Text("client_id", "name of the client program", length=UInt8, default=client_id),
    ]


def topics(element: type[Layer], doc: str) -> Kind:
    return Array("topics", element, doc, count=UInt8)


def endpoint() -> Kind:
    return Endpoint("endpoint", "node to ask instead")


class Unknown(Frame):
    """An id that does not exist, or a message that its sender never sends: the length still delimits it."""

    fields_desc = frame(0, Rest("body", "everything after the header"))
    facts = ("message_id",)


# 1 and 5: Produce.


class ProducedBundle(Layer):
    fields_desc = [
        partition(),
        Varint32("bundle_length", "size of the bundle", unit="bytes", measures="bundle"),
        produced_bundle(),
    ]


class NumberedBundle(Layer):
    """The base sequence number lies between the length and the bundle that it measures."""

    fields_desc = [
        partition(),
        Varint32("bundle_length", "size of the bundle", unit="bytes", measures="bundle"),
        U64("base_sequence_number", "number of the first message; the one of a sparse bundle wins"),
        produced_bundle(),
    ]


def produced(element: type[Layer]) -> Kind:
    return Array("partitions", element, "one bundle for each; a partition may come again", count=UInt8)


class ProducedTopic(Layer):
    fields_desc = [topic(), produced(ProducedBundle)]


class NumberedTopic(Layer):
    fields_desc = [topic(), produced(NumberedBundle)]


def produce(message_id: int, element: type[Layer]) -> list[Kind]:
    return frame(
        message_id,
        *sent_by(2, "c++"),
        UInt8("required_acks", "cluster: 0 all in-sync replicas, 255 a quorum, else so many besides the leader"),
        U32("ack_timeout", "cluster: how long to wait for them; 0: 8 s", unit="ms"),
        topics(element, "what to store where"),
    )


class Produce(Frame):
    """``client_version u16 | request_id u32 | client_id str8 | required_acks u8 | ack_timeout u32 | topics u8 ...``"""

    fields_desc = produce(PRODUCE, ProducedTopic)
    facts = ("request_id", "client_id")


class ProduceWithBaseSequenceNumber(Frame):
    """Produce of the mirror tool, which keeps the numbers of the origin. The answer has the id of Produce."""

    fields_desc = produce(PRODUCE_WITH_BASE, NumberedTopic)
    facts = ("request_id", "client_id")


class ProduceResult(Layer):
    fields_desc = [
        UInt8("result", "outcome", names=PRODUCE_RESULTS),
        Optional(endpoint(), Is("result", REDIRECT)),
    ]


class ProduceResponse(Frame):
    """One result for each partition of the request, in its order; which one a result belongs to, only the request tells.

    "unknown topic" and "read-only" stand for all partitions of their topic.
    """

    fields_desc = correlated(PRODUCE, Array("results", ProduceResult, "outcomes, without names", count=None))
    facts = ("request_id", "results")


# 2 and 9: Consume.


class WantedPartition(Layer):
    fields_desc = [
        partition(),
        U64("sequence_number", "where to start: 0 the first available, 2^64-1 the end"),
        U32("fetch_size", "bytes wanted; brokers end on a bundle", unit="bytes"),
    ]


class WantedTopic(Layer):
    fields_desc = [topic(), Array("partitions", WantedPartition, "where to read", count=UInt8)]


class Consume(Frame):
    fields_desc = frame(
        CONSUME,
        *sent_by(2, ""),
        U64("max_wait", "how long to wait for data; 0: answer at once", unit="ms"),
        U32("min_bytes", "data worth answering for while waiting", unit="bytes"),
        Optional(BitFlags("options", "how to serve", names=CONSUME_OPTIONS), IsNot("client_version", 0, 1, 2)),
        topics(WantedTopic, "what to read"),
    )
    facts = ("request_id", "max_wait", "min_bytes")


def data_fields(result: Kind) -> list[Kind]:
    without_base = (*WITHOUT_DATA, SPARSE_FIRST)
    return [
        partition(),
        result,
        Optional(endpoint(), Is("result", REDIRECT)),
        Optional(
            U64("base_sequence_number", "of the first message of the chunk; in empty answers the first available, or 0"),
            IsNot("result", *without_base),
        ),
        Optional(U64("high_water_mark", "last committed sequence number"), IsNot("result", *WITHOUT_DATA)),
        Optional(U32("chunk_length", "size of the chunk", unit="bytes"), IsNot("result", *WITHOUT_DATA)),
        Optional(U64("first_available", "first sequence number of the partition"), Is("result", BOUNDARY)),
    ]


class ConsumedPartition(Layer):
    fields_desc = data_fields(UInt8("result", "outcome, or what the chunk begins with", names=CONSUME_RESULTS))


def consumed(count: Kind, partitions: Kind) -> list[Kind]:
    return [
        topic(),
        count,
        Optional(U16("unknown_topic", "65535: the topic is unknown, nothing follows"), Next(b"\xff\xff")),
        Optional(partitions, NotUnknown()),
    ]


class NotUnknown(Test):
    """The topic is known."""

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return "unknown_topic" not in layer.fields

    def emit(self, em: Emitter) -> str:
        return f"not {em.presence('unknown_topic')}"


class ConsumedTopic(Layer):
    fields_desc = consumed(
        UInt8("partition_count", "partitions of the topic in this answer"),
        Array("partitions", ConsumedPartition, "what was read", count="partition_count"),
    )


class Answer(Frame):
    """Base of the answers to Consume: fills in ``header_length`` when building."""

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        if self.header_length is None:
            chunks = sum(len(bytes(chunk)) for chunk in self.chunks)
            size = len(pkt) - HEADER.size - 4 - chunks
            pkt = pkt[: HEADER.size] + struct.pack("<I", size) + pkt[HEADER.size + 4 :]
        return super().post_build(pkt, pay)


class ConsumeResponse(Answer):
    """The header (topics and partitions), then the chunks of the partitions that have one.

    ::

        header_length u32 | request_id u32 | topics u8 { topic, partitions } | chunks
                          |<---------------- header_length ----------------->|
    """

    fields_desc = frame(
        CONSUME,
        HeaderLength("header_length", "bytes that follow up to the chunks", unit="bytes", default=None),
        request_id(),
        HeaderArray("topics", ConsumedTopic, "what was read", count=UInt8),
        Optional(HeaderRest("header_rest", "bytes of the header after the last topic"), MoreHeader()),
        Chunks("chunks", "data, in the order of the partitions that announce some"),
    )
    facts = ("request_id",)


# 3 and 4.


class Ping(Frame):
    """From the broker, once, when it has accepted the connection."""

    fields_desc = frame(PING)


class RegisterReplica(Frame):
    """Obsolete: brokers close the connection."""

    fields_desc = frame(REGISTER_REPLICA, U16("replica_id", "follower that reads"))
    facts = ("replica_id",)


# 6: Discover partitions.


class DiscoverPartitions(Frame):
    fields_desc = correlated(
        DISCOVER_PARTITIONS,
        topic(),
        Optional(Array("partitions", U16("partitions"), "only these; none: all", count=None), More()),
    )
    facts = ("request_id", "topic")


class BothUnknown(Bits):
    """Both numbers are 2^64-1: a reason follows."""

    def __init__(self) -> None:
        super().__init__("first_available", END_OF_LOG, END_OF_LOG)

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return super().holds(data, position, end, layer) and layer.fields["high_water_mark"] == END_OF_LOG

    def emit(self, em: Emitter) -> str:
        return f"{super().emit(em)} and {em.reference('high_water_mark')} == {END_OF_LOG}"


class PartitionState(Layer):
    fields_desc = [
        U64("first_available", "first sequence number; 0 of an empty partition"),
        U64("high_water_mark", "last committed sequence number; 0 of an empty partition"),
        Optional(UInt8("reason", "why the numbers are not told", names=DISCOVER_REASONS), BothUnknown()),
        Optional(endpoint(), IsThere("reason", REDIRECT)),
    ]


class DiscoverPartitionsResponse(Frame):
    """Records without partition ids: of all partitions in order, or of those asked for; disabled ones are left out."""

    fields_desc = correlated(
        DISCOVER_PARTITIONS,
        topic(),
        U16("partition_count", "partitions; 0: the topic is unknown"),
        Array("partitions", PartitionState, "state of each", count=None),
    )
    facts = ("request_id", "topic", "partition_count")


# 7 and 8: administration.


class CreateTopic(Frame):
    fields_desc = correlated(
        CREATE_TOPIC,
        topic(),
        U16("partition_count", "partitions to create"),
        Varint32("configuration_length", "size of the configuration", unit="bytes", measures="configuration"),
        Text("configuration", "lines of key=value", length="configuration_length"),
    )
    facts = ("request_id", "topic", "partition_count")


class CreateTopicResponse(Frame):
    fields_desc = correlated(CREATE_TOPIC, topic(), UInt8("result", "outcome", names=CREATE_RESULTS))
    facts = ("request_id", "topic", "result")


class ReloadPartitionConfiguration(Frame):
    fields_desc = correlated(RELOAD_CONFIGURATION, topic(), partition())
    facts = ("request_id", "topic", "partition")


class ReloadPartitionConfigurationResponse(Frame):
    fields_desc = correlated(
        RELOAD_CONFIGURATION, topic(), partition(), UInt8("result", "outcome", names=RELOAD_RESULTS)
    )
    facts = ("request_id", "topic", "partition", "result")


# 9: replication between nodes.


class PeerTopic(Layer):
    fields_desc = [topic(), Array("partitions", WantedPartition, "where to read", count=U16)]


class ConsumeAsPeer(Frame):
    """Consume of a replica: no request id, wider counts. One is outstanding at a time."""

    fields_desc = frame(
        CONSUME_AS_PEER,
        U16("replica_id", "node that reads"),
        U64("max_wait", "how long to wait for data", unit="ms"),
        U32("min_bytes", "data worth answering for while waiting", unit="bytes"),
        Array("topics", PeerTopic, "what to read", count=U16),
    )
    facts = ("replica_id", "max_wait")


class ConsumedPeerTopic(Layer):
    fields_desc = consumed(
        U16("partition_count", "partitions of the topic in this answer"),
        Array("partitions", ConsumedPartition, "what was read", count="partition_count"),
    )


class StrayBytes(InHeader, U32):
    """Inside the header."""


class ConsumeAsPeerResponse(Answer):
    """As the answer to Consume, without a request id; after a wait that expired, with four zero bytes in its place."""

    fields_desc = frame(
        CONSUME_AS_PEER,
        HeaderLength("header_length", "bytes that follow up to the chunks", unit="bytes", default=None),
        Optional(StrayBytes("stray", "where the answer to Consume has its request id"), Stray()),
        HeaderArray("topics", ConsumedPeerTopic, "what was read", count=U16),
        Optional(HeaderRest("header_rest", "bytes of the header after the last topic"), MoreHeader()),
        Chunks("chunks", "data, in the order of the partitions that announce some"),
    )


# 10 to 12: the broker and its cluster.


class Status(Frame):
    fields_desc = correlated(STATUS)
    facts = ("request_id",)


class StatusResponse(Frame):
    """Older brokers stop after the cluster's fields, or before the release."""

    fields_desc = correlated(
        STATUS,
        UInt8("global_flags", "always 0"),
        Boolean("cluster_aware", "the broker is a node of a cluster"),
        U32("topic_count", "topics"),
        U32("partition_count", "partitions"),
        Optional(UInt8("cluster_flags", "always 0"), IsNot("cluster_aware", 0)),
        Optional(Text("cluster_name", "name of the cluster", length=UInt8), IsNot("cluster_aware", 0)),
        Optional(U32("available_nodes", "nodes that can be reached"), IsNot("cluster_aware", 0)),
        Optional(U32("open_partitions", "partitions that are open"), More()),
        Optional(U32("open_time", "time spent opening partitions", unit="ms"), More()),
        Optional(Seconds("start_time", "when the broker started"), More()),
        Optional(U32("release", "major * 100 + minor"), More()),
    )
    facts = ("request_id", "topic_count", "partition_count", "cluster_name", "release")


class DiscoverTopics(Frame):
    fields_desc = correlated(DISCOVER_TOPICS, UInt8("flags", "0"))
    facts = ("request_id",)


def listed_topic(*cluster: Kind) -> list[Kind]:
    return [topic(), Boolean("enabled", "the topic can be used"), U16("partition_count", "partitions"), *cluster]


class ListedTopic(Layer):
    fields_desc = listed_topic()


class ReplicatedTopic(Layer):
    """Of a cluster."""

    fields_desc = listed_topic(UInt8("replication_factor", "nodes that hold a copy"))


class ListedTopics(Array):
    """The topics of a broker: what is told of each depends on whether it is in a cluster."""

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, ReplicatedTopic, doc, count="topic_count")
        self.alone = Array(name, ListedTopic, count="topic_count")

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        if layer.fields["cluster_aware"]:
            return super().read(data, position, end, layer)
        return self.alone.read(data, position, end, layer)

    def emit(self, em: Emitter) -> str:
        value, cluster = em.variable(self.name), em.reference("cluster_aware")
        for opening, kind in ((f"if {cluster}:", super()), ("else:", self.alone)):
            with em.block(opening):
                em.line(f"{value} = {kind.emit(em)}")
        return value


class DiscoverTopicsResponse(Frame):
    fields_desc = correlated(
        DISCOVER_TOPICS,
        U32("topic_count", "topics"),
        Boolean("cluster_aware", "the broker is a node of a cluster"),
        ListedTopics("topics", "topics"),
    )
    facts = ("request_id", "topic_count")


class DiscoverTopology(Frame):
    fields_desc = correlated(DISCOVER_TOPOLOGY, UInt8("flags", "0"))
    facts = ("request_id",)


class Node(Layer):
    fields_desc = [
        U16("node_id", "number of the node"),
        BitFlags("flags", "state", names=NODE_FLAGS),
        Optional(Endpoint("endpoint", "where it listens"), Bits("flags", 1, 1)),
        U16("partition_count", "partitions it is a replica of"),
    ]


class DiscoverTopologyResponse(Frame):
    """65535 nodes: the broker stands alone."""

    fields_desc = correlated(
        DISCOVER_TOPOLOGY,
        U16("node_count", "nodes; 65535: no cluster"),
        Optional(Text("cluster_name", "name of the cluster", length=UInt8), IsNot("node_count", STAND_ALONE)),
        Optional(Array("nodes", Node, "nodes", count="node_count"), IsNot("node_count", STAND_ALONE)),
    )
    facts = ("request_id", "node_count", "cluster_name")


REQUESTS: dict[int, type[Frame]] = {
    PRODUCE: Produce,
    CONSUME: Consume,
    PING: Ping,
    REGISTER_REPLICA: RegisterReplica,
    PRODUCE_WITH_BASE: ProduceWithBaseSequenceNumber,
    DISCOVER_PARTITIONS: DiscoverPartitions,
    CREATE_TOPIC: CreateTopic,
    RELOAD_CONFIGURATION: ReloadPartitionConfiguration,
    CONSUME_AS_PEER: ConsumeAsPeer,
    STATUS: Status,
    DISCOVER_TOPICS: DiscoverTopics,
    DISCOVER_TOPOLOGY: DiscoverTopology,
}
"""What clients send, by id; brokers send PING of these."""

RESPONSES: dict[int, type[Frame]] = {
    PRODUCE: ProduceResponse,
    CONSUME: ConsumeResponse,
    PING: Ping,
    DISCOVER_PARTITIONS: DiscoverPartitionsResponse,
    CREATE_TOPIC: CreateTopicResponse,
    RELOAD_CONFIGURATION: ReloadPartitionConfigurationResponse,
    CONSUME_AS_PEER: ConsumeAsPeerResponse,
    STATUS: StatusResponse,
    DISCOVER_TOPICS: DiscoverTopicsResponse,
    DISCOVER_TOPOLOGY: DiscoverTopologyResponse,
}
"""What brokers send, by id."""
