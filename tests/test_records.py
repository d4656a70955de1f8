"""The record of a frame: its keys, its types, and nothing secret in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols.rabbitmq_vectors import BY_NAME
from tests.support import RABBITMQ, Part, Run, capture, capture_files, craft, dissect, every
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import OUTCOMES
from wiredecode.frames.record import BYTES, dumps, record, rfc3339, totals_record
from wiredecode.protocols.rabbitmq_stream import layers as rs

KEYS: dict[str, Any] = {
    "frame": int,
    "time": str,
    "time_ns": int,
    "connection": int,
    "src": str,
    "dst": str,
    "sender": (str, type(None)),
    "packets": list,
    "offset": int,
    "length": int,
    "protocol": str,
    "dialect": (str, type(None)),
    "type": (str, type(None)),
    "code": (int, type(None)),
    "status": str,
    "layers": dict,
    "request": (int, type(None)),
    "response": (int, type(None)),
    "latency_ns": (int, type(None)),
    "findings": list,
}
FINDING_KEYS = {"severity", "group", "code", "message", "field", "range"}


@pytest.mark.parametrize("path", capture_files(), ids=lambda path: path.name)
def test_every_record_has_the_promised_keys_and_survives_json(path: Any) -> None:
    frames = {frame.number: frame for frame in capture(path).frames}
    for frame in frames.values():
        row = record(frame)
        assert list(row) == [*KEYS, *(["outcome"] if frame.outcome else [])]
        for key, kind in KEYS.items():
            assert isinstance(row[key], kind), key
        assert row.get("outcome", "ok") in OUTCOMES
        if row["response"] is not None and frames[row["response"]].status != "partial":  # unknown if truncated
            assert row["outcome"] in ("ok", "refused")
        assert row["status"] in ("ok", "partial", "malformed", "undecoded")
        assert row["sender"] in ("client", "server", None)
        for finding in row["findings"]:
            assert set(finding) == FINDING_KEYS
        line = dumps(row)
        assert line.endswith(b"\n") and line.count(b"\n") == 1
        assert json.loads(line) == row, "JSON keeps all of it"


def test_addresses_times_and_packets() -> None:
    rows = [record(frame) for frame in capture(RABBITMQ / "c43_basic.pcap").frames]
    first = rows[0]
    assert (first["frame"], first["connection"], first["offset"]) == (1, 1, 0)
    assert first["src"].startswith("127.0.0.1:") and first["dst"] == "127.0.0.3:5552"
    moment = datetime.fromisoformat(first["time"])
    assert moment.tzinfo == UTC
    assert int(moment.timestamp() * 1_000_000) == first["time_ns"] // 1000
    assert [row["time_ns"] for row in rows] == sorted(row["time_ns"] for row in rows)
    for row in rows:
        assert row["packets"] == sorted(set(row["packets"]))


def test_requests_and_responses_point_at_each_other() -> None:
    rows = {row["frame"]: row for row in (record(frame) for frame in capture(RABBITMQ / "c43_basic.pcap").frames)}
    linked = 0
    for number, row in rows.items():
        if row["request"] is not None:
            request = rows[row["request"]]
            assert request["response"] == number
            assert row["latency_ns"] == row["time_ns"] - request["time_ns"] >= 0
            assert (request["src"], request["dst"]) == (row["dst"], row["src"])
            linked += 1
        if row["response"] is not None:
            assert rows[row["response"]]["request"] == number
    assert linked > 50


@pytest.mark.parametrize(
    ("time_ns", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_700_000_000_999_999_999, "2023-11-14T22:13:20.999999999Z"),
        (2**63 - 1, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_times_keep_every_nanosecond(time_ns: int, expected: str) -> None:
    assert rfc3339(time_ns) == expected


def test_integers_use_the_whole_range_of_64_bits() -> None:
    layer = rs.StoreOffset(reference="r", stream="s", offset=2**64 - 1)
    frame = play(bytes(layer)).frames[-1]
    assert json.loads(dumps(record(frame)))["layers"]["rabbitmq_stream"]["offset"] == 2**64 - 1


def test_times_that_rfc_3339_cannot_spell_are_numbers() -> None:
    for milliseconds in (-1, 2**63 - 1, -(2**63), 253_402_300_800_000):
        layer = rs.Subscribe(stream="s", offset_type=5, timestamp=milliseconds, credit=1)
        frame = play(bytes(layer)).frames[-1]
        assert json.loads(dumps(record(frame)))["layers"]["rabbitmq_stream"]["timestamp"] == milliseconds
    layer = rs.Subscribe(stream="s", offset_type=5, timestamp=253_402_300_799_999, credit=1)
    shown = record(play(bytes(layer)).frames[-1])["layers"]["rabbitmq_stream"]["timestamp"]
    assert shown == "9999-12-31T23:59:59.999Z"


def test_enumerations_give_the_name_and_the_number() -> None:
    row = record(play(BY_NAME["V14"].raw, BY_NAME["V16"].raw).frames[-1])["layers"]["rabbitmq_stream"]
    assert (row["response_code"], row["response_code_code"]) == ("Virtual host access failure", 12)


def test_missing_values_are_left_out_and_null_is_null() -> None:
    absent = record(play(BY_NAME["V34"].raw).frames[-1])["layers"]["rabbitmq_stream"]
    assert not {"properties", "offset", "timestamp"} & absent.keys()
    null = record(play(BY_NAME["V28"].raw).frames[-1])["layers"]["rabbitmq_stream"]["messages"]
    assert [message["filter_value"] for message in null] == ["emea", None, ""]


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("hex", b"\x00\xffhi".hex()),
        ("base64", base64.b64encode(b"\x00\xffhi").decode()),
        ("text", "\x00\\xffhi"),
        ("sha256", hashlib.sha256(b"\x00\xffhi").hexdigest()),
        ("length", "4 bytes"),
    ],
)
def test_bytes_in_every_style(style: str, expected: str) -> None:
    message = rs.PublishedMessage(publishing_id=1, data=b"\x00\xffhi")
    run = play(bytes(rs.Publish(publisher_id=1, messages=[message])), style=Style(BYTES[style]))
    row = json.loads(dumps(record(run.frames[-1])))
    assert row["layers"]["rabbitmq_stream"]["messages"][0]["data"] == expected


def test_bytes_of_sub_batches_and_amqp_are_in_the_requested_style() -> None:
    body = b"\x00\x53\x75\xa0\x03abc"
    inner = struct.pack(">I", len(body)) + body
    raw = struct.pack(">HHBIQBHII", 2, 1, 1, 1, 5, 0x90, 1, len(inner), len(gzip.compress(inner))) + gzip.compress(
        inner
    )
    run = play(struct.pack(">I", len(raw)) + raw, style=Style(BYTES["sha256"]))
    message = record(run.frames[-1])["layers"]["rabbitmq_stream"]["messages"][0]["sub_batch"]["messages"][0]
    assert message["data"] == hashlib.sha256(body).hexdigest()
    assert message["amqp"]["data"] == [hashlib.sha256(b"abc").hexdigest()]


def test_ranges_name_the_bytes_of_every_field() -> None:
    frame = play(BY_NAME["V35"].raw).frames[-1]
    ranges = record(frame, ranges=True)["ranges"]
    assert ranges["rabbitmq_stream.stream"] == [13, 21]
    assert frame.data[slice(*ranges["rabbitmq_stream.offset"])] == bytes.fromhex("8000000000000001")
    assert ranges["rabbitmq_stream.properties[0].value"][1] == frame.length


# Totals.


def test_totals_account_for_every_byte() -> None:
    for path in capture_files():
        payload = totals_record(capture(path).totals)["payload"]
        parts = ("in_frames", "undecoded", "other_protocols", "duplicate", "late", "ignored")
        assert payload["captured"] == sum(payload[part] for part in parts)
    tls = totals_record(capture(RABBITMQ / "c43_tls.pcap").totals)
    assert [(one["looks_like"], one["port"], one["connections"]) for one in tls["other_protocols"]] == [
        ("TLS", 5551, 2)
    ]


# Secrets.

PASSWORD = b"S3cret-Wort"


def play(*frames: bytes, **options: Any) -> Run:
    """Frames of the client, after the first one of a connection; responses among them go by their bit."""
    parts = [Part(1, 0, BY_NAME["V01"].raw)]
    parts += [Part(1, 1 if raw[4] & 0x80 and raw[5] not in (0x14, 0x16, 0x1A) else 0, raw) for raw in frames]
    return dissect(batches(craft(parts, every(1460))), **options)


def authenticate(data: bytes | None, mechanism: str = "PLAIN", correlation: int = 3) -> bytes:
    return bytes(rs.SaslAuthenticate(correlation_id=correlation, mechanism=mechanism, data=data))


def table(**pairs: bytes) -> bytes:
    """An AMQP 0-9-1 table of long strings without its length."""
    made = b""
    for name, value in pairs.items():
        made += bytes([len(name)]) + name.encode() + b"S" + struct.pack(">I", len(value)) + value
    return made


CHALLENGE, OK = BY_NAME["V09"].raw, BY_NAME["V08"].raw
UNKNOWN_VERSION = bytearray(authenticate(b"\0user\0" + PASSWORD))
UNKNOWN_VERSION[7] = 2
SECRETS: dict[str, list[bytes]] = {
    "plain": [authenticate(b"\0user\0" + PASSWORD)],
    "plain_with_authzid": [authenticate(b"admin\0user\0" + PASSWORD)],
    "plain_without_user": [authenticate(PASSWORD)],
    "amqplain": [authenticate(table(LOGIN=b"user", PASSWORD=PASSWORD), "AMQPLAIN")],
    "amqplain_password_first": [authenticate(table(PASSWORD=PASSWORD, LOGIN=b"user"), "AMQPLAIN")],
    "other_mechanism": [authenticate(PASSWORD, "X-TOKEN")],
    "second_step": [
        authenticate(b"user", "RABBIT-CR-DEMO"),
        CHALLENGE,
        authenticate(b"My password is " + PASSWORD, "RABBIT-CR-DEMO", 4),
    ],
    "second_step_that_looks_like_the_first": [
        authenticate(b"user", "PLAIN"),
        CHALLENGE,
        authenticate(b"\0" + PASSWORD + b"\0" + PASSWORD, "PLAIN", 4),
    ],
    "refresh_after_open": [
        *(authenticate(b"\0user\0old"), OK, BY_NAME["V14"].raw, BY_NAME["V15"].raw),
        authenticate(b"\0user\0" + PASSWORD, correlation=9),
    ],
    "data_cut": [authenticate(b"\0user\0" + PASSWORD)[:-4]],
    "length_lies": [authenticate(b"\0user\0" + PASSWORD)[:-3] + b"xxx" + BY_NAME["V53"].raw],
    "unknown_version": [bytes(UNKNOWN_VERSION)],
}


def spellings(secret: bytes) -> list[bytes]:
    """The forms of a secret: plain, hex, and base64 at any alignment."""
    encoded = [base64.b64encode(bytes(shift) + secret)[4:-4] for shift in range(3)]
    return [secret, secret.hex().encode(), *(text for text in encoded if len(text) > 6)]


@pytest.mark.parametrize("style", BYTES)
@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_in_any_record(name: str, style: str) -> None:
    run = play(*SECRETS[name], style=Style(BYTES[style]))
    sent = b"".join(SECRETS[name])
    assert PASSWORD[:6] in sent
    out = b"".join(dumps(record(frame, ranges=True)) for frame in run.frames)
    for spelled in spellings(PASSWORD[:6]) + spellings(PASSWORD):
        assert spelled not in out
    for part in (PASSWORD, b"\0user\0" + PASSWORD):
        assert hashlib.sha256(part).hexdigest().encode() not in out
    assert b"<redacted" in out or name == "data_cut"


def test_secrets_are_shown_on_request() -> None:
    run = play(*SECRETS["plain"], style=Style(BYTES["text"], secrets=True))
    assert record(run.frames[-1])["layers"]["rabbitmq_stream"]["data"] == "\0user\0" + PASSWORD.decode()


@pytest.mark.parametrize(
    ("name", "users"),
    [
        ("plain", ["user"]),
        ("amqplain", ["user"]),
        ("amqplain_password_first", ["user"]),
        ("other_mechanism", [None]),
        ("second_step", [None, None]),
        ("second_step_that_looks_like_the_first", [None, None]),
        ("refresh_after_open", ["user", "user"]),
    ],
)
def test_user_names_may_be_shown(name: str, users: list[str | None]) -> None:
    run = play(*SECRETS[name])
    assert [frame.generated.get("user") for frame in run.of("SaslAuthenticate")] == users


def test_the_length_of_a_secret_is_shown_and_null_stays_null() -> None:
    run = play(authenticate(b"\0guest\0guest"), authenticate(None, "EXTERNAL"), authenticate(b"", "EXTERNAL"))
    shown = [record(frame)["layers"]["rabbitmq_stream"]["data"] for frame in run.of("SaslAuthenticate")]
    assert shown == ["<redacted 12 bytes>", None, "<redacted 0 bytes>"]
