"""No frame is reported as undeclared, unrequested or too early if uncaptured bytes could explain it.

Issue 12, point 8.
"""

from __future__ import annotations

import struct

import pytest

from tests import damage
from tests.damage import CAPTURES, cut_packets, read
from tests.net.craft import Talk, batches
from tests.protocols.rabbitmq_vectors import BY_NAME
from tests.support import Run, dissect

HEARTBEAT = BY_NAME["V53"].raw
SIZES = pytest.mark.parametrize("size", [None, 1], ids=["whole", "single"])


def command(key: int, body: bytes) -> bytes:
    return struct.pack(">IHH", 4 + len(body), key, 1) + body


def publish(publisher: int, length: int) -> bytes:
    body = b"\x5a" * length
    return command(2, struct.pack(">BIQI", publisher, 1, 0x0102030405060708, len(body)) + body)


def codes(run: Run) -> set[str]:
    return {finding.code for frame in run.frames for finding in frame.findings if finding.group == "protocol"}


def talked(size: int | None, lost: str | None, port: int = 5552) -> Run:
    """A publish, its confirm, and a response without request. ``lost``: side whose earlier frame is lost."""
    talk = Talk(server=("10.0.0.2", port))
    packets = talk.handshake()
    for side, who in enumerate(("client", "server")):
        first = talk.send(side, HEARTBEAT)
        packets += [] if lost == who else first
        packets += talk.send(side, HEARTBEAT)
    packets += talk.send(0, publish(7, 0x0001_0203), 60000)
    packets += [talk.ack(1)]
    packets += talk.send(1, command(0x8001, struct.pack(">IH", 0x01020304, 1)))
    packets += [talk.ack(0)]
    timed = [(index * 0.001, packet) for index, packet in enumerate(packets)]
    return dissect(batches([*timed, (5.0, talk.ack(0)), (5.1, talk.ack(1))], size))


@SIZES
def test_unexplained_frames_are_reported_in_a_complete_capture(size: int | None) -> None:
    run = talked(size, None)
    assert codes(run) == {"not-declared", "frame-max", "no-request"}


@SIZES
@pytest.mark.parametrize(("lost", "expected"), [("client", set()), ("server", {"no-request"})])
def test_a_lost_earlier_frame_suppresses_the_finding(lost: str, expected: set[str], size: int | None) -> None:
    run = talked(size, lost)
    assert codes(run) == expected
    assert run.totals.missing == len(HEARTBEAT)


@SIZES
@pytest.mark.parametrize("lost", [True, False])
def test_subscription_lost_in_a_gap(lost: bool, size: int | None) -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    hello = b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.0","protocol":1}\r\n'
    packets = [*talk.handshake(), *talk.send(0, hello)]
    hidden = talk.send(0, b"SUB orders 81\r\n")
    packets += [] if lost else hidden
    packets += talk.send(0, b"PING\r\nPING\r\nPING\r\nSUB other 82\r\n")
    packets += talk.send(1, b"MSG orders 81 3\r\nabc\r\nMSG orders 83 3\r\nabc\r\n")
    timed = [(index * 0.001, packet) for index, packet in enumerate(packets)]
    run = dissect(batches([*timed, (5.0, talk.ack(0))], size))
    expected = [frame.number for frame in run.of("MSG") if frame.findings]
    assert len(run.of("MSG")) == 2
    assert len(expected) == (0 if lost else 1)


@pytest.mark.parametrize("lost", [True, False])
def test_info_with_max_payload_lost_in_a_gap(lost: bool) -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    info = b'INFO {"server_id":"S","version":"2.10.0","max_payload":%d,"proto":1}\r\n'
    hello = b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.0","protocol":1}\r\n'
    packets = [*talk.handshake(), *talk.send(1, info % 10), *talk.send(0, hello)]
    hidden = talk.send(1, info % 20 if lost else b"PING\r\n")
    packets += [] if lost else hidden
    packets += [*talk.send(1, b"PING\r\n"), talk.ack(0)]
    timed = [(index * 0.001, packet) for index, packet in enumerate(packets)]
    timed += [(5.0, talk.ack(0)), (5.1, talk.send(0, b"PUB orders 15\r\n0123456789abcde\r\n")[0])]
    (published,) = dissect(batches(timed)).of("PUB")
    assert [finding.code for finding in published.findings] == ([] if lost else ["max-payload"])


@pytest.mark.parametrize("snaplen", [121, 122])
def test_writer_with_truncated_setup_has_no_segment(snaplen: int) -> None:
    """Neither its previous segment, nor a finding that the set-up is missing."""
    packets = read(CAPTURES / "pravega" / "errors.pcap")
    whole, cut = dissect([packets]), dissect([cut_packets(packets, snaplen)])
    names = [[frame.generated.get("segment") for frame in run.of("AppendBlock")] for run in (whole, cut)]
    assert all(found in (None, wanted) for wanted, found in zip(*names, strict=True))
    assert "not-set-up" not in codes(cut)


@SIZES
@pytest.mark.parametrize("acknowledged", [True, False])
def test_response_lost_at_the_end_of_the_capture(acknowledged: bool, size: int | None) -> None:
    """No later packet shows the gap, but the other side acknowledged its bytes."""
    talk = Talk(server=("10.0.0.2", 4222))
    packets = talk.handshake()
    packets += talk.send(1, b'INFO {"server_id":"N"}\r\n')
    packets += talk.send(0, b'CONNECT {"verbose":false}\r\nPING\r\n')
    talk.send(1, b"PONG\r\n")
    packets += [talk.ack(0)] if acknowledged else []
    run = dissect(batches([(index * 0.001, packet) for index, packet in enumerate(packets)], size))
    assert [frame.outcome for frame in run.frames if frame.type == "PING"] == [None if acknowledged else "unanswered"]


def test_reply_to_a_request_lost_at_the_end_is_not_paired() -> None:
    """The second of two reads was lost: its reply continues where the first one ended, as a second reply would."""
    packets = read(CAPTURES / "pravega" / "midstream.pcap")
    asked = [frame for frame in damage.dissect(packets).frames.values() if frame.type == "ReadSegment"]
    gone = asked[1].packets[0] - 1
    left = damage.dissect(damage.chosen(packets, [at for at in range(len(packets)) if at != gone]))
    replies = [frame for frame in left.frames.values() if frame.type == "SegmentRead"]
    assert [frame.request is None for frame in replies] == [False, True]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b"RS+ orders.>\r\n", {"subject": "orders.>"}),
        (b"RMSG orders.1 4\r\n\1\2\3\4\r\n", {"subject": "orders.1", "size": 4}),
        (b"LS+ leaf APP orders.>\r\n", {"origin": "leaf", "account": "APP", "subject": "orders.>"}),
    ],
    ids=["subscription", "message", "of a leaf"],
)
def test_route_without_captured_info_is_recognised_from_its_operations(line: bytes, values: dict[str, object]) -> None:
    """The INFO that declares the route, or its account, was not captured."""
    talk = Talk(server=("10.0.0.2", 6222))
    run = dissect(batches([packet for _ in range(2) for packet in talk.send(1, line * 2)]))
    assert [frame.status for frame in run.frames] == ["ok"] * 4
    for frame in run.frames:
        row = (frame.layers or {})["nats"]
        assert {name: row.get(name) for name in ("account", *values)} == {"account": None, **values}
        assert frame.dialect == "route"
