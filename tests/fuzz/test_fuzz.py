"""Earlier findings of fuzzing, the corpus, and fixed mutations."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.corpus import inputs
from tests.fuzz.engine import Watch, blind
from tests.fuzz.hostile import same_on_all_paths
from tests.fuzz.many import TOGETHER, run_separately, search
from tests.fuzz.shapes import PacketsInput, TalkInput
from tests.fuzz.targets import TARGETS, Target
from wiredecode.testing.segments import Part

REGRESSIONS = sorted(Path(__file__).parent.glob("regressions/*/*"))


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_earlier_findings_stay_fixed(path: Path) -> None:
    if path.suffix == ".pcap":
        same_on_all_paths(path)
    else:
        TARGETS[path.parent.name].run(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_corpus_and_fixed_mutations_break_nothing(name: str) -> None:
    watch = Watch(TARGETS[name])
    kept = inputs(name)
    assert kept
    for data in kept[:10]:
        watch.run(data)
    blind(watch, kept, random.Random(name), 10)
    assert not watch.found, {place: data.hex() for place, data in watch.found.items()}


def test_a_broken_property_is_saved_once_per_place(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.startswith(b"\x01"):
            raise KeyError(data)

    watch = Watch(Target("bad", run, list), tmp_path)
    for data in (b"\x01a", b"\x02", b"\x01b"):
        watch.run(data)
    assert watch.executions == 3
    assert list(watch.found.values()) == [b"\x01a"]
    assert [path.read_bytes() for path in tmp_path.glob("bad-*[!t]")] == [b"\x01a"]


def test_damaged_conversations_decoded_in_one_capture() -> None:
    watch = Watch(TARGETS["tank"])
    search("tank", TOGETHER, 3, watch)
    assert (watch.executions, watch.found) == (TOGETHER, {})


def test_the_failing_conversation_of_a_capture_is_saved() -> None:
    def run(data: bytes) -> None:
        if b"bad" in data:
            raise KeyError(data)

    good, bad = (TalkInput(0, 0, [Part(1, 0, data)]) for data in (b"good", b"bad"))
    watch = Watch(Target("one", run, list))
    run_separately(watch, [good, bad, good], ValueError())
    assert list(watch.found.values()) == [bad.write()]
    together = Watch(Target("none", run, list))
    run_separately(together, [good, good], ValueError())
    assert list(together.found.values()) == [(len(good.write()).to_bytes(4) + good.write()) * 2]


@pytest.mark.parametrize("shape", [TalkInput, PacketsInput])
def test_any_bytes_are_an_input_and_survive_a_round_trip(shape: type[TalkInput | PacketsInput]) -> None:
    chance = random.Random(7)
    for size in range(60):
        read = shape.read(chance.randbytes(size))
        assert shape.read(read.write()) == read
