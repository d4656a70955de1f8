"""Problems between RabbitMQ and its clients, with a near case each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.check import crafted_amqp as crafted
from tests.check.support import CAPTURES, check, named
from wiredecode.protocols.amqp091.problems_routing import fits
from wiredecode.protocols.shared.problems import Problem

FULL, AGAIN, LATE = "amqp091.prefetch", "amqp091.redelivery-loop", "amqp091.ack-timeout"


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        (FULL, lambda: crafted.full(6.0)),
        (FULL, lambda: crafted.full(6.0, global_scope=1)),
        (AGAIN, lambda: crafted.comes_back(12)),
        (AGAIN, lambda: crafted.died(10)),
        (
            LATE,
            lambda: crafted.timed_out("delivery acknowledgement on channel 1 timed out. Timeout value used: 30000 ms"),
        ),
        ("amqp091.heartbeat", lambda: crafted.beats(2, 7)),
        ("amqp091.channel-closed", lambda: crafted.closed(1, 404)),
        ("amqp091.blocked", crafted.alarm),
        ("amqp091.dropped", lambda: crafted.routed("topic", "order.*", "order.eu.new")),
        ("amqp091.dropped", lambda: crafted.routed("direct", "order", "orders")),
        ("consumer.too-slow", lambda: crafted.behind(20)),
    ],
)
def test_it_is_found_once(code: str, problems: Callable[[], list[Problem]]) -> None:
    assert len(named(problems(), code)) == 1


@pytest.mark.parametrize(
    ("code", "problems"),
    [
        (FULL, lambda: crafted.full(6.0, prefetch=3)),  # it may have one more
        (FULL, lambda: crafted.full(6.0, prefetch=3, global_scope=1)),
        (AGAIN, lambda: crafted.comes_back(9)),
        (AGAIN, lambda: crafted.comes_back(12, requeue=0)),  # others with the same body
        (AGAIN, lambda: crafted.died(9)),
        (AGAIN, lambda: crafted.died(100, b"expired")),  # a queue that delays
        ("amqp091.channel-closed", lambda: crafted.closed(0, 404)),  # by the client
        ("amqp091.channel-closed", lambda: crafted.closed(1, 200)),
        ("amqp091.blocked", lambda: crafted.alarm(False)),
        ("amqp091.dropped", lambda: crafted.routed("fanout", "", "orders")),
        ("amqp091.dropped", lambda: crafted.routed("headers", "", "orders")),
        ("consumer.too-slow", lambda: crafted.behind(99)),
        ("consumer.too-slow", lambda: crafted.behind(20, others=1)),
    ],
)
def test_a_near_case_is_none(code: str, problems: Callable[[], list[Problem]]) -> None:
    assert not named(problems(), code)


def test_what_was_published_during_an_alarm_is_counted() -> None:
    (problem,) = named(crafted.alarm(), "amqp091.blocked")
    assert problem.details == ["1 message published meanwhile waited"]


def test_the_server_that_waited_too_long_is_not_reported_as_a_closed_channel() -> None:
    assert {each.name for each in check(CAPTURES / "amqp091" / "ack-timeout.pcap.zst")} & {
        "amqp091.channel-closed",
        LATE,
    } == {LATE}


@pytest.mark.parametrize(
    ("pattern", "key", "taken"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("a.#", "a", True),
        ("a.*", "a", False),
        ("a.*", "a.b", True),
        ("a.#.d", "a.d", True),
        ("a.#.d", "a.b.c.d", True),
        ("a.#.d", "a.b.c", False),
        ("*.b", "a.c", False),
        ("", "", True),
        ("", "a", False),
        ("#." * 60 + "x", "a." * 100 + "y", False),
    ],
)
def test_words_of_topics_fit(pattern: str, key: str, taken: bool) -> None:
    assert fits("topic", pattern, key) is taken


def test_jobs_that_take_the_same_long_time_again_and_again_are_no_problem() -> None:
    assert [each.severity for each in named(crafted.long_jobs(7.0, 7.5, 6.8), FULL)] == ["note"]
    assert [each.severity for each in named(crafted.long_jobs(0.5, 0.6, 7.0), FULL)] == ["warning"]


@pytest.mark.parametrize(("again", "severity"), [("mail", "note"), ("user.3", "warning")])
def test_a_returned_message_that_is_published_elsewhere_is_handled(again: str, severity: str) -> None:
    (problem,) = named(crafted.returned(again), "amqp091.returned")
    assert problem.severity == severity
