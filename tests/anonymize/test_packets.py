"""Packets of an anonymized capture: copies, late frames, packets without TCP, replacements."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.pcap import write_pcap
from wiredecode import anonymize
from wiredecode.anonymize import Anonymizer
from wiredecode.anonymize.key import BadKey, Key, read_key
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.capture.info import Interface
from wiredecode.cli.app import run
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.net.limits import Limits
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.shared.proxy import SIGNATURE
from wiredecode.testing.packets import Talk, batches, ethernet, ipv4, ipv6

KEY = bytes(range(1, 33))
SECRET = b"\0maria\0geheim99"
AUTHENTICATE = bytes(layers.SaslAuthenticate(correlation_id=0x01020304, mechanism="PLAIN", data=SECRET))
HANDSHAKE = bytes(layers.PeerProperties(correlation_id=0x11121314, properties=[]))
CREATE = bytes(layers.Create(correlation_id=0x21222324, stream="invoices-of-maria", arguments=[]))


def through(packets: Iterable[bytes], path: Path, size: int | None = None, *, patches: bool = True) -> list[bytes]:
    """The anonymized packets; ``size``: packets per batch."""
    with path.open("w+b") as file:
        maker = Anonymizer(file, Key(KEY), Limits(), names=True, bodies=True, patches=patches)
        demand = Demand(link_responses=False)
        dissector = Dissector(demand, on_events=maker.events, on_decoded=maker.over)
        for batch in batches(packets, size):
            maker.add_packets(batch, [Interface(1)])
            maker.add_frames(dissector.feed(batch))
        maker.add_frames(dissector.finish())
        maker.finish()
    return [packet for batch in open_capture([path]) for packet in data(batch)]


def data(batch: PacketBatch) -> list[bytes]:
    pairs = zip(batch.start.tolist(), batch.captured.tolist(), strict=True)
    return [bytes(batch.buffer[start : start + size]) for start, size in pairs]


def sums_to_zero(header: bytes) -> bool:
    return sum(struct.unpack(f"!{len(header) // 2}H", header)) % 0xFFFF == 0


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.pcapng"


def test_a_retransmission_in_other_segments_gets_the_same_bytes(out: Path) -> None:
    talk = Talk()
    start = talk.seq[0]
    first = talk.send(0, HANDSHAKE + CREATE)
    again = [talk.packet(0, (HANDSHAKE + CREATE)[at : at + 9], seq=start + at) for at in range(0, 27, 9)]
    packets = through([*talk.handshake(), *first, *again], out, size=1)
    stream = packets[3][54:]
    assert stream[: len(HANDSHAKE)] == HANDSHAKE
    assert b"invoices" not in stream
    assert [packet[54:] for packet in packets[4:]] == [stream[at : at + 9] for at in range(0, 27, 9)]


def test_a_copy_with_other_bytes_is_blanked(out: Path) -> None:
    talk = Talk()
    start = talk.seq[0]
    packets = through([*talk.handshake(), *talk.send(0, HANDSHAKE), talk.packet(0, b"maria", seq=start)], out)
    assert packets[-1][54:] == b"xxxxx"


@pytest.mark.parametrize("patches", [True, False])
def test_a_late_frame_changes_packets_already_written(
    out: Path, patches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anonymize, "WINDOW_BYTES", 0)
    talk = Talk()
    packets = through([*talk.handshake(), *talk.send(0, HANDSHAKE + CREATE, 20)], out, size=1, patches=patches)
    stream = b"".join(packet[54:] for packet in packets[3:])
    assert b"invoices" not in stream
    assert stream[: len(HANDSHAKE)] == HANDSHAKE
    assert (stream[len(HANDSHAKE) :][:4] == CREATE[:4]) is patches
    assert all(sums_to_zero(packet[14:34]) for packet in packets)


def test_packets_without_tcp_and_undecoded_bytes_are_blanked(out: Path) -> None:
    secret = b"maria was here"
    udp = struct.pack("!HHHH", 53, 0x1234, 8 + len(secret), 0) + secret
    fragment = ipv4(secret + b"xx", offset=64)
    unknown = Talk(server=("10.0.0.2", 7777))
    sent = [
        ethernet(ipv4(udp, protocol=17)),
        ethernet(fragment),
        ethernet(secret, 0x88B5),
        ethernet(ipv6(udp, protocol=17), 0x86DD),
    ]
    packets = through([*sent, *unknown.handshake(), *unknown.send(0, secret)], out)
    assert not any(secret in packet for packet in packets)
    assert [len(packet) for packet in packets[:4]] == [len(packet) for packet in sent]
    assert packets[0][34:38] == udp[:4]


def test_nats_credentials_at_any_place_are_blanked(out: Path) -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    info = b'INFO {"server_id":"N","version":"2.10.0","client_id":5,"max_payload":1000,"headers":true}\r\n'
    connect = b'CONNECT {"verbose":false,"lang":"go","extra":{"my_token":"hush1"},"pass":"p\\"hush2"}\r\n'
    claims = b"PUB $SYS.REQ.USER.AUTH 13\r\neyJhbGc.hush3\r\n"
    header = b"HPUB a 35 37\r\nNATS/1.0\r\nAuthorization: hush4 \r\n\r\nhi\r\n"
    sent = [
        *talk.handshake(),
        *talk.send(1, info),
        *talk.send(0, connect),
        *talk.send(0, claims),
        *talk.send(0, header),
    ]
    packets = through(sent, out)
    assert not any(b"hush" in packet for packet in packets)
    frames = list(Dissector().frames(open_capture([out])))
    assert [(frame.type, frame.status) for frame in frames] == [
        (name, "ok") for name in ("INFO", "CONNECT", "PUB", "HPUB")
    ]


@pytest.mark.parametrize(
    "preface",
    [
        b"PROXY TCP4 198.51.100.22 203.0.113.7 35646 5552\r\n",
        SIGNATURE + b"\x21\x11\0\x0c" + bytes([198, 51, 100, 22, 203, 0, 113, 7]) + b"\x8b\x3e\x15\xb0",
    ],
    ids=["text", "binary"],
)
def test_addresses_of_a_proxy_preface_are_replaced(preface: bytes, out: Path) -> None:
    talk = Talk()
    packets = through([*talk.handshake(), *talk.send(0, preface + HANDSHAKE + CREATE)], out)
    stream = packets[3][54:]
    assert len(stream) == len(preface + HANDSHAKE + CREATE)
    assert b"198.51" not in stream
    assert bytes([198, 51]) not in stream
    assert stream[:5] == preface[:5]
    assert stream[len(preface) :].startswith(HANDSHAKE)


def test_addresses_keep_shared_prefixes_and_digits() -> None:
    key = Key(KEY)
    texts = ["10.1.2.3", "10.1.2.9", "10.1.77.3", "10.200.2.3", "192.168.0.10"]
    images = [key.addresses(text.encode()).decode() for text in texts]
    assert len(set(images)) == len(texts)
    assert [[len(octet) for octet in image.split(".")] for image in images] == [
        [len(octet) for octet in text.split(".")] for text in texts
    ]
    parts = [image.split(".") for image in images]
    assert parts[0][:3] == parts[1][:3]
    assert parts[0][:2] == parts[2][:2] != parts[3][:2]
    assert parts[0][0] == parts[3][0] != parts[4][0]


def test_different_names_stay_different_and_protocol_words_stay() -> None:
    key = Key(KEY)
    letters = [bytes([97 + one, 97 + two]) for one in range(26) for two in range(26)]
    assert len({key.names(each, frozenset({"js"})) for each in letters}) == len(letters)
    assert key.names(b"$JS.API.x", frozenset({"JS", "API"})).startswith(b"$JS.API.")
    assert key.names(b"P12", frozenset()) != b"P12"


def test_errors_are_one_line_and_leave_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a.pcap"
    write_pcap(source, [(1, packet) for packet in Talk().handshake()])
    short = tmp_path / "short"
    short.write_bytes(b"abc")
    for words in (
        [str(source), "-o", str(source)],
        [str(source)],
        ["-o", str(source), str(tmp_path / "*.pcap")],
        ["-o", str(source), str(tmp_path)],
        [str(source), "-o", "-"],
        [str(source), "-o", str(tmp_path / "o.pcapng"), "--key", str(tmp_path / "none")],
        [str(source), "-o", str(tmp_path / "o.pcapng"), "--key", str(short)],
        [str(tmp_path / "none.pcap"), "-o", str(tmp_path / "o.pcapng")],
    ):
        assert run(["anonymize", *words]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pcap", "short"]
    with pytest.raises(BadKey, match="at least 16"):
        read_key(str(short))


@pytest.mark.parametrize("address", ["fd00::9", "fe80::3", "2001:db8::1", "10.0.0.1", "192.168.1.7"])
def test_no_address_is_its_own_image_under_any_key(address: str) -> None:
    raw = ip_address(address).packed
    for number in range(60):
        key = Key(number.to_bytes(32, "big"))
        assert (key.ipv4 if len(raw) == 4 else key.ipv6)(raw) != raw


def test_short_groups_of_ipv6_have_distinct_images() -> None:
    key = Key(bytes(range(32)))
    images = {key.ipv6(ip_address(f"fd00::{group:x}").packed) for group in range(1, 256)}
    assert len(images) == 255
