"""Nothing is told to be undeclared, unasked or too early where bytes that were not captured could explain it.

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
    """A client publishes, a server confirms and answers what nobody asked; ``lost``: whose earlier frame."""
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
def test_all_was_captured_and_it_is_told(size: int | None) -> None:
    run = talked(size, None)
    assert codes(run) == {"not-declared", "frame-max", "no-request"}


@SIZES
@pytest.mark.parametrize(("lost", "told"), [("client", set()), ("server", {"no-request"})])
def test_a_frame_before_was_lost_that_could_explain_it(lost: str, told: set[str], size: int | None) -> None:
    run = talked(size, lost)
    assert codes(run) == told
    assert run.totals.missing == len(HEARTBEAT)


@SIZES
@pytest.mark.parametrize("lost", [True, False])
def test_a_nats_subscription_in_a_gap(lost: bool, size: int | None) -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    hello = b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","version":"1.0","protocol":1}\r\n'
    packets = [*talk.handshake(), *talk.send(0, hello)]
    hidden = talk.send(0, b"SUB orders 81\r\n")
    packets += [] if lost else hidden
    packets += talk.send(0, b"PING\r\nPING\r\nPING\r\nSUB other 82\r\n")
    packets += talk.send(1, b"MSG orders 81 3\r\nabc\r\nMSG orders 83 3\r\nabc\r\n")
    timed = [(index * 0.001, packet) for index, packet in enumerate(packets)]
    run = dissect(batches([*timed, (5.0, talk.ack(0))], size))
    told = [frame.number for frame in run.of("MSG") if frame.findings]
    assert len(run.of("MSG")) == 2
    assert len(told) == (0 if lost else 1)


@pytest.mark.parametrize("lost", [True, False])
def test_a_payload_that_an_info_in_a_gap_may_allow(lost: bool) -> None:
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
def test_a_writer_whose_set_up_was_cut_has_no_segment(snaplen: int) -> None:
    """Neither that which it had before, nor is it told that nobody set it up."""
    packets = read(CAPTURES / "pravega" / "errors.pcap")
    whole, cut = dissect([packets]), dissect([cut_packets(packets, snaplen)])
    names = [[frame.generated.get("segment") for frame in run.of("AppendBlock")] for run in (whole, cut)]
    assert all(found in (None, wanted) for wanted, found in zip(*names, strict=True))
    assert "not-set-up" not in codes(cut)


@SIZES
@pytest.mark.parametrize("acknowledged", [True, False])
def test_an_answer_that_was_lost_at_the_end_does_not_accuse(acknowledged: bool, size: int | None) -> None:
    """Nothing comes behind it that would show the gap, but the other side acknowledged its bytes."""
    talk = Talk(server=("10.0.0.2", 4222))
    packets = talk.handshake()
    packets += talk.send(1, b'INFO {"server_id":"N"}\r\n')
    packets += talk.send(0, b'CONNECT {"verbose":false}\r\nPING\r\n')
    talk.send(1, b"PONG\r\n")
    packets += [talk.ack(0)] if acknowledged else []
    run = dissect(batches([(index * 0.001, packet) for index, packet in enumerate(packets)], size))
    assert [frame.outcome for frame in run.frames if frame.type == "PING"] == [None if acknowledged else "unanswered"]


def test_a_reply_whose_request_was_lost_at_the_end_answers_no_other() -> None:
    """The second read of two was lost: its reply goes on where the first one ended, as a second one of that would."""
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
def test_a_route_that_begins_in_the_middle_is_told_by_what_fits_no_other_link(
    line: bytes, values: dict[str, object]
) -> None:
    """The INFO that says that the route is one account's, or that it is a route, was not captured."""
    talk = Talk(server=("10.0.0.2", 6222))
    run = dissect(batches([packet for _ in range(2) for packet in talk.send(1, line * 2)]))
    assert [frame.status for frame in run.frames] == ["ok"] * 4
    for frame in run.frames:
        row = (frame.layers or {})["nats"]
        assert {name: row.get(name) for name in ("account", *values)} == {"account": None, **values}
        assert frame.dialect == "route"
