"""TLS records as frames: the handshake, where it is in clear or was decrypted, and alerts with their meaning.

Source of the handshake: RFC 8446 section 4, RFC 5246 section 7.4; names are those that IANA registers (tls-parameters,
tls-extensiontype-values).
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from wiredecode.extras import installed
from wiredecode.fields import Rest, UInt8, UInt16, printable, text
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.identity import IdentityReader
from wiredecode.frames.record import rfc3339
from wiredecode.protocols.base import Conversation, Start, generated_of
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared.data import data_of, number_keys
from wiredecode.tls import handshake
from wiredecode.tls.connection import ALERT, CHANGE_CIPHER, HANDSHAKE
from wiredecode.tls.half import HEADER
from wiredecode.tls.handshake import (
    EARLY_DATA,
    GREASE,
    MAX_MESSAGE,
    SUPPORTED_VERSIONS,
    Cursor,
    extensions,
    next_message,
)

NAMES = data_of("shared", "tls_names.toml")
RECORDS = number_keys(NAMES["records"])
MESSAGES = number_keys(NAMES["messages"])
RETRY = "HelloRetryRequest"
"""Name of a ServerHello with a certain random (RFC 8446 section 4.1.3)."""
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", 0x0303: "TLS 1.2", 0x0304: "TLS 1.3"}
LEVELS = {1: "warning", 2: "fatal"}
ALERTS = {int(number): (name, meaning) for number, (name, meaning) in NAMES["alerts"].items()}

CIPHERS = number_keys(NAMES["ciphers"])
"""Names of cipher suites: those that are decrypted, and common ones; others show their number."""

SERVER_NAME, ALPN, SESSION_TICKET, PSK = 0, 16, 35, 41
MAX_NAMES = 64
"""Names of one list that are shown."""

Facts = dict[str, Any]


def name_of(number: int, names: Mapping[int, str]) -> str:
    return names.get(number, f"0x{number:04x}")


def _protocols(data: bytes) -> list[str]:
    """ALPN (RFC 7301 section 3.1)."""
    names = Cursor(Cursor(data).vector(2))
    offered = []
    while names:
        name = names.vector(1)
        if int.from_bytes(name) not in GREASE or len(name) != 2:
            offered.append(printable(text(name)))
    return offered[:MAX_NAMES]


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
    inside = extensions(body)
    versions = (
        Cursor(Cursor(inside[SUPPORTED_VERSIONS]).vector(1)).numbers(2) if SUPPORTED_VERSIONS in inside else [version]
    )
    resumes = PSK in inside or inside.get(SESSION_TICKET) or (session and SUPPORTED_VERSIONS not in inside)
    return {
        "server_name": _server_name(inside[SERVER_NAME]) if SERVER_NAME in inside else None,
        "versions": [name_of(number, VERSIONS) for number in versions[:MAX_NAMES]],
        "alpn": _protocols(inside[ALPN]) if ALPN in inside else None,
        "resumption": "offered" if resumes else None,
        "early_data": "offered" if EARLY_DATA in inside else None,
        "ciphers": [name_of(number, CIPHERS) for number in ciphers[:MAX_NAMES]],
        "session": session,
    }


def server_hello(data: bytes) -> Facts:
    """The server's choice. ``psk`` and ``session`` show, with the ClientHello, whether a session is resumed."""
    hello = handshake.server_hello(data)
    inside = hello.extensions
    return {
        "version_chosen": name_of(hello.version, VERSIONS),
        "cipher": name_of(hello.cipher, CIPHERS),
        "alpn": _protocols(inside[ALPN]) if ALPN in inside else None,
        "session": hello.session,
        "psk": PSK in inside,
        "retry": hello.random == handshake.RETRY,
    }


def encrypted_extensions(data: bytes) -> Facts:
    inside = extensions(Cursor(data))
    return {
        "alpn": _protocols(inside[ALPN]) if ALPN in inside else None,
        "early_data": "accepted" if EARLY_DATA in inside else None,
    }


def certificate(data: bytes, *, new: bool) -> Facts:
    """The first certificate, that of the sender. ``new``: TLS 1.3, where a context precedes the list."""
    body = Cursor(data)
    if new:
        body.vector(1)
    chain = Cursor(body.vector(3))
    return _certificate_facts(chain.vector(3)) if chain else {"certificate_subject": "none"}


def _certificate_facts(der: bytes) -> Facts:
    """Facts of an X.509 certificate; none without the package cryptography."""
    if not installed("cryptography"):
        return {}
    from cryptography import x509

    try:
        with warnings.catch_warnings(action="ignore"):  # of what others should not have signed
            parsed = x509.load_der_x509_certificate(der)
        begins, expires = parsed.not_valid_before_utc, parsed.not_valid_after_utc
        return {
            "certificate_subject": printable(parsed.subject.rfc4514_string()),
            "certificate_issuer": printable(parsed.issuer.rfc4514_string()),
            "certificate_names": _alternatives(parsed, x509),
            "certificate_begins": f"{begins:%Y-%m-%dT%H:%M:%SZ}",
            "certificate_expires": f"{expires:%Y-%m-%dT%H:%M:%SZ}",
        }
    except Exception as error:  # it parses late, and raises undocumented exceptions
        raise ValueError(f"no certificate that can be read: {type(error).__name__}") from None


def _alternatives(parsed: Any, x509: Any) -> list[str] | None:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    return [printable(str(name.value)) for name in names][:MAX_NAMES]


READERS: dict[str, Callable[[bytes], Facts]] = {
    "ClientHello": client_hello,
    "ServerHello": server_hello,
    "EncryptedExtensions": encrypted_extensions,
}

NAME = "tls"
CLOSE_NOTIFY, USER_CANCELED = 0, 90
TYPES = (*RECORDS.values(), *MESSAGES.values(), RETRY)
"""Types of frames of TLS: a handshake by its first message."""

GENERATED = generated_of("shared", "tls.toml")

IN_ORDER = [name.removeprefix(f"{NAME}.") for name in GENERATED]
DECRYPTED = {"decrypted": True}


class TlsRecord(Layer):
    """``type uint8 | version uint16 | length uint16 | data`` (RFC 8446 section 5.1)."""

    filter_name: ClassVar[str] = NAME
    fields_desc = [
        UInt8("content_type", "kind of record", names=RECORDS, default=23),
        UInt16("version", "legacy version of the record", default=0x0303),
        UInt16("length", "bytes that follow", unit="bytes"),
        Rest("data", "the record, encrypted after the handshake"),
    ]
    facts = ("length",)


class Handshakes:
    """State of a connection that reading its handshake needs."""

    def __init__(self) -> None:
        self.client: int | None = None
        self.version = ""
        self.session = b""
        """The session that the client names."""
        self.rest = [b"", b""]
        """By side: the front of a message that continues in the next record."""
        self.hidden = [False, False]
        """By side: its records are encrypted from here on."""
        self.hellos = self.over = 0
        """ServerHellos, and Finished messages."""

    def read(self, frame: Frame) -> None:
        """Describe the contents of a record, by ``frame.type``, generated fields and findings. Its layer was read."""
        kind = frame.buffer[frame.start]
        frame.type = RECORDS[kind]
        side, facts = frame.side, dict(frame.generated)
        body = frame.data[HEADER:]
        if kind == CHANGE_CIPHER:
            self.hidden[side] = True
        elif frame.status == OK and not self.hidden[side]:
            if kind == ALERT and len(body) == 2:
                facts |= self._alert(frame, *body)
            elif kind == HANDSHAKE:
                facts |= self._messages(frame, body)
        if facts:
            frame.generated = {name: facts[name] for name in IN_ORDER if facts.get(name)}

    def _alert(self, frame: Frame, level: int, number: int) -> Facts:
        name, meaning = ALERTS.get(number, (f"alert {number}", "not registered"))
        severity = "note" if number in (CLOSE_NOTIFY, USER_CANCELED) else "warning" if level == 1 else "error"
        if number != CLOSE_NOTIFY:
            frame.find(severity, NAME, "alert", f"{name}: {meaning}", "alert", (HEADER, HEADER + 2))
        return {"alert_level": LEVELS.get(level, str(level)), "alert": name}

    def _messages(self, frame: Frame, body: bytes) -> Facts:
        side = frame.side
        data = self.rest[side] + body
        begins = (data[:1] or b"\0")[0]
        if self.client is None and MESSAGES.get(begins) not in ("ClientHello", "ServerHello", "HelloRequest"):
            return {}  # the capture begins inside the handshake, or after it
        facts: Facts = {}
        names: list[str] = []
        while data and data[0] in MESSAGES and (following := next_message(data)) is not None:
            kind, message, data = following
            names.append(MESSAGES[kind])
            try:
                facts |= self._message(frame, names, message)
            except ValueError as error:
                frame.find("warning", "malformed", "handshake-unreadable", f"{names[-1]}: {error}")
        if (data and data[0] not in MESSAGES) or len(data) > MAX_MESSAGE:
            self.hidden[side], data = True, b""
        self.rest[side] = data
        frame.type = names[0] if names else frame.type
        return facts | {"messages": names if len(names) > 1 else None}

    def _message(self, frame: Frame, names: list[str], body: bytes) -> Facts:
        name = names[-1]
        facts: Facts = READERS[name](body) if name in READERS else {}
        if name == "ClientHello":
            facts["renegotiation"] = self.over > 1
            self.client, self.session = frame.side, facts.pop("session")
        elif name == "ServerHello":
            self._chosen(frame, names, facts)
        elif name == "Certificate":
            facts = certificate(body, new=self.version == "TLS 1.3")
            self._judge(frame, facts)
        elif name == "HelloRequest":
            facts["renegotiation"] = True
        self.over += name == "Finished"
        if facts.get("renegotiation"):
            frame.find("note", NAME, "renegotiation", "a handshake begins anew on the same connection")
        return facts

    def _chosen(self, frame: Frame, names: list[str], facts: Facts) -> None:
        if self.client is None:
            self.client = 1 - frame.side
        session, psk = facts.pop("session"), facts.pop("psk")
        self.version = facts["version_chosen"]
        if facts.pop("retry"):
            names[-1] = RETRY
        elif psk or (self.version != "TLS 1.3" and session and session == self.session):
            facts["resumption"] = "accepted"

    def _judge(self, frame: Frame, facts: Facts) -> None:
        """Whether a certificate is valid when it is sent."""
        now = rfc3339(frame.time_ns)[:19] + "Z"
        for name, wrong in (("certificate_expires", "expired"), ("certificate_begins", "is not valid before")):
            limit = facts.get(name)
            if limit is not None and (limit < now if wrong == "expired" else limit > now):
                message = f"the certificate of {facts['certificate_subject']} {wrong} {limit}"
                frame.find("warning", NAME, "certificate", message, name)


class TlsConversation(Conversation):
    """Records that were decrypted, or are in clear, of a connection that speaks TLS from its first byte on."""

    layer = TlsRecord

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.handshakes = Handshakes()

    @property
    def identities(self) -> Mapping[str | None, IdentityReader]:
        return IDENTITIES

    def decode(self, frame: Frame, style: Style | None) -> None:
        FrameDecoder(TlsRecord, None).read(frame, style)
        self.handshakes.read(frame)
        self.client = self.handshakes.client
        frame.sender = self.sender(frame)


def hello(frame: Frame) -> Mapping[str, Any]:
    """The requested server, from a ClientHello."""
    return {"server_name": frame.generated.get("server_name")}


def failure_of(frame: Frame) -> Mapping[str, Any]:
    """Why the connection ends, as an alert says."""
    if frame.generated.get("alert_level") != "fatal":
        return {}
    return {"closed_by": frame.sender, "reason": frame.generated["alert"]}


IDENTITIES: Mapping[str | None, IdentityReader] = {"ClientHello": hello, "Alert": failure_of}
