"""Requests wait for their response as long when whole runs of frames pass as when frames come one by one."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import seeds
from wiredecode.dissect import lookahead
from wiredecode.dissect.lookahead import LOOKAHEAD_BYTES, LOOKAHEAD_FRAMES, LOOKAHEAD_NS, Lookahead

SECOND = 1_000_000_000


def frame(number: int, *, time_ns: int = 0, length: int = 10, request: int | None = None, asks: bool = False) -> Any:
    told = {"time_ns": time_ns, "length": length, "request": request, "expects_response": asks}
    told |= {
        "is_cut": False,
        "findings": (),
        "confirmations": (),
        "answers": (),
        "generated": {},
        "connection": SimpleNamespace(label=None),
    }
    return SimpleNamespace(id=number, number=number, response=None, outcome=None, **told)


def passed(count: int, *, time_ns: int = 0, length: int = 10) -> tuple[Any, Any]:
    return np.full(count, time_ns), np.full(count, length)


@pytest.mark.parametrize(
    ("between", "told"),
    [
        (passed(LOOKAHEAD_FRAMES - 1), True),
        (passed(LOOKAHEAD_FRAMES), False),
        (passed(1, length=LOOKAHEAD_BYTES - 10), True),
        (passed(1, length=LOOKAHEAD_BYTES - 9), False),
        (passed(1, time_ns=LOOKAHEAD_NS), True),
        (passed(1, time_ns=LOOKAHEAD_NS + 1), False),
    ],
)
def test_a_request_waits_so_long_and_no_longer(between: tuple[Any, Any], told: bool) -> None:
    waits, asks = Lookahead(), frame(1, asks=True)
    waits.add(asks)
    waits.skip(*between)
    assert waits.waiting == (1 + len(between[0]) if told else 0)
    waits.add(frame(waits.seen + 1, request=1))
    assert asks.response == (waits.seen if told else None)
    assert waits.waiting == 0


def test_a_tick_lets_old_requests_go() -> None:
    waits = Lookahead()
    waits.add(frame(1, asks=True))
    waits.add(frame(2, time_ns=2 * SECOND, asks=True))
    waits.tick(SECOND + 1, SECOND)
    assert waits.waiting == 1
    waits.tick(3 * SECOND, SECOND)
    assert waits.waiting == 1


class Queue:
    """The rule itself: all frames from the oldest request without response on, within the bounds."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    @property
    def waiting(self) -> int:
        return len(self.frames)

    def add(self, new: Any) -> None:
        for each in self.frames:
            if each.number == new.request and each.expects_response and each.response is None:
                each.response = new.number
        self.frames.append(new)
        while self.frames:
            head = self.frames[0]
            inside = (
                new.time_ns - head.time_ns <= LOOKAHEAD_NS
                and len(self.frames) <= lookahead.LOOKAHEAD_FRAMES
                and sum(each.length for each in self.frames) <= lookahead.LOOKAHEAD_BYTES
            )
            if head.expects_response and head.response is None and inside:
                break
            del self.frames[0]


def talk(seed: int) -> list[dict[str, Any]]:
    """Frames of any size with times that also go back, requests and responses among them."""
    random = Random(seed)
    asked: list[int] = []
    frames = []
    for number in range(1, 400):
        kind = random.choice(["", "", "", "", "", "", "asks", "answers"])
        request = random.choice(asked[-8:]) if kind == "answers" and asked else None
        time_ns = number * SECOND // 8 + random.randrange(-SECOND, SECOND)
        if kind == "asks":
            asked.append(number)
        length = random.randrange(1, 300)
        frames.append(
            {"number": number, "time_ns": time_ns, "length": length, "request": request, "asks": kind == "asks"}
        )
    return frames


@pytest.mark.parametrize("seed", seeds(20))
def test_adding_and_skipping_follow_the_rule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookahead, "LOOKAHEAD_FRAMES", 30)
    monkeypatch.setattr(lookahead, "LOOKAHEAD_BYTES", 3000)
    queue, one_by_one, in_runs = Queue(), Lookahead(), Lookahead()
    expected, added, skipped = ([frame(**told) for told in talk(seed)] for _ in range(3))
    run: list[Any] = []
    for one, two, three in zip(expected, added, skipped, strict=True):
        queue.add(one)
        one_by_one.add(two)
        assert one_by_one.waiting == queue.waiting
        if three.request is None and not three.expects_response:
            run.append(three)
            continue
        in_runs.skip(np.array([each.time_ns for each in run]), np.array([each.length for each in run], np.int64))
        run = []
        in_runs.add(three)
        assert in_runs.waiting == queue.waiting
    responses = [each.response for each in expected]
    assert [each.response for each in added] == [each.response for each in skipped] == responses
    answers = sum(each.request is not None for each in expected)
    assert 0 < sum(response is not None for response in responses) < answers


def heard(*, missing: int = 0, started: bool = True, first_ns: int | None = None, asking: int = 0) -> Any:
    answering = SimpleNamespace(lossy=bool(missing), started=started, first_ns=first_ns)
    return SimpleNamespace(directions=(SimpleNamespace(lossy=bool(asking)), answering), label=None)


def asked(**of_the_other_side: Any) -> Any:
    request = frame(1, asks=True)
    request.side, request.connection = 0, heard(**of_the_other_side)
    return request


@pytest.mark.parametrize(
    ("other_side", "outcome"),
    [
        ({}, "unanswered"),
        ({"started": False, "first_ns": -1}, "unanswered"),
        ({"started": False, "first_ns": 1}, None),
        ({"missing": 1}, None),
        ({"asking": 1}, None),
        ({"started": False}, None),
    ],
)
def test_only_what_was_heard_whole_did_not_answer(other_side: dict[str, Any], outcome: str | None) -> None:
    """Bytes that were not captured may hold the answer; a capture of one direction holds none."""
    waits, request = Lookahead(), asked(**other_side)
    waits.add(request)
    waits.finish()
    assert (request.outcome, waits.waiting) == (outcome, 0)


def test_a_response_tells_the_outcome() -> None:
    for findings, outcome in (((), "ok"), ([SimpleNamespace(group="response", message="no")], "refused")):
        waits, request, response = Lookahead(), asked(), frame(2, request=1)
        response.findings = findings
        waits.add(request)
        waits.add(response)
        assert request.outcome == outcome


def test_a_response_that_was_cut_does_not_tell_the_outcome() -> None:
    waits, request, response = Lookahead(), asked(), frame(2, request=1)
    response.is_cut = True
    waits.add(request)
    waits.add(response)
    assert (request.response, request.outcome) == (2, None)


def test_what_is_held_back_no_longer_is_late_and_not_unanswered() -> None:
    for release in (
        lambda waits: waits.skip(*passed(LOOKAHEAD_FRAMES)),
        lambda waits: waits.add(frame(2, time_ns=LOOKAHEAD_NS + 1)),
        lambda waits: waits.tick(LOOKAHEAD_NS + 1, LOOKAHEAD_NS),
    ):
        waits, request = Lookahead(), asked()
        waits.add(request)
        release(waits)
        waits.finish()
        assert request.outcome == "late"


def test_what_asks_for_no_answer_stays_so() -> None:
    waits, silent = Lookahead(), asked()
    silent.outcome = "not asked for"
    waits.add(silent)
    waits.finish()
    assert silent.outcome == "not asked for"


def test_a_copy_is_neither_late_nor_unanswered() -> None:
    """The answer may be linked with the original alone."""
    for release in (Lookahead.finish, lambda waits: waits.skip(*passed(LOOKAHEAD_FRAMES))):
        waits, request = Lookahead(), asked()
        request.generated = {"copy_of": 1}
        waits.add(request)
        release(waits)
        assert request.outcome is None
