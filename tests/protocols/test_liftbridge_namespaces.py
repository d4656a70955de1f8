"""Two Liftbridge clusters on one NATS with equal streams and contents: their frames are never mixed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check.support import check, named
from tests.net import craft
from tests.protocols.liftbridge_nats import INFO, Said
from tests.support import dissect
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.liftbridge import layers
from wiredecode.protocols.liftbridge.conversation import LiftbridgeSession
from wiredecode.protocols.liftbridge.layers_replication import Entry
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.testing import tables
from wiredecode.trace.sighting import group, sighting

NUID = "FXd4TUZC7hcFDhWKuwqxr1"
CONNECT = 'CONNECT {"verbose":false,"lang":"go","name":"%s"}\r\nSUB > 1\r\n'
BODY = b"in both clusters"

Turn = tuple[float, Said]


def packets(turns: list[Turn], *, late: bool = False) -> list[bytes | tuple[float, bytes]]:
    """Connection 1 is a server of alpha, 2 and 3 of beta; ``late``: their CONNECT is not in the capture."""
    names = {
        1: "LIFT.alpha.server-0.replication",
        2: "LIFT.beta.server-0.replication",
        3: "LIFT.beta.server-1.publishes",
    }
    talks = {number: craft.Talk(client=("10.0.0.1", 40000 + number), server=("10.0.0.2", 4222)) for number in names}
    made: list[bytes | tuple[float, bytes]] = []
    for number, one in talks.items():
        first = [*one.handshake(), *one.send(1, INFO), *one.send(0, (CONNECT % names[number]).encode())]
        made += [] if late else first
    for seconds, said in turns:
        made += [(seconds, each) for each in talks[said.connection].send(said.side, said.line())]
    return made


def frames(turns: list[Turn], *, late: bool = False) -> list[Frame]:
    run = dissect(craft.batches(packets(turns, late=late)), known=(Nats(),))
    return sorted((frame for frame in run.frames if "size" in frame.values), key=lambda frame: frame.time_ns)


def asks(cluster: str, connection: int, offset: int) -> Said:
    request = layers.ReplicationRequest(replica_id="server-0", offset=offset, leader_epoch=0x0A0B)
    reply = f"_INBOX.{cluster}.{offset}"
    return Said(bytes(request), f"{cluster}.orders.0.replicate", reply, connection=connection)


def answers(cluster: str, connection: int, offset: int, newest: int, body: bytes = b"") -> Said:
    entries = (
        [Entry(offset=newest, timestamp=1_700_000_000_000_000_000, leader_epoch=0x0A0B, value=body)] if body else []
    )
    response = layers.ReplicationResponse(leader_epoch=0x0A0B, high_watermark=newest, entries=entries)
    return Said(bytes(response), f"_INBOX.{cluster}.{offset}", connection=connection)


def published(cluster: str, connection: int) -> Said:
    inbox = f"{cluster}.ack.{NUID}"
    return Said(
        bytes(layers.Publish(stream="orders", value=BODY, ack_inbox=inbox)), f"in.{cluster}", connection=connection
    )


@pytest.mark.parametrize("late", [False, True])
def test_requests_responses_publishes_and_acks_have_a_namespace(late: bool) -> None:
    ack = layers.Ack(stream="orders", ack_inbox=f"beta.ack.{NUID}")
    turns = [
        (0.1, asks("alpha", 1, 6)),
        (0.2, answers("alpha", 1, 6, 7, BODY)),
        (0.3, published("beta", 3)),
        (0.4, Said(bytes(ack), f"beta.ack.{NUID}", side=1, connection=3)),
        (0.5, Said(bytes(layers.PartitionNotification(stream="orders")), "beta.notify.server-1", connection=2)),
        (
            0.6,
            Said(bytes(layers.PartitionStatusRequest(stream="a")), "beta.raft.metadata.status.x", "_I.1", connection=2),
        ),
    ]
    assert [frame.generated["namespace"] for frame in frames(turns, late=late)] == ["alpha"] * 2 + ["beta"] * 4


def test_an_ambiguous_dotted_subject_sets_no_namespace() -> None:
    (frame,) = frames([(0.1, asks("alpha.eu", 1, 6))], late=True)
    assert "namespace" not in frame.generated
    assert "stream" not in frame.generated


def test_the_longest_namespace_wins() -> None:
    memory = LiftbridgeSession()
    memory.learn_namespace("prod")
    memory.learn_namespace("prod.eu")
    assert memory.subject_facts("prod.eu.orders.0.replicate")[1:3] == ("prod.eu", {"stream": "orders", "partition": 0})


def test_replica_lag_ignores_equal_stream_names_of_another_cluster() -> None:
    """Alpha has offset 900 for seconds; beta's stream of the same name is new."""
    turns: list[Turn] = [(0.1, asks("alpha", 1, 900)), (0.2, answers("alpha", 1, 900, 901))]
    turns += [(6.0 + step, asks("beta", 2, step)) for step in range(3)]
    assert named(check(craft.batches(packets(turns))), "liftbridge.replica-lag") == []
    turns += [(9.5, asks("alpha", 1, 899))]
    (lag,) = named(check(craft.batches(packets(turns))), "liftbridge.replica-lag")
    assert lag.title == "server-0 of alpha was up to 9.300 s behind its leaders, in orders[0] of alpha"


@pytest.mark.parametrize("late", [False, True])
def test_a_message_is_not_replicated_in_the_other_cluster(late: bool) -> None:
    turns = [
        (0.1, asks("alpha", 1, 6)),
        (0.2, asks("beta", 2, 6)),
        (0.3, published("beta", 3)),
        (0.4, answers("alpha", 1, 6, 7, BODY)),
        (0.5, answers("beta", 2, 6, 7, BODY)),
    ]
    messages = Messages()
    for _ in Dissector(Demand(messages=messages)).frames(craft.batches(packets(turns, late=late))):
        pass
    parts: Any = messages.drain()
    found = group(sighting(part, 0, 0) for part in parts if part.bodies[0] == BODY)
    (mine,) = [each for each in found if each.first.operation == "publish" and each.first.offset is None]
    assert [each.namespace for each in mine.sightings] == ["beta", "beta"]


@pytest.mark.parametrize("late", [False, True])
def test_messages_table_has_a_namespace_column(late: bool) -> None:
    turns = [(0.1 + step / 1000, published(*(("beta", 3) if step % 2 else ("alpha", 1)))) for step in range(8)]
    made = packets(turns, late=late)
    with tables.shortest_blocks():
        both = [tables.table(craft.batches(made), "messages", blocks=blocks)[0] for blocks in (False, True)]
    for rows in both:
        names = zip(rows["topic"].to_pylist(), rows["namespace"].to_pylist(), strict=True)
        assert set(names) == {("orders", "alpha"), ("orders", "beta")}
    assert both[0].equals(both[1])
