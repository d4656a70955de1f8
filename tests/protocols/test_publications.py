"""Published ids and their confirms: the ledger compared with a model that keeps every id separately."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import seeds
from wiredecode.capture import open_capture
from wiredecode.fields.layer import Style
from wiredecode.protocols.shared import publications
from wiredecode.protocols.shared.publications import Publications, runs_of
from wiredecode.testing.dissection import STYLE, dissect

CAPTURES = Path(__file__).parents[2] / "captures" / "rabbitmq-stream"
BASE = 0x0102030405060708


def frame(number: int) -> Any:
    directions = [SimpleNamespace(first_ns=0, losses=[])] * 2
    values: dict[str, Any] = {"request": None, "latency_ns": None, "confirmations": (), "expects_response": False}
    made = SimpleNamespace(
        id=number, side=0, time_ns=number * 10, ready=number * 10, findings=[], generated={}, **values
    )
    made.connection = SimpleNamespace(directions=directions)
    made.all_seen = lambda: True
    made.generate = made.generated.__setitem__
    made.find = lambda *finding: made.findings.append(finding)
    return made


class Model:
    """Keeps each id separately: the n-th confirm of an id belongs to its n-th publish."""

    def __init__(self) -> None:
        self.waiting: dict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self.left: dict[int, int] = {}

    def publish(self, number: int, ids: list[int]) -> None:
        self.left[number] = len(ids)
        for index, each in enumerate(ids):
            self.waiting[each].append((number, index))

    def confirm(self, ids: list[int]) -> tuple[set[tuple[int, int]], list[int]]:
        met, final = set(), []
        for each in ids:
            if self.waiting[each]:
                number, index = self.waiting[each].popleft()
                met.add((number, index))
                self.left[number] -= 1
                final += [number] if not self.left[number] else []
        return met, final


@pytest.mark.parametrize("seed", seeds(30))
def test_confirms_in_any_order_find_their_publish(seed: int) -> None:
    random, ledger, model = Random(seed), Publications(), Model()
    spread = random.choice((8, 60, 2000))
    for number in range(1, 80):
        ids = [BASE + random.randrange(spread) for _ in range(random.randrange(1, 9))]
        if random.random() < 0.6:
            ids = list(range(ids[0], ids[0] + random.randrange(1, 12)))
        if random.random() < 0.5:
            published = frame(number)
            ledger.publish(published, 7, runs_of(ids), whole=True)
            assert published.expects_response
            model.publish(number, ids)
            continue
        confirm = frame(number)
        ledger.confirm(confirm, 7, runs_of(ids))
        met, final = model.confirm(ids)
        said = {(each.request, each.first + at) for each in confirm.confirmations for at in range(each.length)}
        assert said == met
        assert sorted(each.request for each in confirm.confirmations if each.final) == sorted(final)
        requests = {each for each, _ in met}
        assert confirm.request == min(requests, default=None)
        assert (
            confirm.generated.get("requests", []) == (sorted(requests) if len(requests) > 1 else [])
            or len(requests) > 1
        )
        assert set(confirm.generated.get("requests", requests)) == requests
    assert ledger._runs == sum(len(each.runs) for each in ledger._publishers.values())


def test_the_oldest_publishes_are_forgotten_with_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "MAX_RUNS", 3)
    ledger, frames = Publications(), [frame(number) for number in range(1, 6)]
    for each in frames:
        ledger.publish(each, 1, [(BASE + 10 * each.id, BASE + 10 * each.id + 2)], whole=True)
    assert [len(each.findings) for each in frames] == [0, 0, 0, 1, 0]
    confirm = frame(9)
    ledger.confirm(confirm, 1, [(BASE, BASE + 100)])
    assert [(each.request, each.length, each.final) for each in confirm.confirmations] == [
        (3, 2, "ok"),
        (4, 2, "ok"),
        (5, 2, "ok"),
    ]
    assert confirm.request == 3
    assert confirm.latency_ns == 60


def test_one_refused_message_makes_the_publish_refused() -> None:
    ledger, confirm = Publications(), frame(3)
    ledger.publish(frame(1), 1, [(BASE, BASE + 3)], whole=True)
    ledger.confirm(frame(2), 1, [(BASE + 1, BASE + 2)], "Access refused")
    ledger.confirm(confirm, 1, [(BASE, BASE + 1), (BASE + 2, BASE + 3)])
    assert [(each.first, each.refusal, each.final) for each in confirm.confirmations] == [
        (0, None, None),
        (2, None, "refused"),
    ]


def test_a_truncated_publish_is_linked_but_never_fully_confirmed() -> None:
    ledger, published, confirm = Publications(), frame(1), frame(2)
    ledger.publish(published, 1, [(BASE, BASE + 3)], whole=False)
    assert not published.expects_response
    ledger.confirm(confirm, 1, [(BASE, BASE + 3)])
    assert confirm.request == 1
    assert [each.final for each in confirm.confirmations] == [None]


def test_publishers_with_equal_ids_are_separate() -> None:
    ledger, confirm = Publications(), frame(3)
    ledger.publish(frame(1), 1, [(BASE, BASE + 1)], whole=True)
    ledger.publish(frame(2), 2, [(BASE, BASE + 1)], whole=True)
    ledger.end(2)
    ledger.confirm(confirm, 2, [(BASE, BASE + 1)])
    assert not confirm.confirmations


def links(name: str, style: Style | None = None) -> list[tuple[Any, ...]]:
    types = ("Publish", "PublishConfirm", "PublishError")
    frames = dissect(open_capture([CAPTURES / name]), style=style).of(*types)
    return [(each.number, each.type, each.request, each.response, each.outcome) for each in frames]


def test_publish_to_an_unknown_publisher_in_a_real_capture() -> None:
    assert links("c43_puberr.pcap") == [
        (14, "Publish", None, 15, "refused"),
        (15, "PublishError", 14, None, None),
        (18, "Publish", None, 19, "ok"),
        (19, "PublishConfirm", 18, None, None),
        (23, "Publish", None, 24, "refused"),
        (24, "PublishError", 23, None, None),
    ]


@pytest.mark.parametrize("name", ["c43_multi.pcap", "c43_subentry.pcap", "c43_dedup.pcap", "c43_filter.pcap"])
def test_links_do_not_depend_on_records(name: str) -> None:
    assert links(name, STYLE) == links(name) != []
