"""Problems that no capture of the repository has, and near cases."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from random import Random

import pytest

from tests.check import crafted
from tests.check.support import CAPTURES, check, named, worse
from tests.net import craft
from tests.support import packets as stored
from tests.view.frames import CLIENT, HANDSHAKE, SERVER, packets
from wiredecode.capture import open_capture
from wiredecode.check import text
from wiredecode.check.codes import CODES
from wiredecode.check.rules import PATIENCE_NS
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry
from wiredecode.protocols.rabbitmq_stream.problems import Admission
from wiredecode.protocols.shared.problems import Problem

DECLARED: list[tuple[int, Layer | bytes]] = [
    (CLIENT, layers.DeclarePublisher(correlation_id=0x01020304, publisher_id=7, stream="orders")),
    (SERVER, layers.LAYERS[0x8001, 1](correlation_id=0x01020304, response_code=1)),
]
THREE = layers.Publish(
    publisher_id=7,
    messages=[layers.PublishedMessage(publishing_id=0x0102030405060700 + n, data=b"body") for n in range(3)],
)


ERROR = layers.PublishingError(publishing_id=0x0102030405060702, response_code=2)


def confirm(count: int) -> layers.PublishConfirm:
    return layers.PublishConfirm(publisher_id=7, publishing_ids=[0x0102030405060700 + n for n in range(count)])


def problems(messages: Iterable[tuple[int, Layer | bytes]], *, later_ns: int = 5 * PATIENCE_NS) -> list[Problem]:
    """Problems of one connection; the capture ends with a Heartbeat ``later_ns`` after the last message."""
    made = packets([*DECLARED, *messages, (CLIENT, layers.Heartbeat())])
    *before, last = made
    later = (len(made) / 1000 + later_ns / 1e9, last)
    return check(craft.batches([*before, later]))


def test_messages_without_confirm_are_counted() -> None:
    found = problems([(CLIENT, THREE), (SERVER, confirm(1))])
    (problem,) = [each for each in found if each.severity == "error"]
    assert (problem.name, problem.count) == ("publish.unconfirmed", 2)
    assert "2 of 3 messages" in problem.title
    assert "orders" in problem.title


@pytest.mark.parametrize(
    "answers",
    [
        [(SERVER, confirm(3))],
        [
            (SERVER, confirm(2)),
            (
                SERVER,
                layers.PublishError(publisher_id=7, errors=[ERROR]),
            ),
        ],
    ],
)
def test_messages_that_were_confirmed_or_refused_are_not(answers: list[tuple[int, Layer]]) -> None:
    assert "publish.unconfirmed" not in worse(problems([(CLIENT, THREE), *answers]))


@pytest.mark.parametrize(("code", "alarm"), [(17, True), (16, False)])
def test_a_publisher_that_is_refused_by_an_alarm_of_the_broker(code: int, alarm: bool) -> None:
    refused = layers.LAYERS[0x8001, 1](correlation_id=0x01020304, response_code=code)
    found = named(check(craft.batches(packets([DECLARED[0], (SERVER, refused)]))), "rabbitmq_stream.not-started")
    assert [each.likely.startswith("an alarm of the broker") for each in found] == [alarm]


@pytest.mark.parametrize(("first", "dropped"), [(400_017, True), (90_017, False)])
def test_a_publisher_that_numbers_from_the_start_again_after_more_ids_than_can_wait(first: int, dropped: bool) -> None:
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, publisher_reference="sync", stream="orders")
    bodies = [layers.PublishedMessage(publishing_id=each, data=b"body") for each in (first, 17)]
    said = [(CLIENT, layers.Publish(publisher_id=7, messages=[each])) for each in bodies]
    confirmed = layers.PublishConfirm(publisher_id=7, publishing_ids=[first, 17])
    found = check(craft.batches(packets([(CLIENT, declare), crafted.answer(1, 3), *said, (SERVER, confirmed)])))
    assert bool(named(found, "rabbitmq_stream.messages-dropped")) is dropped


@pytest.mark.parametrize(
    ("first", "again", "same"),
    [
        (b'{"id":7,"ts":"2026-11-29T18:06:16.26519297Z"}', b'{"id":7,"ts":"2026-11-29T18:06:22.951587879Z"}', True),
        (b'{"id":7,"at":1795977275.968}', b'{"id":7,"at":1795977281.2}', True),
        (b'\x00Su\xa0\x1d{"ts":"2026-11-29T18:06:16.2Z"}', b'\x00Su\xa0\x1e{"ts":"2026-11-29T18:06:22.95Z"}', True),
        (b'{"id":7,"qty":17}', b'{"id":7,"qty":18}', False),
    ],
)
def test_a_message_that_is_made_anew_for_each_attempt_is_the_same(first: bytes, again: bytes, same: bool) -> None:
    found = crafted.published_twice(again, first)
    assert len(named(found, "rabbitmq_stream.messages-dropped")) == (not same)
    assert len(named(found, "rabbitmq_stream.duplicate-ids")) == same


@pytest.mark.parametrize(
    ("sequence", "first", "dropped"),
    [
        pytest.param(0x01020304, 1, True, id="numbers from the start"),
        pytest.param(0x01020304, 0x01020300, False, id="sends again what had no confirm"),
        pytest.param(0x01020304, 0x01020305, False, id="goes on"),
        pytest.param(3, 1, False, id="hardly anything was stored"),
        pytest.param(0, 1, False, id="nothing was stored"),
    ],
)
def test_ids_that_the_broker_said_to_have(sequence: int, first: int, dropped: bool) -> None:
    ask = layers.QueryPublisherSequence(correlation_id=9, publisher_reference="sync", stream="orders")
    told = layers.QueryPublisherSequenceResponse(correlation_id=9, response_code=1, sequence=sequence)
    declare = layers.DeclarePublisher(correlation_id=3, publisher_id=7, publisher_reference="sync", stream="orders")
    messages = [layers.PublishedMessage(publishing_id=first + each, data=b"body") for each in range(3)]
    publish = [(CLIENT, layers.Publish(publisher_id=7, messages=[each])) for each in messages]
    confirm = layers.PublishConfirm(publisher_id=7, publishing_ids=[first + each for each in range(3)])
    said = [(CLIENT, ask), (SERVER, told), (CLIENT, declare), crafted.answer(1, 3), *publish, (SERVER, confirm)]
    found = named(check(craft.batches(packets(said))), "rabbitmq_stream.messages-dropped")
    assert bool(found) is dropped
    if dropped:
        assert found[0].title.startswith("3 new messages of sync to orders were confirmed and dropped")
        assert found[0].details == ["the broker said in frame 4 that it has ids up to 16,909,060"]


def lagging(credit: int) -> list[Problem]:
    """Problems of a consumer whose chunks come 2 s apart, and were written 0.1 s apart; it has one credit or more."""
    began = craft.START_NS // 1_000_000
    subscribe = layers.Subscribe(correlation_id=3, subscription_id=1, stream="orders", credit=credit)
    said = [(0.0, each) for each in ((CLIENT, subscribe), crafted.answer(7, 3))]
    for number in range(8):
        chunk = Chunk(chunk_id=number, timestamp=began + 100 * (number + 1), entries=[ChunkEntry(data=b"body")])
        said.append((2.0 * number + 1.001, (SERVER, layers.Deliver(subscription_id=1, chunk=chunk))))
        said.append((2.0 * number + 3.0, (CLIENT, layers.Credit(subscription_id=1, credit=1))))
    made = packets([each for _, each in said])
    times = [0.0] * (len(made) - len(said)) + [seconds for seconds, _ in said]
    return check(craft.batches(zip(times, made, strict=True)))


@pytest.mark.parametrize(("credit", "path"), [(10, True), (1, False)])
def test_a_consumer_that_falls_behind_though_it_has_credit_is_not_slow_itself(credit: int, path: bool) -> None:
    (problem,) = named(lagging(credit), "rabbitmq_stream.consumer-lag")
    assert problem.likely.startswith("the path to it, or the broker, is too slow") is path


def test_a_capture_that_ends_immediately_reports_no_missing_confirm() -> None:
    assert worse(problems([(CLIENT, THREE)], later_ns=1000)) == []


def test_a_request_without_response_is_reported_after_a_time() -> None:
    asked = [(CLIENT, layers.QueryOffset(correlation_id=0x0A0B0C0D, reference="r", stream="orders"))]
    assert worse(problems(asked)) == ["request.unanswered"]
    assert worse(problems(asked, later_ns=1000)) == []


@pytest.mark.parametrize(("acked", "expected"), [(True, ["publish.unconfirmed", "request.unanswered"]), (False, [])])
def test_a_connection_that_neither_acknowledges_nor_sends_again_was_no_longer_captured(
    acked: bool, expected: list[str]
) -> None:
    """Its last publishes have no ACK; another connection shows that the capture continued."""
    asked = layers.QueryOffset(correlation_id=0x0A0B0C0D, reference="r", stream="orders")
    lost = craft.Talk()
    made: list[bytes | tuple[float, bytes]] = [*lost.handshake()]
    for side, said in (*HANDSHAKE, *DECLARED, (CLIENT, asked), *[(CLIENT, THREE)] * 3):
        made += lost.send(side, bytes(said))
    made += [lost.ack(SERVER)] * acked
    other = craft.Talk(client=("10.0.0.3", 40001))
    made += [*other.handshake(), *other.send(CLIENT, bytes(layers.Heartbeat()))]
    made += [(9.0, part) for part in other.send(SERVER, bytes(layers.Heartbeat()))]
    assert sorted(worse(check(craft.batches(made)))) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(119, []), (300, ["rabbitmq_stream.heartbeat"] * 2)])
def test_silence_longer_than_two_heartbeats_is_reported(seconds: int, expected: list[str]) -> None:
    tunes = [(side, layers.Tune(frame_max=0x01020304, heartbeat=60)) for side in (SERVER, CLIENT)]
    assert sorted(worse(problems(tunes, later_ns=seconds * 10**9))) == expected


def test_a_syn_without_answer_is_reported() -> None:
    syn = craft.Talk().handshake()[0]
    assert worse(check(craft.batches([syn, syn]))) == ["tcp.no-answer"]


def test_errors_of_nats_servers_are_reported_by_text() -> None:
    talk = craft.Talk(server=("10.0.0.2", 4222))
    made = talk.handshake()
    for side, said in (
        (SERVER, b'INFO {"server_id":"A","version":"2.9.10","proto":1,"max_payload":16909060}\r\n'),
        (CLIENT, b'CONNECT {"verbose":false,"lang":"go","name":"billing","user":"app"}\r\n'),
        (SERVER, b"-ERR 'Maximum Connections Exceeded'\r\n"),
    ):
        made += talk.send(side, said)
    (problem,) = check(craft.batches(made))
    assert (problem.severity, problem.name) == ("error", "nats.limit")
    assert problem.title == "the server says to billing (#1): Maximum Connections Exceeded"
    assert problem.connections == {1: "10.0.0.1:40000 → 10.0.0.2:4222, billing, user app, go"}


METADATA = layers.Metadata(correlation_id=0x0B0C0D0E, streams=["orders"])


def metadata_response(host: str, port: int) -> Layer:
    brokers = [layers.Broker(reference=3, host=host, port=port)]
    streams = [layers.StreamMetadata(stream="orders", response_code=1, leader_reference=3)]
    return layers.LAYERS[0x800F, 1](correlation_id=0x0B0C0D0E, brokers=brokers, streams=streams)


def visit(host: str, port: int, *more: bytes) -> list[Problem]:
    """A client asks 10.0.0.2:5552 where a stream is, and closes; then ``more`` packets follow."""
    talk = craft.Talk()
    made = talk.handshake()
    for side, message in (*HANDSHAKE, (CLIENT, METADATA), (SERVER, metadata_response(host, port))):
        made += talk.send(side, bytes(message))
    return check(craft.batches([*made, *talk.close(), *more]))


def other(port: int = 40001) -> craft.Talk:
    return craft.Talk(client=("10.0.0.1", port), server=("10.0.0.9", 5999))


def test_an_advertised_address_that_answers_is_no_problem() -> None:
    assert worse(visit("10.0.0.9", 5999, *other().handshake())) == []
    assert worse(visit("10.0.0.2", 5552)) == []  # the broker that was asked


def test_another_port_of_the_same_host_was_not_captured() -> None:
    """A capture filter names one port; the client reaches the host, so that it tried."""
    assert [each.name for each in visit("10.0.0.2", 5999) if each.severity == "error"] == []


def test_an_advertised_address_without_connection_is_reported() -> None:
    (problem,) = [each for each in visit("10.0.0.9", 5999) if each.severity == "error"]
    assert problem.name == "rabbitmq_stream.advertised-host"
    assert "10.0.0.9:5999; no connection to it follows" in problem.title


@pytest.mark.parametrize("answered", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\0\x02\x02\x28", None])
def test_an_advertised_address_with_another_service_is_reported(answered: bytes | None) -> None:
    talk = craft.Talk(client=("10.0.0.1", 40001), server=("10.0.0.9", 5552))
    answer = answered or bytes(layers.LAYERS[0x8011, 1](correlation_id=1, response_code=1))
    made = [*talk.handshake(), *talk.send(CLIENT, bytes(HANDSHAKE[0][1])), *talk.send(SERVER, answer)]
    found = {each.name: each.title for each in visit("10.0.0.9", 5552, *made, *talk.close())}
    if answered is None:
        assert not {"rabbitmq_stream.advertised-host", "protocol.mismatch"} & set(found)
    else:
        address = "10.0.0.9:5552"
        assert f"{address}, where the connection meets something" in found["rabbitmq_stream.advertised-host"]
        assert found["protocol.mismatch"].startswith(f"{address} speaks {'HTTP' if answered[0] == 72 else 'TLS'}")


def test_a_client_that_goes_on_elsewhere_reached_its_stream() -> None:
    """By an address resolver: it consumes through the load balancer."""
    talk = craft.Talk(client=("10.0.0.1", 40001))
    made = talk.handshake()
    subscribe = layers.Subscribe(correlation_id=5, subscription_id=1, stream="orders", offset_type=1, credit=10)
    for side, message in (*HANDSHAKE, (CLIENT, subscribe)):
        made += talk.send(side, bytes(message))
    assert worse(visit("rabbit.internal", 5552, *made)) == []


def packets_of(talk: craft.Talk) -> list[bytes]:
    return [*talk.handshake(), *(part for side, layer in HANDSHAKE for part in talk.send(side, bytes(layer)))]


@pytest.mark.parametrize(
    "name",
    ["rabbitmq-stream/c43_multi", "nats/02-auth", "liftbridge/31-lb-all-types", "pravega/errors", "cursus/group"],
)
def test_damaged_captures_are_checked_to_their_end(name: str) -> None:
    """Bytes anywhere after the TCP header are changed: rules get missing values, and values of any size."""
    random = Random(name)
    made: list[bytes] = []
    for _, data in stored(CAPTURES / f"{name}.pcap"):
        packet = bytearray(data)
        if len(made) > 10 and len(packet) > 80 and random.random() < 0.2:
            packet[random.randrange(66, len(packet))] = random.randrange(256)
        made.append(bytes(packet))
    found = {problem.name for problem in check(craft.batches(made))}
    assert found
    assert "check.internal" not in found


def test_a_rule_that_fails_is_a_problem_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, subject: object) -> None:
        raise KeyError("brokers")

    monkeypatch.setattr(Admission, "frame", fail)
    monkeypatch.setattr(Admission, "ended", fail)
    found = check(open_capture([str(CAPTURES / "rabbitmq-stream" / "c43_puberr.pcap")]))  # not what is remembered
    (failed,) = [problem for problem in found if problem.name == "check.internal"]
    assert (failed.severity, failed.title) == ("error", "the rule Admission failed: KeyError: 'brokers'")
    assert failed.frames[0] == 2  # the first response
    assert failed.connections
    assert failed.details[0].startswith("test_crafted.py, line ")
    assert "publish.refused" in {problem.name for problem in found}


def test_text_from_the_wire_is_escaped() -> None:
    problem = Problem(CODES["tcp.refused"], "error", "tcp.refused", "nasty \x1b[31m name \u202e", 1)
    problem.detail("\r\nERROR")
    problem.connections[1] = "a\x07b"
    shown = "\n".join(line for _, line in text.report_lines([problem], 0))
    assert "\x1b" not in shown
    assert "\\x1b[31m" in shown
    assert all(line.isprintable() for line in shown.split("\n"))


@pytest.mark.parametrize("capture", ["rabbitmq-stream/c43_codecs_py.pcap", "tank/tank_06_produce_snappy.pcap"])
def test_a_codec_that_is_not_installed_is_no_fault_of_the_traffic(
    capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    found = check(open_capture([str(CAPTURES / capture)]))
    (problem,) = [each for each in found if each.severity != "note"]
    assert (problem.code.code, problem.name.partition(".")[2]) == ("frame.codec-missing", "codec-missing")
    assert "pip install '.[snappy]' in a clone" in problem.title
