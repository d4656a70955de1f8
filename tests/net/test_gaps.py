"""A gap is a loss once no packet can fill it: when it is given up, and the order of the bytes after it."""

from __future__ import annotations

import random

import pytest

from tests.conftest import seeds
from tests.net.craft import ACK, FIN, RST, START_NS, Talk, batches
from tests.net.script import Outcome, content, run
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import logical_time, packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, End, Gap

SIZES = pytest.mark.parametrize("size", [None, 1, 2, 3], ids=["whole", "single", "pairs", "threes"])


def filler(count: int = 60) -> list[bytes]:
    """Pure ACKs of another connection, enough for the columnar path."""
    return [Talk(client=("10.9.9.9", 9)).ack(0)] * count


def four_segments() -> tuple[list[bytes], list[bytes], Talk]:
    """A handshake, four segments of 10 bytes, and their sender."""
    talk = Talk()
    return talk.handshake(), talk.send(0, content(0, 40), 10), talk


def ack(upto: int) -> bytes:
    """An ACK of the server for ``upto`` bytes."""
    talk = Talk()
    talk.seq[0] += upto
    return talk.ack(1)


def placed(outcome: Outcome, side: int = 0) -> list[tuple[int, int, int]]:
    """(end, place, ms between the packet and the time at which it was complete) of every piece."""
    return [
        (end, ready, (ready_ns - time_ns) // 1_000_000)
        for end, _, time_ns, ready, ready_ns in outcome.pieces(side=side)
    ]


@SIZES
@pytest.mark.parametrize("wait", [0.5, 3.0, 60.0])
def test_segment_2_of_4_is_lost_and_retransmitted(wait: float, size: int | None) -> None:
    start, (one, two, three, four), _ = four_segments()
    first = [(0.0, each) for each in start]
    again = [(0.01, one), (0.02, ack(10)), (0.03, three), (0.04, ack(10)), (0.05, four), (0.06, ack(10))]
    packets = [*first, *again, (0.06 + wait, two), (0.07 + wait, ack(40))]
    outcome = run(batches([*packets, *((1.08 + wait, each) for each in filler())], size))
    assert outcome.line() == "0-40"
    late = round(wait * 1000)
    assert placed(outcome) == [(10, 4, 0), (20, 10, 0), (30, 10, late + 30), (40, 10, late + 10)]


@SIZES
def test_an_acknowledged_gap_is_given_up_a_second_after_the_ack(size: int | None) -> None:
    start, (one, _, three, four), _ = four_segments()
    packets = [(0.0, each) for each in (*start, one, three)]
    packets += [(5.0, ack(10)), (7.0, ack(30)), (7.9, four), (8.0, ack(40)), (8.001, ack(40)), (9.0, ack(40))]
    outcome = run(batches(packets, size))
    assert outcome.line() == "0-10 [10-20] 20-40"
    assert placed(outcome) == [(10, 4, 0), (30, 10, 0), (40, 10, 0)]
    assert [packet_of(e.ready) for e in outcome.events if isinstance(e, Gap)] == [10], "the first packet later than 8.0"


@SIZES
def test_an_ack_inside_the_gap_gives_nothing_up(size: int | None) -> None:
    start, (one, two, three, four), _ = four_segments()
    packets = [(0.0, each) for each in (*start, one)]
    packets += [(1.0, four), (1.1, ack(20)), (9.0, ack(20)), (9.1, two), (9.2, ack(20)), (20.0, three)]
    assert run(batches(packets, size)).line() == "0-40"


@SIZES
def test_acknowledged_bytes_that_come_after_the_second_are_late(size: int | None) -> None:
    start, (one, two, three, _), _ = four_segments()
    packets = [(0.0, each) for each in (*start, one, three, ack(30))]
    assert run(batches([*packets, (1.5, two)], size)).line() == "0-10 [10-20] 20-30 !late-data"


@SIZES
def test_each_gap_is_given_up_by_its_own_ack(size: int | None) -> None:
    talk = Talk()
    start, parts = talk.handshake(), talk.send(0, content(0, 80), 10)
    packets = [(0.0, each) for each in (*start, *parts[::2])]
    packets += [(1.0, ack(20)), (2.0, ack(60)), (2.5, parts[5]), (2.9, ack(60)), (3.2, ack(60)), (9.0, parts[7])]
    outcome = run(batches(packets, size))
    assert outcome.line() == "0-10 [10-20] 20-30 [30-40] 40-80"
    assert [packet_of(e.ready) for e in outcome.events if isinstance(e, Gap)] == [10, 12]


@SIZES
def test_other_connections_do_not_wait(size: int | None) -> None:
    start, (one, _, three, _), _ = four_segments()
    other = Talk(client=("10.0.0.7", 7000))
    packets = [(0.0, each) for each in (*start, one, three, ack(10))]
    packets += [(0.1, each) for each in other.handshake()]
    packets += [(0.1 + at, each) for at, each in enumerate(other.send(0, content(0, 50), 10))]
    outcome = Outcome(Network())
    for part in batches(packets, size):
        outcome.events += outcome.network.feed(part)
        assert outcome.network.watermark == int(part.number[-1]) + 1
    assert [ready for _, ready, _ in placed(outcome)] == [4]
    assert [ready for _, _, _, ready, _ in outcome.pieces(2)] == [10, 11, 12, 13, 14]


@SIZES
def test_an_ack_inside_a_response_ends_the_gap_before_the_response(size: int | None) -> None:
    start, (one, _, three, _), talk = four_segments()
    talk.seq[0] = talk.isn[0] + 31
    answer = talk.send(1, content(0, 20))
    packets = [(0.0, each) for each in (*start, one, three, *answer)]
    outcome = run(batches([*packets, *((3.0, each) for each in filler())], size))
    assert outcome.line() == "0-10 [10-20] 20-30"
    assert (placed(outcome)[1:], placed(outcome, 1)) == ([(30, 7, 0)], [(20, 7, 0)])
    order = [(e.direction.side, e.offset) for e in outcome.events if isinstance(e, Chunk)]
    assert order == [(0, 0), (0, 20), (1, 0)]


@SIZES
def test_data_of_the_packet_that_ends_a_gap_comes_after_the_gap(size: int | None) -> None:
    start, (one, _, three, _), talk = four_segments()
    talk.seq[0] = talk.isn[0] + 31
    packets = [(0.0, each) for each in (*start, one, three, ack(30))]
    packets += [(1.5, each) for each in talk.send(1, content(0, 20))]
    outcome = run(batches(packets, size))
    assert (placed(outcome)[1:], placed(outcome, 1)) == ([(30, 7, 0)], [(20, 7, 0)])
    assert [e.direction.side for e in outcome.events if isinstance(e, Chunk)] == [0, 0, 1]


@SIZES
@pytest.mark.parametrize("flags", [FIN | ACK, RST | ACK], ids=["FIN", "RST"])
def test_a_fin_ends_no_gap_and_a_reset_ends_it_after_a_second(flags: int, size: int | None) -> None:
    start, (one, two, three, _), talk = four_segments()
    end = talk.packet(0, seq=talk.isn[0] + 31, flags=flags)
    packets = [(0.0, each) for each in (*start, one, three, ack(10), end)]
    packets += [(0.9, ack(10)), (1.1, ack(10)), (3.0, two)]
    outcome = run(batches(packets, size))
    ends = [(e.offset, e.how, packet_of(e.ready)) for e in outcome.events if isinstance(e, End)]
    if flags & RST:
        assert outcome.line() == "0-10 [10-20] 20-30 !late-data"
        assert ends == [(30, "RST", 9)]
    else:
        assert outcome.line() == "0-30"
        assert ends == [(30, "FIN", 10)]


def test_a_reset_of_the_receiver_ends_a_gap_after_a_second() -> None:
    start, (one, _, three, _), talk = four_segments()
    reset = talk.packet(1, flags=RST)
    packets = [(0.0, each) for each in (*start, one, three, reset)] + [(3.0, each) for each in filler()]
    for size in (None, 1):
        outcome = run(batches(packets, size))
        assert [packet_of(e.ready) for e in outcome.events if isinstance(e, Gap)] == [7]
        assert not any(isinstance(e, End) for e in outcome.events), "the sender did not close"


@SIZES
def test_one_way_traffic_is_delivered_with_bounded_memory(size: int | None) -> None:
    talk = Talk()
    packets = talk.send(0, content(0, 3000), 10)
    kept = [(index * 0.1, packet) for index, packet in enumerate(packets) if index % 10 != 3]
    network = Network()
    for part in batches(kept, size):
        network.feed(part)
        assert sum(stream.buffered for stream in network._connections.shared.with_gap) <= 110 * (size or 400)
    outcome = run(batches(kept, size))
    assert [e.offset for e in outcome.events if isinstance(e, Gap)] == list(range(30, 3000, 100))


@SIZES
@pytest.mark.parametrize(
    ("limits", "name"),
    [(Limits(buffered_bytes=25), "buffered_bytes"), (Limits(buffered_segments=2), "buffered_segments")],
)
def test_an_unacknowledged_gap_ends_with_the_name_of_its_budget(limits: Limits, name: str, size: int | None) -> None:
    talk = Talk()
    start, parts = talk.handshake(), talk.send(0, content(0, 50), 10)
    packets = [*start, ack(0), parts[0], *parts[2:]]
    outcome = run(batches([(at * 9.0, packet) for at, packet in enumerate(packets)], size), limits)
    assert outcome.line() == "0-10 [10-20] 20-50 !limit-reached"
    (message,) = [e.message for e in outcome.events if hasattr(e, "message")]
    assert name in message
    assert [packet_of(e.ready) for e in outcome.events if isinstance(e, Gap)] == [8]


def test_live_an_unacknowledged_gap_ends_after_live_seconds() -> None:
    start, (one, _, three, _), _ = four_segments()
    network = Network(Limits(live_seconds=4.0))
    (part,) = batches([*start, one, three, ack(10)])
    network.feed(part)
    now = int(part.time_ns[-2])
    assert network.tick(now + 3_900_000_000) == []
    gap, rest = network.tick(now + 4_100_000_000)
    assert isinstance(gap, Gap)
    assert isinstance(rest, Chunk)
    assert (packet_of(gap.ready), [*map(packet_of, rest.ready.tolist())], rest.ready_ns.tolist()) == (
        7,
        [7],
        [START_NS + 5_000_000],
    )


@SIZES
def test_bytes_are_missing_until_the_gap_is_filled(size: int | None) -> None:
    start, (one, two, three, four), _ = four_segments()
    packets = [*start, one, three, ack(10), two, four]
    direction = run(batches([*packets, *filler()], size)).directions[0]
    lacking = [packet for packet in range(1, 12) if direction.incomplete(logical_time(packet))]
    assert lacking == [5, 6]


@SIZES
def test_lost_bytes_stay_missing(size: int | None) -> None:
    start, (one, _, three, _), _ = four_segments()
    outcome = run(batches([(0.0, each) for each in (*start, one, three, ack(30))] + [(9.0, ack(30))], size))
    direction = outcome.directions[0]
    assert [direction.incomplete(logical_time(packet)) for packet in (4, 5, 6, 7, 10**9)] == [
        False,
        True,
        True,
        True,
        True,
    ]
    assert direction.lost_from == logical_time(5)


@pytest.mark.parametrize("seed", seeds(20))
def test_segments_that_come_late_one_by_one_leave_no_gap(seed: int) -> None:
    """The receiver acknowledges what it has; each lost segment is sent again after 0.5 to 60 s."""
    rng = random.Random(seed)
    talk, packets, now, there = Talk(), [], 1.0, 0
    packets += [(0.0, each) for each in talk.handshake()]
    parts = talk.send(0, content(0, 400), 10)
    lost = set(rng.sample(range(1, 39), rng.randint(1, 4)))
    have: set[int] = set()
    pending: list[tuple[float, int]] = []
    for index in range(40):
        now += 0.01
        if index in lost:
            pending.append((now + rng.choice([0.5, 3.0, 60.0]), index))
            continue
        have.add(index)
        packets.append((now, parts[index]))
        while there in have:
            there += 1
        packets.append((now + 0.005, ack(10 * there)))
    for moment, index in sorted(pending):
        have.add(index)
        packets.append((moment, parts[index]))
        while there in have:
            there += 1
        packets.append((moment + 0.001, ack(10 * there)))
    results = {size: run(batches(packets, size)) for size in (None, 1, 17)}
    for outcome in results.values():
        assert outcome.line() == "0-400"
        assert outcome.pieces() == results[None].pieces()
