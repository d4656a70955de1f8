"""Input files: search, order, and unreadable files. No Spark is needed."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from tests.conftest import CAPTURES
from tests.pcap import write_pcap
from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture import remote as places
from wiredecode.capture.listing import is_capture_name
from wiredecode.capture.remote import open_file
from wiredecode.spark.files import find, first_ns

BASIC = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
SECOND = 1_000_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``a/x.pcap`` at 3 s, ``a/y.pcap`` at 1 s, ``b/deep/z.pcap.gz`` at 2 s, and files that are no input."""
    for name, seconds in {"a/x.pcap": 3, "a/y.pcap": 1, "b/deep/z.pcap": 2}.items():
        capture(tmp_path / name, seconds)
    deep = tmp_path / "b" / "deep" / "z.pcap"
    deep.with_suffix(".pcap.gz").write_bytes(gzip.compress(deep.read_bytes()))
    deep.unlink()
    for name in ("a/notes.txt", "a/.hidden.pcap", "a/x.pcap.part", "_temporary/x.pcap", "a/.git/x.pcap"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(BASIC, tmp_path / name)
    return tmp_path


def capture(path: Path, *seconds: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_pcap(path, [(second * SECOND, b"packet") for second in seconds])
    return path


def names(folder: Path, *paths: str) -> list[str]:
    found = find([f"{folder}/{path}" for path in paths])
    assert not found.problems
    return [Path(file.name).relative_to(folder).as_posix() for file in found.files]


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([""], ["a/y.pcap", "b/deep/z.pcap.gz", "a/x.pcap"]),
        (["a"], ["a/y.pcap", "a/x.pcap"]),
        (["a/"], ["a/y.pcap", "a/x.pcap"]),
        (["a/x.pcap", "a", "a/../a/x.pcap"], ["a/y.pcap", "a/x.pcap"]),
        (["a/*.pcap"], ["a/y.pcap", "a/x.pcap"]),
        (["*/[xz].pcap"], ["a/x.pcap"]),
        (["*"], ["a/y.pcap", "b/deep/z.pcap.gz", "a/x.pcap"]),
        (["**/z.*"], ["b/deep/z.pcap.gz"]),
        (["**/x.pcap"], ["a/x.pcap"]),
        (["a/?.pcap"], ["a/y.pcap", "a/x.pcap"]),
        (["a/notes.txt"], ["a/notes.txt"]),
        (["a/.hidden.pcap"], ["a/.hidden.pcap"]),
    ],
    ids=str,
)
def test_files_folders_and_globs(folder: Path, paths: list[str], wanted: list[str]) -> None:
    assert names(folder, *paths) == wanted


@pytest.mark.parametrize(
    "name", ["x.pcap", "x.pcapng", "X.CAP", "x.pcap0", "x.pcap12", "x.pcap.7", "x.pcap3.gz", "x.pcapng.zst", "x.1.cap"]
)
def test_names_of_captures(name: str) -> None:
    assert is_capture_name(name)


@pytest.mark.parametrize(
    "name", ["pcap", ".pcap", "x.pcap.part", "x.pcap~", "x.txt", "x.pcap.bz2", "x.gz", "x.pcapx", "xpcap", "x.pcap."]
)
def test_names_of_other_files(name: str) -> None:
    assert not is_capture_name(name)


def test_a_name_with_glob_characters_is_a_name(tmp_path: Path) -> None:
    capture(tmp_path / "a[1].pcap", 1)
    capture(tmp_path / "a1.pcap", 2)
    assert names(tmp_path, "a[1].pcap") == ["a[1].pcap"]


@pytest.mark.parametrize("uri", ["file://{}/a%20b", "file:{}/a%20b", "file://localhost{}/a%20b"])
def test_uris_of_local_files_are_the_same_files(tmp_path: Path, uri: str) -> None:
    path = capture(tmp_path / "a b" / "x.pcap", 5)
    plain = find([str(path)])
    assert find([uri.format(tmp_path)]) == plain
    assert [file.name for file in plain.files] == [str(path)]
    assert plain.sizes == {str(path): path.stat().st_size}


def test_order_does_not_depend_on_the_order_given(tmp_path: Path) -> None:
    paths = [str(capture(tmp_path / f"{number}.pcap", 7 if number % 2 else number)) for number in range(20)]
    wanted = find(paths)
    for seed in range(5):
        random.Random(seed).shuffle(paths)
        assert find(paths) == wanted
    times = [file.first_ns // SECOND for file in wanted.files]
    assert times == sorted(times)


def test_sources(folder: Path) -> None:
    every = [str(folder)]
    assert {file.source for file in find(every).files} == {""}
    assert [file.source for file in find(every, "folder").files] == ["a", "a", "deep"]
    found = find(every, rf"{folder}/(\w+)/(?!y)")
    assert [(file.source, Path(file.name).name) for file in found.files] == [
        ("", "y.pcap"),
        ("a", "x.pcap"),
        ("b", "z.pcap.gz"),
    ]


@pytest.mark.parametrize(
    ("source", "error"),
    [("(", r"source '\(' is no regular expression"), ("client|broker", "needs a group"), ("folder", "the same name")],
)
def test_sources_that_do_not_work(tmp_path: Path, source: str, error: str) -> None:
    capture(tmp_path / "client" / "day1" / "x.pcap", 1)
    capture(tmp_path / "broker" / "day1" / "x.pcap", 1)
    with pytest.raises(ValueError, match=error):
        find([str(tmp_path)], source)


def test_bad_files_are_problems_and_do_not_stop_the_others(tmp_path: Path) -> None:
    capture(tmp_path / "good.pcap", 1)
    capture(tmp_path / "no packets.pcap")
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_text("no capture at all")
    content = capture(tmp_path / "cut.pcap", 1).read_bytes()
    (tmp_path / "cut.pcap").write_bytes(content[:-1])
    (tmp_path / "later.pcap").write_bytes(content + content[24:-1])
    (tmp_path / "gzip.pcap.gz").write_bytes(gzip.compress(content)[:15])
    found = find([str(tmp_path), f"{tmp_path}/missing.pcap", f"{tmp_path}/*.none"], r"/(\w+)\.")
    assert [Path(file.name).name for file in found.files] == ["good.pcap", "later.pcap"]
    texts = {problem.file.removeprefix(f"{tmp_path}/"): problem.text for problem in found.problems}
    for name, text in {
        "*.none": "fits no file",
        "cut.pcap": "is truncated in the middle of a packet record (21 of at least 22 bytes are there) at byte 24",
        "empty.pcap": "is empty",
        "gzip.pcap.gz": "the gzip compression is truncated",
        "missing.pcap": "does not exist",
        "text.pcap": "is not a pcap or pcapng file, it looks like text",
    }.items():
        assert texts.pop(name).startswith(f"{tmp_path}/{name}: {text}")
    assert not texts
    assert {problem.source for problem in found.problems if problem.file.endswith("text.pcap")} == {"text"}


@pytest.mark.parametrize("uri", ["ftp://host/x.pcap", "nosuch://host/x.pcap", "hdfs://nobody.invalid:1/x.pcap"])
def test_schemes_that_are_not_reachable_are_one_line(uri: str) -> None:
    (problem,) = find([uri]).problems
    assert problem.text.startswith(f"{uri}: {uri.partition(':')[0]}:// cannot be ")
    assert "\n" not in problem.text


@pytest.fixture
def remote(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The folder, as a file system that is not local has it."""

    def opened(uri: str) -> tuple[Any, str]:
        assert uri == "s3://bucket/"
        return pafs.SubTreeFileSystem(str(folder.parent), pafs.LocalFileSystem()), folder.name

    monkeypatch.setattr(places, "file_system", opened)
    return "s3a://bucket/"


def test_other_file_systems(remote: str, folder: Path) -> None:
    found = find([f"{remote}a", f"{remote}b/*/*", f"{remote}missing.pcap"])
    assert [file.name for file in found.files] == [
        f"{remote}{name}" for name in ("a/y.pcap", "b/deep/z.pcap.gz", "a/x.pcap")
    ]
    assert [problem.text for problem in found.problems] == [f"{remote}missing.pcap: does not exist"]
    assert [file.name for file in find([remote.rstrip("/")]).files] == [file.name for file in found.files]
    with open_file(f"{remote}a/x.pcap") as file:
        (batch,) = open_capture([file])
        assert batch.time_ns.tolist() == [3 * SECOND]
        assert file.seek(-6, 2) == file.tell() == folder.joinpath("a/x.pcap").stat().st_size - 6
        assert file.read() == b"packet"
    assert list(find([f"{remote}a/x.pcap"]).sizes) == [f"{remote}a/x.pcap"]


def test_files_removed_before_they_are_opened(remote: str, tmp_path: Path) -> None:
    for name in (f"{remote}a/none.pcap", f"{tmp_path}/none.pcap", f"{tmp_path}"):
        with pytest.raises(CaptureError, match=r"cannot be|does not exist|is a directory"):
            first_ns(name)
