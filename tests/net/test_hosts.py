"""Names of addresses come from the capture: DNS answers before a connection, and name-resolution blocks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.net.craft import Talk, ethernet, ipv4, ipv6, udp
from tests.support import RABBITMQ, packets
from wiredecode.capture import PacketBatch
from wiredecode.cli.app import app
from wiredecode.net.hosts import Hosts, answers
from wiredecode.net.limits import Limits
from wiredecode.net.network import Network

QUESTION = b"\x08broker-7\x07example\0"


def reply(*found: tuple[int, bytes], name: bytes = QUESTION, flags: int = 0x8180) -> bytes:
    """An answer whose records point to the question; a CNAME comes first."""
    head = struct.pack(">HHHHHH", 0x0102, flags, 1, len(found) + 1, 0, 0)
    records = [(5, b"\x05other\xc0\x0c"), *found]
    made = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 300, len(data)) + data for kind, data in records)
    return head + name + struct.pack(">HH", 1, 1) + made


V4, V6 = bytes([10, 0, 0, 2]), bytes.fromhex("20010db8000000000000000000000102")


def test_addresses_get_the_name_of_the_dns_question() -> None:
    assert [*answers(reply((1, V4), (28, V6)))] == [
        ("10.0.0.2", "broker-7.example"),
        ("2001:db8::102", "broker-7.example"),
    ]
    assert not [*answers(reply((1, V4), flags=0x0180))]  # a question
    assert not [*answers(reply((1, V4), flags=0x8183))]  # no such name
    whole = reply((1, V4), (28, V6))
    for size in range(len(whole)):  # truncated, or with circular pointers
        for data in (whole[:size], whole[:size] + b"\xc0\x0c" + whole[size + 2 :]):
            try:
                assert {address for address, _ in answers(data)} <= {"10.0.0.2", "2001:db8::102"} or size
            except (IndexError, ValueError):
                continue


@pytest.mark.parametrize("size", [None, 1])
def test_dns_answers_before_a_connection_name_it(size: int | None) -> None:
    def dns(data: bytes, six: bool = False) -> bytes:
        datagram = udp(data, source=53, target=0xC123)
        return ethernet(ipv6(datagram, protocol=17), 0x86DD) if six else ethernet(ipv4(datagram, protocol=17))

    before = Talk(client=("10.0.0.1", 40000), server=("10.0.0.2", 4222)).handshake()
    after = Talk(client=("10.0.0.1", 40001), server=("10.0.0.2", 4222)).handshake()
    evil = reply((1, bytes([10, 0, 0, 1])), name=b"\x04\x1b[2J\0")
    sent = [*before, dns(reply((1, V4)), six=size is None), dns(evil), dns(b"\0" * 7), *after]
    network = Network(resolve=True)
    for at in range(0, len(sent), size or len(sent)):
        part = sent[at : at + (size or len(sent))]
        network.feed(PacketBatch.from_packets([(at, each) for each in part], first_number=at + 1))
    network.finish()
    first, second = network.pop_forgotten()
    assert first.hosts is None
    assert first.named_endpoints == ("10.0.0.1:40000", "10.0.0.2:4222")
    assert second.named_endpoints == ("10.0.0.1:40001", "broker-7.example:4222")


def test_kept_names_are_valid_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.net.hosts.MAX_ADDRESSES", 2)
    hosts = Hosts(Limits())
    for number, name in enumerate(("a b", "a\n", "-", "", "x" * 300, "good.example.", "better", "late")):
        hosts.add(f"10.0.0.{number}", name)
    assert hosts._names == {"10.0.0.5": [(0, "good.example")], "10.0.0.6": [(0, "better")]}


def named(tmp_path: Path, capture: str = "02-auth.pcap") -> Path:
    """A capture of NATS with a name-resolution block before its packets."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    record = bytes([127, 0, 0, 1]) + b"nats-1.example\0"
    names = struct.pack("<HH", 1, len(record)) + record + bytes(-len(record) % 4) + bytes(4)
    made = (
        block(0x0A0D0D0A, b"\x4d\x3c\x2b\x1a\1\0\0\0" + b"\xff" * 8) + block(1, b"\1\0\0\0\0\0\4\0") + block(4, names)
    )
    for time, data in packets(RABBITMQ.parent / "nats" / capture):
        microseconds = time // 1000
        head = struct.pack("<IIIII", 0, microseconds >> 32, microseconds & 0xFFFFFFFF, len(data), len(data))
        made += block(6, head + data)
    path = tmp_path / "named.pcapng"
    path.write_bytes(made)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["pcap", "--summary"],
        ["pcap"],
        ["follow"],
        ["check", "--severity", "note"],
        ["stats", "--json"],
        ["export", "--level", "connections"],
    ],
    ids=lambda words: " ".join(words),
)
def test_commands_show_names_on_request(words: list[str], tmp_path: Path) -> None:
    path = named(tmp_path)
    out = ["-o", str(tmp_path / "out.ndjson")] if words[0] == "export" else []
    shown = []
    for resolve in ([], ["--resolve", "none"], ["--resolve", "capture"]):
        result = CliRunner().invoke(app, [*words, str(path), *out, *resolve])
        assert result.exit_code in (0, 1), result.output
        shown.append((tmp_path / "out.ndjson").read_text() if out else result.stdout)
    assert "nats-1.example" not in shown[0]
    assert shown[0] == shown[1]
    assert "nats-1.example" in shown[2]


def test_addresses_stay_in_records_and_filters(tmp_path: Path) -> None:
    path = named(tmp_path)
    result = CliRunner().invoke(
        app, ["pcap", str(path), "--json", "-q", "--resolve", "capture", "-Y", "ip.addr == 127.0.0.1"]
    )
    assert '"src":"127.0.0.1:' in result.stdout
    assert "nats-1.example" not in result.stdout


@pytest.mark.parametrize("command", ["anonymize {} -o out.pcapng", "spark {} -o out"])
def test_commands_without_names_say_so(command: str, tmp_path: Path) -> None:
    words = command.format(named(tmp_path)).split()
    result = CliRunner().invoke(app, [*words, "--resolve", "capture"])
    assert result.exit_code == 2
    assert "--resolve" in result.output
    assert not Path("out.pcapng").exists()
