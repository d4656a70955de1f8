"""Outputs that are whole or missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiredecode.export.atomic import NewFile, NewFolder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("mode", [0o640, 0o664, 0o666])
def test_a_file_has_its_name_only_when_committed_and_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    target.chmod(mode)
    new = NewFile(target)
    new.stream.write(b"new")
    assert target.read_bytes() == b"old"
    assert all(name == "out" or name.endswith(".part") for name in names(tmp_path))
    new.commit()
    new.discard()
    assert (target.read_bytes(), names(tmp_path)) == (b"new", ["out"])
    assert target.stat().st_mode & 0o777 == mode


def test_discarded_outputs_leave_nothing(tmp_path: Path) -> None:
    new = NewFile(tmp_path / "out")
    new.stream.write(b"new")
    new.discard()
    assert names(tmp_path) == []


def test_a_link_stays_a_link_and_long_names_fit(tmp_path: Path) -> None:
    real, link = tmp_path / ("x" * 250), tmp_path / "link"
    link.symlink_to(real)
    new = NewFile(link)
    new.stream.write(b"1")
    new.commit()
    assert link.is_symlink()
    assert real.read_bytes() == b"1"


def test_a_folder_never_mixes_with_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "lake"
    target.mkdir()
    target.chmod(0o2775)
    (target / "old").touch()
    with pytest.raises(FileExistsError, match="is not empty"):
        NewFolder(target)
    new = NewFolder(target, overwrite=True)
    (new.part / "new").touch()
    assert names(target) == ["old"]
    new.commit()
    assert (names(target), names(tmp_path)) == (["new"], ["lake"])
    assert target.stat().st_mode & 0o7777 == 0o2775


def test_an_empty_folder_is_filled_and_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    new = NewFolder(tmp_path / "empty")
    (new.part / "new").touch()
    new.commit()
    assert names(tmp_path / "empty") == ["new"]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="is a file"):
        NewFolder(tmp_path / "file", overwrite=True)
