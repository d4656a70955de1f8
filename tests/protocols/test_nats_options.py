"""JSON objects with declared members, as in INFO and CONNECT."""

from __future__ import annotations

import orjson
import pytest

from tests.support import STYLE
from wiredecode.fields import compiler
from wiredecode.fields.jsonfields import MAX_DEPTH, MAX_MEMBERS
from wiredecode.fields.layer import Style
from wiredecode.protocols.nats.layers import Connect, ConnectOptions


def parsed(text: bytes) -> ConnectOptions:
    options = ConnectOptions(text)
    assert isinstance(options, ConnectOptions)
    return options


WRITTEN = {
    "compact": b'{"verbose":false,"name":"x"}',
    "as python does": b'{"lang": "python3", "version": "2"}',
    "blanks everywhere": b' {\t"verbose" :  true , "pass":"p" }',
    "escapes": rb'{"name":"\u20ac \"\\ \n","lang":"g\/o"}',
    "utf-8": '{"name":"grün € 𝄞"}'.encode(),
    "no utf-8": b'{"name":"\xff\xfe","lang":"go"}',
    "unknown members": b'{"x":1,"verbose":true,"y":{"z":[1,2.50,null]}}',
    "a name twice": b'{"name":"a","name":"b","x":1,"x":2}',
    "names in any case": b'{"PASS":"a","Verbose":true}',
    "empty": b"{ }",
    "numbers": b'{"protocol":1e0,"x":-0,"y":123456789012345678901234567890}',
}


@pytest.mark.parametrize("name", WRITTEN)
def test_unchanged_objects_are_built_to_the_same_bytes(name: str) -> None:
    text = WRITTEN[name]
    options = parsed(text)
    assert options.problem is None
    assert bytes(options) == text.rstrip()
    assert options.stop == len(text.rstrip())
    line = b"CONNECT " + text + b"\r\n"
    record, _ = compiler.record(Connect, line, 0, len(line), STYLE)
    assert orjson.loads(orjson.dumps(record)) == record
    assert record == Connect.present(Connect(line).values(), STYLE)


def test_changing_one_member_keeps_the_spelling_of_others() -> None:
    options = parsed(b'{"verbose" : true, "name":"\\u0061"}')
    options.fields["verbose"] = False
    assert bytes(options) == b'{"verbose" : false, "name":"\\u0061"}'
    options.fields["lang"] = "go"
    assert bytes(options) == b'{"verbose" : false, "name":"\\u0061","lang":"go"}'
    del options.fields["verbose"]
    assert bytes(options) == b' {"name":"a","lang":"go"}'


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b'{"name"}',
        b'{"name":}',
        b'{"name":"x"',
        b'{"name":"x',
        b'{"name":"x",}',
        b'{"name":NaN}',
        b'{"name":tru}',
        b'{"name":01}',
        b'{"x":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}",
        b'{"x":[1}',
        b'{"y":' + b"9" * 5000 + b"}",
        b"{" + b",".join(b'"x%d":1' % number for number in range(MAX_MEMBERS + 1)) + b"}",
    ],
)
def test_invalid_objects_raise_no_exception(text: bytes) -> None:
    line = b"CONNECT " + text + b"\r\n"
    decoded = compiler.careful(Connect, line, 0, len(line))
    packet = Connect(line)
    assert decoded.problem is not None
    assert packet.problem is not None
    assert packet.problem.args == decoded.problem.args
    assert packet.problem.reason == decoded.problem.reason != ""


def test_half_a_surrogate_pair_is_shown() -> None:
    line = b'CONNECT {"name":"\\ud800x","y":"\\udcff"}\r\n'
    record, _ = compiler.record(Connect, line, 0, len(line), STYLE)
    assert orjson.loads(orjson.dumps(record))["options"]["name"] == "\\ud800x"


def test_nested_and_unknown_secrets_are_hidden() -> None:
    text = b'CONNECT {"x":{"Password":"s3cret"},"api_token":["s3cret"],"verbose":true,"pass":""}\r\n'
    record, _ = compiler.record(Connect, text, 0, len(text), Style())
    assert b"s3cret" not in orjson.dumps(record)
    assert record["options"]["pass"] == ""
    assert b"s3cret" in orjson.dumps(compiler.record(Connect, text, 0, len(text), Style(secrets=True))[0])
