"""TANK: results of partitions, and gaps between what was asked for and what came."""

from __future__ import annotations

import struct

import pytest

from tests.check.support import CAPTURES, check, named, talk, worse
from tests.protocols.test_tank_surprises import (
    PING,
    consume,
    consumed,
    framed,
    message,
    plain,
    produce,
    produced,
    sized,
    str8,
)
from wiredecode.check import Problem

PORT = 11011
ENDPOINT = bytes([10, 0, 0, 9]) + struct.pack("<H", 11012)
REQUEST = produce((b"orders", [(3, plain(message()))]))


def said(*turns: bytes) -> list[Problem]:
    """Request and response alternate after the broker's Ping."""
    return talk(PORT, (0.1, 1, PING), *((1.0 + number / 10, number % 2, data) for number, data in enumerate(turns)))


def test_a_redirect_is_a_remark_until_it_goes_on() -> None:
    redirect = produced(1, b"\xfc" + ENDPOINT)
    (once,) = named(said(REQUEST, redirect), "tank.redirect")
    assert (once.severity, once.title) == ("note", "orders/3: another node leads: 10.0.0.9:11012")
    (often,) = named(said(*(REQUEST, redirect) * 3), "tank.redirect")
    assert (often.severity, often.count) == ("warning", 3)


def test_a_partition_without_leader() -> None:
    found = said(REQUEST, produced(1, b"\xfd"))
    assert [problem.title for problem in named(found, "tank.no-leader")] == ["orders/3 has no leader"]


def test_stored_messages_raise_nothing() -> None:
    assert worse(said(REQUEST, produced(1, b"\0"))) == []


@pytest.mark.parametrize(
    ("wanted", "base", "expected"),
    [(0x0102, 0x0102, []), (0x0102, 0x0100, []), (0x0102, 0x0105, ["tank.gap"]), (0, 0x0105, [])],
)
def test_messages_between_the_requested_and_the_first_one(wanted: int, base: int, expected: list[str]) -> None:
    """Bundles come whole, so the first message may be an earlier one; 0 requests the first available message."""
    found = said(consume({0: wanted}), consumed([sized(plain(message(), message()))], base=base))
    assert worse(found) == expected
    if expected:
        assert found[0].title == "3 messages of foo/0 are missing: 258 was asked for, 261 came"


def test_a_boundary_check_names_the_available_messages() -> None:
    entry = struct.pack("<HBQQIQ", 0, 1, 0, 0x0201, 0, 0x0101)
    head = struct.pack("<I", 1) + b"\1" + str8(b"foo") + b"\1" + entry
    found = said(consume({0: 0x0F0F}), framed(2, struct.pack("<I", len(head)) + head))
    (problem,) = named(found, "tank.boundary")
    assert problem.title == "connection #1 asked for message 3,855 of foo/0: the broker has 257 to 513"


def test_messages_not_stored_name_topic_and_partition() -> None:
    found = named(check(CAPTURES / "tank" / "tank_07_produce_multi_errors.pcap"), "tank.not-stored")
    assert "messages for foo/7: unknown partition" in {problem.title for problem in found}
