"""Messages without offsets: loops, and consumers that get nothing from a time on; and near cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check import crafted
from wiredecode.protocols.shared.problems import Problem

Said = tuple[float, str, int, bytes]


def test_a_message_that_goes_round() -> None:
    (found,) = crafted.rounds(40)
    assert (found.name, found.severity, found.count) == ("flow.loop", "warning", 40)
    assert found.title == "messages go round: relay passes orders.new on to orders.new, 40 times"


@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"to": "done.new"}, id="a worker that passes messages on"),
        pytest.param({"every": 1.0}, id="a client that says each second that it is there"),
        pytest.param({"ahead": 3}, id="a client that measures its own echo"),
        pytest.param({"reply": "_INBOX.x "}, id="a service that asks itself"),
        pytest.param({"count": 10}, id="a few messages that are tried again"),
    ],
)
def test_what_is_no_loop(how: dict[str, Any]) -> None:
    assert "flow.loop" not in {each.name for each in crafted.rounds(**{"count": 40, **how})}


def test_a_publisher_that_begins_anew_each_time_it_starts() -> None:
    (found,) = crafted.begins_anew(3)
    says = "importer published 24 messages to lines again after it came back: "
    assert found.title == says + "they have no id by which they are stored once"


@pytest.mark.parametrize(
    ("lives", "known"),
    [pytest.param(3, True, id="with ids"), pytest.param(2, False, id="once, as a service that tells its state")],
)
def test_what_is_published_again_on_purpose(lives: int, known: bool) -> None:
    assert crafted.begins_anew(lives, known=known) == []


def flow(*more: Said, until: float = 4.0, queue: str = "", own: bytes = b"", late: int = 0) -> list[Problem]:
    """A message each 0.1 s for 12 s, which the consumer gets until a time; ``late``: others get it from then on."""
    said: list[Said] = [(0.3, "worker", 0, f"SUB orders.> {queue}1\r\n".encode()), *more]
    for number in range(120):
        at, text = 1 + number / 10, b"%05d" % number
        said.append((at, "orders-api", 0, b"PUB orders.new 5\r\n%s\r\n" % text))
        if at < until or late:
            who = "worker" if at < until else "worker-2"
            said.append((at + 0.001, who, 1, b"MSG orders.new 1 5\r\n%s\r\n" % text))
    said += [(at + 0.5, "worker", 0, b"PING\r\n") for at in range(1, 13)] + [(13.0, "worker", 0, own)] * bool(own)
    said += [(at + 0.51, "worker", 1, b"PONG\r\n") for at in range(1, 13)]
    return [
        each for each in crafted.subjects(*sorted(said, key=lambda each: each[0])) if each.name == "flow.nothing-since"
    ]


@pytest.mark.parametrize("queue", ["", "workers "])
def test_a_consumer_that_gets_nothing_from_a_time_on(queue: str) -> None:
    (found,) = flow(queue=queue)
    who = "workers" if queue else "worker"
    assert found.title == f"{who} gets nothing of orders.new since 3.801 s, while 90 were published"
    assert found.details[0] == "until then it got 30 of 30 messages"


def test_a_consumer_that_asked_for_a_number_of_messages_and_stays_without_asking_for_more() -> None:
    (found,) = flow((0.4, "worker", 0, b"UNSUB 1 30\r\n"))
    assert found.severity == "warning"
    assert found.title.endswith("while 90 were published: it had asked for 30 messages and no more")


@pytest.mark.parametrize(
    ("more", "how"),
    [
        pytest.param([], {"until": 99.0}, id="it gets all"),
        pytest.param([(4.0, "worker", 0, b"UNSUB 1\r\n")], {}, id="it unsubscribed"),
        pytest.param(
            [(0.4, "worker", 0, b"UNSUB 1 110\r\n")], {"until": 99.0}, id="it wants a number, and the rest is no loss"
        ),
        pytest.param(
            [(0.3, "worker-2", 0, b"SUB orders.> workers 1\r\n")],
            {"queue": "workers ", "late": 1},
            id="another member of its group gets them",
        ),
        pytest.param([], {"until": 1.2}, id="it had few"),
        pytest.param([], {"until": 12.0}, id="it misses the last ones"),
    ],
)
def test_a_consumer_that_has_a_reason_to_get_nothing(more: list[Said], how: dict[str, Any]) -> None:
    assert flow(*more, **how) == []
