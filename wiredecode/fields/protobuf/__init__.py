"""Protocol buffers as field kinds: messages whose fields come in any order, each with its number in front.

Source: protobuf.dev, "Encoding" and "proto3". A message is a sequence of occurrences::

    tag varint = number << 3 | wire type | value: 0 varint, 1 eight bytes, 2 length varint + bytes, 5 four bytes

A :class:`Message` declares its fields with the kinds below; ordinary kinds may precede them, as the header of an
envelope does. A scalar that is absent has its default in values and records, without a byte range, since proto3 leaves
defaults out; what is ``optional``, repeated, or a message stays absent. Decoders that make no record (``walk``) give
the fields on the wire, and building writes no more. All that has no place in a declaration (unknown numbers, other wire
types, values that a later occurrence replaced) is kept in ``unknown_fields``.

Building gives the very bytes that were dissected: a message remembers the order of its occurrences and how wide each
varint was written, not the bytes. The compiled decoders read what encoders really write: known fields in ascending
order. All other legal orders are left to :meth:`Message.read_tagged`, which is also what Scapy uses.
"""

from wiredecode.fields.protobuf.kinds import Bool as Bool
from wiredecode.fields.protobuf.kinds import Bytes as Bytes
from wiredecode.fields.protobuf.kinds import Embedded as Embedded
from wiredecode.fields.protobuf.kinds import Enum as Enum
from wiredecode.fields.protobuf.kinds import Int32 as Int32
from wiredecode.fields.protobuf.kinds import Int64 as Int64
from wiredecode.fields.protobuf.kinds import Repeated as Repeated
from wiredecode.fields.protobuf.kinds import String as String
from wiredecode.fields.protobuf.kinds import TimestampNs as TimestampNs
from wiredecode.fields.protobuf.kinds import UInt32 as UInt32
from wiredecode.fields.protobuf.kinds import UInt64 as UInt64
from wiredecode.fields.protobuf.messages import Message as Message
from wiredecode.fields.protobuf.messages import message as message
