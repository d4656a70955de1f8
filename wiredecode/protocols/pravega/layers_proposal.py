"""The messages of the protocol proposed for Pravega in 2016 and 2017, which was published but never shipped as written.

It gives no codes: the layers are made for an assignment of codes (``names.PROPOSALS``). Strings and header are those of
the shipped protocol; there is no Hello, no request id, no token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from wiredecode.fields import Flags, Int32, Int64, Kind, Optional, Rest, UInt8, UInt32, Uuid, When
from wiredecode.protocols.pravega.layers import WireMessage, header, segment
from wiredecode.protocols.pravega.names import PARTS, PROPOSALS, SEGMENT_READ_FLAGS


def connection() -> Kind:
    return Uuid("connection_id", "append that was set up, chosen by the client")


def connection_offset(doc: str) -> Kind:
    return Int64("connection_offset", doc, unit="bytes")


def acknowledged() -> Kind:
    return Int64("connection_offset_ack_level", "everything before it is stored", unit="bytes")


def messages() -> dict[str, tuple[tuple[str, ...], list[Any]]]:
    """By name: the fields on a line, and those after the header, as the proposal states them."""
    place = [segment(), Int64("offset", "where to read", unit="bytes")]
    first = Int64("offset", "of the first byte", unit="bytes")
    part = Rest("data", "part of a message, its header included")
    block = Rest("block", "the block, if its bytes are part of this message")
    return {
        "PartialMessage": (("part", "data"), [UInt8("part", "which part", names=PARTS), part]),
        "KeepAlive": (("data",), [Optional(Rest("data", "not interpreted"), When("left"))]),
        "ReadSegment": (
            ("segment", "offset", "suggested_length"),
            [*place, Int32("suggested_length", "how much", unit="bytes")],
        ),
        "SegmentRead": (
            ("segment", "offset", "flags", "data"),
            [
                *(segment(), first, Flags("flags", "two bits; taken from the top", names=SEGMENT_READ_FLAGS)),
                Rest("data", "bytes of the segment"),
            ],
        ),
        "SetupAppend": (("segment",), [connection(), segment()]),
        "AppendSetup": (("segment", "connection_offset_ack_level"), [segment(), connection(), acknowledged()]),
        "BeginAppendBlock": (
            ("connection_offset", "length_before_end"),
            [
                *(connection(), connection_offset("before the block")),
                UInt32("length_before_end", "bytes up to the EndAppendBlock", unit="bytes"),
                Optional(block, When("left")),
            ],
        ),
        "EndAppendBlock": (
            ("connection_offset", "block_length"),
            [
                *(connection(), connection_offset("after the block")),
                UInt32("block_length", "bytes of the events of the block", unit="bytes"),
            ],
        ),
        "Event": (("data",), [Rest("data", "the event")]),
        "DataAppended": (("connection_offset_ack_level",), [connection(), acknowledged()]),
    }


class Begin(WireMessage):
    """A block inside the message is as long as the message says."""

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return "block" not in values or len(values["block"]) == values["length_before_end"]


class Partial(WireMessage):
    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return bool(values["part"] <= MAX_PART)


class Read(WireMessage):
    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return values["flags"] in LEGAL_FLAGS


BASES: dict[str, type[WireMessage]] = {"BeginAppendBlock": Begin, "PartialMessage": Partial, "SegmentRead": Read}
MAX_PART = 3
"""Parts count from 0; from 1 they would end at 3."""
LEGAL_FLAGS = frozenset({0, 0x40, 0x80, 0xC0, 1, 2, 3})
"""Both bits, from either end of the byte."""


def make(dialect: str, code: int) -> type[WireMessage]:
    names = PROPOSALS[dialect]
    facts, fields = messages()[names[code]]
    attributes = {"fields_desc": [*header(code, names), *fields], "facts": facts}
    attributes |= {"type_name": names[code], "__module__": __name__, "remade": (layer_of, (dialect, code))}
    return type(f"Proposed{names[code]}", (BASES.get(names[code], WireMessage),), attributes)


@cache
def proposal(dialect: str) -> Mapping[int, type[WireMessage]]:
    """The layers of a dialect of the proposal, by code."""
    return {code: make(dialect, code) for code in PROPOSALS[dialect]}


def layer_of(dialect: str, code: int) -> type[WireMessage]:
    return proposal(dialect)[code]
