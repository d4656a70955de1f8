"""Changes of a client that comes back: facts beside a problem and in the timeline, and near cases without one."""

from __future__ import annotations

import json

import pytest

from tests.check.support import CAPTURES, check
from tests.cli.conftest import Run
from tests.cli.conftest import run as run  # the fixture
from wiredecode.check.changes import ClientChanges
from wiredecode.net.types import Connection

FOLDER = CAPTURES / "flows"
SECOND = 1_000_000_000
CHANGED = {
    "n-wrong-account": "orders-api logged in as billing, before as orders; uses account BIL, before account ORD, "
    "at +5.466 s",
    "r-other-vhost": "orders-api uses virtual host staging, before /, at +5.701 s",
    "k-linger": "orders-api publishes about 10 messages at a time, before about 1, at +4.351 s",
    "k-wrong-cluster": "orders-api uses cluster QQU3OEVBNTcwNTJENDM2Qg, before cluster MkU3OEVBNTcwNTJENDM2Qg, "
    "at +6.160 s",
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_problem_says_what_its_clients_changed_before(name: str) -> None:
    assert check(FOLDER / f"{name}.pcap.zst")[0].changed == [CHANGED[name]]


def test_output_and_timeline_have_the_change(run: Run) -> None:
    path = FOLDER / "n-wrong-account.pcap.zst"
    shown = run("check", path, "-q").out
    assert "  changed   orders-api logged in as billing, before as orders;" in shown
    problem = json.loads(run("check", path, "--json", "-q").lines[0])
    assert problem["changed"] == [CHANGED["n-wrong-account"]]
    timeline = run("stats", path, "--timeline", "-q").out
    assert "     5.466 s  client    orders-api logged in as billing, before as orders" in timeline


def connection(number: int, since: float, **who: str) -> Connection:
    """A connection that was over at once, a second after the one before."""
    made = Connection(number, ("10.0.0.1:4711", "10.0.0.2:4222"), (4711, 4222), 0, first_ns=int(since * SECOND))
    made.identity.update({"name": "billing"} | who)
    return made


def texts(*connections: Connection) -> list[str]:
    clients = ClientChanges()
    for each in connections:
        clients.note(each)
    return [each.text for each in clients.changes()]


def test_each_change_is_said_once() -> None:
    again = [connection(number, number, user=user) for number, user in enumerate("aabba", 1)]
    assert texts(*reversed(again)) == ["billing logged in as b, before as a", "billing logged in as a, before as b"]
    assert texts(connection(1, 1, user="a"), connection(2, 9), connection(3, 15, user="b")) == [
        "billing logged in as b, before as a"
    ]
    assert texts(connection(1, 1, product="x", version="1"), connection(2, 9, product="x", version="2")) == [
        "billing runs x 2, before x 1"
    ]


def test_what_is_no_change() -> None:
    """Two clients with the name of their library; a fact that one connection does not have; the same again."""
    library = {"name": "rdkafka", "product": "librdkafka"}
    assert texts(connection(1, 1, user="a", **library), connection(2, 9, user="b", **library)) == []
    assert texts(connection(1, 1, name="rdkafka", group="a"), connection(2, 9, name="rdkafka", group="b")) == []
    assert texts(*(connection(number, number, user=f"user-{number}") for number in range(1, 6))) == []  # instances
    assert texts(connection(1, 1, user="a"), connection(2, 9)) == []
    assert texts(connection(1, 1, user="a"), connection(2, 9, user="a")) == []
    assert texts(connection(1, 1, name="", user="a"), connection(2, 9, name="", user="b")) == []
