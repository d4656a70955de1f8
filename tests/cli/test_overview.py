"""The overview above the frames of ``wiredecode FILE`` on a terminal; missing files; an interrupted ``check``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from wiredecode.cli import check_job, overview
from wiredecode.frames.frame import Frame

CAPTURES = Path(__file__).parents[2] / "captures"
STORY = CAPTURES / "stories" / "stream-deleted.pcap"


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")


def test_a_file_without_options_begins_with_contents_and_problems(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    lines = run(str(STORY)).lines
    assert lines[:6] == [
        "packets      76 in 2.124 s, from 2026-11-22 07:26:42 UTC",
        "protocols    RabbitMQ Stream (45 frames)",
        "connections  2",
        f"problems     1 error: wiredecode check {STORY}",
        f"next         wiredecode check, stats, follow, ui {STORY}",
        "",
    ]
    assert lines[6].startswith("Frame 1 ")


def test_commands_with_options_begin_with_frames(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    for words in (("pcap", str(STORY)), (str(STORY), "-c", "3")):
        assert run(*words).lines[0].startswith("Frame 1 "), words
    monkeypatch.setattr(overview, "MAX_BYTES", 1000)
    assert run(str(STORY)).lines[0].startswith("Frame 1 ")


def test_a_truncated_file_has_an_overview_and_one_error(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(STORY.read_bytes()[:5001])
    result = run(str(cut))
    assert result.code == 2
    assert result.lines[0].startswith("packets      ")
    assert result.err.count("is truncated in the middle of") == 1


def test_a_pipe_gets_frames_only(run: Run) -> None:
    assert run("pcap", str(STORY), "--overview").lines[0].startswith("Frame 1 ")
    assert run(str(STORY)).lines[0].startswith("Frame 1 ")


def test_a_missing_file_is_one_line_without_verdict(run: Run, tmp_path: Path) -> None:
    for command in (["check"], ["check", "--json"], ["trace", "--text", "a"]):
        result = run(command[0], tmp_path / "nosuch.pcap", *command[1:])
        assert (result.code, result.out, result.err.count("\n")) == (2, "", 1), command


def test_an_interrupted_check_says_that_it_judged_only_a_part(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = check_job.feed_checker

    def interrupt(*arguments: Any) -> Iterator[Frame]:
        yield from islice(feed(*arguments), 5)
        raise KeyboardInterrupt

    monkeypatch.setattr(check_job, "feed_checker", interrupt)
    result = run("check", STORY)
    assert (result.code, result.err) == (130, "interrupted: only the packets before are judged\n")
