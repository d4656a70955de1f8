"""Cursus: groups of consumers, replies that were cut, publishes without acks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.support import check, named, talk, worse
from tests.protocols.test_cursus_surprises import cmd, framed
from wiredecode.check import Problem

EDGES = Path(__file__).parent.parent / "protocols" / "edges"
OPENING = ((0.1, 0, cmd("LIST")), (0.2, 1, framed("OK count=1 topics=orders")))
MEMBER = "topic=orders group=g member=m-1234 generation=1"
JOINED = ((0.5, 0, cmd("JOIN_GROUP topic=orders group=g member=m")), (0.6, 1, framed("OK generation=1 member=m-1234")))


def said(*turns: tuple[float, int, bytes]) -> list[Problem]:
    return talk(9000, *OPENING, *turns)


def beats(*times: float, reply: str) -> list[tuple[float, int, bytes]]:
    """Heartbeats, and the broker's reply to each."""
    return [
        turn
        for seconds in times
        for turn in ((seconds, 0, cmd(f"HEARTBEAT {MEMBER}")), (seconds + 0.1, 1, framed(reply)))
    ]


STALE = "ERROR: GEN_MISMATCH current=2 requested=1 group=g member=m-1234"


@pytest.mark.parametrize(
    ("times", "severity"),
    [((1.0, 1.2, 1.4), "note"), ((1.0, 4.0), "note"), ((1.0, 4.0, 7.0), "warning")],
)
def test_a_member_that_goes_on_with_an_old_generation(times: tuple[float, ...], severity: str) -> None:
    (problem,) = named(said(*JOINED, *beats(*times, reply=STALE)), "cursus.stale-generation")
    assert (problem.severity, problem.count) == (severity, len(times))
    assert problem.title == "m-1234 of group g works with generation 1, the group is at 2"


def test_a_member_that_joins_again_is_none() -> None:
    again = (
        (4.5, 0, cmd("JOIN_GROUP topic=orders group=g member=m-1234 generation=2")),
        (4.6, 1, framed("OK generation=2 member=m-1234 resumed=true")),
    )
    assert worse(said(*JOINED, *beats(1.0, 4.0, reply=STALE), *again, *beats(7.0, reply=STALE))) == []


def test_a_member_that_the_broker_forgot_timed_out() -> None:
    gone = "ERROR: member_not_found member=m-1234 group=g"
    accepted = beats(3.0, reply="OK member=m-1234 generation=1")
    (problem,) = [each for each in said(*JOINED, *accepted, *beats(40.0, reply=gone)) if each.severity == "warning"]
    assert problem.name == "cursus.session-timeout"
    assert problem.details == ["it was accepted last 37.000 s before"]


def test_a_member_that_left_did_not_time_out() -> None:
    left = ((2.0, 0, cmd(f"LEAVE_GROUP {MEMBER}")), (2.1, 1, framed("OK group=g member=m-1234 left=true")))
    gone = "ERROR: member_not_found member=m-1234 group=g"
    assert worse(said(*JOINED, *left, *beats(40.0, reply=gone))) == []


def test_a_group_that_is_rebalanced_again_and_again() -> None:
    joins = [
        turn
        for number in range(2, 8)
        for turn in (
            (number, 0, cmd(f"JOIN_GROUP topic=orders group=g member=n{number}")),
            (number + 0.1, 1, framed(f"OK generation={number} member=n{number}-0102")),
        )
    ]
    assert [each.severity for each in named(said(*JOINED, *joins[:2]), "cursus.rebalance")] == ["note"]
    (often,) = named(said(*JOINED, *joins), "cursus.rebalance")
    assert (often.severity, often.count) == ("warning", 6)


def test_another_broker_that_leads_is_a_remark_until_it_goes_on() -> None:
    asked = cmd("FETCH_OFFSET topic=orders partition=0 group=g")
    told = framed("ERROR: NOT_LEADER LEADER_IS 10.0.0.9:9000")
    once, often = (
        named(
            said(*(turn for n in range(count) for turn in ((1.0 + n, 0, asked), (1.1 + n, 1, told)))),
            "cursus.not-leader",
        )
        for count in (1, 3)
    )
    assert once[0].title == "connection #1 asked the wrong broker: NOT_LEADER, it is 10.0.0.9:9000"
    assert (once[0].severity, often[0].severity) == ("note", "warning")


def test_a_reply_that_was_cut_after_its_length_is_no_keep_alive() -> None:
    """Go writes length and body separately: a client that closes immediately resets in between."""
    whole = framed("OK group=g member=m-1234 left=true")
    found = said(*JOINED, (2.0, 0, cmd(f"LEAVE_GROUP {MEMBER}")), (2.1, 1, whole[:4]))
    assert not named(found, "cursus.empty-reply")
    empty = said(*JOINED, (2.0, 0, cmd(f"LEAVE_GROUP {MEMBER}")), (2.1, 1, bytes(4)))
    assert named(empty, "cursus.empty-reply")


def test_a_broker_that_closes_without_an_answer() -> None:
    """A broker with gzip takes plain commands for damage."""
    (problem,) = named(check(EDGES / "cursus-closed-unanswered.pcap"), "request.unanswered")
    assert problem.title == "127.0.0.1:9000 closed 2 connections and did not answer CREATE, METADATA"
    assert problem.severity == "error"


def test_forwarded_publishes_are_refused_once() -> None:
    refused = framed("ERROR: NOT_LEADER leader=b:9000")
    publish = "topic=a acks=1 producerId=p message=hello"
    turns = (
        *((1.0, 0, cmd(f"PUBLISH {publish}")), (1.1, 1, refused)),
        *((1.2, 0, cmd(f"PUBLISH internal_token=s3 {publish}")), (1.3, 1, refused)),
    )
    (problem,) = named(said(*turns), "publish.refused")
    assert problem.count == 1


@pytest.mark.parametrize("publishes", [False, True])
def test_a_reader_that_falls_back_does_not_show_that_the_publisher_reaches_localhost(publishes: bool) -> None:
    leader = "OK topic=orders partitions=1 leaders=localhost:9000 epochs=0"
    reads = "CONSUME topic=orders partition=0 offset=16909060 group=billing member=b-1", "OK"
    first = "CREATE topic=orders partitions=1", "OK topic=orders partitions=1", "METADATA topic=orders", leader
    published = ("PUBLISH topic=orders acks=1 producerId=p1 message=hello", "OK") if publishes else ()
    turns = [(0.1 + place / 10, text) for place, text in enumerate((*first, *published))]
    turns += [(3.0 + place / 10, text) for place, text in enumerate(reads)]
    asked = [
        (seconds, place % 2, framed(text) if place % 2 else cmd(text)) for place, (seconds, text) in enumerate(turns)
    ]
    found = [each.title for each in named(talk(9000, *asked), "cursus.advertised-host")]
    begin = "the broker sends clients to localhost:9000; no connection to it follows"
    assert [each.partition(",")[0] for each in found] == ([] if publishes else [begin])
