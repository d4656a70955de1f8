"""NATS in WebSockets (RFC 6455): frames, and the messages that they are fragments of, compressed ones too (RFC 7692).

After the HTTP heads a direction holds only WebSocket frames. First bytes of fragments are also those of S2
chunks and of operations, so only earlier bytes decide: :data:`evidence.WEBSOCKET` cuts such directions.
"""

import re
import zlib
from typing import NamedTuple

from wiredecode.dataclasses import dataclass

MAX_FRAME = 64 * 1024 * 1024
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of a compressed message, before and after decompression."""
STARTS = frozenset(b"\x81\x82\x88\x89\x8a\xc1\xc2")
"""First bytes of unfragmented frames, compressed ones included."""
FRAGMENTS = frozenset(b"\x01\x02\x41\x42")
"""Those of the first of several fragments."""
FINAL, COMPRESSED, MASKED = 0x80, 0x40, 0x80
RESERVED = 0x30
TEXT, BINARY, CLOSE, PONG = 1, 2, 8, 10
TAIL = b"\x00\x00\xff\xff"
"""Bytes that permessage-deflate leaves out (RFC 7692 section 7.2.2)."""
WINDOW = 32 * 1024
"""Largest distance of a back reference in compressed bytes."""
FEW = 64
"""Bytes of the next deflate stream of a message that are tried first."""
CHAIN = 4
"""Headers in a row that identify WebSocket, if the content does not."""
FRONT_BYTES = 256 * 1024
"""Bytes of a message that are read to identify the contents of a direction."""
CANDIDATE = re.compile(rb"[\x81\x82\xc1\xc2\x41\x42\x01\x02]")
"""First bytes of the first frame of a message."""
HTTP = re.compile(rb"(?:GET /|HTTP/1\.[01] )")
HTTP_BYTES = len(b"HTTP/1.1 ")
MAX_HTTP_HEAD = 64 * 1024
UPGRADE = re.compile(rb"\r\nupgrade:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)


class WebSocketHeader(NamedTuple):
    """Header before the payload of the frame at a place."""

    first: int
    key: bytes
    """Empty: not masked."""
    body: int
    """Where the payload begins."""
    stop: int


def header(data: bytes, position: int) -> WebSocketHeader | str | None:
    """The header at ``position``; None: needs more bytes; a text: why it cannot be one."""
    if position >= len(data):
        return None
    first = data[position]
    if (problem := first_problem(first)) or position + 2 > len(data):
        return problem or None
    size = data[position + 1] & 0x7F
    width = {126: 2, 127: 8}.get(size, 0)
    body = position + 2 + width
    if first & 0x0F >= CLOSE and width:
        return "a WebSocket control frame is too long"
    key_size = 4 if data[position + 1] & MASKED else 0
    if body + key_size > len(data):
        return None
    if width:
        size = int.from_bytes(data[position + 2 : body], "big")
    if size > MAX_FRAME:
        return "a WebSocket frame is too long"
    return WebSocketHeader(first, data[body : body + key_size], body + key_size, body + key_size + size)


def first_problem(first: int) -> str:
    """Why a byte cannot be the first of a frame."""
    opcode = first & 0x0F
    control = CLOSE <= opcode <= PONG
    if first & RESERVED or (opcode > BINARY and not control):
        return "no WebSocket frame"
    if first & COMPRESSED and opcode not in (TEXT, BINARY):
        return "a WebSocket frame that must not be compressed"
    return "a WebSocket control frame in fragments" if control and not first & FINAL else ""


def stop_of(data: bytes, position: int) -> int | str | None:
    """Where a frame ends; None: needs more bytes; a text: why it cannot be one."""
    head = header(data, position)
    return head.stop if isinstance(head, WebSocketHeader) else head


def head_stop(data: bytes, position: int) -> int | str | None:
    """The same of an HTTP head."""
    blank = data.find(b"\r\n\r\n", position, position + MAX_HTTP_HEAD)
    if blank >= 0:
        return blank + 4
    return None if len(data) - position < MAX_HTTP_HEAD else "an HTTP head without end"


def is_http(data: bytes, position: int) -> bool:
    """Whether an HTTP head begins here."""
    return HTTP.match(data, position) is not None


def opens(data: bytes, start: int, stop: int) -> bool:
    """Whether the sender of an HTTP head switches to WebSocket frames after it."""
    return is_http(data, start) and UPGRADE.search(data, start, stop) is not None


def begins(data: bytes) -> bool:
    """Whether bytes may begin with a frame; one of a message that began before is not empty."""
    if data[:1] in (b"\x00", b"\x80"):
        return len(data) > 1 and data[1] & 0x7F > 0
    return bool(data) and (data[0] in STARTS or data[0] in FRAGMENTS)


def unmask(data: bytes, key: bytes) -> bytes:
    """The payload of a masked frame."""
    if not data:
        return b""
    whole = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")


# Messages.

ORPHAN, CONTEXT, DAMAGED, LIMIT = "fragment", "deflate-context", "deflate", "carried"


@dataclass
class PlainFrame:
    """Plain bytes of a frame: None if they cannot be known, for a reason."""

    data: bytes | None
    why: str = ""


class WebSocketMessages:
    """The messages of one direction, put together from frames.

    The fragments of a compressed message are one stream of deflate, which may refer to messages before it. Keeping
    what was said is right whether or not the two agreed on that: who does not refer to it does not need it. After a
    loss it is kept anew, so bytes after the loss are never decompressed with wrong ones.
    """

    def __init__(self, most: int = MAX_MESSAGE_BYTES) -> None:
        self.most = most
        self.window = b""
        """The last plain bytes of compressed messages, without a gap."""
        self.parts: list[bytes] = []
        self.size = 0
        self.kind: int | None = None
        """Of the message whose fragments come: 0, or COMPRESSED; -1: its first frame is not there; None: no message."""

    def lose(self) -> None:
        """The bytes before this are unknown."""
        self.window, self.parts, self.size, self.kind = b"", [], 0, None

    def feed(self, first: int, data: bytes) -> PlainFrame:
        """Plain bytes of the payload of a frame, unmasked."""
        opcode = first & 0x0F
        if opcode >= CLOSE:
            return PlainFrame(b"")
        if opcode:
            self.kind, self.parts, self.size = first & COMPRESSED, [], 0
        kind = -1 if self.kind is None else self.kind
        self.kind = None if first & FINAL else kind
        if kind < 0:
            return PlainFrame(None, ORPHAN)
        if not kind:
            return PlainFrame(data)
        self.parts.append(data)
        self.size += len(data)
        if self.size > self.most:
            self.lose()
            self.kind = None if first & FINAL else -1
            return PlainFrame(None, LIMIT)
        if not first & FINAL:
            return PlainFrame(b"")
        whole, self.parts, self.size = b"".join(self.parts), [], 0
        head = inflate_message(whole, self.window, self.most)
        self.window = b"" if head.data is None else (self.window + head.data)[-WINDOW:]
        return head


def inflate_message(data: bytes, window: bytes, most: int) -> PlainFrame:
    """The plain bytes, up to a limit, of a compressed message, which may refer to ``window``."""
    out, whole, position = bytearray(), data + TAIL, 0
    size = end = len(whole)
    while position < end and not (position == end - 3 and whole.endswith(TAIL[1:])):
        inflate = zlib.decompressobj(-zlib.MAX_WBITS, (window + out[-WINDOW:])[-WINDOW:])
        while not inflate.eof and position < end:
            part = whole[position : position + size]
            try:
                out += inflate.decompress(part, most - len(out) + 1)
            except zlib.error as error:
                return PlainFrame(None, CONTEXT if "too far back" in str(error) else DAMAGED)
            if len(out) > most:
                return PlainFrame(None, LIMIT)
            position += len(part) - len(inflate.unused_data)
            size *= 2
        size = FEW  # after a final block, which RFC 7692 section 7.2.3.4 allows, perhaps many short ones
    return PlainFrame(bytes(out))
