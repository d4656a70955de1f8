"""The generated Wireshark dissector: its fields equal those of our records."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

import wiredecode
from tests.support import needs_tshark
from tests.toy.kv import KV
from tests.wireshark.compare import Agreement, compare
from wiredecode.fields import (
    Array,
    Binary,
    Bits,
    CompactLength,
    Float64,
    Int32,
    Optional,
    Text,
    UInt8,
    UInt16,
    Varint,
    When,
    ZigZag,
)
from wiredecode.fields.layer import Layer
from wiredecode.fields.lua import LuaPrinter, LuaWriter, Script, common_type, lua_string
from wiredecode.testing import Part, craft, every
from wiredecode.wireshark import script

CAPTURES = Path(__file__).parents[2] / "captures"
QUICK = {
    "rabbitmq_stream": ("rabbitmq-stream/c43_metaupdate.pcap", 0.99),
    "tank": ("tank/tank_05_keys_timestamps.pcap", 0.97),
    "pravega": ("pravega/tables.pcap", 0.99),
    "nats": ("liftbridge/30-lb-publish-ack.pcap", 0.95),
    "cursus": ("cursus/consume.pcap", 0.97),
}
"""A capture of each protocol, and how much of it has to agree."""
LEAST = {"rabbitmq_stream": 0.95, "tank": 0.95, "pravega": 0.95, "nats": 0.90, "cursus": 0.90}
"""Least agreement of whole folders: docs/wireshark.md lists the fields that differ, with reasons."""
FOLDERS = {
    "rabbitmq_stream": ("rabbitmq-stream",),
    "tank": ("tank",),
    "pravega": ("pravega",),
    "nats": ("nats", "liftbridge"),
    "cursus": ("cursus",),
}
PCAP = (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")


@pytest.fixture(scope="module")
def dissector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wireshark") / "wiredecode.lua"
    path.write_text(script("0.0.0"))
    return path


@needs_tshark
def test_lua_loads_the_script_without_messages(dissector: Path) -> None:
    command = ["tshark", "-G", "fields", "-X", f"lua_script:{dissector}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Lua" not in done.stderr
    names = {line.split("\t")[2] for line in done.stdout.splitlines() if line.startswith("F\t")}
    assert {"rabbitmq_stream.chunk.entries.data", "tank.chunks.bundles.bundle.messages.body"} <= names
    assert {"pravega.events.data", "nats.subject", "liftbridge.ack_inbox", "cursus.messages.data"} <= names


@needs_tshark
@pytest.mark.parametrize("protocol", QUICK)
def test_fields_equal_those_of_our_records(dissector: Path, protocol: str) -> None:
    name, least = QUICK[protocol]
    agreement = compare(dissector, CAPTURES / name)[protocol]
    assert sum(agreement.total.values()) > 100
    assert agreement.share() >= least, agreement.missed()


@needs_tshark
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::wiredecode.api.DamagedCapture")
@pytest.mark.parametrize("protocol", FOLDERS)
def test_whole_folders_agree_as_far_as_documented(dissector: Path, protocol: str) -> None:
    total = Agreement()
    for folder in FOLDERS[protocol]:
        for path in sorted((CAPTURES / folder).glob("*.pcap*")):
            total.add(compare(dissector, path).get(protocol, Agreement()))
    print(f"{protocol}: {total.share():.2%} of {sum(total.total.values())} fields agree")
    assert total.share() >= LEAST[protocol], total.missed()


def lua_errors(dissector: Path, capture: Path) -> set[str]:
    command = ["tshark", "-r", str(capture), "-X", f"lua_script:{dissector}", "-V"]
    shown = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
    return {line.strip() for line in shown.splitlines() if "Lua Error" in line}


@needs_tshark
def test_a_json_member_that_is_no_number_is_not_shown_as_number(dissector: Path) -> None:
    assert lua_errors(dissector, CAPTURES / "cursus" / "topic-mgmt.pcap") == set()


@needs_tshark
def test_a_chunk_that_counts_more_entries_than_it_has(dissector: Path, tmp_path: Path) -> None:
    frames = wiredecode.read(CAPTURES / "rabbitmq-stream" / "c43_basic.pcap")
    deliver = bytearray(next(frame.data for frame in frames if frame.type == "Deliver"))
    deliver[11:13] = b"\xff\xff"
    packets = craft([Part(1, 1, bytes(deliver))], every(99), 5552)
    wrpcap(str(tmp_path / "a.pcap"), [Ether(raw) for raw in packets])
    assert lua_errors(dissector, tmp_path / "a.pcap") == set()


@needs_tshark
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("folder", sorted(path.name for path in CAPTURES.iterdir() if path.is_dir()))
def test_the_script_never_fails_on_captures_or_damage(dissector: Path, tmp_path: Path, folder: str) -> None:
    for path in sorted((CAPTURES / folder).glob("*.pcap*")):
        assert lua_errors(dissector, path) == set(), path
        if path.read_bytes()[:4] in PCAP:
            (tmp_path / "a.pcap").write_bytes(damaged(path.read_bytes()))
            assert lua_errors(dissector, tmp_path / "a.pcap") == set(), path


def damaged(capture: bytes) -> bytes:
    """A pcap with some bytes of its payloads replaced."""
    raw, chance, at = bytearray(capture), Random(capture), 24
    while at < len(raw):
        first, stop = at + 16 + 66, min(len(raw), at + 16 + int.from_bytes(raw[at + 8 : at + 12], "little"))
        for _ in range(chance.randrange(4) if first < stop else 0):
            raw[chance.randrange(first, stop)] = chance.choice([*b'\x00\xff"x9.', chance.randrange(256)])
        at = stop
    return bytes(raw)


@needs_tshark
def test_requests_and_responses_are_linked_both_ways(dissector: Path) -> None:
    capture = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
    fields = ["-T", "fields", "-e", "frame.number", "-e", "wiredecode.request", "-e", "wiredecode.response"]
    command = ["tshark", "-2", "-r", str(capture), "-X", f"lua_script:{dissector}", *fields]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    asked = {number: response for number, _, response in rows if response}
    answered = {number: request for number, request, _ in rows if request}
    assert len(asked) > 20
    assert all(answered[response] == number for number, response in asked.items())


@needs_tshark
def test_dissectors_do_not_clash_with_those_of_wireshark(dissector: Path, tmp_path: Path) -> None:
    theirs, capture = tmp_path / "theirs.lua", CAPTURES / "nats" / "04-request-reply.pcap"
    theirs.write_text('Proto("nats", "Theirs").fields = { ProtoField.uint16("nats.subject", "Subject") }')
    shown = ["-T", "fields", "-e"]
    ours = ["tshark", "-r", str(capture), "-X", f"lua_script:{dissector}", *shown]
    both = ["tshark", "-r", str(capture), "-X", f"lua_script:{theirs}", *ours[3:]]
    alone, beside = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in ([*ours, "nats.subject"], [*both, "wiredecode_nats.subject"])
    )
    assert beside == alone
    assert "svc.echo" in alone


@needs_tshark
def test_secrets_are_hidden_until_requested(dissector: Path) -> None:
    capture = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
    command = [
        "tshark",
        "-r",
        str(capture),
        "-X",
        f"lua_script:{dissector}",
        "-T",
        "fields",
        "-e",
        "rabbitmq_stream.data",
    ]
    hidden = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert "<redacted 12 bytes>" in hidden
    shown = subprocess.run(
        [*command, "-o", "wiredecode.secrets:TRUE"], capture_output=True, text=True, check=True
    ).stdout
    assert "<redacted" not in shown and "guest" in shown


class Mixed(Layer):
    filter_name = "mixed"
    fields_desc: ClassVar = [
        *(Bits("kind", 4), Bits("number", 12), Bits("high", 24), Bits("low", 40)),
        *(Varint("size", max_bytes=4), UInt8("last")),
        *(Text("word", length=CompactLength), Binary("none", length=CompactLength, null=-1), ZigZag("delta")),
        *(Array("numbers", UInt16("numbers"), count=CompactLength), Array("null", UInt8("null"), count=Int32, null=-1)),
        Float64("ratio"),
    ]


class Mixing(KV):
    name, title = "mixed", "Mixed"

    def layers(self) -> list[type[Layer]]:
        return [Mixed]

    def wireshark(self) -> Script:
        source = "P.size, P.search = function() return 38 end\nfunction P.choose() return P.layer, 'Mixed' end"
        return Script(source, lambda writer: {"layer": writer.layer(Mixed)})


@needs_tshark
def test_a_protocol_of_another_package_has_bits_and_varints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"kind": 9, "number": 0x123, "high": 0x456789, "low": 0xABCDEF0123, "size": 0x0102030, "last": 7}
    more = {"word": "abc", "delta": -150, "numbers": [5, 6], "ratio": 1.5}
    monkeypatch.setattr("wiredecode.wireshark.protocols", lambda: (Mixing(),))
    (tmp_path / "a.lua").write_text(script("0.0.0"))
    wrpcap(
        str(tmp_path / "a.pcap"),
        [Ether(raw) for raw in craft([Part(1, 0, bytes(Mixed(**values, **more)))], every(99), 7070)],
    )
    fields = [word for name in (*values, *more) for word in ("-e", f"mixed.{name}")]
    command = [
        "tshark",
        "-r",
        str(tmp_path / "a.pcap"),
        "-X",
        f"lua_script:{tmp_path / 'a.lua'}",
        "-Ymixed",
        "-Tfields",
    ]
    done = subprocess.run([*command, *fields], capture_output=True, text=True, check=True)
    shown = [str(value) for value in values.values()]
    assert done.stdout.split() == [*shown, "abc", "-150", "5,6", "1.5"], done.stderr


def test_the_script_is_reproducible() -> None:
    assert script("1.2.3") == script("1.2.3")


def test_conditions_become_lua() -> None:
    writer = LuaWriter({}, {})

    def lua(condition: str) -> str:
        return LuaPrinter(writer).truth(When(condition).root)

    assert lua("flags & 4 == 4") == '(compare(sum(v.flags, "&", 4), "==", 4))'
    assert lua("left") == "truth((c.stop - c.pos))"
    assert lua("0 < left == size") == '(compare(0, "<", (c.stop - c.pos)) and compare((c.stop - c.pos), "==", v.size))'
    assert lua("not has(a) and b not in (1, 2)") == "((not (v.a ~= nil)) and (not_among(v.b, {1, 2})))"
    assert lua(r"matches(rb'a\Z')") == "truth(matches(c, X[1]))"
    assert writer.lines == [r'X[1] = regex("a\092z")']


def test_fields_that_differ_between_messages_have_a_common_type() -> None:
    assert common_type("uint8", "uint32") == "uint32"
    assert common_type("uint32", "int16") == "int64"
    assert common_type("bytes", "string") == "string"


def test_lua_strings_are_ascii_for_any_text() -> None:
    assert lua_string('a"\\\n\xff') == r'"a\034\092\010\195\191"'


class Pair(Layer):
    """Two fields, of which the second one may be absent."""

    filter_name = "pair"
    fields_desc = [  # noqa: RUF012 - Scapy wants a list on the class
        UInt8("kind", "which"),
        Optional(UInt16("rest", "the rest", little=True), When("kind == 3")),
    ]


def test_a_layer_is_written_once() -> None:
    writer = LuaWriter({}, {})
    assert writer.layer(Pair) == writer.layer(Pair) == "L[1]"
    text = "\n".join(writer.lines)
    assert '{"kind", "uint", w=1}' in text
    assert '{"rest", "uint", w=2, le=true, when=function(c, v, at) return (compare(v.kind, "==", 3)) end}' in text
