"""Kafka's problems on captures of real brokers and clients: what is named is what the clients say."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wiredecode
from tests.check.cases import kafka
from tests.check.support import CAPTURES, check, named, talk, worse
from tests.net import craft
from wiredecode.check import Problem
from wiredecode.check.causes import group_by_cause
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.testing import build

KAFKA = CAPTURES / "kafka"


def titles_by_code(name: str) -> dict[str, list[str]]:
    """The titles of problems that are no notes, by code."""
    found: dict[str, list[str]] = {}
    for problem in group_by_cause(check(KAFKA / f"{name}.pcap.zst")):
        if problem.severity != "note":
            found.setdefault(problem.name, []).append(problem.title)
    return found


def events(name: str, what: str) -> list[dict[str, Any]]:
    truth = json.loads((KAFKA / f"{name}.truth.json").read_bytes())
    return [event for event in truth["events"] if event["what"] == what]


@pytest.mark.parametrize(
    ("name", "address", "how"),
    [
        ("advertised-refused", "127.0.0.1:9999", "where the connection is refused"),
        ("advertised-unknown", "kafka-1.internal:9092", "no connection to it follows"),
    ],
)
def test_an_address_that_clients_cannot_reach_is_the_only_problem(name: str, address: str, how: str) -> None:
    assert list(found := titles_by_code(name)) == ["kafka.advertised-listener"]
    assert all(address in what and how in what for what in found["kafka.advertised-listener"])


def test_every_error_of_the_clients_has_its_problem() -> None:
    found = titles_by_code("errors")
    assert events("errors", "too large")[0]["client"] in found["kafka.too-large"][0]
    assert events("errors", "fenced")[0]["client"] in found["kafka.fenced"][0]
    users = [what.split(" ")[0] for what in found["kafka.sasl-failed"]]
    assert users == ["alice-app", "alice-py", "scram-app"]
    assert ["plain-app" in what for what in found["kafka.not-logged-in"]] == [True]
    assert "old-app" in found["kafka.unsupported-version"][0]
    assert "Produce version 1: it has 3 to 13" in found["kafka.unsupported-version"][0]
    assert "records for small[0] with acks=0" in found["kafka.acks-none-lost"][0]
    (lost,) = [p for p in check(KAFKA / "errors.pcap.zst") if p.name == "kafka.acks-none-lost"]
    assert lost.count == len(events("errors", "acks 0 too large")[0]["delivered"]) == 3  # the client says: delivered


def test_a_consumer_that_does_not_poll_is_named_and_the_times_are_the_clients() -> None:
    found = titles_by_code("max-poll")
    assert list(found) == ["kafka.max-poll"]
    assert found["kafka.max-poll"][0].startswith("report-slow (#3) left group reports for 2.1")
    busy, failed = events("max-poll", "busy")[0], events("max-poll", "commit failed")[0]
    assert failed["at_epoch_s"] - busy["at_epoch_s"] == pytest.approx(
        6 + 0.396 + 2.104, abs=0.02
    )  # of the client's log


def test_a_group_that_never_rests_and_a_throttled_client_are_named() -> None:
    assert list(titles_by_code("rebalance")) == ["kafka.rebalance-storm"]
    assert list(found := titles_by_code("throttle")) == ["kafka.throttled"]
    longest = max(event["s"] for event in events("throttle", "throttled"))
    assert f"up to {longest:.3f} s" in found["kafka.throttled"][0]


def test_a_stopped_broker_moves_leaders_and_the_coordinator() -> None:
    found = titles_by_code("failover")
    (stopped,) = events("failover", "SIGTERM broker")
    assert (stopped["broker"], stopped["coordinator_of"]) == (1, "billing")  # at 127.0.0.1:9092
    assert found["server.ended"][0].startswith("127.0.0.1:9092 ended all its 3 connections")
    all_found = check(KAFKA / "failover.pcap.zst")
    (moved,) = named(all_found, "kafka.coordinator-moved")
    assert (moved.severity, moved.title) == ("note", "127.0.0.1:9092 no longer coordinates billing-1 (#14)")
    passing = named(all_found, "kafka.not-leader")
    assert {problem.severity for problem in passing} == {"note"}  # clients found the new leaders immediately
    assert all(problem.title.startswith("127.0.0.1:9092 does not lead ") for problem in passing)


def test_a_refusal_that_clients_may_overcome_is_a_note_until_it_lasts() -> None:
    assert [[problem.severity for problem in named(kafka(6, times), "kafka.not-leader")] for times in (1, 2, 3)] == [
        ["note"],
        ["note"],
        ["warning"],
    ]


def test_a_topic_that_is_deleted_in_use_and_who_did_it() -> None:
    assert titles_by_code("deleted") == {"kafka.unknown-topic": ["10.77.0.1:9092 does not have topic c6"]}
    (problem,) = named(check(KAFKA / "deleted.pcap.zst"), "kafka.unknown-topic")
    assert problem.details == ["app (#9) deleted it at 4.620 s: frame 167"]
    assert problem.likely == "the topic was deleted while it was used"


def test_a_user_without_permission_is_one_problem_of_its_client() -> None:
    (event,) = events("denied", "denied")
    what = f"{event['client']} has no permission for Metadata {event['topic']}: {event['error']}"
    assert titles_by_code("denied") == {"kafka.denied": [what]}


def test_an_offset_that_the_log_does_not_have() -> None:
    assert titles_by_code("out-of-range") == {
        "kafka.offset-out-of-range": ["reader asks for offsets that c7 does not have"]
    }


def test_committed_offsets_and_lag_are_those_of_the_clients() -> None:
    rows = wiredecode.stats(KAFKA / "groups.pcap.zst", tables=["consumers"])["consumers"].to_pylist()
    last = {(row["what"], row["of"]): row["last"] for row in rows}
    for event in events("groups", "committed"):
        for partition, offset in event["offsets"]:
            if offset >= 0:  # -1001: nothing was read there
                of = f"orders[{partition}], group {event['group']}"
                assert last["position", of] == offset
    ends = events("groups", "watermarks")[0]["marks"]
    assert (
        last["lag", "orders[1], group auditors"] == ends["1"][1] - last["position", "orders[1], group auditors"] == 58
    )


def message(name: str, version: int, **values: Any) -> bytes:
    return bytes(build(layer_of(name, version), {"api_version": version, "client_id": "app-1", **values}))


def response(name: str, version: int, **values: Any) -> bytes:
    return bytes(build(layer_of(name, version), values))


def produce(number: int) -> bytes:
    """A publish that waits for all replicas."""
    topic = {"topic": "orders", "partition_data": [{"index": 3, "batches": b""}]}
    return message("ProduceRequest", 8, acks=-1, topic_data=[topic], correlation_id=number)


def produced(number: int, error: int = 0) -> bytes:
    """The response to :func:`produce`."""
    topic = {"topic": "orders", "partition_responses": [{"index": 3, "error": error, "base_offset": 7}]}
    return response("ProduceResponse", 8, responses=[topic], correlation_id=number)


def checked_by_time(packets: list[tuple[float, bytes]]) -> list[Problem]:
    return check(craft.batches(sorted(packets, key=lambda packet: packet[0])))


def test_a_broker_that_refuses_from_the_first_packet_on_explains_what_waits_at_another() -> None:
    live = craft.Talk(server=("10.0.0.2", 9092))
    packets: list[Any] = [*live.handshake()]
    for at in (0.1, 0.2, 0.3):
        packets += [(at, part) for part in live.send(0, produce(round(at * 10)))]
        down = craft.Talk(client=("10.0.0.1", 40001 + round(at * 10)), server=("10.0.0.3", 9092))
        packets += [down.packet(0, seq=down.isn[0], flags=craft.SYN), down.packet(1, flags=craft.RST | craft.ACK)]
    for number in (1, 2, 3):
        packets += [(3 + number / 100, part) for part in live.send(1, produced(number))]
    (refused,) = (each for each in group_by_cause(check(craft.batches(packets))) if each.severity != "note")
    assert refused.title == "10.0.0.3:9092 refused 3 connections"
    assert "server.stalled" in {each.name for each in refused.effects}


@pytest.mark.parametrize(("leaves", "expected"), [("app-1-x", []), ("app-1-y", ["kafka.no-member"])])
def test_a_member_that_leaves_its_group_on_another_connection_than_it_joined_on(
    leaves: str, expected: list[str]
) -> None:
    member = {"group_id": "billing", "generation_id": 3, "member_id": "app-1-x"}
    first, second = (craft.Talk(client=("10.0.0.1", port), server=("10.0.0.2", 9092)) for port in (40001, 40002))
    packets: list[Any] = [*first.handshake(), *second.handshake()]
    packets += first.send(0, message("HeartbeatRequest", 3, **member))
    packets += first.send(1, response("HeartbeatResponse", 3))
    packets += second.send(0, message("LeaveGroupRequest", 3, group_id="billing", members=[{"member_id": leaves}]))
    packets += [*second.send(1, response("LeaveGroupResponse", 3)), *second.close(), *first.close()]
    packets.append((9.0, first.ack(0)))
    assert worse(check(craft.batches(packets))) == expected


@pytest.mark.parametrize(("max_wait_ms", "expected"), [(500, ["server.stalled"]), (5000, [])])
def test_a_broker_whose_followers_wait_for_longer_than_they_asked_for_is_stalled(
    max_wait_ms: int, expected: list[str]
) -> None:
    packets: list[tuple[float, bytes]] = []
    for port in (40001, 40002):
        talk = craft.Talk(client=("10.0.0.3", port), server=("10.0.0.2", 9094))
        packets += [(0.01, part) for part in talk.handshake()]
        for number, asked, answered in ((1, 0.1, 0.2), (2, 0.3, 4.3)):
            request = message("FetchRequest", 11, max_wait_ms=max_wait_ms, replica_id=3, correlation_id=number)
            answer = response("FetchResponse", 11, correlation_id=number)
            packets += [(asked, part) for part in talk.send(0, request)]
            packets += [(answered, part) for part in talk.send(1, answer)]
    assert worse(checked_by_time(packets)) == expected


def test_requests_after_an_idle_connection_was_ended_are_no_problem_of_their_own() -> None:
    packets: list[tuple[float, bytes]] = []
    for number in range(3):
        talk, at = craft.Talk(client=("10.0.0.1", 40001 + number), server=("10.0.0.2", 9092)), 2.0 * number
        packets += [(at, part) for part in talk.handshake()]
        packets += [(at + 0.1, part) for part in talk.send(0, produce(1))]
        packets += [(at + 0.2, part) for part in talk.send(1, produced(1))]
        packets.append((at + 3.2 + number / 5, talk.packet(1, flags=craft.FIN | craft.ACK)))
        packets += [(at + 4.8, part) for part in talk.send(0, produce(1))]
        packets.append((at + 4.81, talk.packet(1, flags=craft.RST)))
    (idle,) = group_by_cause(checked_by_time(packets))
    assert idle.title == "10.0.0.2:9092 ended 3 connections after 3.0 s without data"
    assert {each.name for each in idle.effects} == {"publish.unconfirmed"}


def test_a_broker_that_answers_some_publishes_waits_for_the_one_that_answers_none() -> None:
    packets: list[tuple[float, bytes]] = []
    waits = {40001: [(1.0, 9.5)], 40002: [(1.1, 6.0), (6.1, 9.5)], 40003: [(1.2, 9.0)], 40004: [(1.3, 9.0)]}
    for port, exchanges in waits.items():
        talk = craft.Talk(client=("10.0.0.1", port), server=("10.0.0.2" if port < 40003 else "10.0.0.3", 9092))
        packets += [(0.1, part) for part in talk.handshake()]
        for number, (begin, end) in enumerate([(0.2, 0.3), *exchanges]):
            packets += [(begin, part) for part in talk.send(0, produce(number))]
            packets += [(end, part) for part in talk.send(1, produced(number, error=7 if end == 6.0 else 0))]
    first, *others = group_by_cause(checked_by_time(packets))
    assert first.title == "10.0.0.3:9092 stalled for 7.800 s: 2 publishes waited"
    assert {each.severity for each in others} <= {"note"}


@pytest.mark.parametrize("waiting", [1, 2])
def test_a_host_that_answers_no_syn_either_is_no_stalled_server_unless_its_accept_queue_is_full(waiting: int) -> None:
    packets: list[tuple[float, bytes]] = []
    for port in (40001, 40002)[:waiting]:
        talk = craft.Talk(client=("10.0.0.1", port), server=("10.0.0.2", 9092))
        packets += [(1.0, part) for part in talk.handshake()]
        packets += [(1.1, part) for part in talk.send(0, produce(1))]
        packets += [(9.0, part) for part in talk.send(1, produced(1))]
    other = craft.Talk(client=("10.0.0.1", 40003), server=("10.0.0.2", 9092))
    packets += [(at, other.packet(0, seq=other.isn[0], flags=craft.SYN)) for at in (1.2, 2.2, 4.2)]
    found = group_by_cause(checked_by_time(packets))
    assert {each.name for each in found} == {"tcp.no-answer", *(["server.stalled"] if waiting > 1 else [])}


@pytest.mark.parametrize("hung", [False, True])
def test_a_member_that_waits_for_its_group_is_not_accused_and_one_that_does_not_join_again_is(hung: bool) -> None:
    asked = {"group_id": "billing", "rebalance_timeout_ms": 6000, "protocol_type": "consumer"}
    waits, works = (craft.Talk(client=("10.0.0.1", port), server=("10.0.0.2", 9092)) for port in (40001, 40002))
    packets: list[tuple[float, bytes]] = [(0.1, part) for talk in (waits, works) for part in talk.handshake()]
    packets += [(0.2, part) for part in waits.send(0, message("JoinGroupRequest", 5, member_id="app-1-x", **asked))]
    for second in range(1, 10):
        beat = message("HeartbeatRequest", 3, group_id="billing", member_id="app-1-y", correlation_id=second)
        error = 27 if hung or second < 3 else 0
        answer = response("HeartbeatResponse", 3, correlation_id=second, error=error)
        packets += [(second, part) for part in (*works.send(0, beat), *works.send(1, answer))]
    left = message("LeaveGroupRequest", 3, group_id="billing", members=[{"member_id": "app-1-x"}])
    packets += [(5.5, part) for part in waits.send(0, left)]
    packets += [(9.5, part) for part in waits.send(1, response("JoinGroupResponse", 5))]
    found = named(checked_by_time(packets), "kafka.max-poll")
    title = "group billing waits for connection #2 from 0.900 s on: it does not join again"
    assert [(each.title, each.severity) for each in found] == [(title, "warning")] * hung


@pytest.mark.parametrize(("error", "until", "severities"), [(5, 4, ["error"]), (5, 2, ["note"]), (9, 4, [])])
def test_a_partition_without_leader_is_an_error_if_it_lasts(error: int, until: int, severities: list[str]) -> None:
    topic = {"topic": "thumbs", "partitions": [{"error": error, "partition_index": 3, "leader_id": -1}]}
    said = []
    for second in range(1, until):
        answer = response("MetadataResponse", 4, correlation_id=second, topics=[topic])
        request = message("MetadataRequest", 4, topics=[{"name": "thumbs"}], correlation_id=second)
        said += [(float(second), 0, request), (second + 0.1, 1, answer)]
    found = named(talk(9092, *said), "kafka.no-leader")
    assert [(each.title, each.severity) for each in found] == [("no broker leads thumbs", each) for each in severities]


@pytest.mark.parametrize(("first", "stalled"), [(8.0, True), (5.5, False)])
def test_a_broker_that_resumes_and_answers_one_client_later_than_another_was_stalled(
    first: float, stalled: bool
) -> None:
    packets: list[tuple[float, bytes]] = []
    for port, answered in ((40001, first), (40002, 9.6)):
        talk = craft.Talk(client=("10.0.0.1", port), server=("10.0.0.2", 9092))
        packets += [(0.1, part) for part in talk.handshake()]
        for number, (begin, end) in enumerate([(0.2, 0.3), (1.0, answered), (1.1, answered), (1.2, answered)]):
            request = message("MetadataRequest", 4, topics=[{"name": "orders"}], correlation_id=number)
            answer = response("MetadataResponse", 4, correlation_id=number)
            packets += [(begin, part) for part in talk.send(0, request)]
            packets += [(end, part) for part in talk.send(1, answer)]
    found = named(checked_by_time(packets), "server.stalled")
    assert bool(found) is stalled
