"""Undocumented behaviour of RabbitMQ Stream on the wire, one test each."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from tests.effort import calls
from tests.net.craft import RST, Talk, batches
from tests.protocols.rabbitmq_vectors import BY_NAME
from tests.support import RABBITMQ, Part, Run, at, capture, careful_values, codes, craft, dissect, every, one_sided
from wiredecode import budget
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream import layers as rs
from wiredecode.protocols.rabbitmq_stream.conversation import DECODERS
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry, SubBatch
from wiredecode.protocols.shared import pairing

C, S = 0, 1
Step = tuple[int, bytes | Layer | str]


def play(*steps: Step, handshake: bool = True, port: int = 5552, **options: Any) -> Run:
    """A connection, step by step: (side, a layer, bytes, or the name of a vector)."""
    parts = [Part(1, side, BY_NAME[what].raw if isinstance(what, str) else bytes(what)) for side, what in steps]
    run = dissect(batches(craft(parts, every(1460), port, handshake)), **options)
    assert run.totals.closes
    return run


def plain(key: int, correlation: int, code: int = 1) -> Layer:
    """A response that carries nothing but its code."""
    return rs.LAYERS[key | 0x8000, 1](correlation_id=correlation, response_code=code)


def declare(number: int, stream: str, correlation: int, reference: str = "") -> list[Step]:
    asked = rs.DeclarePublisher(
        correlation_id=correlation, publisher_id=number, publisher_reference=reference, stream=stream
    )
    return [(C, asked), (S, plain(1, correlation))]


def publish(number: int, *bodies: bytes, first: int = 1) -> Layer:
    messages = [rs.PublishedMessage(publishing_id=first + i, data=body) for i, body in enumerate(bodies)]
    return rs.Publish(publisher_id=number, messages=messages)


def subscribe(number: int, stream: str, correlation: int) -> list[Step]:
    asked = rs.Subscribe(correlation_id=correlation, subscription_id=number, stream=stream, credit=10)
    return [(C, asked), (S, plain(7, correlation))]


def deliver(number: int, *bodies: bytes, chunk_id: int = 0, **fields: Any) -> Layer:
    chunk = Chunk(chunk_id=chunk_id, entries=[ChunkEntry(data=body) for body in bodies], **fields)
    return rs.Deliver(subscription_id=number, chunk=chunk)


def fields(frame: Frame) -> dict[str, Any]:
    assert frame.layers is not None
    record: dict[str, Any] = frame.layers["rabbitmq_stream"]
    return record


def streams(frames: Iterable[Frame]) -> list[str | None]:
    return [frame.generated.get("stream") for frame in frames]


# Chunks.


def test_bloom_filter_and_trailer_announced_but_absent() -> None:
    frame = one_sided(BY_NAME["V38"].raw, S).frames[0]
    assert (frame.status, codes(frame)) == ("ok", [])  # the client, who may have declared it, was not captured
    chunk = fields(frame)["chunk"]
    assert [(entry["offset"], entry["data"]) for entry in chunk["entries"]] == [(7, b"hello".hex()), (8, "")]
    assert "trailer" not in chunk
    assert fields(frame)["crc_status"] == "good"


def test_a_real_chunk_announces_a_missing_filter() -> None:
    run = capture(RABBITMQ / "c43_filter.pcap")
    sizes = {fields(frame)["chunk"]["bloom_size"] for frame in run.of("Deliver")}
    assert sizes - {0}, "the capture has such chunks"
    assert all(frame.status == "ok" and not frame.findings for frame in run.of("Deliver"))


def test_surplus_bytes_that_are_not_the_trailer() -> None:
    raw = bytearray(BY_NAME["V38"].raw + b"\x01\x02\x03")
    raw[3] += 3
    # This chunk does not identify the protocol, so a heartbeat precedes it.
    frame = one_sided(BY_NAME["V53"].raw + bytes(raw), S).frames[1]
    found = next(finding for finding in frame.findings if finding.code == "surplus-bytes")
    assert (found.severity, found.group, found.range) == ("warning", "malformed", (len(raw) - 3, len(raw)))


def test_trailer_for_a_subscriber_of_all_chunks() -> None:
    chunk = fields(one_sided(BY_NAME["V40"].raw, S).frames[0])["chunk"]
    assert [record["reference"] for record in chunk["trailer"]] == ["app-1"]
    assert fields(one_sided(BY_NAME["V40"].raw, S).frames[0])["crc_status"] == "good"


def test_a_tracking_chunk_holds_no_messages_and_occupies_one_offset() -> None:
    frame = one_sided(BY_NAME["V41"].raw, S).frames[0]
    assert codes(frame) == []
    assert "entries" not in fields(frame)["chunk"]
    real = capture(RABBITMQ / "c43_stats_resolve.pcap").of("Deliver")
    kinds = [fields(frame)["chunk"]["chunk_type"] for frame in real]
    assert "tracking delta" in kinds
    ids = [(f["chunk_id"], f["num_records"]) for f in (fields(frame)["chunk"] for frame in real)]
    assert all(first + count == following for (first, count), (following, _) in pairwise(ids))


def test_a_tracking_snapshot_has_the_chunk_of_every_sequence() -> None:
    sequence = b"\x00\x03pub" + struct.pack(">QQ", 40, 7)
    offset = b"\x01\x03app" + struct.pack(">Q", 12)
    data = struct.pack(">I", len(sequence + offset)) + sequence + offset
    header = struct.pack(">BBHIqQQIII", 0x50, 2, 1, 1, 0, 1, 50, zlib.crc32(data), len(data), 0) + bytes(4)
    body = struct.pack(">HHB", 8, 1, 0) + header + data
    frame = one_sided(struct.pack(">I", len(body)) + body, S).frames[0]
    assert frame.status == "ok"
    assert codes(frame) == []
    assert fields(frame)["chunk"]["snapshot"][0]["records"] == [
        {
            "tracking_type": "sequence",
            "tracking_type_code": 0,
            "reference": "pub",
            "chunk_id": 40,
            "value": 7,
        },
        {"tracking_type": "offset", "tracking_type_code": 1, "reference": "app", "value": 12},
    ]


def test_entry_count_differs_from_record_count() -> None:
    chunk = fields(one_sided(BY_NAME["V39"].raw, S).frames[0])["chunk"]
    offsets = [
        message["offset"]
        for entry in chunk["entries"]
        for message in entry.get("sub_batch", {}).get("messages", [entry])
    ]
    assert offsets == [100, 101, 102, 103]
    assert (chunk["num_entries"], chunk["num_records"]) == (3, 4)


def test_a_chunk_with_a_wrong_record_count() -> None:
    frame = one_sided(bytes(deliver(0, b"a", b"b", num_records=3)), S).frames[0]
    assert "chunk-records" in codes(frame)


def test_a_wrong_crc_is_reported() -> None:
    frame = one_sided(bytes(deliver(0, b"a", crc=0xDEADBEEF)), S).frames[0]
    found = next(finding for finding in frame.findings if finding.code == "chunk-crc")
    assert (found.severity, found.group, found.field) == ("error", "checksum", "chunk.crc")
    assert frame.data[slice(*(found.range or (0, 0)))] == b"\xde\xad\xbe\xef"
    assert fields(frame)["crc_status"] == "bad"


def test_a_crc_with_the_top_bit_set_is_compared_unsigned() -> None:
    body = next(b for b in (bytes([i]) for i in range(256)) if zlib.crc32(struct.pack(">I", 1) + b) >> 31)
    assert fields(one_sided(bytes(deliver(0, body)), S).frames[0])["crc_status"] == "good"


# Limits.


def test_deliver_is_not_bound_by_the_negotiated_frame_max() -> None:
    opened: list[Step] = [
        (C, "V01"),
        (S, "V02"),
        (S, rs.Tune(frame_max=4096)),
        (C, rs.TuneResponse(frame_max=4096)),
    ]
    opened += [(C, "V14"), (S, "V15"), *subscribe(1, "s", 20)]
    run = play(*opened, (S, deliver(1, bytes(10_000))), (C, publish(1, bytes(10_000))))
    large, published = run.frames[-2:]
    assert (large.type, large.status, codes(large)) == ("Deliver", "ok", [])
    assert (published.type, published.status, published.findings[0].code) == ("Publish", "ok", "frame-max")


def test_a_large_frame_before_open_is_only_a_note() -> None:
    raw = bytes(rs.SaslAuthenticate(correlation_id=3, mechanism="PLAIN", data=b"\0u\0" + bytes(9000)))
    frame = play((C, "V01"), (S, "V02"), (C, raw)).frames[2]
    assert [(f.severity, f.code) for f in frame.findings] == [("note", "frame-max")]


def test_counts_larger_than_the_frame_cost_no_time() -> None:
    def read(count: int) -> None:
        said = struct.pack(">HHBI", 3, 1, 0, count) + bytes(40)
        frames = one_sided(BY_NAME["V53"].raw + struct.pack(">I", len(said)) + said, S).frames
        assert frames[1].status == "malformed"
        assert "field-cut" in codes(frames[1])

    read(6)  # of 8 bytes each
    assert calls(lambda: read(0xFFFFFFFF)) <= 1.1 * calls(lambda: read(6))


def test_an_absurd_size_does_not_end_the_connection() -> None:
    run = play((C, "V01"), (C, b"\xff\xff\xff\xff\x00\x01\x00\x01"), (C, "V44"), (C, "V42"), (C, "V53"))
    assert [frame.type for frame in run.frames if frame.status == "ok"][-3:] == [
        "StoreOffset",
        "Credit",
        "Heartbeat",
    ]
    undecoded = [frame for frame in run.frames if frame.status == "undecoded"]
    assert [frame.length for frame in undecoded] == [8]
    assert "not-a-frame" in codes(undecoded[0]) + codes(run.frames[-3])


def test_requests_beyond_the_limit_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "MAX_OUTSTANDING", 3)
    asked: list[Step] = [(C, rs.Delete(correlation_id=i, stream="s")) for i in range(10, 15)]
    run = play((C, "V01"), *asked, (S, plain(14, 10)), (S, plain(14, 14)))
    first, last = run.frames[-2:]
    assert first.request is None
    assert last.request == 6
    assert run.totals.limits["outstanding"] > 0


# Requests and responses.


def test_correlation_ids_of_both_directions_overlap() -> None:
    """The server numbers its requests, too: the same ids, and even the same key, mean different things."""
    run = play(
        (C, "V01"),
        (S, "V02"),
        (C, rs.Create(correlation_id=1, stream="s")),
        (S, rs.ConsumerUpdate(correlation_id=1, subscription_id=0, active=1)),
        (C, rs.Close(correlation_id=1, closing_code=1, closing_reason="OK")),
        (S, rs.Close(correlation_id=1, closing_code=13, closing_reason="unknown frame")),
        (C, plain(22, 1)),
        (S, plain(22, 1)),
        (C, rs.ConsumerUpdateResponse(correlation_id=1, offset_type=0)),
        (S, plain(13, 1)),
    )
    answers = {frame.number: frame.request for frame in run.frames if frame.request}
    assert answers == {2: 1, 7: 6, 8: 5, 9: 4, 10: 3}
    assert {frame.number: frame.response for frame in run.frames if frame.response} == {
        request: response for response, request in answers.items()
    }


def test_latency_is_the_time_since_the_request() -> None:
    parts = [(0.5, (C, "V01")), (0.75, (S, "V02"))]
    talk = Talk()
    packets: list[Any] = list(enumerate(talk.handshake()))
    packets = [(index / 1000, packet) for index, packet in packets]
    packets += [(at_, talk.send(side, BY_NAME[name].raw)[0]) for at_, (side, name) in parts]
    run = dissect(batches(packets))
    assert [frame.latency_ns for frame in run.frames] == [None, 250_000_000]


@pytest.mark.parametrize("reply", ["V12", "V13"])
def test_tune_reply_in_both_forms(reply: str) -> None:
    run = play((C, "V01"), (S, "V02"), (S, "V11"), (C, reply))
    offer, answer = run.frames[2:]
    assert (answer.request, offer.response) == (offer.number, answer.number)
    assert (offer.sender, answer.sender) == ("server", "client")
    assert "correlation_id" not in fields(answer)
    assert "response_code" not in fields(answer)
    assert codes(offer) == codes(answer) == []


def test_credit_response_has_no_correlation_id() -> None:
    run = play((C, "V01"), *subscribe(5, "orders", 2), (C, "V42"), (S, "V43"))
    answer = run.frames[-1]
    assert (answer.type, answer.request) == ("CreditResponse", None)
    assert fields(answer)["subscription_id"] == 77
    assert codes(answer) == ["refused"]


def test_metadata_response_has_a_code_per_stream_only() -> None:
    run = play((C, "V01"), (C, "V21"), (S, "V22"))
    answer = run.frames[-1]
    assert answer.request == 2
    assert "response_code" not in fields(answer)
    assert fields(answer)["streams"][1]["leader_reference"] == "none"
    assert "refused" not in codes(answer)


@pytest.mark.parametrize(("key", "name"), [(24, "Route"), (25, "Partitions")])
def test_responses_of_rabbitmq_3_10_without_the_response_bit(key: int, name: str) -> None:
    asked = (
        rs.Route(correlation_id=5, routing_key="k", super_stream="o")
        if key == 24
        else rs.Partitions(correlation_id=5, super_stream="o")
    )
    raw = bytearray(BY_NAME["V56"].raw)
    raw[5] = key
    run = play((C, "V01"), (C, asked), (S, bytes(raw)))
    request, answer = run.frames[1:]
    assert (request.type, request.sender, request.response) == (name, "client", 3)
    assert (answer.type, answer.sender, answer.request) == (f"{name}Response", "server", 2)
    assert answer.code == key
    assert fields(answer)["streams"] == ["o-0"]
    assert answer.status == "ok"


def test_a_real_response_of_rabbitmq_3_10_without_the_response_bit() -> None:
    run = capture(RABBITMQ / "c310_partitions.pcap")
    asked, answered = run.of("Partitions"), run.of("PartitionsResponse")
    assert [frame.code for frame in asked + answered] == [25, 25]
    assert answered[0].request == asked[0].number
    assert answered[0].sender == "server"


@pytest.mark.parametrize("width", [2, 4])
def test_sasl_challenge_with_a_length_of_two_or_four_bytes(width: int) -> None:
    asked = b"Please give me"
    body = struct.pack(">HHIH", 0x8013, 1, 3, 10) + len(asked).to_bytes(width, "big") + asked
    run = play((C, "V01"), (C, "V05"), (S, struct.pack(">I", len(body)) + body))
    answer = run.frames[-1]
    assert (answer.status, codes(answer)) == ("ok", [])
    assert answer.request == 2
    assert careful_values(answer)["challenge" if width == 2 else "long_challenge"] == asked


def test_unknown_command_answered_with_close() -> None:
    """RabbitMQ before 3.11 does not know ExchangeCommandVersions."""
    run = play((C, "V01"), (C, "V17"), (S, "V51"), (C, "V52"))
    closed, answer = run.frames[-2:]
    assert (closed.sender, codes(closed), closed.response) == ("server", ["closed"], answer.number)
    assert fields(closed)["closing_code"] == "Unknown frame"
    assert (answer.sender, answer.request) == ("client", closed.number)


def test_unknown_codes_are_shown_as_numbers() -> None:
    run = play(
        (C, "V01"),
        (C, rs.Close(correlation_id=7, closing_code=0, closing_reason="")),
        (S, plain(22, 7, code=99)),
    )
    assert fields(run.frames[1])["closing_code"] == 0
    answer = run.frames[2]
    assert (fields(answer)["response_code"], fields(answer)["response_code_code"]) == (99, 99)
    assert "99" in answer.findings[0].message


def test_unknown_offset_type_is_shown_as_a_number() -> None:
    frame = one_sided(bytes(rs.Subscribe(correlation_id=1, stream="s", offset_type=9, credit=1))).frames[0]
    assert (fields(frame)["offset_type"], fields(frame)["credit"]) == (9, 1)


# Publishing.


def test_one_confirm_covers_a_sub_batch() -> None:
    run = play(
        (C, "V01"),
        *declare(3, "orders", 8),
        (C, "V26"),
        (S, rs.PublishConfirm(publisher_id=3, publishing_ids=[7])),
    )
    published, confirm = run.frames[-2:]
    assert fields(published)["messages"][0]["sub_batch"]["record_count"] == 2
    assert (fields(confirm)["publishing_ids"], codes(confirm)) == ([7], [])
    assert streams([published, confirm]) == ["orders", "orders"]


def test_thousands_of_ids_in_one_confirm() -> None:
    ids = list(range(1, 2047))
    frame = one_sided(bytes(rs.PublishConfirm(publisher_id=1, publishing_ids=ids)), S).frames[0]
    assert frame.length == 4 + 4 + 1 + 4 + 8 * len(ids)
    assert fields(frame)["publishing_ids"] == ids


def test_duplicates_are_confirmed_too() -> None:
    run = capture(RABBITMQ / "c43_dedup.pcap")
    confirmed = [fields(frame)["publishing_ids"] for frame in run.of("PublishConfirm")]
    assert [6, 7, 8, 9, 10] in confirmed
    assert all(not frame.findings for frame in run.of("PublishConfirm"))


def test_messages_need_not_be_amqp() -> None:
    bodies = [
        b"plain text",
        b"\x00Ssnot a section",
        b"\x00",
        b"",
        b"\x00\x53\x75\xa0\x05abc",
        b"\x00\x53\x75\xa0\x03abc",
    ]
    messages = fields(one_sided(bytes(publish(1, *bodies))).frames[0])["messages"]
    assert [message["data"] for message in messages] == [body.hex() for body in bodies]
    assert ["amqp" in message for message in messages] == [False] * 5 + [True]


def test_publish_without_filter_field_is_malformed_and_the_next_frame_is_read() -> None:
    """rstream leaves the field out where the filter is None."""
    run = play((C, "V01"), (C, "V67"), (C, "V53"), (C, "V44"))
    assert [frame.status for frame in run.frames] == ["ok", "malformed", "ok", "ok"]
    bad = run.frames[1]
    found = next(finding for finding in bad.findings if finding.code == "field-cut")
    assert (found.severity, found.group, found.field) == ("error", "malformed", "messages[1].data")
    assert careful_values(bad)["messages"][0] == {
        "publishing_id": 1,
        "filter_value": "f1",
        "data": b"with filter",
    }
    assert fields(bad)["messages"][0]["filter_value"] == "f1"


def test_lengths_counted_in_characters_are_malformed_and_the_next_frame_is_read() -> None:
    run = play((C, "V01"), (C, "V68"), (C, "V53"))
    assert [frame.status for frame in run.frames] == ["ok", "malformed", "ok"]


def test_text_that_is_not_utf8_is_reported_and_escaped() -> None:
    run = play((C, "V01"), (C, rs.Delete(correlation_id=2, stream="a\udcff\udcfeb")), (C, "V53"))
    frame = run.frames[1]
    assert (frame.status, codes(frame)) == ("ok", ["invalid-utf8"])
    assert fields(frame)["stream"] == "a\\xff\\xfeb"
    assert frame.data.endswith(b"a\xff\xfeb")


def test_null_in_a_string_that_cannot_be_null_is_malformed() -> None:
    """Length 0xffff means null in filter values only."""
    body = struct.pack(">HHI", 14, 1, 5) + b"\xff\xff"
    run = play((C, "V01"), (C, struct.pack(">I", len(body)) + body), (C, "V53"))
    assert [frame.status for frame in run.frames] == ["ok", "malformed", "ok"]


# Ids and their streams.


def test_publisher_id_reused_after_delete() -> None:
    deleted: list[Step] = [(C, rs.DeletePublisher(correlation_id=30, publisher_id=1)), (S, plain(6, 30))]
    again = declare(1, "second", 31)
    run = play((C, "V01"), *declare(1, "first", 10), (C, publish(1, b"a")), *deleted, *again, (C, publish(1, b"b")))
    assert streams(run.of("Publish")) == ["first", "second"]
    assert all(not frame.findings for frame in run.of("Publish"))


def test_publisher_id_reused_after_metadata_update() -> None:
    gone = rs.MetadataUpdate(response_code=6, stream="first")
    run = play(
        *[
            (C, "V01"),
            *declare(1, "first", 10),
            *declare(2, "other", 11),
            (S, gone),
            (C, publish(1, b"late")),
        ],
        *[(C, publish(2, b"fine")), *declare(1, "second", 12), (C, publish(1, b"b"))],
    )
    late, fine, after = run.of("Publish")
    assert streams([late, fine, after]) == ["first", "other", "second"]
    assert [codes(frame) for frame in (late, fine, after)] == [["ended"], [], []]


def test_a_refused_declaration_leaves_the_id_as_it_was() -> None:
    refused = [
        (C, rs.DeclarePublisher(correlation_id=11, publisher_id=1, stream="nope")),
        (S, plain(1, 11, 2)),
    ]
    run = play((C, "V01"), *declare(1, "first", 10), *refused, (C, publish(1, b"a")))
    assert streams(run.of("Publish")) == ["first"]


def test_subscription_id_reused_and_deliver_in_flight_after_unsubscribe() -> None:
    ended: list[Step] = [(C, rs.Unsubscribe(correlation_id=30, subscription_id=0)), (S, plain(12, 30))]
    run = play(
        *[
            (C, "V01"),
            *subscribe(0, "first", 10),
            (S, deliver(0, b"a")),
            *ended,
            (S, deliver(0, b"in flight")),
        ],
        *[*subscribe(0, "second", 11), (S, deliver(0, b"b"))],
    )
    assert streams(run.of("Deliver")) == ["first", "first", "second"]
    severities = [[finding.severity for finding in frame.findings] for frame in run.of("Deliver")]
    assert severities == [[], ["note"], []]


def test_a_deliver_before_the_subscribe_response_has_its_stream() -> None:
    asked, answered = subscribe(4, "orders", 9)
    run = play((C, "V01"), asked, (S, deliver(4, b"x")), answered)
    assert streams(run.of("Deliver")) == ["orders"]


def test_late_repeated_and_zero_credits_are_valid() -> None:
    ended: list[Step] = [(C, rs.Unsubscribe(correlation_id=30, subscription_id=0)), (S, plain(12, 30))]
    given: list[Step] = [(C, rs.Credit(subscription_id=0, credit=count)) for count in (0, 1, 1)]
    run = play((C, "V01"), *subscribe(0, "s", 10), *given, *ended, *given)
    assert [codes(frame) for frame in run.of("Credit")] == [[]] * 6
    assert streams(run.of("Credit")) == ["s"] * 6


def test_the_response_shows_the_stream_of_its_request() -> None:
    run = play((C, "V01"), *declare(7, "orders", 10, "app"), *subscribe(3, "orders", 11), (C, publish(7, b"x")))
    assert run.of("DeclarePublisherResponse")[0].generated == {"publisher_id": 7, "stream": "orders"}
    assert run.of("SubscribeResponse")[0].generated == {"subscription_id": 3, "stream": "orders"}
    assert fields(run.of("Publish")[0])["reference"] == "app"


def test_reused_ports_start_a_new_conversation() -> None:
    first, second = Talk(), Talk(isn=(90_000, 70_000))
    packed = first.handshake()
    for side, layer in declare(1, "old", 1):
        packed += first.send(side, bytes(layer))  # type: ignore[arg-type]
    packed += second.handshake()
    packed += second.send(C, BY_NAME["V01"].raw) + second.send(S, BY_NAME["V02"].raw)
    packed += second.send(C, bytes(publish(1, b"x")))
    packed += second.send(S, bytes(plain(14, 1)))
    run = dissect(batches(packed))
    assert {frame.connection.number for frame in run.frames} == {1, 2}
    published = run.of("Publish")[0]
    assert (published.generated, codes(published)) == ({}, ["not-declared"])
    assert run.frames[-1].request is None


def test_an_end_without_close() -> None:
    talk = Talk()
    packed = [*talk.handshake(), *talk.send(C, BY_NAME["V01"].raw), talk.packet(S, flags=RST)]
    run = dissect(batches(packed))
    assert [(frame.type, frame.status, codes(frame)) for frame in run.frames] == [("PeerProperties", "ok", [])]


# Roles.


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        ([(C, "V44"), (C, "V44"), (C, "V44")], True),
        ([(S, "V29"), (S, "V29"), (S, "V29")], True),
        ([(S, "V53"), (S, "V37"), (C, "V53"), (C, "V42")], True),
        ([(S, "V57"), (C, "V59"), (C, "V59")], True),
        ([(C, "V59"), (S, "V57"), (C, "V59")], True),
        ([(S, "V32"), (S, "V46"), (S, "V66")], True),
        ([(S, "V37"), (C, "V42"), (S, "V37")], True),
        ([(C, "V50"), (S, "V52"), (C, "V53")], False),
        ([(S, "V52"), (S, "V52"), (S, "V52")], False),
        ([(C, "V53"), (S, "V53"), (C, "V53")], False),
        ([(C, "V12"), (C, "V12"), (C, "V12")], False),
    ],
)
def test_sides_without_a_handshake_follow_from_one_sided_frames(steps: list[Step], known: bool) -> None:
    run = play(*steps, handshake=False)
    assert len(run.frames) == len(steps)
    for frame in run.frames:
        assert frame.sender in (None, "server" if frame.source.endswith(":5552") else "client")
    assert (run.frames[-1].sender is not None) == known


def test_sides_on_an_unknown_port() -> None:
    run = play((S, "V37"), (C, "V42"), (S, "V37"), handshake=False, port=7000)
    assert {(frame.type, frame.sender) for frame in run.frames} == {
        ("Deliver", "server"),
        ("Credit", "client"),
    }


def test_close_and_consumer_update_responses_from_the_client() -> None:
    run = play((C, "V01"), (S, "V57"), (C, "V58"), (S, "V51"), (C, "V52"))
    assert [frame.sender for frame in run.frames] == ["client", "server", "client", "server", "client"]


def test_the_first_request_in_mid_stream_comes_before_its_response() -> None:
    asked = rs.Partitions(correlation_id=5, super_stream="o")
    run = play((S, "V29"), (C, asked), (S, "V56"), (S, "V29"), handshake=False)
    expected = ["PublishConfirm", "Partitions", "PartitionsResponse", "PublishConfirm"]
    assert [frame.type for frame in run.frames] == expected
    assert run.frames[2].request == 2


# Surplus and missing parts.


def test_surplus_of_a_consumer_update_response_is_only_noted() -> None:
    frame = play((C, "V01"), (S, "V57"), (C, "V60")).frames[-1]
    assert (frame.status, frame.request) == ("ok", 2)
    assert [(f.severity, f.code, f.range) for f in frame.findings] == [("note", "surplus-bytes", (16, 24))]


def test_surplus_elsewhere_is_a_warning() -> None:
    raw = bytearray(BY_NAME["V42"].raw + b"\0\0")
    raw[3] += 2
    frame = play((C, "V01"), (C, bytes(raw)), (C, "V53")).frames[1]
    assert [(f.severity, f.code, f.range) for f in frame.findings if f.code == "surplus-bytes"] == [
        ("warning", "surplus-bytes", (11, 13))
    ]


@pytest.mark.parametrize("name", ["V34", "V16"])
def test_an_omitted_array_is_no_finding(name: str) -> None:
    side = C if BY_NAME[name].sender == "client" else S
    frame = play((C, "V01"), (side, name)).frames[-1]
    assert frame.status == "ok"
    assert "properties" not in fields(frame)
    assert set(codes(frame)) <= {"refused", "no-request"}


@pytest.mark.parametrize("key", [0x0000, 0x0020, 0x00FF, 0x7FFF, 0x8020])
def test_an_unknown_key_is_shown_and_costs_nothing(key: int) -> None:
    body = struct.pack(">HH", key, 1) + b"what?"
    frames = play((C, "V01"), (C, struct.pack(">I", len(body)) + body), (C, "V53")).frames
    assert [frame.type for frame in frames] == ["PeerProperties", None, "Heartbeat"]
    unknown = frames[1]
    assert (unknown.code, codes(unknown)) == (key, ["unknown-command"])
    assert (fields(unknown)["key"], fields(unknown)["body"]) == (key, "<redacted 5 bytes>")


def test_an_unknown_version_is_shown_and_costs_nothing() -> None:
    raw = bytearray(BY_NAME["V25"].raw)
    raw[7] = 3
    frames = play((C, "V01"), (C, bytes(raw)), (C, "V53")).frames
    assert [frame.type for frame in frames] == ["PeerProperties", "Publish", "Heartbeat"]
    assert codes(frames[1]) == ["unknown-version"]
    assert fields(frames[1])["version"] == 3


def test_a_frame_too_short_for_its_key() -> None:
    """Sizes below 4 cannot be."""
    run = play((C, "V01"), (C, b"\0\0\0\2\0\x17"), (C, "V53"), (C, "V44"))
    assert [f.type for f in run.frames if f.status == "ok"] == ["PeerProperties", "Heartbeat", "StoreOffset"]
    assert run.totals.undecoded == 6


def test_many_frames_in_one_segment_and_a_size_split_over_segments() -> None:
    raw = b"".join(BY_NAME[name].raw for name in ("V02", "V04", "V08", "V11", "V15", "V37"))
    talk = Talk()
    packed = [
        *talk.handshake(),
        *talk.send(C, BY_NAME["V01"].raw),
        *talk.send(S, raw + BY_NAME["V53"].raw[:2]),
    ]
    packed += talk.send(S, BY_NAME["V53"].raw[2:])
    run = dissect(batches(packed))
    assert [frame.type for frame in run.frames][1:] == [
        *("PeerPropertiesResponse", "SaslHandshakeResponse", "SaslAuthenticateResponse", "Tune"),
        *("OpenResponse", "Deliver", "Heartbeat"),
    ]
    assert [frame.packets for frame in run.frames][1:] == [[5]] * 6 + [[5, 6]]
    assert run.frames[-1].time_ns > run.frames[-1].first_ns


# PROXY prefaces.

PROXY_V1 = b"PROXY TCP4 192.0.2.7 192.0.2.9 56324 5552\r\n"
PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes([192, 0, 2, 7, 192, 0, 2, 9, 0xDC, 4, 0x15, 0xB0])
PREFACES = {"v1": PROXY_V1, "v2": PROXY_V2, "v2_local": b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"}


@pytest.mark.parametrize("size", [1, 5, 1460])
@pytest.mark.parametrize("port", [5552, 7000])
@pytest.mark.parametrize("version", PREFACES)
def test_a_proxy_preface_is_skipped_and_shown(version: str, port: int, size: int) -> None:
    preface = PREFACES[version]
    parts = [
        Part(1, C, preface + BY_NAME["V01"].raw),
        Part(1, S, BY_NAME["V02"].raw),
        Part(1, C, BY_NAME["V14"].raw),
    ]
    run = dissect(batches(craft(parts, every(size), port)))
    assert [(frame.protocol, frame.type, frame.length) for frame in run.frames[:2]] == [
        ("proxy", "PROXY", len(preface)),
        ("rabbitmq_stream", "PeerProperties", len(BY_NAME["V01"].raw)),
    ]
    assert [frame.type for frame in run.frames[2:]] == ["PeerPropertiesResponse", "Open"]
    assert run.frames[2].request == 2
    assert run.totals.undecoded == 0
    layers = run.frames[0].layers
    assert layers is not None
    assert list(layers) == ["proxy"]


def test_a_proxy_preface_before_another_protocol() -> None:
    run = one_sided(PROXY_V1 + b"GET / HTTP/1.1\r\n\r\n" * 3)
    assert run.frames == []
    assert run.totals.closes


# Sub-batches.


def batched(codec: int, data: bytes, count: int, uncompressed: int) -> Frame:
    batch = SubBatch(codec=codec, record_count=count, uncompressed_length=uncompressed, data=data)
    layer = rs.Publish(publisher_id=1, messages=[rs.PublishedMessage(publishing_id=1, sub_batch=batch)])
    return play((C, "V01"), *declare(1, "s", 2), (C, layer)).frames[-1]


def test_a_decompression_bomb_is_bounded_by_what_was_announced() -> None:
    bomb = gzip.compress(bytes(20_000_000), 1)
    tracemalloc.start()
    frame = batched(0x90, bomb, 2, 48)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50 * len(bomb) < 10_000_000
    assert "sub-batch" in codes(frame)
    shown = fields(frame)["messages"][0]["sub_batch"]
    assert sum(len(message["data"]) for message in shown["messages"]) <= 2 * 48
    assert "problem" in shown


def test_a_bomb_that_announces_itself_is_bounded_by_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "FRAME_BYTES", 1000)
    inner = struct.pack(">I", 5000) + bytes(5000)
    frame = batched(0x90, gzip.compress(inner), 1, len(inner))
    assert codes(frame) == ["decompressed-size"]
    assert fields(frame)["messages"][0]["sub_batch"]["messages"] == []


GZIP = bytes.fromhex("1f8b08000000000002ff6360601049c4021880e249580000f25e515f30000000")


@pytest.mark.parametrize(
    ("codec", "data", "count", "uncompressed"),
    [
        pytest.param(0x90, GZIP[:-9], 2, 48, id="gzip_cut"),
        pytest.param(0x90, GZIP[:12] + b"\xff\xff" + GZIP[14:], 2, 48, id="gzip_damaged"),
        pytest.param(0x90, GZIP[:-8] + b"\0\0\0\0" + GZIP[-4:], 2, 48, id="gzip_checksum"),
        pytest.param(0x90, b"not gzip", 2, 48, id="no_gzip"),
        pytest.param(0x90, b"", 2, 48, id="empty"),
        pytest.param(0x90, GZIP, 3, 48, id="a_record_less"),
        pytest.param(0x90, GZIP, 1, 48, id="a_record_more"),
        pytest.param(0x90, GZIP, 2, 50, id="length_too_long"),
        pytest.param(0x90, GZIP, 2, 40, id="length_too_short"),
        pytest.param(0x80, b"\0\0\0\x09abc", 1, 7, id="record_cut"),
        pytest.param(0xD0, b"abc", 1, 7, id="codec_not_assigned"),
    ],
)
def test_a_broken_sub_batch_is_reported_and_shown_raw(codec: int, data: bytes, count: int, uncompressed: int) -> None:
    frame = batched(codec, data, count, uncompressed)
    assert frame.status == "ok"
    assert codes(frame) == ["sub-batch"]
    shown = fields(frame)["messages"][0]["sub_batch"]
    assert (shown["data"], shown["record_count"], shown["uncompressed_length"]) == (
        data.hex(),
        count,
        uncompressed,
    )


def test_offsets_continue_after_an_undecodable_sub_batch() -> None:
    broken = SubBatch(codec=0x90, record_count=10, uncompressed_length=99, data=b"broken")
    chunk = Chunk(chunk_id=100, entries=[ChunkEntry(sub_batch=broken), ChunkEntry(data=b"after")])
    frame = play((C, "V01"), *subscribe(1, "s", 2), (S, rs.Deliver(subscription_id=1, chunk=chunk))).frames[-1]
    assert fields(frame)["chunk"]["entries"][1]["offset"] == 110
    assert codes(frame) == ["sub-batch"]


def test_gzip_with_several_members() -> None:
    records = [struct.pack(">I", 3) + body for body in (b"one", b"two")]
    frame = batched(0x90, b"".join(gzip.compress(record) for record in records), 2, 14)
    assert codes(frame) == []
    assert at(fields(frame), "messages.0.sub_batch.messages.1.data") == b"two".hex()


def test_an_empty_sub_batch() -> None:
    frame = batched(0x80, b"", 0, 0)
    assert fields(frame)["messages"][0]["sub_batch"]["messages"] == []
    assert frame.status == "ok"


def test_random_messages_never_break_the_record() -> None:
    chance = random.Random(9)
    bodies = [b"\x00\x53" + chance.randbytes(chance.randrange(30)) for _ in range(200)]
    frame = one_sided(bytes(publish(1, *bodies))).frames[0]
    assert [message["data"] for message in fields(frame)["messages"]] == [body.hex() for body in bodies]


@pytest.mark.parametrize("options", [{}, {"style": None}], ids=["with records", "without"])
def test_a_publish_of_no_messages(options: dict[str, Any]) -> None:
    run = play(*declare(3, "orders", 1), (C, publish(3)), (C, publish(3, b"a")), **options)
    assert [frame.status for frame in run.of("Publish")] == ["ok", "ok"]
    assert not run.totals.failures


def test_decoders_of_unknown_commands_and_versions_are_bounded() -> None:
    def frames(first: int) -> list[Step]:
        return [(C, struct.pack(">IHH", 4, key, first + at)) for at in range(50) for key in (0x0017, 0x0017 + 256 * at)]

    play((C, "V01"), *frames(0x1234))
    known = len(DECODERS)
    run = play((C, "V01"), *frames(0x4321))
    assert len(DECODERS) == known
    assert [frame.status for frame in run.frames].count("undecoded") == 0
