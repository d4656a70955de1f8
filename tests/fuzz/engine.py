"""Runs targets: guided by coverage with atheris where it is installed, blindly elsewhere.

What breaks a property is written down once for each place in the code, and the run goes on.
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.targets import Target

ROOMS = ("capture", "net", "tls", "fields", "frames", "protocols", "dissect", "filter", "tables", "view")
"""What is instrumented."""
ALL = "all"
"""All targets in one run: the first byte of an input names one."""
INPUT_BYTES = 8192
MEMORY_MB = 1024
"""Of the process with atheris's own tables; libFuzzer ends it above."""
TELL_SECONDS = 2.0
"""So often figures are written down."""
SLOW_SECONDS = 10
"""Of CPU time; more is a finding."""


def signature(error: BaseException) -> str:
    """What tells findings apart: the property or exception, and the last line of ours."""
    room = str(Path(__file__).parents[2] / "wiredecode")
    ours = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(room)]
    place = f"{Path(ours[-1].filename).relative_to(room)}:{ours[-1].lineno}" if ours else "-"
    told = str(error).partition(":")[0] if isinstance(error, AssertionError) else type(error).__name__
    return f"{told} at {place}"


class Watch:
    """Runs inputs, counts, and keeps what breaks."""

    def __init__(self, target: Target, folder: Path | None = None) -> None:
        self.target, self.folder = target, folder
        self.executions = 0
        self.found: dict[str, bytes] = {}

    def run(self, data: bytes) -> None:
        """One input."""
        self.executions += 1
        before = time.process_time()
        try:
            self.target.run(data)
            if time.process_time() - before > SLOW_SECONDS:
                raise AssertionError(f"slow: {time.process_time() - before:.0f} s")
        except Exception as error:
            self._keep(data, error)

    def _keep(self, data: bytes, error: Exception) -> None:
        told = signature(error)
        if told in self.found:
            return
        self.found[told] = data
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = f"{self.target.name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
            (self.folder / name).write_bytes(data)
            (self.folder / f"{name}.txt").write_text("".join(traceback.format_exception(error)), errors="replace")
            print(f"FOUND {self.target.name}: {told}", file=sys.stderr, flush=True)


def blind(watch: Watch, seeds: Iterable[bytes], chance: random.Random, executions: int) -> None:
    """So many mutations of seeds, without coverage: the same ones each time."""
    pool = list(seeds)
    for _ in range(executions):
        data = watch.target.mutate(chance.choice(pool), chance)
        if chance.random() < 0.5:
            data = watch.target.mutate(data, chance)
        watch.run(data)
        pool[chance.randrange(len(pool))] = data if chance.random() < 0.1 else chance.choice(pool)


def instrumented(atheris: Any) -> None:
    """Import everything that runs, with coverage."""
    with atheris.instrument_imports(include=["wiredecode"], enable_loader_override=False):
        for room in ROOMS:
            package = import_module(f"wiredecode.{room}")
            for each in walk_packages(package.__path__, f"wiredecode.{room}."):
                import_module(each.name)


def guided(name: str, seconds: int, work: Path, merged: Path | None = None) -> None:
    """Fuzz a target with atheris, in this process, which ends with it; figures go to a file below ``work``.

    ``merged``: instead put into that folder a few inputs that reach what all of the corpus reach.
    """
    import atheris

    instrumented(atheris)
    from tests.fuzz.targets import TARGETS, all_together

    target, started = all_together() if name == ALL else TARGETS[name], time.monotonic()
    watch = Watch(target, work / "found")
    corpus = work / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for data in target.seeds():
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        try:
            made = target.mutate(data, chance) if chance.random() < 0.7 else atheris.Mutate(data, most)
        except Exception as error:  # it decodes, to know what it changes
            watch._keep(data, error)
            made = atheris.Mutate(data, most)
        return bytes(made[:most])

    figures = work / "figures" / f"{name}-{time.time_ns()}.json"
    figures.parent.mkdir(exist_ok=True)
    told = started

    def run(data: bytes) -> None:
        nonlocal told
        watch.run(data)
        now = time.monotonic()
        if now - told > TELL_SECONDS:  # libFuzzer ends the process without another word
            told = now
            figures.write_text(json.dumps(_figures(watch, now - started)))

    limits = [f"-max_len={INPUT_BYTES}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=60"]
    (work / "found").mkdir(exist_ok=True)
    if merged is None:
        limits += [f"-max_total_time={seconds}", f"-artifact_prefix={work}/found/{name}-"]
    else:
        limits += ["-merge=1", str(merged)]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], run, custom_mutator=mutate)
    atheris.Fuzz()


def _figures(watch: Watch, seconds: float) -> dict[str, Any]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    row = {"target": watch.target.name, "executions": watch.executions, "seconds": round(seconds), "peak_mb": peak}
    return {**row, "found": sorted(watch.found)}
