"""Connections that begin with the same bytes: each protocol is asked once, and gives each connection its own answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from wiredecode.dissect.dissector import ANALYSED, Dissector
from wiredecode.dissect.identify import BEGINNING_BYTES, BEGINNINGS, Candidate
from wiredecode.frames.splitter import Rejected, Undecided, Unreadable, Verdict
from wiredecode.net.health import RETRANSMISSION
from wiredecode.protocols.registry import RegistryEntry
from wiredecode.testing import Talk, batches

HELLO = b"\x01\x23\x45\x67"
ASKS = bytes.fromhex("0000000c 0011 0001 01020304 00000000")
"""PeerProperties of RabbitMQ Stream without properties."""


class Counting:
    """A protocol that counts how often it is asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, 0

    def new_session(self) -> Counting:
        return self

    def recognise(self, data: bytes, **_: bool) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def candidate(protocol: Counting) -> Candidate:
    return Candidate(cast(RegistryEntry, SimpleNamespace(load=lambda: protocol, ports=(5552,))))


def ask(one: Candidate, data: bytes = HELLO, *, started: bool = True, final: bool = False, port: bool = True) -> Any:
    return one.recognise(data, started=started, final=final, port=port)


@pytest.mark.parametrize("answer", [Verdict(0, True), Undecided(1), Rejected()])
def test_equal_bytes_are_asked_once(answer: Any) -> None:
    one = candidate(asked := Counting(answer))
    assert [ask(one), ask(one), ask(one, bytes(bytearray(HELLO)))] == [answer] * 3
    assert asked.asked == 1


def test_the_same_bytes_elsewhere_are_another_question() -> None:
    one = candidate(asked := Counting(Rejected()))
    for place in ({}, {"started": False}, {"final": True}, {"port": False}):
        ask(one, **place)
    ask(one, HELLO + b"\x89")
    assert asked.asked == 5


def test_a_transport_belongs_to_one_connection() -> None:
    one = candidate(asked := Counting(Verdict(0, splitter=Unreadable("web"))))
    ask(one), ask(one)
    assert asked.asked == 2


def test_exceptions_and_wrong_answers_are_raised_each_time() -> None:
    for answer, error in ((KeyError("a bug"), KeyError), ("no answer", TypeError)):
        one = candidate(asked := Counting(answer))
        for _ in range(2):
            with pytest.raises(error):
                ask(one)
        assert asked.asked == 2


def test_few_answers_are_kept_and_none_of_long_bytes() -> None:
    one = candidate(asked := Counting(Rejected()))
    for number in range(3 * BEGINNINGS):
        ask(one, number.to_bytes(4))
    assert len(one._answers) <= BEGINNINGS
    before = asked.asked
    ask(one, bytes(BEGINNING_BYTES + 1)), ask(one, bytes(BEGINNING_BYTES + 1))
    assert asked.asked == before + 2


def test_connections_that_begin_alike_end_as_they_would_alone() -> None:
    """A reused port, a late packet of the connection before, and one in mid-stream."""

    def first(isn: int) -> list[bytes]:
        talk = Talk(isn=(isn, isn + 0x01020304))
        return [*talk.handshake(), *talk.send(0, ASKS)]

    late = Talk(client=("10.0.0.3", 40001))
    packets = [*first(1000), *first(0x23456789), first(1000)[-1], *late.send(0, ASKS), *first(0x3456789A)]
    dissector = Dissector(ANALYSED)
    frames = sorted(dissector.frames(batches(packets)), key=lambda frame: frame.connection.number)
    assert [(frame.connection.number, frame.type, frame.status) for frame in frames] == [
        (number, "PeerProperties", "ok") for number in (1, 2, 3, 4)
    ]
    assert [frame.connection.initiator for frame in frames] == [0, 0, None, 0]
    again = [frame.connection.health.directions[0].number_of(RETRANSMISSION) for frame in frames]
    assert again == [0, 1, 0, 0]
