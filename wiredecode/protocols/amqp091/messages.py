"""Published and delivered messages as rows: all frames of a message are one row, that of the last frame."""

from typing import Any

from wiredecode.fields import printable
from wiredecode.fields.jsonfields import dump
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Messages
from wiredecode.protocols.amqp091.layers_tables import TableForm, read_table

MAX_SECONDS = (1 << 63) // 1_000_000_000


def topic_of(values: Any) -> str:
    """``exchange/routing key``; of the default exchange the routing key, which is the name of a queue."""
    exchange, key = values.get("exchange", ""), values.get("routing_key", "")
    return printable(f"{exchange}/{key}" if exchange else key)


def text_of(value: Any) -> bytes:
    """A header's value for people: strings are as they were sent."""
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else dump(value)


def add_message(frame: Frame, content: Any, out: Messages) -> None:
    """See :meth:`Conversation.messages`; ``content``: a message that is complete."""
    headers = offset = None
    if raw := content.properties.get("headers"):
        look = TableForm(hide=not out.secrets, spell=str)
        headers = [(name, text_of(value)) for name, value in read_table(raw, look).items()]
        offset = content.generated.get("stream_offset")
    seconds = content.properties.get("timestamp")
    out.add(
        frame,
        PUBLISH if content.type == "BasicPublish" else DELIVER,
        (content.body,),
        topic=topic_of(content.values),
        headers=None if headers is None else (headers,),
        offsets=None if offset is None else (offset,),
        times_ns=None if seconds is None or seconds >= MAX_SECONDS else (seconds * 1_000_000_000,),
    )
