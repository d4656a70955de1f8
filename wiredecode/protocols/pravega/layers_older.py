"""What releases before 2018 wrote differently, and messages that were given up.

A layout here is tried only where today's does not fit the bytes: see ``structure``. "Early" is traffic from before
April 2017, without request ids; until May 2017 there was no Hello. Until November 2016 five messages had other codes.
"""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Boolean, Int32, Int64, Kind, Timestamp, Uuid
from wiredecode.protocols.pravega.layers import AppendSetup as CurrentAppendSetup
from wiredecode.protocols.pravega.layers import event_number, segment_bytes, segment_info
from wiredecode.protocols.pravega.layers_base import (
    WireMessage,
    blob,
    control,
    header,
    segment,
    stack_trace,
    token,
    writer,
)
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.names import TYPES, TYPES_2016_07


def connection() -> Kind:
    return Uuid("connection_id", "writer, chosen by the client")


class SetupAppendEarly(WireMessage):
    type_name = "SetupAppend"
    fields_desc = [*header(1), connection(), segment()]
    facts = ("segment",)


class AppendSetupEarly(WireMessage):
    type_name = "AppendSetup"
    fields_desc = [*header(2), segment(), connection(), CurrentAppendSetup.fields_desc[-1]]
    facts = ("segment", "last_event_number")


class AppendBlockEndEarly(WireMessage):
    """Without the number of events, until May 2017."""

    type_name = "AppendBlockEnd"
    fields_desc = [
        *header(4),
        connection(),
        event_number("last_event_number", "number of the last event of the block"),
        Int32("size_of_whole_events", "bytes of the block that are whole appends", unit="bytes"),
        blob("data", "rest of the append that the block cut"),
    ]
    facts = ("last_event_number",)


class ConditionalAppendEarly(WireMessage):
    """Wire versions up to 4: the bytes to store, with their length."""

    type_name = "ConditionalAppend"
    fields_desc = [
        *header(5),
        writer(),
        event_number(),
        Int64("expected_offset", "length the segment must have", unit="bytes"),
        blob("data", "stored as it is"),
    ]
    facts = ("event_number", "expected_offset")


class InvalidEventNumberEarly(WireMessage):
    """Wire versions 1 to 15."""

    type_name = "InvalidEventNumber"
    fields_desc = [*header(55), writer(), event_number("event_number", "number that was refused"), stack_trace()]
    facts = ("event_number",)


def older(code: int, *fields: Kind, suffix: str = "Early") -> type[WireMessage]:
    """A message as it was before it had a request id, or before its code changed."""
    names = TYPES_2016_07 if suffix == "2016" else TYPES
    body = {"fields_desc": [*header(code, names), *fields], "type_name": names[code], "__module__": __name__}
    body |= {"facts": tuple(kind.name for kind in fields[:3]), "remade": (older_layer, (code, names[code] + suffix))}
    return type(names[code] + suffix, (WireMessage,), body)


def older_layer(code: int, name: str) -> type[WireMessage]:
    """The layer of that name among those of a code."""
    return next(layer for layer in OLDER[code] if layer.__name__ == name)


def transaction(code: int) -> tuple[type[WireMessage], type[WireMessage]]:
    """The two layouts of the commands on transactions: with request id, and before."""

    def fields() -> list[Any]:
        return [segment(), Uuid("transaction_id", "which transaction")]

    body = {"fields_desc": control(code, *fields()), "facts": ("segment",), "__module__": __name__}
    current = type(TYPES[code], (WireMessage,), {**body, "remade": (older_layer, (code, TYPES[code]))})
    return current, older(code, *fields())


class TransactionInfo(WireMessage):
    fields_desc = control(
        14,
        segment(),
        Uuid("transaction_id", "which transaction"),
        segment("transaction_name", "segment of the transaction"),
        Boolean("exists", "whether there is such a transaction"),
        Boolean("is_sealed", "whether it is closed for appends"),
        Timestamp("last_modified", "time of the last change"),
        Int64("write_offset", "length of its segment", unit="bytes"),
    )
    facts = ("segment", "exists", "is_sealed")


class NoSuchTransaction(WireMessage):
    fields_desc = control(54, segment())
    facts = ("segment",)


class MergeTableSegments(WireMessage):
    fields_desc = control(72, segment("target"), segment("source"), token())
    facts = ("target", "source")


class SealTableSegment(WireMessage):
    fields_desc = control(73, segment(), token())
    facts = ("segment",)


TRANSACTIONS = {code: transaction(code) for code in (13, *range(22, 28))}

OLDER: dict[int, tuple[type[WireMessage], ...]] = {
    1: (SetupAppendEarly,),
    2: (AppendSetupEarly,),
    4: (AppendBlockEndEarly,),
    5: (ConditionalAppendEarly, older(5, writer(), event_number(), suffix="2016")),
    6: (
        older(
            *(6, segment(), Int64("offset", "where to read", unit="bytes")),
            *(Int32("suggested_length", "how much", unit="bytes"),),
            suffix="2016",
        ),
    ),
    7: (older(7, *segment_bytes(), suffix="2016"),),
    8: (older(8, segment("segment_name"), suffix="2016"),),
    9: (older(9, *segment_info(), suffix="2016"),),
    11: (older(11, segment("segment_name")),),
    12: (older(12, *segment_info()),),
    13: TRANSACTIONS[13],
    14: (TransactionInfo, older(14, *TransactionInfo.fields_desc[3:])),
    **{code: (older(code, segment()),) for code in (20, 21, 28, 29, 30, 31, 51, 52, 53)},
    **{code: TRANSACTIONS[code] for code in range(22, 28)},
    50: (older(50, segment(), JavaText("correct_host", "who serves the segment")),),
    54: (NoSuchTransaction, older(54, segment())),
    55: (InvalidEventNumberEarly,),
    72: (MergeTableSegments,),
    73: (SealTableSegment,),
}
"""Older layouts by code, in the order in which they are tried."""
