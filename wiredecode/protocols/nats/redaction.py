"""Rules of NATS for ``wiredecode anonymize``."""

from __future__ import annotations

import re

from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.redaction import Rules, words

WORDS = words(
    """
    INBOX SYS JS G R SYSTEM API STREAM CONSUMER INFO CREATE DELETE UPDATE NAMES LIST MSG GET NEXT PURGE DURABLE FC ACK
    NAK WPI TERM EVENT ADVISORY REQ ACCOUNT CONNECT DISCONNECT SERVER USER AUTH CLAIMS LOOKUP UPDATE PING STATSZ VARZ
    CONNZ SUBSZ ROUTEZ GATEWAYZ LEAFZ ACCOUNTZ JSZ HEALTHZ CONNS SUBSZ GR LR LDS KV OBJ SRV STATS SNAPSHOT RESTORE META
    LEADER PEER REMOVE STEPDOWN PAUSE UNPIN DIRECT
    """
)
"""Parts of subjects that belong to servers."""
TEXTS = words(
    """
    PUB HPUB SUB UNSUB MSG HMSG PING PONG OK ERR RS LS A RMSG LMSG NATS
    python python2 python3 go java node js nats deno ws net NET C rust ruby elixir swift php dart erlang
    on off fast better best accept auto s2 uncompressed rtt
    Nats Msg Id Expected Stream Last Sequence Subject Rollup Marker Reason TTL Pending Messages Bytes Size Schedule
    Consumer Stalled Time Stamp Num Service Error Code Trace Dest Content Type
    Authorization Violation Authentication Timeout Revoked Expired User Account Permissions for Publish to Subscription
    using queue Invalid Protocol Operation Client Message maximum Maximum Connections Connection Control Line Exceeded
    Payload exceeded subscriptions active Slow Stale Parser Unknown Secure TLS Required Attempted To Connect Route Port
    Leafnode Gateway Remote Server Shutdown Cluster Name Conflict Duplicate ID Detected Headers Not Supported not
    No Responders Requests Request Idle Heartbeat FlowControl Flow Leadership Change Deleted is push based Batch
    Completed MaxBytes MaxRequestBatch MaxRequestExpires MaxRequestMaxBytes MaxWaiting Bad EOB Missing Delete Marker
    Purge Max Age Pin Mismatch Eos Failed failed the found of with missing seq server
    """
)
"""Parts of verbs, client languages, header names, errors and descriptions that nats-server and its clients write."""
HEADERS = frozenset({"headers.key", "version", "status"})
PROTOCOL = words(
    """
    operation marker sid version version_end headers_end line_end end lang go git_commit compression compress_mode
    gateway_cmd_payload description error
    """
)


def seal_s2(layer: Layer, data: bytes, out: bytearray) -> None:
    """Blanked bytes are no S2 block, and have no CRC: their chunk becomes padding, which readers skip."""
    if layer.fields.get("chunk_type") in (s2.COMPRESSED, s2.UNCOMPRESSED):
        out[layer.start] = s2.PADDING


REFUSAL = re.compile(
    rb'\{(?:"type":"io\.nats\.jetstream[^"]*",)?"error":\{"code":(\d+),"err_code":(\d+),"description":"[^"\\]*"\}'
)
"""An answer of JetStream that says no."""


def seal_refusal(layer: Layer, data: bytes, out: bytearray) -> None:
    """A refusal keeps its numbers, which say nothing of anybody, so the request is still one that was refused."""
    start, stop = layer.ranges.get("data", (0, 0))
    if found := REFUSAL.match(data, start, stop):
        kept = b'{"error":{"code":%b,"err_code":%b}}' % found.groups()
        out[start:stop] = kept.ljust(stop - start)


DISGUISES = {
    **proxy.DISGUISES,
    "nats": Rules(
        kept=PROTOCOL | HEADERS,
        hosts=words("host ip client_ip connect_urls ws_connect_urls leafnode_urls gateway_url gateway_urls"),
        json=frozenset({"other"}),
        seals=(seal_refusal,),
        words=WORDS | TEXTS,
    ),
    "nats_s2": Rules(encrypted=True, seals=(seal_s2,)),
    "tls": Rules(encrypted=True),
    "websocket": Rules(encrypted=True),
    "http": Rules(kept=frozenset({"opening", "target"})),
}
