"""Liftbridge's protobuf messages, declared in ``layers.proto``: payloads of envelopes, and operations nested in them.

A :class:`PropagatedRequest <wiredecode.protocols.liftbridge.layers.PropagatedRequest>` and a Raft log entry
(``RaftLog``) carry the same operations under different numbers. ``Cursor`` and ``ActivityStreamEvent`` are values of
internal streams.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from wiredecode.data import storable
from wiredecode.fields import Kind
from wiredecode.fields import protobuf as pb
from wiredecode.protocols.liftbridge import names

KINDS = (pb.Bool, pb.Bytes, pb.String, pb.Int32, pb.Int64, pb.UInt32, pb.UInt64)
SCALARS: dict[str, Any] = {"time": pb.TimestampNs, **{kind.__name__.lower(): kind for kind in KINDS}}
NAMES = {"Op": names.OPS, "ActivityOp": names.ACTIVITY_OPS, "AckPolicy": names.ACK_POLICIES}
NAMES |= {"AckError": names.ACK_ERRORS, "GrpcCode": names.GRPC_CODES}
"""Enumerations by their type."""
MESSAGE = re.compile(r"(?:// (.*)\n)?message (\w+) \{\n((?:  .*\n)*)\}")
FIELD = re.compile(r"  (optional )?(repeated )?(\w+) (\w+) = (\d+);(?:  // (.*?)(?: \[(\w+)\])?)?$", re.MULTILINE)
DECLARED = {
    name: (doc, fields) for doc, name, fields in MESSAGE.findall(Path(__file__).with_name("layers.proto").read_text())
}
"""By name of the message: its meaning, and the lines of its fields."""
FILTER_NAMES = {"Cursor": "liftbridge_cursor", "ActivityStreamEvent": "liftbridge_activity"}
OF_PARTITION = ("shrink_isr_op", "report_leader_op", "expand_isr_op")
OF_STREAM = ("delete_stream_op", "pause_stream_op", "resume_stream_op", "set_stream_readonly_op")
OF_MEMBER = ("join_consumer_group_op", "leave_consumer_group_op", "report_consumer_group_coordinator_op")
"""Fields of a request that hold an operation, by the object of the operation."""


def fields_of(name: str) -> list[Any]:
    kinds = [kind_of(*parts) for parts in FIELD.findall(DECLARED[name][1])]
    if name == "Header":
        kinds[1].named_by = "key"
    return kinds


def kind_of(optional: str, repeated: str, kind: str, name: str, number: str, doc: str, unit: str) -> Kind:
    """A field from the parts of its line."""
    more: dict[str, Any] = {"optional": True} if optional else {}
    declared: Any
    if kind in SCALARS:
        declared = SCALARS[kind](int(number), name, doc, unit=unit, **more)
    elif kind in NAMES:
        declared = (pb.UInt32 if kind == "GrpcCode" else pb.Enum)(int(number), name, doc, names=NAMES[kind])
    else:
        declared = pb.Embedded(int(number), name, layer_of(kind), doc, unit=unit)
    return pb.Repeated(declared) if repeated else declared


@storable
@cache
def layer_of(name: str) -> type[pb.Message]:
    """The layer of a message that is not the payload of an envelope."""
    fields, doc, filter_name = pb.message(*fields_of(name)), DECLARED[name][0] or None, FILTER_NAMES.get(name, "")
    return pb.Message.declare(name, *fields, doc=doc, filter_name=filter_name, remade=(layer_of, (name,)))


RaftLog, MetadataSnapshot = layer_of("RaftLog"), layer_of("MetadataSnapshot")
Cursor, ActivityStreamEvent = layer_of("Cursor"), layer_of("ActivityStreamEvent")
