"""A protocol of another package is found, recognised, decoded and listed like those of this one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tests.check.support import check
from tests.net.craft import Talk, batches
from tests.support import Part, craft, dissect, every
from tests.toy.installing import install as install
from tests.toy.installing import installed as installed
from tests.toy.kv import KV, Error, Get, KVConversation, Value
from wiredecode.cli.app import run as run_command
from wiredecode.fields import compiler
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols import base, registry
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.protocols.registry import DecodeAs

ASKED = bytes(Get(size=9, request_id=7, key="lamp")) + bytes(Get(size=9, request_id=8, key="door"))


class Failing:
    def __init__(self) -> None:
        raise KeyError("here")


class Undecided(KV):
    """Decides at the end of the connection only."""

    name = "undecided"

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Any:
        return base.Rejected() if final else base.Undecided()


def talk(port: int) -> list[bytes]:
    said = Talk(server=("10.0.0.2", port))
    error = bytes(Error(size=4, request_id=8)) + bytes(Value(size=7, request_id=7, value=b"on"))
    return [*said.handshake(), *said.send(0, ASKED, 5), *said.send(1, error), *said.close()]


def test_recognised_bytes_win_if_the_protocol_of_the_port_is_undecided() -> None:
    said = [
        Part(1, 1, b'INFO {"server_id":"a","version":"2.9.10","proto":1,"max_payload":1048576}\r\n'),
        Part(1, 0, b"CONNECT {}\r\nPING\r\n"),
    ]
    packets = craft(said, every(1460), server_port=KV.ports[0])
    run = dissect(batches(packets), known=(Nats(), Undecided()))
    assert [(frame.protocol, frame.type) for frame in run.frames] == [
        ("nats", "INFO"),
        ("nats", "CONNECT"),
        ("nats", "PING"),
    ]


@pytest.mark.usefixtures("installed")
def test_an_entry_point_adds_a_protocol_recognised_by_its_port() -> None:
    run = dissect(batches(talk(7070)))
    assert [(frame.protocol, frame.sender, frame.type, frame.request) for frame in run.frames] == [
        ("kv", "client", "Get", None),
        ("kv", "client", "Get", None),
        ("kv", "server", "Error", 2),
        ("kv", "server", "Value", 1),
    ]
    assert [frame.response for frame in run.frames] == [4, 3, None, None]
    assert run.frames[2].layers == {
        "kv": {"size": 4, "kind": "Error", "kind_code": 3, "request_id": 8, "code": "no such key", "code_code": 1}
    }
    assert run.totals.closes
    assert run.totals.undecoded == 0


class Naming(KV):
    """A protocol whose conversation sets generated fields, but writes no records."""

    generated: ClassVar = {"kv.key_of_request": base.Generated("string", "key that was asked for")}

    def conversation(self, start: base.Start) -> KVConversation:
        class Conversation(KVConversation):
            def decode(self, frame: Frame, style: Style | None) -> None:
                super().decode(frame, style)
                frame.generate("key_of_request", "lamp")

        return Conversation(start)


def test_generated_fields_are_in_records_automatically() -> None:
    frames = dissect(batches(talk(7070)), known=(Naming(),)).frames
    assert all(frame.layers["kv"]["key_of_request"] == "lamp" for frame in frames if frame.layers)
    assert len(frames) == 4
    assert dissect(batches(talk(7070)), known=(Naming(),), style=None).frames[0].layers is None


@pytest.mark.usefixtures("installed")
def test_responses_have_the_stable_id_of_their_request() -> None:
    frames = dissect(batches(talk(7070)), stable_ids=True).frames
    assert [frame.request for frame in frames[2:]] == [frames[1].id, frames[0].id]
    assert frames[0].id != frames[0].number


@pytest.mark.usefixtures("installed")
def test_check_runs_its_rule_once_per_connection() -> None:
    refused = bytes(Error(size=4, request_id=7, code=2))
    parts = [Part(number, side, data) for number in (1, 2) for side, data in ((0, ASKED), (1, refused + refused))]
    found = [problem for problem in check(batches(craft(parts, every(1460), 7070))) if problem.name == "kv.denied"]
    assert [(problem.count, problem.severity) for problem in found] == [(2, "warning")] * 2


@pytest.mark.usefixtures("installed")
def test_on_another_port_it_is_not_recognised_but_can_be_forced() -> None:
    assert dissect(batches(talk(9999))).frames == []
    forced = dissect(batches(talk(9999)), decode_as={9999: DecodeAs(KV())})
    assert [frame.type for frame in forced.frames] == ["Get", "Get", "Error", "Value"]


@pytest.mark.usefixtures("installed")
def test_it_is_listed_by_name() -> None:
    found = registry.by_name("kv")
    assert found is not None
    assert found.title == "KV, a toy"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("tests.toy.kv:Absent", "protocol kv of the package kv-package does not load: AttributeError: module"),
        ("tests.toy.test_kv:Failing", r"package kv-package does not load: KeyError: 'here' \(toy/test_kv.py:\d+\)"),
        (
            "wiredecode.protocols.nats.protocol:Nats",
            "two protocols are called nats: pip uninstall the package that adds one",
        ),
    ],
)
def test_a_broken_installed_protocol_is_one_line(
    value: str, error: str, install: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    install(value)
    assert run_command(["protocols"]) == 2
    err = capsys.readouterr().err
    assert re.match(f"wiredecode: .*{error}", err)
    assert err.count("\n") == 1


@pytest.mark.parametrize("message", [Get(size=9, request_id=7, key="lamp"), Error(size=4), Value(value=b"\0")])
def test_its_compiled_decoders_agree_with_its_declarations(message: Get) -> None:
    raw = bytes(message)
    again = type(message)(raw)
    decoded = compiler.careful(type(message), raw, 0, len(raw))
    assert bytes(again) == raw
    assert again.values() == decoded.values
    assert again.flat_ranges() == decoded.ranges


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("snaplen", range(54, 75))
def test_truncated_packets_never_raise(snaplen: int) -> None:
    run = dissect(batches(talk(7070), snaplen=snaplen))
    assert run.totals.closes
    assert {frame.type for frame in run.frames} <= {"Get", "Error", "Value", None}
