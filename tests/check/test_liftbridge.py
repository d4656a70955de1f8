"""Liftbridge: real clusters compared with their own accounts, and near cases."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.check.support import CAPTURES, STORIES, check, named, seconds_in, worse
from wiredecode.capture import open_capture
from wiredecode.check import Problem

STORY = STORIES / "leader-killed.pcap.zst"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def story() -> list[Problem]:
    return check(STORY)


@pytest.fixture(scope="module")
def events() -> dict[str, float]:
    """Seconds from the first packet to each action on the servers."""
    truth = json.loads((STORIES / "leader-killed.truth.json").read_bytes())
    begin = next(iter(open_capture([str(STORY)]))).time_ns[0] / 1e9
    return {event["what"]: event["at_epoch_s"] - begin for event in truth["events"]}


def test_a_server_that_was_stopped_went_silent_then(story: list[Problem], events: dict[str, float]) -> None:
    (silent,) = named(story, "liftbridge.server-silent")
    assert silent.title.startswith("lb-b sent nothing")
    stops = [events["SIGSTOP b short stall of a follower"], events["SIGSTOP b long stall: leaves the ISR"]]
    for stop, lasted, detail in zip(stops, (1.2, 7.0), silent.details, strict=True):
        begin, end = map(float, re.findall(r"([0-9.]+) s", detail))
        assert stop <= begin < stop + 0.3  # the first request that it did not answer
        assert abs(end - stop - lasted) < 0.2


def test_requests_that_come_out_late_after_a_gap_do_not_make_a_server_silent() -> None:
    """The gap of one connection of beta-0 was given up after its other one had been decoded up to the same time."""
    path = Path(__file__).parent / "outages" / "liftbridge_cut_in_the_middle.pcap.zst"
    assert worse(check(path)) == ["capture.loss"]


def test_servers_that_ended_are_not_silent(story: list[Problem]) -> None:
    assert not [problem for problem in named(story, "liftbridge.server-silent") if "lb-b" not in problem.title]


def test_publishes_that_waited_for_a_stopped_replica_have_late_acks(story: list[Problem]) -> None:
    """With the ack policy ALL; the client says when it published and when it got the ack."""
    truth = json.loads((STORIES / "leader-killed.truth.json").read_bytes())["published"]
    took = [
        (each["acked_ns"] - each["sent_ns"]) / 1e9
        for each in truth
        if "error" not in each and each.get("stream") == "quorum-stream" and each.get("acked_ns")
    ]
    (late,) = [each for each in named(story, "publish.slow-confirm") if "quorum-stream" in each.title]
    assert f"of {len(took)} messages" in late.title
    assert late.count == sum(seconds > 0.2 for seconds in took)
    worst = seconds_in(late, "worst")
    assert worst == pytest.approx(max(took), abs=0.05)


def test_replicas_lag_as_long_as_they_were_stopped(story: list[Problem]) -> None:
    lags = {problem.title.split()[0]: problem.weight / 1e9 for problem in named(story, "liftbridge.replica-lag")}
    assert lags["lb-b"] == pytest.approx(7.0, abs=0.3)


def test_new_leaders_of_metadata_and_partitions_are_named(story: list[Problem]) -> None:
    (election,) = named(story, "liftbridge.election")
    assert election.severity == "warning"
    assert any("lb-b leads instead of lb-a" in detail for detail in election.details)
    changes = [detail for problem in named(story, "liftbridge.leader-change") for detail in problem.details]
    assert any(detail.startswith("orders-stream[1]: from 29.0") and "instead of lb-c" in detail for detail in changes)


def test_a_refused_operation_names_stream_and_replica(story: list[Problem]) -> None:
    (refused,) = named(story, "liftbridge.refused")
    assert refused.title.startswith("REPORT_LEADER __cursors[1], leader lb-c, replica lb-b: ")


def test_requests_of_servers_without_responder_are_remarks(story: list[Problem]) -> None:
    assert {problem.severity for problem in named(story, "nats.no-responders")} == {"note"}


def test_a_cluster_at_work_has_no_such_problem() -> None:
    assert {problem.code.code for problem in check(CAPTURES / "liftbridge" / "34-lb-replication.pcap.zst")} <= {
        "capture.late-start",
        "tcp.loss",
    }
