"""The other messages: Ping (3), Register replica (4), topics and partitions (6 to 8), the broker (10 to 12)."""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Array, Boolean, Flags, Kind, LengthOf, Optional, Text, UInt8, Varint32, When
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers_base import TankFrame, correlated, endpoint, frame, partition, topic
from wiredecode.protocols.tank.layers_kinds import U16, U32, U64, Endpoint, Seconds

# 3 and 4.


class Ping(TankFrame):
    """From the broker, once, when it has accepted the connection."""

    fields_desc = frame(names.PING)


class RegisterReplica(TankFrame):
    """Obsolete: brokers close the connection."""

    fields_desc = frame(names.REGISTER_REPLICA, U16("replica_id", "follower that reads"))
    facts = ("replica_id",)


# 6: Discover partitions.


class DiscoverPartitions(TankFrame):
    fields_desc = correlated(
        names.DISCOVER_PARTITIONS,
        topic(),
        Optional(Array("partitions", U16("partitions"), "only these; none: all", count=None), When("left")),
    )
    facts = ("request_id", "topic")


class PartitionState(Layer):
    fields_desc = [
        U64("first_available", "first sequence number; 0 of an empty partition"),
        U64("high_water_mark", "last committed sequence number; 0 of an empty partition"),
        Optional(
            UInt8("reason", "why the numbers are not told", names=names.DISCOVER_REASONS),
            When(f"first_available == high_water_mark == {names.END_OF_LOG}"),
        ),
        Optional(endpoint(), When(f"reason == {names.REDIRECT}")),
    ]


class DiscoverPartitionsResponse(TankFrame):
    """Records without partition ids: of all partitions in order, or of those asked for; disabled ones are left out."""

    fields_desc = correlated(
        names.DISCOVER_PARTITIONS,
        topic(),
        U16("partition_count", "partitions; 0: the topic is unknown"),
        Array("partitions", PartitionState, "state of each", count=None),
    )
    facts = ("request_id", "topic", "partition_count")


# 7 and 8: administration.


class CreateTopic(TankFrame):
    fields_desc = correlated(
        names.CREATE_TOPIC,
        topic(),
        U16("partition_count", "partitions to create"),
        Varint32("configuration_length", "size of the configuration", unit="bytes", fill=LengthOf("configuration")),
        Text("configuration", "lines of key=value", length="configuration_length"),
    )
    facts = ("request_id", "topic", "partition_count")


class CreateTopicResponse(TankFrame):
    fields_desc = correlated(names.CREATE_TOPIC, topic(), UInt8("result", "outcome", names=names.CREATE_RESULTS))
    facts = ("request_id", "topic", "result")


class ReloadPartitionConfiguration(TankFrame):
    fields_desc = correlated(names.RELOAD_CONFIGURATION, topic(), partition())
    facts = ("request_id", "topic", "partition")


class ReloadPartitionConfigurationResponse(TankFrame):
    fields_desc = correlated(
        names.RELOAD_CONFIGURATION, topic(), partition(), UInt8("result", "outcome", names=names.RELOAD_RESULTS)
    )
    facts = ("request_id", "topic", "partition", "result")


# 10 to 12: the broker and its cluster.


class Status(TankFrame):
    fields_desc = correlated(names.STATUS)
    facts = ("request_id",)


class StatusResponse(TankFrame):
    """Older brokers stop after the cluster's fields, or before the release."""

    fields_desc = correlated(
        names.STATUS,
        UInt8("global_flags", "always 0"),
        Boolean("cluster_aware", "the broker is a node of a cluster"),
        U32("topic_count", "topics"),
        U32("partition_count", "partitions"),
        Optional(UInt8("cluster_flags", "always 0"), When("cluster_aware != 0")),
        Optional(Text("cluster_name", "name of the cluster", length=UInt8), When("cluster_aware != 0")),
        Optional(U32("available_nodes", "nodes that can be reached"), When("cluster_aware != 0")),
        Optional(U32("open_partitions", "partitions that are open"), When("left")),
        Optional(U32("open_time", "time spent opening partitions", unit="ms"), When("left")),
        Optional(Seconds("start_time", "when the broker started"), When("left")),
        Optional(U32("release", "major * 100 + minor"), When("left")),
    )
    facts = ("request_id", "topic_count", "partition_count", "cluster_name", "release")


class DiscoverTopics(TankFrame):
    fields_desc = correlated(names.DISCOVER_TOPICS, UInt8("flags", "0"))
    facts = ("request_id",)


def listed_topic(*cluster: Kind) -> list[Any]:
    return [topic(), Boolean("enabled", "the topic can be used"), U16("partition_count", "partitions"), *cluster]


class ListedTopic(Layer):
    fields_desc = listed_topic()


class ReplicatedTopic(Layer):
    """Of a cluster."""

    fields_desc = listed_topic(Optional(UInt8("replication_factor", "nodes that hold a copy"), When("True")))


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
        with em.block(f"if {cluster}:"):
            em.line(f"{value} = {super().emit(em)}")
        with em.block("else:"):
            em.line(f"{value} = {self.alone.emit(em)}")
        return value


class DiscoverTopicsResponse(TankFrame):
    fields_desc = correlated(
        names.DISCOVER_TOPICS,
        U32("topic_count", "topics"),
        Boolean("cluster_aware", "the broker is a node of a cluster"),
        ListedTopics("topics", "topics"),
    )
    facts = ("request_id", "topic_count")


class DiscoverTopology(TankFrame):
    fields_desc = correlated(names.DISCOVER_TOPOLOGY, UInt8("flags", "0"))
    facts = ("request_id",)


class Node(Layer):
    fields_desc = [
        U16("node_id", "number of the node"),
        Flags("flags", "state", names=names.NODE_FLAGS),
        Optional(Endpoint("endpoint", "where it listens"), When("flags & 1 == 1")),
        U16("partition_count", "partitions it is a replica of"),
    ]


class DiscoverTopologyResponse(TankFrame):
    """65535 nodes: the broker stands alone."""

    fields_desc = correlated(
        names.DISCOVER_TOPOLOGY,
        U16("node_count", "nodes; 65535: no cluster"),
        Optional(Text("cluster_name", "name of the cluster", length=UInt8), When(f"node_count != {names.STAND_ALONE}")),
        Optional(Array("nodes", Node, "nodes", count="node_count"), When(f"node_count != {names.STAND_ALONE}")),
    )
    facts = ("request_id", "node_count", "cluster_name")
