"""Rows of Liftbridge's messages: published ones, and those in the answers of replication."""

from collections.abc import Iterable, Mapping
from typing import Any

from wiredecode.fields import compiler, printable
from wiredecode.frames.frame import OK, Frame, Inner
from wiredecode.frames.message import Header, Messages, header_of
from wiredecode.protocols.liftbridge.layers import Publish, ReplicationResponse
from wiredecode.protocols.liftbridge.layers_reading import read

INBOX = "_INBOX."


def add_messages(frame: Frame, operation: str, subject: str, out: Messages) -> bool:
    """Add what the payload of a NATS message holds; False: nothing that counts as messages."""
    inner = frame.inner[0]
    if inner.layer is Publish:
        add_published(frame, operation, subject, inner, out)
        return True
    return inner.layer is ReplicationResponse and add_replicated(frame, operation, subject, inner, out)


def add_published(frame: Frame, operation: str, subject: str, inner: Inner, out: Messages) -> None:
    """A message on its way to its stream. Its offset is what the publisher expects, not the one it has."""
    fields = read(frame, Publish, inner.data, inner.start, None, truncated=frame.is_partial).fields
    body = fields.get("value", b"" if frame.status == OK else None)
    timestamp, headers = fields.get("timestamp"), fields.get("headers")
    out.add(
        frame,
        operation,
        (body,),
        topic=printable(fields.get("stream") or subject),
        namespace=frame.generated.get("namespace"),
        partition=fields.get("partition"),
        keys=(fields.get("key"),),
        times_ns=None if timestamp is None else (timestamp,),
        headers=None if headers is None else (headers_of(headers, out.secrets),),
    )


def add_replicated(frame: Frame, operation: str, subject: str, inner: Inner, out: Messages) -> bool:
    """Stored messages on their way from the leader to a follower; only the request names stream and partition."""
    values = compiler.careful(ReplicationResponse, inner.data, 0, len(inner.data)).values
    whole = [entry for entry in values.get("entries", ()) if "value" in entry]
    if not whole:
        return False
    out.add(
        frame,
        operation,
        [entry["value"] for entry in whole],
        topic=frame.generated.get("stream", None if subject.startswith(INBOX) else printable(subject)),
        namespace=frame.generated.get("namespace"),
        partition=frame.generated.get("partition"),
        keys=[entry["key"] for entry in whole],
        offsets=[entry["offset"] for entry in whole],
        times_ns=[entry["timestamp"] for entry in whole],
        headers=[headers_of(entry.get("headers", ()), out.secrets) for entry in whole],
    )
    return True


def headers_of(headers: Iterable[Mapping[str, Any]], secrets: bool) -> list[Header]:
    return [header_of(header.get("key", ""), header.get("value") or b"", secrets) for header in headers]
