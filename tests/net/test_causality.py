"""Acknowledged bytes come first: captures in which packets of the two sides are swapped."""

from __future__ import annotations

import random

import pytest

from tests.conftest import seeds
from tests.net.craft import ACK, FIN, RST, START_NS, SYN, Talk, batches
from tests.net.script import Outcome, content, run
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import logical_time, packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, End, Gap

SIZES = pytest.mark.parametrize("size", [None, 1, 2], ids=["whole", "single", "pairs"])
FILLER = 60
"""Pure ACKs of another connection, enough for the path of columns."""


def filler(count: int = FILLER) -> list[bytes]:
    return [Talk(client=("10.9.9.9", 9)).ack(0)] * count


def readies(outcome: Outcome, side: int) -> list[tuple[int, int, int]]:
    """(end, packet, ready) of every piece of a side."""
    return [(end, packet, ready) for end, packet, _, ready, _ in outcome.pieces(side=side)]


def ping_pong(count: int, talk: Talk | None = None) -> list[bytes]:
    """A handshake, then requests of 10 bytes and responses of 20 in turn."""
    talk = talk or Talk()
    packets = talk.handshake()
    for at in range(count):
        packets += talk.send(0, content(at * 10, 10)) + talk.send(1, content(at * 20, 20))
    return packets


@SIZES
def test_a_response_before_its_request_is_ready_after_it(size: int | None) -> None:
    packets = ping_pong(2)
    packets[3], packets[4] = packets[4], packets[3]
    outcome = run(batches(packets + filler(), size))
    assert readies(outcome, 0) == [(10, 5, 5), (20, 6, 6)]
    assert readies(outcome, 1) == [(20, 4, 5), (40, 7, 7)]
    sides = [e.direction.side for e in outcome.events if isinstance(e, Chunk) and logical_time(5) in e.ready]
    assert sides == [0, 1], "equal ready: the request comes first"
    for _, _, time_ns, ready, ready_ns in outcome.pieces(side=1)[:1]:
        assert (ready_ns - time_ns, ready) == (1_000_000, 5)


@SIZES
def test_a_request_that_was_never_captured_is_waited_for_no_longer_than_a_gap(size: int | None) -> None:
    packets = ping_pong(2)
    del packets[5]  # the second request
    timed = [*((0.0, packet) for packet in packets), *((2.0 + at / 100, packet) for at, packet in enumerate(filler()))]
    outcome = run(batches(timed, size))
    assert readies(outcome, 1) == [(20, 5, 5), (40, 6, 8)], "the first packet after two seconds"
    assert [ready_ns - time_ns for _, _, time_ns, _, ready_ns in outcome.pieces(side=1)] == [0, 0]


@SIZES
def test_bytes_after_a_request_that_was_given_up_do_not_wait(size: int | None) -> None:
    packets = ping_pong(3)
    del packets[5]  # the second request
    quiet = [(2.0 + at / 100, packet) for at, packet in enumerate(filler())]
    timed = [*((0.0, packet) for packet in packets[:6]), *quiet, *((3.0, packet) for packet in packets[6:])]
    outcome = run(batches(timed, size))
    third = 6 + FILLER + 1
    assert readies(outcome, 0) == [(10, 4, 4), (30, third, third)]


def test_only_waiting_bytes_are_held_and_time_ends_the_wait() -> None:
    packets = ping_pong(2)
    del packets[5]
    network, seen = Network(), []
    timed = [(index / 1000, packet) for index, packet in enumerate(packets)]
    for part in batches([*timed, (2.004, filler()[0]), (2.006, filler()[0])], 1):
        events = network.feed(part)
        seen.append((len(events), network.watermark))
    assert seen[-4:] == [(1, 6), (0, 7), (0, 8), (1, 9)]


@SIZES
def test_repeatedly_lost_requests_are_waited_for_each_time(size: int | None) -> None:
    """Otherwise swapped packets are taken in the wrong order after the first losses."""
    packets = ping_pong(30)
    kept = packets[:5] + [packet for index, packet in enumerate(packets[5:]) if index % 2]
    timed = [(index * 2.0, packet) for index, packet in enumerate(kept)]
    outcome = run(batches(timed, size))
    waited = [ready - packet for _, packet, ready in readies(outcome, 1)]
    assert waited == [0, *[1] * 29], "the last one until the capture ended"


@SIZES
def test_a_single_direction_never_waits(size: int | None) -> None:
    packets = [packet for index, packet in enumerate(ping_pong(30)) if index % 2 == 0][2:]
    network = Network()
    for part in batches(packets, size):
        network.feed(part)
        assert network.watermark == int(part.number[-1]) + 1


@SIZES
def test_client_known_from_the_syn_ack_alone_is_not_waited_for(size: int | None) -> None:
    talk = Talk()
    packets = [talk.handshake()[1]]
    talk.send(0, content(0, 10))
    packets += talk.send(1, content(0, 20))
    network = Network()
    for part in batches(packets, size):
        network.feed(part)
    assert network.watermark == 3


@SIZES
def test_acknowledged_bytes_after_a_gap_are_waited_for(size: int | None) -> None:
    talk = Talk()
    start, (first, second) = talk.handshake(), talk.send(0, content(0, 20), 10)
    answer = talk.send(1, content(0, 20))
    outcome = run(batches([*start, second, *answer, first, *filler()], size))
    assert readies(outcome, 0) == [(10, 6, 6), (20, 4, 6)]
    assert readies(outcome, 1) == [(20, 5, 6)]


@SIZES
def test_a_gap_given_up_counts_as_reached(size: int | None) -> None:
    talk = Talk()
    start, (_, second) = talk.handshake(), talk.send(0, content(0, 20), 10)
    answer = talk.send(1, content(0, 20))
    packets = [(0.0, packet) for packet in [*start, second, *answer]] + [(3.0, packet) for packet in filler()]
    outcome = run(batches(packets, size))
    assert outcome.line() == "[0-10] 10-20"
    assert readies(outcome, 1) == [(20, 5, 6)]


@SIZES
def test_both_sides_wait_in_a_chain(size: int | None) -> None:
    """c1 s1 c2 s2, captured backwards: all become ready with the last packet, in the order of the truth."""
    packets = ping_pong(2)
    packets[3:] = packets[:2:-1]
    outcome = run(batches(packets + filler(), size))
    assert readies(outcome, 0) == [(10, 7, 7), (20, 5, 7)]
    assert readies(outcome, 1) == [(20, 6, 7), (40, 4, 7)]
    order = [(e.direction.side, e.offset) for e in outcome.events if isinstance(e, Chunk)]
    assert order == [(0, 0), (1, 0), (0, 10), (1, 20)]


@SIZES
def test_the_ack_of_a_fin_is_one_byte_further_and_reached_with_the_fin(size: int | None) -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, content(0, 10)), talk.packet(0, flags=FIN | ACK)]
    talk.seq[0] += 1
    packets += talk.send(1, content(0, 20))
    packets[4], packets[5] = packets[5], packets[4]
    outcome = run(batches(packets + filler(), size))
    assert readies(outcome, 1) == [(20, 5, 6)]


@SIZES
@pytest.mark.parametrize("flags", [FIN | ACK, RST | ACK], ids=["FIN", "RST"])
def test_an_end_comes_after_waiting_data(flags: int, size: int | None) -> None:
    packets = ping_pong(1)
    talk = Talk()
    ping_pong(1, talk)
    packets += [talk.packet(1, flags=flags)]
    packets[3:] = [packets[4], packets[5], packets[3]]
    outcome = run(batches(packets + filler(), size))
    assert readies(outcome, 1) == [(20, 4, 6)]
    assert outcome.notes() == []
    assert outcome.directions[0].connection.closed == ("RST" if flags & RST else "FIN")


@SIZES
def test_a_reset_does_not_wait_for_what_it_acknowledges(size: int | None) -> None:
    talk, network = Talk(), Network()
    packets = ping_pong(1, talk)
    talk.seq[0] += 10  # a request that is not captured
    packets.append(talk.packet(1, flags=RST | ACK))
    events = [event for part in batches(packets, size) for event in network.feed(part)]
    assert [event.ready for event in events if isinstance(event, End)] == [logical_time(len(packets))]


@SIZES
def test_data_inside_a_reset_cannot_be_acknowledged(size: int | None) -> None:
    talk = Talk()
    packets = ping_pong(1, talk)
    packets.append(talk.packet(1, content(0, 6), flags=RST))
    talk.seq[1] += 6
    packets += talk.send(0, content(10, 10))
    timed = [*((0.0, packet) for packet in packets), *((2.0 + at / 100, packet) for at, packet in enumerate(filler()))]
    assert readies(run(batches(timed, size)), 0) == [(10, 4, 4), (20, 7, 9)], "the first packet after two seconds"


@SIZES
@pytest.mark.parametrize(
    ("limits", "name"),
    [(Limits(buffered_bytes=50), "buffered_bytes"), (Limits(buffered_segments=2), "buffered_segments")],
)
def test_bytes_that_wait_for_the_other_side_have_a_budget(limits: Limits, name: str, size: int | None) -> None:
    talk = Talk()
    packets = talk.handshake()
    for at in range(3):
        talk.seq[0] += 10  # requests that are not captured
        packets += talk.send(1, content(at * 20, 20))
    outcome = run(batches(packets, size), limits)
    assert outcome.network.limits_hit == {name: 1}
    assert outcome.notes() == [(6, 0, "limit-reached")]
    assert outcome.line(side=1) == "0-60 !limit-reached"


def test_an_absurd_ack_is_not_waited_for() -> None:
    talk = Talk()
    packets = talk.handshake()
    talk.seq[0] += 2**30 + 2
    packets += talk.send(1, content(0, 10))
    network = Network()
    for part in batches(packets, 1):
        network.feed(part)
    assert network.watermark == 5


@pytest.mark.parametrize("seed", seeds(12))
def test_shuffled_directions_are_restored_to_causal_order(seed: int) -> None:
    """After sorting by ready, stable, every piece comes after the bytes that its packet acknowledged."""
    rng = random.Random(seed)
    acks: dict[tuple[int, int], int] = {}
    sent = [0, 0]
    talk = Talk(isn=(rng.choice([7, 2**32 - 300]), rng.choice([9, 2**32 - 200])))
    packets = [(0.0, packet) for packet in talk.handshake()]
    for step in range(200):
        side, size = rng.randrange(2), rng.randint(1, 40)
        acks[side, sent[side]] = sent[1 - side]
        moment = 0.01 + step / 1000 + rng.choice([0, 0, 0.004, 0.0005]) * rng.random()
        packets.append((moment, talk.send(side, content(sent[side], size))[0]))
        sent[side] += size
    packets.sort(key=lambda pair: pair[0])
    most = rng.choice([1, 7, 70, 1000])
    parts, at = [], 0
    while at < len(packets):
        timed = [(START_NS + round(moment * 1e9), packet) for moment, packet in packets[at : at + most]]
        parts.append(PacketBatch.from_packets(timed, first_number=at + 1))
        at += most
    outcome = run(parts)
    assert not outcome.notes()
    assert [outcome.data(side=side) for side in (0, 1)] == [content(0, size) for size in sent]
    pieces: list[tuple[int, int, int, int]] = []
    for e in outcome.events:
        if isinstance(e, Chunk):
            begins = [e.offset, *e.ends.tolist()[:-1]]
            pieces += zip(e.ready.tolist(), [e.direction.side] * len(begins), begins, e.ends.tolist(), strict=True)
    reached = [0, 0]
    for _, side, begin, end in sorted(pieces, key=lambda piece: piece[0]):
        assert reached[side] == begin
        assert reached[1 - side] >= acks[side, begin]
        reached[side] = end
    assert any(ready != packet for side in (0, 1) for _, packet, ready in readies(outcome, side))


def test_syn_flags_do_not_wait() -> None:
    talk = Talk()
    packets = [talk.packet(1, seq=5000, flags=SYN | ACK), talk.packet(0, seq=1000, flags=SYN), *talk.send(0, b"x")]
    network = Network()
    for part in batches(packets, 1):
        network.feed(part)
    assert network.watermark == 4


@SIZES
def test_acks_before_a_gap_opened_do_not_end_it(size: int | None) -> None:
    """A segment that waited for the other side shows a gap when that ends; the ACK just before does not count."""
    talk = Talk()
    start, _ = talk.handshake(), talk.send(0, content(0, 20), 10)
    talk.seq[1] += 10  # a request that was not captured
    waits = talk.packet(0, content(20, 10), flags=ACK)
    talk.seq[0] += 10
    talk.seq[1] -= 10
    acks = talk.packet(1, flags=ACK)
    talk.seq[0] -= 10
    late = talk.packet(0, seq=talk.seq[0] - 20, flags=ACK)
    own = [*((0.0, each) for each in (*start, waits)), (0.9, acks), (1.5, late), (2.5, late), (3.0, late)]
    outcome = run(batches([*own, *((3.0, each) for each in filler())], size))
    gaps = [packet_of(each.ready) for each in outcome.events if isinstance(each, Gap) and each.direction.side == 0]
    assert gaps == [len(own) + FILLER + 1], "only the end of the capture shows it"
