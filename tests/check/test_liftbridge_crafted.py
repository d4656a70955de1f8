"""Liftbridge servers whose names no CONNECT shows, and replicas that are removed."""

from __future__ import annotations

import pytest

from tests.check.support import check, named, worse
from tests.net import craft
from wiredecode.check import Problem
from wiredecode.check.causes import group_by_cause
from wiredecode.protocols.liftbridge.layers import PropagatedRequest
from wiredecode.protocols.liftbridge.layers_operations import layer_of

HEARTBEAT = bytes.fromhex(
    "0087a7456e7472696573c0a64c6561646572a46c622d31b14c6561646572436f6d6d6974496e64657800ac507265764c6f67456e7472"
    "7900ab507265764c6f675465726d00af50726f746f636f6c56657273696f6e03a45465726d02"
)
ANSWER = bytes.fromhex(
    "a085a74c6173744c6f6757ae4e6f52657472794261636b6f6666c2af50726f746f636f6c56657273696f6e03a753756363657373c3a4"
    "5465726d02"
)


def message(operation: str, subject: str, data: bytes) -> bytes:
    return f"{operation} {subject} {len(data)}\r\n".encode() + data + b"\r\n"


def follower(*said: tuple[float, int], more: bytes = b"") -> list[Problem]:
    """What NATS (1) delivers to lb-2 of a cluster, and what lb-2 (0) answers until it closes (2); lb-1 publishes
    ``more`` meanwhile."""
    talk = craft.Talk(server=("10.0.0.2", 4222))
    packets = [(0.0, part) for part in talk.handshake()]
    for seconds, side in said:
        asks = message("MSG", "lab.raft.metadata.lb-2.request._INBOX.GQUyKx 5", HEARTBEAT)
        answers = message("PUB", "lab.raft.metadata.lb-1.request._INBOX.HWlVeN", ANSWER)
        packets += [
            (seconds, part) for part in (talk.close() if side == 2 else talk.send(side, asks if side else answers))
        ]
    other = craft.Talk(client=("10.0.0.1", 40002), server=("10.0.0.2", 4222))
    packets += [(2.0, part) for part in (*other.handshake(), *other.send(0, more))] if more else []
    return check(craft.batches(sorted(packets, key=lambda packet: packet[0])))


BEFORE = [(0.1, 1), (0.11, 0), (0.2, 1), (0.21, 0)]
PAUSE = [(seconds / 10, 1) for seconds in range(3, 24)]


def test_a_follower_that_was_connected_before_the_capture_went_silent() -> None:
    (silent,) = named(follower(*BEFORE, *PAUSE, (2.4, 0)), "liftbridge.server-silent")
    assert silent.title == "lb-2 of lab sent nothing for up to 2.100 s"


@pytest.mark.parametrize("said", [[*BEFORE, (0.3, 1), (2.4, 0)], [*BEFORE, *PAUSE[::2], *((at, 0) for at, _ in PAUSE)]])
def test_a_follower_that_is_asked_nothing_or_answers_did_not(said: list[tuple[float, int]]) -> None:
    assert worse(follower(*sorted(said))) == []


REMOVAL = layer_of("ShrinkISROp")(stream="orders", replica_to_remove="lb-2", leader="lb-1", partition=3)
REMOVED = message("PUB", "lab.raft.metadata.propagate", bytes(PropagatedRequest(op=1, shrink_isr_op=REMOVAL)))


@pytest.mark.parametrize(("paused", "severity"), [(False, "note"), (True, "warning")])
def test_a_replica_that_is_removed_while_it_answers_followed_an_idle_partition(paused: bool, severity: str) -> None:
    answered = PAUSE if paused else [*PAUSE, *((at + 0.01, 0) for at, _ in PAUSE)]
    (problem,) = named(follower(*BEFORE, *sorted(answered), (2.4, 0), more=REMOVED), "liftbridge.isr-shrink")
    assert problem.severity == severity


def test_a_replica_that_ended_its_connections_before_it_was_removed_went_away() -> None:
    first, *others = group_by_cause(follower(*BEFORE, (0.5, 2), more=REMOVED))
    assert first.title == "lb-2 of lab went away: its connections ended at 0.500 s"
    assert {each.severity for each in others} <= {"note"}
