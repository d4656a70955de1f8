"""AMQP 0-9-1: the tests of all protocols, on captures of RabbitMQ 3.10 with pika and aio-pika."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from wiredecode.protocols.amqp091.layers import LAYERS, ContentBody, ContentHeader
from wiredecode.protocols.amqp091.names import CODES, GREETING
from wiredecode.protocols.amqp091.protocol import Amqp091
from wiredecode.testing import Part, ProtocolTests

FOLDER = Path(__file__).parents[2] / "captures" / "amqp091"
BY_NAME = {layer.__name__: layer for layer in LAYERS}


def method(name: str, channel: int = 1, **values: object) -> bytes:
    return bytes(BY_NAME[name](channel=channel, **values))


def message(body: bytes, channel: int = 1, split: int = 1 << 20, **properties: object) -> bytes:
    """The frames of a message after its method."""
    header = bytes(ContentHeader(channel=channel, body_size=len(body), **properties))
    parts = (body[start : start + split] for start in range(0, len(body), split))
    return header + b"".join(bytes(ContentBody(channel=channel, body=part)) for part in parts)


def publish(body: bytes, channel: int = 1, split: int = 1 << 20, **values: object) -> bytes:
    return method("BasicPublish", channel, **values) + message(body, channel, split)


OPENING = [Part(1, 0, GREETING), Part(1, 1, method("ConnectionStart", 0))]


class TestAmqp091(ProtocolTests):
    protocol = Amqp091
    vectors = (
        (BY_NAME["QueueDeclare"], method("QueueDeclare", queue="q", durable=1, arguments=b"\1aS\0\0\0\2hi")),
        (ContentHeader, message(b"", priority=3, headers=b"\1aF\0\0\0\4\1bt\1")),
        (ContentBody, bytes(ContentBody(channel=1, body=b"hello"))),
    )
    captures = sorted({*FOLDER.glob("*.pcap*")} - {FOLDER / "stream.pcap.zst"})  # that has another protocol, too
    dialogues: ClassVar[Any] = {
        "confirms": [
            *OPENING,
            Part(
                1, 0, method("ConfirmSelect") + publish(b"a" * 30, split=8, exchange="x") + publish(b"", exchange="y")
            ),
            Part(1, 1, method("ConfirmSelectOk") + method("BasicAck", delivery_tag=2, multiple=1)),
        ],
    }
    steady = frozenset(
        {"frame_type", "size", "class_id", "method_id", "end_mark", "property_flags", "body_size", "channel"}
        | {"delivery_tag", "cause_class_id", "cause_method_id", "protocol_id", "version_major", "version_minor"}
        | {"revision", "reply_code"}
    )


def test_every_method_of_the_specification_is_a_type() -> None:
    assert len(CODES) == 66
    assert {"BasicNack", "ConfirmSelect", "ConnectionBlocked", "ConnectionUpdateSecret", "ExchangeBind"} <= set(CODES)
