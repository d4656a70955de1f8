"""Facts in the messages of a TLS handshake that are worth a field (RFC 8446 section 4, RFC 5246 section 7.4)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from wiredecode.fields import printable, text
from wiredecode.protocols.shared.data import data_of, numbered
from wiredecode.tls import handshake
from wiredecode.tls.handshake import EARLY_DATA, GREASE, SUPPORTED_VERSIONS, Cursor, extensions

NAMES = data_of("shared", "tls_names.toml")
RECORDS = numbered(NAMES["records"])
MESSAGES = numbered(NAMES["messages"])
RETRY = "HelloRetryRequest"
"""Name of a ServerHello with a certain random (RFC 8446 section 4.1.3)."""
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
LEVELS = {1: "warning", 2: "fatal"}
ALERTS = {int(number): (name, meaning) for number, (name, meaning) in NAMES["alerts"].items()}

CIPHERS = numbered(NAMES["ciphers"])
"""Those that are decrypted, and what clients offer beside them; others show their number."""


SERVER_NAME, ALPN, SESSION_TICKET, PSK = 0, 16, 35, 41
MOST_NAMES = 64
"""Names of one list that are shown."""

Facts = dict[str, Any]


def version_name(number: int) -> str:
    return VERSIONS.get(number, f"0x{number:04x}")


def cipher_name(number: int) -> str:
    return CIPHERS.get(number, f"0x{number:04x}")


def _protocols(data: bytes) -> list[str]:
    """ALPN (RFC 7301 section 3.1)."""
    names = Cursor(Cursor(data).vector(2))
    found = []
    while names:
        name = names.vector(1)
        if int.from_bytes(name) not in GREASE or len(name) != 2:
            found.append(printable(text(name)))
    return found[:MOST_NAMES]


def _server_name(data: bytes) -> str | None:
    """RFC 6066 section 3: the host, the only kind of name there is."""
    names = Cursor(Cursor(data).vector(2))
    return printable(text(names.vector(2))) if names and names.number(1) == 0 else None


def client_hello(data: bytes) -> Facts:
    """The client's offer. ``session`` is for the server's answer."""
    body = Cursor(data)
    version = body.number(2)
    body.read(32)
    session = body.vector(1)
    ciphers = Cursor(body.vector(2)).numbers(2)
    body.vector(1)
    found = extensions(body)
    versions = (
        Cursor(Cursor(found[SUPPORTED_VERSIONS]).vector(1)).numbers(2) if SUPPORTED_VERSIONS in found else [version]
    )
    resumes = PSK in found or found.get(SESSION_TICKET) or (session and SUPPORTED_VERSIONS not in found)
    return {
        "server_name": _server_name(found[SERVER_NAME]) if SERVER_NAME in found else None,
        "versions": [version_name(number) for number in versions[:MOST_NAMES]],
        "alpn": _protocols(found[ALPN]) if ALPN in found else None,
        "resumption": "offered" if resumes else None,
        "early_data": "offered" if EARLY_DATA in found else None,
        "ciphers": [cipher_name(number) for number in ciphers[:MOST_NAMES]],
        "session": session,
    }


def server_hello(data: bytes) -> Facts:
    """The server's choice. ``psk`` and ``session`` show, with the ClientHello, whether a session is resumed."""
    hello = handshake.server_hello(data)
    found = hello.extensions
    return {
        "version_chosen": version_name(hello.version),
        "cipher": cipher_name(hello.cipher),
        "alpn": _protocols(found[ALPN]) if ALPN in found else None,
        "session": hello.session,
        "psk": PSK in found,
        "retry": hello.random == handshake.RETRY,
    }


def encrypted_extensions(data: bytes) -> Facts:
    found = extensions(Cursor(data))
    return {
        "alpn": _protocols(found[ALPN]) if ALPN in found else None,
        "early_data": "accepted" if EARLY_DATA in found else None,
    }


def certificate(data: bytes, *, new: bool) -> Facts:
    """The first certificate, that of the sender. ``new``: TLS 1.3, where a context precedes the list."""
    body = Cursor(data)
    if new:
        body.vector(1)
    chain = Cursor(body.vector(3))
    return _named(chain.vector(3)) if chain else {"certificate_subject": "none"}


def _named(der: bytes) -> Facts:
    """Of an X.509 certificate; nothing without the package that reads it."""
    from wiredecode.extras import installed

    if not installed("cryptography"):
        return {}
    from cryptography import x509

    try:
        with warnings.catch_warnings(action="ignore"):  # of what others should not have signed
            found = x509.load_der_x509_certificate(der)
        begins, expires = found.not_valid_before_utc, found.not_valid_after_utc
        return {
            "certificate_subject": printable(found.subject.rfc4514_string()),
            "certificate_issuer": printable(found.issuer.rfc4514_string()),
            "certificate_names": _alternatives(found, x509),
            "certificate_begins": f"{begins:%Y-%m-%dT%H:%M:%SZ}",
            "certificate_expires": f"{expires:%Y-%m-%dT%H:%M:%SZ}",
        }
    except Exception as error:  # it parses late, and raises undocumented exceptions
        raise ValueError(f"no certificate that can be read: {type(error).__name__}") from None


def _alternatives(found: Any, x509: Any) -> list[str] | None:
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return [printable(str(name.value)) for name in names][:MOST_NAMES]


READERS: dict[str, Callable[[bytes], Facts]] = {
    "ClientHello": client_hello,
    "ServerHello": server_hello,
    "EncryptedExtensions": encrypted_extensions,
}
