"""Shared by all tests: where the captures of the repository are, and which tests are slow."""

from __future__ import annotations

import atexit
import functools
import gc
import inspect
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

# A shell that starts the tests in the background leaves signals ignored, and so would every command that they start.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# The tests start hundreds of processes: bytecode is written, though the environment may say no.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_SETTINGS = tempfile.TemporaryDirectory(prefix="wiredecode-settings-")
os.environ["XDG_CONFIG_HOME"] = _SETTINGS.name  # the settings of this user do not matter
os.environ["XDG_STATE_HOME"] = f"{_SETTINGS.name}/state"
os.environ["WIRESHARK_CONFIG_DIR"] = "/nonexistent"  # tshark crashes if its folder is below a file

CAPTURES = Path(__file__).parent.parent / "captures"


TOGETHER = ("tests/spark/test_kill.py", "tests/spark/", "tests/live/", "tests/check/")
"""Tests below these stay in one process of ``pytest -n``: they share a Spark session, interfaces, what was checked."""


FIRST = (
    *(f"tests/{each}/" for each in ("spark", "live", "check", "ui", "secrets", "cli", "export", "report", "metrics")),
    *(f"tests/{each}/" for each in ("wireshark", "faults", "docs", "bench")),
    *("tests/test_hash_seeds.py", "tests/protocols/test_kafka_parity.py", "tests/test_connection_alone.py"),
)
"""Files of few tests that take long begin first, so that no process waits for another one at the end."""


LONG = ("leader-killed", "08-pipelined-small")
"""The captures of the repository with most frames, in names of files and in commands: seconds of each test."""


NIGHTLY = 8
"""Of the slow cases of one test .ci/run takes every eighth, two at least; the others are for the night."""


def is_long(case: object) -> bool:
    """Whether a path or a command uses one of the longest captures."""
    return any(name in str(case) for name in LONG)


def sampled(cases: Iterable[Any], every: int = 3, *marks: pytest.MarkDecorator) -> list[Any]:
    """One of ``every`` captures of each folder, as paths or words; the others, and the longest ones, are slow tests,
    with further ``marks``."""
    counts: Counter[str] = Counter()
    made = []
    for case in cases:
        folder = str(Path(case).parent)
        slow = is_long(case) or counts[folder] % every
        counts[folder] += not is_long(case)
        made.append(pytest.param(case, marks=[pytest.mark.slow, *marks] if slow else []))
    return made


def seeds(count: int, quick: int = 5) -> list[Any]:
    """Seeds of random tests: the first ones, and others that are slow tests."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(count)]


def long_are_slow(cases: Iterable[Any]) -> list[Any]:
    """Parameters of tests, paths or words: those with the longest captures of the repository take seconds each."""
    return [pytest.param(each, marks=[pytest.mark.slow] if is_long(each) else []) for each in cases]


def in_one_test(names: str | tuple[str, ...], cases: Iterable[Any], ids: Any = ()) -> Callable[..., Any]:
    """``pytest.mark.parametrize`` for many cases of a millisecond: one test that runs all, and names those that fail.

    pytest needs longer for a test than such a case takes.
    """
    single, cases = isinstance(names, str), list(cases)
    called = [*map(ids, cases)] if callable(ids) else list(ids or cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            failed: dict[str, Exception] = {}
            for name, case in zip(called, cases, strict=True):
                try:
                    test(**({names: case} if single else dict(zip(names, case, strict=True))), **fixtures)
                except Exception as error:
                    failed[str(name)] = error
            if failed:
                text = f"{len(failed)} of {len(cases)} fail: {', '.join(failed)}"
                raise AssertionError(text) from next(iter(failed.values()))

        signature = inspect.signature(test)
        kept = [each for each in signature.parameters.values() if each.name not in ([names] if single else names)]
        every.__signature__ = signature.replace(parameters=kept)
        return every

    return decorate


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: the process with the Spark session waits for Java most of the time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files of tests go to any free process, in the order of collection: tests of a file share what they decoded.

    (``xdist_group`` keeps tests together, too, but has no effect with pytest 9.2.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Tests of the longest captures are slow; files that take long come first, also in random order."""
    for item in items:
        if item.get_closest_marker("nightly") or (is_long(item.name) and not item.get_closest_marker("sweep")):
            item.add_marker(pytest.mark.slow)
    leave_for_the_night(items)
    yield  # others choose, and shuffle
    if config.pluginmanager.hasplugin("randomly"):
        items.sort(key=lambda item: (not item.nodeid.startswith(TOGETHER), not item.nodeid.startswith(FIRST)))
        return
    counts = Counter(item.nodeid.partition("::")[0] for item in items)

    def place(item: pytest.Item) -> tuple[int, int, str]:
        file = item.nodeid.partition("::")[0]
        first = next((at for at, start in enumerate(FIRST) if file.startswith(start)), len(FIRST))
        return first, -counts[file], file

    items.sort(key=place)


def leave_for_the_night(items: list[pytest.Item]) -> None:
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for some in cases.values():
        kept = range(0, len(some), min(NIGHTLY, -(-len(some) // 2)))
        for at, item in enumerate(some):
            if at not in kept:
                item.add_marker(pytest.mark.nightly)


def pytest_sessionstart() -> None:
    gc.disable()  # until everything is collected: what is made until then stays


def pytest_configure(config: pytest.Config) -> None:
    """A worker of ``pytest -n`` is not taken down with all that thousands of tests made: it would last seconds."""
    # otherwise DuckDB reports objects that are still frozen at exit as a leak
    atexit.register(_leave if hasattr(config, "workerinput") else gc.unfreeze)


def _leave() -> None:
    _SETTINGS.cleanup()
    os._exit(0)


def pytest_collection_finish() -> None:
    """Exclude thousands of collected tests from garbage collection, which comes as rarely as in the commands."""
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    gc.enable()


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures that the repository carries, one folder per protocol below it."""
    return CAPTURES


@pytest.fixture
def every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks begin with a single message, so that everything that can be a block is one."""
    from wiredecode.frames import framer

    for name in ("BLOCK_FRAMES", "BLOCK_BYTES"):
        monkeypatch.setattr(framer, name, 1)


@pytest.fixture
def tokyo() -> Iterator[None]:
    """A time zone nine hours before UTC."""
    from wiredecode.view.times import _second

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        _second.cache_clear()
        yield
    time.tzset()
    _second.cache_clear()
