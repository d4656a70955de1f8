"""Unexpected behaviour of Pravega on the wire, one test each."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.damage import cut_packets
from tests.net.craft import batches
from tests.protocols.test_pravega_vectors import TABLE
from tests.protocols.truth_pravega import fields
from tests.support import Part, Run, capture, careful_values, codes, craft, dissect, every
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.base import Rejected, Undecided, Verdict
from wiredecode.protocols.pravega import layers, messages
from wiredecode.protocols.pravega.layers import HEADER
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE
from wiredecode.protocols.pravega.layers_older import OLDER, proposal
from wiredecode.protocols.pravega.messages import MAX_EMPTY_RUN, SegmentReader, SegmentReaders, walk
from wiredecode.protocols.pravega.names import PROPOSALS
from wiredecode.protocols.pravega.protocol import Pravega
from wiredecode.protocols.registry import DecodeAs

PORT = 12345
EDGES = Path(__file__).parent / "edges"
W, X = bytes(range(16)), bytes(range(16, 32))
SEGMENT = "scope/stream/0.#epoch.0"
HELLO = bytes(layers.Hello(high_version=17, low_version=5))
SETUP = bytes(layers.SetupAppend(request_id=7, writer_id=W, segment=SEGMENT, delegation_token=""))
SET_UP = bytes(layers.AppendSetup(request_id=7, segment=SEGMENT, writer_id=W, last_event_number=NO_VALUE))
OPENING = [(0, HELLO + SETUP), (1, HELLO + SET_UP)]

Said = Iterable[tuple[int, bytes]]
"""(side, bytes) in order: the client is side 0, the server side 1."""


def talk(*said: tuple[int, bytes], known: Pravega | None = None, **options: Any) -> Run:
    parts = [Part(1, side, data) for side, data in said]
    port = options.pop("port", PORT)
    return dissect(batches(craft(parts, every(1460), server_port=port)), known=(known or Pravega(),), **options)


def appends(*said: bytes) -> Run:
    """Dissect frames that a client sends after it set up a writer."""
    return talk(*OPENING, *((0, data) for data in said))


def record(frame: Frame) -> dict[str, Any]:
    assert frame.layers is not None
    found: dict[str, Any] = frame.layers["pravega"]
    return found


def event(data: bytes) -> bytes:
    return HEADER.pack(0, len(data)) + data


def block(data: bytes, writer: bytes = W) -> bytes:
    return bytes(layers.AppendBlock(writer_id=writer, data=data))


def block_end(whole: int, data: bytes = b"", count: int = 1, last: int = 1, writer: bytes = W) -> bytes:
    return bytes(
        layers.AppendBlockEnd(
            writer_id=writer,
            size_of_whole_events=whole,
            data=data,
            num_events=count,
            last_event_number=last,
            request_id=7,
        )
    )


def read(offset: int, data: bytes, request_id: int = 9, segment: str = SEGMENT) -> tuple[tuple[int, bytes], ...]:
    asked = layers.ReadSegment(
        segment=segment, offset=offset, suggested_length=len(data), delegation_token="", request_id=request_id
    )
    reply = layers.SegmentRead(
        segment=segment, offset=offset, at_tail=0, end_of_segment=0, data=data, request_id=request_id
    )
    return (0, bytes(asked)), (1, bytes(reply))


def events_of(frame: Frame) -> list[bytes]:
    return [bytes.fromhex(found["data"]) for found in record(frame).get("events", [])]


# Framing


def test_an_unknown_type_is_one_frame() -> None:
    run = appends(bytes.fromhex("000003e700000003616263"), bytes(layers.KeepAlive()))
    unknown, after = run.frames[-2:]
    assert (unknown.code, unknown.type, unknown.length, codes(unknown)) == (999, None, 11, ["unknown-type"])
    assert after.type == "KeepAlive"


def test_a_string_longer_than_its_message() -> None:
    run = talk(*OPENING, (1, bytes.fromhex("0000001f0000000d00000000000000010020616263")))
    assert (run.frames[-1].type, run.frames[-1].status) == ("SegmentDeleted", "malformed")
    assert "field-cut" in codes(run.frames[-1])


def test_a_keepalive_with_bytes_that_are_ignored() -> None:
    frame = appends(bytes.fromhex("000000640000000378797a")).frames[-1]
    assert (frame.type, frame.status, codes(frame)) == ("KeepAlive", "ok", ["keepalive-data"])


def test_a_hello_with_trailing_bytes() -> None:
    run = talk((0, bytes.fromhex("ffffff81000000200000001100000005") + bytes(24)), (1, HELLO))
    assert (run.frames[0].status, codes(run.frames[0])) == ("ok", ["surplus-bytes"])
    assert run.frames[0].values["high_version"] == 17


def test_a_length_over_the_limit_costs_only_one_message() -> None:
    run = appends(bytes.fromhex("0000000301000000") + bytes(50) + SETUP, bytes(layers.KeepAlive()))
    assert [frame.type for frame in run.frames[-3:]] == [None, "SetupAppend", "KeepAlive"]
    assert run.totals.undecoded == 58
    assert "not-a-frame" in codes(run.frames[-3])


def test_data_longer_than_its_message() -> None:
    body = struct.pack(">H", 3) + b"s/0" + struct.pack(">qbbi", 0, 0, 0, 1000) + b"12345"
    frame = talk(*OPENING, (1, HEADER.pack(10, len(body)) + body)).frames[-1]
    assert (frame.type, frame.status) == ("SegmentRead", "malformed")


def test_a_header_at_the_end_of_the_capture() -> None:
    run = appends(b"\0\0\0\x64\0\0")
    assert "header-cut" in codes(run.frames[-1])
    assert run.totals.closes


def test_zero_filled_bytes_are_reported() -> None:
    run = appends(bytes(8 * 100))
    assert sum("empty-events" in codes(frame) for frame in run.frames) == 1


# Blocks


def test_a_message_inside_an_open_block() -> None:
    run = appends(block(event(b"a")), bytes(layers.KeepAlive()), block_end(9))
    assert codes(run.frames[-2]) == ["block-open"]
    assert events_of(run.frames[-1]) == [b"a"]


def test_a_block_that_is_never_ended() -> None:
    run = appends(block(event(b"a")), block(event(b"b")), block_end(9))
    assert codes(run.frames[-2]) == ["block-not-ended"]
    assert events_of(run.frames[-1]) == [b"b"]


@pytest.mark.parametrize(("data", "whole", "code"), [(bytes(11), 99, "block-size"), (bytes(14), 11, "block-tail")])
def test_a_block_with_inconsistent_sizes(data: bytes, whole: int, code: str) -> None:
    assert codes(appends(block(data), block_end(whole)).frames[-1]) == [code]


def test_append_without_a_block_as_the_rust_client_writes_it() -> None:
    frame = appends(block_end(13, event(b"hello"))).frames[-1]
    assert (codes(frame), events_of(frame)) == ([], [b"hello"])


def test_a_block_of_another_writer() -> None:
    assert "block-writer" in codes(appends(block(event(b"a"), X), block_end(9)).frames[-1])


def test_an_event_split_over_block_and_block_end() -> None:
    whole, cut = event(b"first"), event(b"second")
    data = whole + HEADER.pack(-2, 3) + cut[:3]
    frame = appends(block(data), block_end(len(whole), cut[3:], count=2, last=8)).frames[-1]
    assert record(frame)["events"] == [
        {"event_number": 7, "data": b"first".hex()},
        {"event_number": 8, "data": b"second".hex()},
    ]
    assert record(frame)["tail"] == "PartialEvent" and record(frame)["segment"] == SEGMENT


def test_bytes_without_event_headers_stay_bytes() -> None:
    frame = appends(block(b"just bytes"), block_end(10)).frames[-1]
    assert record(frame)["append"] == b"just bytes".hex()
    assert record(frame)["framed"] is False and "events" not in record(frame)


def test_an_empty_append() -> None:
    frame = appends(block(b""), block_end(0)).frames[-1]
    assert (codes(frame), record(frame)["append_length"], record(frame)["event_count"]) == ([], 0, 0)


def test_event_numbers_that_go_backwards() -> None:
    run = appends(block_end(9, event(b"a"), last=5), block_end(9, event(b"b"), last=4))
    assert codes(run.frames[-1]) == ["event-number"]


def test_a_block_without_events() -> None:
    assert codes(appends(block_end(9, event(b"a"), count=0)).frames[-1]) == ["event-count"]


def test_a_writer_that_was_not_set_up() -> None:
    assert codes(appends(block_end(9, event(b"a"), writer=X)).frames[-1]) == ["not-set-up"]


def test_a_writer_that_moves_to_another_segment() -> None:
    again = bytes(layers.SetupAppend(request_id=7, writer_id=W, segment="scope/other/1", delegation_token=""))
    run = appends(block_end(9, event(b"a")), again, block_end(9, event(b"b"), last=2))
    assert [record(frame)["segment"] for frame in run.of("AppendBlockEnd")] == [SEGMENT, "scope/other/1"]


def test_one_acknowledgement_for_several_blocks() -> None:
    acked = layers.DataAppended(
        writer_id=W, event_number=2, previous_event_number=0, request_id=7, current_segment_write_offset=18
    )
    ends = block_end(9, event(b"a"), last=1) + block_end(9, event(b"b"), last=2)
    run = talk(*OPENING, (0, ends), (1, bytes(acked)))
    assert run.frames[-1].request == run.frames[-3].number, "the oldest of them"
    assert record(run.frames[-1])["acknowledged_appends"] == 2


def appended(number: int, before: int, writer: bytes = W) -> tuple[int, bytes]:
    values = {"request_id": 7, "current_segment_write_offset": 18}
    return 1, bytes(layers.DataAppended(writer_id=writer, event_number=number, previous_event_number=before, **values))


def test_one_acknowledgement_for_several_blocks_of_a_writer_that_was_set_up_before_the_capture() -> None:
    ends = [block_end(9, event(data), last=number, writer=X) for number, data in ((9, b"a"), (11, b"b"), (12, b"c"))]
    run = talk(*((0, end) for end in ends), appended(12, 9, X))
    assert [frame.outcome for frame in run.of("AppendBlockEnd")] == ["unanswered", "ok", "ok"]
    assert len(run.frames[-1].confirmations) == 2


def test_number_of_acknowledged_appends_is_unknown_after_a_truncated_one() -> None:
    """Three appends of which the second was truncated by the snapshot length: 2 would be wrong."""
    ends = [block_end(9, event(data), last=number) for number, data in enumerate((b"a", bytes(300), b"c"), 1)]
    parts = [Part(1, side, data) for side, data in (*OPENING, *((0, end) for end in ends), appended(3, 0))]
    run = dissect([cut_packets(one, 200) for one in batches(craft(parts, every(9999)))], known=(Pravega(),))
    last = run.frames[-1]
    assert [frame.status for frame in run.of("AppendBlockEnd")] == ["ok", "partial", "ok"]
    assert last.type == "DataAppended" and "acknowledged_appends" not in record(last)
    assert len(last.confirmations) == 2


def test_a_refused_append_is_not_acknowledged() -> None:
    def conditional(number: int) -> tuple[int, bytes]:
        values = {"writer_id": W, "expected_offset": 0, "request_id": 7}
        return 0, bytes(layers.ConditionalAppend(event_number=number, event=layers.FramedEvent(data=b"a"), **values))

    refused = bytes(layers.ConditionalCheckFailed(writer_id=W, event_number=1, request_id=7))
    run = talk(*OPENING, conditional(1), conditional(2), conditional(3), (1, refused), appended(3, 0))
    asked = run.of("ConditionalAppend")
    assert [frame.outcome for frame in asked] == ["refused", "ok", "ok"]
    assert record(run.frames[-1])["acknowledged_appends"] == 2
    said = *OPENING, conditional(1), conditional(2), (1, refused), appended(2, 0)
    packets = craft([Part(1, side, data) for side, data in said], every(9999))
    lost = dissect(batches([packet for packet in packets if refused not in packet]), known=(Pravega(),))
    assert [one.request for one in lost.of("DataAppended")] == [lost.of("ConditionalAppend")[1].number]


def sealed(offset: int) -> tuple[int, bytes]:
    return 1, bytes(layers.SegmentIsSealed(request_id=7, segment=SEGMENT, server_stack_trace="", offset=offset))


def test_appends_in_flight_when_the_segment_was_sealed_are_refused() -> None:
    """Two appends wait at that time, one is sent afterwards; the server answers none."""
    first, second, third, last = ((0, block_end(9, event(b"a"), last=number)) for number in (1, 2, 3, 4))
    run = talk(*OPENING, first, second, third, appended(1, 0), sealed(2), last)
    sealing = run.of("SegmentIsSealed")[0].number
    assert [(frame.outcome, frame.response) for frame in run.of("AppendBlockEnd")] == [
        ("ok", run.of("DataAppended")[0].number),
        *[("refused", sealing)] * 3,
    ]


def test_a_writer_that_was_set_up_again_is_not_sealed() -> None:
    again = bytes(layers.SetupAppend(request_id=7, writer_id=W, segment="scope/other/1", delegation_token=""))
    ends = [(0, block_end(9, event(b"a"), last=number)) for number in (1, 2)]
    run = talk(*OPENING, ends[0], sealed(1), (0, again), ends[1], appended(2, 1))
    assert [frame.outcome for frame in run.of("AppendBlockEnd")] == ["refused", "ok"]


def test_a_large_event_in_slices() -> None:
    whole = event(bytes(range(100)))
    slices = [
        bytes(layers.ConditionalBlockEnd(writer_id=W, event_number=n, expected_offset=at, data=whole[at : at + 40]))
        for n, at in enumerate(range(0, len(whole), 40))
    ]
    run = appends(*slices)
    assert [events_of(frame) for frame in run.frames[-3:]] == [[], [], [bytes(range(100))]]


def test_a_block_truncated_by_the_end_of_the_capture_has_no_event_count() -> None:
    run = appends(block(event(b"first") + event(b"second"))[:-4])
    assert (run.frames[-1].status, events_of(run.frames[-1])) == ("partial", [])


# Reads


def test_events_split_over_read_replies() -> None:
    data = event(b"one") + event(b"two") + event(b"three")
    cuts = [0, 3, 12, 20, len(data)]
    said = [part for low, high in pairwise(cuts) for part in read(low, data[low:high])]
    run = talk(*OPENING, *said)
    found = [
        (item["offset"], item["data"]) for frame in run.of("SegmentRead") for item in record(frame).get("events", [])
    ]
    assert found == [(0, b"one".hex()), (11, b"two".hex()), (22, b"three".hex())]
    assert all(frame.request is not None for frame in run.of("SegmentRead"))


def test_readers_on_one_connection_do_not_mix() -> None:
    data = event(b"one") + event(b"two")
    run = talk(
        *OPENING, *read(0, data[:5], 1), *read(11, data[11:15], 2), *read(5, data[5:], 1), *read(15, data[15:], 2)
    )
    assert [events_of(frame) for frame in run.of("SegmentRead")] == [[], [], [b"one", b"two"], [b"two"]]


def test_a_read_from_inside_an_event_gives_no_events() -> None:
    data = event(b"12345678") + event(b"two")
    run = talk(*OPENING, *read(10, data[10:]))
    assert events_of(run.frames[-1]) == [] and not {"framed", "event_count"} & set(record(run.frames[-1]))


def test_a_segment_is_framed_if_its_front_holds_events() -> None:
    run = talk(*OPENING, *read(0, b"text that is no event"), *read(21, b", and more of it"))
    assert [(record(frame)["framed"], record(frame)["event_count"]) for frame in run.of("SegmentRead")] == [
        (False, 0),
        (False, 0),
    ]


@pytest.mark.parametrize("after", [b"", b"\0\0\0\0\x7f\xff", b"\1\2\3\4" * 9])
def test_zeros_inside_an_event_do_not_make_a_segment_unframed(after: bytes) -> None:
    run = talk(*OPENING, *read(50, bytes(8) + b"\1\2\3\4" * 9 + after), *read(60, event(b"x")))
    assert events_of(run.of("SegmentRead")[0]) == []
    assert not any("framed" in record(frame) for frame in run.of("SegmentRead"))


@pytest.mark.parametrize("cut", [4, 6, 8, 14, 20])
def test_zeros_inside_an_event_are_not_empty_events(cut: int) -> None:
    """A capture that starts inside an event whose data holds zeros, in one read or in several."""
    zeros = bytes(20)
    whole = (0, HELLO), (1, HELLO)
    run = talk(*whole, *read(106_496, zeros[:cut]), *(read(106_496 + cut, zeros[cut:]) if cut < 20 else ()))
    for frame in run.of("SegmentRead"):
        assert not {"events", "event_count", "unfinished_event_offset"} & set(record(frame))


def test_an_empty_event_after_another_event() -> None:
    run = talk(*OPENING, *read(50, event(b"one") + event(b"") + event(b"two")))
    assert events_of(run.frames[-1]) == [b"one", b"", b"two"]


def test_zeros_after_a_truncated_read_are_not_empty_events() -> None:
    for name in ("pravega-zeros-midconn", "pravega-zeros-snap200"):
        reads = [frame for frame in capture(EDGES / f"{name}.pcap").frames if frame.type == "SegmentRead"]
        assert not any("event_count" in frame.generated for frame in reads)


def test_bytes_after_a_gap_may_be_events() -> None:
    first, lost, last = event(b"first"), event(b"12345678"), event(b"two")
    run = talk(*OPENING, *read(0, first), *read(len(first) + 10, (lost + last)[10:]))
    reads = [record(frame) for frame in run.of("SegmentRead")]
    assert [one.get("event_count") for one in reads] == [1, None]
    assert codes(run.frames[-1]) == ["read-gap"] and "framed" not in reads[1]


def test_a_second_reply_to_one_read() -> None:
    asked, reply = read(0, event(b"one"))
    run = talk(*OPENING, asked, reply, read(11, event(b"two"))[1])
    first, second = run.of("SegmentRead")
    assert first.request == second.request == run.of("ReadSegment")[0].number


def test_a_refused_read_carries_an_offset_as_request_id() -> None:
    refused = layers.AuthTokenCheckFailed(request_id=4660, server_stack_trace="", error_code=0)
    run = talk(*OPENING, read(4660, b"")[0], (1, bytes(refused)))
    assert run.frames[-1].request == run.frames[-2].number
    assert codes(run.frames[-1]) == ["refused", "offset-as-id"]


def test_a_too_large_event_is_skipped() -> None:
    run, data = SegmentReader(), event(bytes(100)) + event(b"next")
    pieces = [run.feed(at, data[at : at + 30], room=50) for at in range(0, len(data), 30)]
    assert [piece.note for piece in pieces] == [None, "too-large", None, None]
    assert [piece.events.source[8:] for piece in pieces if piece.events] == [b"next"]


def test_unfinished_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_EVENT_BUFFER", 1000)
    monkeypatch.setattr(messages, "MAX_SEGMENTS", 10)
    runs = SegmentReaders()
    for number in range(100):
        runs.feed(number, 0, HEADER.pack(0, 10_000) + bytes(300))
        assert runs.buffered <= 1000 and len(runs.table) <= 10
    assert runs.buffered == sum(len(run.buffer) for run in runs.table.values())


def test_a_megabyte_of_zeros_is_not_a_million_events() -> None:
    assert len(walk(bytes(8_000_000)).bounds) == MAX_EMPTY_RUN
    assert not walk(bytes(8_000_000)).sound


# Replies


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (
            layers.MergeSegments(request_id=5, target="a", source="b", delegation_token=""),
            layers.SegmentAttributeUpdated(request_id=5, success=0),
        ),
        (
            layers.LocateOffset(request_id=5, segment="a", target_offset=1),
            layers.SegmentTruncated(request_id=5, segment="a"),
        ),
        (
            layers.ReadTableEntriesDelta(request_id=5, segment="a"),
            layers.TableEntriesDeltaRead(request_id=5, segment="a"),
        ),
        (layers.DeleteTableSegment(request_id=5, segment="a"), layers.SegmentDeleted(request_id=5, segment="a")),
        (layers.FlushToStorage(container_id=1, request_id=5), layers.StorageFlushed(request_id=5)),
        (layers.CreateSegment(request_id=5, segment="a"), layers.SegmentAlreadyExists(request_id=5, segment="a")),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_replies_with_unexpected_types(request_: Any, reply: Any) -> None:
    run = talk(*OPENING, (0, bytes(request_)), (1, bytes(reply)))
    assert run.frames[-1].request == run.frames[-2].number and run.frames[-2].response == run.frames[-1].number


def test_a_sealed_segment_answers_an_append_with_its_event_number() -> None:
    ends = block_end(9, event(b"a"), last=1) + block_end(9, event(b"b"), last=2)
    sealed = layers.SegmentIsSealed(request_id=7, segment=SEGMENT, server_stack_trace="", offset=2)
    run = talk(*OPENING, (0, ends), (1, bytes(sealed)))
    assert run.frames[-1].request == run.frames[-2].number


def test_the_old_form_of_invalid_event_number() -> None:
    raw = bytes.fromhex("000000370000001e00112233445566778899aabbccddeeff00000000000003ea000473747233")
    values = talk(*OPENING, (1, raw)).frames[-1].values
    assert values["event_number"] == 1002 and "request_id" not in values


def test_client_and_server_without_a_common_version() -> None:
    old = bytes(layers.Hello(high_version=4, low_version=1))
    run = talk((0, old), (1, HELLO))
    assert codes(run.frames[1]) == ["versions"] and run.frames[1].request == 1


def test_a_server_echoes_keepalives_only_since_version_11() -> None:
    alive = bytes(layers.KeepAlive())
    run = talk((0, HELLO), (1, HELLO), (0, alive), (1, alive))
    assert run.frames[-1].request == 3
    old = talk((0, HELLO), (1, bytes(layers.Hello(high_version=9, low_version=5))), (0, alive))
    assert not old.frames[-1].expects_response


def test_plain_utf8_as_the_rust_client_writes_it() -> None:
    raw = bytearray(bytes(layers.SegmentSealed(request_id=1, segment="abcd")))
    raw[-4:] = "😀".encode()
    frame = talk(*OPENING, (1, bytes(raw))).frames[-1]
    assert (record(frame)["segment"], codes(frame)) == ("😀", ["text", "no-request"])
    assert frame.status == "ok"


def test_tokens_are_hidden() -> None:
    token = "eyJhbGciOiJIUzUxMiJ9.SECRET.sig"
    setup = bytes(layers.SetupAppend(request_id=7, writer_id=W, segment=SEGMENT, delegation_token=token))
    hidden = talk((0, HELLO + setup)).frames[-1]
    assert record(hidden)["delegation_token"] == f"<redacted {len(token)} bytes>"
    shown = talk((0, HELLO + setup), style=Style(secrets=True)).frames[-1]
    assert record(shown)["delegation_token"] == token


def test_every_token_is_secret() -> None:
    from wiredecode.fields import plain

    found = 0
    for layer in Pravega().layers():
        for kind in map(plain, layer.fields_desc):
            if kind.name == "delegation_token":
                found += 1
                assert kind.secret
    assert found >= 25


# Old releases


def test_appends_of_2017_before_hello() -> None:
    setup = HEADER.pack(1, 33) + bytes(7) + b"\x07" + W + b"\0\x07scope/s"
    setup_reply = layers.AppendSetup(request_id=7, segment="scope/s", writer_id=W, last_event_number=NO_VALUE)
    whole, cut = event(b"one"), event(b"two")
    data = whole + HEADER.pack(-2, 4) + cut[:4]
    end = W + struct.pack(">qii", 3, len(whole), 7) + cut[4:]
    run = talk((0, setup), (1, bytes(setup_reply)), (0, block(data) + HEADER.pack(4, len(end)) + end))
    assert {frame.dialect for frame in run.frames} == {"wire"}
    assert events_of(run.frames[-1]) == [b"one", b"two"]
    assert run.frames[-1].values["last_event_number"] == 3


def test_messages_of_2016_have_different_codes() -> None:
    asked = struct.pack(">H", 7) + b"scope/s" + struct.pack(">qi", 0, 100)
    reply = struct.pack(">H", 7) + b"scope/s" + struct.pack(">qbbi", 0, 1, 0, 11) + event(b"one")
    run = talk((0, HEADER.pack(6, len(asked)) + asked), (1, HEADER.pack(7, len(reply)) + reply))
    assert [frame.type for frame in run.frames] == ["ReadSegment", "SegmentRead"]
    assert run.frames[1].request == 1 and events_of(run.frames[1]) == [b"one"]


@pytest.mark.parametrize("table", ["messages", "encoded", "older"])
def test_vectors_mean_the_same_after_any_message(table: str) -> None:
    """The layout is chosen by the bytes of each message, not by earlier messages."""
    vectors = [vector for vector in TABLE[table] if vector["name"] not in ("PartialEvent", "Padding", "Event", "Hello")]
    run = talk((0, HELLO), (1, HELLO), (0, b"".join(bytes.fromhex(vector["hex"]) for vector in vectors)))
    for vector, frame in zip(vectors, run.frames[2:], strict=True):
        assert (frame.type, frame.status) == (vector["name"], "ok")
        assert not list(fields(careful_values(frame), vector["fields"]))


def test_layouts_shared_by_both_dialects() -> None:
    early = bytes(OLDER[1][0](connection_id=W, segment="scope/s"))
    run = talk((0, early), (1, HEADER.pack(2, 33) + b"\0\x07scope/s" + W + bytes(8)))
    assert [frame.dialect for frame in run.frames] == [None, None]
    assert [codes(frame) for frame in run.frames] == [["dialect-undecided"]] * 2
    keys = [{"message_type_code", "message_length", "body"}] * 2
    assert [(frame.type, frame.request) for frame in run.frames] == [(None, None)] * 2
    assert [set(record(frame)) for frame in run.frames] == keys


def test_a_truncated_message_of_ambiguous_dialect_is_not_decoded() -> None:
    early = bytes(OLDER[1][0](connection_id=W, segment="scope/s"))
    protocol = Pravega()
    frame = talk((0, early[:-3]), known=protocol, decode_as={PORT: DecodeAs(protocol, None)}).frames[0]
    assert frame.type is None and "dialect-undecided" in codes(frame)
    assert set(record(frame)) == {"message_type_code", "message_length"}


@pytest.mark.parametrize("side", [0, 1])
def test_a_lone_read_on_the_port_is_read_as_wire(side: int) -> None:
    """Without data both dialects have a message like this."""
    frame = talk(read(193, b"")[side], port=6000).frames[0]
    assert (frame.type, frame.dialect) == (("ReadSegment", "SegmentRead")[side], None)
    assert (record(frame)["offset"], codes(frame)[0]) == (193, "dialect-undecided")


def test_a_reply_without_the_id_of_its_request() -> None:
    asked, reply = read(0, event(b"one"))
    run = talk(*OPENING, asked, (1, HEADER.pack(10, len(reply[1]) - 16) + reply[1][8:-8]))
    assert run.frames[-1].request == run.frames[-2].number


# The proposal


def proposed(dialect: str, name: str, **values: Any) -> bytes:
    code = next(code for code, called in PROPOSALS[dialect].items() if called == name)
    return bytes(proposal(dialect)[code](**values))


def say(name: str, **values: Any) -> bytes:
    return proposed("proposal", name, **values)


P_SETUP = [
    (0, say("SetupAppend", connection_id=W, segment="scope/s")),
    (1, say("AppendSetup", segment="scope/s", connection_id=W, connection_offset_ack_level=0)),
]


def begin(length: int, offset: int = 0) -> bytes:
    return say("BeginAppendBlock", connection_id=W, connection_offset=offset, length_before_end=length)


def end(length: int, offset: int) -> bytes:
    return say("EndAppendBlock", connection_id=W, connection_offset=offset, block_length=length)


def part(number: int, data: bytes) -> bytes:
    return say("PartialMessage", part=number, data=data)


def test_interleaved_messages_of_the_proposal() -> None:
    whole = event(b"whole")
    said = part(0, whole[:5]) + part(0, whole[:9]) + part(2, whole[9:])
    run = talk(*P_SETUP, (0, begin(50) + said))
    again, last = run.frames[-2:]
    assert codes(again) == ["parts-not-ended"]
    assert record(last)["whole"]["data"] == b"whole".hex()


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([(2, b"x")], "parts-not-begun"),
        ([(9, b"x")], "part"),
        ([(0, b"x"), (2, b"y")], "parts-sum"),
        ([(0, HEADER.pack(0, 5)), (2, b"1234")], "parts-sum"),
        ([(0, HEADER.pack(-2, 1)), (2, b"\0")], "parts-type"),
        ([(0, HEADER.pack(55, 1)), (2, b"\0")], "parts-type"),
    ],
)
def test_parts_that_do_not_form_a_message(parts: list[tuple[int, bytes]], code: str) -> None:
    run = talk(*P_SETUP, (0, begin(50) + event(b"x") + b"".join(part(*one) for one in parts)))
    assert code in codes(run.frames[-1])


def test_parts_counted_from_one() -> None:
    whole = event(b"whole")
    said = part(1, whole[:5]) + part(2, whole[5:7]) + part(3, whole[7:]) + part(1, whole[:8]) + part(3, whole[8:])
    run = talk(*P_SETUP, (0, begin(50) + event(b"x") + said))
    assert [record(frame)["whole"]["data"] for frame in run.frames if "whole" in record(frame)] == [b"whole".hex()] * 2


def test_inconsistent_blocks() -> None:
    run = talk(*P_SETUP, (0, begin(20) + event(b"one") + end(12, 13)))
    assert codes(run.frames[-1]) == ["block-distance", "block-length", "block-offset"]


def test_blocks_out_of_order() -> None:
    run = talk(
        *P_SETUP, (0, begin(11) + event(b"one") + end(11, 11) + event(b"two") + end(0, 11) + begin(0) + begin(0))
    )
    outside, ended, _, begun = run.frames[-4:]
    assert [codes(outside), codes(ended), codes(begun)] == [["event-outside"], ["block-not-begun"], ["block-not-ended"]]


def test_a_block_of_bytes_without_headers() -> None:
    raw = b"no headers in here, at all"
    run = talk(*P_SETUP, (0, begin(11) + event(b"one") + end(11, 11) + begin(len(raw), 11) + raw + end(26, 37)))
    assert run.totals.undecoded == len(raw)
    assert run.frames[-1].type == "EndAppendBlock" and "block-raw" in codes(run.frames[-1])


def test_a_block_inside_its_begin() -> None:
    inside = event(b"one") + event(b"two")
    first = begin(11) + event(b"one") + end(11, 11)
    whole = say("BeginAppendBlock", connection_id=W, connection_offset=11, length_before_end=22, block=inside)
    run = talk(*P_SETUP, (0, first + whole + end(22, 33)))
    assert events_of(run.frames[-2]) == [b"one", b"two"] and codes(run.frames[-1]) == []


@pytest.mark.parametrize(
    ("flags", "at_tail", "end_of_segment"),
    [(0, False, False), (0x80, True, False), (0x40, False, True), (1, True, False), (2, False, True), (3, True, True)],
)
def test_flag_bits_at_both_ends_of_the_byte(flags: int, at_tail: bool, end_of_segment: bool) -> None:
    reply = say("SegmentRead", segment="scope/s", offset=0, flags=flags, data=b"")
    run = talk(*P_SETUP, (0, begin(11) + event(b"one") + end(11, 11)), (1, reply))
    assert (record(run.frames[-1])["at_tail"], record(run.frames[-1])["end_of_segment"]) == (at_tail, end_of_segment)


def test_segment_read_in_the_released_form() -> None:
    raw = bytes(layers.SegmentRead(segment="scope/s", offset=0, at_tail=1, end_of_segment=0, data=event(b"one")))
    run = talk(*P_SETUP, (0, begin(11) + event(b"one") + end(11, 11)), (1, raw))
    assert run.frames[-1].dialect == "proposal"
    assert record(run.frames[-1])["at_tail"] is True and events_of(run.frames[-1]) == [b"one"]


@pytest.mark.parametrize("dialect", PROPOSALS)
def test_codes_of_the_proposal_are_inferred(dialect: str) -> None:
    def this(name: str, **values: Any) -> bytes:
        return proposed(dialect, name, **values)

    run = talk(
        *P_SETUP,
        (0, begin(11) + event(b"one") + end(11, 11)),
        (1, this("DataAppended", connection_id=W, connection_offset_ack_level=11)),
        (0, this("ReadSegment", segment="scope/s", offset=0, suggested_length=100)),
        (1, this("SegmentRead", segment="scope/s", offset=0, flags=0x80, data=event(b"one"))),
    )
    assert [frame.type for frame in run.frames[-3:]] == ["DataAppended", "ReadSegment", "SegmentRead"]
    assert run.frames[-1].dialect == dialect
    assert run.frames[-1].request == run.frames[-2].number and run.frames[-3].request == run.frames[-4].number
    assert events_of(run.frames[-1]) == [b"one"]


def test_an_ambiguous_block_of_28_bytes_is_resolved_by_the_next_message() -> None:
    """An AppendBlock of one event of 4 bytes is as long as a BeginAppendBlock."""
    shipped = [(0, HEADER.pack(1, 25) + W + b"\0\x07scope/s"), (0, block(event(b"four")) + block_end(12))]
    assert talk(*shipped).frames[-2].type == "AppendBlock"
    assert talk(*P_SETUP, (0, begin(11) + event(b"one") + end(11, 11))).frames[2].type == "BeginAppendBlock"


# Recognition


@pytest.mark.parametrize(
    ("data", "started", "port", "answer"),
    [
        (HELLO, True, False, Verdict),
        (HELLO[:9], True, False, Undecided),
        (bytes.fromhex("ffffff81000000080000000500000011"), True, False, Rejected),
        (SETUP, True, False, Verdict),
        (bytes(layers.KeepAlive()) * 5, True, False, Undecided),
        (bytes(64), True, True, Rejected),
        (b"GET / HTTP/1.1\r\n\r\n", True, True, Rejected),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", True, True, Rejected),
        (b"SSH-2.0-OpenSSH_9.2\r\n", True, True, Rejected),
        (bytes.fromhex("0000001c00110001") + bytes(24), True, False, Rejected),
        (event(b"x" * 30) * 3, True, True, Rejected),
        (b"tail of something" + SETUP, False, False, Verdict),
        (b"no such thing" * 20, False, False, Undecided),
    ],
)
def test_first_bytes_of_a_connection(data: bytes, started: bool, port: bool, answer: type) -> None:
    assert isinstance(Pravega().recognise(data, started=started, final=False, port=port), answer)


def test_a_segment_name_identifies_pravega() -> None:
    answer = Pravega().recognise(b"\0\0\0\x1c" + SETUP, started=False, final=False, port=False)
    assert isinstance(answer, Verdict) and (answer.position, answer.client, answer.dialect) == (4, True, "wire")


def test_search_result_does_not_depend_on_segmentation() -> None:
    protocol = Pravega()
    tail = event(b"payload" * 9) + HEADER.pack(-2, 3) + b"\0\0\0"
    data = tail + block_end(71, b"") + SETUP + bytes(layers.KeepAlive()) + SETUP
    found = protocol.search(data, final=True)
    assert found.found and found.position == len(tail)
    for cut in range(len(data)):
        answer = protocol.search(data[:cut], final=False)
        assert answer.position <= found.position
        assert not answer.found or answer.position == found.position


def test_split_returns_the_number_of_missing_bytes() -> None:
    protocol = Pravega()
    assert protocol.split(SETUP + HELLO[:9]).ends == [len(SETUP)]
    assert protocol.split(SETUP + HELLO[:9]).need == len(HELLO)
    assert protocol.split(HEADER.pack(9, 0xFFFFFFFF)).bad is not None
    assert protocol.split(b"\0" * 7).ends == []


def test_overtaking_reads_of_one_offset_get_their_own_replies() -> None:
    """Two reads wait at the tail, a third comes; the segment is sealed: three replies, in turn."""
    place = {"request_id": 0x0A0B0C0D, "segment": "s", "offset": 0x01020304}
    reads = [layers.ReadSegment(**place, suggested_length=0x100 + size, delegation_token="") for size in range(3)]
    sealed = layers.SegmentIsSealed(**place, server_stack_trace="")
    ended = layers.SegmentRead(**place, data=b"")
    replies = [(1, bytes(reply)) for reply in (sealed, sealed, ended)]
    frames = talk(*OPENING, *((0, bytes(each)) for each in reads), *replies).frames[4:]
    first = frames[0].number
    assert [frame.request for frame in frames[3:]] == [first, first + 1, first + 2]
    assert [frame.outcome for frame in frames[:3]] == ["refused", "refused", "ok"]
