"""What users report, made again: the first problem, sentences that would be false, and healthy traffic."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.check.support import CAPTURES, named, shown_of, talk, worse
from wiredecode.check.text import report_lines
from wiredecode.cli import main
from wiredecode.protocols.nats.problems_requests import matches
from wiredecode.protocols.shared.problems import Problem

REPORTS = CAPTURES / "reports"


class Told(NamedTuple):
    """A capture, what its first problem says, and what none may say."""

    capture: str
    code: str
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    severity: str = "error"
    others: tuple[str, ...] = ()
    """Problems beside the first one."""


ENDED = "ended at once"
TABLE = (
    Told(
        "silent-broker-real-librdkafka.pcap",
        "tcp.nothing-said",
        ("accepted 4 connections, acknowledged what came, and never answered", "5.232 s", "sent ApiVersionsRequest"),
        ("not all that came back was captured",),
    ),
    Told(
        "silent-broker-rabbitmq.pcap",
        "tcp.nothing-said",
        ("accepted 1 connection, acknowledged", "10.000 s", "PeerProperties", "the client ended it"),
        ("not all that came back was captured",),
    ),
    Told(
        "nats-handshake-first.pcap",
        "tcp.nothing-said",
        ("sent nothing for 2.004 s, then it closed it", "handshake_first"),
        severity="warning",
    ),
    Told("nothing-said-3-closed.pcap", "request.unanswered", ("closed 3 connections and did not",), (ENDED,)),
    Told("nothing-said-but-25-bytes-sent.pcap", "request.unanswered", ("did not answer ApiVersionsRequest",), (ENDED,)),
    Told(
        "produce-unanswered-30s.pcap",
        "publish.unconfirmed",
        ("1 of 2 messages", "did not answer for 30.001 s, then the client gave up"),
        ("without waiting",),
    ),
    Told(
        "kafka-sequence-gap.pcap",
        "kafka.out-of-order",
        ("sequence 1 of orders[0] was sent in frame 3 of shop (#1) and has no answer", "the producer sent 2 next"),
        ("without waiting",),
    ),
    Told(
        "kafka-proxy-v2-refused.pcap",
        "protocol.mismatch",
        ("closed 1 connection that began with a PROXY header", "Kafka cannot"),
        (ENDED,),
    ),
    Told(
        "kafka-fetch-sessions-wasted.pcap.gz",
        "kafka.fetch-sessions",
        ("opened 120 fetch sessions and used none again", "39 sessions of connection #2"),
        severity="warning",
    ),
    Told("kafka-fetch-corrupt-message.pcap", "kafka.corrupt-log", ("CORRUPT_MESSAGE",)),
    Told("kafka-produce-unknown-server-error.pcap", "kafka.server-failed", ("failed at Produce orders",)),
    Told("kafka-node-endpoints-unreachable.pcap", "kafka.advertised-listener", ("10.9.0.99:9094", "gets no answer")),
    Told("oauthbearer-rejected-by-challenge.pcap", "kafka.sasl-failed", ("the token was refused: invalid_token",)),
    Told("nats-says-tls-required.pcap", "nats.tls-required", ("speaks without TLS",), ("a limit",)),
    Told(
        "nats-leaf-denied.pcap",
        "nats.no-responders",
        ("do not reach echo-service (#2), which subscribes to it", "denies the export of svc.>", "frame 3"),
        ("no client and no stream",),
        severity="warning",
    ),
    Told(
        "n_leaf_account.pcap.zst",
        "nats.no-responders",
        ("requests of till-7 (#2) to price.get do not reach price-svc (#1)", "another account"),
        ("no client and no stream", "not running"),
        severity="warning",
    ),
    Told(
        "n_max_deliver.pcap.zst",
        "nats.redelivered",
        ("5 messages were given up after 4 deliveries", "sequences 20, 40, 60, 80, 100"),
        ("set max_deliver",),
        severity="warning",
    ),
    Told(
        "rabbitmq-sac-no-active.pcap",
        "rabbitmq_stream.no-active-consumer",
        ("no active consumer of billing since 1.050 s", "w2 (#2) waits to become active", "w3 (#3) waits"),
        ("the server went away",),
    ),
    Told(
        "k_lb_rr.pcap.zst",
        "kafka.one-address",
        ("3 brokers advertise one address, 10.61.0.9:9092", "7 requests"),
        ("an election", "leader changed"),
    ),
    Told(
        "cu_o_codec.pcap.zst",
        "publish.unconfirmed",
        ("all with compression gzip or none fail, and those with snappy are confirmed",),
        ("load balancer",),
    ),
    Told(
        "cu_o_regress.pcap.zst",
        "request.refused",
        ("refused 20 of 20 COMMIT_OFFSET of connection #9: offset_regression", "two consumers with one id"),
        severity="warning",
    ),
    Told(
        "cu_o_seqgap.pcap.zst",
        "cursus.sequence-gap",
        ("sent sequence 40 to idem[0] after 30: 31 to 39 are missing", "ended the connection"),
    ),
    Told(
        "cu_o_zombie.pcap.zst",
        "cursus.fenced",
        ("fenced by connection #8, which uses transactional id pay, too: 16 of its requests were refused",),
    ),
    Told(
        "lo_slowfollower.pcap.zst",
        "liftbridge.slow-server",
        ("lb-a is slow: 18 of 79 answers to the metadata leader", "the slowest 0.859 s"),
        ("127.0.0.1:4222 became slow",),
        severity="warning",
    ),
    Told(
        "lo_wrongns.pcap",
        "liftbridge.namespace",
        ("lb-c wants to join cluster prod, and no server of it answers; others are in liftbridge-default",),
        others=("capture.loss",),  # it is a part of the capture
    ),
    Told("po_hello.pcap.zst", "pravega.versions", ("versions 5 to 16 and 30 to 40 have none in common",)),
    Told(
        "po_nosuch.pcap.zst",
        "request.refused",
        ("refused 40 of 40 SetupAppend, ReadSegment of writer", "NoSuchSegment", "the name is wrong"),
        severity="warning",
    ),
)
HEALTHY = (
    *("https-with-keys.pcapng", "kafka-behind-proxy-v2.pcap", "nflog-kafka.pcap", "response-without-request.pcap"),
    *("kv_server.pcap", "kv_whole.pcap", "redact-topic.pcap", "kafka-apiversions-surplus-late.pcap"),
    *("acked-but-never-captured.pcap", "cu_h_group.pcap.zst", "ph_scale.pcap.zst"),
)


def problems(capture: str) -> list[Problem]:
    return shown_of(REPORTS / capture)


def text_of(found: list[Problem]) -> str:
    return " ".join(" ".join(line for _, line in report_lines(found, 0)).split())


@pytest.mark.parametrize("told", TABLE, ids=lambda told: told.capture)
def test_the_first_problem_says_what_happened(told: Told) -> None:
    first, *others = (each for each in problems(told.capture) if each.severity != "note")
    text = " ".join((first.title, *first.details, first.likely or " ".join(first.code.causes)))
    assert (first.name, first.severity) == (told.code, told.severity)
    assert [part for part in told.says if part not in text] == []
    assert tuple(worse(others)) == told.others


@pytest.mark.parametrize("told", [each for each in TABLE if each.never], ids=lambda told: told.capture)
def test_no_sentence_is_false(told: Told) -> None:
    text = text_of([each for each in problems(told.capture) if each.severity != "note"])
    assert [words for words in told.never if words in text] == []


@pytest.mark.parametrize("capture", HEALTHY)
def test_healthy_traffic_is_silent(capture: str) -> None:
    assert worse(problems(capture)) == []


def test_what_is_hidden_because_nothing_is_known_of_it_is_no_secret() -> None:
    assert named(problems("response-without-request.pcap"), "security.clear-text") == []


def test_acknowledged_bytes_that_were_not_captured_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--fail-on", "undecoded", str(REPORTS / "acked-but-never-captured.pcap")]) == 3
    assert "120 bytes were not captured" in capsys.readouterr().out


REFUSED = "COMMIT_OFFSET topic=orders partition=0 group=g offset=1", "ERROR: offset_regression topic=orders"
GRANTED = "COMMIT_OFFSET topic=orders partition=0 group=g offset=9", "OK topic=orders"


def commits(*answered: tuple[str, str]) -> list[Problem]:
    """A commit each second, and its answer."""
    said = ((second, side, text) for second, pair in enumerate(answered, 1) for side, text in enumerate(pair))
    return talk(9000, *((second + side / 10, side, frame_of(text)) for second, side, text in said))


def frame_of(text: str) -> bytes:
    return len(text).to_bytes(4) + text.encode()


def test_a_success_between_refusals_makes_them_notes() -> None:
    assert worse(commits(*[REFUSED] * 5)) == ["request.refused"]
    assert worse(commits(*[REFUSED] * 3, GRANTED, *[REFUSED] * 3)) == []
    assert worse(commits(*[REFUSED] * 4)) == []


def test_a_request_that_is_sent_again_and_answered_then_was_not_lost() -> None:
    ask = b"\x00\x00\x00\x1a\x00\x12\x00\x00\x00\x00\x00\x01\x00\x10consumer-groups1"
    answer = b"\x00\x00\x00\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00"
    again = ask.replace(b"\x00\x00\x00\x01", b"\x00\x00\x00\x02", 1)
    assert (
        named(talk(9092, (0.1, 0, ask), (2.0, 0, again), (2.1, 1, answer), (9.0, 0, ask)), "request.unanswered") != []
    )
    found = named(talk(9092, (0.1, 0, ask), (2.0, 0, again), (2.1, 1, answer)), "request.unanswered")
    assert worse(found) == []


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        *(
            ("svc.>", "svc.echo", True),
            ("svc.>", "svc", False),
            ("svc.*", "svc.echo", True),
            ("svc.*", "svc.a.b", False),
        ),
        *(
            ("svc.echo", "svc.echo", True),
            ("*.echo", "svc.echo", True),
            (">", "svc", True),
            ("svc.echo.x", "svc.echo", False),
        ),
    ],
)
def test_subscriptions_with_wildcards(pattern: str, subject: str, fits: bool) -> None:
    assert matches(pattern, subject) is fits
