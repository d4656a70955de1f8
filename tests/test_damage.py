"""Nothing is invented: frames and values of damaged captures equal those of the whole ones, or are missing.

Issue 12, points 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.damage import (
    CAPTURES,
    chosen,
    compare,
    cut_packets,
    damaged_captures,
    dissect,
    in_time,
    losses,
    read,
    size_of,
    small_captures,
    snaplens,
    starts,
    topic,
    whole_captures,
)
from wiredecode.testing import Talk, batches
from wiredecode.testing import dissect as dissected

LOSSY_BYTES = 60_000
"""Of captures up to this size packets are lost at random in the suite; of larger ones in the sweep."""
STARTED_PACKETS = 2000
"""Packets of a capture that are read in all, from one start or another."""


@pytest.mark.parametrize(("whole", "damaged"), damaged_captures(), ids=lambda path: path.name)
def test_a_damaged_capture_agrees_with_the_whole_one(whole: Path, damaged: Path) -> None:
    assert compare(dissect(read(whole)), dissect(read(damaged))).wrong == []


@pytest.mark.parametrize("capture", sampled(small_captures(), 12), ids=lambda path: path.name)
def test_truncation_changes_no_text_and_no_list(capture: Path) -> None:
    assert snaplens(capture, (79, 96, 113, 128)).wrong == []


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("cursus/consume.pcap", 70),
        ("cursus/seed-dialect.pcap", 84),
        ("pravega/errors.pcap", 121),
        ("rabbitmq-stream/c43_codecs_py.pcap", 123),
        ("rabbitmq-stream/c43_sac.pcap", 78),
    ],
    ids=["zeros in a batch", "a layout that is not known", "a writer set up anew", "a sub-batch", "a request's id"],
)
def test_truncated_frames_are_not_decoded_as_others(name: str, size: int) -> None:
    assert snaplens(CAPTURES / name, [size]).wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("capture", whole_captures(), ids=lambda path: path.name)
def test_truncation_at_every_length(capture: Path) -> None:
    assert snaplens(capture, range(70, 131) if capture in small_captures() else (79, 96, 128)).wrong == []


LOSSY = [path for path in small_captures() if size_of(path) <= LOSSY_BYTES]


@pytest.mark.parametrize(
    "capture",
    [
        *sampled([path for path in LOSSY if path.parent.name != "amqp091"], 12),
        *(path for path in LOSSY if path.parent.name == "amqp091" and path.stem in ("basic.pcap", "errors.pcap")),
    ],
    ids=lambda path: path.name,
)
def test_lost_packets_invent_nothing(capture: Path) -> None:
    """Neither frames nor values, nor links of responses."""
    assert losses(capture, [0]).wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("capture", small_captures(), ids=lambda path: path.name)
def test_repeatedly_lost_packets_invent_nothing(capture: Path) -> None:
    assert losses(capture, range(5)).wrong == []


@pytest.mark.parametrize(
    ("name", "turn"),
    [
        ("cursus/group.pcap", 3),
        ("cursus/stream.pcap", 2),
        ("liftbridge/34-lb-replication.pcap.zst", 0),
        ("pravega/append_basic.pcap", 1),
        ("pravega/errors.pcap", 2),
        ("pravega/errors.pcap", 4),
        ("pravega/read_cuts.pcap", 3),
    ],
    ids=[
        "replies in turn",
        "a reset after lost bytes",
        "notices of the same contents",
        "a gap to the end",
        "a refusal",
        "an id",
        "a read continues",
    ],
)
def test_lost_packets_link_no_response_to_another_request(name: str, turn: int) -> None:
    assert losses(CAPTURES / name, [turn]).wrong == []


@pytest.mark.parametrize("first", range(8))
def test_reordered_packets_change_no_frame(first: int) -> None:
    """Including the handshakes of TCP and TLS."""
    packets = read(CAPTURES / "rabbitmq-stream" / "c43_tls.pcap")
    order = [*range(first), first + 1, first, *range(first + 2, len(packets))]
    assert dissect(in_time(chosen(packets, order))).frames.keys() == dissect(packets).frames.keys()


@pytest.mark.parametrize("name", ["pravega/read_cuts.pcap", "rabbitmq-stream/c43_errors.pcap", "cursus/negotiate.pcap"])
def test_requests_come_before_their_responses_after_a_gap(name: str) -> None:
    """One packet of the client is lost: both sides wait for it, and are then numbered in the order of their times."""
    packets = read(CAPTURES / name)
    whole = dissect(packets)
    asked = [frame for frame in whole.frames.values() if frame.response and frame.sender == "client"]
    gone = sorted(asked, key=lambda frame: frame.number)[len(asked) // 3].packets[0] - 1
    damaged = dissect(chosen(packets, [place for place in range(len(packets)) if place != gone]))
    linked = [sum(frame.request is not None for frame in each.frames.values()) for each in (whole, damaged)]
    assert linked[1] >= linked[0] - 4, "near a loss no answer is tied to what may be another request"
    for frame in damaged.frames.values():
        assert frame.request is None or frame.request < frame.number


@pytest.mark.parametrize("capture", sampled(small_captures(), 12), ids=lambda path: path.name)
def test_a_late_start_invents_and_loses_no_frame(capture: Path) -> None:
    """Starts at up to 15 packets, at fewer in larger captures; the sweep takes more."""
    report = starts(capture, 15, most=STARTED_PACKETS)
    assert report.wrong == []
    assert not any(report.missed_after.values())


@pytest.mark.sweep
@pytest.mark.parametrize("capture", whole_captures(), ids=lambda path: path.name)
def test_a_late_start_at_every_packet(capture: Path) -> None:
    report = starts(capture, 30 if capture in small_captures() else 3)
    assert report.wrong == []
    assert not any(report.missed_after.values())


@pytest.mark.parametrize("first", [19, 20])
def test_a_response_without_its_bit_is_recognised_by_layout(first: int) -> None:
    packets = read(CAPTURES / "rabbitmq-stream" / "c310_partitions.pcap")
    assert compare(dissect(packets), dissect(packets.part(first - 1, len(packets))), first).wrong == []


CLIENT_PORT = 50_000
KAFKA_DESCRIBED = bytes.fromhex(
    "00000034 00000010 00000000 00000002 0004 6a6f6273 00000001 00000000"
    "0000 0006 6f7264657273 00000002 00000001 00000000 00000000"
)
"""A response whose size and correlation id are the header of Pravega's SegmentAlreadyExists, of a segment "jobs"."""


def test_one_message_of_pravega_before_none_is_not_believed_in_mid_stream() -> None:
    assert late(9292, [(1, KAFKA_DESCRIBED)]) == []
    assert late(9292, [(1, KAFKA_DESCRIBED[:24])]) == [("pravega", "SegmentAlreadyExists")]


def late(port: int, sides: Sequence[tuple[int, bytes]]) -> list[tuple[str, str | None]]:
    """Protocol and type of the frames of a connection whose beginning was not captured."""
    talk = Talk(client=("10.0.0.1", CLIENT_PORT), server=("10.0.0.2", port))
    found = dissected(batches([packet for side, data in sides for packet in talk.send(side, data)])).frames
    return [(frame.protocol, frame.type) for frame in found]


KEEPALIVE = bytes.fromhex("0000006400000000")
DATA_APPENDED = (7).to_bytes(4) + (40).to_bytes(4) + bytes(range(16)) + (0x01020304).to_bytes(8) + bytes(8) + bytes(8)


@pytest.mark.parametrize(
    ("port", "sides", "expected"),
    [
        (12345, [(0, KEEPALIVE), (1, KEEPALIVE)], [("pravega", "KeepAlive")] * 2),
        (12345, [(1, DATA_APPENDED), (0, KEEPALIVE)], [("pravega", "DataAppended"), ("pravega", "KeepAlive")]),
        (9000, [(1, bytes(4))], [("cursus", "KeepAlive")]),
        (9000, [(1, bytes(4))] * 3, [("cursus", "KeepAlive")] * 3),
    ],
    ids=["idle", "synchronizer", "one empty frame", "three empty frames"],
)
def test_bytes_that_parse_on_the_usual_port_are_that_protocol(
    port: int, sides: Sequence[tuple[int, bytes]], expected: list[tuple[str, str]]
) -> None:
    assert late(port, sides) == expected


@pytest.mark.parametrize("port", [4222, 41234])
@pytest.mark.parametrize("name", [b"HPUB a.b 12 15", b"HMSG a.b 7 12 15"])
def test_an_operation_without_its_first_letter_is_not_another_one(name: bytes, port: int) -> None:
    """HPUB without its H reads as PUB, with the size of its headers as reply subject."""
    whole = name + b"\r\nNATS/1.0\r\n\r\nabc\r\n"
    side = int(name.startswith(b"HMSG"))  # the server's
    assert late(port, [(side, whole[1:]), (side, whole), (side, whole)]) == [
        ("nats", kind) for kind in (None, *[name[:4].decode()] * 2)
    ]


def test_pravega_events_on_its_port_are_not_cursus() -> None:
    name = b"scope/stream/0.#epoch.0"
    events = b"".join(bytes(4) + (len(text)).to_bytes(4) + text for text in [b'{"order":%d}' % k for k in range(900)])
    body = len(name).to_bytes(2) + name + bytes(8) + b"\1\0" + len(events).to_bytes(4) + events + (0x0102).to_bytes(8)
    read_it = len(name).to_bytes(2) + name + bytes(8) + (0x20000).to_bytes(4) + bytes(2) + (0x0102).to_bytes(8)
    asked, reply = (
        b"".join([code.to_bytes(4), len(data).to_bytes(4), data]) for code, data in ((9, read_it), (10, body))
    )
    expected = [("pravega", "ReadSegment"), ("pravega", "SegmentRead")]
    assert late(6000, [(0, asked), (1, reply)]) == expected
    assert late(6000, [(1, reply), (0, asked)]) == expected[::-1]
    assert not {"cursus"} & {protocol for protocol, _ in late(7000, [(1, reply[60:])])}
    assert late(9000, [(1, events)]) == [], "on the port of Cursus, too: empty frames between texts are not its own"


@pytest.mark.parametrize(("name", "first"), [("produce", 228), ("produce", 230), ("consume", 28)])
def test_a_text_inside_an_undecodable_batch_is_no_frame(name: str, first: int) -> None:
    packets = read(CAPTURES / "cursus" / f"{name}.pcap")
    report = compare(dissect(packets), dissect(packets.part(first - 1, len(packets))), first)
    assert report.wrong == []
    assert report.frames["cursus"] > 0 and not report.missed


def test_the_reply_to_a_truncated_command_has_no_topic() -> None:
    packets = read(CAPTURES / "cursus" / "produce.pcap")
    topics = {topic(frame) for frame in dissect(packets).frames.values()}
    for size in range(80, 100):
        frames = dissect(cut_packets(packets, size)).frames
        assert {topic(frame) for frame in frames.values()} <= topics | {None}
