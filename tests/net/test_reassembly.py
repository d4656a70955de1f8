"""TCP reassembly: a script of segments in, a line of bytes, gaps and notes out (see script.py)."""

from __future__ import annotations

import pytest

from tests.conftest import in_one_test
from tests.net.craft import ACK, RST, SYN, Talk, batches
from tests.net.script import ISN, content, play, run
from wiredecode.net.limits import Limits
from wiredecode.net.logical_time import packet_of
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, Gap

IN_BULK = " ".join(f"d{at}:10" for at in range(0, 400, 10))
"""Enough segments in order to take the path of columns."""

CASES = {
    "in order": ("S d0:10 d10:10 d20:10", "0-30"),
    "in bulk": ("S " + IN_BULK, "0-400"),
    "in bulk without a syn": (IN_BULK, "0-400"),
    "one swap": ("S d0:10 d20:10 d10:10 d30:10", "0-40"),
    "order 1 3 2 without a syn": ("d0:10 d20:10 d10:10", "0-30"),
    "reversed": ("S d40:10 d30:10 d20:10 d10:10 d0:10", "0-50"),
    "swap before bulk": (f"S d10:10 d0:10 {IN_BULK[13:]}", "0-400"),
    "bulk sent twice": (f"S {IN_BULK} {IN_BULK}", "0-400"),
    "bulk after a gap that is filled": (f"S {IN_BULK[6:]} d0:10", "0-400"),
    "bulk after a gap that is never filled": (f"S {IN_BULK[6:]}", "[0-10] 10-400"),
    "retransmission": ("S d0:10 d0:10 d10:10 d0:10", "0-20"),
    "retransmission of several segments in one": ("S d0:10 d10:10 d0:30", "0-30"),
    "retransmission that starts inside": ("S d0:10 d5:10 d12:8", "0-20"),
    "retransmission after a gap": ("S d10:10 d10:10 d0:10", "0-20"),
    "overlap over two buffered segments and the gaps between": ("S d5:5 d15:5 d0:30 d30:1", "0-31"),
    "overlap with a buffered segment on the left": ("S d10:10 d15:10 d0:10", "0-25"),
    "overlap with a buffered segment on the right": ("S d15:10 d10:10 d0:10", "0-25"),
    "buffered segment covers a new one": ("S d10:30 d15:5 d0:10", "0-40"),
    "differing overlap of delivered bytes": ("S d0:10 x0:10 d10:5", "0-15 !overlap-differs"),
    "differing overlap of a part": ("S d0:10 x5:5 d10:5", "0-15 !overlap-differs"),
    "differing overlap of buffered bytes": ("S d10:10 x10:10 d0:10", "0-20 !overlap-differs"),
    "two differing bytes that wait after a gap": ("S d10:10 x12:2 d0:10", "0-20 !overlap-differs"),
    "differing overlap after bulk": (f"S {IN_BULK} x395:5", "0-400 !overlap-differs"),
    "gap never filled": ("S d0:10 d20:10", "0-10 [10-20] 20-30"),
    "two gaps never filled": ("S d0:10 d20:10 d40:5", "0-10 [10-20] 20-30 [30-40] 40-45"),
    "gap at the start": ("S d10:10", "[0-10] 10-20"),
    "gap filled in the last moment": ("S d0:10 @1 d20:10 @2 d10:10", "0-30"),
    "gap filled too late": ("S d0:10 @1 d20:10 @2.001 d10:10", "0-10 [10-20] 20-30 !late-data"),
    "gap of one byte filled too late": ("S d0:10 @1 d11:10 @2.001 d10:1", "0-10 [10-11] 11-21 !late-data"),
    "gap filled twice too late": ("d0:10 d20:10 @2 d10:5 d15:5 d10:10", "0-10 [10-20] 20-30 !late-data"),
    "late filler longer than its gap": ("d0:10 d20:10 @2 d10:25", "0-10 [10-20] 20-35 !late-data"),
    "second gap has its own time": (
        "d0:5 @1 d10:5 @1.9 d20:5 @2.5 d15:5 @3 d5:5",
        "0-5 [5-10] 10-25 !late-data",
    ),
    "a gap halved keeps its time": (
        "d0:5 @1 d20:5 @1.9 d10:5 @2.5 d15:5 d5:5",
        "0-5 [5-10] 10-15 [15-20] 20-25 !late-data !late-data",
    ),
    "starts in mid-stream": ("d500:10 d510:10", "0-20"),
    "fin": ("S d0:10 F10", "0-10"),
    "fin with the last bytes": ("S d0:10 F10:10", "0-20"),
    "fin before the data that it follows": ("S F10 d0:10", "0-10"),
    "fin with data outstanding that comes": ("S d0:10 F20 d10:10", "0-20"),
    "fin with data outstanding that never comes": ("S d0:10 F20", "0-10 [10-20]"),
    "fin outstanding and given up": ("S d0:10 F20 @3 d10:10", "0-10 [10-20] !late-data"),
    "fin after a gap": ("S d0:10 d20:10 F30 d10:10", "0-30"),
    "fin retransmitted": ("S d0:10 F10 F10 F0:10", "0-10"),
    "keep-alive after fin": ("S d0:10 F10 x10:1 a10", "0-10"),
    "data after fin": ("S d0:10 F10 d10:5 d15:5", "0-20 !data-after-fin"),
    "keep-alive without a byte": ("S d0:10 a9 d10:10", "0-20"),
    "keep-alive with a byte": ("S d0:10 x9:1 d10:10 x19:1", "0-20"),
    "keep-alive with a byte while a gap is open": ("S d0:10 d20:10 x29:1 d10:10", "0-30"),
    "window probe with the next byte": ("S d0:10 d10:1 d10:1 d10:10", "0-20"),
    "reset": ("S d0:10 R10", "0-10"),
    "data after reset": ("S d0:10 R10 d10:10 d20:10", "0-30 !data-after-reset"),
    "retransmission after reset": ("S d0:10 R10 d0:10", "0-10"),
    "reset with its cause": ("S d0:10 R10:8", "0-10 !reset-cause"),
    "far ahead": ("S d0:10 d1200000000:10 d10:10", "0-20 !out-of-window"),
    "far before the stream": ("d1200000000:10 d0:10", "0-10 !out-of-window"),
    "syn with data": ("S:10 d10:10", "0-20"),
    "syn with data twice": ("S:10 S:10 d10:10", "0-20"),
    "syn after the first data": ("d0:10 S d10:10", "0-20"),
    "cut": ("S c0:10/4 d10:10", "0-4 <4-10> 10-20"),
    "cut to nothing": ("S c0:10/0 d10:10", "<0-10> 10-20"),
    "truncated after a gap": ("S c10:10/4 d20:10 d0:10", "0-14 <14-20> 20-30"),
    "cut, then supplied in full": ("S c0:10/4 d0:10 d10:10", "0-4 <4-10> 10-20 !late-data"),
    "truncated after a gap, then supplied in full": ("S c10:10/4 d10:10 d0:10", "0-14 <14-20>"),
    "full, then cut": ("S d0:10 c0:10/4 d10:10", "0-20"),
    "cut and overlapping": ("S d0:10 c5:10/2 d15:5", "0-10 <10-15> 15-20"),
    "cut to an overlap": ("S d0:10 c5:10/7 d15:5", "0-12 <12-15> 15-20"),
}  # fmt: skip


@pytest.mark.parametrize("size", [None, 1, 3], ids=["whole", "single", "threes"])
@in_one_test("case", CASES)
def test_each_script(case: str, size: int | None) -> None:
    script, expected = CASES[case]
    if "mid-stream" in case:
        events = play(script, size).events
        assert b"".join(e.data for e in events if isinstance(e, Chunk)) == content(500, 20)
    elif case == "far before the stream":
        assert [code for _, _, code in play(script, size).notes()] == ["out-of-window"]
    else:
        assert play(script, size).line() == expected


@pytest.mark.parametrize("isn", [2**32 - 1, 2**32 - 2, 2**32 - 6, 2**32 - 15, 2**31 - 6, 0])
@pytest.mark.parametrize("case", ["in order", "in bulk", "one swap", "bulk sent twice", "fin after a gap"])
def test_wraparound(case: str, isn: int) -> None:
    script, expected = CASES[case]
    for size in (None, 1):
        assert play(script, size, isn=isn).line() == expected


def test_more_than_four_gigabytes_in_one_stream() -> None:
    """Offsets do not wrap: 2**30 missing bytes at a time, five times."""
    step = 2**30
    outcome = play(" ".join(f"@{at * 3} d{at * step}:4" for at in range(6)))
    offsets = [e.offset for e in outcome.events if isinstance(e, Chunk)]
    assert offsets == [at * step for at in range(6)]


def test_slightly_earlier_data_after_a_start_in_mid_stream_is_late_and_noted_once() -> None:
    outcome = play("d20:10 d10:10 d0:10 d30:10")
    (direction,) = outcome.directions
    assert outcome.data() == content(20, 20)
    assert (direction.late, direction.duplicate) == (20, 0)
    assert outcome.notes() == [(2, 0, "late-data")]


def test_dropped_bytes_are_counted_by_kind() -> None:
    outcome = play("S d0:10 d0:10 d30:10 @2 d40:10 d15:10 x49:1")
    (direction,) = outcome.directions
    assert (direction.captured, direction.missing) == (51, 20)
    assert (direction.duplicate, direction.late, direction.ignored) == (11, 10, 0)


def test_every_piece_has_its_packet_and_the_one_that_made_it_ready() -> None:
    outcome = play("S d0:10 d20:10 d30:10 d10:10 d40:10")
    ends_packet_ready = [(end, packet, ready) for end, packet, _, ready, _ in outcome.pieces()]
    assert ends_packet_ready == [(10, 2, 2), (20, 5, 5), (30, 3, 5), (40, 4, 5), (50, 6, 6)]
    for _, packet, time_ns, ready, ready_ns in outcome.pieces():
        assert ready_ns - time_ns == (ready - packet) * 1_000_000


def test_bytes_after_a_gap_that_was_given_up_keep_their_time() -> None:
    outcome = play("S d0:10 d20:10 d30:10 @5 d40:10")
    assert [(end, ready) for end, _, _, ready, _ in outcome.pieces()] == [(10, 2), (30, 5), (40, 5), (50, 5)]
    assert all(time_ns == ready_ns for _, _, time_ns, _, ready_ns in outcome.pieces())
    (gap,) = [e for e in outcome.events if isinstance(e, Gap)]
    assert (gap.offset, gap.length, packet_of(gap.ready)) == (10, 10, 5)


def test_delivered_bytes_are_compared_up_to_the_limit() -> None:
    limits = Limits(history_bytes=40)
    said = "S " + " ".join(f"d{at}:10 d{at + 20}:10 d{at + 10}:10" for at in range(0, 300, 30))
    for at, differs in ((290, True), (260, True), (240, False)):
        notes = play(f"{said} x{at}:10", 1, limits=limits).notes()
        assert notes == ([(32, at, "overlap-differs")] if differs else [])


def test_the_watermark_never_waits_for_a_gap() -> None:
    talk = Talk()
    first, second, third, fourth = talk.send(0, bytes(40), size=10)
    network, marks = Network(), []
    for part in batches([first, third, fourth, second, talk.ack(1)], size=1):
        network.feed(part)
        marks.append(network.watermark)
    assert marks == [2, 3, 4, 5, 6]


def test_a_gap_is_given_up_when_only_other_connections_have_packets() -> None:
    gap, other = Talk(), Talk(client=("10.0.0.9", 1))
    first, _, third = gap.send(0, content(0, 30), size=10)
    packets = [(0.0, first), (0.1, third), (2.0, other.ack(0)), (2.2, other.ack(0)), (2.3, other.ack(0))]
    for size in (1, 2, 5):
        network = Network()
        parts = list(batches(packets, size=size))
        events = [e for part in parts for e in network.feed(part)]
        assert [(type(e).__name__, packet_of(e.ready)) for e in events if isinstance(e, Gap)] == [("Gap", 4)]
        assert [*map(packet_of, events[-1].ready.tolist())] == [4]
        assert network.watermark == 6


def test_a_gap_is_given_up_by_the_clock_of_a_live_capture() -> None:
    gap = Talk()
    first, _, third = gap.send(0, content(0, 30), size=10)
    network = Network()
    (part,) = batches([(0.0, first), (0.1, third)])
    network.feed(part)
    now = int(part.time_ns[-1])
    assert network.tick(now + 900_000_000) == []
    assert [type(e).__name__ for e in network.tick(now + 1_100_000_000)] == ["Gap", "Chunk"]


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("@100 d0:10 d20:10 @0 d30:10 d10:10", "0-40"),
        ("@100 d0:10 d20:10 @0 d30:10 @1.5 d10:10", "0-10 [10-20] 20-40 !late-data"),
        ("@0 d0:10 @900 a10 @0.5 d20:10 @1 d10:10", "0-30"),
        ("@10 d0:10 d20:10 @9.9 d30:10 @10.9 d10:10", "0-40"),
    ],
    ids=["clock set back", "still expires after a step back", "one absurd time", "jitter"],
)
def test_times_that_go_back(script: str, expected: str, size: int | None) -> None:
    assert play(script, size).line() == expected


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize(
    ("limits", "name"),
    [(Limits(buffered_bytes=25), "buffered_bytes"), (Limits(buffered_segments=2), "buffered_segments")],
)
def test_a_budget_of_a_direction_gives_up_its_first_gap(limits: Limits, name: str, size: int | None) -> None:
    outcome = play("S d0:10 d20:10 d40:10 d60:10 d30:10 d10:10", size, limits=limits)
    assert outcome.line() == "0-10 [10-20] 20-50 [50-60] 60-70 !limit-reached !late-data"
    assert outcome.network.limits_hit == {name: 1}


@pytest.mark.parametrize("size", [None, 1, 100, 1000, 1023])
def test_the_budget_of_all_directions_gives_up_the_oldest_gap(size: int | None) -> None:
    talks = [Talk(client=("10.0.0.1", 1000 + i)) for i in range(3)]
    packets = []
    for talk in talks:
        first, _, third = talk.send(0, content(0, 300), size=100)
        packets += [first, third]
    packets += [talks[0].ack(1)] * 1100
    timed = [(index / 1e6, packet) for index, packet in enumerate(packets)]
    outcome = run(batches(timed, size), Limits(buffered_total=250))
    lost = [e.direction.connection.number for e in outcome.events if isinstance(e, Gap)]
    assert outcome.notes() == [(1025, 100, "limit-reached")], "before that packet"
    assert lost[0] == 1
    assert outcome.network.limits_hit == {"buffered_total": 1}


def test_ten_thousand_reversed_segments_after_one_gap() -> None:
    """Each segment of the reversed stream precedes all others; quadratic work would take minutes."""
    talk = Talk()
    packets = talk.send(0, bytes(10_000), size=1)
    limits = Limits(buffered_segments=10**6)
    start = talk.packet(0, b"x", seq=talk.isn[0])
    outcome = run(batches([(0.0, packet) for packet in [start, *packets[::-1]]], 5000), limits)
    assert outcome.data() == b"x" + bytes(10_000)
    assert [ready for *_, ready, _ in outcome.pieces()] == [1] + [10_001] * 10_000


def test_notes_name_packet_and_offset() -> None:
    assert play("S d0:10 x5:5 d20:5 @3 d10:10").notes() == [
        (3, 5, "overlap-differs"),
        (5, 10, "late-data"),
    ]


def test_other_side_of_a_reset_may_still_send() -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, content(0, 10)), talk.packet(0, flags=RST)]
    outcome = run(batches([*packets, *talk.send(1, content(0, 30))]))
    assert outcome.line(side=1) == "0-30"
    assert outcome.directions[0].connection.closed == "RST"


def test_syn_ack_gives_the_start_of_the_client() -> None:
    """SYN/ACK before SYN, first client segment lost: the gap at the start is still found."""
    talk = Talk(isn=(ISN, 5000))
    packets = [talk.packet(1, seq=5000, flags=SYN | ACK), talk.packet(0, content(10, 10), seq=ISN + 11)]
    outcome = run(batches(packets))
    assert outcome.line(side=1) == "[0-10] 10-20"
    assert outcome.directions[0].connection.initiator == 1
