"""Published and delivered messages as rows: all frames of a message are one row, that of the last frame."""

from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Header, Messages, header_of
from wiredecode.protocols.amqp091.layers_tables import STRING, plain, read_table

OFFSET = "x-stream-offset"
"""Header of messages that come from a stream."""
MAX_SECONDS = (1 << 63) // 1_000_000_000


def topic_of(values: Any) -> str:
    """``exchange/routing key``; of the default exchange the routing key, which is the name of a queue."""
    exchange, key = values.get("exchange", ""), values.get("routing_key", "")
    return printable(f"{exchange}/{key}" if exchange else key)


def add_message(frame: Frame, content: Any, out: Messages) -> None:
    """See :meth:`Conversation.messages`; ``content``: a message that is complete."""
    headers: list[Header] | None = None
    offset = None
    if raw := content.properties.get("headers"):
        entries, _ = read_table(raw)
        headers = [
            header_of(each.name, each.value if each.type == STRING else str(plain(each)).encode(), out.secrets)
            for each in entries
        ]
        offset = next((each.value for each in entries if each.name == OFFSET and isinstance(each.value, int)), None)
    seconds = content.properties.get("timestamp")
    out.add(
        frame,
        PUBLISH if content.type == "BasicPublish" else DELIVER,
        (content.body,),
        topic=topic_of(content.values),
        headers=None if headers is None else (headers,),
        offsets=None if offset is None or offset < 0 else (offset,),
        times_ns=None if seconds is None or seconds >= MAX_SECONDS else (seconds * 1_000_000_000,),
    )
