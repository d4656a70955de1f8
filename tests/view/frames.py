"""Frames for tests of views: both sides of a RabbitMQ Stream connection, dissected as commands do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.net import craft
from tests.pcap import write_pcap
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.values import Raw

CLIENT, SERVER = 0, 1
HANDSHAKE: list[tuple[int, Layer]] = [
    (CLIENT, layers.PeerProperties(correlation_id=1)),
    (SERVER, layers.PeerPropertiesResponse(correlation_id=1)),
]


def packets(messages: Iterable[tuple[int, Layer | bytes]]) -> list[bytes]:
    """The packets of one connection: TCP handshake, protocol handshake, then the messages."""
    talk = craft.Talk()
    made = talk.handshake()
    for side, message in [*HANDSHAKE, *messages]:
        made += talk.send(side, bytes(message))
    return made


def dissected(messages: Iterable[tuple[int, Layer | bytes]], *, secrets: bool = False) -> list[Frame]:
    """The frames of ``messages``, with records for trees."""
    dissector = Dissector(Demand(style=Style(Raw, secrets)))
    frames = list(dissector.frames(craft.batches(packets(messages))))
    return frames[len(HANDSHAKE) :]


def write(path: Path, made: list[bytes]) -> Path:
    """A pcap file of packets, 1 ms apart."""
    timed = [(craft.START_NS + index * 1_000_000, data) for index, data in enumerate(made)]
    write_pcap(path, timed)
    return path
