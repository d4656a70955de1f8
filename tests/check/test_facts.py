"""Facts merge, and rules meet through facts alone: nothing else decides in which order they run."""

from __future__ import annotations

import pickle
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import wiredecode
from tests.check.support import CAPTURES, STORIES, checked, named, shown_of
from wiredecode.capture import open_capture
from wiredecode.check import Checker, Problem
from wiredecode.check.text import record
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.frames.frame import Frame
from wiredecode.net.buckets import Buckets
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import Code
from wiredecode.protocols.shared.facts import Fact, Facts
from wiredecode.protocols.shared.problems import Report, Rule

OUTAGES = sorted(Path(__file__).parent.glob("outages/*"))
MERGED = [*OUTAGES[::3], *sorted(STORIES.glob("*.pcap*")), *sorted(CAPTURES.glob("[klp]*/*.pcap*"))]


def shown(problems: list[Problem]) -> list[object]:
    return [record(each) for each in problems]


@pytest.mark.parametrize(("seed", "path"), [*enumerate(OUTAGES)], ids=lambda each: getattr(each, "name", ""))
def test_the_order_of_rules_does_not_matter(seed: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, rules, show = random.Random(seed), Checker._rules, Checker._show

    def shuffled(checker: Checker) -> list[Rule]:
        some = [*rules(checker)]
        return chance.sample(some, len(some))

    def show_shuffled(checker: Checker, frame: Frame, methods: Iterable[Callable[[Frame], None]]) -> None:
        first, some = [each for each in methods if each == checker.exchanges.frame], [*methods]
        show(checker, frame, [*first, *chance.sample(some[len(first) :], len(some) - len(first))])

    expected = shown(shown_of(path))
    monkeypatch.setattr(Checker, "_rules", shuffled)
    monkeypatch.setattr(Checker, "_show", show_shuffled)
    assert shown(checked(open_capture([str(path)])).finish()) == expected


def facts_of(frames: list[Frame], ended: list[tuple[Connection, str | None]]) -> Facts:
    """Those of the first phase: others need all connections."""
    checker = Checker()
    for frame in frames:
        checker.frame(frame)
    for connection, foreign in ended:
        checker._end(connection, foreign)
    return checker.report.facts


def halves_of(path: Path) -> Callable[[Connection], int]:
    """The half of a connection, by its first packet."""
    batches = open_capture([str(path)])
    buckets, half = Buckets(2, {}), dict[int, int]()
    for batch in batches:
        segments = HeaderReader(DEFAULT_LIMITS, Counter(), Counter()).read(batch)
        half |= dict(zip(segments.number.tolist(), buckets.of(segments).tolist(), strict=True))
    return lambda connection: half[connection.first]


def alone(facts: Facts) -> list[Fact]:
    """Those of single connections: how far a replica lags is known from its leader's connections."""
    return [each for each in facts if each.kind.name != "lags"]


@pytest.mark.parametrize("path", MERGED, ids=lambda path: path.name)
def test_facts_of_two_halves_of_the_connections_are_those_of_the_whole(path: Path) -> None:
    ended = list[tuple[Connection, str | None]]()
    demand = Demand(link_responses=False, analyse=True)
    dissector = Dissector(demand, on_end=lambda one, foreign=None: ended.append((one, foreign)))
    frames, half = [*dissector.frames(open_capture([str(path)]))], halves_of(path)
    first, second = (
        facts_of(
            [frame for frame in frames if half(frame.connection) == number],
            [(one, foreign) for one, foreign in ended if half(one) == number],
        )
        for number in (0, 1)
    )
    whole = facts_of(frames, ended)
    assert alone(first + second) == alone(second + first) == alone(whole)
    assert pickle.loads(pickle.dumps(whole)) == whole


@pytest.mark.parametrize("path", OUTAGES[::4], ids=lambda path: path.name)
def test_a_problem_that_a_rule_asks_for_is_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adds, asks = dict[str, set[type]](), dict[str, set[type]]()

    def rule() -> type:
        """Of the method that called; others help rules."""
        frame = sys._getframe(2)
        while not isinstance(owner := frame.f_locals.get("self"), Rule):
            assert frame.f_back is not None
            frame = frame.f_back
        return type(owner)

    def noting(told: dict[str, set[type]], method: Callable[..., object]) -> Callable[..., object]:
        def call(report: Report, code: Code, *said: object, **how: object) -> object:
            told.setdefault(code.code, set()).add(rule())
            return method(report, code, *said, **how)

        return call

    monkeypatch.setattr(Report, "add", noting(adds, Report.add))
    monkeypatch.setattr(Report, "own", noting(asks, Report.own))
    problems = checked(open_capture([str(path)])).finish()
    assert not named(problems, "check.internal")
    assert {code for code, rules in asks.items() if len(rules | adds.get(code, rules)) > 1} == set()


def test_no_rule_reads_the_problems_of_all() -> None:
    folder = Path(wiredecode.__file__).parent / "check"
    rules = [*folder.glob("*.py"), *folder.parent.glob("protocols/*/problems*.py")]
    assert [path.name for path in rules if "report.problems" in path.read_text()] == ["__init__.py"]
