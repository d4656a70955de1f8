"""What ``wiredecode anonymize`` has to know of NATS."""

from __future__ import annotations

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


DISGUISES = {
    **proxy.DISGUISES,
    "nats": Rules(
        kept=PROTOCOL | HEADERS,
        hosts=words("host ip client_ip connect_urls ws_connect_urls leafnode_urls gateway_url gateway_urls"),
        json=frozenset({"other"}),
        words=WORDS,
    ),
    "nats_s2": Rules(encrypted=True, seals=(seal_s2,)),
    "tls": Rules(encrypted=True),
    "websocket": Rules(encrypted=True),
    "http": Rules(kept=frozenset({"opening", "target"})),
}
