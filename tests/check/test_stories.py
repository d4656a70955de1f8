"""Outages of real servers: one command names the cause, and its numbers are those of others."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from tests.check.support import CAPTURES, STORIES, check, named, seconds_in, worse
from tests.cli.conftest import Run, run
from tests.conftest import long_are_slow
from wiredecode import read
from wiredecode.capture import open_capture
from wiredecode.check import Problem

__all__ = ["run"]

CAUSES = {
    "credit-starvation.pcap": ("rabbitmq_stream.credit-starvation", "report-export (#5) consumes orders too slowly"),
    "advertised-refused.pcap": ("rabbitmq_stream.advertised-host", "127.0.0.77:5999, where the connection is refused"),
    "advertised-unknown.pcap": (
        "rabbitmq_stream.advertised-host",
        "rabbit-1.internal:5552; no connection to it",
    ),
    "leader-killed.pcap.zst": ("liftbridge.leader-lost", "lb-c, leader of 3 partitions, went away"),
    "mtu-black-hole.pcap": ("tcp.no-ack", "10.77.0.1:5552 stopped acknowledging for 13.287 s"),
    "never-acknowledged.pcap": ("nats.redelivered", "forgetful-worker (#2) got messages of O4, consumer forget, again"),
    "slow-consumer.pcap.zst": (
        "nats.slow-consumer",
        "report-export (#1) is a slow consumer on subscription 7 orders.eu",
    ),
}


@pytest.mark.parametrize("name", long_are_slow(CAUSES))
def test_the_first_problem_shown_names_the_cause(name: str, run: Run) -> None:
    code, cause = CAUSES[name]
    result = run("check", STORIES / name, "--fail-on", "warning")
    first = " ".join(result.out.split("\n\n")[0].split())
    assert (result.code, result.err) == (1, "")
    assert re.match(rf"(error|warning)\[{re.escape(code)}\] ", first)
    assert cause in first
    assert re.search(r"(frames?|packets?) \d+", first)
    assert max(len(line) for line in result.lines[:-1] if not line.startswith("  show")) <= 80


@pytest.mark.slow
def test_every_captured_publish_without_ack_is_reported() -> None:
    """By the client's own account; 64 more of its publishes failed before NATS: their ids are not in the capture."""
    raw = pa.input_stream(STORIES / "leader-killed.pcap.zst").read()
    truth = json.loads((STORIES / "leader-killed.truth.json").read_bytes())["published"]
    failed = [each for each in truth if "error" in each and each["correlation_id"].encode() in raw]
    problems = {problem.name: problem for problem in check(STORIES / "leader-killed.pcap.zst")}
    found = problems["publish.unconfirmed"]
    assert {(each["stream"], each["partition"]) for each in failed} == {("orders-stream", 1)}
    assert found.count == len(failed) == 6
    assert "orders-stream (subject orders.1)" in found.title


@pytest.mark.slow
def test_the_killed_server_and_what_it_led_are_as_the_truth_says() -> None:
    truth = json.loads((STORIES / "leader-killed.truth.json").read_bytes())["events"]
    killed = next(event["at_epoch_s"] for event in truth if event["what"].startswith("SIGKILL c"))
    begin = next(iter(open_capture([str(STORIES / "leader-killed.pcap.zst")]))).time_ns[0] / 1e9
    worst = check(STORIES / "leader-killed.pcap.zst")[0]
    ended = seconds_in(worst, "ended at")
    assert abs(begin + ended - killed) < 0.01  # SIGKILL, by the script's clock
    assert any(detail.startswith("orders-stream[1]: reported by lb-b") for detail in worst.details)


def test_time_without_credit_is_that_of_the_records(run: Run) -> None:
    """Each Credit of the slow consumer but the first comes when there is none left: the time since the chunk before."""
    rows = [json.loads(line) for line in run("pcap", STORIES / "credit-starvation.pcap", "--json", "-q").lines]
    slow = [row for row in rows if row["connection"] == 5]
    credit, empty_ns, starved = 1, 0, 0
    waits = 0
    for row, after in zip(slow, [*slow[1:], None], strict=True):
        if row["type"] == "Deliver":
            credit -= 1
            empty_ns = row["time_ns"] if credit == 0 else 0
        elif row["type"] == "Credit":
            if empty_ns and credit == 0 and after is not None and after["type"] == "Deliver":
                starved, waits = starved + row["time_ns"] - empty_ns, waits + 1
            credit += row["layers"]["rabbitmq_stream"]["credit"]
    (problem,) = [each for each in check(STORIES / "credit-starvation.pcap") if each.severity == "warning"]
    assert f"out of credit for {starved / 1e9:.3f} s" in problem.title
    assert problem.count == waits
    assert 0.06 * (waits - 1) < starved / 1e9 < 0.07 * waits  # it spends 60 ms on each chunk, but not on the first


def test_only_the_starved_consumer_is_reported() -> None:
    titles = [problem.title for problem in check(STORIES / "credit-starvation.pcap")]
    assert not any("billing" in title for title in titles)


def test_slow_silent_and_forbidden_clients_are_named() -> None:
    truth = json.loads((STORIES / "slow-consumer.truth.json").read_bytes())["server_log"]
    problems = {problem.name: problem.title for problem in check(STORIES / "slow-consumer.pcap.zst")}
    assert "client report-export: Slow Consumer" in truth[0]
    assert problems["nats.slow-consumer"].startswith("report-export (#1)")
    assert "client sleepy-client: Stale" in truth[2]
    assert problems["nats.stale"].startswith("sleepy-client (#2) did not answer 2 PINGs")
    assert 'user app: Permissions Violation for Publish to "forbidden.topic"' in problems["nats.permissions"]


def told(name: str) -> dict[str, list[Problem]]:
    """The problems of a story that are no notes, by name."""
    found: dict[str, list[Problem]] = {}
    for problem in check(STORIES / name):
        if problem.severity != "note":
            found.setdefault(problem.name, []).append(problem)
    return found


def truth(name: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((STORIES / f"{name}.truth.json").read_bytes())
    return said


def test_unconfirmed_publishes_of_a_killed_broker() -> None:
    said, found = truth("broker-killed"), told("broker-killed.pcap")
    says = said["client_says"]
    (problem,) = found["publish.unconfirmed"]
    assert problem.count == says["published"] - says["confirmed"] == 40
    assert f"40 of {says['published']} messages" in problem.title
    assert found["tcp.refused"][0].count == 3


def test_confirms_of_a_paused_broker_are_as_late_as_it_was_paused() -> None:
    said, found = truth("broker-paused"), told("broker-paused.pcap.zst")
    (problem,) = found.pop("publish.slow-confirm")
    paused = said["continued_at_epoch_s"] - said["stopped_at_epoch_s"]
    worst = seconds_in(problem, "worst")
    assert abs(worst - paused) < 0.1
    rows = read(STORIES / "broker-paused.pcap.zst", level="messages", columns=["frame", "latency_ns"])
    assert problem.count == len({row["frame"] for row in rows if row.get("latency_ns", 0) >= 200_000_000})
    (stalled,) = found.pop("server.stalled")
    assert abs(stalled.last_ns / 1e9 - said["continued_at_epoch_s"]) < 0.1
    assert found == {}


def test_the_consumer_that_stopped_and_the_one_that_went_on() -> None:
    says, found = truth("consumer-stopped")["client_says"], told("consumer-stopped.pcap.zst")
    (problem,) = found.pop("rabbitmq_stream.consumer-stopped")
    assert "report-export" in problem.title
    assert f"3 chunks reached it; offset {says['report-export']['messages']} is next" in problem.details
    assert f"other consumers are at offset {says['published']}" in problem.details
    assert found == {}


def test_a_consumer_that_falls_behind_by_what_it_needs_more_than_it_has() -> None:
    found = told("consumer-lags.pcap.zst")
    (problem,) = found.pop("rabbitmq_stream.consumer-lag")
    behind, within = map(float, re.findall(r"([0-9.]+) s", problem.title))
    assert 1 - 0.06 / 0.2 - 0.1 < behind / within < 1 - 0.06 / 0.2 + 0.1  # 200 ms for what comes every 60 ms
    assert set(found) == {"rabbitmq_stream.credit-starvation"}


def test_refused_messages_equal_those_reported_to_the_client() -> None:
    errors = truth("stream-deleted")["client_says"]["errors"]
    found = told("stream-deleted.pcap").pop("publish.refused")
    assert sum(problem.count for problem in found) == len(errors) == 11
    assert ["to orders" in problem.title for problem in found] == [True, False]
    assert all("Publisher does not exist" in problem.title for problem in found)


def test_silence_guest_login_and_another_protocol_are_named() -> None:
    (silent,) = told("heartbeat-missed.pcap")["rabbitmq_stream.heartbeat"]
    ended, _ = truth("heartbeat-missed")["client_says"]["ended"]
    assert f"silent for {ended:.1f} s, with a heartbeat of 2 s" in silent.title
    assert truth("guest-not-local")["client_says"]["code_of_SaslAuthenticateResponse"] == 11
    assert set(told("guest-not-local.pcap")) == {"rabbitmq_stream.guest-not-local"}
    (other,) = told("amqp-at-stream-port.pcap")["protocol.mismatch"]
    assert "127.0.0.1 speaks AMQP to 127.0.0.1:5572, the RabbitMQ Stream port" in other.title


def test_a_large_segment_that_never_arrives_makes_the_mtu_suspect() -> None:
    (problem,) = told("mtu-black-hole.pcap")["tcp.no-ack"]
    assert problem.details == [
        "orders-publisher (#2) sent 1,448 bytes again 9 times, for 13.287 s, a segment of full size, while others came "
        "through: suspect the MTU of the path"
    ]
    assert "tcp.loss" not in told("mtu-black-hole.pcap")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("network-cut.pcap", "did not acknowledge what was sent to it either: see tcp.no-ack"),
        ("broker-stopped.pcap", "acknowledged meanwhile: its process or a proxy was stopped or busy, not the network"),
    ],
)
def test_a_stopped_broker_and_a_cut_network_are_distinguished(name: str, why: str) -> None:
    found = told(name)
    (problem,) = found["rabbitmq_stream.heartbeat"]
    assert problem.details[1:] == [f"its host {why}"]
    assert ("tcp.no-ack" in found) == ("cut" in name)


def test_a_credit_of_one_over_a_long_way() -> None:
    (problem,) = told("credit-far-away.pcap")["rabbitmq_stream.credit-starvation"]
    assert "a round trip takes 8" in problem.details[2]
    assert "the round trip is long" in problem.likely


def test_a_deleted_stream_names_the_deleter_and_the_affected_clients() -> None:
    (problem,) = told("stream-deleted-in-use.pcap.zst")["rabbitmq_stream.stream-deleted"]
    assert "cleanup-job (#5) deleted stream a-del" in problem.title
    assert problem.title.endswith("orders-publisher (#3), billing (#4)")
    assert problem.details[1:] == ["orders-publisher (#6) asked for it at 2.737 s, in vain"]


def test_redeliveries_equal_those_of_the_client() -> None:
    (problem,) = told("never-acknowledged.pcap")["nats.redelivered"]
    assert problem.count == truth("never-acknowledged")["client_says"]["deliveries"] - 10
    assert "40 messages wait behind them" in problem.details


def test_a_broker_that_went_down_and_was_asked_again() -> None:
    (refused,) = told("broker-killed.pcap")["tcp.refused"]
    assert any(detail.startswith("the server ended") for detail in refused.details)
    assert refused.likely == "the server went down"


def test_a_refused_publish_is_reported_by_one_code() -> None:
    problems = check(STORIES / "publishes-refused.pcap")
    assert [problem.name for problem in problems if "decode_failed" in problem.title] == ["publish.refused"]


def test_credit_that_is_given_before_chunks_are_read() -> None:
    assert set(told("early-credit.pcap.zst")) == {"rabbitmq_stream.early-credit", "tcp.zero-window"}


def test_a_request_without_answer_waits_until_the_last_packet_of_the_capture() -> None:
    """The packets after it belong to connections that end before the last frame."""
    (problem,) = named(check(CAPTURES / "rabbitmq-stream" / "d_drop1pct.pcap"), "request.unanswered")
    assert problem.title == "Open of rabbitmq_stream was not answered, but not all that came back was captured"


def test_a_stream_that_a_client_deleted_is_not_unavailable_where_the_capture_begins_late() -> None:
    """The virtual hosts of the connections that were open already are not known."""
    first, *rest = open_capture([str(STORIES / "consumer-stopped.pcap.zst")], batch_packets=175)
    assert len(first) == 175  # of 875
    assert worse(check(rest)) == []
