"""Use from Scapy: dispatch, several frames in one segment, fuzz, rdpcap, and a session with our reassembly."""

from __future__ import annotations

import pickle
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, fuzz
from scapy.sendrecv import sniff
from scapy.utils import rdpcap

import wiredecode
from tests.net.craft import Talk
from wiredecode.fields.layer import Layer
from wiredecode.protocols.nats.layers import Connect, Info, Msg, Ok, Ping, Pong, Pub, Sub
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, DeclarePublisher, Open, Tune
from wiredecode.protocols.registry import protocols
from wiredecode.scapy import BASES, Session

CAPTURES = Path(__file__).parent.parent / "captures"
ONE_OF_EACH = [min((CAPTURES / folder).glob("*.pcap")) for folder in ("cursus", "nats", "liftbridge", "tank")]
WHOLE = [path for name in ("pravega", "rabbitmq-stream") for path in sorted((CAPTURES / name).glob("*.pcap"))[:1]]


def layers_of(packet: Packet) -> list[Layer]:
    """The layers of ours in a packet."""
    found = (packet.getlayer(index) for index in range(len(packet.layers())))
    return [layer for layer in found if isinstance(layer, Layer)]


def test_the_base_class_dispatches() -> None:
    command, operation = BASES["rabbitmq_stream"], BASES["nats"]
    raw = bytes(Open(correlation_id=0x01020304, virtual_host="/"))
    assert type(command(raw)) is Open
    assert type(operation(b"PUB a 3\r\nabc\r\n")) is Pub
    assert type(command(b"\xff" * 40)) is Raw


def test_frames_of_one_segment_come_one_after_another() -> None:
    first, second = Open(correlation_id=7, virtual_host="/"), Tune(frame_max=0x01020304)
    raw = bytes(first / second)
    assert raw == bytes(first) + bytes(second)
    packet = IP(bytes(IP(dst="127.0.0.1") / TCP(dport=5552) / raw))
    assert [type(layer) for layer in layers_of(packet)] == [Open, Tune]
    assert packet[Tune].frame_max == 0x01020304
    assert bytes(packet[TCP].payload) == raw
    named = IP(bytes(IP() / TCP(sport=4222) / b"PING\r\nMSG a 1 3\r\nabc\r\nPONG\r\n"))
    assert [type(layer) for layer in layers_of(named)] == [Ping, Msg, Pong]


def test_ls_lists_the_layers() -> None:
    assert Open in conf.layers
    assert set(BASES) == {protocol.name for protocol in protocols()}
    ours = [layer for protocol in protocols() for layer in protocol.layers()]
    assert ours and all(layer._name == f"{layer.filter_name} {layer.__name__}" for layer in ours)


def test_an_import_of_everything_brings_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from wiredecode.scapy import *", names)
    assert names.keys() - {"__builtins__"} == {"BASES", "Session", "register"}


def test_rdpcap_knows_kafka() -> None:
    packets = rdpcap(BytesIO(pa.input_stream(CAPTURES / "kafka" / "errors.pcap.zst").read()))
    assert {"MetadataRequestV0", "ProduceRequestV0"} <= {
        type(each).__name__ for one in packets for each in layers_of(one)
    }


def test_show2_of_a_frame_shows_the_frames_after_it() -> None:
    packet = BASES["nats"](bytes(Ping() / Pub(subject="a", data=b"1") / Pub(subject="b", data=b"2")))
    shown = packet[Pub].show2(dump=True)
    assert (shown.count("nats Pub"), "Raw" in shown) == (2, False)


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.name)
def test_every_layer_can_be_fuzzed_and_shown(protocol: wiredecode.protocols.base.Protocol) -> None:
    """Issue 11, point 6: random values, and missing fields."""
    random.seed(11)
    for layer in protocol.layers():
        made = fuzz(layer())
        assert made.show(dump=True).startswith(f"###[ {made.name} ]###")
        for _ in range(3):
            raw = bytes(made)
            if raw:
                layer.within(raw, 0, len(raw)).show(dump=True)


@pytest.mark.parametrize("path", ONE_OF_EACH, ids=lambda path: path.parent.name)
def test_every_packet_of_a_capture_can_be_shown(path: Path) -> None:
    shown = {frame.type: frame.packet().show2(dump=True) for frame in wiredecode.read(path)}
    assert shown and all(shown.values())


ODD_LINES = [
    b"SUB foo  1\r\n",
    b"sub foo 1\n",
    b"SUB\tfoo \t 1\r\n",
    b"PUB foo 01\r\na\r\n",
    b'CONNECT  {"a": 1, "verbose" : true }\r\n',
    b'INFO {"server_id":"A","server_id":"B", "x":1e2}  \r\n',
    b"HPUB a 017  019\r\nNATS/1.0\r\nA:b\r\n\r\nok\r\n",
    b"hmsg a 1 r  12 14\r\nNATS/1.0\r\n\r\nok\r\n",
]


@pytest.mark.parametrize("raw", ODD_LINES)
def test_copies_and_changed_packets_keep_the_spelling_of_a_line(raw: bytes) -> None:
    """Issue 27, point 5: ``SUB foo  1`` became ``SUB foo 1``."""
    layer = BASES["nats"](raw)
    assert bytes(layer) == bytes(layer.copy()) == bytes(layer.copy().copy()) == bytes(next(iter(layer))) == raw
    packet = IP(bytes(IP() / TCP(dport=4222) / raw))
    assert layers_of(packet), "the frame is dissected"
    changed = packet.copy()
    del changed[IP].chksum, changed[TCP].chksum
    assert bytes(packet.copy()) == bytes(changed) == bytes(packet)
    assert bytes(pickle.loads(pickle.dumps(packet))) == bytes(packet)


def test_a_changed_copy_does_not_change_the_packet() -> None:
    layer = BASES["nats"](b"SUB  foo  1\r\n")
    other = layer.copy()
    other.subject = "bar"
    assert (bytes(other), bytes(layer)) == (b"SUB  bar  1\r\n", b"SUB  foo  1\r\n")


def test_fuzz_tries_the_ends_of_integers() -> None:
    random.seed(3)
    made = {bytes(fuzz(DeclarePublisher()))[4:6] for _ in range(200)}
    assert len(made) > 50
    assert {b"\0\0", b"\xff\xff"} <= made
    assert LAYERS


@pytest.mark.parametrize("path", [*ONE_OF_EACH, *WHOLE], ids=lambda path: path.parent.name)
def test_a_session_yields_the_frames_of_the_dissector(path: Path) -> None:
    expected = list(wiredecode.read(path))
    packets = sniff(offline=str(path), session=Session, quiet=True)
    found = [packet[TCP].payload for packet in packets if TCP in packet and packet[TCP].payload]
    assert [(type(layer), layer.fields.keys()) for layer in found] == [
        (type(frame.packet()), frame.packet().fields.keys()) for frame in expected
    ]
    assert [bytes(layer)[:4] for layer in found] == [frame.data[:4] for frame in expected]


def test_rdpcap_decodes_the_usual_ports() -> None:
    packets = rdpcap(str(WHOLE[1]))
    assert sum(bool(layers_of(packet)) for packet in packets) > 3


def test_a_session_puts_segments_in_order() -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    raw = [*talk.handshake(), *talk.send(0, b"PUB stock.gbp 6\r\nGBP 79\r\n", 7)]
    raw[-1], raw[-2] = raw[-2], raw[-1]
    packets = [Ether(packet) for packet in raw]
    found = [packet for packet in sniff(offline=packets, session=Session, quiet=True) if Pub in packet]
    assert [packet[Pub].data for packet in found] == [b"GBP 79"]
    assert found[0][TCP].dport == 4222


@pytest.fixture
def broker() -> Iterator[int]:
    """The port of a real nats-server."""
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("nats-server is not installed (Debian: apt-get install nats-server)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        server.terminate()
        server.wait(10)


def test_the_page_of_the_docs_runs(monkeypatch: pytest.MonkeyPatch, broker: int) -> None:
    monkeypatch.chdir(CAPTURES.parent)
    page = (CAPTURES.parent / "docs" / "scapy.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block.replace("4222), 5)", f"{broker}), 5)"), names)
    assert names["answers"] == ["Msg", "Pong"]


def until(connection: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        read = connection.recv(65536)
        assert read, data
        data += read
    return data


def test_a_real_broker_understands_crafted_frames(broker: int) -> None:
    with socket.create_connection(("127.0.0.1", broker), 5) as connection:
        hello = BASES["nats"](until(connection, b"\r\n"))
        assert type(hello) is Info
        connection.sendall(
            bytes(Connect() / Sub(subject="stock.*", sid="9") / Pub(subject="stock.gbp", data=b"GBP 79") / Ping())
        )
        received = BASES["nats"](until(connection, b"PONG\r\n"))
        answers = [type(layer) for layer in layers_of(received)]
        assert [answer for answer in answers if answer is not Ok] == [Msg, Pong]
        assert (received[Msg].subject, received[Msg].sid, received[Msg].data) == ("stock.gbp", "9", b"GBP 79")
        random.seed(5)
        connection.sendall(bytes(fuzz(Pub())))  # the broker answers -ERR, or continues
    with socket.create_connection(("127.0.0.1", broker), 5) as again:
        assert type(BASES["nats"](until(again, b"\r\n"))) is Info
