"""The comparison of two versions: its limits, its second chance, its environments."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench import __main__ as program
from tests.bench import against, report, versions
from tests.bench.against import ATTEMPTS, EXAMPLE, MEMORY_SLACK, STARTS, USUAL, Cell, judge
from tests.bench.cases import CASES
from tests.bench.tools import Runs

MB = 1024


def cell(case: str = "rough") -> Cell:
    return Cell(case, USUAL[0], EXAMPLE)


def judged(
    cells: Sequence[Cell], new: Sequence[float], peaks: tuple[int, int] = (100 * MB, 100 * MB)
) -> tuple[list[str], int]:
    """The complaints if a second became those, round by round, and how often cells were measured."""
    measured = 0

    def run(one: Cell, rounds: int) -> None:
        nonlocal measured
        measured += 1
        begin = len(one.new.user_seconds)
        one.old.user_seconds += [1.0] * rounds
        one.new.user_seconds += new[begin : begin + rounds]
        for runs, peak in zip((one.old, one.new), peaks, strict=True):
            runs.cpu_seconds = runs.user_seconds
            runs.peak_kib += [peak] * rounds

    return judge(cells, run, 2, 1.1, "0123abcd"), measured


def test_as_fast_as_before_is_right_and_measured_once() -> None:
    assert judged([cell(), cell("web")], [1.09, 1.2]) == ([], 2)


def test_slower_in_all_rounds_is_a_complaint_that_names_command_and_capture() -> None:
    (text,), measured = judged([cell()], [1.2] * 8)
    assert text == "pcap --summary on rough: 1.20 times the user CPU of 0123abcd (limit 1.1): 1.00 s, now 1.20 s"
    assert measured == 1 + ATTEMPTS


def test_slow_rounds_of_a_busy_machine_are_forgiven_when_the_repeat_is_fast() -> None:
    assert judged([cell()], [1.3, 1.3, 1.3, 1.02, 1.3, 1.3, 1.3, 1.3]) == ([], 2)


def test_one_lucky_round_of_the_old_version_is_no_complaint() -> None:
    one = cell()
    one.old.user_seconds.append(0.8)
    one.old.peak_kib.append(100 * MB)
    assert judged([one], [1.0] * 8) == ([], 1 + ATTEMPTS)


def test_only_cells_above_the_limit_are_repeated() -> None:
    slow, fast = cell(), cell("web")
    fast.new.user_seconds.append(0.5)
    fast.new.peak_kib.append(100 * MB)
    complaints, measured = judged([slow, fast], [1.2] * 8)
    assert len(complaints) == 1
    assert measured == 2 + ATTEMPTS


@pytest.mark.parametrize(("more", "complaints"), [(MEMORY_SLACK * MB, 0), (MEMORY_SLACK * MB + 1, 1)])
def test_memory_may_grow_by_ten_megabytes(more: int, complaints: int) -> None:
    found, _ = judged([cell()], [1.0] * 8, (50 * MB, 50 * MB + more))
    assert len(found) == complaints


def test_memory_may_grow_by_a_tenth() -> None:
    assert judged([cell()], [1.0] * 8, (200 * MB, 219 * MB))[0] == []
    (text,), _ = judged([cell()], [1.0] * 8, (200 * MB, 240 * MB))
    assert "1.20 times the peak memory" in text


def test_a_command_that_the_old_version_does_not_have_is_left_out_and_said_to_be() -> None:
    one = cell()
    one.old.failed = "exit 2: no such option"
    assert judged([one], [9.0] * 8) == ([], 1)
    assert against.tables([one], "0123abcd", {}) == [*against.tables([], "0123abcd", {})]
    assert against.notes([one, one], "0123abcd") == [
        "* `pcap --summary` is left out, 0123abcd fails (exit 2: no such option): rough, rough.",
        "",
    ]


def test_a_command_that_fails_now_is_a_complaint() -> None:
    one = cell()
    one.new.failed = "exit 1: crashed"
    assert judged([one], [1.0] * 8) == (["pcap --summary on rough: exit 1: crashed"], 1)


def test_other_output_is_noted() -> None:
    one = Cell("rough", USUAL[0], EXAMPLE, Runs(output_bytes=1000), Runs(output_bytes=2000))
    text = "* `pcap --summary` does not write what 0123abcd writes: rough 2.0 kB (1.0)."
    assert against.notes([one], "0123abcd") == [text, ""]
    one.new.output_bytes = 1050
    assert against.notes([one], "0123abcd") == []


def test_a_table_has_every_command_and_capture() -> None:
    cells = [cell(), cell("web"), Cell("web", USUAL[1], EXAMPLE), Cell(against.START, STARTS[0], EXAMPLE)]
    judged(cells, [1.05] * 8)
    text = "\n".join(against.tables(cells, "0123abcd", {"rough": 0.5, "web": 0.25}))
    assert "| `--help`, small capture | 1.05 | 1.05 | 1.05 start | 100 | 1.00 | 1.00 start |" in text
    assert "| `pcap --summary` | 2.10 | 1.05 | 1.05 rough | 100 | 1.00 | 1.00 rough |" in text
    assert "| rough, 0 MB | 1.05 (1.05) |  | 0.50 |" in text
    assert "| web, 0 MB | 1.05 (1.05) | 1.05 (1.05) | 0.25 |" in text


def test_all_captures_of_the_comparison_exist() -> None:
    assert {*against.WHOLE, *against.QUICK} <= {*CASES}


def test_an_unknown_revision_is_one_clear_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["--against", "no-such-revision", "--folder", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("no revision no-such-revision to compare with: ")


@pytest.mark.parametrize(("complaints", "code"), [([], 0), (["pcap --json on web: 1.30 times the user CPU"], 1)])
def test_the_exit_code_says_whether_a_command_became_slower(
    complaints: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    asked = []

    def compare(*words: object, quick: bool) -> tuple[list[str], list[str]]:
        asked.append((words[0], quick))
        return ["table"], complaints

    monkeypatch.setattr(program, "against", compare)
    monkeypatch.setattr(report, "machine", list)
    assert program.main(["--against", "--quick", "--folder", str(tmp_path)]) == code
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("table\n", complaints)
    assert asked == [(versions.baseline(), True)]


def test_the_baseline_is_one_whole_commit_id() -> None:
    assert len(versions.baseline()) == 40
    assert versions.BASELINE.read_text() == versions.baseline() + "\n"


def answer(version: versions.Version, folder: Path) -> str:
    return subprocess.run(version.command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_each_version_runs_its_own_code_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, folder = tmp_path / "root", tmp_path / "folder"
    code = root / "wiredecode" / "__main__.py"
    code.parent.mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\ndependencies = ["packaging"]\n')
    code.write_text("import packaging; print('before')\n")
    monkeypatch.setattr(versions, "ROOT", root)
    monkeypatch.delenv("PYTHONPATH", raising=False)  # sessions of Spark set it
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "before")):
        versions.git(*words)
    code.write_text("import packaging; print('now')\n")
    old, new = versions.committed("HEAD", folder), versions.current(folder)
    assert [answer(each, root) for each in (old, new)] == ["before", "now"]
    assert len(list(folder.glob("wiredecode-*/tree/wiredecode/__pycache__/*.pyc"))) == 1


def test_packages_are_shared_only_if_they_are_what_a_version_requires() -> None:
    assert versions.satisfied(["numpy>=2", "packaging"])
    assert not versions.satisfied(["numpy<2"])
    assert not versions.satisfied(["no-such-package-anywhere"])


def test_requirements_include_the_extras_of_measured_commands() -> None:
    project: dict[str, dict[str, list[str]] | list[str]] = {
        "dependencies": ["numpy"],
        "optional-dependencies": {"lz4": ["lz4>=4"], "web": ["other"]},
    }
    assert versions.requirements(project) == ["numpy", "lz4>=4"]
