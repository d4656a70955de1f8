"""Different layouts of releases before 2018, and messages that were given up.

A layout here is tried only where today's does not fit the bytes: see ``evidence``. "Early" is traffic from before
April 2017, without request ids; until May 2017 there was no Hello. Until November 2016 five messages had other codes.
"""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Boolean, Int32, Kind, Timestamp, Uuid
from wiredecode.protocols.pravega.layers import (
    AppendSetup,
    Facts,
    WireMessage,
    bare,
    blob,
    event_number,
    message,
    place,
    segment,
    segment_bytes,
    segment_info,
    stack_trace,
    token,
    writer,
)
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.names import TYPES, TYPES_2016_07


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
        place("write_offset", "length of its segment"),
    ]


OLDER: dict[int, tuple[type[WireMessage], ...]] = {
    1: (older(1, connection(), segment(), facts=("segment",)),),
    2: (
        older(
            *(2, segment(), connection(), AppendSetup.fields_desc[-1]),
            facts=("segment", "last_event_number"),
        ),
    ),
    4: (
        older(
            4,
            connection(),
            event_number("last_event_number", "number of the last event of the block"),
            Int32("size_of_whole_events", "bytes of the block that are whole appends", unit="bytes"),
            blob("data", "rest of the append that the block cut"),
            facts=("last_event_number",),
            doc="Without the number of events, until May 2017.",
        ),
    ),
    5: (
        older(
            5,
            writer(),
            event_number(),
            place("expected_offset", "length the segment must have"),
            blob("data", "stored as it is"),
            facts=("event_number", "expected_offset"),
            doc="Wire versions up to 4: the bytes to store, with their length.",
        ),
        older(5, writer(), event_number(), suffix="2016"),
    ),
    6: (
        older(
            *(6, segment(), place("offset", "where to read"), Int32("suggested_length", "how much", unit="bytes")),
            suffix="2016",
        ),
    ),
    7: (older(7, *segment_bytes(), suffix="2016"),),
    8: (older(8, segment("segment_name"), suffix="2016"),),
    9: (older(9, *segment_info(), suffix="2016"),),
    11: (older(11, segment("segment_name")),),
    12: (older(12, *segment_info()),),
    13: (given_up(13, segment(), transaction_id()), older(13, segment(), transaction_id())),
    14: (
        given_up(14, *transaction_info(), facts=("segment", "exists", "is_sealed")),
        older(14, *transaction_info()),
    ),
    **{code: (older(code, segment()),) for code in (20, 21, 28, 29, 30, 31, 51, 52, 53)},
    **{
        code: (given_up(code, segment(), transaction_id()), older(code, segment(), transaction_id()))
        for code in range(22, 28)
    },
    50: (older(50, segment(), JavaText("correct_host", "who serves the segment")),),
    54: (given_up(54, segment()), older(54, segment())),
    55: (
        older(
            *(55, writer(), event_number("event_number", "number that was refused"), stack_trace()),
            facts=("event_number",),
            doc="Wire versions 1 to 15.",
        ),
    ),
    72: (given_up(72, segment("target"), segment("source"), token(), facts=2),),
    73: (given_up(73, segment(), token()),),
}
"""Older layouts by code, in the order in which they are tried."""
