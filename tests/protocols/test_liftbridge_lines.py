"""Summary lines of Liftbridge made of runs against those of frames, where links lead from one connection to another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain

import pytest

from tests.net.craft import batches
from tests.protocols.test_nats_bulk import INFO, PUBLISHED, acked, asking, envelope, member, msg, pub
from tests.support import Part, craft, every
from wiredecode.bulk import PURE, has_compiler
from wiredecode.dissect import schedule
from wiredecode.dissect.demand import Demand, RunsFor
from wiredecode.dissect.dissector import Dissector
from wiredecode.filter import compile_filter
from wiredecode.frames import framer
from wiredecode.frames.run import Run
from wiredecode.frames.totals import Totals
from wiredecode.protocols.liftbridge import conversation
from wiredecode.protocols.nats import Nats
from wiredecode.view.summary import SummaryLines

pytestmark = pytest.mark.skipif(not has_compiler(), reason=f"without a compiler ({PURE}) these do not come in runs")

STREAM, ACKS = b"orders", b"acks.1"


def connect(name: bytes = b"app") -> bytes:
    return b'CONNECT {"verbose":false,"lang":"go","name":"%s"}\r\nSUB > 1\r\n' % name


def opened(*numbers: int) -> list[Part]:
    return [part for number in numbers for part in (Part(number, 1, INFO), Part(number, 0, connect()))]


Packets = list[tuple[float, bytes]]
OPENING = 14
"""Packets in the first batch: while a protocol is looked for there are no runs."""


def by_rows(packets: Packets) -> tuple[list[str], Totals]:
    dissector, lines = Dissector(Demand(link_responses=False, protocols=(Nats(),))), SummaryLines()
    return [lines.line(frame, 0) for frame in dissector.frames(batches(packets))], dissector.totals


def by_runs(packets: Packets, batch: int | None) -> tuple[list[str], Totals, int]:
    dissector = Dissector(Demand(link_responses=False, protocols=(Nats(),), runs=RunsFor.LINES))
    lines, told, in_runs = SummaryLines(), [], 0
    rest = batches(packets[OPENING:], batch, first_number=OPENING + 1)
    for items in dissector.mixed(chain(batches(packets[:OPENING]), rest)):
        in_runs += sum(len(item) for item in items if isinstance(item, Run) and item.kinds.max() > 4)
        told += lines.mixed(items, 0)
    return told, dissector.totals, in_runs


def compare(parts: Sequence[Part], monkeypatch: pytest.MonkeyPatch) -> str:
    """With runs of any length the lines are the same; all of them, and some frames of Liftbridge were in runs."""
    rows: list[str] = []
    for size in (1460, 300):
        packets = [(n / 1e3, packet) for n, packet in enumerate(craft(parts, every(size), server_port=4222))]
        rows, totals = by_rows(packets)
        for least in (1, 3, framer.RUN_FRAMES):
            for name in ("RUN_FRAMES", "LEAST_RUN_BYTES"):
                monkeypatch.setattr(framer, name, least)
            monkeypatch.setattr(schedule, "SHORT", min(least, 2))
            for batch in (None, 7):
                lines, counted, in_runs = by_runs(packets, batch)
                assert lines == rows
                assert counted == totals
                assert in_runs or batch or least > 3
    return "".join(rows)


def exchange(numbers: Sequence[int], app: int = 1, server: int = 2, acks: int = 3) -> list[Part]:
    """An application publishes, Liftbridge gets copies and acknowledges on another connection."""
    wanted, told = [asking(number) for number in numbers], [acked(number) for number in numbers]
    return [
        Part(app, 0, b"".join(pub(body, STREAM) for body in wanted)),
        Part(server, 1, b"".join(msg(body, STREAM) for body in wanted)),
        Part(acks, 0, b"".join(pub(body, ACKS) for body in told)),
        Part(app, 1, b"".join(msg(body, ACKS) for body in told)),
    ]


def test_copies_and_acks_on_other_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    text = compare([*opened(1, 2, 3), *exchange(range(40)), *exchange(range(30, 50))], monkeypatch)
    assert text.count("copy_of=") == 2 * 60
    assert text.count(" ms)") == 2 * 60


def test_the_remark_that_requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_EXCHANGES", 25)
    text = compare([*opened(1, 2, 3), *exchange(range(20)), *exchange(range(10, 60))], monkeypatch)
    assert text.count("more than 25 requests") == 1


@pytest.mark.parametrize(
    "text", ["latency > 4ms", "!latency", "finding", "frame.request", "frame.type == Ack and latency < 4ms"]
)
def test_filters_that_ask_for_links(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "MAX_EXCHANGES", 25)
    for name in ("RUN_FRAMES", "LEAST_RUN_BYTES"):
        monkeypatch.setattr(framer, name, 1)
    parts = [*opened(1, 2, 3), *exchange(range(40)), *exchange(range(30, 50))]
    packets = [(n / 1e3, packet) for n, packet in enumerate(craft(parts, every(1460), server_port=4222))]
    select, lines, told = compile_filter(text), SummaryLines(), []
    frames = Dissector(Demand(link_responses=False, protocols=(Nats(),))).frames(batches(packets))
    expected = [lines.line(frame, 0) for frame in frames if select.matches(frame)]
    dissector = Dissector(Demand(link_responses=False, protocols=(Nats(),), runs=RunsFor.LINES, select=select))
    lines = SummaryLines()
    for items in dissector.mixed(chain(batches(packets[:OPENING]), batches(packets[OPENING:], first_number=15))):
        told += lines.mixed([item for item in items if isinstance(item, Run) or select.matches(item)], 0)
    assert told == expected
    assert expected


FORMS = {
    "empty stream": pub(envelope(member(5, b""))),
    "empty value": pub(envelope(member(3, b""))),
    "nothing at all": pub(envelope(b"", sealed=False)),
    "policies": pub(envelope(PUBLISHED + b"\x60\x02")) + pub(envelope(b"\x60\x07")) + pub(envelope(b"\x60\x00")),
    "no correlation id": pub(envelope(member(10, b"in"))) + pub(envelope(member(5, b"in"), kind=1), b"in"),
    "ack whose inbox is its subject": pub(envelope(member(10, b"in"))) + pub(envelope(b"", kind=1), b"in"),
    "long ids": pub(envelope(b"\x52\x01i\x5a\xc8\x01" + b"c" * 200))
    + pub(envelope(b"\x2a\x01i\x32\xc8\x01" + b"c" * 200, kind=1)),
    "long id in more bytes than it needs": pub(asking(4)) + pub(envelope(b"\x2a\x06acks.1\x32\x84\x00id-4", kind=1)),
    "text with blanks": pub(envelope(member(5, b"a b\x1b\x7f"))),
    "large offset": pub(envelope(b"\x20" + b"\xff" * 8 + b"\x7f", kind=1)),
    "policy of 40 bits": pub(envelope(b"\x38" + b"\xff" * 5 + b"\x01", kind=1)),
    "accepted in words": pub(envelope(b"\x50\x00", kind=1)),
    "refused": pub(envelope(b"\x50\x02", kind=1)),
    "bad CRC": pub(asking(5)[:-1] + b"\0"),
    "headers of NATS": pub(asking(6), block=b"NATS/1.0\r\na: b\r\n\r\n"),
    "plain": pub(b"x") + pub(b""),
}


def test_every_form_of_messages_and_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    told = b"".join(FORMS.values())
    delivered = b"".join(msg(asking(number)) + msg(acked(number)) for number in range(4))
    compare([*opened(1, 2), Part(1, 0, told * 3), Part(2, 1, delivered), Part(2, 0, told)], monkeypatch)


DISTURBED = {
    "a namespace": connect(b"LIFT.shop.server-1.streams"),
    "raft subject": pub(b"x", b"shop.raft.metadata.join"),
    "reply subject of its own": b"PUB ask shop.activity.x 1\r\nx\r\n",
    "partial frame": b"PUB a 100\r\nx",
}


@pytest.mark.parametrize("name", DISTURBED)
def test_what_another_connection_tells_in_between(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    event = envelope(member(3, b"\x08\x05"))
    plain = b"".join(pub(event, b"shop.activity.x") + pub(b"x", b"shop.y") for _ in range(20))
    turns = [
        Part(1, 0, plain),
        Part(2, 0, DISTURBED[name]),
        Part(1, 0, plain),
        Part(3, 1, msg(b"x", b"shop.activity.x")),
    ]
    compare([*opened(1, 3), Part(2, 1, INFO), *([] if "name" in name else opened(4)), *turns], monkeypatch)


@pytest.mark.parametrize("seed", range(3))
def test_random_exchanges(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(conversation, "MAX_EXCHANGES", 30)
    turns: list[Part] = []
    for _ in range(8):
        first = chance.randrange(40)
        turns += exchange(range(first, first + chance.randrange(1, 12)), *chance.sample((1, 2, 3), 3))
        if chance.random() < 0.5:
            turns.append(
                Part(chance.choice((1, 2)), 0, chance.choice([*FORMS.values(), b"PING\r\n", DISTURBED["raft subject"]]))
            )
    for _ in range(6):
        at = chance.randrange(len(turns) - 1)
        turns[at], turns[at + 1] = turns[at + 1], turns[at]
    compare([*opened(1, 2, 3), *turns], monkeypatch)
