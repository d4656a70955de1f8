"""NATS: what clients and servers do wrong, by a capture with the clients' own account and by crafted ones."""

from __future__ import annotations

import json
import re

import pytest

from tests.check.support import CAPTURES, check, worse
from tests.net import craft
from tests.view.frames import CLIENT, SERVER
from wiredecode.check import Problem

LIMITS = CAPTURES / "nats" / "60-limits.pcap"
SECOND = 10**9


@pytest.fixture(scope="module")
def limits() -> list[Problem]:
    return check(LIMITS)


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, list[str]]]:
    clients: dict[str, dict[str, list[str]]] = json.loads(LIMITS.with_suffix(".truth.json").read_bytes())["clients"]
    return clients


def talk(*said: tuple[float, int, bytes]) -> list[Problem]:
    """One connection; what was said, with seconds since its beginning."""
    made = craft.Talk(server=("10.0.0.2", 4222))
    packets: list[bytes | tuple[float, bytes]] = [*made.handshake()]
    hello = b'INFO {"server_id":"A","version":"2.9.10","proto":1,"max_payload":16909060}\r\n'
    packets += [(0.01, part) for part in made.send(SERVER, hello)]
    connect = b'CONNECT {"verbose":false,"lang":"go","name":"billing","user":"app"}\r\n'
    packets += [(0.02, part) for part in made.send(CLIENT, connect)]
    for seconds, side, data in said:
        packets += [(seconds, part) for part in made.send(side, data)]
    return check(craft.batches(packets))


def test_every_error_that_a_client_got_is_told_with_its_name(
    limits: list[Problem], told: dict[str, dict[str, list[str]]]
) -> None:
    text = "\n".join([problem.what for problem in limits] + [str(problem.connections) for problem in limits])
    for client, account in told.items():
        for error in account["errors"]:
            assert client in text or "maximum connections" in error, client
            words = re.sub("-ERR '|'$", "", error)
            assert words in text or words in ("Stale Connection", "Maximum Payload Violation"), error


def test_who_is_silent_too_large_or_too_slow_is_named(limits: list[Problem]) -> None:
    whats = {problem.name: problem.what for problem in limits}
    assert whats["nats.stale"].startswith("stuck (#9) did not answer 2 PINGs")
    assert whats["nats.max-payload"].startswith("big-sender (#3) published to orders.big: a payload of 9000 bytes")
    assert whats["nats.slow-consumer"].startswith("report (#12) is a slow consumer on subscription 21 orders.eu")
    assert not any("lazy" in problem.what for problem in limits)  # it missed a PING, and answered the next


def test_a_slow_consumer_that_was_not_cut_off_is_a_warning(limits: list[Problem]) -> None:
    (slow,) = [problem for problem in limits if problem.name == "nats.slow-consumer"]
    assert slow.severity == "warning"
    assert any(detail.startswith("before, its window was closed for 1.5") for detail in slow.details)


def test_requests_that_nobody_answers_are_told_by_subject(limits: list[Problem]) -> None:
    found = {problem.what: problem for problem in limits if problem.name == "nats.no-responders"}
    gone, maybe = (found[f"nobody answers requests to svc.{name}"] for name in ("gone", "maybe"))
    assert (gone.severity, gone.count) == ("warning", 3)
    assert (maybe.severity, maybe.count) == ("note", 1)


@pytest.mark.parametrize(
    ("pings", "answered", "severity"),
    [
        ((1.0, 3.5), None, "warning"),
        ((1.0,), None, "note"),  # a client may be busy for some seconds
        ((1.0, 3.5), 3.6, None),
        ((4.5,), None, None),  # the capture ends before it had time
    ],
)
def test_pings_of_the_server(pings: tuple[float, ...], answered: float | None, severity: str | None) -> None:
    said = [(seconds, SERVER, b"PING\r\n") for seconds in pings]
    said += [] if answered is None else [(answered, CLIENT, b"PONG\r\n")]
    found = talk(*said, (5.0, CLIENT, b"PUB orders 2\r\nhi\r\n"))
    assert [problem.severity for problem in found if problem.name == "nats.missed-ping"] == (
        [severity] * bool(severity)
    )


def test_a_ping_that_the_server_does_not_answer() -> None:
    found = talk((1.0, CLIENT, b"PING\r\n"), (4.0, CLIENT, b"PUB orders 2\r\nhi\r\n"))
    (problem,) = [each for each in found if each.severity == "warning"]
    assert (problem.name, problem.what) == (
        "nats.missed-ping",
        "the server of billing (#1) did not answer a PING for 3.000 s",
    )


def test_a_message_as_large_as_the_server_takes_is_none_too_large() -> None:
    small = b'INFO {"server_id":"A","version":"2.9.10","proto":1,"max_payload":5}\r\n'
    assert worse(talk((0.5, SERVER, small), (1.0, CLIENT, b"PUB orders 5\r\nhello\r\n"))) == []
    assert worse(talk((0.5, SERVER, small), (1.0, CLIENT, b"PUB orders 6\r\nhello!\r\n"))) == ["nats.max-payload"]


def test_a_client_that_reads_is_no_slow_consumer() -> None:
    assert "nats.slow-consumer" not in {problem.name for problem in check(CAPTURES / "nats" / "03-pubsub.pcap")}


def test_a_capture_that_ends_inside_a_message_is_no_trouble() -> None:
    assert worse(talk((1.0, CLIENT, b"PUB orders 16909060\r\nhalf of it"))) == []
