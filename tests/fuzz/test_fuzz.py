"""What fuzzing found once holds for ever, the corpus holds, and mutations of it that are the same each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.corpus import inputs
from tests.fuzz.engine import Watch, blind
from tests.fuzz.hostile import same_on_all_paths
from tests.fuzz.many import TOGETHER, alone, search
from tests.fuzz.shapes import PacketsInput, TalkInput
from tests.fuzz.targets import TARGETS, Target
from wiredecode.testing.segments import Part

REGRESSIONS = sorted(Path(__file__).parent.glob("regressions/*/*"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once(path: Path) -> None:
    if path.suffix == ".pcap":
        same_on_all_paths(path)
    else:
        TARGETS[path.parent.name].run(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_some_mutations_of_it(name: str) -> None:
    watch = Watch(TARGETS[name])
    kept = inputs(name)
    assert kept
    for data in kept[:10]:
        watch.run(data)
    blind(watch, kept, random.Random(name), 10)
    assert not watch.found, {told: data.hex() for told, data in watch.found.items()}


def test_a_property_that_does_not_hold_is_kept_once_for_each_place(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.startswith(b"\x01"):
            raise KeyError(data)

    watch = Watch(Target("bad", run, list), tmp_path)
    for data in (b"\x01a", b"\x02", b"\x01b"):
        watch.run(data)
    assert watch.executions == 3
    assert list(watch.found.values()) == [b"\x01a"]
    assert [path.read_bytes() for path in tmp_path.glob("bad-*[!t]")] == [b"\x01a"]


def test_damaged_conversations_that_are_decoded_together() -> None:
    watch = Watch(TARGETS["tank"])
    search("tank", TOGETHER, 3, watch)
    assert (watch.executions, watch.found) == (TOGETHER, {})


def test_of_conversations_decoded_together_the_one_that_breaks_is_kept() -> None:
    def run(data: bytes) -> None:
        if b"bad" in data:
            raise KeyError(data)

    good, bad = (TalkInput(0, 0, [Part(1, 0, data)]) for data in (b"good", b"bad"))
    watch = Watch(Target("one", run, list))
    alone(watch, [good, bad, good], ValueError())
    assert list(watch.found.values()) == [bad.write()]
    together = Watch(Target("none", run, list))
    alone(together, [good, good], ValueError())
    assert list(together.found.values()) == [(len(good.write()).to_bytes(4) + good.write()) * 2]


@pytest.mark.parametrize("shape", [TalkInput, PacketsInput])
def test_any_bytes_are_an_input_and_what_is_written_is_read_again(shape: type[TalkInput | PacketsInput]) -> None:
    chance = random.Random(7)
    for size in range(60):
        read = shape.read(chance.randbytes(size))
        assert shape.read(read.write()) == read
