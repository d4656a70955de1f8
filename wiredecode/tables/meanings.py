"""What columns mean, in a line each, as comments of schemas: Parquet and Delta (``comment``), Iceberg (``doc``), Spark.

Columns of ``layers`` mean what the declarations of their fields say.
"""

from __future__ import annotations

import json
from functools import cache

import pyarrow as pa

from wiredecode.frames.columns import AROUND, COLUMNS
from wiredecode.protocols.catalogue import amqp_entries, catalogue, generated_entries
from wiredecode.protocols.registry import protocols

SIDES = ("client", "server")
SHARED = ("time_ns", "src", "dst", "sender", "protocol", "type", *AROUND)
"""Columns of frames that mean the same in other tables."""
COMMON = {
    "source": "capture point that the row is from; empty: there is one",
    "day": "day of time (UTC)",
    "outer_client": "address on the client's side of the outermost packets; null outside of tunnels",
    "outer_server": "address on the server's side of the outermost packets; null outside of tunnels",
    "client_host": "name of the client's address, where the capture tells it",
    "server_host": "name of the server's address, where the capture tells it",
    **{each.name: each.comment for each in COLUMNS if each.name in SHARED},
}
MEANINGS = {
    "frames": {each.name: each.comment for each in COLUMNS},
    "messages": {
        "frame": "id of the frame that carried the message",
        "index": "which message of the frame: 0, 1, 2 ...",
        "time": "time of the packet that completed the frame",
        "connection": "id of the TCP connection",
        "operation": "publish: on its way to the broker; deliver: from it",
        "topic": "stream, topic, subject or segment",
        "partition": "partition of the topic",
        "key": "key of the message",
        "offset": "place in the broker's log",
        "sequence": "number that the publisher gave it",
        "timestamp": "the message's own time",
        "headers": "names and values that the message carries",
        "compression": "what it was unpacked from",
        "size": "bytes of the body",
        "body": "the message itself; null where it was not captured",
        "confirmed_ns": "of a publish: when its answer came, ns since 1970",
        "latency_ns": "of a publish: ns to its answer",
        "outcome": "of a publish: ok, refused, unanswered, late, not asked for",
        "refusal": "why it was refused",
        "confirm_frame": "frame that answers it",
        "chunk": "RabbitMQ Stream, deliveries: first offset of their chunk",
    },
    "packets": {
        "packet": "time of the packet, ns since 1970; its number where ids are numbers",
        "time": "time of the packet",
        "interface": "interface of the capture",
        "linktype": "LINKTYPE_ value",
        "captured": "bytes in the capture",
        "length": "bytes on the wire",
        "ip_version": "4 or 6",
        "transport": "TCP, UDP, ICMP ...",
        "seq": "TCP sequence number, as on the wire",
        "ack": "TCP acknowledgement number, as on the wire",
        "flags": "names of TCP's flags",
        "flags_code": "byte of TCP's flags",
        "payload": "bytes of TCP payload on the wire",
        "payload_captured": "bytes of TCP payload in the capture",
        "not_decoded": "why there is no TCP in it; null for TCP",
        "connection": "id of the TCP connection; null with stable ids",
        "tcp_analysis": "what TCP analysis found; null with stable ids",
    },
    "connections": {
        "connection": "id of the TCP connection",
        "time": "time of its first packet",
        "seconds": "from its first packet to its last",
        "client": "address:port of the client",
        "server": "address:port of the server",
        "protocol": "of its frames; TLS, HTTP ... where nothing is decoded",
        "name": "name that the client gives the connection",
        "user": "user of the client",
        "virtual_host": "virtual host that the client opens",
        "product": "product of the client",
        "version": "version of the client",
        "role": "what the connection is for",
        "group": "consumer group",
        "broker": "product and version of the server",
        "server_name": "host that the client asks for in TLS (SNI)",
        "closed_by": "who said in words of the protocol that the connection closes",
        "reason": "why it closes, in words of the protocol",
        "began": "handshake, refused, no answer, before the capture",
        "handshake_ns": "from the SYN to the ACK that ends the handshake",
        "syns": "SYNs that were sent",
        "ended_by": "client or server: whose FIN or RST came first; null: open at the end",
        "ended": "FIN or RST; null: open at the end",
        "end_time": "time of that FIN or RST",
        "end_packet": "packet of that FIN or RST",
        "idle_ns": "longest time without payload",
    },
}
DIRECTION = {
    "frames": "frames sent",
    "bytes": "payload bytes captured",
    "packets": "packets sent",
    "missing": "bytes sent and not captured",
    "retransmissions": "segments sent again",
    "fast_retransmissions": "retransmissions after duplicate ACKs",
    "spurious_retransmissions": "retransmissions of what was acknowledged",
    "out_of_order": "segments out of order",
    "lost_segments": "segments before which one is not there",
    "duplicate_acks": "duplicate ACKs",
    "keep_alives": "keep-alives",
    "window_full": "segments that filled the window of the other side",
    "zero_windows": "how often it closed its window",
    "zero_window_ns": "how long its window was closed",
    "rtt_min_ns": "shortest time to an ACK",
    "rtt_p50_ns": "median time to an ACK",
    "rtt_p99_ns": "99th percentile of times to an ACK",
    "mss": "MSS option of its SYN",
    "window_scale": "window scale option of its SYN",
    "unacknowledged": "bytes not acknowledged at the end",
}
"""Of what each side of a connection sent."""
LARGE, CODE, LAYERS = "_large", "_code", "layers."
SPARK = b"SPARK::metadata::json"
"""Where Spark looks for the metadata of a column."""


def meaning(level: str, name: str) -> str | None:
    """What a column at the top of a table means."""
    side, _, rest = name.partition("_")
    if level == "connections" and side in SIDES and rest in DIRECTION:
        return f"of the {side}: {DIRECTION[rest]}"
    if name.endswith(LARGE):
        return f"{name.removesuffix(LARGE)} where it is 2**63 or more"
    return MEANINGS.get(level, {}).get(name) or COMMON.get(name)


def commented(fields: list[pa.Field], level: str) -> list[pa.Field]:
    """The columns of a table with their meanings."""
    return [_with(_inner(field, field.name), meaning(level, field.name)) for field in fields]


def in_file(schema: pa.Schema) -> pa.Schema:
    """What of it stands in every file: meanings of columns at the top. Those of a thousand fields would be 300 KB."""
    fields = []
    for field in schema:
        kept = {b"comment": text} if (text := (field.metadata or {}).get(b"comment")) else None
        fields.append(pa.field(field.name, _bare(field.type), metadata=kept))
    return pa.schema(fields, schema.metadata)


def _bare(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _bare(each.type)) for each in kind])
    return pa.list_(pa.field(kind.value_field.name, _bare(kind.value_type))) if pa.types.is_list(kind) else kind


def _with(field: pa.Field, text: str | None) -> pa.Field:
    if not text:
        return field
    comment = {b"comment": text, b"doc": text, SPARK: json.dumps({"comment": text})}
    return field.with_metadata({**(field.metadata or {}), **comment})


def _inner(field: pa.Field, path: str) -> pa.Field:
    """A column with the meanings of what is in it; elements of lists have no name of their own."""
    kind = field.type
    if pa.types.is_struct(kind):
        members = [_with(_inner(each, f"{path}.{each.name}"), _declared(f"{path}.{each.name}")) for each in kind]
        return field.with_type(pa.struct(members))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_inner(kind.value_field, path)))
    return field


def _declared(path: str) -> str | None:
    """What a field of a layer means. Other columns have no such fields, and need no protocol to be imported."""
    if not path.startswith(LAYERS):
        return None
    known, name = _declarations(), path.removeprefix(LAYERS)
    return known.get(name) or (
        f"number of {name.rpartition('.')[2].removesuffix(CODE)}" if name.endswith(CODE) else None
    )


@cache
def _declarations() -> dict[str, str]:
    """Meanings of fields by their full names."""
    layers = [layer for protocol in protocols() for layer in protocol.layers()]
    entries = [*catalogue(layers), *generated_entries(protocols()), *amqp_entries()]
    found: dict[str, str] = {}
    for entry in entries:
        text = ", ".join(
            filter(None, (entry.meaning, entry.unit and f"in {entry.unit}", "secret" if entry.secret else ""))
        )
        if text:
            found.setdefault(entry.name, text)
    return found
