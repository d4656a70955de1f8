"""Captures that begin late, lose packets or hold one side: missing bytes cause no problem."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests import damage
from tests.check.support import CAPTURES, check, checked
from tests.sweep import DAMAGE, TRUNCATED, one_side
from wiredecode.capture import PacketBatch

OF_DAMAGE = {"capture.loss", "capture.clock", "tcp.loss", "kafka.no-frame"}
OF_DAMAGE |= {"rabbitmq_stream.no-stream", "publish.slow-confirm"}
"""Lost and repeated packets, responses of Kafka without their requests, the server's statements about a stream
whose deletion was not captured, and how late a truncated refusal came."""
KINDS = [kind for kind in (*DAMAGE, *TRUNCATED) if kind not in ("swapped", "duplicated")]
SMALL = [
    CAPTURES / name
    for name in (
        "nats/03-pubsub.pcap",
        "nats/04-request-reply.pcap",
        "liftbridge/30-lb-publish-ack.pcap",
        "rabbitmq-stream/c43_basic.pcap",
        "rabbitmq-stream/c43_dedup.pcap",
        "cursus/topic-mgmt.pcap",
        "cursus/stream.pcap",
        "stories/publishes-refused.pcap",
        "pravega/seed_dialect.pcap",
        "tank/tank_03_produce_single.pcap",
        "kafka/small.pcap",
        "amqp091/basic.pcap.zst",
        "amqp091/dropped.pcap.zst",
    )
]


def accused(packets: PacketBatch) -> set[str]:
    return {problem.name for problem in checked([packets]).finish() if problem.severity != "note"}


def damaged(packets: PacketBatch, kind: str, seed: str) -> PacketBatch | None:
    if kind in TRUNCATED:
        return damage.cut_packets(packets, TRUNCATED[kind])
    places = DAMAGE[kind](packets, random.Random(f"{seed} {kind}"))
    return damage.in_time(damage.chosen(packets, places)) if places else None


def more_accused(capture: Path, turns: int) -> list[str]:
    """Problems of damaged copies that the whole capture has neither as such nor as consequence or note."""
    packets = damage.read(capture)
    known = {problem.name for problem in check([packets])} | OF_DAMAGE
    found = []
    for kind in KINDS:
        for turn in range(turns):
            variant = damaged(packets, kind, f"{turn} {capture.name}")
            if variant is not None:
                found += [f"{kind} {turn}: {name}" for name in sorted(accused(variant) - known)]
    return found


@pytest.mark.parametrize("capture", SMALL, ids=lambda path: path.stem)
def test_uncaptured_bytes_cause_no_problem(capture: Path) -> None:
    assert more_accused(capture, turns=1) == []


@pytest.mark.parametrize("capture", SMALL, ids=lambda path: path.stem)
def test_a_packet_that_two_interfaces_captured_was_not_sent_again(capture: Path) -> None:
    packets = damage.read(capture)
    twice = damage.chosen(packets, [place for place in range(len(packets)) for _ in range(2)])
    twice.time_ns[1::2] += 20_000
    assert accused(twice) <= accused(packets)


@pytest.mark.parametrize("capture", SMALL, ids=lambda path: path.stem)
def test_neighbours_that_a_queue_captured_in_the_wrong_order_were_not_sent_again(capture: Path) -> None:
    packets = damage.read(capture)
    places = [*range(len(packets))]
    for place in range(2, len(packets) - 1, 5):
        if packets.time_ns[place + 1] - packets.time_ns[place] < 100_000:
            places[place : place + 2] = place + 1, place
    assert "tcp.loss" not in accused(damage.in_time(damage.chosen(packets, places)))


@pytest.mark.parametrize(
    ("name", "missing", "code"),
    [
        ("nats/60-limits.pcap", [(0.35, 0.6)], "nats.missed-ping"),
        ("rabbitmq-stream/c43_basic.pcap", [(0.1, 0.3), (0.5, 0.8)], "tcp.no-answer"),
        ("kafka/coordinators.pcap.zst", [(0.1, 0.3), (0.5, 0.8)], "request.unanswered"),
    ],
)
def test_a_missing_file_of_a_ring_causes_no_problem(name: str, missing: list[tuple[float, float]], code: str) -> None:
    packets = damage.read(CAPTURES / name)
    number = len(packets)
    places = [at for at in range(number) if not any(one * number <= at < end * number for one, end in missing)]
    assert code not in accused(damage.chosen(packets, places))


def test_a_lost_answer_before_a_late_one_is_no_stall() -> None:
    capture = CAPTURES / "kafka/max-poll.pcap.zst"
    variant = damaged(damage.read(capture), "5 % lost", f"3 {capture.name}")
    assert variant is not None
    assert "server.stalled" not in accused(variant)


@pytest.mark.parametrize("seed", [1, 2])  # what servers sent, what clients sent
def test_replicas_of_which_one_side_was_captured_are_not_silent(seed: int) -> None:
    """Whether a paused replica sent anything is not known, nor the names of all servers."""
    packets = damage.read(Path(__file__).parent / "outages" / "liftbridge_replica_paused.pcap.zst")
    assert accused(damage.chosen(packets, one_side(packets, random.Random(seed)))) == {"capture.loss"}


def test_truncated_first_bytes_are_enough_to_name_another_protocol() -> None:
    packets = damage.read(Path(__file__).parent / "outages" / "o_wrongport.pcap.zst")
    assert accused(damage.cut_packets(packets, 96)) == {"protocol.mismatch", "capture.loss"}


def test_a_truncated_request_for_websocket_is_no_other_protocol() -> None:
    packets = damage.read(CAPTURES / "nats" / "50-server-links.pcap")
    assert "protocol.mismatch" not in accused(damage.cut_packets(packets, 96))


def test_a_method_whose_number_was_not_captured_whole_is_not_unknown() -> None:
    packets = damage.read(CAPTURES / "amqp091" / "basic.pcap.zst")
    assert accused(damage.cut_packets(packets, 96)) == {"capture.loss"}


@pytest.mark.parametrize("seed", [1, 2])
def test_connections_of_which_one_side_was_captured_may_have_ended(seed: int) -> None:
    packets = damage.read(Path(__file__).parent / "outages" / "kafka_leaked.pcap.zst")
    assert accused(damage.chosen(packets, one_side(packets, random.Random(seed)))) == set()


@pytest.mark.parametrize("front", [0, 11])  # only the reset; the handshake, and then the reset
@pytest.mark.parametrize("name", ["blocked", "tables", "ack-timeout"])
def test_a_reset_after_bytes_that_were_not_captured_may_be_an_orderly_end(name: str, front: int) -> None:
    packets = damage.read(CAPTURES / f"amqp091/{name}.pcap.zst")
    variant = damage.chosen(packets, [*range(front), len(packets) - 1])
    assert accused(variant) - {"capture.loss"} == set()


def test_a_reset_that_overtakes_data_is_no_data_after_a_reset() -> None:
    packets = damage.read(CAPTURES / "amqp091/blocked.pcap.zst")
    last = len(packets) - 1
    variant = damage.in_time(damage.chosen(packets, [*range(last - 3), last, *range(last - 3, last)]))
    assert "amqp091.data-after-reset" not in accused(variant)


@pytest.mark.parametrize("turn", [0, 13, 14])
def test_a_client_whose_lost_bytes_may_have_subscribed_reached_the_advertised_host(turn: int) -> None:
    capture = CAPTURES / "amqp091/stream.pcap.zst"
    variant = damaged(damage.read(capture), "1 % lost", f"{turn} {capture.name}")
    assert variant is not None
    assert "rabbitmq_stream.advertised-host" not in accused(variant)


TRUE = ("advertised-refused", "14-cluster-routes", "snaplen96", "c43_puberr")
"""Captures of trouble, and of requests that are left without answer."""
TROUBLE = ("flows", "hostile", "reports", "stories")
"""Folders of such captures."""
HEALTHY = [
    path
    for path in damage.small_captures()
    if path.parent.name not in TROUBLE and not any(name in path.name for name in TRUE)
]


@pytest.mark.slow
@pytest.mark.parametrize("capture", HEALTHY, ids=lambda path: path.name)
def test_uncaptured_bytes_cause_no_problem_in_any_capture(capture: Path) -> None:
    assert more_accused(capture, turns=4) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_a_reset_that_overtakes_the_fin_that_it_acknowledges_follows_it(seed: int) -> None:
    """Bytes before the FIN are missing at that time, too."""
    packets = damage.read(CAPTURES / "amqp091/errors.pcap.zst")
    variant = damaged(packets, "swapped", f"{seed} errors.pcap.zst")
    assert variant is not None
    assert "tcp.reset" not in accused(variant)


def test_frames_that_waited_for_a_gap_do_not_hide_the_work_after_them() -> None:
    """The client of one connection publishes before, and that of another one consumes after, an address was named."""
    packets = damage.read(CAPTURES / "amqp091/stream.pcap.zst")
    variant = damage.chosen(packets, [place for place in range(len(packets)) if place != 84])
    assert accused(variant) == {"capture.loss"}
