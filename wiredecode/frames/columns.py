"""Properties of every frame, of any protocol: names in filters, keys of records, columns of tables."""

from __future__ import annotations

from dataclasses import dataclass

from wiredecode.net.health import KINDS

CONNECTION, ARRIVAL, HEADER, FOUND, LINKED = "connection", "arrival", "header", "found", "linked"
"""When a name is known: levels of filters."""


@dataclass(frozen=True)
class FrameColumn:
    """A key of records and column of the table of frames."""

    name: str
    attribute: str
    """Of :class:`Frame`."""
    kind: str
    """Type of the column, as declarations of fields spell it; empty: tables of frames have no such column."""
    comment: str
    """Its meaning in tables."""


@dataclass(frozen=True)
class FrameName:
    """A name in filters."""

    name: str
    type: str
    """As the types of declared fields are spelled."""
    meaning: str
    known: str
    column: FrameColumn | None = None
    attribute: str = ""
    """Of :class:`Frame`, if it is another than that of the column."""
    comparable: bool = True
    """Whether the column has the value that filters compare."""


def column(name: str, kind: str, comment: str, attribute: str = "") -> FrameColumn:
    return FrameColumn(name, attribute or name, kind, comment)


def named(
    name: str, type_: str, meaning: str, known: str, kind: str, comment: str, *, comparable: bool = True
) -> FrameName:
    """A name in filters that ends in the name of its column."""
    return FrameName(
        *(name, type_, meaning, known, column(name.rpartition(".")[2], kind, comment)), comparable=comparable
    )


WHERE = "address:port of the sender, IPv6 in brackets", "address:port of the receiver, IPv6 in brackets"
TUNNEL = "tunnels that the connection came through, from the outside in; null outside of tunnels"
OUTER_SRC = "address of the sender of the outermost packet; null outside of tunnels"
OUTER_DST = "address of the receiver of the outermost packet; null outside of tunnels"
PACKETS = "times of the packets that carried the frame, ns since 1970"
BEGINS = "where it begins in the byte stream of its direction"
STATES = "ok, partial, malformed, undecoded"
CODE = "number of the message type on the wire"
DIALECT = "dialect of the protocol"
OUTCOME = "on requests: ok, refused, unanswered, late, not asked for"

REQUEST, RESPONSE = "on responses: frame of the request", "on requests: frame of the response"
OF_KIND = "a packet of the frame is of the kind"
GROUPS = "malformed, checksum, sequence, reassembly, protocol, response, limit, ..."

NUMBER_COLUMN = column("frame", "int64", "id of the frame", "id")
TIME_COLUMN = column("time", "timestamp[ns, UTC]", "time of the packet that completed the frame", "time_ns")
LATENCY_COLUMN = column("latency_ns", "int64", "on responses: ns since the request")
CONNECTION_COLUMN = column("connection", "int64", "id of the TCP connection", "connection.id")
SENDER_COLUMN = column("sender", "string", "client, server, or null where that is not known")

NAMES = (
    FrameName("frame", "protocol", "every frame; as a value its captured bytes", ARRIVAL),
    FrameName("frame.number", "uint64", "number of the frame, as in every output", ARRIVAL, NUMBER_COLUMN, "number"),
    FrameName("frame.time", "time", "time of the packet that completed it", ARRIVAL, TIME_COLUMN),
    FrameName("frame.time_relative", "duration", "the same, since the first packet", ARRIVAL),
    named("frame.length", "uint64", "size on the wire, in bytes", ARRIVAL, "int64", "bytes on the wire"),
    FrameName("frame.missing", "uint64", "bytes of it that were not captured", ARRIVAL, None, "missing"),
    named("frame.offset", "uint64", BEGINS, ARRIVAL, "int64", BEGINS),
    named("frame.packets", "array of uint64s", "packets that carried it", ARRIVAL, "list<int64>", PACKETS),
    named("frame.status", "string", STATES, HEADER, "string", STATES),
    named(
        "frame.protocol", "string", "protocol of the message, as in records", HEADER, "string", "name of the protocol"
    ),
    named("frame.dialect", "string", DIALECT, HEADER, "string", DIALECT, comparable=False),
    named("frame.type", "string", "name of the message", HEADER, "string", "name of the message type"),
    named("frame.code", "int64", CODE, HEADER, "int64", CODE),
    FrameName("frame.sender", "string", "client or server", HEADER, SENDER_COLUMN),
    named("frame.request", "uint64", "on responses: number of the request", HEADER, "int64", REQUEST),
    named("frame.response", "uint64", "on requests: number of the response", LINKED, "int64", RESPONSE),
    named("frame.outcome", "string", OUTCOME, LINKED, "string", OUTCOME),
    FrameName("latency", "duration", "on responses: time since the request", HEADER, LATENCY_COLUMN),
    FrameName("latency_ns", "int64", "the same in nanoseconds, as in records", HEADER, LATENCY_COLUMN),
    named(
        *("time_ns", "int64", "frame.time in nanoseconds since 1970, as in records", ARRIVAL),
        *("", "time in ns since 1970, exact"),
        comparable=False,
    ),
    FrameName(
        *("src", "string", "address:port of the sender, as in records", CONNECTION),
        column("src", "string", WHERE[0], "source"),
        comparable=False,
    ),
    FrameName(
        *("dst", "string", "address:port of the receiver, as in records", CONNECTION),
        column("dst", "string", WHERE[1], "destination"),
        comparable=False,
    ),
    named(
        *("tunnel", "string", "tunnels that it came through, from the outside in, with VNI or key: vxlan 42"),
        *(CONNECTION, "string", TUNNEL),
    ),
    named("outer_src", "string", "address of the sender of the outermost packets", CONNECTION, "string", OUTER_SRC),
    named("outer_dst", "string", "address of their receiver", CONNECTION, "string", OUTER_DST),
    FrameName("tcp", "protocol", "every frame", CONNECTION),
    FrameName(
        *("tcp.stream", "uint64", "number of the TCP connection, from 1", CONNECTION),
        *(CONNECTION_COLUMN, "connection.number"),
    ),
    FrameName("tcp.port", "array of uint16s", "both ports", CONNECTION),
    FrameName("tcp.srcport", "uint16", "port of the sender", CONNECTION),
    FrameName("tcp.dstport", "uint16", "port of the receiver", CONNECTION),
    *(
        FrameName(f"tcp.flags.{name}", "array of booleans", f"per packet of the frame: it has the flag {flag}", ARRIVAL)
        for name, flag in (("syn", "SYN"), ("fin", "FIN"), ("reset", "RST"))
    ),
    FrameName("tcp.analysis.flags", "array of booleans", "a packet of the frame is of any of these kinds:", ARRIVAL),
    *(
        FrameName(f"tcp.analysis.{kind}", "array of booleans", f"{OF_KIND} {kind.replace('_', ' ')}", ARRIVAL)
        for kind in KINDS
    ),
    FrameName("ip", "protocol", "every frame", CONNECTION),
    FrameName("ip.addr", "array of addresses", "both addresses, IPv4 or IPv6", CONNECTION),
    FrameName("ip.src", "address", "address of the sender", CONNECTION),
    FrameName("ip.dst", "address", "address of the receiver", CONNECTION),
    FrameName(
        *("finding", "structure", "something worth telling about the frame", FOUND),
        column("findings", "findings", "what is unusual about the frame"),
        comparable=False,
    ),
    FrameName("finding.severity", "enum", "note < warning < error", FOUND),
    FrameName("finding.group", "string", GROUPS, FOUND),
    FrameName("finding.code", "string", "what was found, as one word", FOUND),
    FrameName("finding.message", "string", "what was found, in words", FOUND),
    FrameName("finding.field", "string", "field that it is about", FOUND),
)
"""In the order of the reference page."""

AROUND = ("tunnel", "outer_src", "outer_dst")
"""Of frames that came through tunnels: records of others have no such keys."""
KEYS = (
    *("frame", "time", "time_ns", "connection", "src", "dst", "sender", "packets", "offset", "length"),
    *("protocol", "dialect", "type", "code", "status", "layers", "request", "response", "latency_ns", "findings"),
    "outcome",
)
"""Of records, in their order; tables have :data:`AROUND` after them."""
_BY_NAME = {each.column.name: each.column for each in NAMES if each.column is not None}
_BY_NAME["layers"] = column("layers", "layers", "fields of the message, by layer")
COLUMNS = [_BY_NAME[key] for key in (*KEYS, *AROUND)]
