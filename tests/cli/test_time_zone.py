"""Times without a zone mean local time in every option, and UTC with --utc (issue 12, point 14)."""

from __future__ import annotations

from pathlib import Path

import pytest

import wiredecode
from tests.cli.conftest import Run
from tests.support import RABBITMQ
from wiredecode.spark.decode import TableDemand

CAPTURE = RABBITMQ / "c43_basic.pcap"
LOCAL, UTC = "2026-11-21T04:45:01", "2026-11-20T19:45:01"
"""The same moment in Tokyo and in UTC: in the middle of the capture."""


pytestmark = pytest.mark.usefixtures("tokyo")


def expected(run: Run) -> list[str]:
    late = [
        line for line in run("pcap", CAPTURE, "--json", "-q").lines if f'"time":"{UTC}' < line[line.index('"time":') :]
    ]
    assert 0 < len(late) < 142
    return late


CHOICES = [
    lambda when: ["--from", when],
    lambda when: ["-Y", f'frame.time >= "{when}"'],
    lambda when: ["-Y", f"time in {{{when}..2027-01-01}}"],
]


@pytest.mark.parametrize("choice", CHOICES)
def test_times_without_a_zone_are_local_and_with_utc_they_are_not(run: Run, choice: object, tmp_path: Path) -> None:
    late = expected(run)
    assert callable(choice)
    for words in (choice(LOCAL), [*choice(UTC), "--utc"], choice(f"{UTC}Z")):
        assert run("pcap", CAPTURE, "--json", "-q", *words).lines == late
        out = tmp_path / "out.ndjson"
        assert run("export", CAPTURE, "-o", out, "-q", *words).code == 0
        assert out.read_text().splitlines() == late
    assert run("pcap", CAPTURE, "--json", "-q", *choice(UTC)).lines != late


def test_absolute_times_are_accepted_as_options(run: Run) -> None:
    for words in ([], ["--utc"]):
        shown = run("pcap", CAPTURE, "--summary", "-q", "--time", "absolute", *words).lines
        first = next(line for line in shown if line.split()[0] == "60")
        when = first.split()[1][:26]
        assert when.startswith("2026-11-20T19:45" if words else "2026-11-21T04:45")
        found = run("pcap", CAPTURE, "--summary", "-q", "--from", when, *words).lines
        assert found[0].split()[0] in ("59", "60"), "frames of the same packet"
        assert len(found) in (83, 84)


def test_statistics_and_python_agree(run: Run) -> None:
    count = len(expected(run))
    whole = run("stats", CAPTURE, "--table", "frames", "--csv", "-q", "--from", LOCAL).lines
    assert sum(int(line.split(",")[3]) for line in whole[1:]) == count
    assert run("stats", CAPTURE, "--table", "frames", "--csv", "-q", "--from", UTC, "--utc").lines == whole
    assert len(list(wiredecode.read(CAPTURE, filter=f'frame.time >= "{LOCAL}"'))) == count
    assert len(list(wiredecode.read(CAPTURE, filter=f'frame.time >= "{UTC}"', utc=True))) == count


def test_on_spark_they_are_utc_since_its_machines_may_be_anywhere() -> None:
    display = TableDemand("frames", filter=f'frame.time >= "{UTC}"').display()
    assert display is not None
    frames = list(wiredecode.read(CAPTURE))
    assert [frame.number for frame in frames if display.matches(frame)] == [
        frame.number for frame in frames if frame.record()["time"] >= UTC
    ]
