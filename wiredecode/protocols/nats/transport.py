"""Transports that NATS connections switch to: S2 streams, TLS, WebSocket. Only enough to cut and name them.

Their first bytes differ from operations, which begin with a letter, ``+`` or ``-``.
"""

import re

from wiredecode.fields import Binary, Optional, Rest, UInt8, UInt16, UInt24, UInt32, UInt64, When
from wiredecode.fields.layer import Layer
from wiredecode.fields.textfields import TextLayer, Token, Until
from wiredecode.frames.splitter import Allowance
from wiredecode.protocols.nats import transport_s2 as s2
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.nats.names import S2_CHUNKS
from wiredecode.protocols.shared.tls import TlsRecord
from wiredecode.tls.half import HEADER as TLS_HEADER
from wiredecode.tls.half import MAX_RECORD


class S2Chunk(Layer):
    """``type uint8 | length uint24 | [crc uint32] | data``, little-endian."""

    filter_name = "nats_s2"
    fields_desc = [
        UInt8("chunk_type", "what the chunk holds", names=S2_CHUNKS),
        UInt24("length", "bytes that follow", little=True, unit="bytes"),
        Optional(UInt32("crc", "masked CRC-32C of the plain bytes", little=True), When("chunk_type in (0, 1)")),
        Rest("data", "the block, or plain bytes", secret=True),
    ]
    facts = ("chunk_type", "length")


class Target(Token):
    """Path of a request, without its query, or status of an answer."""

    before = b""

    def pattern(self, blanks: bytes) -> re.Pattern[bytes]:
        return re.compile(rb"([^ ?\r\n]*)")


class HttpHead(TextLayer):
    """A request or an answer that turns the connection into a WebSocket; cookies and queries carry secrets."""

    filter_name = "http"
    fields_desc = [
        Until("opening", "method, or version of an answer", stop=b" "),
        Target("target", "path, or status"),
        Rest("rest", "query, version and header lines", secret=True),
    ]
    facts = ("opening", "target")


class WebSocketFrame(Layer):
    """``FIN, RSV, opcode | MASK, length | [length] | [masking key] | payload`` (RFC 6455 section 5.2)."""

    filter_name = "websocket"
    fields_desc = [
        UInt8("flags_opcode", "FIN 0x80, compressed 0x40, opcode in the low four bits", default=0x82),
        UInt8("mask_length", "MASK 0x80; length, 126: 16 bits follow, 127: 64 bits"),
        Optional(UInt16("length16", "length", unit="bytes"), When("mask_length & 127 == 126")),
        Optional(UInt64("length64", "length", unit="bytes"), When("mask_length & 127 == 127")),
        Optional(Binary("masking_key", "the payload is XORed with it", length=4), When("mask_length >= 128")),
        Rest("data", "the payload", secret=True),
    ]
    facts = ("flags_opcode",)


LAYERS: tuple[type[Layer], ...] = (S2Chunk, TlsRecord, HttpHead, WebSocketFrame)


def layer_at(data: bytes, position: int) -> type[Layer] | None:
    """The transport whose unit begins at ``position``; None: it is no transport."""
    first = data[position]
    if 0x14 <= first <= 0x17 and data[position + 1 : position + 2] in (b"\x03", b""):
        return TlsRecord
    if first in websocket.STARTS:
        return WebSocketFrame
    if first in (s2.COMPRESSED, s2.UNCOMPRESSED) or first >= 0x80:
        return S2Chunk
    return HttpHead if websocket.is_http(data, position) else None


def upgraded_layer_at(data: bytes, position: int) -> type[Layer]:
    """The same where the direction holds WebSocket frames."""
    return HttpHead if websocket.is_http(data, position) else WebSocketFrame


def stop_of(layer: type[Layer], data: bytes, position: int) -> int | str | None:
    """Where the unit ends; None: needs more bytes; a text: why it cannot be one."""
    if layer is HttpHead:
        return websocket.head_stop(data, position)
    if layer is WebSocketFrame:
        return websocket.stop_of(data, position)
    head = data[position : position + TLS_HEADER]
    if layer is TlsRecord:
        if len(head) < TLS_HEADER:
            return None
        length = int.from_bytes(head[3:5], "big")
        return position + TLS_HEADER + length if length <= MAX_RECORD else "a TLS record is too long"
    if len(head) < s2.HEADER:
        return None
    length = int.from_bytes(head[1:4], "little")
    if head[0] == s2.STREAM and length != len(s2.IDENTIFIER) - s2.HEADER:
        return "not the identifier of an S2 stream"
    if head[0] <= s2.UNCOMPRESSED and length < s2.CRC:
        return "an S2 chunk without room for its CRC"
    return position + s2.HEADER + length if length <= s2.MAX_CHUNK else "an S2 chunk is too long"


def crc_is_good(data: bytes, position: int, allowance: Allowance) -> bool:
    """Whether the plain bytes of the S2 chunk here, which is whole, have its CRC; False if too much was read before."""
    if data[position] > s2.UNCOMPRESSED:
        return True
    if allowance.left <= 0:
        return False
    stop = position + s2.HEADER + int.from_bytes(data[position + 1 : position + 4], "little")
    plain = chunk_plain(data, position, stop)
    allowance.spend(plain.effort)
    return plain.crc_good


def chunk_plain(data: bytes, position: int, stop: int) -> s2.PlainChunk:
    """Plain bytes of a whole S2 chunk with data."""
    body = position + s2.HEADER + s2.CRC
    return s2.plain(data[position], data[body:stop], int.from_bytes(data[body - s2.CRC : body], "little"))


def s2_plain(data: bytes) -> bytes | str | int:
    """Plain bytes of the S2 chunks at the front of ``data``, up to the first with content.

    A number: as many bytes are needed. A text: why they are no S2. Chunks do not depend on earlier ones.
    """
    position = 0
    while position < len(data):
        kind = data[position]
        if kind not in (s2.COMPRESSED, s2.UNCOMPRESSED, s2.PADDING, s2.STREAM):
            return "no S2 chunk"
        if kind == s2.STREAM and not s2.IDENTIFIER.startswith(data[position : position + len(s2.IDENTIFIER)]):
            return "not the identifier of an S2 stream"
        stop = stop_of(S2Chunk, data, position)
        if isinstance(stop, str):
            return stop
        if stop is None or stop > len(data):
            return stop or 0
        if kind <= s2.UNCOMPRESSED:
            plain = chunk_plain(data, position, stop)
            return plain.data if plain.crc_good else "an S2 chunk with a bad CRC"
        position = stop
    return 0
