"""Messages of a TLS handshake: what opening records needs, and their fields are read with (RFC 8446 section 4)."""

from typing import NamedTuple

MAX_MESSAGE = 1 << 18
"""Longer incomplete data is no handshake message."""
ENCRYPT_THEN_MAC, EARLY_DATA, SUPPORTED_VERSIONS = 22, 42, 43
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random of a HelloRetryRequest (RFC 8446 section 4.1.3)."""
GREASE = frozenset(0x1010 * low + 0x0A0A for low in range(16))
"""Values without meaning, sent so that receivers keep ignoring unknown ones (RFC 8701)."""


class Cursor:
    """Reads numbers and vectors from the front of bytes; raises ValueError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def read(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise ValueError(f"{size} bytes expected at {self.at}, {len(part)} found")
        self.at += size
        return part

    def number(self, width: int) -> int:
        return int.from_bytes(self.read(width))

    def vector(self, width: int) -> bytes:
        """Bytes after their length, which has ``width`` bytes."""
        return self.read(self.number(width))

    def numbers(self, width: int) -> list[int]:
        """All that is left, without what means nothing."""
        numbers = [self.number(width) for _ in range((len(self.data) - self.at) // width)]
        return [number for number in numbers if number not in GREASE]


class ServerHello(NamedTuple):
    """Choices of the server; ``version`` is the one that counts."""

    version: int
    random: bytes
    session: bytes
    cipher: int
    extensions: dict[int, bytes]


def next_message(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Type and body of the first message, and what follows it; None: it is not whole."""
    stop = 4 + int.from_bytes(data[1:4])
    return (data[0], data[4:stop], data[stop:]) if len(data) >= max(stop, 4) else None


def extensions(body: Cursor) -> dict[int, bytes]:
    """By kind; the first of a kind counts."""
    inside = Cursor(body.vector(2)) if body else Cursor(b"")
    by_kind: dict[int, bytes] = {}
    while inside:
        kind = inside.number(2)
        by_kind.setdefault(kind, inside.vector(2))
    return by_kind


def server_hello(data: bytes) -> ServerHello:
    body = Cursor(data)
    version, random, session, cipher = body.number(2), body.read(32), body.vector(1), body.number(2)
    body.number(1)
    inside = extensions(body)
    if SUPPORTED_VERSIONS in inside:
        version = Cursor(inside[SUPPORTED_VERSIONS]).number(2)
    return ServerHello(version, random, session, cipher, inside)
