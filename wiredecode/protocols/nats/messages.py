"""Rows of NATS messages: one per message, or the rows of a carried protocol."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Header, Messages, header_of
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_acks import parse_ack_subject
from wiredecode.protocols.nats.layers_decoders import hides_data
from wiredecode.protocols.shared.carried import CarriedSessions, without_carried_secrets

PUBLISHING = ("PUB", "HPUB")
SEQUENCE = "Nats-Sequence"
"""Header of messages that a stream republishes, and of answers to Direct Get."""
LARGEST = (1 << 64) - 1


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
        pairs = ((each.get("key", ""), each.get("value", "")) for each in values.get("headers", ()))
        headers = [header_of(key, value.encode("utf-8", "surrogateescape"), out.secrets) for key, value in pairs]
    body = values.get("data")
    if not out.secrets and hides_data(frame.layer):
        body = None
    elif not out.secrets and frame.inner and body:
        body = without_carried_secrets(frame, body)
    sequence = None if operation == PUBLISH else stored_sequence(values)
    columns = {
        "headers": None if headers is None else (headers,),
        "published_ns": published_ns,
        "offsets": None if sequence is None else (sequence,),
    }
    out.add(frame, operation, (body,), topic=printable(subject), **columns)


def stored_sequence(values: Mapping[str, Any]) -> int | None:
    """The sequence of a delivered message in its stream: in the subject for its ack, or in a header."""
    if (acked := parse_ack_subject(values.get("reply") or "")) is not None:
        return acked.sequence if acked.sequence <= LARGEST else None
    text = next((each.get("value", "") for each in values.get("headers") or () if each.get("key") == SEQUENCE), "")
    return int(text) if text.isascii() and text.isdigit() and int(text[:21]) <= LARGEST else None
