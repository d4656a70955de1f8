"""A query reads only the tables of the capture, unless an option allows more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

CAPTURE = Path(__file__).parents[2] / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
HERE = Path(__file__)
a_python_variable = {"column": [1]}


@pytest.mark.parametrize(
    "query",
    [
        f"select * from read_text('{HERE}')",
        f"from '{HERE.parents[2] / 'pyproject.toml'}'",
        "from glob('/*')",
        "copy (select 1) to 'stolen.csv'",
        "attach 'stolen.db' as db",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "reset lock_configuration",
        "pragma memory_limit='1TB'",
        "from read_csv('https://127.0.0.1:1/x.csv')",
        "from a_python_variable",
        "from open_",
        "export database 'stolen'",
    ],
)
def test_a_query_reaches_nothing_but_the_tables(
    run: Run, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run("sql", CAPTURE, query)
    assert (found.code, found.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_files_are_readable_with_an_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("type,meaning\nTune,limits\n")
    query = f"select meaning from frames join '{tmp_path}/names.csv' using (type) limit 1"
    refused = run("sql", CAPTURE, query)
    assert refused.code == 2
    assert "--allow-files" in refused.err
    assert run("sql", CAPTURE, "--allow-files", query).out == '{"meaning":"limits"}\n'


def test_large_sorts_still_have_their_temporary_files(run: Run) -> None:
    assert run("sql", CAPTURE, "select count(*) as n from (from frames order by all)").code == 0
