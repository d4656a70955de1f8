"""Captures without trouble, or with a trouble that is not the one looked for: nothing may be raised."""

from __future__ import annotations

import pytest

from tests.check.support import CAPTURES, check, worse
from tests.cli.conftest import Run, run
from tests.net import craft
from tests.protocols.rabbitmq_vectors import BY_NAME

__all__ = ["run"]

RABBITMQ = (
    *("c310_basic", "c43_amqp", "c43_amqplain", "c43_basic", "c43_codecs_py", "c43_connectonly", "c43_credit"),
    *("c43_filter", "c43_from091", "c43_heartbeat", "c43_js_basic", "c43_large", "c43_metaupdate"),
    *("c43_multi", "c43_offsets", "c43_sac", "c43_stats_resolve", "c43_subentry", "c43_superstream", "c43_tls"),
    *("c43_tracking", "c43_versions"),
)
NATS = ("03-pubsub", "04-request-reply", "08-pipelined-small", "10-split-writes", "13-jetstream", "14-cluster-routes")
CURSUS = ("group", "negotiate", "stream-timeout", "topic-mgmt", "txn")
PRAVEGA = ("append_basic", "idle_keepalive", "read_cuts", "segment_admin", "tables", "midstream")
TANK = (
    *("tank_01_status_topology", "tank_02_create_discover", "tank_03_produce_single", "tank_04_produce_batches"),
    *("tank_05_keys_timestamps", "tank_06_produce_snappy", "tank_08_consume_positions", "tank_09_consume_tail"),
    "tank_10_consume_small_fetch",
)
HEALTHY = [
    "stories/healthy-tail.pcap.zst",
    "kafka/groups.pcap.zst",
    *(f"rabbitmq-stream/{name}.pcap" for name in RABBITMQ),
    *(f"nats/{name}.pcap" for name in NATS),
    "liftbridge/34-lb-replication.pcap.zst",
    *(f"cursus/{name}.pcap" for name in CURSUS),
    *(f"pravega/{name}.pcap" for name in PRAVEGA),
    *(f"tank/{name}.pcap" for name in TANK),
    "tank/tank_25_jumbo_loopback.pcap.zst",
]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_capture_raises_nothing(name: str) -> None:
    assert worse(check(CAPTURES / name)) == []


def test_a_healthy_capture_prints_nothing(run: Run) -> None:
    result = run("check", CAPTURES / "rabbitmq-stream" / "c43_basic.pcap", "--fail-on", "warning")
    assert (result.code, result.raw, result.err) == (0, b"", "")


def test_a_note_that_makes_the_check_fail_is_shown(run: Run) -> None:
    result = run("check", CAPTURES / "rabbitmq-stream" / "c43_basic.pcap", "--fail-on", "note")
    assert result.code == 1
    assert result.lines[0].startswith("note[")


NEAR = {
    "rabbitmq-stream/d_drop1pct.pcap": {"capture.loss"},  # missing bytes cause no problem
    "nats/08-pipelined-small.drop1pct.pcap": {"capture.loss"},
    "rabbitmq-stream/d_snap96.pcap": {"capture.loss"},
    "tank/tank_d1_snaplen96.pcap": {"capture.loss"},
    "rabbitmq-stream/c43_dedup.pcap": {"rabbitmq_stream.messages-dropped"},  # other messages with ids of before
    "rabbitmq-stream/d_shuffled_dups.pcap": {"tcp.loss"},  # an ACK before the FIN that it is about
    "liftbridge/30-lb-publish-ack.pcap": {"publish.refused", "publish.unconfirmed"},  # all that a server can answer
    "cursus/comp-gzip.pcap": {"request.unanswered"},  # a plain command to a broker with gzip
    "cursus/produce.s2c-only.pcap": {"cursus.authorization"},  # one direction: no request has an answer missing
    "tank/tank_d4_midconnection.pcap": set(),
    "nats/10-split-writes.midconn.pcap": set(),
}


@pytest.mark.parametrize("name", NEAR)
def test_missing_packets_are_not_blamed_on_the_peers(name: str) -> None:
    assert set(worse(check(CAPTURES / name))) == NEAR[name]


@pytest.mark.parametrize(("seconds", "lost"), [(0.05, False), (20.0, True)], ids=["immediately", "later"])
def test_bytes_sent_before_the_capture_are_not_lost(seconds: float, lost: bool) -> None:
    """The first packet is a retransmission: later bytes that the receiver has (SACK) are not sent again."""
    talk = craft.Talk(server=("10.0.0.2", 5552))
    heartbeat = BY_NAME["V53"].raw
    again = talk.send(0, heartbeat)
    talk.send(0, heartbeat * 2)  # before the capture
    packets = [(0.0, *again), (0.001, talk.ack(1))]
    packets += [(seconds, each) for each in (*talk.send(0, heartbeat), talk.ack(1))]
    packets += [(seconds + 3, each) for each in (*talk.send(1, heartbeat), talk.ack(0), *talk.send(0, heartbeat))]
    names = {problem.name for problem in check(craft.batches([*packets, (seconds + 6, talk.ack(1))]))}
    assert ("capture.loss" in names) is lost
