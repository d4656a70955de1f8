"""Runs targets, guided by new coverage or blindly.

An input that breaks a property is saved once per place in the code, and the run continues.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.fuzz.corpus import inputs
from tests.fuzz.coverage import Coverage
from tests.fuzz.mutate import mutate_bytes

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

CORPUS_INPUTS = 12
"""Inputs of the corpus in the repository that each target of a run of all begins with."""
INPUT_BYTES = 8192
LATEST = 32
"""Number of latest inputs that are preferred."""
FIGURES_SECONDS = 2.0
"""Time between two writes of the figures."""
SLOW_SECONDS = 10
"""Of CPU time; more is a finding."""


def signature(error: BaseException) -> str:
    """The key of a finding: its property or exception, and the last line of wiredecode in the traceback."""
    room = str(Path(__file__).parents[2] / "wiredecode")
    ours = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(room)]
    place = f"{Path(ours[-1].filename).relative_to(room)}:{ours[-1].lineno}" if ours else "-"
    kind = str(error).partition(":")[0] if isinstance(error, AssertionError) else type(error).__name__
    return f"{kind} at {place}"


class Watch:
    """Runs inputs, counts, and keeps what breaks."""

    def __init__(self, target: Target, folder: Path | None = None) -> None:
        self.target, self.folder = target, folder
        self.executions = 0
        self.found: dict[str, bytes] = {}

    def run(self, data: bytes) -> None:
        """One input."""
        self.executions += 1
        try:
            self.target.run(data)
        except Exception as error:
            self.keep(data, error)

    def keep(self, data: bytes, error: Exception) -> None:
        """Save an input that broke a property, unless one is saved for the same place."""
        key = signature(error)
        if key in self.found:
            return
        self.found[key] = data
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.target.name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
            (self.folder / name).write_bytes(data)
            (self.folder / f"{name}.txt").write_text("".join(traceback.format_exception(error)), errors="replace")
            print(f"FOUND {self.target.name}: {key}\n    input {data.hex()}", file=sys.stderr, flush=True)


def blind(watch: Watch, seeds: Iterable[bytes], chance: random.Random, executions: int) -> None:
    """Run ``executions`` mutations of seeds without coverage; the same ones each time."""
    pool = list(seeds)
    for _ in range(executions):
        data = watch.target.mutate(chance.choice(pool), chance)
        if chance.random() < 0.5:
            data = watch.target.mutate(data, chance)
        watch.run(data)
        pool[chance.randrange(len(pool))] = data if chance.random() < 0.1 else chance.choice(pool)


class Pool:
    """Inputs that reached new places, later ones preferred; each is a file in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.inputs = folder, list[bytes]()

    def start(self, seeds: Iterable[bytes]) -> list[bytes]:
        """Return the inputs of earlier runs and the seeds, short ones first, since they make long ones unnecessary."""
        found = {path.read_bytes(): path for path in self.folder.iterdir()}
        for path in found.values():
            path.unlink()
        return sorted({*found, *seeds}, key=len)

    def add(self, data: bytes) -> None:
        self.inputs.append(data)
        (self.folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def choose(self, chance: random.Random) -> bytes:
        """Return an input."""
        if chance.random() < 0.5:
            return chance.choice(self.inputs[-LATEST:])
        return chance.choice(self.inputs)


def mutated(target: Target, pool: Pool, chance: random.Random) -> bytes:
    """One or two changes of an input, rarely with the end of another one."""
    data = pool.choose(chance)
    if chance.random() < 0.05:
        other = pool.choose(chance)
        data = data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
    for _ in range(chance.choice((1, 1, 1, 2))):
        data = (target.mutate if chance.random() < 0.8 else mutate_bytes)(data, chance)
    return data[:INPUT_BYTES]


def too_slow(*_: object) -> None:
    """Signal handler for an input that takes too long."""
    raise AssertionError(f"slow: more than {SLOW_SECONDS} s")


def guided(names: Sequence[str], seconds: float, work: Path, seed: int) -> dict[str, bytes]:
    """Fuzz each target for ``seconds`` of CPU time; inputs and figures go to ``work``. Returns the findings.

    One target begins with all its seeds, several with a few from the corpus in the repository.
    """
    from tests.fuzz.targets import TARGETS

    coverage, found = Coverage(), dict[str, bytes]()
    signal.signal(signal.SIGPROF, too_slow)
    for name in names:
        target = TARGETS[name]
        seeds = target.seeds() if len(names) == 1 else inputs(name)[:CORPUS_INPUTS]
        found |= guide(target, seeds, seconds, work, coverage, random.Random(f"{seed} {name}"))
    return found


def guide(
    target: Target, seeds: Iterable[bytes], seconds: float, work: Path, coverage: Coverage, chance: random.Random
) -> dict[str, bytes]:
    """Fuzz one target, from what reached new places."""
    watch, pool = Watch(target, work / "found"), Pool(work / "corpus" / target.name)
    figures = work / "figures" / f"{target.name}-{time.time_ns()}.json"
    figures.parent.mkdir(exist_ok=True)
    started = written_at = time.process_time()

    def run(data: bytes) -> None:
        nonlocal written_at
        signal.setitimer(signal.ITIMER_PROF, SLOW_SECONDS)
        if coverage.of(watch.run, data) or not pool.inputs:
            pool.add(data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if (now := time.process_time()) - written_at > FIGURES_SECONDS:
            written_at = now
            figures.write_text(json.dumps(_figures(watch, coverage, now - started)))

    for data in pool.start(seeds):
        run(data)
    while time.process_time() - started < seconds:
        data = b""
        try:
            data = mutated(target, pool, chance)
        except Exception as error:  # it decodes, to know what it changes
            watch.keep(data, error)
        run(data)
    figures.write_text(json.dumps(_figures(watch, coverage, time.process_time() - started)))
    return watch.found


def _figures(watch: Watch, coverage: Coverage, seconds: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row = {"target": watch.target.name, "executions": watch.executions, "seconds": round(seconds), "peak_mb": peak}
    return {**row, "places": len(coverage.seen), "found": sorted(watch.found)}
