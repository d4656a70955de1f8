"""A request's wait for its response depends on the frames of its own connection only."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import seeds
from wiredecode.dissect import ledger
from wiredecode.dissect.ledger import HELD_FRAMES, WAIT_BYTES, WAIT_FRAMES, WAIT_NS, Ledger
from wiredecode.frames.frame import AckDuty

SECOND = 1_000_000_000


class Talk:
    """A connection with chosen properties."""

    def __init__(self, *, missing: int = 0, started: bool = True, first_ns: int | None = None, asking: int = 0) -> None:
        answering = SimpleNamespace(unlinked_ns=-1, lossy=bool(missing), started=started, first_ns=first_ns)
        self.directions, self.stable_id = (SimpleNamespace(lossy=bool(asking)), answering), None


OWN, OTHER = Talk(), Talk()


def frame(
    number: int,
    *,
    time_ns: int = 0,
    length: int = 10,
    request: int | None = None,
    asks: bool = False,
    connection: Talk = OWN,
) -> Any:
    values = {"time_ns": time_ns, "length": length, "request": request, "expects_response": asks, "side": 0}
    values |= {
        "is_partial": False,
        "refusal": None,
        "confirmations": (),
        "answers": (),
        "generated": {},
        "acks": None,
        "weight": length,
        "made": 0,
    }
    return SimpleNamespace(id=number, number=number, response=None, outcome=None, connection=connection, **values)


def passes(waits: Ledger, count: int, **how: Any) -> None:
    for _ in range(count):
        waits.frame(frame(waits.seen + 1, **how))


@pytest.mark.parametrize(
    ("count", "between", "answer_ns", "linked"),
    [
        (WAIT_FRAMES - 1, {}, 0, True),
        (WAIT_FRAMES, {}, 0, False),
        (1, {"length": WAIT_BYTES - 10}, 0, True),
        (1, {"length": WAIT_BYTES - 9}, 0, False),
        (0, {}, WAIT_NS, True),
        (0, {}, WAIT_NS + 1, False),
    ],
)
def test_a_request_waits_up_to_the_limit(count: int, between: Any, answer_ns: int, linked: bool) -> None:
    waits, asks = Ledger(), frame(1, asks=True)
    waits.frame(asks)
    passes(waits, count, **between)
    waits.frame(frame(waits.seen + 1, request=1, time_ns=answer_ns))
    assert asks.response == (waits.seen if linked else None)
    waits.finish(WAIT_NS + 1)
    assert (asks.outcome, waits.waiting, waits.missed) == ("ok" if linked else "late", 0, 0)


def test_frames_of_other_connections_do_not_shorten_the_wait() -> None:
    waits, asks = Ledger(), frame(1, asks=True)
    waits.frame(asks)
    passes(waits, HELD_FRAMES - 1, connection=OTHER)
    assert waits.waiting == HELD_FRAMES
    waits.frame(frame(waits.seen + 1, request=1))
    assert (asks.response, asks.outcome, waits.waiting) == (HELD_FRAMES + 1, "ok", 0)


def test_the_total_of_held_requests_is_limited_and_counted() -> None:
    waits, asks, silent = Ledger(), frame(1, asks=True), frame(2, asks=True)
    waits.frame(asks)
    waits.frame(silent)
    passes(waits, HELD_FRAMES, connection=OTHER)
    assert (asks.outcome, waits.waiting) == ("late", 0)
    waits.frame(frame(waits.seen + 1, request=1))
    assert (asks.response, waits.missed) == (None, 1)
    waits.finish(WAIT_NS)
    assert (silent.outcome, waits.missed) == ("late", 2), "it would be unanswered"


def test_a_limit_that_loses_no_response_is_not_counted() -> None:
    for between in ({}, {"connection": OTHER, "time_ns": WAIT_NS + 2 * SECOND}):
        waits, asks = Ledger(), frame(1, asks=True)
        waits.frame(asks)
        passes(waits, HELD_FRAMES + 1, connection=OTHER)
        passes(waits, WAIT_FRAMES + 1, **between)
        waits.frame(frame(waits.seen + 1, request=1, time_ns=WAIT_NS + 1 if between else 0))
        waits.finish(0)
        assert (asks.response, waits.missed, waits._requests, waits._passed) == (None, 0, {}, {})


def test_an_answered_request_is_forgotten() -> None:
    waits, asks = Ledger(), frame(1, asks=True)
    waits.frame(asks)
    waits.frame(frame(2, request=1))
    assert (asks.response, waits._requests, waits._passed) == (2, {}, {})


def test_a_tick_releases_old_requests() -> None:
    waits = Ledger()
    waits.frame(frame(1, asks=True))
    waits.frame(frame(2, time_ns=2 * SECOND, asks=True))
    waits.tick(SECOND + 1, SECOND)
    assert waits.waiting == 1
    waits.tick(3 * SECOND, SECOND)
    assert waits.waiting == 1


def talk(seed: int) -> list[Any]:
    """Frames of three connections with times that also go back, including requests and responses."""
    random = Random(seed)
    connections, asked = [Talk(), Talk(), Talk()], dict[int, Talk]()
    frames = []
    for number in range(1, 400):
        kind = random.choice(["", "", "", "", "asks", "answers"])
        request = random.choice([*asked][-12:]) if kind == "answers" and asked else None
        connection = random.choice(connections) if request is None else asked[request]
        if kind == "asks":
            asked[number] = connection
        time_ns = number * WAIT_NS // 40 + random.randrange(-WAIT_NS // 20, WAIT_NS // 20)
        values = {"time_ns": time_ns, "length": random.randrange(1, 300), "request": request}
        frames.append(frame(number, asks=kind == "asks", connection=connection, **values))
    return frames


@pytest.mark.parametrize("seed", seeds(10))
def test_a_separate_connection_has_the_same_responses(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare all connections with the plain rule, and with each connection separately."""
    monkeypatch.setattr(ledger, "WAIT_FRAMES", 10)
    monkeypatch.setattr(ledger, "WAIT_BYTES", 1000)
    together, alone = talk(seed), talk(seed)
    whole = Ledger()
    for each in together:
        whole.frame(each)
    whole.finish(together[-1].time_ns)
    for connection in {each.connection for each in alone}:
        own = Ledger()
        for each in alone:
            if each.connection is connection:
                own.frame(each)
        own.finish(alone[-1].time_ns)
    ends = [(each.response, each.outcome) for each in together]
    assert ends == [(each.response, each.outcome) for each in alone] == [*expected(talk(seed))]
    assert {"ok", "late", "unanswered"} <= {outcome for _, outcome in ends}


def expected(frames: list[Any]) -> Any:
    for each in frames:
        if not each.expects_response:
            yield None, None
            continue
        own = [other for other in frames[each.number - 1 :] if other.connection is each.connection]
        at = next((place for place, other in enumerate(own) if other.request == each.number), len(own))
        few = at <= 10 and sum(other.length for other in own[:at]) <= 1000
        answered = at < len(own) and own[at].time_ns - each.time_ns <= WAIT_NS
        few_left = len(own) <= 10 and sum(other.length for other in own) <= 1000
        if few and answered:
            yield own[at].number, "ok"
        else:
            yield None, "unanswered" if few_left and frames[-1].time_ns - each.time_ns <= WAIT_NS else "late"


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
def test_unanswered_requires_a_complete_other_side(other_side: dict[str, Any], outcome: str | None) -> None:
    """Uncaptured bytes may hold the response; a one-sided capture holds none."""
    waits, request = Ledger(), frame(1, asks=True, connection=Talk(**other_side))
    waits.frame(request)
    waits.finish(0)
    assert (request.outcome, waits.waiting) == (outcome, 0)


def test_a_request_is_late_if_the_capture_continues_for_long() -> None:
    waits, request = Ledger(), frame(1, asks=True)
    waits.frame(request)
    waits.finish(WAIT_NS + 1)
    assert request.outcome == "late"


def test_a_response_sets_the_outcome() -> None:
    for refusal, outcome in ((None, "ok"), ("no", "refused")):
        waits, request, response = Ledger(), frame(1, asks=True), frame(2, request=1)
        response.refusal = refusal
        waits.frame(request)
        waits.frame(response)
        assert request.outcome == outcome


def test_a_truncated_response_sets_no_outcome() -> None:
    waits, request, response = Ledger(), frame(1, asks=True), frame(2, request=1)
    response.is_partial = True
    waits.frame(request)
    waits.frame(response)
    assert (request.response, request.outcome) == (2, None)


def test_a_released_request_is_late_and_not_unanswered() -> None:
    for release in (
        lambda waits: passes(waits, WAIT_FRAMES + 1),
        lambda waits: waits.frame(frame(2, time_ns=WAIT_NS + 1)),
        lambda waits: waits.tick(WAIT_NS + 1, WAIT_NS),
    ):
        waits, request = Ledger(), frame(1, asks=True)
        waits.frame(request)
        release(waits)
        waits.finish(WAIT_NS + 1)
        assert request.outcome == "late"


def test_a_frame_without_expected_response_stays_so() -> None:
    waits, silent = Ledger(), frame(1, asks=True)
    silent.outcome = "not asked for"
    waits.frame(silent)
    waits.finish(0)
    assert silent.outcome == "not asked for"


def test_a_copy_is_neither_late_nor_unanswered() -> None:
    """The response may be linked with the original only."""
    for last_ns in (0, WAIT_NS + 1):
        waits, request = Ledger(), frame(1, asks=True)
        request.generated = {"copy_of": 1}
        waits.frame(request)
        waits.finish(last_ns)
        assert request.outcome is None


@pytest.mark.parametrize(
    ("since", "outcomes"), [(None, (None, None)), (2, (None, "unanswered")), (1, ("late", "unanswered"))]
)
def test_an_ack_is_missing_once_its_consumer_is_known_to_acknowledge(
    since: int | None, outcomes: tuple[str | None, str | None]
) -> None:
    """A duty that a later frame shows does not count for what is given up before: frames are decoded in advance."""
    waits, first, last = Ledger(), frame(1, asks=True), frame(2, asks=True, time_ns=WAIT_NS + 2 * SECOND)
    first.acks = last.acks = AckDuty(since)
    first.generated = {"copy_of": 7}
    waits.frame(first)
    waits.tick(last.time_ns, WAIT_NS)
    waits.frame(last)
    waits.finish(last.time_ns)
    assert (first.outcome, last.outcome) == outcomes


def test_later_frames_overtake_a_request_that_reached_the_limit_on_all_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes with its response; others come once they have waited long enough, or at the end."""
    monkeypatch.setattr(ledger, "HELD_FRAMES", 3)
    waits = Ledger(in_order=False)
    asked, lost, open_one = (frame(number, asks=True) for number in (1, 2, 3))
    for each in (asked, lost):
        waits.frame(each)
    assert waits.waiting == 2
    passes(waits, 4, connection=OTHER)
    assert (waits.waiting, waits.settled, set(waits.overtaken)) == (0, [], {1, 2})
    waits.frame(frame(7, request=1))
    assert waits.take_settled() == [asked]
    assert (asked.response, asked.outcome, set(waits.overtaken)) == (7, "ok", {2})
    waits.frame(frame(8, time_ns=WAIT_NS + 2 * SECOND, connection=OTHER))
    assert waits.take_settled() == [lost]
    open_one.time_ns = WAIT_NS + 2 * SECOND
    waits.frame(open_one)
    passes(waits, 4, connection=OTHER, time_ns=open_one.time_ns)
    assert set(waits.overtaken) == {3}
    waits.finish(open_one.time_ns)
    assert waits.take_settled() == [open_one]
    assert (waits.overtaken, waits.missed, open_one.outcome) == ({}, 0, "unanswered")
