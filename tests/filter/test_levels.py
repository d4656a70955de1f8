"""The order of evaluation changes nothing: three-valued logic, late records, skipped frames."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from tests.cli.conftest import Run, run
from tests.filter.support import BASIC, CAPTURES, frames, known, records
from wiredecode.fields.layer import Style
from wiredecode.filter import Filter, compile_filter
from wiredecode.filter.logic import Atom, Expression, Negation, decide, join
from wiredecode.filter.model import Level
from wiredecode.filter.names import Names, entries_by_name, prefixes
from wiredecode.filter.values import RAW
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import record

__all__ = ["run"]

SOME = [
    BASIC,
    "rabbitmq-stream/c43_errors.pcap",
    "nats/06-headers.pcap",
    "cursus/stream.pcap",
    "pravega/append_basic.pcap",
    "tank/tank_08_consume_positions.pcap",
    "liftbridge/30-lb-publish-ack.pcap",
]
ATOMS = [
    *("tcp.stream == 2", "tcp.srcport < 30000", "ip.src == 127.0.0.3", "all tcp.port > 4000", "ip.addr != 127.0.0.9"),
    *("frame.number > 20", "frame.length > 60", "frame.offset == 0", "frame.length & 1", "frame[4:1] == 00"),
    *('frame.type matches "p"', "frame.sender == client", "latency", "frame.code > 5", "frame.protocol == nats"),
    *("finding", 'finding.severity == "note"', "frame.response", "frame.status != ok"),
    *("rabbitmq_stream.messages", "rabbitmq_stream.correlation_id in {1..3}", "rabbitmq_stream.response_code == OK"),
    *('rabbitmq_stream.stream contains "c43"', "count(rabbitmq_stream.messages.data) > 2", "amqp.properties"),
    *(
        'nats.subject contains "."',
        "nats.headers.key",
        "liftbridge",
        'cursus.topic contains "a"',
        "tank.request_id > 1",
    ),
    *("pravega.events", "tank.chunks.bundles.bundle.messages", "pravega.request_id"),
]
Tree = tuple[Any, ...] | str


def grow(chance: random.Random, depth: int) -> Tree:
    """A random filter as a tree."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(ATOMS)
    operator = chance.choice(["and", "or", "xor", "not"])
    count = 1 if operator == "not" else chance.randint(2, 3)
    return (operator, *(grow(chance, depth - 1) for _ in range(count)))


def spell(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    operator, *parts = tree
    if operator == "not":
        return f"!({spell(parts[0])})"
    return f" {operator} ".join(f"({spell(part)})" for part in parts)


@cache
def chosen(atom: str, name: str) -> frozenset[int]:
    """The frames that match one comparison, with records of all frames."""
    alone = compile_filter(atom)
    return frozenset(frame.number for frame in known(name, RAW) if alone.matches(frame))


def plainly(tree: Tree, name: str, number: int) -> bool:
    """Whether a frame matches the tree, in two-valued logic with everything evaluated."""
    if isinstance(tree, str):
        return number in chosen(tree, name)
    operator, *parts = tree
    answers = [plainly(part, name, number) for part in parts]
    if operator == "not":
        return not answers[0]
    return all(answers) if operator == "and" else any(answers) if operator == "or" else sum(answers) % 2 == 1


def test_three_values_agree_with_full_evaluation() -> None:
    chance = random.Random(11)
    for _ in range(100):
        tree, name = grow(chance, 3), chance.choice(SOME)
        made = compile_filter(spell(tree))
        found = known(name, made.style(None))
        steps = [decide(made.expression, level) for level in Level]
        for frame in chance.sample(found, 12):
            expected = plainly(tree, name, frame.number)
            assert made.matches(frame) is expected, spell(tree)
            answers = [step(frame) if callable(step) else step for step in steps]
            assert set(answers) <= {None, expected}, spell(tree)
            assert answers[-1] is expected


@pytest.mark.parametrize("form", [None, Style()], ids=["none", "records"])
def test_dissecting_for_a_filter_gives_the_same_frames(form: Style | None) -> None:
    chance = random.Random(7)
    for name in SOME:
        for _ in range(3):
            made = compile_filter(spell(grow(chance, 2)))
            expected = [frame.number for frame in known(name, made.style(form)) if made.matches(frame)]
            select = compile_filter(made.text)
            selected = [frame for frame in frames(name, select.style(form), select) if select.matches(frame)]
            assert [frame.number for frame in selected] == expected, (name, made.text)


def test_late_records_equal_early_records() -> None:
    for name in (BASIC, "rabbitmq-stream/c43_subentry.pcap", "rabbitmq-stream/d_snap96.pcap"):
        select = compile_filter("rabbitmq_stream.key in {2, 8} or frame.code > 0x8000 or finding")
        late = [record(frame) for frame in frames(name, Style(), select) if select.matches(frame)]
        there = {row["frame"]: row for row in records(name)}
        assert late
        assert late == [there[row["frame"]] for row in late]


def test_frames_of_excluded_connections_keep_their_numbers_and_are_counted(run: Run) -> None:
    everything = [frame.number for frame in known(BASIC, None) if frame.connection.number == 3]
    select = compile_filter("tcp.stream == 3")
    assert [frame.number for frame in frames(BASIC, None, select) if select.matches(frame)] == everything
    whole, part = (
        run("pcap", CAPTURES / BASIC, "--summary"),
        run("pcap", CAPTURES / BASIC, "--summary", "-Y", "tcp.stream == 3"),
    )
    assert [line for line in part.err.split("\n") if not line.startswith("shown")] == whole.err.split("\n")
    assert part.lines == [line for line in whole.lines if int(line.split()[0]) in everything]


@pytest.mark.parametrize("name", SOME)
def test_lines_do_not_change_under_a_filter(run: Run, name: str) -> None:
    chosen_by = 'frame.length > 30 or cursus.topic or liftbridge.crc_status == "good"'
    for output in ("--summary", "--json"):
        whole = run("pcap", CAPTURES / name, output).lines
        part = run("pcap", CAPTURES / name, output, "-Y", chosen_by).lines
        assert part
        assert set(part) <= set(whole)


def test_count_counts_matching_frames(run: Run) -> None:
    result = run("pcap", CAPTURES / BASIC, "--summary", "-q", "-c", 2, "-Y", "rabbitmq_stream.key == Publish")
    assert [line.split()[0] for line in result.lines] == ["31", "33"]


def test_connection_is_asked_once_per_direction() -> None:
    asked: list[int] = []

    def ask(frame: Frame) -> bool:
        asked.append(frame.number)
        return frame.side == 0

    made = Filter("", Atom(ask, Level.CONNECTION))
    found = known(BASIC, None)
    assert [made.matches(frame) for frame in found] == [frame.side == 0 for frame in found]
    assert len(asked) == len({(frame.connection.number, frame.side) for frame in found})


def test_costly_parts_are_skipped_if_cheap_ones_decide() -> None:
    def never(frame: Frame) -> bool:
        raise AssertionError("looked at")

    cheap = Atom(lambda frame: False, Level.ARRIVAL)
    expression: Expression = Negation(join("and", [Atom(never, Level.FIELDS), cheap]))
    assert Filter("", expression).matches(known(BASIC, None)[0])


@pytest.mark.parametrize("name", SOME)
def test_every_field_equals_its_record(name: str) -> None:
    """With and without records, values are equal and have the type that filters expect."""
    names = Names()
    fields = [names.find(field) for prefix in prefixes() for field in entries_by_name(prefix) if field != prefix]
    plain = [each for each in fields if each is not None and not each.complete]
    assert len(plain) > 300
    for bare, full in zip(known(name, None), known(name, RAW), strict=True):
        there = (full.layers or {}).keys()
        for field in plain:
            if field.name.split(".")[0] in there:
                assert field.get(bare) == field.get(full), field.name
