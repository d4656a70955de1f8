"""Fields that other frames tell, or that are worked out: their Arrow types and what they mean."""

from __future__ import annotations

from wiredecode.protocols.base import Generated

GENERATED = {
    "rabbitmq_stream.stream": Generated("string", "stream of the publisher or subscription, from its declaration"),
    "rabbitmq_stream.reference": Generated("string", "name of the publisher or consumer, from its declaration"),
    "rabbitmq_stream.publisher_id": Generated("uint8", "on responses: the id that the request named"),
    "rabbitmq_stream.subscription_id": Generated("uint8", "on responses: the id that the request named"),
    "rabbitmq_stream.requests": Generated(
        "list<int64>", "on confirms and errors that are about several frames: all of these, the oldest first"
    ),
    "rabbitmq_stream.user": Generated("string", "user name in the SASL data"),
    "rabbitmq_stream.negotiated_frame_max": Generated(
        "uint32", "on the answer to Tune: what holds from now on, in bytes"
    ),
    "rabbitmq_stream.negotiated_heartbeat": Generated("uint32", "on the answer to Tune: what holds from now on, in s"),
    "rabbitmq_stream.crc_status": Generated("string", "good or bad: CRC-32 of the chunk's data section"),
    "rabbitmq_stream.chunk.entries.offset": Generated("uint64", "offset of the message in the stream"),
    "rabbitmq_stream.chunk.entries.sub_batch.messages.offset": Generated(
        "uint64", "offset of the message in the stream"
    ),
    **{
        f"rabbitmq_stream.{entries}.sub_batch.{name}": field
        for entries in ("messages", "chunk.entries")
        for name, field in {
            "messages": Generated("list<struct>", "messages of the sub-batch, decompressed"),
            "messages.data": Generated("binary", "the message"),
            "problem": Generated("string", "why the sub-batch could not be decoded, or not to its end"),
        }.items()
    },
}

COLUMN_TYPES = {
    "rabbitmq_stream.body": "binary",
    "rabbitmq_stream.messages.amqp": "json",
    "rabbitmq_stream.messages.sub_batch.messages.amqp": "json",
    "rabbitmq_stream.chunk.entries.amqp": "json",
    "rabbitmq_stream.chunk.entries.sub_batch.messages.amqp": "json",
}
"""Types of fields that records show otherwise than they are declared."""
