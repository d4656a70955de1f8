"""What Liftbridge's servers tell each other to do: protobuf messages nested in others (server/protocol/internal.proto).

A :class:`PropagatedRequest <wiredecode.protocols.liftbridge.layers.PropagatedRequest>` and a Raft log entry
(:class:`RaftLog`) carry the same operations under different numbers.
"""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Kind
from wiredecode.fields.protobuf import (
    Bool,
    Embedded,
    Enum,
    Int32,
    Int64,
    Message,
    Repeated,
    String,
    TimestampNs,
    UInt64,
    message,
)
from wiredecode.protocols.liftbridge.names import ACTIVITY_OPS, OPS

OF_PARTITION = ("shrink_isr_op", "report_leader_op", "expand_isr_op")
OF_STREAM = ("delete_stream_op", "pause_stream_op", "resume_stream_op", "set_stream_readonly_op")
OF_MEMBER = ("join_consumer_group_op", "leave_consumer_group_op", "report_consumer_group_coordinator_op")
"""Fields of a request that hold an operation, by what it is done to."""


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


# Streams and consumer groups as the metadata describes them.


class NullableInt64(Message):
    """Tells 0 (an empty wrapper) from "not set" (no wrapper)."""

    fields_desc = message(Int64(1, "value", "the number; left out: 0"))


class NullableInt32(Message):
    fields_desc = message(Int32(1, "value", "the number; left out: 0"))


class NullableBool(Message):
    fields_desc = message(Bool(1, "value", "left out: false"))


class StreamConfig(Message):
    """Settings of a stream; absent ones are the server's defaults."""

    fields_desc = message(
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
    )


class Partition(Message):
    fields_desc = message(
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


class Stream(Message):
    fields_desc = message(
        String(1, "stream_name", "name of the stream (name in internal.proto)"),
        String(2, "subject", "NATS subject"),
        Repeated(Embedded(3, "partitions", Partition, "its partitions")),
        Embedded(4, "config", StreamConfig, "its settings"),
        TimestampNs(5, "creation_timestamp", "when it was created"),
    )


class Consumer(Message):
    fields_desc = message(String(1, "id", "consumer"), Repeated(String(2, "streams", "streams it consumes")))


class ConsumerGroup(Message):
    fields_desc = message(
        String(1, "id", "consumer group"),
        Repeated(Embedded(2, "members", Consumer, "its consumers")),
        String(3, "coordinator", "server that coordinates it"),
        UInt64(4, "epoch", "epoch of the coordinator"),
    )


# Operations.


class CreateStreamOp(Message):
    fields_desc = message(Embedded(1, "stream", Stream, "the new stream"))


class ShrinkISROp(Message):
    fields_desc = message(
        stream(), partition(), String(3, "replica_to_remove", "server that fell behind"), *leadership(4)
    )


class ExpandISROp(Message):
    fields_desc = message(stream(), partition(), String(3, "replica_to_add", "server that caught up"), *leadership(4))


class DeleteStreamOp(Message):
    fields_desc = message(stream())


class PauseStreamOp(Message):
    fields_desc = message(stream(), partitions(), Bool(3, "resume_all", "a message to one partition resumes all"))


class ResumeStreamOp(Message):
    fields_desc = message(stream(), partitions())


class ReportLeaderOp(Message):
    fields_desc = message(stream(), partition(), String(3, "replica", "server that reports"), *leadership(4))


class ChangeLeaderOp(Message):
    fields_desc = message(stream(), partition(), String(3, "leader", "server that leads from now on"))


class ReportConsumerGroupCoordinatorOp(Message):
    fields_desc = message(
        *member(),
        String(3, "coordinator", "server that does not answer"),
        UInt64(4, "epoch", "its epoch"),
    )


class ChangeConsumerGroupCoordinatorOp(Message):
    fields_desc = message(
        String(1, "group_id", "consumer group"), String(2, "coordinator", "server that coordinates from now on")
    )


class PublishActivityOp(Message):
    fields_desc = message(UInt64(1, "raft_index", "up to where the log was told on the activity stream"))


class SetStreamReadonlyOp(Message):
    fields_desc = message(stream(), partitions(), Bool(3, "readonly", "left out: false"))


class CreateConsumerGroupOp(Message):
    fields_desc = message(Embedded(1, "consumer_group", ConsumerGroup, "the new group"))


class JoinConsumerGroupOp(Message):
    fields_desc = message(*member(), Repeated(String(3, "streams", "streams it consumes")))


class LeaveConsumerGroupOp(Message):
    fields_desc = message(*member(), Bool(3, "expired", "the coordinator gave it up"))


class RaftLog(Message):
    """What a committed entry of the metadata log does. From field 4 on not numbered as in PropagatedRequest."""

    fields_desc = message(
        Enum(1, "op", "operation", names=OPS),
        Embedded(2, "create_stream_op", CreateStreamOp),
        Embedded(3, "shrink_isr_op", ShrinkISROp),
        Embedded(4, "change_leader_op", ChangeLeaderOp),
        Embedded(5, "expand_isr_op", ExpandISROp),
        Embedded(6, "delete_stream_op", DeleteStreamOp),
        Embedded(7, "pause_stream_op", PauseStreamOp),
        Embedded(8, "resume_stream_op", ResumeStreamOp),
        Embedded(9, "publish_activity_op", PublishActivityOp),
        Embedded(10, "set_stream_readonly_op", SetStreamReadonlyOp),
        Embedded(11, "create_consumer_group_op", CreateConsumerGroupOp),
        Embedded(12, "join_consumer_group_op", JoinConsumerGroupOp),
        Embedded(13, "leave_consumer_group_op", LeaveConsumerGroupOp),
        Embedded(14, "change_consumer_group_coordinator_op", ChangeConsumerGroupCoordinatorOp),
    )


class MetadataSnapshot(Message):
    """All metadata, as InstallSnapshot carries it."""

    fields_desc = message(
        Repeated(Embedded(1, "streams", Stream, "all streams")),
        Repeated(Embedded(2, "groups", ConsumerGroup, "all consumer groups")),
    )


# Messages that are values of internal streams (liftbridge-api: api.proto; internal.proto).


class Cursor(Message):
    """Value in the stream ``__cursors``: how far a consumer has come."""

    filter_name = "liftbridge_cursor"
    fields_desc = message(
        stream(),
        partition(),
        String(3, "cursor_id", "name of the cursor"),
        Int64(4, "offset", "offset to go on from; left out: 0"),
    )


class ActivityCreateStreamOp(Message):
    fields_desc = message(stream(), partitions())


class ActivityStreamEvent(Message):
    """Value in the stream ``__activity``: what happened to streams and groups."""

    filter_name = "liftbridge_activity"
    fields_desc = message(
        UInt64(1, "id", "index in the Raft log"),
        Enum(2, "op", "what happened", names=ACTIVITY_OPS),
        Embedded(3, "create_stream_op", ActivityCreateStreamOp),
        Embedded(4, "delete_stream_op", DeleteStreamOp),
        Embedded(5, "pause_stream_op", PauseStreamOp),
        Embedded(6, "resume_stream_op", ResumeStreamOp),
        Embedded(7, "set_stream_readonly_op", SetStreamReadonlyOp),
        Embedded(8, "join_consumer_group_op", JoinConsumerGroupOp),
        Embedded(9, "leave_consumer_group_op", LeaveConsumerGroupOp),
    )
