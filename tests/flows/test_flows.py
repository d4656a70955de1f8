"""Flows of real captures agree with what their clients logged; halves add up to the whole."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.check.support import CAPTURES, check, worse
from wiredecode.capture import open_capture
from wiredecode.dataclasses import fields, replace
from wiredecode.dissect.dissector import ANALYSED, Dissector
from wiredecode.flows import Flow, FlowKey, Flows, Intervals
from wiredecode.flows.table import NONE, Row, rows
from wiredecode.frames.frame import Frame

FOLDER = CAPTURES / "flows"
FIRST = {
    "k-commit-each": ("flow.commit-each", "billing in ce-billing commits after each message of ce-orders"),
    "k-dup-group": ("flow.shared-group", "fraud-check and billing share group app"),
    "k-hot-partition": (
        "flow.uneven",
        "769 of 800 messages of hp-orders go to partition 1: billing-0 is 209 messages late",
    ),
    "k-linger": ("flow.waits", "messages of orders-api wait up to 3.0 s"),
    "k-reset-latest": ("flow.skipped", "billing never got 93 messages of rl-orders"),
    "k-unclean": ("flow.lost", "268 confirmed messages of uc-orders[0] are lost"),
    "k-wrong-cluster": ("flow.no-consumer", "120 messages of orders-api to wc-orders since 6.163 s reach no consumer"),
    "n-busy-poll": ("flow.busy-poll", "billing asks ORD8"),
    "n-discard-old": ("flow.skipped", "report never got 226 messages of ord6.new"),
    "n-flow-control": ("flow.nothing-since", "dashboard in dash gets nothing of ord4.new since 7.771 s"),
    "n-queue-typo": ("flow.done-twice", "worker-3 reads jobs.mail in group worker"),
    "n-subject-typo": ("flow.no-consumer", "180 messages of orders-api to order.new since 5.810 s reach no consumer"),
    "n-wrong-account": ("flow.no-consumer", "200 messages of orders-api to ord5.new since 5.491 s reach no consumer"),
    "r-conn-churn": ("flow.connection-each", "shop-web opened 50 connections for 50 messages"),
    "r-other-vhost": ("flow.no-consumer", "220 messages of orders-api to ov-orders since 6.281 s reach no consumer"),
    "r-store-rarely": ("flow.read-again", "billing got 94 messages of sr-orders again"),
    "r-wrong-offset": ("flow.skipped", "billing never got 96 messages of wo-orders"),
}
HEALTHY = "nh-acknone", "nh-mirror", "rh-deploy"


def frames(name: str) -> Iterator[Frame]:
    source = open_capture([str(next(FOLDER.glob(f"{name}.pcap.*")))])
    yield from Dissector(replace(ANALYSED, copies=True)).frames(source)


@cache
def counted(name: str) -> Flows:
    flows = Flows(copies=True)
    for frame in frames(name):
        flows.frame(frame)
    return flows


def row(name: str, consumer: str) -> Row:
    (found,) = [each for each in rows(counted(name)) if each.consumer == consumer]
    return found


def logged(name: str, client: str, did: str) -> list[dict[str, Any]]:
    """What a client wrote into its log."""
    truth = json.loads((FOLDER / f"{name}.truth.json").read_bytes())
    return [
        what[0] for _, who, done, *what in truth["log(seconds since capture start)"] if (who, done) == (client, did)
    ]


@pytest.mark.parametrize("name", FIRST)
def test_the_first_problem_says_what_became_of_the_messages(name: str) -> None:
    code, words = FIRST[name]
    first = check(next(FOLDER.glob(f"{name}.pcap.*")))[0]
    assert first.name == code
    assert words in first.title


def test_a_consumer_that_leaves_flow_control_unanswered_is_named() -> None:
    assert "does not answer the server's flow control requests" in check(FOLDER / "n-flow-control.pcap.zst")[0].likely


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_messages_are_no_problem(name: str) -> None:
    assert worse(check(FOLDER / f"{name}.pcap.zst")) == []


def test_counts_are_those_of_the_clients() -> None:
    sent = sum(each["n"] for each in logged("r-wrong-offset", "orders-api", "published"))
    got = [each["n"] for each in logged("r-wrong-offset", "billing", "consumed")]
    found = row("r-wrong-offset", "billing")
    assert (found.published, found.confirmed, found.delivered) == (sent, sent, sum(got)) == (350, 350, 235)
    first, second = logged("r-wrong-offset", "billing", "consumed")
    assert found.skipped == second["first"][0] - first["last"][0] - 1 == 96


def test_a_pulling_consumer_gets_what_it_says() -> None:
    found = row("n-discard-old", "report")
    assert found.delivered == sum(each["distinct"] for each in logged("n-discard-old", "report", "pulled")) == 420
    assert (found.skipped, found.worst_lag) == (226, 99)
    assert found.percentile(50) is not None


def test_topics_of_two_accounts_are_two() -> None:
    by_consumer = {each.consumer: each for each in rows(counted("n-wrong-account")) if each.published}
    assert (by_consumer["worker"].space, by_consumer["worker"].delivered) == ("ORD", 80)
    assert (by_consumer[NONE].space, by_consumer[NONE].published) == ("BIL", 200)


def test_a_stream_has_the_flows_of_both_protocols_of_rabbitmq() -> None:
    flows = Flows()
    for frame in Dissector(ANALYSED).frames(open_capture([str(CAPTURES / "amqp091" / "stream.pcap.zst")])):
        flows.frame(frame)
    found = {each.consumer: (each.publishers, each.topic, each.published, each.delivered) for each in rows(flows)}
    both = ["stream-user", "rstream-producer"], "s.orders", 10, 10
    assert found == {"rstream-consumer": both, "stream-user": both}


def test_times_from_publish_to_delivery_are_found_by_offset() -> None:
    found = row("k-linger", "billing in lg-billing")
    assert len(found.latencies) > 50
    assert 0 < (found.percentile(50) or 0) < (found.percentile(99) or 0) < 1000


@pytest.mark.parametrize("name", ["k-dup-group", "n-discard-old", "r-conn-churn"])
def test_halves_of_the_connections_add_up(name: str) -> None:
    """Each half is counted alone, as another process does."""
    halves = Flows(), Flows()
    for frame in frames(name):
        halves[frame.connection.number % 2].frame(frame)
    both, whole = halves[0] + halves[1], counted(name)
    assert both.flows.keys() == whole.flows.keys()
    assert both.parties() == whole.parties()

    def shown(flows: Flows) -> list[dict[str, Any]]:
        return [each.record() | {"p50_ms": None, "p99_ms": None} for each in rows(flows, "partition")]

    assert shown(both) == shown(whole)


def test_no_number_of_a_flow_is_lost_when_halves_add_up() -> None:
    key = FlowKey(1, delivers=False, topic="a", partition=None, group="")
    numbers = [each.name for each in fields(Flow) if isinstance(getattr(Flow(key), each.name), int)]
    numbers.remove("by_second")
    for number, name in enumerate(numbers):
        known = Flow(key)
        setattr(known, name, 0x01020304 + number)
        if name == "lag":
            known.last_ns = 1
        assert getattr(known + Flow(key), name) == getattr(Flow(key) + known, name) == 0x01020304 + number, name


def test_flows_by_second_are_those_of_the_whole() -> None:
    flows = Flows(by_second=True)
    for frame in frames("n-subject-typo"):
        flows.frame(frame)
    made = [each for each in rows(flows, "second") if each.topic == "orders.new"]
    assert (sum(each.published for each in made), sum(each.delivered for each in made)) == (80, 80)
    assert [each.second_ns for each in made] == sorted(each.second_ns or 0 for each in made)


def test_intervals_tell_what_is_new_and_what_is_missing() -> None:
    offsets = Intervals()
    assert [offsets.add(0x10203, 0x10207), offsets.add(0x10207, 0x1020A), offsets.add(0x10300, 0x10301)] == [0, 0, 0]
    assert offsets.add(0x10205, 0x10302) == 6
    assert [*offsets] == [(0x10203, 0x10302)]
    other = pickle.loads(pickle.dumps(Intervals())).update(offsets)
    other.add(0x20304, 0x20305)
    assert other.holes() == [(0x10302, 0x20304)]
    assert (other.within(0x10000, 0x10204), other.within(0x10302, 0x20304), len(other)) == (1, 0, len(offsets) + 1)


def test_intervals_are_bounded() -> None:
    offsets = Intervals()
    for number in range(0, 30_000, 3):
        offsets.add(number, number + 1)
    assert len(offsets.begins) == 4096
    assert offsets.is_rough


def test_messages_that_a_consumer_does_not_want_again_are_counted() -> None:
    flows = Flows()
    for frame in Dissector(ANALYSED).frames(open_capture([str(CAPTURES / "amqp091" / "tables.pcap.zst")])):
        flows.frame(frame)
    assert sum(flow.rejected for flow in flows.flows.values()) == 3


def test_the_newest_name_of_a_cluster_counts_in_whichever_process_it_is() -> None:
    """A broker was built again, as another cluster, and kept its address."""
    early, late = Flows(), Flows()
    early.spaces = {"10.0.0.21:9092": (1_020_304, "first"), "10.0.0.22:9092": (1_020_305, "other")}
    late.spaces = {"10.0.0.21:9092": (1_020_306, "second")}
    for both in (early + late, late + early):
        assert both.spaces == {"10.0.0.21:9092": (1_020_306, "second"), "10.0.0.22:9092": (1_020_305, "other")}
