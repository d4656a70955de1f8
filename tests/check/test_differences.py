"""Clients with a problem are compared with those without: what separates them is said, chance is not."""

import pytest

from tests.check.support import CAPTURES, checked, named
from wiredecode.capture import open_capture
from wiredecode.check.differences import Client, differences


def client(number: int, who: str, **traits: str) -> Client:
    known = {"user": "", "client library": "", "client": "", "network": ""}
    return Client(
        number, "kafka", "10.0.0.9", who, known | {name.replace("_", " "): text for name, text in traits.items()}
    )


def test_what_all_that_fail_have_and_no_other_is_said() -> None:
    good = [client(1, "a", user="orders"), client(2, "b", user="orders")]
    bad = [client(3, "c", user="billing"), client(4, "d", user="billing")]
    assert differences(good, bad) == ["clients with this problem: user billing; others of this server: user orders"]


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        pytest.param([client(1, "a", user="x")], [client(2, "b", user="y")], id="two clients always differ"),
        pytest.param(
            [client(1, "a", user="x"), client(2, "b", user="y")], [client(3, "c", user="z")], id="each has its own user"
        ),
        pytest.param(
            [client(1, "a", user="x"), client(2, "b", user="x")],
            [client(3, "c", user="x"), client(4, "d", user="y")],
            id="one that fails is like those that do not",
        ),
        pytest.param(
            [client(1, "a", user="x"), client(2, "b", user="x")],
            [client(3, "c", user="y"), client(4, "d", user="")],
            id="of one that fails the user is not known",
        ),
        pytest.param([], [client(3, "c", user="y"), client(4, "d", user="y"), client(5, "e", user="y")], id="all fail"),
        pytest.param(
            [client(1, "a", user="x"), client(2, "a", user="x")], [client(3, "b", user="y")], id="one client twice"
        ),
    ],
)
def test_chance_is_not_said(good: list[Client], bad: list[Client]) -> None:
    assert differences(good, bad) == []


def test_the_library_is_said_without_its_version() -> None:
    good = [client(number, f"g{number}", client_library="rstream", client="rstream 1.0") for number in (1, 2)]
    bad = [client(number, f"b{number}", client_library="sarama", client=f"sarama 1.{number}") for number in (3, 4)]
    assert differences(good, bad) == [
        "clients with this problem: client library sarama; others of this server: client library rstream"
    ]


def test_one_user_without_rights_is_one_problem() -> None:
    (denied,) = named(checked(open_capture([str(CAPTURES / "nats/60-limits.pcap")])).finish(), "nats.permissions")
    assert denied.title == "user orders may not use 2 subjects"
    assert denied.details[-1] == "clients with this problem: user orders; others of this server: user svc"
