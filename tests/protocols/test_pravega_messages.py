"""Events of Pravega as rows: blocks with whole and split events, conditional appends, reads, the proposal."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.net.craft import batches
from tests.protocols.message_rows import Row, agree, column, expected, mutated, rows
from tests.protocols.test_pravega_surprises import HELLO, OPENING, PORT, SEGMENT, W, block, block_end, event
from tests.support import Part, craft, dissect, every
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega import layers
from wiredecode.protocols.pravega.layers import HEADER
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE
from wiredecode.protocols.pravega.layers_older import proposal
from wiredecode.protocols.pravega.protocol import Pravega

FOLDER = Path(__file__).parent.parent.parent / "captures" / "pravega"
CAPTURES = sorted(FOLDER.glob("*.pcap"))
LAST = (1 << 63) - 1


def said(frame: Frame) -> Iterator[Row]:
    """The events of a frame from its record."""
    record = (frame.layers or {}).get("pravega", {})
    operation = "deliver" if frame.type == "SegmentRead" else "publish"
    place = frame.number, operation, record.get("segment"), None, None
    if "data" in record.get("event", {}) and not frame.missing:
        body = bytes.fromhex(record["event"]["data"])
        yield Row(*place, known(record["expected_offset"]), known(record["event_number"]), None, None, body)
    whole = record.get("whole", {})
    alone = record if frame.type == "Event" and frame.dialect == "proposal" and not frame.missing else whole
    if alone is record or whole.get("type") == "Event":
        yield Row(*place, None, None, None, None, bytes.fromhex(alone["data"]))
    for each in record.get("events", ()):
        numbers = known(each.get("offset")), known(each.get("event_number"))
        yield Row(*place, *numbers, None, None, bytes.fromhex(each["data"]))


def known(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


def packets(*turns: tuple[int, bytes], size: int = 1460) -> list[bytes]:
    return craft([Part(1, side, data) for side, data in turns], every(size), server_port=PORT)


def talk(*turns: tuple[int, bytes]) -> list[Row]:
    """The event rows of a conversation, after asserting that they equal the records."""
    agree(packets(*turns), Pravega, said)
    return rows(batches(packets(*turns)), Pravega())


def appended(*data: bytes) -> list[Row]:
    return talk(*OPENING, *((0, each) for each in data))


def read(offset: int, data: bytes) -> bytes:
    return bytes(layers.SegmentRead(segment=SEGMENT, offset=offset, data=data, request_id=7))


def fetched(*reads: bytes) -> list[Row]:
    return talk((0, HELLO), (1, HELLO), *((1, each) for each in reads))


# Captures.


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_rows_of_a_capture_equal_its_records(path: Path) -> None:
    assert rows(open_capture([path]), Pravega()) == expected(open_capture([path]), Pravega(), said)


@pytest.mark.parametrize("name", ["append_basic", "read_cuts", "errors"])
def test_written_events_are_published(name: str) -> None:
    truth = json.loads((FOLDER / f"{name}.truth.json").read_text())
    claimed = Counter(
        (written["segment"], written["eventNumber"], written["payload"]["hex"])
        for connection in truth["connections"]
        for written in connection["written_by_application"]
        if written["kind"] == "event"
    )
    found = rows(open_capture([FOLDER / f"{name}.pcap"]), Pravega())
    published = (row for row in found if row.operation == "publish")
    assert not claimed - Counter((row.topic, row.sequence, (row.body or b"").hex()) for row in published)


@pytest.mark.parametrize("name", ["append_basic", "midstream", "read_cuts", "seed_dialect"])
def test_damaged_frames_give_their_whole_events(name: str) -> None:
    run = dissect(open_capture([FOLDER / f"{name}.pcap"]), known=(Pravega(),))
    assert sum(agree(mutated(run, seed, 8, PORT), Pravega, said) for seed in range(8)) > 0
    assert agree(mutated(run, 1, 0, PORT), Pravega, said, snaplen=150) > 0


# Appends.


def test_the_events_of_a_block() -> None:
    data = event(b"a") + event(b"") + event(b"c")
    assert appended(block(data), block_end(len(data), count=3, last=9)) == [
        Row(6, "publish", SEGMENT, None, None, None, 7, None, None, b"a"),
        Row(6, "publish", SEGMENT, None, None, None, 8, None, None, b""),
        Row(6, "publish", SEGMENT, None, None, None, 9, None, None, b"c"),
    ]


def test_an_event_split_by_the_end_of_its_block() -> None:
    first, second = event(b"a" * 40), event(b"b" * 100)
    data = first + HEADER.pack(-2, 60) + second[:60]
    found = appended(block(data), block_end(len(first), second[60:], count=2, last=2))
    assert [(row.sequence, row.body) for row in found] == [(1, b"a" * 40), (2, b"b" * 100)]


def test_no_event_numbers_if_the_count_differs() -> None:
    data = event(b"a") + event(b"b")
    assert column(appended(block(data), block_end(len(data), count=3, last=9)), "sequence") == [None, None]


@pytest.mark.parametrize(("last", "wanted"), [(LAST, [LAST - 1, LAST]), (0, [None, None]), (NO_VALUE, [None, None])])
def test_event_numbers_at_the_ends_of_their_range(last: int, wanted: list[int | None]) -> None:
    data = event(b"a") + event(b"b")
    sent = packets(*OPENING, (0, block(data)), (0, block_end(len(data), count=2, last=last)))
    assert column(rows(batches(sent), Pravega()), "sequence") == wanted
    records = [frame.layers for frame in dissect(batches(sent), known=(Pravega(),)).frames]
    assert orjson.dumps(records)  # which takes no integers of more than 64 bits


def test_bytes_without_event_headers_are_no_messages() -> None:
    assert appended(block(b"just bytes of a stream"), block_end(22)) == []


def test_conditional_append_has_an_offset() -> None:
    append = layers.ConditionalAppend(
        writer_id=W, event_number=4, expected_offset=500, event=layers.FramedEvent(data=b"x"), request_id=7
    )
    assert appended(bytes(append)) == [Row(5, "publish", SEGMENT, None, None, 500, 4, None, None, b"x")]


def test_an_event_in_two_conditional_blocks() -> None:
    def put(number: int, offset: int, data: bytes) -> bytes:
        fields = {"event_number": number, "expected_offset": offset, "data": data}
        return bytes(layers.ConditionalBlockEnd(writer_id=W, request_id=7, **fields))

    data = event(b"a" * 30) + event(b"b" * 30)
    found = appended(put(1, 0, data[:50]), put(2, 50, data[50:]))
    assert [(row.frame, row.offset, row.body) for row in found] == [(5, 0, b"a" * 30), (6, 38, b"b" * 30)]


def test_a_gap_in_the_middle_of_a_block() -> None:
    bodies = [bytes([65 + index]) * 300 for index in range(12)]
    data = b"".join(map(event, bodies))
    sent = packets(*OPENING, (0, block(data)), (0, block_end(len(data), count=12, last=12)), size=1000)
    first = next(index for index, packet in enumerate(sent) if event(bodies[1]) in packet)
    del sent[first + 1]
    source = list(batches(sent))
    found = rows(source, Pravega())
    assert found == expected(source, Pravega(), said)
    assert column(found, "body") == bodies[:3]
    assert {(row.frame, row.sequence) for row in found} == {
        (6, None)
    }  # attributed to the block's end, as for a whole block
    _, ended = dissect(source, known=(Pravega(),)).frames[-2:]
    assert "event_count" not in ended.layers["pravega"]  # the count is not known


# Reads.


def test_events_split_over_reads_have_offsets() -> None:
    data = event(b"first") + event(b"second") + event(b"third")
    found = fetched(read(100, data[:20]), read(120, data[20:]))
    assert [(row.operation, row.topic, row.offset, row.body) for row in found] == [
        ("deliver", SEGMENT, 100, b"first"),
        ("deliver", SEGMENT, 113, b"second"),
        ("deliver", SEGMENT, 127, b"third"),
    ]


def test_bytes_read_twice_give_one_message() -> None:
    data = event(b"first") + event(b"second")
    assert column(fetched(read(0, data[:20]), read(5, data[5:])), "body") == [b"first", b"second"]


@pytest.mark.parametrize("offset", [LAST, -5])
def test_impossible_offsets_are_null(offset: int) -> None:
    data = event(b"a")
    raw = read(0, data).replace(struct.pack(">q", 0) + b"\0\0", struct.pack(">q", offset) + b"\0\0", 1)
    found = rows(batches(packets((0, HELLO), (1, HELLO), (1, raw))), Pravega())
    assert [(row.offset, row.body) for row in found] == [(None, b"a")]


# The proposal.


def test_events_of_the_proposal() -> None:
    made = {layer.type_name: layer for layer in proposal("proposal").values()}

    def say(name: str, **fields: Any) -> bytes:
        return bytes(made[name](**fields))

    whole = say("Event", data=b"in parts")
    found = talk(
        (0, say("SetupAppend", connection_id=W, segment="scope/s/0")),
        (1, say("AppendSetup", segment="scope/s/0", connection_id=W, connection_offset_ack_level=0)),
        (0, say("BeginAppendBlock", connection_id=W, connection_offset=0, length_before_end=0)),
        (0, say("Event", data=b"alone")),
        (0, say("PartialMessage", part=0, data=whole[:9]) + say("PartialMessage", part=2, data=whole[9:])),
        (1, say("SegmentRead", segment="scope/s/0", offset=0, flags=0, data=event(b"read") + b"\0")),
    )
    assert column(found, "body") == [b"alone", b"in parts", b"read"]
    assert column(found, "operation") == ["publish", "publish", "deliver"]
