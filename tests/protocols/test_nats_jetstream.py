"""Responses of JetStream: a real server (2.9.10) against the account of its client (nats-py 2.16), and near misses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wiredecode
from tests.check.support import CAPTURES, check, named
from tests.net import craft
from tests.support import capture, dissect
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.conversation_acks import parse_ack_subject
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.tables.reader import TableReader
from wiredecode.trace import Collector, Criteria, Finder
from wiredecode.trace.text import hops

REAL = Path(__file__).parent / "nats_jetstream.pcap"
FULL = "maximum messages exceeded (503, err_code 10077)"
ACKS = [(place // 2 + 1, bool(place % 2)) for place in range(8)] + [(5, False)]
"""Sequences that the client got for ord.eu, and whether the message was a duplicate."""


def answers(frames: list[Frame], key: str) -> list[Frame]:
    return [frame for frame in frames if key in frame.generated]


def test_acks_equal_those_of_the_client() -> None:
    generated = [one.generated for one in answers(capture(REAL).frames, "stream_sequence")]
    orders = [(one["stream_sequence"], one.get("duplicate", False)) for one in generated if one["stream"] == "ORD"]
    assert orders == ACKS
    assert [(one["stream"], one["stream_sequence"]) for one in generated[-4:]] == [
        *(("KV_config", 1), ("KV_config", 2), ("OBJ_files", 1), ("OBJ_files", 2)),
    ]


def test_refusals_equal_those_of_the_client() -> None:
    found = [frame for frame in capture(REAL).frames if any(each.code == "jetstream" for each in frame.findings)]
    assert [frame.findings[0].message for frame in found[:4]] == [*[FULL] * 3, "stream not found (404, err_code 10059)"]
    requests = {frame.request for frame in found}
    assert {frame.outcome for frame in capture(REAL).frames if frame.id in requests} == {"refused"}


def test_keys_and_objects_are_named() -> None:
    generated = [{**one.generated, "type": one.type} for one in answers(capture(REAL).frames, "bucket")]
    keys = [(one["type"], one["key"], one["kv_operation"]) for one in generated if one["bucket"] == "config"]
    assert keys == [("PUB", "greet.en", "PUT"), ("HPUB", "greet.en", "DEL")]
    assert [one["object"] for one in generated if one["bucket"] == "files" and one["type"] == "HPUB"] == [
        "report one.txt"
    ]


def test_check_counts_what_a_full_stream_refused() -> None:
    (refused,) = named(check(REAL), "publish.refused")
    assert refused.title == f"3 of 12 messages that truth (#1) published to ord.eu: {FULL}"
    assert "publish.unconfirmed" not in {problem.name for problem in check(REAL)}


@pytest.mark.parametrize(
    ("frame", "step"),
    [(0, ("confirmed", 1, "stored in ORD")), (1, ("confirmed", 1, "dropped")), (9, ("refused", None, FULL))],
)
def test_trace_shows_the_sequence_or_the_reason(frame: int, step: tuple[str, int | None, str]) -> None:
    published = [each for each in capture(REAL).frames if each.values.get("subject") == "ord.eu"]
    finder = Finder(Criteria(frame=published[frame].number))
    for each in Dissector(Demand(messages=finder.messages)).frames(open_capture([str(REAL)])):
        finder.frame(each)
    collector = Collector(finder.found)
    for each in Dissector(Demand(messages=collector.messages)).frames(open_capture([str(REAL)])):
        collector.frame(each)
    (message,) = collector.found()
    last = hops(message)[-1]
    assert (last.word, last.event.sequence) == step[:2]
    assert step[2] in last.event.rests_on


def answered(subject: bytes, data: bytes) -> Frame:
    """The response to a request."""
    talk = craft.Talk(server=("10.0.0.2", 4222))
    hello = b'INFO {"server_id":"A","version":"2.9.10","proto":1,"max_payload":16909060}\r\n'
    made = [*talk.handshake(), *talk.send(1, hello), *talk.send(0, b'CONNECT {"verbose":false,"lang":"go"}\r\n')]
    made += talk.send(0, b"SUB _INBOX.a 1\r\nPUB %s _INBOX.a 1\r\nx\r\n" % subject)
    made += talk.send(1, b"MSG _INBOX.a 1 %d\r\n%s\r\n" % (len(data), data))
    return dissect(craft.batches(made), known=(Nats(),)).frames[-1]


@pytest.mark.parametrize(
    ("data", "finding", "generated"),
    [
        (b'{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"A","seq":0}', "full", {"stream"}),
        (b'{"error":{"code":400,"description":"a service says no"}}', "", set()),
        (b'{"error":"text"}', "", set()),
        (b'{"stream":"A","seq":16909060,"domain":"hub"}', "", {"stream", "stream_sequence"}),
        (b'{"stream":"A","seq":"1"}', "", set()),
        (b'{"stream":["A"],"seq":1}', "", set()),
        (b'{"stream":"A","seq":1', "", set()),
        (b'{"error":', "", set()),
    ],
)
def test_similar_json_is_not_a_jetstream_response(data: bytes, finding: str, generated: set[str]) -> None:
    frame = answered(b"orders.eu", data)
    assert {*frame.generated} - {"subscription"} == generated
    assert [each.message.split(" ")[0] for each in frame.findings] == ([finding] if finding else [])


def test_api_error_without_a_code() -> None:
    frame = answered(b"$JS.API.STREAM.INFO.A", b'{"type":"io.nats.jetstream.api.v1.x","error":{"code":404}}')
    assert [each.message for each in frame.findings] == ["no description (404, err_code None)"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("$JS.ACK.s.c.2.7.5.1700.9", ("s", "c", 2, 7, 5, 9)),
        ("$JS.ACK.hub.ACCHASH.s.c.2.7.5.1700.9", ("s", "c", 2, 7, 5, 9)),
        ("$JS.ACK._.ACCHASH.s.c.2.7.5.1700.9.token", ("s", "c", 2, 7, 5, 9)),
        ("$JS.ACK.s.c.2.7.5.1700", None),
        ("$JS.ACK.s.c.x.7.5.1700.9", None),
        (f"$JS.ACK.s.c.{'9' * 5000}.7.5.1700.9", None),
        ("$JS.API.INFO", None),
    ],
)
def test_subjects_for_acks(subject: str, expected: tuple[str, str, int, int, int] | None) -> None:
    assert parse_ack_subject(subject) == expected


@pytest.mark.parametrize(
    ("sent", "offset"),
    [
        (b"MSG a 1 $JS.ACK.s.c.1.16909060.5.1700.9 1\r\nx\r\n", 0x01020304),
        (b"MSG a 1 $JS.ACK.s.c.1.18446744073709551616.5.1700.9 1\r\nx\r\n", None),
        (b"HMSG a 1 37 38\r\nNATS/1.0\r\nNats-Sequence: 16909060\r\n\r\nx\r\n", 0x01020304),
        (b"HMSG a 1 34 35\r\nNATS/1.0\r\nNats-Sequence: \xd9\xa3 \xd9\xa3\r\n\r\nx\r\n", None),
        (b"MSG a 1 reply 1\r\nx\r\n", None),
    ],
)
def test_delivered_messages_have_their_sequence_in_the_stream(sent: bytes, offset: int | None) -> None:
    """In the subject for the ack; in the header of Direct Get and of republished messages."""
    talk = craft.Talk(server=("10.0.0.2", 4222))
    hello = b'INFO {"server_id":"A","version":"2.9.10","proto":1,"headers":true}\r\n'
    made = [*talk.handshake(), *talk.send(1, hello), *talk.send(0, b"SUB a 1\r\n"), *talk.send(1, sent)]
    reader = TableReader(craft.batches(made), "messages", columns=["offset", "topic"])
    assert [row for batch in reader for row in batch.to_pylist()] == [{"offset": offset, "topic": "a"}]


def test_offsets_of_a_real_consumer_are_the_sequences_that_it_logged() -> None:
    path = CAPTURES / "flows/n-discard-old.pcap.zst"
    log = json.loads(path.with_name("n-discard-old.truth.json").read_bytes())["log(seconds since capture start)"]
    rows = wiredecode.read(path, level="messages", columns=["offset"]).table()["offset"].drop_null().to_pylist()
    for _, who, did, *what in log:
        if (who, did) == ("report", "pulled"):
            pulled, rows = rows[: what[0]["distinct"]], rows[what[0]["distinct"] :]
            assert (pulled[:3], pulled[-3:]) == (what[0]["first"], what[0]["last"])
    assert rows == []
