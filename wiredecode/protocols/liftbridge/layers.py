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

from typing import Any, ClassVar

from wiredecode.fields import OPAQUE, Flags, Int64, Optional, Rest, UInt8, UInt64, When
from wiredecode.fields.protobuf import Message, message
from wiredecode.protocols.liftbridge import NAME, names
from wiredecode.protocols.liftbridge import layers_operations as operations
from wiredecode.protocols.liftbridge.layers_operations import DECLARED, fields_of
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
            Extension("extension", "further bytes of the header", **OPAQUE),
            When(f"header_length > {LONG_HEADER} or header_length > {SHORT_HEADER} and not has(crc)"),
        ),
    ]


def envelope(message_type: int, *facts: str, **members: Any) -> type[Envelope]:
    """The layer of an envelope with a protobuf message; lines show all fields, or ``facts``."""
    name = names.MESSAGE_TYPES[message_type]
    fields = fields_of(name)
    facts, kinds = facts or tuple(kind.name for kind in fields), message(*header(message_type), *fields)
    return Envelope.declare(name, *kinds, doc=DECLARED[name][0] or None, facts=facts, **members)


class Unknown(Envelope):
    """An envelope of a type or version this package does not know."""

    fields_desc = [*header(0xFF), Rest("body", "everything after the header", **OPAQUE)]
    facts = ("version", "message_type")


# Left out of a Publish, stream, partition and time are not 0 or empty but unset: the subject contains stream and
# partition, the server has its own clock.
Publish = envelope(0, "stream", "subject", "key", "value", "correlation_id", "ack_policy")
Ack = envelope(1, "stream", "msg_subject", "offset", "correlation_id", "ack_policy", "ack_error")
ReplicationRequest = envelope(2)


class ReplicationResponse(Envelope):
    """The leader's answer, not protobuf: see :mod:`wiredecode.protocols.liftbridge.layers_replication`."""

    fields_desc = [
        *header(3),
        UInt64("leader_epoch", "epoch of the leader"),
        Int64("high_watermark", "newest committed offset; -1: none"),
        Entries("entries", "messages of the log"),
        Optional(Rest("surplus", "bytes too few for an entry: followers ignore them", **OPAQUE), When("left")),
    ]
    facts = ("leader_epoch", "high_watermark", "entries")


RaftJoinRequest, RaftJoinResponse = envelope(4), envelope(5)
LeaderEpochOffsetRequest, LeaderEpochOffsetResponse = envelope(6), envelope(7)
PropagatedRequest = envelope(
    8,
    "op",
    "create_stream_op.stream.stream_name",
    *(f"{op}.{name}" for op in operations.OF_PARTITION for name in ("stream", "partition")),
    *(f"{op}.stream" for op in operations.OF_STREAM),
    "shrink_isr_op.replica_to_remove",
    "expand_isr_op.replica_to_add",
    "report_leader_op.replica",
    *(f"{op}.{name}" for op in operations.OF_MEMBER for name in ("group_id", "consumer_id")),
    shown_defaults=frozenset({"op"}),
)
PropagatedResponse = envelope(9, "op", "error.code", "error.msg", shown_defaults=frozenset({"op"}))
ServerInfoRequest, ServerInfoResponse = envelope(10), envelope(11)
PartitionStatusRequest, PartitionStatusResponse = envelope(12), envelope(13)
PartitionNotification = envelope(14)

LAYERS: dict[int, type[Envelope]] = {
    layer().message_type: layer for layer in Envelope.__subclasses__() if layer is not Unknown
}
"""By message type."""
