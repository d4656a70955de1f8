"""The field kinds: how a message type declares its layout, once.

Every kind is a Scapy field, so a message type is an ordinary Scapy ``Packet`` (a :class:`~wiredecode.layer.Layer`)
whose ``fields_desc`` is made of them. Three readers use the same declarations:

* **Scapy**, through :meth:`Kind.read` and :meth:`Kind.write`: dissect, build, ``show()``;
* the **compiled decoder** (:mod:`wiredecode.fields.compiler`), through :meth:`Kind.emit`: straight-line Python;
* **Wireshark**, through the tables of :mod:`wiredecode.fields.lua`.

Positions are byte offsets into one ``bytes`` object. :meth:`Kind.read` raises :class:`Truncated` if it needs bytes
beyond the end, and :class:`Malformed` for bytes that cannot be the field.
"""

from wiredecode.fields.composition import Array as Array
from wiredecode.fields.composition import Bounded as Bounded
from wiredecode.fields.composition import CountOf as CountOf
from wiredecode.fields.composition import LengthOf as LengthOf
from wiredecode.fields.composition import NullableStruct as NullableStruct
from wiredecode.fields.composition import Optional as Optional
from wiredecode.fields.composition import PresenceOf as PresenceOf
from wiredecode.fields.composition import Struct as Struct
from wiredecode.fields.composition import plain as plain
from wiredecode.fields.kind import AsText as AsText
from wiredecode.fields.kind import FixedBytes as FixedBytes
from wiredecode.fields.kind import Kind as Kind
from wiredecode.fields.kind import Malformed as Malformed
from wiredecode.fields.kind import Truncated as Truncated
from wiredecode.fields.kind import take as take
from wiredecode.fields.numbers import EPOCH as EPOCH
from wiredecode.fields.numbers import Bit as Bit
from wiredecode.fields.numbers import Bits as Bits
from wiredecode.fields.numbers import Boolean as Boolean
from wiredecode.fields.numbers import CompactLength as CompactLength
from wiredecode.fields.numbers import Flags as Flags
from wiredecode.fields.numbers import Float64 as Float64
from wiredecode.fields.numbers import Int8 as Int8
from wiredecode.fields.numbers import Int16 as Int16
from wiredecode.fields.numbers import Int32 as Int32
from wiredecode.fields.numbers import Int64 as Int64
from wiredecode.fields.numbers import Number as Number
from wiredecode.fields.numbers import Seconds as Seconds
from wiredecode.fields.numbers import Time as Time
from wiredecode.fields.numbers import Timestamp as Timestamp
from wiredecode.fields.numbers import TimestampNs as TimestampNs
from wiredecode.fields.numbers import UInt8 as UInt8
from wiredecode.fields.numbers import UInt16 as UInt16
from wiredecode.fields.numbers import UInt24 as UInt24
from wiredecode.fields.numbers import UInt32 as UInt32
from wiredecode.fields.numbers import UInt64 as UInt64
from wiredecode.fields.numbers import Varint as Varint
from wiredecode.fields.numbers import Varint32 as Varint32
from wiredecode.fields.numbers import ZigZag as ZigZag
from wiredecode.fields.numbers import rfc3339_ms as rfc3339_ms
from wiredecode.fields.numbers import rfc3339_ns as rfc3339_ns
from wiredecode.fields.presence import When as When
from wiredecode.fields.sized import OPAQUE as OPAQUE
from wiredecode.fields.sized import Binary as Binary
from wiredecode.fields.sized import Rest as Rest
from wiredecode.fields.sized import Sized as Sized
from wiredecode.fields.sized import Text as Text
from wiredecode.fields.sized import Uuid as Uuid
from wiredecode.fields.sized import printable as printable
from wiredecode.fields.sized import redact as redact
from wiredecode.fields.sized import text as text
