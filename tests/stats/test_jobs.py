"""``stats --jobs``: several processes write what one writes."""

from __future__ import annotations

import os
import pickle
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from tests.cli.conftest import Run, run
from tests.conftest import CAPTURES, sampled
from wiredecode.cli.jobs import Jobs
from wiredecode.cli.stats_output import TABLES
from wiredecode.net.distribution import Distribution

__all__ = ["run"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
COUNTED = [word for name in TABLES if name != "consumers" for word in ("--table", name)]
SEVERAL = (
    *("rabbitmq-stream/c43_multi.pcap", "rabbitmq-stream/d_drop1pct.pcap", "rabbitmq-stream/d_cutfile.pcap"),
    *(
        "rabbitmq-stream/d_shuffled_dups.pcap",
        "nats/14-cluster-routes.pcap",
        "nats/13-jetstream.pcap",
    ),
    *("liftbridge/30-lb-publish-ack.pcap", "cursus/group.pcap", "stories/advertised-refused.pcap"),
    *("tank/tank_08_consume_positions.pcap", "pravega/read_cuts.pcap"),
)


@pytest.mark.parametrize("path", sampled(SEVERAL, 4))
@pytest.mark.parametrize("jobs", [2, 3])
def test_output_equals_that_of_one_process(run: Run, path: str, jobs: int) -> None:
    """Rows, their order, numbers of connections, totals, errors and exit code."""
    plain = run("stats", CAPTURES / path, "--json", *COUNTED)
    assert run("stats", CAPTURES / path, "--json", *COUNTED, "--jobs", jobs) == plain


def test_several_captures_times_and_filters(run: Run) -> None:
    some = [*(CAPTURES / path for path in SEVERAL[:4]), *COUNTED, "--to", "5", "-Y"]
    for display in ("frame.length > 20", "connection == 2 || frame.number < 40"):
        assert run("stats", *some, display, "--jobs", 2) == run("stats", *some, display)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "consumers need all: name the tables with --table"),
        (["--timeline"], "leave out --jobs"),
    ],
    ids=["consumers", "timeline"],
)
def test_work_for_one_process_is_refused(run: Run, basic: Path, words: list[str], said: str) -> None:
    result = run("stats", basic, "--jobs", 2, *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err


def test_a_pipe_is_refused(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", tmp_path / "pipe"):
        result = run("stats", name, "--jobs", 2, *COUNTED)
        assert (result.code, result.out) == (2, "")
        assert "can be read only once" in result.err


@pytest.fixture
def basic() -> Path:
    return CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"


def test_a_process_that_is_ended_and_errors_in_one() -> None:
    def fails(number: int, _: object) -> None:
        if number == 1:
            raise ValueError("bad")
        os._exit(9)

    with Jobs(2, fails) as jobs, pytest.raises(ValueError, match="bad"):
        [*jobs.results()]
    with Jobs(3, lambda *_: os._exit(9)) as jobs, pytest.raises(ChildProcessError, match="exit code 9"):
        [*jobs.results()]


def test_an_interrupt_ends_all_processes() -> None:
    running: list[int | None] = []
    jobs = Jobs(3, lambda *_: time.sleep(600))
    with pytest.raises(KeyboardInterrupt), jobs:
        running += [process.pid for process in jobs._running]
        raise KeyboardInterrupt
    assert len(running) == 2
    for pid in running:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_percentiles_of_too_many_times_do_not_depend_on_their_order() -> None:
    times = [number * number % 1_000_003 for number in range(4_000)]
    whole, backward, halves = Distribution(512), Distribution(512), [Distribution(512), Distribution(512)]
    for index, each in enumerate(times):
        whole.add(each)
        backward.add(times[-1 - index])
        halves[index % 2].add(each)
    halves[0].merge(pickle.loads(pickle.dumps(halves[1])))
    assert whole.columns() == backward.columns() == halves[0].columns()
