"""Kafka at its edges: late starts, SASL, versions, formats and codecs of records, damage."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests import damage
from tests.effort import calls
from tests.protocols.test_kafka_parity import CAPTURE, DIALOGUE, request, response
from tests.trace.test_trace import messages_of
from tests.view.frames import write
from wiredecode.api import read
from wiredecode.budget import CAREFUL_BYTES, FRAME_BYTES
from wiredecode.capture import open_capture
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import PARTIAL
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.protocols.base import Undecided
from wiredecode.protocols.kafka.layers import layer_of, read_batches, versions
from wiredecode.protocols.kafka.layers_records import COUNT_BYTES, Batch, Header, Message, Record, Records
from wiredecode.protocols.kafka.layers_table import MESSAGES, REQUESTS, RESPONSES, STATES
from wiredecode.protocols.kafka.protocol import Kafka
from wiredecode.testing import Part, batches, build, craft, dissect, every, readers_agree, samples
from wiredecode.testing.dissection import Result
from wiredecode.trace import Criteria


def run(*parts: Part, port: int = 9092, **options: Any) -> Result:
    return dissect(batches(craft(list(parts), every(1460), port)), known=(Kafka(),), **options)


def types(result: Result) -> list[str | None]:
    return [frame.type for frame in result.frames]


def test_the_table_has_all_apis_and_their_versions() -> None:
    assert len(REQUESTS) == len(RESPONSES) == 93
    assert set(REQUESTS) == set(RESPONSES)
    for key, message in REQUESTS.items():
        assert message.versions == RESPONSES[key].versions, message.name
    assert MESSAGES["FetchRequest"].versions == (0, 18)
    assert sum(len(versions(name).layers()) for name in MESSAGES if name.endswith(("Request", "Response"))) == 468
    assert {len(versions(f"{name}{part}").layers()) for _, name in STATES for part in ("Key", "Value")} == {1, 2, 4, 5}


def test_a_late_start_at_a_request_with_the_surplus_bytes_of_old_librdkafka() -> None:
    surplus = CAPTURE.parents[1] / "reports/kafka-apiversions-surplus-late.pcap"
    assert [frame.type for frame in read(surplus)] == ["ApiVersionsRequest"]


def test_requests_on_any_port_give_types_to_later_responses() -> None:
    assert types(run(*DIALOGUE, port=7777)) == [
        *("ApiVersionsRequest", "ApiVersionsResponse", "MetadataRequest", "MetadataResponse"),
        *("HeartbeatRequest", "HeartbeatRequest", "HeartbeatResponse", "HeartbeatResponse"),
    ]


def late(parts: list[Part], first: int) -> list[bytes]:
    """Packets of a connection whose start was not captured."""
    packets = craft(parts, every(1460), 9092)
    return [packet for packet in packets if len(packet) > 60][first:]


@pytest.mark.parametrize("first", range(1, 8))
def test_a_late_start_loses_no_byte_and_types_paired_responses(first: int) -> None:
    result = dissect(batches(late(DIALOGUE, first)), known=(Kafka(),))
    whole = run(*DIALOGUE)
    assert result.totals.undecoded == 0
    assert len(result.frames) == len(whole.frames) - first
    for one, two in zip(result.frames, whole.frames[first:], strict=True):
        answers_earlier = two.request is not None and two.request <= first
        assert one.type == ("Response" if answers_earlier else two.type)


@pytest.mark.parametrize("size", [1460, 30])
def test_responses_of_a_client_that_counts_from_0_are_found_without_its_requests(size: int) -> None:
    parts = [response("Heartbeat", 4, 0, error=27), *(response("Metadata", 12, each) for each in (1, 2, 3))]
    result = dissect(batches(craft(parts, every(size), 9092)), known=(Kafka(),))
    assert [frame.values["correlation_id"] for frame in result.frames] == [0, 1, 2, 3]
    assert result.totals.undecoded == 0


def test_a_first_response_that_is_long_and_contains_others_is_one_frame() -> None:
    inside = b"".join(struct.pack(">ii", 12, 0x010203 + each) + b"12345678" for each in range(20_000))
    parts = [Part(1, 1, struct.pack(">ii", 4 + len(inside), 0) + inside), response("Heartbeat", 4, 1)]
    result = dissect(batches(craft(parts, every(1460), 9092)), known=(Kafka(),))
    assert [frame.length for frame in result.frames] == [8 + len(inside), len(parts[1].data)]


def test_a_request_among_the_records_of_a_late_start_makes_the_broker_no_client() -> None:
    """The middle of a response holds the bytes of a request: messages may be anything."""
    asked = bytes(DIALOGUE[0].data)
    records = bytes(range(1, 200)) + asked + asked + bytes(range(1, 90))
    parts = [Part(DIALOGUE[0].connection, 1, records), *DIALOGUE]
    frames = dissect(batches(craft(parts, every(1460), 9092, handshake=False)), known=(Kafka(),)).frames
    assert {frame.destination for frame in frames if frame.sender == "client"} == {"10.0.0.2:9092"}


def small_integers(count: int) -> bytes:
    chance = random.Random(3)
    return struct.pack(f">{count}H", *(chance.choice([0, 0, 0, 1, 1, 2, 3, 8, 12, 17, 23]) for _ in range(count)))


UNCERTAIN = b"".join(struct.pack(">ii16x", 20, number) for number in (1, 2, 3))
"""Responses, which are no proof on another port."""


@pytest.mark.parametrize(
    "front", [b"", struct.pack(">iiii", 4, 1, 200_000, 2), UNCERTAIN], ids=["nothing", "waits", "uncertain"]
)
def test_search_is_linear_in_tiny_segments(front: bytes) -> None:
    """Tables of small integers look like headers; a start may need more bytes, or be found in every segment."""

    def identify(data: bytes) -> None:
        start = 0
        for end in range(500, len(data), 500):
            verdict = Kafka().recognise(data[start:end], started=False, final=False, port=False)
            assert isinstance(verdict, Undecided)
            start += verdict.position

    identify(front + small_integers(2_000))  # what is compiled at first use
    small, large = (calls(lambda size=size: identify(front + small_integers(size))) for size in (4_000, 32_000))
    assert large < 10 * small


def test_produce_with_acks_0_expects_no_response() -> None:
    frames = run(request("Produce", 9, 1, acks=0), request("Heartbeat", 4, 2), response("Heartbeat", 4, 2)).frames
    assert [frame.expects_response for frame in frames] == [False, True, False]


def test_unsupported_version_is_answered_in_version_0() -> None:
    sent = request("ApiVersions", 4, 1, client_software_name="a", client_software_version="1")
    answer = layer_of("ApiVersionsResponse", 0)(correlation_id=1, error=35)
    (_, frame) = run(sent, Part(1, 1, bytes(answer))).frames
    assert frame.values["error"] == 35
    assert [finding.message for finding in frame.findings] == ["the request was refused: UNSUPPORTED_VERSION"]


def test_unknown_versions_show_the_header_and_hide_the_rest() -> None:
    raw = bytearray(request("Heartbeat", 4, 5, group_id="secret-group").data)
    raw[6:8] = struct.pack(">h", 6)
    frame = run(Part(1, 0, bytes(raw)), request("Heartbeat", 4, 6)).frames[0]
    assert frame.type == "HeartbeatRequest"
    assert frame.layers is not None
    assert frame.layers["kafka"]["undecided"].startswith("<redacted")
    assert [finding.code for finding in frame.findings] == ["unknown-version"]


def test_tokens_of_sasl_are_hidden_with_and_without_a_header() -> None:
    token = b"\0alice\0alice-secret"
    plain = [
        request("SaslHandshake", 0, 1, mechanism="PLAIN"),
        response("SaslHandshake", 0, 1, mechanisms=["PLAIN"]),
        Part(1, 0, struct.pack(">i", len(token)) + token),
        Part(1, 1, b"\0\0\0\0"),
        request("Metadata", 4, 2, topics=None),
        response("Metadata", 4, 2),
    ]
    new = [request("SaslAuthenticate", 2, 1, auth_bytes=token), response("SaslAuthenticate", 2, 1, auth_bytes=token)]
    for parts in (plain, new):
        frames = run(*parts).frames
        shown = str([frame.layers for frame in frames])
        assert "alice" not in shown and token.hex() not in shown and b"alice".hex() not in shown
    assert types(run(*plain))[2:] == ["SaslToken", "SaslToken", "MetadataRequest", "MetadataResponse"]


# Records.

RECORDS = [
    Record(timestamp_delta=0, offset_delta=0, key=b"k", value=b"v", headers=[Header(key="h", value=None)]),
    Record(timestamp_delta=5, offset_delta=1, key=None, value=None, headers=[]),
]
EXPECTED = [(40, "2023-11-14T22:13:20.000Z", "6b", "76"), (41, "2023-11-14T22:13:20.005Z", None, None)]
TIME = 1_700_000_000_000


def batch(**more: Any) -> bytes:
    common = {"base_offset": 40, "base_timestamp": TIME, "max_timestamp": TIME + 5, "last_offset_delta": 1}
    return bytes(Batch(**common, **more))


def snappy_java(data: bytes) -> bytes:
    import cramjam

    block = bytes(cramjam.snappy.compress_raw(data))
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + struct.pack(">i", len(block)) + block


def compressed(codec: int, data: bytes) -> bytes:
    import cramjam
    import lz4.frame
    import zstandard

    pack = {
        1: gzip.compress,
        2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
        3: lz4.frame.compress,
        4: zstandard.ZstdCompressor().compress,
    }
    return bytes(pack[codec](data))


def shown(raw: bytes) -> list[tuple[Any, ...]]:
    record = read_batches(raw, Style(), {})
    records = [each for one in record["batches"] for each in one["records"]]
    return [(each["offset"], each["timestamp"], each["key"], each["value"]) for each in records]


def test_batches_of_every_codec_hold_the_same_records() -> None:
    contents = bytes(Records(records=RECORDS))[COUNT_BYTES:]
    assert shown(batch(records=RECORDS)) == EXPECTED
    for codec in (1, 2, 3, 4):
        raw = batch(compression=codec, record_count=2, compressed=compressed(codec, contents))
        assert shown(raw) == EXPECTED
    raw = batch(compression=2, record_count=2, compressed=snappy_java(contents))
    assert shown(raw) == EXPECTED
    assert read_batches(raw, Style(), {})["batches"][0]["crc_status"] == "good"


def test_log_append_time_is_the_time_of_the_batch() -> None:
    assert {row[1] for row in shown(batch(records=RECORDS, timestamp_type=1))} == {EXPECTED[1][1]}


def test_old_message_formats_plain_and_compressed() -> None:
    first = bytes(Message(base_offset=0, timestamp=TIME, key=b"k", value=b"v"))
    second = bytes(Message(base_offset=1, timestamp=TIME + 5, key=None, value=None))
    wrapper = Message(base_offset=41, timestamp=TIME + 5, compression=1, key=None, value=gzip.compress(first + second))
    assert shown(bytes(wrapper)) == EXPECTED
    assert shown(bytes(Message(magic=0, base_offset=7, key=b"k", value=b"v"))) == [(7, None, "6b", "76")]


def test_lz4_with_the_header_checksum_of_old_clients_is_read() -> None:
    import lz4.frame

    inner = bytes(Message(base_offset=7, timestamp=TIME, key=b"k", value=b"v"))
    frame = bytearray(lz4.frame.compress(inner, store_size=False, block_linked=False))
    frame[6] ^= 0xFF  # that of the flags alone: clients before 0.10 counted the magic number, too
    raw = bytes(Message(base_offset=7, timestamp=TIME, compression=3, key=None, value=bytes(frame)))
    assert shown(raw) == [(7, EXPECTED[0][1], "6b", "76")]


@pytest.mark.parametrize("layer", [Batch, Message, Records])
def test_all_readers_agree_on_records(layer: type[Layer]) -> None:
    found = samples(layer)
    assert found
    assert all(readers_agree(layer, raw) for raw in found)


@pytest.mark.parametrize("name", [name for _, name in STATES])
def test_all_readers_agree_on_coordinator_records(name: str) -> None:
    for part in ("Key", "Value"):
        for layer in versions(f"{name}{part}").layers():
            assert all(readers_agree(layer, raw) for raw in samples(layer))


def test_similar_keys_are_not_coordinator_records() -> None:
    keys = [bytes(4), bytes(8), b"\0\2\0\0", b"\0\1\0\1g", b"\0\0\0\3tx", b"\0\x63\0\1g", b"\0"]
    records = [Record(offset_delta=place, key=key, value=b"\0\1", headers=[]) for place, key in enumerate(keys)]
    (found,) = read_batches(batch(records=records), Style(), {})["batches"]
    assert [each["key"] for each in found["records"]] == [key.hex() for key in keys]
    assert not [each for each in found["records"] if "coordinator" in each]
    gone = Record(key=b"\0\2\0\1g", value=None, headers=[])  # a group that was deleted
    (found,) = read_batches(batch(records=[gone]), Style(), {})["batches"]
    assert found["records"][0]["coordinator"] == {
        "type": "GroupMetadata",
        "version": None,
        "key": {"group": "g"},
        "value": None,
    }


def test_records_before_the_damage_are_shown() -> None:
    raw = batch(records=RECORDS)
    (found,) = read_batches(raw[:-1] + b"\x09", Style(), {})["batches"]
    assert found["problem"] == "the records are damaged"
    assert [each["offset"] for each in found["records"]] == [40]


def test_truncated_batch_is_partial_and_damaged_batch_is_a_finding() -> None:
    raw = batch(records=RECORDS)
    record = read_batches(raw + raw[:30], Style(), {})
    assert (len(record["batches"]), record["partial_batch_bytes"]) == (1, 30)
    damaged = raw[:-1] + b"\x09"
    assert read_batches(damaged, Style(), {})["batches"][0]["crc_status"] == "bad"
    assert "batches_problem" in read_batches(b"\xff" * 80, Style(), {})
    bomb = batch(compression=1, record_count=9, compressed=compressed(1, b"\0" * 99))
    assert "problem" in read_batches(bomb, Style(), {})["batches"][0]


def produced(raw: bytes) -> Part:
    data = [{"topic": "orders", "partition_data": [{"index": 3, "batches": raw}]}]
    layer = layer_of("ProduceRequest", 9)
    values = {"api_version": 9, "correlation_id": 1, "client_id": "app-1", "acks": 1, "topic_data": data}
    return Part(1, 0, bytes(build(layer, values)))


def test_a_compressed_batch_that_ends_anywhere_in_its_last_record() -> None:
    plain = bytes(Records(records=[*reversed(RECORDS)]))[COUNT_BYTES:]
    for size in range(len(plain)):
        raw = batch(compression=1, record_count=2, compressed=compressed(1, plain[:size]))
        out = Messages()
        assert len(shown(raw)) <= 1
        assert "internal" not in {finding.code for finding in run(produced(raw), messages=out).frames[0].findings}
        assert out.count == len(shown(raw))


def test_a_wrong_checksum_is_a_finding() -> None:
    raw = batch(records=RECORDS)
    (frame,) = run(produced(raw)).frames
    assert frame.findings == ()
    (frame,) = run(produced(raw[:-1] + b"\x09")).frames
    assert [(finding.group, finding.code) for finding in frame.findings] == [("checksum", "crc")]


def to_two_partitions(*errors: int) -> list[bytes]:
    """Packets of a Produce to partitions 3 and 4, and of its response."""
    raw = batch(records=RECORDS)
    sent = [{"topic": "orders", "partition_data": [{"index": 3 + place, "batches": raw} for place in range(2)]}]
    asked = {"api_version": 8, "correlation_id": 7, "client_id": "app-1", "acks": 1, "topic_data": sent}
    answers = [{"index": 3 + place, "error": error} for place, error in enumerate(errors)]
    answer = {"correlation_id": 7, "responses": [{"topic": "orders", "partition_responses": answers}]}
    request, response = build(layer_of("ProduceRequest", 8), asked), build(layer_of("ProduceResponse", 8), answer)
    return craft([Part(1, 0, bytes(request)), Part(1, 1, bytes(response))], every(1460), 9092)


def test_a_produce_that_one_of_two_partitions_refused_is_confirmed_for_the_other(tmp_path: Path) -> None:
    capture = write(tmp_path / "two.pcap", to_two_partitions(0, 6))
    rows = wiredecode.stats(capture, tables=["confirms"])["confirms"].to_pylist()
    assert [(row["confirmed"], row["failed"], row["unknown"]) for row in rows] == [(2, 2, 0)]
    refused = "the request was refused: NOT_LEADER_OR_FOLLOWER"
    rows = wiredecode.read(capture, level="messages").table().to_pylist()
    assert [(row["partition"], row["outcome"], row["refusal"]) for row in rows] == [
        *[(3, "ok", None)] * 2,
        *[(4, "refused", refused)] * 2,
    ]
    assert [word_of(capture, message) for message in (0, 2)] == ["confirmed", "refused"]


def test_a_response_truncated_before_its_errors_confirms_no_message(tmp_path: Path) -> None:
    packets = to_two_partitions(0, 0)
    packets = [data[:-40] if b"orders" in data and b"app-1" not in data else data for data in packets]
    capture = write(tmp_path / "truncated.pcap", packets)
    rows = wiredecode.stats(capture, tables=["confirms"])["confirms"].to_pylist()
    assert [(row["confirmed"], row["failed"], row["unknown"]) for row in rows] == [(0, 0, 4)]
    assert word_of(capture, 0) == "answered"


def word_of(capture: Path, message: int) -> str:
    """How a trace calls the answer to a message of the first frame."""
    (traced,) = messages_of(capture, Criteria(frame=1, index=message))
    return traced.first.answers[0].word


def test_headers_that_carry_credentials_are_hidden_in_records_and_rows() -> None:
    headers = [Header(key="authorization", value=b"Bearer abcdef0123456789"), Header(key="trace", value=b"t-1")]
    part = produced(batch(records=[Record(key=None, value=b"v", headers=headers)]))
    out = Messages()
    result = run(part, messages=out)
    assert b"abcdef0123456789".hex() not in str(run(part).frames[0].layers)
    (rows,) = [each for each in out.parts if isinstance(each, FrameMessages)]
    assert rows.headers == [[("authorization", b"<redacted 23 bytes>"), ("trace", b"t-1")]]
    assert len(result.frames) == 1


def test_transaction_markers_are_not_messages() -> None:
    out = Messages()
    run(produced(batch(records=RECORDS, control=1)), messages=out)
    assert out.parts == []


def test_negative_offset_is_null_in_rows() -> None:
    raw = batch(records=RECORDS)
    partitions = [{"partition_index": 2, "batches": struct.pack(">q", -5) + raw[8:]}]
    topics = [{"topic": "orders", "partitions": partitions}]
    answer = build(layer_of("FetchResponse", 4), {"correlation_id": 1, "responses": topics})
    out = Messages()
    run(request("Fetch", 4, 1), Part(1, 1, bytes(answer)), messages=out)
    (part,) = [each for each in out.parts if isinstance(each, FrameMessages)]
    assert part.offsets == [None, None]


def test_null_array_differs_from_empty_array() -> None:
    for topics in (None, []):
        part = request("Metadata", 9, 1, topics=topics)
        layer = layer_of("MetadataRequest", 9)
        assert compiler.values(layer, part.data, 0, len(part.data))["topics"] == topics


def test_a_truncated_frame_says_that_more_topics_may_follow() -> None:
    packets = list(open_capture([CAPTURE]))
    whole = dissect(packets, known=(Kafka(),)).frames
    cut = dissect([damage.cut_packets(each, 96) for each in packets], known=(Kafka(),)).frames
    said = {frame.packets[0]: frame.generated.get("topics_named") for frame in whole}
    shorter = [frame for frame in cut if frame.status == PARTIAL and "topics_named" in frame.generated]
    assert len(shorter) > 10
    for frame in shorter:
        front, dots = frame.generated["topics_named"][:-4], frame.generated["topics_named"][-4:]
        assert dots == " ..."
        assert (said[frame.packets[0]] or "").startswith(front) or "-" in front


def test_assignments_of_consumer_groups_are_decoded() -> None:
    (frame, *_) = [each for each in read(CAPTURE.parent / "groups.pcap.zst") if each.type == "SyncGroupRequest"]
    assert frame.layers is not None
    (assigned,) = frame.layers["kafka"]["assignments"]
    assert assigned["assignment"]["assigned_partitions"] == [{"topic": "orders", "partitions": [0, 1, 2]}]
    for other in (b"", b"\0\1\0\0\0\3url", b"\0\3" + bytes(12) + b"rest", b"\xff" * 40):
        layer = layer_of("SyncGroupRequest", 3)
        values: dict[str, Any] = {
            "api_version": 3,
            "correlation_id": 1,
            "client_id": "app-1",
            "group_id": "connect",
            "member_id": "m",
        }
        values["assignments"] = [{"member_id": "m", "assignment": other}]
        (frame,) = run(Part(1, 0, bytes(build(layer, values)))).frames
        assert frame.layers is not None
        assert frame.layers["kafka"]["assignments"] == [{"member_id": "m", "assignment": other.hex()}]


@pytest.mark.parametrize(("size", "found"), [(300, True), (16_000_000, False)], ids=["a request", "16 MB"])
def test_a_truncated_request_between_gaps_is_believed_by_its_header_unless_it_is_huge(size: int, found: bool) -> None:
    header = struct.pack(">ihhih", size, 0, 9, 7, 8) + b"producer" + bytes(4)
    assert Kafka().search(header, final=True).found is found


def test_a_response_that_fills_the_bytes_between_gaps_is_believed() -> None:
    assert Kafka().search(struct.pack(">ii", 20, 7) + bytes(16), final=True).found
    assert not Kafka().search(struct.pack(">ii", 20, 7) + bytes(17), final=True).found


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_beyond_their_number_and_empty_ones_are_not_made(codec: int) -> None:
    contents = bytes(Records(records=RECORDS))[COUNT_BYTES:]
    (found,) = read_batches(
        batch(compression=codec, record_count=1, compressed=compressed(codec, contents)), Style(), {}
    )["batches"]
    assert len(found["records"]) == 1 and "after the last of 1 records" in found["problem"]
    for count in (10, 1_000_000):
        raw = batch(compression=codec, record_count=count, compressed=compressed(codec, bytes(700_000)))
        (found,) = read_batches(raw, Style(), {})["batches"]
        assert (found["records"], found["problem"]) == ([], "the records are damaged")


def test_tiny_records_stop_at_the_budget_of_their_frame() -> None:
    """All partitions of a frame share it, and what was read before is shown."""
    tiny = bytes(Record(key=None, value=None, headers=[]))
    raw = batch(compression=1, record_count=400_000, compressed=compressed(1, tiny * 400_000))
    data = [{"topic": "t", "partition_data": [{"index": index, "batches": raw} for index in range(20)]}]
    values = {"api_version": 9, "correlation_id": 1, "client_id": "a", "acks": 1, "topic_data": data}
    (frame,) = run(Part(1, 0, bytes(build(layer_of("ProduceRequest", 9), values)))).frames
    assert frame.layers is not None
    batches = [each["batches"][0] for each in frame.layers["kafka"]["topic_data"][0]["partition_data"]]
    assert 0 < sum(len(each["records"]) for each in batches) <= FRAME_BYTES // CAREFUL_BYTES
    assert all("in one frame" in each["problem"] for each in batches)
