"""Signals, full disks and broken input at any moment: every output is whole or missing, and nothing else is left."""

from __future__ import annotations

import itertools
import os
import random
import resource
import shutil
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.faults.harness import OUTPUTS, contents, in_a_child, places_in, signal_after, signal_at, words_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ALL = [pytest.param(name, marks=() if name == "csv" else pytest.mark.slow) for name in OUTPUTS]
BEFORE = b"what was there before"
MAX_PLACES = 12
"""Number of places tried per output, at equal distances."""


@pytest.fixture
def file(captures: Path, run: Run, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A capture; the command's imports happen here once, not in every child."""
    path = captures / "nats" / "04-request-reply.pcap"
    run(*words_of(request.node.callspec.params["name"], path, tmp_path_factory.mktemp("first")))
    return path


def names(folder: Path) -> set[str]:
    """Files, hidden ones too; of a report and a folder the names alone are the same each time."""
    return set(contents(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_signal_at_any_moment_of_opening_and_naming(name: str, file: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    count = places_in(words_of(name, file, whole))
    ended = set()
    for number, place in zip(itertools.cycle(SIGNALS), range(1, count + 1, max(1, -(-count // MAX_PLACES)))):
        folder = tmp_path / str(place)
        folder.mkdir()
        found = in_a_child(words_of(name, file, folder), signal_at(number, place))
        assert "Traceback" not in found.errors
        assert names(folder) in (set(), names(whole)), (place, found)
        assert found.code or names(folder) == names(whole), (place, found)
        ended.add(found.code)
        shutil.rmtree(folder)
    assert ended >= {130, 129, 143}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_signal_at_random_moments(name: str, file: Path, tmp_path: Path) -> None:
    """``WIREDECODE_MOMENTS`` sets their number. SIGPIPE ends nothing: writing to a file continues."""
    chance, whole = random.Random(os.environ.get("WIREDECODE_SEED", name)), tmp_path / "whole"
    whole.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert in_a_child(words_of(name, file, whole)).code == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    for moment in range(int(os.environ.get("WIREDECODE_MOMENTS", "4"))):
        number, folder = (*SIGNALS, signal.SIGPIPE)[moment % 4], tmp_path / str(moment)
        folder.mkdir()
        found = in_a_child(words_of(name, file, folder), signal_after(number, chance.uniform(0.001, seconds)))
        assert "Traceback" not in found.errors
        assert found.code in (0, 128 + number, -number), found
        assert names(folder) == names(whole) if not found.code else names(folder) in (set(), names(whole)), found


@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in ("folder", "totals")])
def test_an_older_output_is_kept(name: str, file: Path, tmp_path: Path) -> None:
    made = tmp_path / OUTPUTS[name][1]
    made.write_bytes(BEFORE)
    found = in_a_child(words_of(name, file, tmp_path), signal_at(signal.SIGTERM, 8))
    assert found.code in (130, 143)
    assert contents(tmp_path) == {made.name: BEFORE}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [0, 700])
def test_a_full_disk(name: str, size: int, file: Path, tmp_path: Path) -> None:
    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    found = in_a_child(words_of(name, file, tmp_path), prepare)
    lines = [line for line in found.errors.splitlines() if line.startswith("wiredecode: ")]
    assert found.code == 2, found
    assert "Traceback" not in found.errors
    assert "internal" not in found.errors
    assert len(lines) == 1
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("place", ["wiredecode.net.network.Network.feed", "wiredecode.frames.framer.Framer.chunk"])
def test_no_memory(name: str, place: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError

    found = in_a_child(words_of(name, file, tmp_path), lambda: monkeypatch.setattr(place, none))
    assert found.code == 2, found
    assert found.errors.count("wiredecode: ") == found.errors.count("not enough memory") == 1
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("name", ALL)
def test_two_writers_of_one_output_leave_one_whole_output(name: str, file: Path, tmp_path: Path) -> None:
    """The second one runs from begin to end while the first one is about to rename its output."""
    whole, folder = tmp_path / "whole", tmp_path / "both"
    whole.mkdir()
    folder.mkdir()
    assert in_a_child(words_of(name, file, whole)).code == 0

    def prepare() -> None:
        from wiredecode.export import atomic

        plain = {place: place.commit for place in (atomic.NewFile, atomic.NewFolder)}

        def commit(self: atomic.NewFile) -> None:
            for place, usual in plain.items():
                place.commit = usual  # type: ignore[method-assign]
            assert in_a_child(words_of(name, file, folder)).code == 0
            plain[type(self)](self)

        for place in plain:
            place.commit = commit  # type: ignore[method-assign, assignment]

    assert in_a_child(words_of(name, file, folder), prepare).code == 0
    assert names(folder) == names(whole)


def test_clocks_that_go_backwards_lose_nothing(captures: Path, tmp_path: Path) -> None:
    """Packets with times that jump back by an hour, and to 1970."""
    from tests.pcap import write_pcap
    from wiredecode.capture import open_capture
    from wiredecode.testing import dissect

    file = captures / "nats" / "04-request-reply.pcap"
    packets = []
    for batch in open_capture([file]):
        for start, size, time_ns in zip(
            *(c.tolist() for c in (batch.start, batch.captured, batch.time_ns)), strict=True
        ):
            packets.append((time_ns, bytes(batch.buffer[start : start + size])))
    plain = dissect(open_capture([file]))
    for jump in (3600 * 10**9, packets[0][0]):
        half = len(packets) // 2
        moved = [*packets[:half], *((time_ns - jump, data) for time_ns, data in packets[half:])]
        write_pcap(tmp_path / "back.pcap", moved)
        found = dissect(open_capture([tmp_path / "back.pcap"]))
        assert [frame.data for frame in found.frames] == [frame.data for frame in plain.frames]
        assert found.totals.closes


class Broken:
    """A file that fails or ends while it is read."""

    def __init__(self, data: bytes, error: OSError | None, step: int = 4000) -> None:
        self._parts = [data[at : at + step] for at in range(0, len(data), step)]
        self._error = error

    def read(self, _size: int) -> bytes:
        if self._parts:
            return self._parts.pop(0)
        if self._error is not None:
            raise self._error
        return b""


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), OSError(116, "Stale file handle"), None])
def test_input_that_fails_or_ends_while_it_is_read(captures: Path, error: OSError | None) -> None:
    from wiredecode.capture import open_capture
    from wiredecode.testing import dissect

    data = (captures / "nats" / "04-request-reply.pcap").read_bytes()
    plain = dissect(open_capture([captures / "nats" / "04-request-reply.pcap"]))
    found = dissect(open_capture([Broken(data[:9000], error)]))  # type: ignore[list-item]
    assert found.error is not None
    assert ("cannot be read on" if error else "is truncated in the middle of") in str(found.error)
    assert found.totals.closes
    whole = [frame.data for frame in found.whole]
    assert 0 < len(whole) < len(plain.frames)
    assert whole == [frame.data for frame in plain.frames][: len(whole)]


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(captures: Path, tmp_path: Path) -> None:
    from wiredecode.capture import open_capture

    whole, path = captures / "nats" / "04-request-reply.pcap", tmp_path / "grows.pcap"
    data = whole.read_bytes()
    path.write_bytes(data[:24])
    batches = open_capture([path]).__iter__()
    path.write_bytes(data)
    assert sum(map(len, itertools.chain(batches))) == sum(
        map(len, open_capture([captures / "nats" / "04-request-reply.pcap"]))
    )
