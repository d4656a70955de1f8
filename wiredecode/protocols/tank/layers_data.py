"""The messages that carry data: Produce (1 and 5), Consume (2) and Consume as peer (9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wiredecode.fields import Array, Flags, Kind, LengthOf, Optional, UInt8, Varint32, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers_base import (
    TankFrame,
    correlated,
    endpoint,
    frame,
    partition,
    request_id,
    sent_by,
    topic,
    topics,
)
from wiredecode.protocols.tank.layers_bundle import Chunks, produced_bundle
from wiredecode.protocols.tank.layers_kinds import U16, U32, U64, HeaderArray, HeaderRest, InHeader

if TYPE_CHECKING:
    pass

# 1 and 5: Produce.


class ProducedBundle(Layer):
    fields_desc = [
        partition(),
        Varint32("bundle_length", "size of the bundle", unit="bytes", fill=LengthOf("bundle")),
        produced_bundle(),
    ]


class NumberedBundle(Layer):
    """The base sequence number lies between the length and the bundle that it measures."""

    fields_desc = [
        partition(),
        Varint32("bundle_length", "size of the bundle", unit="bytes", fill=LengthOf("bundle")),
        U64("base_sequence_number", "number of the first message; the one of a sparse bundle wins"),
        produced_bundle(),
    ]


def produced(element: type[Layer]) -> Kind:
    return Array("partitions", element, "one bundle for each; a partition may come again", count=UInt8)


class ProducedTopic(Layer):
    fields_desc = [topic(), produced(ProducedBundle)]


class NumberedTopic(Layer):
    fields_desc = [topic(), produced(NumberedBundle)]


def produce(message_id: int, element: type[Layer]) -> list[Any]:
    return frame(
        message_id,
        *sent_by(2, "c++"),
        UInt8("required_acks", "cluster: 0 all in-sync replicas, 255 a quorum, else so many besides the leader"),
        U32("ack_timeout", "cluster: how long to wait for them; 0: 8 s", unit="ms"),
        topics(element, "what to store where"),
    )


class Produce(TankFrame):
    """``client_version u16 | request_id u32 | client_id str8 | required_acks u8 | ack_timeout u32 | topics u8 ...``"""

    fields_desc = produce(names.PRODUCE, ProducedTopic)
    facts = ("request_id", "client_id")


class ProduceWithBaseSequenceNumber(TankFrame):
    """Produce of the mirror tool, which keeps the numbers of the origin. The answer has the id of Produce."""

    fields_desc = produce(names.PRODUCE_WITH_BASE, NumberedTopic)
    facts = ("request_id", "client_id")


class ProduceResult(Layer):
    fields_desc = [
        UInt8("result", "outcome", names=names.PRODUCE_RESULTS),
        Optional(endpoint(), When(f"result == {names.REDIRECT}")),
    ]


class ProduceResponse(TankFrame):
    """One result for each partition of the request, in its order; which one it belongs to, only the request tells.

    "unknown topic" and "read-only" stand for all partitions of their topic.
    """

    fields_desc = correlated(names.PRODUCE, Array("results", ProduceResult, "outcomes, without names", count=None))
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


class Consume(TankFrame):
    fields_desc = frame(
        names.CONSUME,
        *sent_by(2, ""),
        U64("max_wait", "how long to wait for data; 0: answer at once", unit="ms"),
        U32("min_bytes", "data worth answering for while waiting", unit="bytes"),
        Optional(
            Flags("options", "how to serve", names=names.CONSUME_OPTIONS), When("client_version not in (0, 1, 2)")
        ),
        topics(WantedTopic, "what to read"),
    )
    facts = ("request_id", "max_wait", "min_bytes")


def data_fields(result: Kind) -> list[Any]:
    without_base = (*names.WITHOUT_DATA, names.SPARSE_FIRST)
    return [
        partition(),
        result,
        Optional(endpoint(), When(f"result == {names.REDIRECT}")),
        Optional(
            U64("base_sequence_number", "of the first message; in empty answers the first available, or 0"),
            When(f"result not in {without_base}"),
        ),
        Optional(U64("high_water_mark", "last committed sequence number"), When(f"result not in {names.WITHOUT_DATA}")),
        Optional(U32("chunk_length", "size of the chunk", unit="bytes"), When(f"result not in {names.WITHOUT_DATA}")),
        Optional(U64("first_available", "first sequence number of the partition"), When(f"result == {names.BOUNDARY}")),
    ]


class ConsumedPartition(Layer):
    fields_desc = data_fields(UInt8("result", "outcome, or what the chunk begins with", names=names.CONSUME_RESULTS))


def consumed(count: Kind, partitions: Kind) -> list[Any]:
    return [
        topic(),
        count,
        Optional(U16("unknown_topic", "65535: the topic is unknown, nothing follows"), When("peek(2) == 0xFFFF")),
        Optional(partitions, When("not has(unknown_topic)")),
    ]


class ConsumedTopic(Layer):
    fields_desc = consumed(
        UInt8("partition_count", "partitions of the topic in this answer"),
        Array("partitions", ConsumedPartition, "what was read", count="partition_count"),
    )


class ConsumeResponse(TankFrame):
    """The header (topics and partitions), then the chunks of the partitions that have one.

    ::

        header_length u32 | request_id u32 | topics u8 { topic, partitions } | chunks
                          |<---------------- header_length ----------------->|
    """

    fields_desc = frame(
        names.CONSUME,
        U32(
            "header_length",
            "bytes that follow up to the chunks",
            unit="bytes",
            fill=LengthOf("request_id", "topics", "header_rest"),
        ),
        request_id(),
        HeaderArray("topics", ConsumedTopic, "what was read", count=UInt8),
        Optional(
            HeaderRest("header_rest", "bytes of the header after the last topic"), When("left_of(header_length) > 0")
        ),
        Chunks("chunks", "data, in the order of the partitions that announce some"),
    )
    facts = ("request_id",)


# 9: replication between nodes.


class PeerTopic(Layer):
    fields_desc = [topic(), Array("partitions", WantedPartition, "where to read", count=U16)]


class ConsumeAsPeer(TankFrame):
    """Consume of a replica: no request id, wider counts. One is outstanding at a time."""

    fields_desc = frame(
        names.CONSUME_AS_PEER,
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


class ConsumeAsPeerResponse(TankFrame):
    """As the answer to Consume, without a request id; after a wait that expired, with four zero bytes in its place."""

    fields_desc = frame(
        names.CONSUME_AS_PEER,
        U32(
            "header_length",
            "bytes that follow up to the chunks",
            unit="bytes",
            fill=LengthOf("stray", "topics", "header_rest"),
        ),
        Optional(
            StrayBytes("stray", "where the answer to Consume has its request id"),
            When("left_of(header_length) >= 6 and peek(2) == 0"),
        ),
        HeaderArray("topics", ConsumedPeerTopic, "what was read", count=U16),
        Optional(
            HeaderRest("header_rest", "bytes of the header after the last topic"), When("left_of(header_length) > 0")
        ),
        Chunks("chunks", "data, in the order of the partitions that announce some"),
    )
