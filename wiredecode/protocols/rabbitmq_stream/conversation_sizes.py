"""Frames of clients that are larger than the broker takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiredecode.frames.frame import Frame
    from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation

INITIAL_FRAME_MAX = 8192
"""What newer brokers accept before Open; told as a note, since older ones accept more."""
SMALL_FRAME = 4096
"""No limit on frames that could be negotiated is worth a look below this size."""


def report_size(conversation: RabbitMQConversation, frame: Frame) -> None:
    """Publish frames above the negotiated limit: newer brokers refuse them. Deliver is not bound by these limits."""
    if frame.sender != "client":
        return
    size = frame.length - 4
    if conversation.opened and 0 < conversation.frame_max < size:
        message = f"size {size} is above the negotiated frame max of {conversation.frame_max}"
        frame.find("warning", "protocol", "frame-max", message, "size", (0, 4))
    elif conversation.whole and not conversation.opened and size > INITIAL_FRAME_MAX and frame.all_seen():
        message = f"size {size} before Open: brokers from 4.3.5 accept {INITIAL_FRAME_MAX}"
        frame.find("note", "protocol", "frame-max", message, "size", (0, 4))
