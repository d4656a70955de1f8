"""The one thing in a TLS handshake that is not secret and tells who is meant: the host that the client asks for."""

from __future__ import annotations

from wiredecode.fields import printable

HANDSHAKE, CLIENT_HELLO = 0x16, 1
SERVER_NAME = 0


def server_name(data: bytes) -> str | None:
    """The host of the ClientHello that ``data`` begins with (RFC 8446 section 4.1.2, RFC 6066 section 3).

    ``handshake record (5) | type, length (4) | version (2) | random (32) | session id | cipher suites | compression |
    extensions``; None where it has none, is cut before it, or is something else.
    """
    if len(data) < 44 or data[0] != HANDSHAKE or data[5] != CLIENT_HELLO:
        return None
    at = 43
    for width in (1, 2, 1):
        at += width + int.from_bytes(data[at : at + width])
    end = min(at + 2 + int.from_bytes(data[at : at + 2]), len(data))
    at += 2
    while at + 4 <= end:
        kind, length = int.from_bytes(data[at : at + 2]), int.from_bytes(data[at + 2 : at + 4])
        if kind == SERVER_NAME:  # list length (2) | name type (1) | length (2) | name
            size = int.from_bytes(data[at + 7 : at + 9])
            name = data[at + 9 : at + 9 + size]
            whole = 0 < size == len(name) and at + 9 + size <= min(at + 4 + length, end)
            return printable(name.decode("ascii", "replace")) if whole else None
        at += 4 + length
    return None
