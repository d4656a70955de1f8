"""Stalls that TCP shows where frames do not, answers that become slow, and consumers that fall behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from tests.check.crafted import Said, answer, subscribed
from tests.check.support import check, named, talk, worse
from tests.net import craft
from tests.view.frames import CLIENT, HANDSHAKE, SERVER
from wiredecode.check.trends import TimedAnswer, Trend
from wiredecode.fields.layer import Layer
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry
from wiredecode.protocols.shared.problems import FrameRef, Problem
from wiredecode.testing import build

BOTH, EVERY = (CLIENT, SERVER), 0.1
DECLARE = layers.DeclarePublisher(correlation_id=3, publisher_id=7, stream="orders")


def publish(number: int) -> Layer:
    message = layers.PublishedMessage(publishing_id=0x01020300 + number, data=bytes(range(1, 121)))
    return layers.Publish(publisher_id=7, messages=[message])


def confirm(number: int) -> Layer:
    return layers.PublishConfirm(publisher_id=7, publishing_ids=[0x01020300 + number])


def chunk(number: int) -> Layer:
    entries = [ChunkEntry(data=b"body")]
    return layers.Deliver(subscription_id=1, chunk=Chunk(chunk_id=number, timestamp=0x0102030405, entries=entries))


def conversation(
    said: Iterable[tuple[float, int, Layer]], sides: tuple[int, ...] = BOTH, snaplen: int | None = None
) -> list[Problem]:
    """One connection of which packets of ``sides`` were captured; each side acknowledges what it gets."""
    made = craft.Talk()
    packets = [(0.0, side, part) for part, side in zip(made.handshake(), (CLIENT, SERVER, CLIENT), strict=True)]
    first = [(0.01, side, layer) for side, layer in (*HANDSHAKE, (CLIENT, DECLARE), answer(1, 3))]
    for seconds, side, layer in [*first, *sorted(said, key=lambda each: each[0])]:
        packets += [(seconds, side, part) for part in made.send(side, bytes(layer))]
        packets.append((seconds, 1 - side, made.ack(1 - side)))
    return check(craft.batches([(at, part) for at, side, part in packets if side in sides], snaplen=snaplen))


def publishes(waits: dict[int, float]) -> list[tuple[float, int, Layer]]:
    """80 publishes in 8 s, confirmed after 2 ms, or after as many seconds as ``waits`` says by number."""
    said = []
    for number in range(80):
        at = 0.1 + number * EVERY
        said += [(at, CLIENT, publish(number)), (at + waits.get(number, 0.002), SERVER, confirm(number))]
    return said


PAUSE = {number: 3.0 - (number - 40) * EVERY for number in range(40, 70)}
"""The server is stopped for three seconds."""


@pytest.mark.parametrize(("sides", "snaplen"), [(BOTH, None), ((CLIENT,), None), ((SERVER,), None), (BOTH, 96)])
def test_a_stopped_server_is_named_though_half_of_it_was_not_captured(
    sides: tuple[int, ...], snaplen: int | None
) -> None:
    (problem,) = named(conversation(publishes(PAUSE), sides, snaplen), "server.stalled")
    assert problem.title.startswith("10.0.0.2:5552 stalled for 3.00")
    assert problem.severity == "warning"


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_consumer_that_waits_for_messages_shows_no_stall(side: int) -> None:
    """It gives credit for each burst, and nothing comes for two seconds."""
    said: list[tuple[float, int, Layer]] = []
    for burst in range(4):
        for number in range(20):
            at = 0.1 + burst * 2.5 + number / 100
            said.append((at, SERVER, chunk(burst * 20 + number)))
            said += [(at + 0.05, CLIENT, layers.Credit(subscription_id=1, credit=1))]
    assert worse(conversation(said, (side,))) == []


def test_a_publish_waits_as_long_as_those_before_it() -> None:
    """The capture ends while the server confirms, in order, what waited for three seconds."""
    said = [each for each in publishes(PAUSE | dict.fromkeys(range(70, 80), 60.0)) if each[0] < 8.05]
    assert "publish.unconfirmed" not in worse(conversation(said))
    later = [*said, (20.0, CLIENT, layers.Heartbeat()), (20.1, SERVER, layers.Heartbeat())]
    assert "publish.unconfirmed" in worse(conversation(later))


@pytest.mark.parametrize(
    ("waits", "words"),
    [
        ({number: 0.002 + number / 100 for number in range(80)}, "answered Publish ever more slowly"),
        (dict.fromkeys(range(30, 80), 0.8), "became slow"),
        (dict.fromkeys(range(30, 80), 0.15), None),
        (dict.fromkeys(range(80), 0.8), None),
        (PAUSE, None),
    ],
    ids=["rising", "a step", "still quick", "slow from the beginning", "one pause"],
)
def test_answers_that_become_slow(waits: dict[int, float], words: str | None) -> None:
    found = named(conversation(publishes(waits)), "request.slower")
    assert [words in problem.title for problem in found if words] == ([True] if words else [])
    assert bool(found) == bool(words)


def test_few_slow_answers_after_very_many_quick_ones_are_kept() -> None:
    """Requests that wait for each other become few when answers become slow."""
    trend, place = Trend(), cast(FrameRef, None)
    quick = [TimedAnswer(number * 2_000_003, 1_000_003, place) for number in range(3000)]
    slow = [TimedAnswer(6_100_000_007 + number * 700_000_011, 700_000_009, place) for number in range(9)]
    for answered in (*quick, *slow):
        trend.add(answered)
    assert [each for part in trend.parts() for each in part if each.latency_ns > 1_000_003] == slow


def test_very_many_answers_of_one_moment_are_kept_once() -> None:
    trend, place = Trend(), cast(FrameRef, None)
    for _ in range(300):
        trend.add(TimedAnswer(7_000_000_019, 1_000_003, place))
    assert len(trend.answers) == 1


def lags(behind: Iterable[int]) -> list[Problem]:
    """A Fetch and a commit each second; at each commit the group is so many messages behind."""
    said = []
    for place, lag in enumerate(behind):
        end, at = 1000 * (place + 1), 1.0 + place
        partition = {"partition_index": 3, "high_watermark": end, "records": b""}
        committed = {"partition_index": 3, "committed_offset": end - lag}
        for number, side, name, version, values in (
            (0, CLIENT, "FetchRequest", 4, {"topics": [{"topic": "orders", "partitions": []}]}),
            (1, SERVER, "FetchResponse", 4, {"responses": [{"topic": "orders", "partitions": [partition]}]}),
            (2, CLIENT, "OffsetCommitRequest", 2, {"topics": [{"topic": "orders", "partitions": [committed]}]}),
            (3, SERVER, "OffsetCommitResponse", 2, {"topics": []}),
        ):
            head = {"correlation_id": 0x01020300 + place * 2 + number // 2}
            head |= {} if side else {"api_version": version, "client_id": "app-1", "group_id": "billing"}
            layer = layer_of(name, version)
            known = {each.name for each in layer.fields_desc}
            built = build(layer, {key: value for key, value in (head | values).items() if key in known})
            said.append((at + number / 100, side, bytes(built)))
    return talk(9092, *said)


def test_a_group_that_is_further_behind_at_each_commit() -> None:
    (problem,) = named(lags((10, 150, 300, 450)), "consumer.too-slow")
    assert problem.title == "orders[3], group billing is too slow: it lagged by 10 messages, then 450"
    assert problem.severity == "warning"


@pytest.mark.parametrize("behind", [(10, 150, 3, 200), (0, 20, 40, 60), (400, 420, 440)])
def test_a_group_that_keeps_up_is_not_behind(behind: tuple[int, ...]) -> None:
    assert named(lags(behind), "consumer.too-slow") == []


@pytest.mark.parametrize(
    ("lives", "pause", "goodbye"), [(4, 1.0, False), (2, 1.0, False), (4, 60.0, False), (4, 1.0, True)]
)
def test_a_consumer_that_is_killed_and_comes_back(lives: int, pause: float, goodbye: bool) -> None:
    """Each time it begins at the next message, and ends without Close."""
    packets: list[bytes | tuple[float, bytes]] = []
    for life in range(lives):
        made, at = craft.Talk(client=("10.0.0.1", 40001 + life)), life * (2.0 + pause)
        said: list[Said] = [*HANDSHAKE, *subscribed(1), (SERVER, bytes(chunk(100 + life * 50)))]
        said += [(CLIENT, layers.Unsubscribe(correlation_id=9, subscription_id=1))] * goodbye
        packets += [(at, part) for part in made.handshake()]
        packets += [(at + 0.1, part) for side, layer in said for part in made.send(side, bytes(layer))]
        packets += [(at + 2.0, part) for part in made.close()]
    found = named(check(craft.batches(packets)), "rabbitmq_stream.consumer-crash-loop")
    assert [problem.title for problem in found] == (
        ["10.0.0.1 ended 4 times without Close while it consumed orders, and began again"]
        if (lives, pause, goodbye) == (4, 1.0, False)
        else []
    )


def test_a_server_that_clients_gave_up_one_after_another_served_none_of_them() -> None:
    packets: list[tuple[float, bytes]] = []
    for place, (begin, end) in enumerate(((0.1, 3.3), (0.2, 6.4), (3.5, 8.0), (6.5, 10.0))):
        made = craft.Talk(client=("10.0.0.1", 40001 + place))
        packets += [(begin, part) for part in made.handshake()]
        packets += [(begin, part) for part in made.send(CLIENT, bytes(HANDSHAKE[0][1]))]
        packets += [(begin + 0.01, made.ack(SERVER)), *((end, part) for part in made.close()[:1])]
    (stalled,) = named(check(craft.batches(sorted(packets, key=lambda packet: packet[0]))), "server.stalled")
    assert not [each for each in stalled.details if "continued to serve" in each]
    assert "limit of connections" not in stalled.likely
