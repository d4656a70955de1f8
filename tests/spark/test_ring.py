"""Which files of a ring are next: closed ones, each once, in order of time. No Spark is needed for this."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.capture.build import pcap, record
from wiredecode.capture import CaptureError
from wiredecode.spark.ring import MARK, UNREADABLE, Offset, Ring

NOW = 1_000_000.0
"""The clock on the wall; files are written at 0."""


def put(folder: Path, name: str, seconds: int | None, *, at: float = 0.0) -> Path:
    """A capture whose first packet has that time; None: without packets."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pcap(*([] if seconds is None else [record(b"x" * 20, seconds)])))
    os.utime(path, (at, at))
    return path


def ring(folder: Path, **options: object) -> Ring:
    return Ring([str(folder)], **{"idle": 60.0, "now": lambda: NOW, **options})  # type: ignore[arg-type]


def names(offset: Offset) -> list[str]:
    return [Path(name).name for name in offset["files"]]


def test_files_come_in_order_of_time_not_of_name(tmp_path: Path) -> None:
    for name, seconds in (("b.pcap", 1), ("a.pcap", 2), ("c.pcap", 3)):
        put(tmp_path, name, seconds)
    found = ring(tmp_path)
    first = found.after(found.first(), found.closed(), 2)
    assert names(first) == ["b.pcap", "a.pcap"]
    second = found.after(first, found.closed(), 2)
    assert names(second) == ["c.pcap"]
    assert found.after(second, found.closed(), 2) is second


def test_the_last_file_of_a_source_is_open_until_it_is_idle(tmp_path: Path) -> None:
    put(tmp_path, "1.pcap", 1, at=NOW)
    last = put(tmp_path, "2.pcap", 2, at=NOW - 59)
    found = ring(tmp_path)
    assert [Path(file.name).name for file in found.closed()] == ["1.pcap"], "a newer one is there"
    os.utime(last, (NOW - 60, NOW - 60))
    assert [Path(file.name).name for file in found.closed()] == ["1.pcap", "2.pcap"]
    assert len(ring(tmp_path, now=lambda: 0.0).closed(all_of_them=True)) == 2


def test_a_newer_file_of_another_source_closes_nothing(tmp_path: Path) -> None:
    put(tmp_path, "client/1.pcap", 1, at=NOW)
    put(tmp_path, "broker/1.pcap", 2, at=NOW)
    assert ring(tmp_path, sources="folder").closed() == []
    assert len(ring(tmp_path).closed()) == 1, "as one source"


def test_a_file_put_twice_is_taken_once_and_a_new_one_of_its_name_again(tmp_path: Path) -> None:
    put(tmp_path, "a.pcap", 1)
    found = ring(tmp_path)
    first = found.after(found.first(), found.closed(), 9)
    put(tmp_path, "a.pcap", 1, at=5.0)
    assert found.after(first, found.closed(), 9) is first
    put(tmp_path, "a.pcap", 7, at=9.0)
    assert names(found.after(first, found.closed(), 9)) == ["a.pcap"], "the ring has come round to this name"


def test_what_is_remembered_is_bounded_by_what_is_there(tmp_path: Path) -> None:
    found = ring(tmp_path)
    offset = found.first()
    for number in range(1, 30):
        put(tmp_path, f"{number}.pcap", number)
        offset = found.after(offset, found.closed(), 9)
        assert names(offset) == [f"{number}.pcap"]
        (tmp_path / f"{number - 2}.pcap").unlink(missing_ok=True)
    assert len(offset["seen"]) == 3 * MARK
    assert len(json.dumps(offset)) < 1000
    assert str(tmp_path) not in offset["seen"], "names are in the step that takes them, and in no later one"


def test_a_file_that_begins_before_others_that_were_taken_is_late(tmp_path: Path) -> None:
    put(tmp_path, "b.pcap", 5)
    found = ring(tmp_path)
    first = found.after(found.first(), found.closed(), 9)
    put(tmp_path, "a.pcap", 4)
    put(tmp_path, "c.pcap", 6)
    second = found.after(first, found.closed(), 9)
    late = {Path(file.name).name: file.late for file in found.files(first, second)}
    assert late == {"a.pcap": True, "c.pcap": False}
    assert [file.late for file in found.files(found.first(), first)] == [False]


def test_without_packets_or_no_capture_a_file_waits_until_it_is_idle(tmp_path: Path) -> None:
    for at, taken in ((NOW, []), (0.0, ["empty.pcap", "text.pcap"])):
        put(tmp_path, "empty.pcap", None, at=at)
        text = put(tmp_path, "text.pcap", None)
        text.write_text("no capture")
        os.utime(text, (at, at))
        put(tmp_path, "z.pcap", 1, at=NOW)
        found = ring(tmp_path)
        offset = found.after(found.first(), found.closed(), 9)
        assert sorted(offset["files"].values()) == [UNREADABLE] * len(taken)
        assert sorted(names(offset)) == taken


def test_an_offset_tells_its_files_without_looking_again(tmp_path: Path) -> None:
    """So a micro-batch that is done again has the same files, whatever has come since."""
    put(tmp_path, "a.pcap", 1)
    found = ring(tmp_path)
    end = found.after(found.first(), found.closed(), 9)
    stored = json.loads(json.dumps(end))
    (tmp_path / "a.pcap").unlink()
    put(tmp_path, "b.pcap", 0)
    (file,) = ring(tmp_path).files(found.first(), stored)
    assert (Path(file.name).name, file.first_ns) == ("a.pcap", 1_000_000_000)


def test_a_folder_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    assert ring(tmp_path / "later").closed() == []
    with pytest.raises(CaptureError, match="cannot be reached"):
        Ring(["nosuch://host/x"]).closed()


def test_the_end_comes_once(tmp_path: Path) -> None:
    found = ring(tmp_path)
    assert found.over(found.first()) == found.first(), "nothing has begun"
    put(tmp_path, "a.pcap", 1)
    taken = found.after(found.first(), found.closed(), 9)
    over = found.over(taken)
    assert (over["batch"], over["files"], over["over"]) == (2, {}, True)
    assert found.over(over) is over
    put(tmp_path, "b.pcap", 2)
    assert found.after(over, found.closed(), 9)["over"] is False
