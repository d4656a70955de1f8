"""Operations between Liftbridge's servers: protobuf messages nested in others (server/protocol/internal.proto).

A :class:`PropagatedRequest <wiredecode.protocols.liftbridge.layers.PropagatedRequest>` and a Raft log entry
(:class:`RaftLog`) carry the same operations under different numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wiredecode.fields import Kind
from wiredecode.fields.protobuf import (
    Bool,
    Bytes,
    Embedded,
    Enum,
    Int32,
    Int64,
    Message,
    Repeated,
    String,
    TimestampNs,
    UInt32,
    UInt64,
    message,
)
from wiredecode.protocols.liftbridge.names import ACTIVITY_OPS, GRPC_CODES, OPS

WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a new word begins in the name of a class."""
OF_PARTITION = ("shrink_isr_op", "report_leader_op", "expand_isr_op")
OF_STREAM = ("delete_stream_op", "pause_stream_op", "resume_stream_op", "set_stream_readonly_op")
OF_MEMBER = ("join_consumer_group_op", "leave_consumer_group_op", "report_consumer_group_coordinator_op")
"""Fields of a request that hold an operation, by the object of the operation."""


def structure(name: str, *kinds: Kind, doc: str | None = None, filter_name: str = "") -> type[Message]:
    """The layer of a message of these fields."""
    members = {"fields_desc": message(*kinds), "filter_name": filter_name, "__doc__": doc, "__module__": __name__}
    return type(name, (Message,), members)


def of_each(first: int, *layers: type[Message]) -> Iterator[Kind]:
    """A field for each operation, numbered from ``first`` on: ``shrink_isr_op`` for ``ShrinkISROp``."""
    for number, layer in enumerate(layers, first):
        yield Embedded(number, WORDS.sub("_", layer.__name__).lower(), layer)


def stream(number: int = 1) -> Kind:
    return String(number, "stream", "name of the stream")


def partition(number: int = 2) -> Kind:
    return Int32(number, "partition", "partition of the stream; 0 is left out")


def partitions() -> Kind:
    return Repeated(Int32(2, "partitions", "partitions; none: all"))


def leadership(first: int) -> list[Any]:
    return [
        String(first, "leader", "server that leads the partition"),
        UInt64(first + 1, "leader_epoch", "its epoch"),
    ]


def member() -> list[Any]:
    return [String(1, "group_id", "consumer group"), String(2, "consumer_id", "its member")]


Header = structure(
    "Header", String(1, "key", "name"), Bytes(2, "value", "value"), doc="An entry of a map from string to bytes."
)

# Streams and consumer groups as the metadata describes them.

NullableInt64 = structure(
    "NullableInt64",
    Int64(1, "value", "the number; left out: 0"),
    doc='Distinguishes 0 (an empty wrapper) from "not set" (no wrapper).',
)
NullableInt32 = structure("NullableInt32", Int32(1, "value", "the number; left out: 0"))
NullableBool = structure("NullableBool", Bool(1, "value", "left out: false"))
StreamConfig = structure(
    "StreamConfig",
    Embedded(1, "retention_max_bytes", NullableInt64, "most bytes kept", unit="bytes"),
    Embedded(2, "retention_max_messages", NullableInt64, "most messages kept", unit="messages"),
    Embedded(3, "retention_max_age", NullableInt64, "how long messages are kept", unit="ms"),
    Embedded(4, "cleaner_interval", NullableInt64, "how often retention is applied", unit="ms"),
    Embedded(5, "segment_max_bytes", NullableInt64, "size of a log segment", unit="bytes"),
    Embedded(6, "segment_max_age", NullableInt64, "age at which a segment is rolled", unit="ms"),
    Embedded(7, "compact_max_goroutines", NullableInt32, "parallel compactions"),
    Embedded(8, "compact_enabled", NullableBool, "whether the log is compacted by key"),
    Embedded(9, "auto_pause_time", NullableInt64, "idle time before the stream pauses", unit="ms"),
    Embedded(10, "auto_pause_disable_if_subscribers", NullableBool, "no pause while somebody subscribes"),
    Embedded(11, "min_isr", NullableInt32, "replicas in sync that a commit needs"),
    Embedded(12, "optimistic_concurrency_control", NullableBool, "publishes say the offset they expect"),
    Embedded(13, "encryption", NullableBool, "values are encrypted at rest"),
    doc="Settings of a stream; absent ones are the server's defaults.",
)
Partition = structure(
    "Partition",
    String(1, "subject", "NATS subject"),
    stream(2),
    Int32(3, "id", "number of the partition"),
    String(4, "group", "load-balance group"),
    Int32(5, "replication_factor", "replicas; -1: all servers"),
    Repeated(String(6, "replicas", "servers that hold it")),
    String(7, "leader", "server that leads it"),
    Repeated(String(8, "isr", "servers in sync")),
    UInt64(9, "leader_epoch", "epoch of the leader"),
    UInt64(10, "epoch", "epoch of the partition"),
    Bool(11, "paused", "whether it is paused"),
    Bool(12, "readonly", "whether it takes no messages"),
)
Stream = structure(
    "Stream",
    String(1, "stream_name", "name of the stream (name in internal.proto)"),
    String(2, "subject", "NATS subject"),
    Repeated(Embedded(3, "partitions", Partition, "its partitions")),
    Embedded(4, "config", StreamConfig, "its settings"),
    TimestampNs(5, "creation_timestamp", "when it was created"),
)
Consumer = structure("Consumer", String(1, "id", "consumer"), Repeated(String(2, "streams", "streams it consumes")))
ConsumerGroup = structure(
    "ConsumerGroup",
    String(1, "id", "consumer group"),
    Repeated(Embedded(2, "members", Consumer, "its consumers")),
    String(3, "coordinator", "server that coordinates it"),
    UInt64(4, "epoch", "epoch of the coordinator"),
)


# Operations.

CreateStreamOp = structure("CreateStreamOp", Embedded(1, "stream", Stream, "the new stream"))
ShrinkISROp = structure(
    "ShrinkISROp", stream(), partition(), String(3, "replica_to_remove", "server that fell behind"), *leadership(4)
)
ExpandISROp = structure(
    "ExpandISROp", stream(), partition(), String(3, "replica_to_add", "server that caught up"), *leadership(4)
)
DeleteStreamOp = structure("DeleteStreamOp", stream())
PauseStreamOp = structure(
    "PauseStreamOp", stream(), partitions(), Bool(3, "resume_all", "a message to one partition resumes all")
)
ResumeStreamOp = structure("ResumeStreamOp", stream(), partitions())
ReportLeaderOp = structure(
    "ReportLeaderOp", stream(), partition(), String(3, "replica", "server that reports"), *leadership(4)
)
ChangeLeaderOp = structure(
    "ChangeLeaderOp", stream(), partition(), String(3, "leader", "server that leads from now on")
)
ReportConsumerGroupCoordinatorOp = structure(
    "ReportConsumerGroupCoordinatorOp",
    *member(),
    String(3, "coordinator", "server that does not answer"),
    UInt64(4, "epoch", "its epoch"),
)
ChangeConsumerGroupCoordinatorOp = structure(
    "ChangeConsumerGroupCoordinatorOp",
    String(1, "group_id", "consumer group"),
    String(2, "coordinator", "server that coordinates from now on"),
)
PublishActivityOp = structure(
    "PublishActivityOp", UInt64(1, "raft_index", "index up to which the log was published on the activity stream")
)
SetStreamReadonlyOp = structure("SetStreamReadonlyOp", stream(), partitions(), Bool(3, "readonly", "left out: false"))
CreateConsumerGroupOp = structure(
    "CreateConsumerGroupOp", Embedded(1, "consumer_group", ConsumerGroup, "the new group")
)
JoinConsumerGroupOp = structure("JoinConsumerGroupOp", *member(), Repeated(String(3, "streams", "streams it consumes")))
LeaveConsumerGroupOp = structure("LeaveConsumerGroupOp", *member(), Bool(3, "expired", "the coordinator gave it up"))
RaftLog = structure(
    "RaftLog",
    Enum(1, "op", "operation", names=OPS),
    *of_each(2, CreateStreamOp, ShrinkISROp, ChangeLeaderOp, ExpandISROp, DeleteStreamOp, PauseStreamOp),
    *of_each(8, ResumeStreamOp, PublishActivityOp, SetStreamReadonlyOp, CreateConsumerGroupOp, JoinConsumerGroupOp),
    *of_each(13, LeaveConsumerGroupOp, ChangeConsumerGroupCoordinatorOp),
    doc="Operation of a committed entry of the metadata log. From field 4 on not numbered as in PropagatedRequest.",
)
Error = structure("Error", UInt32(1, "code", "status code of gRPC", names=GRPC_CODES), String(2, "msg", "in words"))
JoinConsumerGroupResponse = structure(
    "JoinConsumerGroupResponse",
    String(1, "coordinator", "server that coordinates the group"),
    UInt64(2, "epoch", "its epoch"),
)
MetadataSnapshot = structure(
    "MetadataSnapshot",
    Repeated(Embedded(1, "streams", Stream, "all streams")),
    Repeated(Embedded(2, "groups", ConsumerGroup, "all consumer groups")),
    doc="All metadata, as InstallSnapshot carries it.",
)


# Messages that are values of internal streams (liftbridge-api: api.proto; internal.proto).

Cursor = structure(
    "Cursor",
    stream(),
    partition(),
    String(3, "cursor_id", "name of the cursor"),
    Int64(4, "offset", "offset to continue from; left out: 0"),
    filter_name="liftbridge_cursor",
    doc="Value in the stream ``__cursors``: how far a consumer has come.",
)
ActivityCreateStreamOp = structure("ActivityCreateStreamOp", stream(), partitions())
ActivityStreamEvent = structure(
    "ActivityStreamEvent",
    UInt64(1, "id", "index in the Raft log"),
    Enum(2, "op", "what happened", names=ACTIVITY_OPS),
    Embedded(3, "create_stream_op", ActivityCreateStreamOp),
    *of_each(4, DeleteStreamOp, PauseStreamOp, ResumeStreamOp, SetStreamReadonlyOp),
    *of_each(8, JoinConsumerGroupOp, LeaveConsumerGroupOp),
    filter_name="liftbridge_activity",
    doc="Value in the stream ``__activity``: what happened to streams and groups.",
)
