"""Rows of NATS messages: one per message, or the rows of a carried protocol."""

from typing import Any

from wiredecode.fields import printable, redacted
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Header, Messages
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.layers_decoders import hides_data
from wiredecode.protocols.shared.carried import CarriedSessions

PUBLISHING = ("PUB", "HPUB")


def add_messages(frame: Frame, carried: CarriedSessions, out: Messages, published_ns: int | None) -> None:
    """See :meth:`Conversation.messages`; ``published_ns``: as in :class:`FrameMessages`."""
    values = frame.values
    name, subject = values.get("operation"), values.get("subject")
    if name not in names.COUNTED or subject is None:
        return
    operation = PUBLISH if name in PUBLISHING else DELIVER
    if frame.inner and carried.messages(frame, operation, subject, out):
        return
    headers: list[Header] | None = None
    if "version" in values:
        headers = [header_of(header, out.secrets) for header in values.get("headers", ())]
    body = values.get("data")
    if not out.secrets and hides_data(frame.layer):
        body = None
    columns = {"headers": None if headers is None else (headers,), "published_ns": published_ns}
    out.add(frame, operation, (body,), topic=printable(subject), **columns)


def header_of(header: Any, secrets: bool) -> Header:
    """Name and value; what carries credentials is hidden, as in records."""
    key, value = header.get("key", ""), header.get("value", "").encode("utf-8", "surrogateescape")
    if not secrets and names.is_secret_header(key, header.get("value", "")):
        value = redacted(value).encode()
    return printable(key), value
