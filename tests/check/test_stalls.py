"""Stalls that TCP shows where frames do not, and chunks that only seem to be missing."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.check.crafted import Said, answer, deliver, rabbitmq, subscribed
from tests.check.support import check, named, worse
from tests.net import craft
from tests.view.frames import CLIENT, HANDSHAKE, SERVER
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry
from wiredecode.protocols.shared.problems import Problem

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
    assert problem.what.startswith("10.0.0.2:5552 stalled for 3.00")
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


@pytest.mark.parametrize("known", [True, False])
def test_chunks_of_a_subscription_that_began_before_the_capture_may_be_filtered(known: bool) -> None:
    chunks: list[Said] = [deliver(at, [ChunkEntry(data=b"body")]) for at in (0, 1, 9)]
    found = rabbitmq([*(subscribed(1) if known else []), *chunks])
    assert bool(named(found, "rabbitmq_stream.offset-gap")) == known
