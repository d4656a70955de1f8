"""The messages of Liftbridge's envelope protocol, in the order of their types.

Source: liftbridge's documentation/envelope_protocol.md, server/protocol (envelope.go, internal.proto) and
liftbridge-api's api.proto. The envelope is the start of a NATS payload and has no length: it ends where that ends::

     0      4        5              6      7             8
    +------+--------+--------------+------+-------------+-------------+----------------+---------
    |magic |version |header_length |flags |message_type |crc (flag 1) |(extension)     |payload
    +------+--------+--------------+------+-------------+-------------+----------------+---------
     B90E43B4        8, or 12 with crc                                                 header_length

The payload is a protobuf message, but for ReplicationResponse. The CRC-32C covers the payload. Integers of the envelope
are big-endian.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wiredecode.fields import Flags, Int64, Kind, Optional, Rest, UInt8, UInt64, When
from wiredecode.fields.protobuf import Bool, Bytes, Embedded, Enum, Message, Repeated, String, TimestampNs, message
from wiredecode.fields.protobuf import Int32 as PbInt32
from wiredecode.fields.protobuf import Int64 as PbInt64
from wiredecode.fields.protobuf import UInt32 as PbUInt32
from wiredecode.fields.protobuf import UInt64 as PbUInt64
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge import layers_operations as operations
from wiredecode.protocols.liftbridge.layers_operations import partition, stream
from wiredecode.protocols.liftbridge.layers_replication import (
    CRC_FLAG,
    LONG_HEADER,
    SHORT_HEADER,
    Entries,
    Extension,
    Hex32,
)


class Envelope(Message):
    """Base of all: what a one-line summary shows stands in ``facts``."""

    filter_name = NAME
    facts: ClassVar[tuple[str, ...]] = ()


def header(message_type: int) -> list[Any]:
    return [
        Hex32("magic", "constant", default=int.from_bytes(names.MAGIC, "big")),
        UInt8("version", "version of the envelope"),
        UInt8("header_length", "where the payload starts", unit="bytes", default=SHORT_HEADER),
        Flags("flags", "what the header holds", names=names.FLAGS),
        UInt8("message_type", "what the payload is", names=names.MESSAGE_TYPES, default=message_type),
        Optional(
            Hex32("crc", "CRC-32C of the payload"), When(f"flags & {CRC_FLAG} and header_length >= {LONG_HEADER}")
        ),
        Optional(
            Extension("extension", "further bytes of the header"),
            When(f"header_length > {LONG_HEADER} or header_length > {SHORT_HEADER} and not has(crc)"),
        ),
    ]


def envelope(message_type: int, *fields: Kind) -> list[Any]:
    """An envelope with a protobuf message of these fields."""
    return message(*header(message_type), *fields)


class Unknown(Envelope):
    """An envelope of a type or version this package does not know."""

    fields_desc = [*header(0xFF), Rest("body", "everything after the header")]
    facts = ("version", "message_type")


class Header(Message):
    """An entry of a map from string to bytes."""

    fields_desc = message(String(1, "key", "name"), Bytes(2, "value", "value"))


class Publish(Envelope):
    """proto.Message: a message to be stored in the partitions attached to its NATS subject.

    That subject tells stream and partition, and the server its time: left out, these are not 0 or empty but not said.
    """

    fields_desc = envelope(
        0,
        PbInt64(1, "offset", "offset the publisher expects it to get; -1: any"),
        Bytes(2, "key", "key"),
        Bytes(3, "value", "value"),
        TimestampNs(4, "timestamp", "normally unset: the server stamps its own", optional=True),
        String(5, "stream", "name of the stream, where a server says it", optional=True),
        PbInt32(6, "partition", "normally unset: the subject tells", optional=True),
        String(7, "subject", "NATS subject, where a server says it", optional=True),
        String(8, "reply_subject", "normally unset", optional=True),
        Repeated(Embedded(9, "headers", Header, "headers, in no order")),
        String(10, "ack_inbox", "subject for the ack; empty: none wanted"),
        String(11, "correlation_id", "repeated in the ack"),
        Enum(12, "ack_policy", "when to ack; left out: LEADER", names=names.ACK_POLICIES),
    )
    facts = ("stream", "subject", "key", "value", "correlation_id", "ack_policy")


class Ack(Envelope):
    """proto.Ack: a message was stored, or refused."""

    fields_desc = envelope(
        1,
        stream(1),
        String(2, "partition_subject", "subject of the stream"),
        String(3, "msg_subject", "subject the message came on"),
        PbInt64(4, "offset", "offset it got; left out: 0"),
        String(5, "ack_inbox", "subject of the ack"),
        String(6, "correlation_id", "of the message"),
        Enum(7, "ack_policy", "left out: LEADER", names=names.ACK_POLICIES),
        TimestampNs(8, "reception_timestamp", "when the leader received it"),
        TimestampNs(9, "commit_timestamp", "when it was committed"),
        Enum(10, "ack_error", "why it was refused; left out: OK", names=names.ACK_ERRORS),
    )
    facts = ("stream", "msg_subject", "offset", "correlation_id", "ack_policy", "ack_error")


class ReplicationRequest(Envelope):
    """A follower asks for what comes after its newest offset, and acknowledges what it has."""

    fields_desc = envelope(
        2,
        String(1, "replica_id", "server that asks"),
        PbInt64(2, "offset", "newest offset it has; -1: none, left out: 0"),
        PbUInt64(3, "leader_epoch", "epoch it follows; 0: not checked"),
    )
    facts = ("replica_id", "offset", "leader_epoch")


class ReplicationResponse(Envelope):
    """The leader's answer, not protobuf: see :mod:`wiredecode.protocols.liftbridge.layers_replication`."""

    fields_desc = [
        *header(3),
        UInt64("leader_epoch", "epoch of the leader"),
        Int64("high_watermark", "newest committed offset; -1: none"),
        Entries("entries", "messages of the log"),
        Optional(Rest("surplus", "bytes too few for an entry: followers ignore them"), When("left")),
    ]
    facts = ("leader_epoch", "high_watermark", "entries")


class RaftJoinRequest(Envelope):
    """A server wants to join the metadata group."""

    fields_desc = envelope(
        4, String(1, "node_id", "server that joins"), String(2, "node_addr", "its address: the id again")
    )
    facts = ("node_id", "node_addr")


class RaftJoinResponse(Envelope):
    fields_desc = envelope(5, String(1, "error", "why it may not join; left out: it joined"))
    facts = ("error",)


class LeaderEpochOffsetRequest(Envelope):
    """A follower asks where an epoch ended, to cut its log there."""

    fields_desc = envelope(6, PbUInt64(1, "leader_epoch", "the epoch; left out: 0"))
    facts = ("leader_epoch",)


class LeaderEpochOffsetResponse(Envelope):
    fields_desc = envelope(7, PbInt64(1, "end_offset", "last offset of the epoch; left out: 0"))
    facts = ("end_offset",)


class PropagatedRequest(Envelope):
    """An operation handed to the metadata leader. From field 4 on not numbered as in RaftLog."""

    fields_desc = envelope(
        8,
        Enum(1, "op", "operation; left out: CREATE_STREAM", names=names.OPS),
        Embedded(2, "create_stream_op", operations.CreateStreamOp),
        Embedded(3, "shrink_isr_op", operations.ShrinkISROp),
        Embedded(4, "report_leader_op", operations.ReportLeaderOp),
        Embedded(5, "expand_isr_op", operations.ExpandISROp),
        Embedded(6, "delete_stream_op", operations.DeleteStreamOp),
        Embedded(7, "pause_stream_op", operations.PauseStreamOp),
        Embedded(8, "resume_stream_op", operations.ResumeStreamOp),
        Embedded(9, "set_stream_readonly_op", operations.SetStreamReadonlyOp),
        Embedded(10, "join_consumer_group_op", operations.JoinConsumerGroupOp),
        Embedded(11, "leave_consumer_group_op", operations.LeaveConsumerGroupOp),
        Embedded(12, "report_consumer_group_coordinator_op", operations.ReportConsumerGroupCoordinatorOp),
    )
    facts = (
        *("op", "create_stream_op.stream.stream_name"),
        *(f"{op}.{name}" for op in operations.OF_PARTITION for name in ("stream", "partition")),
        *(f"{op}.stream" for op in operations.OF_STREAM),
        *("shrink_isr_op.replica_to_remove", "expand_isr_op.replica_to_add", "report_leader_op.replica"),
        *(f"{op}.{name}" for op in operations.OF_MEMBER for name in ("group_id", "consumer_id")),
    )
    shown_defaults = frozenset({"op"})


class Error(Message):
    fields_desc = message(
        PbUInt32(1, "code", "status code of gRPC", names=names.GRPC_CODES), String(2, "msg", "in words")
    )


class JoinConsumerGroupResponse(Message):
    fields_desc = message(
        String(1, "coordinator", "server that coordinates the group"), PbUInt64(2, "epoch", "its epoch")
    )


class PropagatedResponse(Envelope):
    fields_desc = envelope(
        9,
        Enum(1, "op", "operation; left out: CREATE_STREAM", names=names.OPS),
        Embedded(2, "error", Error, "why it was refused"),
        Embedded(11, "join_consumer_group_resp", JoinConsumerGroupResponse),
    )
    facts = ("op", "error.code", "error.msg")
    shown_defaults = frozenset({"op"})


class ServerInfoRequest(Envelope):
    """A server asks all others for their client addresses."""

    fields_desc = envelope(10, String(1, "id", "server that asks"))
    facts = ("id",)


class ServerInfoResponse(Envelope):
    fields_desc = envelope(
        11,
        String(1, "id", "server that answers"),
        String(2, "host", "its address for clients"),
        PbInt32(3, "port", "its port for clients"),
    )
    facts = ("id", "host", "port")


class PartitionStatusRequest(Envelope):
    fields_desc = envelope(12, stream(1), partition())
    facts = ("stream", "partition")


class PartitionStatusResponse(Envelope):
    fields_desc = envelope(
        13,
        Bool(1, "exists", "whether the server has the partition; left out: false"),
        Bool(2, "is_leader", "whether it leads it; left out: false"),
    )
    facts = ("exists", "is_leader")


class PartitionNotification(Envelope):
    """The leader has new messages for an idle follower."""

    fields_desc = envelope(14, stream(1), partition())
    facts = ("stream", "partition")


LAYERS: dict[int, type[Envelope]] = {
    layer().message_type: layer for layer in Envelope.__subclasses__() if layer is not Unknown
}
"""By message type."""
