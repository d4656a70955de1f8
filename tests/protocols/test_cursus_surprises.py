"""Undocumented behaviour of real Cursus traffic, one test each."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import orjson
import pytest
import zstandard

from tests.effort import grows_with_length_only
from tests.net.craft import batches
from tests.protocols.cursus_commands import command
from tests.protocols.test_cursus_vectors import AS_TEXT, MESSAGE, raw_of, read
from tests.support import Part, Run, capture, codes, craft, dissect, every
from wiredecode.frames.frame import Frame
from wiredecode.protocols.cursus import evidence_body
from wiredecode.protocols.cursus.evidence import MAX_FRAME_BYTES
from wiredecode.protocols.cursus.layers_batch import Batch, SeedBatch
from wiredecode.protocols.cursus.layers_kinds import MAX_PIECES
from wiredecode.protocols.cursus.protocol import Cursus
from wiredecode.protocols.registry import DecodeAs
from wiredecode.protocols.shared.compression import Status
from wiredecode.testing import Talk

C, S = 0, 1


def framed(body: bytes | str) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    return len(raw).to_bytes(4, "big") + raw


def cmd(text: str) -> bytes:
    return framed(b"\0\0" + text.encode())


def record(frame: Frame) -> dict[str, Any]:
    assert frame.layers is not None
    return frame.layers["cursus"]  # type: ignore[no-any-return]


def client(text: str | bytes) -> dict[str, Any]:
    return record(read(framed(text), "client", AS_TEXT))


def server(text: str | bytes) -> dict[str, Any]:
    return record(read(framed(text), "server", AS_TEXT))


def talk(*said: tuple[int, bytes], port: int = 9000, size: int = 1460, **options: Any) -> Run:
    """A conversation, each element one write."""
    parts = [Part(1, side, data) for side, data in said]
    return dissect(batches(craft(parts, every(size), server_port=port)), known=(Cursus(),), **options)


def pairs(run: Run) -> list[tuple[int, int | None]]:
    return [(frame.number, frame.request) for frame in run.frames if frame.sender == "server"]


# Commands.


def test_message_starts_inside_another_value() -> None:
    shown = client("PUBLISH topic=t key=xmessage=1 acks=0")
    assert (shown["key"], shown["message"]) == ("x", "1 acks=0")
    assert "acks" not in shown


def test_only_the_last_value_may_hold_blanks() -> None:
    assert client("  PUBLISH   topic=t  message=  a  b \n")["message"] == "a  b"


def test_a_topic_with_an_equals_sign() -> None:
    assert client("DELETE topic=a=b")["topic"] == "a=b"
    assert read(framed("DELETE a=b"), "client").dialect == "seed"
    assert client("DELETE a=b")["topic"] == "a=b"


def test_a_repeated_key_keeps_the_last_value() -> None:
    frame = read(framed("DELETE topic=a topic=b"), "client")
    assert record(frame)["topic"] == "b"
    assert codes(frame) == ["repeated-parameter"]


def test_any_letter_case_and_any_order() -> None:
    frame = read(cmd("cReAte partitions=3 topic=t"), "client")
    assert frame.type == "CREATE"
    assert record(frame)["partitions"] == 3


def test_names_that_begin_alike() -> None:
    for name in ("STREAM", "STREAM_VERSION", "LIST", "LIST_GROUPS", "LIST_OFFSETS", "LIST_CLUSTER", "LIST_SNAPSHOTS"):
        assert read(cmd(name), "client").type == name
    assert read(cmd("LISTEN x"), "client").type == "Envelope"


def test_exact_commands_take_no_arguments() -> None:
    assert codes(read(cmd("LIST topic=x"), "client")) == ["arguments"]


def test_words_without_equals_sign_are_ignored() -> None:
    frame = read(cmd("DELETE topic=a force"), "client")
    assert record(frame)["ignored_words"] == ["force"]
    assert codes(frame) == ["ignored-words"]


def test_unknown_parameters_are_kept() -> None:
    assert client("DELETE topic=a Odd=1")["other_fields"] == {"Odd": "1"}


def test_invalid_numbers_stay_text() -> None:
    assert client("CREATE topic=a partitions=many")["partitions"] == "many"


def test_too_many_and_too_few_positional_words() -> None:
    assert client("CREATE t 3 4 5")["ignored_words"] == ["4", "5"]
    assert client("COMMIT t g")["group"] == "g"


def test_positions_of_words_in_the_2025_broker() -> None:
    assert client(b"\0\5adminJOIN_GROUP workers c1")["group"] == "workers"
    assert client("JOIN_GROUP orders workers c1")["group"] == "workers"
    shown = client(b"\0\5adminPUBLISH orders hello positional world")
    assert (shown["topic"], shown["message"]) == ("orders", "hello positional world")


def test_json_after_the_payload_key() -> None:
    shown = client('REPLICATE_MESSAGE internal_token=s3 payload={"topic":"t","messages":[{"Payload":"a b token=q"}]}')
    assert shown["internal_token"] == "<redacted 2 bytes>"
    assert shown["payload"]["messages"][0]["Payload"] == "a b token=<redacted 1 bytes>"


def test_transaction_fields_of_a_forwarded_publish() -> None:
    shown = client(
        "PUBLISH topic=t producerId=txn-marker:a:commit transaction_marker=commit control_batch_version=2 message=x"
    )
    assert (shown["transaction_marker"], shown["control_batch_version"]) == ("commit", 2)


def test_bytes_that_are_not_utf8_survive() -> None:
    raw = framed(b"\0\0PUBLISH topic=\xff message=\xfe\xff")
    frame = read(raw, "client")
    assert record(frame)["topic"] == "\\xff"
    assert codes(frame) == ["invalid-utf8"]
    assert frame.layer is not None
    assert bytes(frame.layer(raw)) == raw


def test_an_empty_frame_from_a_client() -> None:
    assert codes(read(framed(b""), "client")) == ["empty-frame"]


def test_more_words_than_the_limit() -> None:
    frame = read(framed("PUBLISH " + "a=b " * (MAX_PIECES + 10)), "client")
    assert "pieces" in codes(frame)


# Replies.


def test_empty_values_inside_and_at_the_end() -> None:
    shown = server("OK topic=t read_acl= write_acl= retention_hours=0")
    assert shown == {"length": 49, "topic": "t", "read_acl": "", "write_acl": "", "retention_hours": 0}
    assert server("OK enabled=a unsupported=")["unsupported"] == ""


@pytest.mark.parametrize("text", ["assignments=[0 1 2]", "assignments=[0,1,2]", "[0 1 2]"])
def test_assignments_hold_blanks(text: str) -> None:
    assert server("OK " + text)["assignments"] == [0, 1, 2]


def test_json_extends_to_the_end_of_an_ok_reply() -> None:
    assert server('OK brokers=[{"id": "a", "addr": "x y"}]')["brokers"] == [{"id": "a", "addr": "x y"}]
    assert server("OK snapshot=null")["snapshot"] is None


def test_okay_is_not_ok() -> None:
    assert read(framed("OKAY"), "server").type == "Text"


def test_errors_are_quoted_as_in_go() -> None:
    shown = server('ERROR: decode_failed reason="a \\"b\\" = c\\n\\u00e9" bare')
    assert (shown["reason"], shown["details"]) == ('a "b" = c\né', ["bare"])
    assert server("ERROR no_colon")["error_code"] == "no_colon"


def test_classes_of_errors_that_are_not_negotiated() -> None:
    for code, name, again in (
        ("NOT_LEADER", "routing", True),
        ("no_raft_leader", "availability", True),
        ("widget_not_found", "not_found", False),
        ("invalid_widget", "validation", False),
        ("widget_failed", "internal", False),
    ):
        shown = server(f"ERROR: {code}")
        assert (shown["error_class"], shown["retryable"]) == (name, again)
    assert server("ERROR: x class=routing retryable=true")["error_class"] == "routing"


def test_describe_is_printed_over_several_lines() -> None:
    frame = read(framed('{\n  "status": "OK",\n  "topic": "t",\n  "partitions": [],\n  "policy": {}\n}'), "server")
    assert (frame.type, record(frame)["partitions"]) == ("TopicMetadata", [])


def test_invalid_json_is_text() -> None:
    assert read(framed('{"status":'), "server").type == "Text"


def test_a_broker_that_echoes_a_token() -> None:
    frame = read(raw_of("V65"), "server")
    assert "token-echoed" in codes(frame)
    assert b"s3cret" not in orjson.dumps(frame.layers)


# Batches.


def batch(**fields: Any) -> bytes:
    return bytes(Batch(**{"topic": "t", "messages": [MESSAGE(seq=1, producer_id="p", data=b"x")], **fields}))


def test_a_batch_that_fits_two_layouts_is_read_as_the_older_one() -> None:
    trap = raw_of("V31")
    assert read(trap, "client").dialect == "seed"
    assert codes(read(trap, "client")) == ["ambiguous-layout"]
    assert read(trap, "client", forced="cur").dialect == "cur"


def test_the_user_can_force_a_dialect_for_a_port() -> None:
    said = {9000: DecodeAs(Cursus(), "cur")}
    run = talk((C, raw_of("V31")), decode_as=said)
    assert [frame.dialect for frame in run.frames] == ["cur"]
    run = talk((C, raw_of("V31")))
    assert [frame.dialect for frame in run.frames] == ["seed"]


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_batch_that_ends_too_early(cut: int) -> None:
    raw = batch()
    frame = read(framed(raw[4:-cut]), "client")
    assert (frame.type, frame.status) == ("Batch", "malformed")


def test_a_batch_with_bytes_left_over() -> None:
    frame = read(framed(batch()[4:] + b"?"), "client")
    assert frame.status == "malformed"
    assert "surplus-bytes" in codes(frame)


def test_more_messages_announced_than_a_broker_takes() -> None:
    raw = bytearray(batch(messages=[]))
    raw[-4:] = struct.pack(">I", 100_001)
    assert read(bytes(raw), "client").status == "malformed"


def test_odd_acks() -> None:
    assert codes(read(batch(acks="two"), "client")) == ["acks"]


def test_a_marker_of_a_transaction_is_an_ordinary_message() -> None:
    marker = MESSAGE(seq=1, producer_id="txn-marker:orders:7:commit", data=b"__cursus_txn_control_marker__")
    frame = read(batch(messages=[marker]), "server")
    shown = record(frame)["messages"][0]
    assert (shown["transaction_marker"], shown["transactional_id"]) == ("commit", "orders:7")
    assert codes(frame) == ["transaction-marker"]


@pytest.mark.parametrize("layer", [Batch, SeedBatch])
def test_a_token_that_a_client_put_into_a_message(layer: Any) -> None:
    element = layer.fields_desc[-1].element.layer
    messages = [element(data=b"hello auth_token=s3cret"), element(data=b"plain")]
    frame = read(
        bytes(layer(topic="t", partition="10" if layer is SeedBatch else 10, messages=messages)), "server", AS_TEXT
    )
    assert [message["data"] for message in record(frame)["messages"]] == ["<redacted 23 bytes>", "plain"]
    assert codes(frame) == ["token-in-message"]


# Compression.


def test_a_snappy_block_that_begins_like_a_batch() -> None:
    inner = batch(messages=[MESSAGE(data=bytes(15_930 - 80))])[4:]
    inner = batch(messages=[MESSAGE(data=bytes(15_930 - 80 + 15_930 - len(inner)))])[4:]
    packed = bytes(cramjam.snappy.compress_raw(inner))
    assert packed[:2] == b"\xba\x7c"
    frame = read(framed(packed), "client")
    assert (frame.type, frame.generated, frame.status) == ("Batch", {}, "ok")
    assert list(frame.layers or ()) == ["cursus_compressed", "cursus"]


def test_zstd_is_named_and_opened() -> None:
    frame = read(framed(zstandard.compress(b"\0\0LIST")), "client")
    assert frame.layers is not None
    assert (frame.type, frame.layers["cursus_compressed"]["compression"]) == ("LIST", "zstd")


def test_replies_may_be_compressed_too() -> None:
    assert read(framed(gzip.compress(b"OK offset=3")), "server").type == "OK"


def test_compressed_content_that_is_compressed_is_not_opened() -> None:
    frame = read(framed(gzip.compress(gzip.compress(b"\0\0LIST"))), "client")
    assert (frame.type, codes(frame)) == ("Compressed", ["nested-compression"])


def test_decompression_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(17 * 1024 * 1024))
    stopped = evidence_body.inflate("gzip", bomb)
    assert (stopped.status, len(stopped.data)) == (Status.LIMIT, 16 * 1024 * 1024)
    monkeypatch.setattr(evidence_body.inflate, "__defaults__", (1024,))  # what is read of 16 MB takes seconds
    assert codes(read(framed(bomb), "client")) == ["decompressed-size"]


def test_damaged_compression() -> None:
    frame = read(framed(gzip.compress(b"\0\0LIST")[:-9]), "client")
    assert (frame.status, codes(frame)) == ("malformed", ["decompression"])


def test_a_compressed_token_is_not_shown() -> None:
    packed = gzip.compress(b"\0\0AUTH principal=a token=s3cret")
    frame = read(framed(packed), "client")
    assert frame.layers is not None
    assert frame.layers["cursus_compressed"]["data"] == f"<redacted {len(packed)} bytes>"
    assert frame.layers["cursus"]["token"] == "<redacted 6 bytes>"


# Conversations.

OK, ACK = framed("OK"), framed('{"status":"OK","last_offset":1}')
STREAM = cmd("STREAM topic=t partition=0 group=g")
PUSHED = bytes(Batch(topic="t"))
KEEP_ALIVE = framed(b"")


def test_pipelined_commands_are_answered_in_order() -> None:
    run = talk((C, cmd("LIST") + cmd("HELP") + batch()), (S, framed("OK count=0 topics=") + OK), (S, ACK))
    assert pairs(run) == [(4, 1), (5, 2), (6, 3)]
    assert [frame.generated.get("in_reply_to") for frame in run.frames[3:]] == ["LIST", "HELP", "Batch"]
    assert run.frames[0].response == 4


def test_length_and_body_in_segments_of_their_own() -> None:
    run = talk((C, cmd("LIST")), (S, OK[:4]), (S, OK[4:]))
    assert pairs(run) == [(2, 1)]
    assert len(run.frames[1].packets) == 2


def test_fire_and_forget_is_answered_after_all() -> None:
    run = talk((C, batch(acks="0")), (S, OK), (C, cmd("LIST")), (S, framed("OK count=0 topics=")))
    assert pairs(run) == [(2, 1), (4, 3)]


def test_read_stream_is_answered_by_two_frames() -> None:
    envelope = framed('{"status":"OK","topic":"t","key":"k","partition":0,"count":1}')
    run = talk((C, cmd("READ_STREAM topic=t key=k")), (S, envelope), (S, batch()), (C, cmd("LIST")), (S, OK))
    assert pairs(run) == [(2, 1), (3, 1), (5, 4)]
    assert run.frames[2].findings == ()


def test_read_stream_announces_another_number_of_messages() -> None:
    envelope = framed('{"status":"OK","topic":"t","key":"k","partition":0,"count":5}')
    run = talk((C, cmd("READ_STREAM topic=t key=k")), (S, envelope), (S, batch()))
    assert codes(run.frames[2]) == ["count"]


def test_no_batch_after_read_stream() -> None:
    envelope = framed('{"status":"OK","topic":"t","key":"k","partition":0,"count":1}')
    run = talk((C, cmd("READ_STREAM topic=t key=k")), (S, envelope), (S, KEEP_ALIVE), (C, cmd("LIST")), (S, OK))
    assert pairs(run) == [(2, 1), (3, 1), (5, 4)]


def test_one_frame_refuses_read_stream() -> None:
    refusal = framed('{"error":"topic_not_found topic=t","status":"ERROR"}')
    run = talk((C, cmd("READ_STREAM topic=t key=k")), (S, refusal), (C, cmd("LIST")), (S, OK))
    assert pairs(run) == [(2, 1), (4, 3)]
    assert record(run.frames[1])["error_code"] == "topic_not_found"


def test_a_stream_continues_until_closed() -> None:
    close = framed("STREAM_CONTROL type=CLOSE reason=replaced offset=15")
    run = talk((C, STREAM), (S, PUSHED), (S, KEEP_ALIVE), (S, PUSHED), (S, close))
    assert pairs(run) == [(2, 1), (3, 1), (4, 1), (5, 1)]
    assert [frame.latency_ns is not None for frame in run.frames] == [False, True, False, False, False]
    assert codes(run.frames[4]) == ["stream-closed"]


def test_end_of_stream_after_a_gap_is_no_refusal() -> None:
    close = framed("STREAM_CONTROL type=CLOSE reason=replaced offset=15")
    parts = [Part(1, side, data) for side, data in ((C, STREAM), (S, PUSHED), (S, close))]
    syn, *answered, asked, pushed, closed = craft(parts, every(1460), server_port=9000)
    run = dissect(batches([asked, *answered, syn, pushed, closed]), known=(Cursus(),))
    assert pairs(run) == [(2, None), (3, None)]
    assert run.frames[0].outcome != "refused"


def test_client_frames_on_a_stream_are_not_commands() -> None:
    run = talk((C, STREAM), (S, KEEP_ALIVE), (C, cmd("LIST")), (S, PUSHED))
    assert pairs(run) == [(2, 1), (4, 1)]
    assert codes(run.frames[2]) == ["not-read"]


def test_a_refused_stream_keeps_the_connection_state() -> None:
    run = talk((C, STREAM), (S, framed("ERROR: missing_group")), (C, cmd("LIST")), (S, OK))
    assert pairs(run) == [(2, 1), (4, 3)]


def test_an_empty_frame_that_answers_a_command() -> None:
    assert "empty-reply" in codes(talk((C, cmd("LIST")), (S, KEEP_ALIVE)).frames[1])


def test_an_unknown_control_frame() -> None:
    assert codes(read(framed("STREAM_CONTROL type=PAUSE"), "server")) == ["stream-control"]


def test_a_reply_without_captured_request_makes_later_pairs_uncertain() -> None:
    run = talk((C, cmd("LIST")), (S, OK), (S, ACK), (C, batch()), (C, cmd("HELP")), (S, OK))
    assert [frame.type for frame in run.frames] == ["LIST", "OK", "AckResponse", "Batch", "HELP", "OK"]
    assert pairs(run) == [(2, 1), (3, None), (6, None)]


def test_first_reply_lost_together_with_the_syn() -> None:
    made = Talk(server=("10.0.0.2", 9000))
    syn, _, ack = made.handshake()
    packets = [syn, ack, *made.send(0, cmd("LIST"))]
    made.send(1, OK)
    packets += [made.ack(0), *made.send(0, cmd("HELP")), *made.send(1, OK), made.ack(0)]
    assert pairs(dissect(batches(packets), known=(Cursus(),))) == [(3, None)]


def test_capture_ends_after_the_length_of_a_reply() -> None:
    run = talk((C, cmd("LIST")), (S, OK[:4]))
    assert [frame.status for frame in run.frames] == ["ok", "partial"]
    assert run.totals.closes


def test_the_broker_of_2025_answers_a_consume_with_one_frame_per_message() -> None:
    consume = framed(b"\0\6ordersCONSUME orders 0 0 g")
    assert pairs(talk((C, consume), (S, framed("hello")), (S, framed("world")))) == [(2, 1), (3, 1)]


def test_unanswered_publishes_of_the_2025_broker() -> None:
    silent, loud = framed(b"\0\6ordersPUBLISH:0:orders:a"), framed(b"\0\6ordersPUBLISH:1:orders:b")
    assert pairs(talk((C, cmd("LIST")), (S, OK), (C, silent), (C, loud), (S, OK))) == [(2, 1), (5, 4)]
    assert pairs(talk((C, cmd("LIST")), (S, OK), (C, silent), (S, framed("ERROR: malformed_input")))) == [
        (2, 1),
        (4, 3),
    ]


def test_a_connection_that_begins_with_nonsense_on_the_usual_port() -> None:
    for nonsense in (b"", b"x", b"\xff\xff\0", b"HELLO there"):
        run = talk((C, framed(nonsense)), (S, framed('ERROR: decode_failed reason="data too short"')))
        assert [frame.sender for frame in run.frames] == ["client", "server"], nonsense
        assert pairs(run) == [(2, 1)]
        assert run.totals.undecoded == 0


def test_mixed_plain_and_compressed_frames() -> None:
    packed = framed(gzip.compress(batch()[4:]))
    run = talk((C, cmd("LIST")), (S, OK), (C, packed), (S, framed('ERROR: decode_failed reason="data too short"')))
    assert pairs(run) == [(2, 1), (4, 3)]
    assert [frame.type for frame in run.frames] == ["LIST", "OK", "Batch", "ERROR"]


# Recognising, and finding the next frame.


@pytest.mark.parametrize("port", [9000, 40123])
@pytest.mark.parametrize("first", ["V01", "V04", "V19", "V26", "V35", "V38", "V39", "V40", "V42"])
def test_first_frame_identifies_the_protocol_on_any_port(first: str, port: int) -> None:
    for size in (1, 3, 1460):
        run = talk((C, raw_of(first)), port=port, size=size)
        assert [frame.status for frame in run.frames] == ["ok"], (first, size)
        assert run.totals.undecoded == 0


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(40),
        b"\x00\x00\x00\x20\x00\x00\x00\x09\x00\x00\x00\x01" + b"\x00\x06client" + bytes(20),
        b"\x00\x00\x00\x08\x04\xd2\x16\x2f" + bytes(8),
        b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00" * 4,
    ],
    ids=["TLS", "HTTP", "HTTP/2", "Kafka", "PostgreSQL", "FastCGI"],
)
def test_similar_protocols_are_not_claimed(data: bytes) -> None:
    for size in (1, 5, 1460):
        run = talk((C, data), port=9000, size=size)
        assert [frame.status for frame in run.frames if frame.status != "undecoded"] == []
        assert run.totals.undecoded == 0


def test_a_message_that_looks_like_a_frame_is_not_a_frame() -> None:
    trap = batch(messages=[MESSAGE(data=b'{"status":"shipped"}'), MESSAGE(data=b"OK")] * 3)
    tail = trap[60:] + batch() + cmd("LIST")
    found = Cursus().search(tail, final=True)
    assert (found.position, found.found) == (len(trap) - 60, True)


def test_search_result_does_not_depend_on_segmentation() -> None:
    data = b"ends here" + bytes(7) + batch()[50:] + framed("OK topic=t") + ACK + batch()
    whole = Cursus().search(data, final=False)
    assert whole.found
    base, held = 0, b""
    for index in range(len(data)):
        held += data[index : index + 1]
        found = Cursus().search(held, final=False)
        if found.found:
            assert base + found.position == whole.position
            return
        base, held = base + found.position, held[found.position :]
    raise AssertionError("never found")


def test_a_length_out_of_bounds() -> None:
    split = Cursus().split(cmd("LIST") + (MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
    assert split.ends == [10]
    assert split.bad is not None


def test_long_bodies_are_noted() -> None:
    frame = read(framed(b"\0\0PUBLISH topic=t message=" + bytes(16 * 1024 * 1024)), "client")
    assert "length" in codes(frame)


HOSTILE = {
    "candidates": b"\0\3\0\0OK",
    "commands": b"\0\3\0\0LIST ",
    "zeros": bytes(10),
    "envelopes": b"\0\0\0\xff\0\xf0" + b"A" * 200,
    "json": b'\0\3\0\0{"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_searching_hostile_bytes_is_linear(name: str) -> None:
    def search(count: int) -> Callable[[], None]:
        data = HOSTILE[name] * count

        def both() -> None:
            Cursus().search(data, final=True)
            Cursus().recognise(data, started=False, final=True, port=False)

        return both

    assert grows_with_length_only(search, 2_000 // len(HOSTILE[name]))


HOSTILE_BODIES: dict[str, Callable[[int], bytes]] = {
    "brackets": lambda count: b"OK assignments=" + b"[0 " * count,
    "quotes": lambda count: b"ERROR: x " + b'"' + b'\\"' * count,
    "blanks": lambda count: b"PUBLISH" + b" " * count + b"x",
    "tails": lambda count: b"PUBLISH " + b"message=" * count,
    "tokens": lambda count: b"PUBLISH message=" + b"token=a " * count,
    "nesting": lambda count: b"[" * count,
}


@pytest.mark.parametrize("name", HOSTILE_BODIES)
def test_reading_hostile_bodies_is_linear(name: str) -> None:
    def body(count: int) -> Callable[[], None]:
        raw = framed(HOSTILE_BODIES[name](count))

        def records() -> None:
            for sender in ("client", "server", None):
                orjson.dumps(read(raw, sender).layers)

        return records

    assert grows_with_length_only(body, 600)


def test_crafted_commands_pass_through_the_whole_stack() -> None:
    run = talk((C, bytes(command("CREATE", topic="t", partitions=2))), (S, OK), port=19000)
    assert record(run.frames[0])["partitions"] == 2


def test_a_truncated_discovery_command_is_not_auth() -> None:
    """The topic of the envelope decides; its reply is not paired with AUTH."""
    asked, reply = capture(Path(__file__).parent / "edges" / "cursus-discovery-snap96.pcap").frames
    assert (asked.type, asked.status, record(asked)["envelope_topic"]) == (None, "partial", "cluster")
    assert (reply.type, reply.request) == ("DiscoveryReply", asked.number)
    assert "in_reply_to" not in reply.generated


def test_a_late_start_leaves_the_outcome_of_the_first_request_open() -> None:
    """A command before the capture may have the first reply; so the first command is not unanswered."""
    said = ((S, OK), (C, cmd("LIST")), (S, OK), (C, cmd("LIST")), (S, OK), (C, cmd("LIST")))
    packets = craft([Part(1, *each) for each in said], every(1460), server_port=9000, handshake=False)
    frames = dissect(batches(packets), known=(Cursus(),)).frames
    assert [frame.outcome for frame in frames if frame.sender == "client"] == [None, "ok", "unanswered"]
