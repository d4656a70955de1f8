"""TLS records as frames: the handshake, where it is in clear or was decrypted, and alerts with their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from wiredecode.fields import Rest, UInt8, UInt16
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.record import rfc3339
from wiredecode.frames.who import IdentityReader
from wiredecode.protocols.base import Conversation, generated_of
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared.handshakes import ALERTS, LEVELS, MESSAGES, READERS, RECORDS, RETRY, Facts, certificate
from wiredecode.tls.connection import ALERT, CHANGE_CIPHER, HANDSHAKE
from wiredecode.tls.half import HEADER
from wiredecode.tls.handshake import MOST_MESSAGE, next_message

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
        side, known = frame.side, dict(frame.generated)
        body = frame.data[HEADER:]
        if kind == CHANGE_CIPHER:
            self.hidden[side] = True
        elif frame.status == OK and not self.hidden[side]:
            if kind == ALERT and len(body) == 2:
                known |= self._alert(frame, *body)
            elif kind == HANDSHAKE:
                known |= self._messages(frame, body)
        if known:
            frame.generated = {name: known[name] for name in IN_ORDER if known.get(name)}

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
        known: Facts = {}
        names: list[str] = []
        while data and data[0] in MESSAGES and (found := next_message(data)) is not None:
            kind, message, data = found
            names.append(MESSAGES[kind])
            try:
                known |= self._message(frame, names, message)
            except ValueError as error:
                frame.find("warning", "malformed", "handshake-unreadable", f"{names[-1]}: {error}")
        if (data and data[0] not in MESSAGES) or len(data) > MOST_MESSAGE:
            self.hidden[side], data = True, b""
        self.rest[side] = data
        frame.type = names[0] if names else frame.type
        return known | {"messages": names if len(names) > 1 else None}

    def _message(self, frame: Frame, names: list[str], body: bytes) -> Facts:
        name = names[-1]
        known: Facts = READERS[name](body) if name in READERS else {}
        if name == "ClientHello":
            known["renegotiation"] = self.over > 1
            self.client, self.session = frame.side, known.pop("session")
        elif name == "ServerHello":
            self._chosen(frame, names, known)
        elif name == "Certificate":
            known = certificate(body, new=self.version == "TLS 1.3")
            self._judge(frame, known)
        elif name == "HelloRequest":
            known["renegotiation"] = True
        self.over += name == "Finished"
        if known.get("renegotiation"):
            frame.find("note", NAME, "renegotiation", "a handshake begins anew on the same connection")
        return known

    def _chosen(self, frame: Frame, names: list[str], known: Facts) -> None:
        if self.client is None:
            self.client = 1 - frame.side
        session, psk = known.pop("session"), known.pop("psk")
        self.version = known["version_chosen"]
        if known.pop("retry"):
            names[-1] = RETRY
        elif psk or (self.version != "TLS 1.3" and session and session == self.session):
            known["resumption"] = "accepted"

    def _judge(self, frame: Frame, known: Facts) -> None:
        """Whether a certificate is valid when it is sent."""
        now = rfc3339(frame.time_ns)[:19] + "Z"
        for name, wrong in (("certificate_expires", "expired"), ("certificate_begins", "is not valid before")):
            limit = known.get(name)
            if limit is not None and (limit < now if wrong == "expired" else limit > now):
                message = f"the certificate of {known['certificate_subject']} {wrong} {limit}"
                frame.find("warning", NAME, "certificate", message, name)


class TlsConversation(Conversation):
    """Records that were decrypted, or are in clear, of a connection that speaks TLS from its first byte on."""

    layer = TlsRecord

    def __init__(self) -> None:
        self.inner_frames = []
        self.handshakes = Handshakes()
        self.identities = IDENTITIES

    def decode(self, frame: Frame, style: Style | None) -> None:
        FrameDecoder(TlsRecord, None).read(frame, style)
        self.handshakes.read(frame)
        self.client = self.handshakes.client
        frame.sender = self.sender(frame)


def hello(frame: Frame) -> Mapping[str, Any]:
    """The requested server, from a ClientHello."""
    return {"server_name": frame.generated.get("server_name")}


def failed(frame: Frame) -> Mapping[str, Any]:
    """Why the connection ends, as an alert says."""
    if frame.generated.get("alert_level") != "fatal":
        return {}
    return {"closed_by": frame.sender, "reason": frame.generated["alert"]}


IDENTITIES: Mapping[str | None, IdentityReader] = {"ClientHello": hello, "Alert": failed}
