"""What changes for RabbitMQ's streams and their consumers."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream.names import RESPONSE_CODES
from wiredecode.protocols.shared.changes import GROUP, STREAM, Change


def moved(frame: Frame) -> Iterator[Change]:
    stream, code = printable(frame.values["stream"]), frame.values["response_code"]
    yield Change(STREAM, stream, f"the broker says of {stream}: {RESPONSE_CODES.get(code, f'code {code}')}")


def made(frame: Frame) -> Iterator[Change]:
    stream = printable(frame.values.get("stream") or frame.values.get("super_stream") or frame.values["name"])
    did = "create" if frame.type is not None and frame.type.startswith("Create") else "delete"
    yield Change(STREAM, stream, f"a client asks to {did} {stream}")


def active(frame: Frame) -> Iterator[Change]:
    """Single active consumers."""
    told = frame.generated
    of = f"{told.get('reference', 'a consumer')} on {told.get('stream', 'a stream')}"
    what = "the active consumer" if frame.values["active"] else "not active any more"
    yield Change(GROUP, of, f"#{frame.connection.number} is {what} of {of}")


CHANGES = {
    "MetadataUpdate": moved,
    "ConsumerUpdate": active,
    **dict.fromkeys(("Create", "Delete", "CreateSuperStream", "DeleteSuperStream"), made),
}
