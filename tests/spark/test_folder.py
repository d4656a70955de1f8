"""The folder of tables in an object store: the same steps as on a disk. No Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.remote import s3_server
from wiredecode.capture.remote import Location
from wiredecode.spark import folder as folder_module
from wiredecode.spark.folder import DONE, VIEWS, Folder

FILE = "day=2026-01-31/part-1.parquet"


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server(monkeypatch) as uri:
        yield f"{uri}/lake"


def run(out: str, number: int) -> Folder:
    """Run up to before the commit; each table has one row with the number."""
    folder = Folder(out)
    folder.begin()
    folder.write(f"{folder.attempts}/part-1.parquet", pa.table({"number": [number]}))
    folder.write(f"{folder.attempts}/part-2.parquet", pa.table({"number": [-1]}))
    folder.move([(f"{folder.attempts}/part-1.parquet", folder.table(f"messages/{FILE}"))])
    return folder


def files(out: str) -> list[str]:
    folder = Folder(out)
    at = len(folder._path) + 1
    return sorted(each.path[at:] for each in folder.list(recursive=True) if each.is_file)


def numbers(out: str) -> list[int]:
    folder = Folder(out)
    found: list[int] = pq.read_table(folder._at(f"messages/{FILE}"), filesystem=folder._system)["number"].to_pylist()
    return found


class Hdfs(LocalFileSystem):
    """Renames like WebHDFS: only into existing folders, and without an error otherwise."""

    protocol = "quiet"

    def mv_file(self, path1: str, path2: str, **_: Any) -> None:
        with suppress(OSError):
            Path(path1).rename(path2)

    mv = mv_file


def test_folders_are_made_before_files_are_renamed_into_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = pafs.PyFileSystem(pafs.FSSpecHandler(Hdfs()))
    path = str(tmp_path / "lake")
    monkeypatch.setattr(folder_module, "location_of", lambda name: Location(system, path, "quiet://", ""))
    for number in (0x0102, 0x0304):
        run(path, number).commit({})
        assert files(path) == [DONE, VIEWS, f"messages/{FILE}"]
    monkeypatch.setattr(Hdfs, "mv", lambda *_, **how: None)
    with pytest.raises(OSError, match="cannot be renamed to"):
        Folder(path)._rename("messages", "elsewhere")


@pytest.mark.slow
def test_runs_replace_each_other_and_failed_runs_leave_nothing(out: str) -> None:
    for number in (0x0102, 0x0304):
        run(out, number).commit({"level": "messages"})
        assert files(out) == [DONE, VIEWS, f"messages/{FILE}"]
        assert numbers(out) == [number]
    run(out, 0x0506).discard()
    assert files(out) == [DONE, VIEWS, f"messages/{FILE}"]
    run(out, 0x0708)  # killed
    run(out, 0x090A).commit({})
    assert numbers(out) == [0x090A]
    assert "from read_parquet('s3://captures/lake/messages/**/*.parquet'" in Folder(out).views()
