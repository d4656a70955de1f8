"""Different layouts of releases before 2018, and messages that were given up.

A layout here is tried only where today's does not fit the bytes: see ``evidence``. "Early" is traffic from before
April 2017, without request ids; until May 2017 there was no Hello. Until November 2016 five messages had other codes.

The protocol proposed for Pravega in 2016 and 2017 was published but never shipped as written. It gives no codes: its
layers are made for an assignment of codes (``names.PROPOSALS``). Strings and header are those of the shipped protocol;
there is no Hello, no request id, no token.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from wiredecode.data import storable
from wiredecode.fields import Boolean, Flags, Int32, Int64, Kind, Optional, Rest, Timestamp, UInt8, UInt32, Uuid, When
from wiredecode.fields.layer import Facts, fact_names
from wiredecode.protocols.pravega.layers import (
    AppendSetup,
    WireMessage,
    bare,
    blob,
    event_number,
    header,
    message,
    offset,
    segment,
    segment_bytes,
    segment_info,
    stack_trace,
    token,
    writer,
)
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.names import PARTS, PROPOSALS, SEGMENT_READ_FLAGS, TYPES, TYPES_2016_07


def connection() -> Kind:
    return Uuid("connection_id", "writer, chosen by the client")


def older(
    code: int, *fields: Kind, facts: Facts = 3, suffix: str = "Early", doc: str | None = None
) -> type[WireMessage]:
    """A message as it was before it had a request id, or before its code changed."""
    names = TYPES_2016_07 if suffix == "2016" else TYPES
    remade = older_layer, (code, names[code] + suffix)
    return bare(code, *fields, facts=facts, suffix=suffix, doc=doc, names=names, remade=remade)


def given_up(code: int, *fields: Kind, facts: Facts = 1) -> type[WireMessage]:
    """A message with request id that is no longer used."""
    return message(code, *fields, facts=facts, remade=(older_layer, (code, TYPES[code])))


@storable
def older_layer(code: int, name: str) -> type[WireMessage]:
    """The layer of that name among those of a code."""
    return next(layer for layer in OLDER[code] if layer.__name__ == name)


def transaction_id() -> Kind:
    return Uuid("transaction_id", "which transaction")


def transaction_info() -> list[Any]:
    return [
        segment(),
        transaction_id(),
        segment("transaction_name", "segment of the transaction"),
        Boolean("exists", "whether there is such a transaction"),
        Boolean("is_sealed", "whether it is closed for appends"),
        Timestamp("last_modified", "time of the last change"),
        offset("write_offset", "length of its segment"),
    ]


LAYOUTS = (
    older(1, connection(), segment(), facts=("segment",)),
    older(2, segment(), connection(), AppendSetup.fields_desc[-1], facts=("segment", "last_event_number")),
    older(
        4,
        connection(),
        event_number("last_event_number", "number of the last event of the block"),
        Int32("size_of_whole_events", "bytes of the block that are whole appends", unit="bytes"),
        blob("data", "rest of the append that the block cut"),
        facts=("last_event_number",),
        doc="Without the number of events, until May 2017.",
    ),
    older(
        5,
        writer(),
        event_number(),
        offset("expected_offset", "length the segment must have"),
        blob("data", "stored as it is"),
        facts=("event_number", "expected_offset"),
        doc="Wire versions up to 4: the bytes to store, with their length.",
    ),
    older(5, writer(), event_number(), suffix="2016"),
    older(
        6,
        segment(),
        offset("offset", "where to read"),
        Int32("suggested_length", "how much", unit="bytes"),
        suffix="2016",
    ),
    older(7, *segment_bytes(), suffix="2016"),
    older(8, segment("segment_name"), suffix="2016"),
    older(9, *segment_info(), suffix="2016"),
    older(11, segment("segment_name")),
    older(12, *segment_info()),
    *(given_up(13, segment(), transaction_id()), older(13, segment(), transaction_id())),
    given_up(14, *transaction_info(), facts=("segment", "exists", "is_sealed")),
    older(14, *transaction_info()),
    *(older(code, segment()) for code in (20, 21, 28, 29, 30, 31, 51, 52, 53)),
    *(made(code, segment(), transaction_id()) for code in range(22, 28) for made in (given_up, older)),
    older(50, segment(), JavaText("correct_host", "who serves the segment")),
    *(given_up(54, segment()), older(54, segment())),
    older(
        55,
        writer(),
        event_number("event_number", "number that was refused"),
        stack_trace(),
        facts=("event_number",),
        doc="Wire versions 1 to 15.",
    ),
    given_up(72, segment("target"), segment("source"), token(), facts=2),
    given_up(73, segment(), token()),
)
OLDER: dict[int, tuple[type[WireMessage], ...]] = {}
for _layer in LAYOUTS:
    _code = _layer.fields_desc[0].default
    OLDER[_code] = (*OLDER.get(_code, ()), _layer)
"""Older layouts by code, in the order in which they are tried."""


def appending() -> Kind:
    return Uuid("connection_id", "append that was set up, chosen by the client")


def connection_offset(doc: str) -> Kind:
    return Int64("connection_offset", doc, unit="bytes")


def acknowledged() -> Kind:
    return Int64("connection_offset_ack_level", "everything before it is stored", unit="bytes")


def messages() -> dict[str, tuple[Facts, list[Any]]]:
    """By name: the fields on a line, and those after the header, as the proposal states them."""
    segment_offset = [segment(), Int64("offset", "where to read", unit="bytes")]
    first = Int64("offset", "of the first byte", unit="bytes")
    flags = Flags("flags", "two bits; taken from the top", names=SEGMENT_READ_FLAGS)
    part = Rest("data", "part of a message, its header included")
    block = Rest("block", "the block, if its bytes are part of this message")
    to_end = UInt32("length_before_end", "bytes up to the EndAppendBlock", unit="bytes")
    length = UInt32("block_length", "bytes of the events of the block", unit="bytes")
    return {
        "PartialMessage": (2, [UInt8("part", "which part", names=PARTS), part]),
        "KeepAlive": (1, [Optional(Rest("data", "not interpreted"), When("left"))]),
        "ReadSegment": (3, [*segment_offset, Int32("suggested_length", "how much", unit="bytes")]),
        "SegmentRead": (4, [segment(), first, flags, Rest("data", "bytes of the segment")]),
        "SetupAppend": (("segment",), [appending(), segment()]),
        "AppendSetup": (("segment", "connection_offset_ack_level"), [segment(), appending(), acknowledged()]),
        "BeginAppendBlock": (
            ("connection_offset", "length_before_end"),
            [appending(), connection_offset("before the block"), to_end, Optional(block, When("left"))],
        ),
        "EndAppendBlock": (
            ("connection_offset", "block_length"),
            [appending(), connection_offset("after the block"), length],
        ),
        "Event": (1, [Rest("data", "the event")]),
        "DataAppended": (("connection_offset_ack_level",), [appending(), acknowledged()]),
    }


MAX_PART = 3
"""Parts count from 0; from 1 they would end at 3."""
LEGAL_FLAGS = frozenset({0, 0x40, 0x80, 0xC0, 1, 2, 3})
"""Both bits, from either end of the byte."""
SOUND: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "BeginAppendBlock": lambda values: "block" not in values or len(values["block"]) == values["length_before_end"],
    "PartialMessage": lambda values: values["part"] <= MAX_PART,
    "SegmentRead": lambda values: values["flags"] in LEGAL_FLAGS,
}
""":meth:`WireMessage.sound` of the others: a block inside a message is as long as the message says."""


def make(dialect: str, code: int) -> type[WireMessage]:
    names = PROPOSALS[dialect]
    facts, fields = messages()[names[code]]
    name = names[code]
    members: dict[str, Any] = {"type_name": name, "facts": fact_names(facts, fields)}
    members |= {"sound": staticmethod(SOUND[name])} if name in SOUND else {}
    remade = layer_of, (dialect, code)
    return WireMessage.declare(f"Proposed{name}", *header(code, names), *fields, remade=remade, **members)


@cache
def proposal(dialect: str) -> Mapping[int, type[WireMessage]]:
    """The layers of a dialect of the proposal, by code."""
    return {code: make(dialect, code) for code in PROPOSALS[dialect]}


@storable
def layer_of(dialect: str, code: int) -> type[WireMessage]:
    return proposal(dialect)[code]
