"""Paths that were cut, and who is named then: captures of single packets."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.check.support import check, checked, named
from tests.net import craft
from tests.view.frames import CLIENT, SERVER
from wiredecode.check import Problem

Packets = list[tuple[float, bytes]]
AGAIN = (0.0, 0.8, 2.5, 5.9, 12.6)
"""A segment and its repetitions, as TCP backs off."""


def made(*packets: Packets) -> list[Problem]:
    """The problems as they are printed: those of one cause are joined."""
    return checked(craft.batches(sorted(chain(*packets)))).finish()


def repeated(talk: craft.Talk, begin: float, data: bytes = b"PING\r\n") -> Packets:
    return [(begin + seconds, talk.packet(CLIENT, data)) for seconds in AGAIN]


def served(talk: craft.Talk, begin: float, until: float, step: float = 0.4) -> Packets:
    """Data of the client that the server acknowledges."""
    found: Packets = []
    for place in range(round((until - begin) / step)):
        found += [(begin + place * step, packet) for packet in talk.send(CLIENT, b"PUB a 2\r\nhi\r\n")]
        found.append((begin + place * step + 0.001, talk.ack(SERVER)))
    return found


@pytest.mark.parametrize(("data", "cut"), [(b"PING\r\n", True), (b"P", False)])
def test_a_host_that_was_gone_before_the_capture_is_named_and_probes_of_one_byte_accuse_none(
    data: bytes, cut: bool
) -> None:
    gone = craft.Talk(server=("10.0.0.2", 4222))
    found = named(
        made(repeated(gone, 0.0, data), served(craft.Talk(server=("10.0.0.3", 4222)), 0.1, 13.0)), "tcp.no-ack"
    )
    titles = [each.title for each in found]
    assert titles == ["10.0.0.2:4222 stopped acknowledging for 12.600 s: path or host down"] * cut


@pytest.mark.parametrize("third", [False, True])
def test_a_host_that_loses_all_others_at_one_time_has_lost_its_own_link(third: bool) -> None:
    talks = [craft.Talk(("10.0.0.1", 40000 + host), (f"10.0.0.{host}", 4222)) for host in (2, 3, 4)]
    lost = [[*served(each, 0.1, 3.0), *repeated(each, 3.0 + place / 10)] for place, each in enumerate(talks[:2])]
    other = served(talks[2], 0.2, 16.0) if third else []
    first, *more = named(made(*lost, other), "tcp.no-ack")
    if third:
        assert "stopped acknowledging" in first.title
        assert len(more) == 1
    else:
        assert first.title.startswith("10.0.0.1 lost contact with 2 hosts at one time")
        assert not more


@pytest.mark.parametrize("flags", [craft.RST, craft.RST | craft.ACK])
def test_resets_without_ack_come_from_a_middlebox_that_forgot_the_connections(flags: int) -> None:
    packets: Packets = []
    for number in range(3):
        talk = craft.Talk(client=("10.0.0.1", 40001 + number))
        begin = [*talk.handshake(), *talk.send(CLIENT, b"\0\0\0\1\1"), talk.packet(SERVER, flags=flags)]
        packets += [(number + place / 1000, packet) for place, packet in enumerate(begin)]
    (problem,) = named(check(craft.batches(packets)), "tcp.nothing-said")
    assert problem.title == "3 connections to 10.0.0.2:5552 ended at once, without a byte from it"
    assert ("lost its state" in problem.likely) is (flags == craft.RST)


@pytest.mark.parametrize(("accepted", "lossy"), [((1.5, 2.5, 4.5), True), ((8.5, 9.0, 9.5), False)])
def test_syns_that_are_lost_between_accepted_ones_do_not_show_that_a_host_is_down(
    accepted: tuple[float, ...], lossy: bool
) -> None:
    packets: Packets = []
    for number, begin in enumerate((1.0, 2.0, 3.0, 6.0)):
        syn = craft.Talk(client=("10.0.0.1", 41000 + number)).handshake()[0]
        packets += [(begin, syn), (begin + 1.0, syn)]
    for number, begin in enumerate(accepted):
        talk = craft.Talk(client=("10.0.0.1", 42000 + number))
        begun = [*talk.handshake(), *talk.send(CLIENT, b"\0\0\0\1\1")]
        packets += [(begin + place / 1000, each) for place, each in enumerate(begun)]
    (problem,) = named(made(packets), "tcp.no-answer")
    assert (problem.title == "10.0.0.2:5552 did not answer 4 of 7 connections") is lossy
    assert ("its host is up" in problem.likely) is lossy


@pytest.mark.parametrize("arrived", [True, False])
def test_bytes_that_the_other_side_never_got_were_lost_on_the_way_and_not_by_the_capture(arrived: bool) -> None:
    talk = craft.Talk(server=("10.0.0.2", 4222))
    packets: Packets = [(0.0, packet) for packet in talk.handshake()] + served(talk, 0.1, 1.0)
    packets += [(1.1, packet) for packet in talk.send(CLIENT, b"PUB a 4014\r\n")]
    before = talk.packet(SERVER, b"PING\r\n")
    talk.seq[CLIENT] += 4000
    packets += [(1.2, packet) for packet in talk.send(CLIENT, b"the last bytes\r\n")]
    after = talk.packet(SERVER, b"PING\r\n")
    packets.append((5.0, after if arrived else before))
    (problem,) = [each for each in made(packets) if each.severity != "note"]
    assert problem.name == ("capture.loss" if arrived else "tcp.no-ack")
    assert arrived or problem.title.startswith("10.0.0.2:4222 did not get bytes")
