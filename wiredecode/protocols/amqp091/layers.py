"""Frames as layers, made from the table of methods."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from wiredecode import fields
from wiredecode.data import storable
from wiredecode.fields import Kind
from wiredecode.fields.layer import Added, Layer
from wiredecode.protocols.amqp091 import NAME, names
from wiredecode.protocols.shared.amqp.tables import FieldTable
from wiredecode.protocols.shared.data import data_of

TEXTS = data_of(NAME, "names.toml")
MEANINGS, FACTS, CODED = TEXTS["meanings"], TEXTS["facts"], {"reply_code": names.REPLIES}
CODED |= {"delivery_mode": {1: "transient", 2: "persistent"}}
SECRETS = frozenset({"response", "challenge", "new_secret"})


class EndMark(fields.UInt8):
    """The last byte of each frame."""

    hidden = True


class Padding(fields.Bits):
    """The bits of a byte that no field has."""

    hidden = True


class Amqp(Layer):
    """Base of all frames."""

    fields_desc: ClassVar[Any] = []
    filter_name = NAME
    added = Added.NOTHING


KINDS: dict[str, Callable[[str, str], Kind]] = {
    "octet": fields.UInt8,
    "short": fields.UInt16,
    "long": fields.UInt32,
    "longlong": fields.UInt64,
    "timestamp": fields.Seconds,
    "shortstr": lambda name, doc: fields.Text(name, doc, length=fields.UInt8, free=True),
    "longstr": lambda name, doc: fields.Text(name, doc, length=fields.UInt32),
    "table": FieldTable,
    "bit": fields.Bit,
}
COUNTS = {"octet": fields.UInt8, "short": fields.UInt16}


def kind_of(name: str, type_: str) -> Kind:
    """The kind of one argument or property."""
    doc = MEANINGS.get(name, name.replace("_", " "))
    if name in SECRETS:
        return fields.Binary(name, doc, length=fields.UInt32, secret=True)
    if name in CODED:
        return COUNTS[type_](name, doc, names=CODED[name])
    return KINDS[type_](name, doc)


def begin(frame_type: int, *more: Kind) -> list[Kind]:
    """The fields before the payload."""
    return [
        fields.UInt8("frame_type", "kind of frame", names=names.FRAMES, default=frame_type),
        fields.UInt16("channel", "channel of the connection; 0: the connection itself"),
        fields.UInt32("size", "bytes of the payload", unit="bytes", fill=fields.LengthOf(plus=-1)),
        *more,
    ]


def end() -> Kind:
    return EndMark("end_mark", "last byte of the frame, always 0xCE", default=names.END_MARK)


def arguments(rows: list[list[str]]) -> list[Kind]:
    """Neighbouring bits share a byte, the lowest first."""
    kinds: list[Kind] = []
    bits = 0
    for name, type_ in [*rows, ["", ""]]:
        if type_ != "bit" and bits:
            kinds.append(Padding("unused_bits", 8 - bits, "bits without a meaning", lowest_first=True))
            bits = 0
        bits += type_ == "bit"
        if type_:
            kinds.append(kind_of(name, type_))
    return kinds


@storable
def method_of(code: int) -> type[Amqp]:
    """The layer of a method, by class and method."""
    return METHODS[code]


def _method(number: int, method: int, name: str, rows: list[list[str]]) -> type[Amqp]:
    front = (
        fields.UInt16("class_id", "class of the method", default=number),
        fields.UInt16("method_id", "number of the method in its class", default=method),
    )
    kinds = arguments(rows)
    facts = tuple(kind.name for kind in kinds if kind.name in FACTS["shown"])
    doc = f"Method {number}.{method}."
    return Amqp.declare(
        name,
        *begin(names.METHOD, *front),
        *kinds,
        end(),
        doc=doc,
        facts=facts,
        remade=(method_of, (number << 16 | method,)),
    )


METHODS: dict[int, type[Amqp]] = {
    number << 16 | method: _method(number, method, name, rows)
    for number, method, name, _, _, rows in names.TABLE["methods"]
}


def property_flags(layer: Layer, following: Mapping[str, bytes]) -> int:
    """A bit for each property that is set, the first one the highest."""
    present = (name in layer.fields for name, _ in names.TABLE["properties"])
    return sum(there << (15 - index) for index, there in enumerate(present))


class ContentHeader(Amqp):
    """Size and properties of a message; its bytes follow in frames of their own."""

    fields_desc: ClassVar[Any] = [
        *begin(names.HEADER),
        fields.UInt16("class_id", "class of the method before it", default=names.BASIC),
        fields.UInt16("weight", "always 0"),
        fields.UInt64("body_size", "bytes of the message, in all its frames", unit="bytes"),
        fields.UInt16(
            "property_flags", "which properties follow, the first one is the highest bit", fill=property_flags
        ),
        *(
            fields.Optional(kind_of(*row), fields.When(f"property_flags & {1 << 15 - index} != 0"))
            for index, row in enumerate(names.TABLE["properties"])
        ),
        end(),
    ]
    facts = ("body_size", "content_type", "message_id", "correlation_id")


class ContentBody(Amqp):
    """Bytes of a message."""

    fields_desc: ClassVar[Any] = [
        *begin(names.BODY),
        fields.Binary("body", "bytes of a message, or a part", length="size"),
        end(),
    ]
    facts = ("size",)


class Heartbeat(Amqp):
    """The sender is alive."""

    fields_desc: ClassVar[Any] = [*begin(names.HEARTBEAT), end()]


class ProtocolHeader(Amqp):
    """The first bytes of a client; a server answers with its own to a version that it does not speak."""

    fields_desc: ClassVar[Any] = [
        fields.Text("signature", "always AMQP", length=4, default="AMQP"),
        fields.UInt8("protocol_id", "0 for AMQP 0-9-1"),
        fields.UInt8("version_major", "major version"),
        fields.UInt8("version_minor", "minor version", default=9),
        fields.UInt8("revision", "revision", default=1),
    ]
    facts = ("version_major", "version_minor", "revision")


class UnknownFrame(Amqp):
    """A method that is not in the table, or a frame of another kind."""

    fields_desc: ClassVar[Any] = [
        *begin(names.METHOD),
        fields.Binary("undecided", "its payload", length="size", secret=True),
        end(),
    ]


LAYERS: tuple[type[Amqp], ...] = (
    *METHODS.values(),
    ContentHeader,
    ContentBody,
    Heartbeat,
    ProtocolHeader,
    UnknownFrame,
)
