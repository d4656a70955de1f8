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
from wiredecode.fields.protobuf import UInt64 as PbUInt64
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge import layers_operations as operations
from wiredecode.protocols.liftbridge.layers_operations import of_each, partition, stream
from wiredecode.protocols.liftbridge.layers_replication import (
    CRC_FLAG,
    LONG_HEADER,
    SHORT_HEADER,
    Entries,
    Extension,
    Hex32,
)


class Envelope(Message):
    """Base of all envelopes: fields of a one-line summary are in ``facts``."""

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


def envelope(
    message_type: int, *fields: Kind, facts: tuple[str, ...] = (), doc: str | None = None, **members: Any
) -> type[Envelope]:
    """The layer of an envelope with a protobuf message of these fields; lines show all fields, or ``facts``."""
    shown = facts or tuple(kind.name for kind in fields)
    members |= {"fields_desc": message(*header(message_type), *fields), "facts": shown, "__doc__": doc}
    return type(names.MESSAGE_TYPES[message_type], (Envelope,), members)


class Unknown(Envelope):
    """An envelope of a type or version this package does not know."""

    fields_desc = [*header(0xFF), Rest("body", "everything after the header")]
    facts = ("version", "message_type")


# Left out of a Publish, stream, partition and time are not 0 or empty but unset: the subject contains stream and
# partition, the server has its own clock.
Publish = envelope(
    0,
    PbInt64(1, "offset", "offset the publisher expects it to get; -1: any"),
    Bytes(2, "key", "key"),
    Bytes(3, "value", "value"),
    TimestampNs(4, "timestamp", "normally unset: the server stamps its own", optional=True),
    String(5, "stream", "name of the stream, where a server says it", optional=True),
    PbInt32(6, "partition", "normally unset: the subject determines it", optional=True),
    String(7, "subject", "NATS subject, where a server says it", optional=True),
    String(8, "reply_subject", "normally unset", optional=True),
    Repeated(Embedded(9, "headers", operations.Header, "headers, in no order")),
    String(10, "ack_inbox", "subject for the ack; empty: none wanted"),
    String(11, "correlation_id", "repeated in the ack"),
    Enum(12, "ack_policy", "when to ack; left out: LEADER", names=names.ACK_POLICIES),
    facts=("stream", "subject", "key", "value", "correlation_id", "ack_policy"),
    doc="proto.Message: a message to be stored in the partitions attached to its NATS subject.",
)
Ack = envelope(
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
    facts=("stream", "msg_subject", "offset", "correlation_id", "ack_policy", "ack_error"),
    doc="proto.Ack: a message was stored, or refused.",
)
ReplicationRequest = envelope(
    2,
    String(1, "replica_id", "server that asks"),
    PbInt64(2, "offset", "newest offset it has; -1: none, left out: 0"),
    PbUInt64(3, "leader_epoch", "epoch it follows; 0: not checked"),
    doc="A follower asks for what comes after its newest offset, and acknowledges what it has.",
)


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


RaftJoinRequest = envelope(
    4,
    String(1, "node_id", "server that joins"),
    String(2, "node_addr", "its address: the id again"),
    doc="A server wants to join the metadata group.",
)
RaftJoinResponse = envelope(5, String(1, "error", "why it may not join; left out: it joined"))
LeaderEpochOffsetRequest = envelope(
    6,
    PbUInt64(1, "leader_epoch", "the epoch; left out: 0"),
    doc="A follower asks where an epoch ended, to cut its log there.",
)
LeaderEpochOffsetResponse = envelope(7, PbInt64(1, "end_offset", "last offset of the epoch; left out: 0"))
PropagatedRequest = envelope(
    8,
    Enum(1, "op", "operation; left out: CREATE_STREAM", names=names.OPS),
    *of_each(2, operations.CreateStreamOp, operations.ShrinkISROp, operations.ReportLeaderOp, operations.ExpandISROp),
    *of_each(6, operations.DeleteStreamOp, operations.PauseStreamOp, operations.ResumeStreamOp),
    *of_each(9, operations.SetStreamReadonlyOp, operations.JoinConsumerGroupOp, operations.LeaveConsumerGroupOp),
    *of_each(12, operations.ReportConsumerGroupCoordinatorOp),
    facts=(
        *("op", "create_stream_op.stream.stream_name"),
        *(f"{op}.{name}" for op in operations.OF_PARTITION for name in ("stream", "partition")),
        *(f"{op}.stream" for op in operations.OF_STREAM),
        *("shrink_isr_op.replica_to_remove", "expand_isr_op.replica_to_add", "report_leader_op.replica"),
        *(f"{op}.{name}" for op in operations.OF_MEMBER for name in ("group_id", "consumer_id")),
    ),
    shown_defaults=frozenset({"op"}),
    doc="An operation handed to the metadata leader. From field 4 on not numbered as in RaftLog.",
)
PropagatedResponse = envelope(
    9,
    Enum(1, "op", "operation; left out: CREATE_STREAM", names=names.OPS),
    Embedded(2, "error", operations.Error, "why it was refused"),
    Embedded(11, "join_consumer_group_resp", operations.JoinConsumerGroupResponse),
    facts=("op", "error.code", "error.msg"),
    shown_defaults=frozenset({"op"}),
)
ServerInfoRequest = envelope(
    10, String(1, "id", "server that asks"), doc="A server asks all others for their client addresses."
)
ServerInfoResponse = envelope(
    11,
    String(1, "id", "server that answers"),
    String(2, "host", "its address for clients"),
    PbInt32(3, "port", "its port for clients"),
)
PartitionStatusRequest = envelope(12, stream(1), partition())
PartitionStatusResponse = envelope(
    13,
    Bool(1, "exists", "whether the server has the partition; left out: false"),
    Bool(2, "is_leader", "whether it leads it; left out: false"),
)
PartitionNotification = envelope(14, stream(1), partition(), doc="The leader has new messages for an idle follower.")

LAYERS: dict[int, type[Envelope]] = {
    layer().message_type: layer for layer in Envelope.__subclasses__() if layer is not Unknown
}
"""By message type."""
