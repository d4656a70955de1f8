"""NATS: what clients and servers do wrong, by a capture with the clients' own account and by crafted ones."""

from __future__ import annotations

import json
import re
from operator import itemgetter

import pytest

from tests.check.support import CAPTURES, check, named, worse
from tests.net import craft
from tests.view.frames import CLIENT, SERVER
from wiredecode.capture import open_capture
from wiredecode.check import Problem
from wiredecode.protocols.nats.problems_requests import MANY_QUICK

LIMITS = CAPTURES / "nats" / "60-limits.pcap"
ACCIDENTS = CAPTURES.parent / "tests" / "accidents"
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


def test_every_error_of_a_client_is_reported_with_its_name(
    limits: list[Problem], told: dict[str, dict[str, list[str]]]
) -> None:
    text = "\n".join([problem.title for problem in limits] + [str(problem.connections) for problem in limits])
    for client, account in told.items():
        for error in account["errors"]:
            assert client in text or "maximum connections" in error, client
            words = re.sub("-ERR '|'$", "", error)
            assert words in text or words in ("Stale Connection", "Maximum Payload Violation"), error


def test_silent_too_large_and_too_slow_clients_are_named(limits: list[Problem]) -> None:
    whats = {problem.name: problem.title for problem in limits}
    assert whats["nats.stale"].startswith("stuck (#9) did not answer 2 PINGs")
    assert whats["nats.max-payload"].startswith("big-sender (#3) published to orders.big: a payload of 9000 bytes")
    assert whats["nats.slow-consumer"].startswith("report (#12) is a slow consumer on subscription 21 orders.eu")
    assert not any("lazy" in problem.title for problem in limits)  # it missed a PING, and answered the next


def test_a_slow_consumer_that_was_not_cut_off_is_a_warning(limits: list[Problem]) -> None:
    (slow,) = [problem for problem in limits if problem.name == "nats.slow-consumer"]
    assert slow.severity == "warning"
    assert any(detail.startswith("before, its window was closed for 1.7") for detail in slow.details)


def test_unanswered_requests_are_reported_by_subject(limits: list[Problem]) -> None:
    found = {problem.title: problem for problem in limits if problem.name == "nats.no-responders"}
    gone, maybe = (found[f"no client and no stream takes requests to svc.{name}"] for name in ("gone", "maybe"))
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
    assert (problem.name, problem.title) == (
        "nats.missed-ping",
        "the server of billing (#1) did not answer a PING for 3.000 s",
    )


@pytest.mark.parametrize("sends", [True, False])
def test_a_server_that_sends_other_messages_before_its_pong_is_not_stopped(sends: bool) -> None:
    messages = [(1.0 + step / 5, SERVER, b"MSG hose 1 2\r\nhi\r\n") for step in range(25)]
    others = [each for each in messages if sends or each[0] < 2]
    found = talk((0.9, CLIENT, b"SUB hose 1\r\n"), *others, (1.1, CLIENT, b"PING\r\n"), (5.9, CLIENT, b"PING\r\n"))
    (problem,) = named(found, "nats.missed-ping")
    assert problem.likely == "it sends more than the path to billing (#1), or billing (#1) itself, takes" * sends
    assert any(each.startswith("it sent other data all the time") for each in problem.details) is sends


@pytest.mark.parametrize(("left", "slow"), [((20, 90, 160, 230, 220), True), ((20, 90, 160, 40), False)])
def test_a_consumer_whose_messages_wait_more_and_more_is_too_slow(left: tuple[int, ...], slow: bool) -> None:
    said = [(0.5, CLIENT, b"SUB _INBOX.q 1\r\n")]
    for place, waiting in enumerate(left):
        ack = b"$JS.ACK.ORD.work.1.%d.%d.1700000000000000000.%d" % (place + 1, place + 1, waiting)
        said.append((1.0 + place, SERVER, b"MSG ord.eu 1 %s 1\r\nx\r\n" % ack))
        said.append((1.9 + place, CLIENT, b"PUB %s 0\r\n\r\n" % ack))
    found = [each.title for each in named(talk(*said), "consumer.too-slow")]
    assert found == ["ORD, consumer work is too slow: it lagged by 20 messages, then 230"] * slow


def test_a_message_as_large_as_the_server_takes_is_none_too_large() -> None:
    small = b'INFO {"server_id":"A","version":"2.9.10","proto":1,"max_payload":5}\r\n'
    assert worse(talk((0.5, SERVER, small), (1.0, CLIENT, b"PUB orders 5\r\nhello\r\n"))) == []
    assert worse(talk((0.5, SERVER, small), (1.0, CLIENT, b"PUB orders 6\r\nhello!\r\n"))) == ["nats.max-payload"]
    absurd = (1.0, CLIENT, b"PUB orders 99999999\r\n"), (1.5, SERVER, b"-ERR 'Maximum Payload Violation'\r\n")
    found = talk((0.5, SERVER, small), *absurd)
    assert named(found, "nats.max-payload")[0].effects == named(found, "nats.field-cut")


def test_a_client_that_reads_is_no_slow_consumer() -> None:
    assert "nats.slow-consumer" not in {problem.name for problem in check(CAPTURES / "nats" / "03-pubsub.pcap")}


def test_a_capture_that_ends_inside_a_message_is_no_trouble() -> None:
    assert worse(talk((1.0, CLIENT, b"PUB orders 16909060\r\nhalf of it"))) == []


def test_a_pong_that_came_before_its_ping_in_a_late_start_is_an_answer() -> None:
    """Between two servers; the frames of one side come later, because its beginning was searched for."""
    found = check(open_capture([str(ACCIDENTS / "route-ping-late.pcap")]))
    assert [problem.name for problem in found if problem.name.startswith("nats.")] == []


def asked(count: int, reply: str = "_INBOX.r") -> list[tuple[float, int, bytes]]:
    """Requests that a server delivers to a service."""
    line = b"MSG price.get 1 %s%d 1\r\n?\r\n"
    return [(0.1 + step / 10, SERVER, line % (reply.encode(), step)) for step in range(count)]


def replies(*steps: int, reply: str = "_INBOX.r") -> list[tuple[float, int, bytes]]:
    return [(0.15 + step / 10, CLIENT, b"PUB %s%d 1\r\n!\r\n" % (reply.encode(), step)) for step in steps]


def spoken(*said: tuple[float, int, bytes], until: float = 9.0) -> dict[str, Problem]:
    turns = sorted([*said, (0.05, CLIENT, b"SUB price.get 1\r\n"), (until, CLIENT, b"PING\r\n")], key=itemgetter(0))
    return {problem.name: problem for problem in talk(*turns, (until + 0.01, SERVER, b"PONG\r\n"))}


def test_a_service_that_answers_no_more_is_named_with_its_requests() -> None:
    silent = spoken(*asked(6), *replies(0, 1))["nats.service-silent"]
    assert (silent.severity, silent.count) == ("error", 4)
    assert re.fullmatch(
        r"billing \(#1\) has answered no request since 0.[23]\d\d s: 4 were delivered to it", silent.title
    )
    assert silent.details[-1] == "4 of 6 requests to price.get got no answer"


def test_a_service_that_is_slow_has_no_pause() -> None:
    """Answers that take 1.6 s since a time; a pause is one after which answers are quick again."""
    quick = [(0.05 + step / 100, step) for step in range(MANY_QUICK)]
    slow = [(1.0 + step / 2, MANY_QUICK + step) for step in range(10)]
    line, answer = b"MSG price.get 1 _INBOX.s%d 1\r\n?\r\n", b"PUB _INBOX.s%d 1\r\n!\r\n"
    said = [(at, SERVER, line % step) for at, step in (*quick, *slow)]
    said += [(at + 0.005, CLIENT, answer % step) for at, step in quick]
    assert "nats.service-silent" not in spoken(*said, *((at + 1.6, CLIENT, answer % step) for at, step in slow))
    together = ((7.0 + step / 100, CLIENT, answer % step) for _, step in slow)
    assert "answered nothing for 6" in spoken(*said, *together)["nats.service-silent"].title


def test_a_request_that_servers_pass_on_between_accounts_is_judged_where_it_began() -> None:
    assert "nats.unanswered" in spoken(*asked(3, reply="_INBOX.m"))
    assert "nats.unanswered" not in spoken(*asked(3, reply="_R_.m"))


def test_a_service_that_still_answers_others_is_not_silent() -> None:
    found = spoken(*asked(6), *replies(0, 1, 5))
    assert "nats.service-silent" not in found
    assert found["nats.unanswered"].title == "3 of 6 requests to price.get got no answer"
    assert found["nats.unanswered"].severity == "warning"


def test_requests_whose_answers_are_still_to_come_are_none_unanswered() -> None:
    assert not {"nats.service-silent", "nats.unanswered"} & spoken(*asked(6), *replies(*range(6))).keys()
    assert "nats.unanswered" not in spoken(*asked(6), *replies(0, 1), until=0.9)


def test_a_publish_whose_ack_comes_before_a_plain_subscriber_gets_it_has_its_answer() -> None:
    said = [(0.06, CLIENT, b"SUB _INBOX.p.* 2\r\n")]
    for number in range(1, 8):
        ack = b'{"stream":"ORD","seq":%d}' % number
        said += [
            (0.1 + number / 50, CLIENT, b"PUB price.get _INBOX.p.%d 1\r\n?\r\n" % number),
            (0.11 + number / 50, SERVER, b"MSG _INBOX.p.%d 2 %d\r\n%s\r\n" % (number, len(ack), ack)),
            (0.115 + number / 50, SERVER, b"MSG price.get 1 _INBOX.p.%d 1\r\n?\r\n" % number),
        ]
    assert not spoken(*said)


def test_a_publish_that_is_not_permitted_is_no_unanswered_request() -> None:
    said = [(0.05, CLIENT, b"SUB _INBOX.p.* 2\r\n")]
    for number in range(1, 4):
        said.append((0.1 * number, CLIENT, b"PUB a.b _INBOX.p.%d 1\r\n?\r\n" % number))
        said.append((0.1 * number + 0.01, SERVER, b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n"))
    problems = talk(*said, (5, CLIENT, b"PING\r\n"), (5.01, SERVER, b"PONG\r\n"))
    assert [(each.name, each.count) for each in problems] == [("nats.permissions", 3)]


def test_one_message_with_a_reply_subject_that_nobody_uses_is_a_remark() -> None:
    assert spoken(*asked(1, reply="log.to."))["nats.unanswered"].severity == "note"


def delivered(sequence: int, step: float) -> tuple[float, int, bytes]:
    return (
        step,
        SERVER,
        b"MSG ord.eu 1 $JS.ACK.ORD.work.1.%d.%d.1700000000000000000.0 1\r\nx\r\n" % (sequence, sequence),
    )


def acked(sequence: int, step: float) -> tuple[float, int, bytes]:
    return step, CLIENT, b"PUB $JS.ACK.ORD.work.1.%d.%d.1700000000000000000.0 0\r\n\r\n" % (sequence, sequence)


def consumer(acks: int, most: int = 4, deliveries: int = 6, newest: int = 16909060) -> dict[str, Problem]:
    """A consumer that was created with a limit, and a publisher beside it."""
    config = b'{"stream_name":"ORD","config":{"durable_name":"work","max_ack_pending":%d}}' % most
    said = [(0.06, CLIENT, b"PUB $JS.API.CONSUMER.DURABLE.CREATE.ORD.work %d\r\n%s\r\n" % (len(config), config))]
    said += [delivered(each, 0.1 * each) for each in range(1, deliveries + 1)]
    said += [acked(each, 0.1 * each + 0.05) for each in range(1, acks + 1)]
    stored = b'{"stream":"ORD","seq":%d}' % newest
    said.append((2.0, CLIENT, b"PUB ord.eu _INBOX.p 1\r\nx\r\n"))
    said.append((2.1, SERVER, b"MSG _INBOX.p 2 %d\r\n%s\r\n" % (len(stored), stored)))
    return spoken(*said)


def test_a_consumer_that_stopped_acknowledging_at_its_limit_is_stuck() -> None:
    stuck = consumer(acks=2)["nats.consumer-stuck"]
    assert (stuck.severity, stuck.count) == ("error", 4)
    assert stuck.title == "billing (#1) stopped acknowledging ORD, consumer work: 16,909,054 messages wait"
    assert stuck.details[-1] == "unacknowledged: 4 messages, as many as max_ack_pending allows (4)"


@pytest.mark.parametrize(("seconds", "paused"), [(2.5, False), (3.5, True)])
def test_a_consumer_that_was_stopped_explains_why_messages_came_again(seconds: float, paused: bool) -> None:
    again = b"MSG ord.eu 1 $JS.ACK.ORD.work.2.2.2.1700000000000000000.0 1\r\nx\r\n"
    said = [delivered(1, 0.1), acked(1, 0.2), delivered(2, 1.0), delivered(3, 1.1), (3.0, SERVER, again)]
    found = spoken(*said, acked(2, 1.0 + seconds), acked(3, 1.1 + seconds))["nats.redelivered"]
    stopped, slow = "it was stopped or busy: it acknowledged nothing for 3.500 s", "ack_wait: 1 message came again"
    assert (found.severity, stopped in found.likely, slow in found.likely) == (
        ("warning", True, False) if paused else ("note", False, True)
    )


@pytest.mark.parametrize(("left", "lost"), [(5, True), (0, False)])
def test_a_purge_is_reported_if_messages_waited(left: int, lost: bool) -> None:
    first = b"MSG ord.eu 1 $JS.ACK.ORD.work.1.1.1.1700000000000000000.%d 1\r\nx\r\n" % left
    purge = b"PUB $JS.API.STREAM.PURGE.ORD _INBOX.p.1 0\r\n\r\n"
    found = spoken((0.1, SERVER, first), acked(1, 0.2), (1.0, CLIENT, purge))
    assert ("nats.purged" in found) is lost
    if lost:
        assert found["nats.purged"].title == "billing (#1) purged stream ORD: 5 messages waited for ORD, consumer work"


def test_a_purge_of_one_subject_as_object_stores_send_it_loses_nothing_else() -> None:
    waiting = b"MSG ord.eu 1 $JS.ACK.ORD.work.1.1.1.1700000000000000000.5 1\r\nx\r\n"
    purge = b'PUB $JS.API.STREAM.PURGE.ORD _INBOX.p.1 24\r\n{"filter":"ord.us.7QpZ"} \r\n'
    assert "nats.purged" not in spoken((0.1, SERVER, waiting), acked(1, 0.2), (1.0, CLIENT, purge))


@pytest.mark.parametrize(("acks", "until", "hangs"), [(20, 9.0, True), (19, 9.0, False), (20, 7.0, False)])
def test_a_worker_that_acknowledged_promptly_and_then_nothing_hangs(acks: int, until: float, hangs: bool) -> None:
    said = [delivered(each, 0.1 * each) for each in range(1, acks + 2)]
    said += [acked(each, 0.1 * each + 0.05) for each in range(1, acks + 1)]
    stored = b'{"stream":"ORD","seq":16909060}'
    said += [(2.2, CLIENT, b"PUB ord.eu _INBOX.p 1\r\nx\r\n"), (2.3, SERVER, b"MSG _INBOX.p 2 31\r\n%s\r\n" % stored)]
    stuck = spoken(*said, until=until).get("nats.consumer-stuck")
    assert (stuck is not None and stuck.severity == "warning") is hangs


def test_a_late_ack_of_jetstream_suspects_the_leader_of_the_stream() -> None:
    stored = b'{"stream":"ORD","seq":16909060}'
    slow = [(1.0, CLIENT, b"PUB ord.eu _INBOX.p 1\r\nx\r\n"), (5.9, SERVER, b"MSG _INBOX.p 2 31\r\n%s\r\n" % stored)]
    assert "leader" in spoken(*slow)["publish.slow-confirm"].likely


@pytest.mark.parametrize("near", [{"acks": 3}, {"acks": 2, "most": 5}, {"acks": 2, "newest": 6}])
def test_a_consumer_below_its_limit_or_with_nothing_to_come_is_not_stuck(near: dict[str, int]) -> None:
    assert "nats.consumer-stuck" not in consumer(**near)


def test_a_server_in_lame_duck_mode_explains_the_ends_that_follow() -> None:
    leaves = b'INFO {"server_id":"A","server_name":"n1","version":"2.9.10","ldm":true}\r\n'
    duck = spoken((0.5, SERVER, leaves))["nats.lame-duck"]
    assert (duck.title, duck.severity) == ("n1 announced that it shuts down", "note")  # its clients left in order
    assert "tcp.reset" in duck.code.explains


def test_a_route_does_not_ask() -> None:
    """Messages that servers forward to each other are not their requests."""
    passed = [(0.1 * step, SERVER, b"RMSG $G a.b _INBOX.%d 1\r\nx\r\n" % step) for step in range(1, 5)]
    found = talk(*passed, (9.0, CLIENT, b"PING\r\n"))
    assert not [problem.name for problem in found if "unanswered" in problem.name]


def test_a_capture_that_ends_inside_a_line_is_not_malformed() -> None:
    found = talk((1, CLIENT, b"SUB a 1\r\n"), (2, SERVER, b"MSG a 1 5\r\nhello\r\nMSG a"))
    assert worse(found) == []
    assert {each.name for each in found} >= {"nats.header-cut", "nats.no-frame"}
