"""Checking captures in tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.net import craft
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.check import Checker, Problem
from wiredecode.check.causes import order
from wiredecode.dissect.dissector import Demand, Dissector

CAPTURES = Path(__file__).parent.parent.parent / "captures"
STORIES = CAPTURES / "stories"


@cache
def check_file(path: Path) -> list[Problem]:
    """All problems of a capture, notes too; checked once, so do not change what comes back."""
    return all_of(shown_of(path))


@cache
def shown_of(path: Path) -> list[Problem]:
    """The problems of a capture that are shown, notes too; checked once, so do not change what comes back."""
    return checked(open_capture([str(path)])).finish()


def check(source: Path | Iterable[PacketBatch]) -> list[Problem]:
    """All problems, notes too, and those that are consequences of others."""
    if isinstance(source, Path):
        return check_file(source)
    return all_of(checked(source).finish())


def all_of(problems: Iterable[Problem]) -> list[Problem]:
    return sorted((one for each in problems for one in each_of(each)), key=order)


def each_of(problem: Problem) -> Iterator[Problem]:
    """A problem, or those that were joined to it, and its consequences."""
    yield from problem.parts or [problem]
    for effect in problem.effects:
        yield from each_of(effect)


def checked(source: Iterable[PacketBatch]) -> Checker:
    """A checker that has seen all frames."""
    checker = Checker()
    dissector = Dissector(checker.demand(Demand()), on_end=checker.end)
    batches = list(source)
    checker.report.first_ns = int(batches[0].time_ns[0])
    for batch in batches:
        checker.look(batch)
    for frame in dissector.frames(batches):
        checker.frame(frame)
    return checker


def seconds_in(problem: Problem, before: str) -> float:
    """The seconds in a problem's text after the words ``before``."""
    found = re.search(rf"{before} ([0-9.]+) s", problem.title)
    assert found is not None, problem.title
    return float(found[1])


def worse(problems: list[Problem]) -> list[str]:
    """Names of those that are shown without being asked for."""
    return [problem.name for problem in problems if problem.severity != "note"]


def talk(port: int, *said: tuple[float, int, bytes]) -> list[Problem]:
    """One connection to ``port``; what client (0) and server (1) said, with seconds since its beginning."""
    made = craft.Talk(server=("10.0.0.2", port))
    packets: list[bytes | tuple[float, bytes]] = [*made.handshake()]
    for seconds, side, data in said:
        packets += [(seconds, part) for part in made.send(side, data)]
    return check(craft.batches(packets))


def named(problems: list[Problem], name: str) -> list[Problem]:
    """Those with a code."""
    return [problem for problem in problems if problem.name == name]
