"""MQTT as another package would add it: bits, varint lengths, conditional ids, messages, pairing, columns."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from tests.net.craft import Talk, batches
from tests.support import dissect
from tests.toy.mqtt import MQTT, ConnAck, Connect, PubAck, Publish
from wiredecode.frames.message import Messages
from wiredecode.protocols.registry import DecodeAs
from wiredecode.testing import Part, ProtocolTests

ASKED = [
    Connect(client_id="lamp", has_user=1, user="ann", keep_alive=0x0102),
    Publish(topic="a/b", qos=1, packet_id=0x0304, data=b"on"),
    Publish(topic="a/b", data=b"x" * 200),
]
TOLD = [ConnAck(), PubAck(packet_id=0x0304)]


def test_crafted_messages_have_the_bytes_of_the_specification() -> None:
    assert bytes(ASKED[0]).hex() == "1015" + "00044d515454" + "04" + "82" + "0102" + "00046c616d70" + "0003616e6e"
    assert bytes(ASKED[1]).hex() == "3209" + "0003612f62" + "0304" + "6f6e"
    assert bytes(ASKED[2])[:3].hex() == "30cd01"


def test_messages_and_acknowledgements() -> None:
    talk = Talk(server=("10.0.0.2", 1883))
    asked, answered = (b"".join(map(bytes, some)) for some in (ASKED, TOLD))
    packets = [*talk.handshake(), *talk.send(0, asked, 5), *talk.send(1, answered), *talk.close()]
    collected = Messages()
    run = dissect(batches(packets), decode_as={1883: DecodeAs(MQTT())}, messages=collected)
    assert [(frame.sender, frame.type, frame.request) for frame in run.frames] == [
        ("client", "Connect", None),
        ("client", "Publish", None),
        ("client", "Publish", None),
        ("server", "ConnAck", 1),
        ("server", "PubAck", 2),
    ]
    rows = [(part.operation, part.topic, part.bodies) for part in collected.drain()]
    assert rows == [("publish", "a/b", [b"on"]), ("publish", "a/b", [b"x" * 200])]
    assert run.totals.closes
    assert run.totals.undecoded == 0


class TestMQTT(ProtocolTests):
    protocol = MQTT
    vectors: ClassVar = [(type(message), bytes(message)) for message in (*ASKED, *TOLD)]
    dialogues: ClassVar = {
        "published": [Part(1, 0, b"".join(map(bytes, ASKED))), Part(1, 1, b"".join(map(bytes, TOLD)))]
    }
    captures: ClassVar = [Path(__file__).with_name("mqtt.pcap")]
