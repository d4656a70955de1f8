"""A connection that ends inside a frame: bytes that were never sent are not missing, and the end is reported.

Issue 12, point 9.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import pytest

import wiredecode
from tests.damage import CAPTURES
from tests.net.craft import ACK, FIN, RST, Talk, batches
from tests.protocols.rabbitmq_vectors import BY_NAME
from tests.support import Run, dissect
from tests.test_truncated_packets import leaves
from wiredecode.frames.frame import Frame

HEARTBEAT = BY_NAME["V53"].raw
BODY = bytes(range(40))
PUBLISH = struct.pack(">IHHBIQI", 17 + 4 + len(BODY), 2, 1, 0, 1, 0x01020304, len(BODY)) + BODY
SIZES = pytest.mark.parametrize("size", [None, 1], ids=["whole", "single"])


def other_frames() -> list[tuple[float, bytes]]:
    """Another connection, which continues for a minute."""
    talk = Talk(client=("10.0.0.7", 7000))
    packets = [(0.0, each) for each in talk.handshake()]
    return packets + [(1.0 + 5 * at, each) for at, each in enumerate(talk.send(0, HEARTBEAT * 12, len(HEARTBEAT)))]


def closed_after(sent: bytes, flags: int | None, size: int | None, lost: Iterable[int] = (), by: int = 0) -> Run:
    """The client sends bytes in segments of 10, some of which are lost; ``by`` closes at 2 s."""
    talk = Talk()
    packets = [(0.1, each) for each in talk.handshake()]
    segments = talk.send(0, sent, 10)
    packets += [(0.2, each) for at, each in enumerate(segments) if at not in lost]
    packets += [(0.3, talk.ack(1))]
    if flags is not None:
        packets.append((2.0, talk.packet(by, flags=flags)))
    both = sorted([*packets, *other_frames()], key=lambda pair: pair[0])
    return dissect(batches(both, size))


def last(run: Run) -> tuple[str, int, int, list[str]]:
    """Status, length, missing bytes and findings of the last frame of the connection that closed."""
    frame = [frame for frame in run.frames if frame.connection.ports[0] == 40000][-1]
    times = [frame.time_ns for frame in run.frames]
    assert times == sorted(times)
    findings = [f"{each.severity}: {each.message}" for each in frame.findings if each.group == "reassembly"]
    return frame.status, frame.length, frame.missing, findings


@SIZES
@pytest.mark.parametrize(
    ("flags", "what"),
    [(FIN | ACK, "the sender closed"), (RST | ACK, "the sender reset the connection")],
    ids=["FIN", "RST"],
)
def test_the_sender_closes_inside_a_frame(flags: int, what: str, size: int | None) -> None:
    run = closed_after(HEARTBEAT + PUBLISH[:24], flags, size)
    assert last(run) == ("partial", 24, 0, [f"note: {what} after 24 of {len(PUBLISH)} bytes"])
    assert (run.totals.missing, run.totals.closes) == (0, True)


@SIZES
def test_the_receiver_resets_inside_a_frame(size: int | None) -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, HEARTBEAT + PUBLISH[:24]), talk.packet(1, flags=RST)]
    (_, frame) = dissect(batches(packets, size)).frames
    messages = [(each.severity, each.message) for each in frame.findings if each.group == "reassembly"]
    assert messages == [("note", f"the receiver reset the connection after 24 of {len(PUBLISH)} bytes")]
    assert frame.missing == 0


def test_requests_before_an_unfinished_frame_keep_their_responses() -> None:
    talk = Talk(server=("10.0.0.2", 4222))
    said = [*talk.send(1, b'INFO {"server_id":"a"}\r\n'), *talk.send(0, b"CONNECT {}\r\nPING\r\nPUB re.cut 10\r\n0123")]
    packets = [*talk.handshake(), *said, talk.packet(0, flags=FIN | ACK), *talk.send(1, b"PONG\r\n")]
    frames = dissect(batches(packets)).frames
    assert [frame.type for frame in frames] == ["INFO", "CONNECT", "PING", "PUB", "PONG"]
    assert frames[4].request == 3


@SIZES
def test_the_sender_closes_before_the_size_of_a_frame_is_known(size: int | None) -> None:
    run = closed_after(HEARTBEAT + PUBLISH[:3], FIN | ACK, size)
    message = "note: the sender closed after 3 bytes, too few for the size of a frame"
    assert last(run) == ("partial", 3, 0, [message])
    assert run.totals.undecoded == 0


@SIZES
def test_the_capture_ends_inside_a_frame_and_the_rest_may_have_been_sent(size: int | None) -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, HEARTBEAT + PUBLISH[:24])]
    (_, frame) = dissect(batches(packets, size)).frames
    left = len(PUBLISH) - 24
    finding = frame.findings[0]
    assert (finding.severity, frame.missing, frame.length) == ("warning", left, len(PUBLISH))
    assert finding.message == f"{left} of {len(PUBLISH)} bytes were not captured: the capture ends"


@SIZES
def test_lost_bytes_and_unsent_bytes_are_distinguished(size: int | None) -> None:
    sent = HEARTBEAT + PUBLISH[:45]
    run = closed_after(sent, FIN | ACK, size, lost=[3])
    status, length, missing, findings = last(run)
    assert (status, length, missing) == ("partial", 45, 10)
    assert findings[-1] == f"note: the sender closed after 45 of {len(PUBLISH)} bytes, 10 of which were not captured"
    assert run.totals.missing == 10


def test_an_unfinished_frame_is_numbered_at_the_close() -> None:
    run = closed_after(HEARTBEAT + PUBLISH[:24], FIN | ACK, 1)
    numbers = [frame.number for frame in run.frames if frame.connection.ports[0] == 40000]
    assert numbers == [1, 3], "one frame of the other connection came before the FIN, eleven after it"


@SIZES
@pytest.mark.parametrize("side", [0, 1], ids=["sender", "receiver"])
def test_bytes_sent_after_a_reset_are_not_reported_as_unsent(side: int, size: int | None) -> None:
    """The sender's reset has a later sequence number; the receiver acknowledged the bytes."""
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, HEARTBEAT + PUBLISH[:24])]
    talk.seq[0] += len(PUBLISH) - 24
    packets += [talk.packet(0, flags=RST)] if side == 0 else [talk.packet(1), talk.packet(1, flags=RST | ACK)]
    (_, frame) = dissect(batches(packets, size)).frames
    left, who = len(PUBLISH) - 24, "the sender" if side == 0 else "the receiver"
    assert frame.missing == left
    assert frame.findings[0].message == f"{left} of {len(PUBLISH)} bytes were not captured: {who} reset the connection"


@SIZES
def test_last_ack_of_an_older_connection_of_the_ports_is_known_in_any_batch(size: int | None) -> None:
    older, newer = Talk(), Talk(isn=(2_000_000, 3_000_000))
    packets = [*older.handshake(), *older.send(0, HEARTBEAT + PUBLISH)]
    older.seq[0] += len(PUBLISH)
    packets += [older.packet(1), newer.handshake()[0], *newer.send(0, HEARTBEAT)]
    first, second = dict.fromkeys(frame.connection for frame in dissect(batches(packets, size)).frames)
    assert (first.directions[0].acked_beyond, second.directions[0].acked_beyond) == (len(PUBLISH), 0)


CLOSED = {
    "cursus/produce.pcap": {"PUBLISH", "Batch"},
    "nats/06-headers.pcap": {"HPUB", "CONNECT", "PING"},
    "liftbridge/30-lb-publish-ack.pcap": {"Publish", "Ack"},
    "pravega/append_basic.pcap": {"SetupAppend"},
    "rabbitmq-stream/c43_basic.pcap": {"PeerProperties", "Publish"},
    "tank/tank_08_consume_positions.pcap": {"Consume"},
}


@pytest.mark.parametrize("name", CLOSED)
def test_fields_of_an_unfinished_frame_equal_those_of_the_whole_one_or_are_missing(name: str) -> None:
    """Its last text is missing, and it has no finding that the whole frame does not have."""
    frames = list(wiredecode.read(CAPTURES / name))
    connection = next(frame.connection for frame in frames if frame.type in CLOSED[name])
    said = [frame for frame in frames if frame.connection is connection]
    seen = set()
    for place, frame in enumerate(said):
        if frame.type not in CLOSED[name] - seen:
            continue
        seen.add(frame.type)
        whole = fields_of(said, place, frame.length)[1]
        for size in range(1 + place % 2, frame.length, max(2, frame.length // 12)):
            findings, fields = fields_of(said, place, size)
            assert findings == ["closed-inside"]
            assert {path: value for path, value in fields.items() if whole.get(path, ...) != value} == {}, size
    assert seen


def closed_inside(said: list[Frame], place: int, size: int) -> Frame | None:
    """A frame whose sender closes after ``size`` bytes, after earlier frames; None if too short to be recognised."""
    talk, frame = Talk(server=("10.0.0.2", said[0].connection.ports[1])), said[place]
    packets = [*talk.handshake(), *(each for one in said[:place] for each in talk.send(one.side, one.data))]
    packets += [*talk.send(frame.side, frame.data[:size]), talk.packet(frame.side, flags=FIN | ACK)]
    run = dissect(batches(packets))
    return run.frames[place] if len(run.frames) > place else None


def fields_of(said: list[Frame], place: int, size: int) -> tuple[list[str], dict[str, Any]]:
    closed = closed_inside(said, place, size)
    if closed is None:
        return ["closed-inside"], {}
    return [finding.code for finding in closed.findings], dict(leaves(closed.layers))


def test_an_unfinished_publish_expects_no_response() -> None:
    frames = list(wiredecode.read(CAPTURES / "cursus" / "produce.pcap"))
    publish = next(frame for frame in frames if frame.type == "PUBLISH")
    frames = [frame for frame in frames if frame.connection is publish.connection]
    place = frames.index(publish)
    whole, closed = (closed_inside(frames, place, frames[place].length - missing) for missing in (0, 1))
    assert whole and closed
    assert (whole.expects_response, closed.expects_response) == (True, False)
