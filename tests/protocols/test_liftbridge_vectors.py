"""Every test vector, decoded and built; each near miss of an envelope is a finding and stays a frame."""

from __future__ import annotations

from typing import Any

import crc32c
import pytest

from tests.conftest import in_one_test
from tests.protocols.liftbridge_nats import Said, carried, one
from tests.protocols.liftbridge_vectors import VECTORS, Vector
from tests.support import build
from wiredecode.fields import Kind, compiler
from wiredecode.protocols.liftbridge import conversation, conversation_memory
from wiredecode.protocols.liftbridge import layers as envelopes
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge.layers import CRC_FLAG, LONG_HEADER, Ack, Envelope, Publish
from wiredecode.protocols.liftbridge.protocol import Liftbridge

ENVELOPES = [v for v in VECTORS if v.layer is not None and v.nr not in ("L42", "L43", "L44")]
HEADER = {"magic", "version", "header_length", "flags", "message_type", "rpc_type"}
AT_ONCE = ("L40", "L41")
"""Whole NATS messages."""


def sealed(message: Envelope) -> Envelope:
    """The message with the header that carries its CRC-32C."""
    header_length = message.header_length
    copy = type(message)(bytes(message))
    payload = bytes(message)[header_length:]
    copy.fields.update(header_length=LONG_HEADER, flags=message.flags | CRC_FLAG, crc=crc32c.crc32c(payload))
    return copy


def by_nr(nr: str) -> Vector:
    return next(vector for vector in VECTORS if vector.nr == nr)


def payload_of(vector: Vector) -> bytes:
    raw = bytes.fromhex(vector.hex)
    return raw[raw.index(b"\xb9\x0e\x43\xb4") : -2] if vector.nr in AT_ONCE else raw


def layer_of(vector: Vector) -> Any:
    return getattr(envelopes, vector.layer or "", None) or getattr(raft, vector.layer or "")


def without_usual(values: dict[str, Any]) -> dict[str, Any]:
    """Decoded values without the default ones of the header."""
    usual = {"header_length": 8, "flags": 0}
    never = HEADER - usual.keys()
    return {name: value for name, value in values.items() if name not in never and usual.get(name) != value}


def written(layer: Any, data: bytes) -> dict[str, Any]:
    """Decoded values without defaults."""
    return compiler.careful(layer, data, 0, len(data)).without_defaults()


def test_the_table_of_vectors_is_complete() -> None:
    assert [vector.nr for vector in VECTORS] == [f"L{number:02}" for number in range(1, 45)]


@in_one_test("vector", ENVELOPES, ids=lambda vector: vector.nr)
def test_decoding_in_a_nats_message(vector: Vector) -> None:
    frame = one(payload_of(vector), subject="other")
    inner = frame.inner[0]
    assert frame.protocol == "liftbridge"
    assert (inner.layer.__name__, frame.status) == (vector.layer, vector.status)
    assert without_usual(written(inner.layer, inner.data)) == vector.values
    assert tuple(finding.code for finding in frame.findings) == vector.codes
    assert frame.data[inner.start :] == inner.data + b"\r\n"
    assert list(frame.layers or {}) == ["nats", "liftbridge"]


@in_one_test("vector", [v for v in VECTORS if v.layer and v.status == "ok"], ids=lambda vector: vector.nr)
def test_building_from_values(vector: Vector) -> None:
    """The canonical form of the values, which is what upstream writes; L30 and L31 are the two forms of one list."""
    layer = layer_of(vector)
    built = bytes(build(layer, header(vector) | vector.values))
    assert without_usual(written(layer, built)) == vector.values
    if vector.nr != "L31":
        assert built == payload_of(vector)


def header(vector: Vector) -> dict[str, Any]:
    if vector.nr in ("L09", "L10"):
        raw = payload_of(vector)
        return {"version": raw[4], "message_type": raw[7]}
    return {}


@in_one_test("vector", [v for v in VECTORS if v.layer], ids=lambda vector: vector.nr)
def test_round_trip_keeps_every_byte(vector: Vector) -> None:
    packet = layer_of(vector)(payload_of(vector))
    if packet.problem is None:
        assert bytes(packet) == payload_of(vector)


def test_magic_number_as_ascii_is_not_an_envelope() -> None:
    frame = one(payload_of(by_nr("L12")))
    assert (frame.protocol, frame.type, list(frame.inner)) == ("nats", "PUB", [])


@pytest.mark.parametrize("payload", [b"", b"\xb9\x0e\x43", b"x\xb9\x0e\x43\xb4\x00\x08\x00\x00", b"LIFT\x1a\x01x"])
def test_magic_number_must_come_first(payload: bytes) -> None:
    assert one(payload).protocol == "nats"


# The header.


def message(**fields: Any) -> bytes:
    return bytes(Publish(value=b"hi", **fields))


def codes(frame: Any) -> list[tuple[str, str]]:
    return [(finding.severity, finding.code) for finding in frame.findings]


@pytest.mark.parametrize("length", range(4, 8))
def test_truncated_header(length: int) -> None:
    frame = one(message()[:length])
    assert (frame.protocol, frame.status) == ("liftbridge", "malformed")
    assert codes(frame) == [("error", "truncated-envelope")]


def test_header_of_twelve_bytes_without_the_flag() -> None:
    frame = one(b"\xb9\x0e\x43\xb4\x00\x0c\x00\x00EXTR\x1a\x02hi")
    assert codes(frame) == [("note", "header-extension")]
    assert record(frame)["value"] == b"hi".hex()
    assert record(frame)["extension"] == b"****".hex()


def test_crc_in_a_longer_header_is_verified() -> None:
    """Servers reject it, but its CRC can be checked."""
    payload = bytes(sealed(Publish(value=b"hi")))
    longer = payload[:5] + b"\x10" + payload[6:12] + b"EXTR" + payload[12:]
    frame = one(longer)
    assert codes(frame) == [("warning", "header-length")]
    assert frame.generated["crc_status"] == "good"
    assert record(frame)["value"] == b"hi".hex()


@pytest.mark.parametrize("length", [0, 4, 7])
def test_header_length_inside_the_header(length: int) -> None:
    raw = bytearray(message())
    raw[5] = length
    frame = one(bytes(raw))
    assert codes(frame) == [("warning", "header-length")]
    assert record(frame)["value"] == b"hi".hex()


def test_unassigned_flags() -> None:
    frame = one(message(flags=0x82))
    assert codes(frame) == [("note", "unknown-flags")]
    assert record(frame)["flags"] == ["0x82"]


def test_crc_notices_a_flipped_bit_anywhere() -> None:
    payload = bytes(sealed(Publish(value=b"hello", key=b"k")))
    assert one(payload).generated["crc_status"] == "good"
    for place in range(8, len(payload), 5):
        damaged = bytearray(payload)
        damaged[place] ^= 0x01
        frame = one(bytes(damaged))
        assert frame.generated["crc_status"] == "bad"
        assert ("error", "envelope-crc") in codes(frame)


def record(frame: Any) -> dict[str, Any]:
    layer: dict[str, Any] = frame.layers["liftbridge"]
    return layer


# Payloads.


def test_message_type_that_does_not_fit_the_subject() -> None:
    frame = one(bytes(Ack(stream="s")), subject="liftbridge-default.notify.server-b")
    assert codes(frame) == [("warning", "unexpected-type")]


def test_stream_names_with_dots_and_numbers() -> None:
    raw = payload_of(by_nr("L17"))
    frame = one(raw, subject="liftbridge-default.a.7.b.12.replicate", reply="_INBOX.1")
    assert (frame.generated["stream"], frame.generated["partition"]) == ("a.7.b", 12)


def test_response_of_another_type_than_the_request() -> None:
    request, response = payload_of(by_nr("L17")), payload_of(by_nr("L28"))
    frames = carried(
        [Said(request, "ns.s.0.replicate", "_INBOX.9"), Said(response, "_INBOX.9", side=1)],
    )
    assert frames[1].request == frames[0].number
    assert codes(frames[1]) == [("warning", "unexpected-type")]


def test_publish_without_ack_inbox_expects_no_ack() -> None:
    frames = carried([Said(bytes(Publish(ack_inbox="a", ack_policy=2))), Said(bytes(Publish(value=b"x")))])
    assert [frame.expects_response for frame in frames] == [False, False]


def test_ack_names_the_latest_publish_of_its_connection() -> None:
    publish = bytes(Publish(ack_inbox="acks", correlation_id="7", value=b"v"))
    ack = bytes(Ack(ack_inbox="acks", correlation_id="7", offset=5))
    frames = carried(
        [
            Said(publish, connection=1),
            Said(publish, side=1, connection=2),
            Said(ack, "acks", connection=2),
            Said(ack, "acks", side=1, connection=1),
        ]
    )
    assert [frame.request for frame in frames] == [None, None, frames[1].number, frames[0].number]
    assert frames[1].generated["copy_of"] == frames[0].number


def test_unknown_fields_are_kept_and_reported() -> None:
    frame = one(message() + b"\x98\x06\x05" + b"\xa2\x06\x01z")
    assert codes(frame) == [("note", "unknown-fields")]
    assert record(frame)["unknown_fields"] == [
        {"number": 99, "wire_type": "varint", "wire_type_code": 0, "value": 5},
        {"number": 100, "wire_type": "length-delimited", "wire_type_code": 2, "value": b"*".hex()},
    ]


def test_operation_without_its_message() -> None:
    frame = one(bytes(envelopes.PropagatedRequest(op=6)))
    assert codes(frame) == [("warning", "op-mismatch")]


def test_broken_protobuf_says_where() -> None:
    frame = one(message() + b"\x12\x7fcut")
    assert (frame.status, codes(frame)) == ("malformed", [("error", "field-cut")])
    assert "needs 127 bytes, there are 3 left" in frame.findings[0].message
    assert record(frame)["value"] == b"hi".hex(), "what was readable is shown"


def test_wrong_wire_types_are_explained() -> None:
    frame = one(message() + b"\x0b")
    assert "wire type 3 cannot be" in frame.findings[0].message


def test_values_of_internal_streams() -> None:
    cursor = bytes.fromhex("0a0173100122016318aa01".replace("22016318aa01", "1a016320aa01"))
    frame = one(bytes(Publish(value=cursor)), subject="liftbridge-default.cursors.1")
    assert (frame.layers or {})["liftbridge_cursor"] == {
        "stream": "s",
        "partition": 1,
        "cursor_id": "c",
        "offset": 170,
    }
    inner = frame.inner[1]
    assert frame.data[inner.start :][: len(inner.data)] == cursor
    event = bytes.fromhex("08071001220301".replace("220301", "22030a0173"))
    frame = one(bytes(Publish(value=event)), subject="liftbridge-default.activity")
    assert (frame.layers or {})["liftbridge_activity"]["delete_stream_op"] == {"stream": "s"}


# Replication.


def stored(*offsets: int, damage: int | None = None) -> bytes:
    from wiredecode.protocols.liftbridge.layers_replication import Entry, MessageHeader

    headers = [MessageHeader(key="subject", value=b"foo"), MessageHeader(key="reply", value=None)]
    entries = [bytearray(bytes(Entry(offset=o, key=b"k", value=b"v" * o, headers=headers))) for o in offsets]
    if damage is not None:
        entries[damage][33] ^= 1  # the attributes
    return bytes(envelopes.ReplicationResponse(leader_epoch=3, high_watermark=-1)) + b"".join(entries)


def test_each_stored_message_has_its_own_crc() -> None:
    frame = one(stored(4, 5, 6, damage=1))
    assert codes(frame) == [("error", "message-crc")]
    assert frame.findings[0].field == "liftbridge.entries[1].crc"
    assert [entry["crc_status"] for entry in record(frame)["entries"]] == ["good", "bad", "good"]


def test_crc_of_envelope_and_of_message_are_distinguished() -> None:
    payload = stored(1, damage=0)
    whole = bytes(sealed(envelopes.ReplicationResponse(payload)))
    frame = one(whole)
    assert (frame.generated["crc_status"], frame.generated["messages_crc_status"]) == ("good", "bad")
    assert codes(frame) == [("error", "message-crc")]


def test_many_bad_messages_are_counted() -> None:
    raw = bytearray(stored(*range(20)))
    first = 8 + 16
    for _ in range(20):
        raw[first + 28] ^= 0xFF
        first += 28 + int.from_bytes(raw[first + 24 : first + 28], "big")
    frame = one(bytes(raw))
    assert len(frame.findings) == 9
    assert frame.findings[-1].message == "20 of 20 stored messages have a bad CRC"


def test_entry_longer_than_its_message() -> None:
    """The size of the entry bounds the message: the next one is found."""
    payload = stored(1, 2)
    size_at = 8 + 16 + 24
    size = int.from_bytes(payload[size_at : size_at + 4], "big")
    after = size_at + 4 + size
    padded = payload[:size_at] + (size + 3).to_bytes(4, "big") + payload[size_at + 4 : after] + b"xyz" + payload[after:]
    record_of = record(one(padded))
    assert [entry["offset"] for entry in record_of["entries"]] == [1, 2]
    assert record_of["entries"][0]["surplus"] == b"***".hex()


def test_entry_that_reaches_beyond_the_payload() -> None:
    frame = one(stored(1, 2)[:-1])
    assert frame.status == "malformed"
    assert frame.findings[0].field == "liftbridge.entries[1]"
    assert len(record(frame)["entries"]) == 1


def test_negative_length_that_is_not_null() -> None:
    payload = bytearray(stored(1))
    payload[-1] = 0xFE  # -2 in place of -1
    frame = one(bytes(payload))
    assert (frame.status, frame.findings[0].field) == ("malformed", "liftbridge.entries[0].headers[1].value")


@pytest.mark.parametrize("length", [1, 27, 28])
def test_trailing_bytes_that_are_no_entry(length: int) -> None:
    frame = one(stored(1) + bytes(length))
    assert (frame.status, codes(frame)) == ("ok", [("note", "surplus-bytes")])


def test_field_names_are_documented() -> None:
    for layer in Liftbridge().layers():
        for kind in layer.fields_desc:
            assert isinstance(kind, Kind)
            assert kind.doc or kind.name.endswith(("_op", "_resp")), (layer.__name__, kind.name)


# Memory is bounded.


def test_exchanges_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_memory, "MAX_EXCHANGES", 3)
    publishes = [Said(bytes(Publish(ack_inbox="acks", correlation_id=str(number)))) for number in range(5)]
    acks = [Said(bytes(Ack(ack_inbox="acks", correlation_id=str(number))), "acks", side=1) for number in range(5)]
    frames = carried(publishes + acks)
    assert [codes(frame) for frame in frames[3:5]] == [[("note", "outstanding")], []]  # reported once
    assert [frame.request for frame in frames[5:]] == [None, None, *[frame.number for frame in frames[2:5]]]


def test_long_ids_are_not_remembered() -> None:
    memory = conversation.LiftbridgeSession()
    long = "x" * (conversation_memory.MAX_KEY_CHARACTERS + 1)
    frame = one(b"x")
    memory.ask(("ack", "inbox", long), frame, 0, {})
    memory.ask(("reply", "inbox"), frame, 2, {"replica_id": long})
    assert memory.subject_facts(long) == conversation_memory.SubjectFacts(numbered=False)
    assert (len(memory.exchanges), len(memory.known_subjects)) == (0, 0)


def test_namespaces_are_learned_from_raft_subjects_and_client_names() -> None:
    raw = payload_of(by_nr("L17"))
    assert "stream" not in one(raw, subject="custom.ns.s.0.replicate", reply="_INBOX.1").generated
    without_usual = carried(
        [Said(b"id", "custom.ns.raft.metadata.bootstrap"), Said(raw, "custom.ns.s.0.replicate", "_INBOX.1")]
    )
    assert without_usual[1].generated["stream"] == "s"
    memory = conversation.LiftbridgeSession()
    names = {"namespace": "my.ns", "server": "a", "purpose": "raft"}
    assert memory.client_named("LIFT.my.ns.a.raft", 1) == names
    assert memory.client_named("LIFT.app", 2) == {}
    assert memory.subject_facts("my.ns.s.0.offset").message_type == 6
