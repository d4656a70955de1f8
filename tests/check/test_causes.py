"""Problems with one cause are one: consequences below it, equal problems joined."""

from __future__ import annotations

from wiredecode.check.causes import group_by_cause
from wiredecode.check.codes import CODES
from wiredecode.protocols.shared.codes import Code, codes_of
from wiredecode.protocols.shared.problems import Problem

SECOND = 1_000_000_000
RABBITMQ = codes_of("rabbitmq_stream")


def problem(code: Code, member: int, first: float, last: float, alike: str = "") -> Problem:
    made = Problem(code, code.severity, code.code, f"{code.code} of {member}", 1, alike=alike)
    made.first_ns, made.last_ns = round(first * SECOND), round(last * SECOND)
    made.members, made.servers = {member}, {"10.0.0.2:5552"}
    return made


def test_a_consequence_of_another_connection_or_before_its_cause_stays() -> None:
    cause = problem(CODES["tcp.no-ack"], 1, 10, 20)
    mine, other = problem(CODES["tcp.reset"], 1, 21, 21), problem(CODES["tcp.reset"], 2, 21, 21)
    early = problem(CODES["tcp.loss"], 1, 1, 2)
    assert group_by_cause([mine, other, early, cause]) == [cause, other, early]
    assert cause.effects == [mine]


def test_a_stall_explains_all_connections_to_the_server_during_its_time() -> None:
    stall = problem(CODES["server.stalled"], 1, 10, 13)
    late, later = (problem(CODES["publish.slow-confirm"], 2, begin, 30) for begin in (12, 25))
    assert group_by_cause([later, late, stall]) == [stall, later]
    assert stall.effects == [late]


def test_a_server_that_was_away_explains_elections_and_replicas_that_lag_afterwards() -> None:
    away = problem(CODES["tcp.refused"], 1, 10, 13)
    effects = [problem(codes_of("liftbridge")[name], 2, 20, 22) for name in ("isr-shrink", "replica-lag", "election")]
    effects[-1].severity = "warning"
    assert group_by_cause([*effects, away]) == [away]


def test_a_cut_path_explains_other_connections_of_both_hosts_and_of_no_others() -> None:
    cut, here, elsewhere = (problem(CODES[name], 1, 10, 20) for name in ("tcp.no-ack", "tcp.no-answer", "tcp.reset"))
    here.members, elsewhere.members = {2}, {3}
    cut.paths = here.paths = {("10.0.0.1", "10.0.0.2")}
    elsewhere.paths = {("10.0.0.2", "10.0.0.7")}
    assert group_by_cause([elsewhere, here, cut]) == [cut, elsewhere]
    assert cut.effects == [here]


def test_a_cause_is_as_severe_as_its_worst_consequence() -> None:
    stall, lost = problem(CODES["server.stalled"], 1, 10, 13), problem(CODES["request.unanswered"], 1, 11, 12)
    lost.severity = "error"
    (found,) = group_by_cause([lost, stall])
    assert (found.name, found.severity) == ("server.stalled", "error")


def test_ten_equal_refusals_are_one_with_a_list() -> None:
    parts = [problem(RABBITMQ["not-started"], number, number, number, "Access refused") for number in range(1, 11)]
    other = problem(RABBITMQ["not-started"], 11, 3, 3, "Stream does not exist")
    joined, alone = group_by_cause([*parts, other])
    assert joined.title == "10 publishers, consumers or requests were refused: Access refused"
    assert (joined.count, len(joined.members), joined.details[-1]) == (10, 10, "and 3 more")
    assert (joined.first_ns, joined.last_ns) == (SECOND, 10 * SECOND)
    assert alone is other


def test_a_server_that_is_down_explains_what_its_clients_wait_for_elsewhere() -> None:
    down = problem(CODES["tcp.refused"], 1, 5, 9)
    near, elsewhere = (problem(CODES[name], 2, 6, 8) for name in ("publish.slow-confirm", "request.unanswered"))
    lost, other = problem(CODES["publish.unconfirmed"], 4, 6, 8), problem(CODES["server.stalled"], 5, 6, 8)
    for last, each in enumerate((near, elsewhere, lost, other), 3):
        each.servers = {f"10.0.0.{last}:5552"}
    for each in (down, near, lost):
        each.users = {("10.0.0.9", "kafka"), ("10.0.0.9", "nats")} if each is down else {("10.0.0.9", "kafka")}
    elsewhere.users, other.users = {("10.0.0.8", "kafka")}, {("10.0.0.9", "tank")}
    left = group_by_cause([near, elsewhere, lost, other, down])
    assert set(left) == {down, elsewhere, lost, other}
    assert down.effects == [near]


def test_the_longest_stall_explains_shorter_ones_of_replicas() -> None:
    short, long = problem(CODES["server.stalled"], 1, 6, 8), problem(CODES["server.stalled"], 2, 5, 9)
    short.weight, long.weight, long.servers = 2, 4, {"10.0.0.3:5552"}
    short.users = long.users = {("10.0.0.9", "kafka")}
    assert group_by_cause([short, long]) == [long]
    assert long.effects == [short]


def test_a_host_that_refuses_connections_resets_those_to_its_other_ports() -> None:
    refused, reset, other = (
        problem(CODES["tcp.refused"], 1, 5, 9),
        *(problem(CODES["tcp.reset"], n, 4, 4) for n in (2, 3)),
    )
    reset.servers = other.servers = {"10.0.0.2:5553"}
    refused.users = reset.users = {("10.0.0.9", "rabbitmq_stream")}
    other.users = {("10.0.0.8", "rabbitmq_stream")}
    assert group_by_cause([reset, other, refused]) == [refused, other]


def test_a_server_that_stalls_again_and_again_has_the_time_of_all_its_stalls() -> None:
    stalls = [problem(CODES["server.stalled"], 1, begin, begin + 2) for begin in (10, 14, 18)]
    between = problem(CODES["publish.slow-confirm"], 2, 27, 28)
    for weight, stall in enumerate(stalls):
        stall.weight = weight
    assert group_by_cause([*stalls, between]) == [stalls[2], between]
    assert (stalls[2].first_ns, stalls[2].last_ns, stalls[2].count) == (10 * SECOND, 20 * SECOND, 3)


def test_a_member_that_is_dropped_after_the_last_of_several_stalls_of_another_broker() -> None:
    long, short, dropped = (
        problem(CODES["server.stalled"], 1, 5, 11),
        problem(CODES["server.stalled"], 1, 11, 15),
        problem(codes_of("kafka")["kicked-out"], 2, 16, 16),
    )
    long.weight, dropped.servers = 2, {"10.0.0.3:9092"}
    long.users = dropped.users = {("10.0.0.9", "kafka")}
    assert group_by_cause([dropped, short, long]) == [long]


def test_what_lasts_comes_before_what_is_over() -> None:
    over, lasting = problem(CODES["tcp.refused"], 1, 10, 11), problem(CODES["server.ended"], 2, 30, 40)
    over.weight, over.is_over, over.servers = 50, True, {"10.0.0.9:5552"}
    assert group_by_cause([over, lasting]) == [lasting, over]
