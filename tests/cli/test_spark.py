"""``wiredecode spark`` without Spark: requested jobs, and errors for missing parts."""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.conftest import CAPTURES
from wiredecode import extras
from wiredecode.cli import app, spark_job
from wiredecode.cli.spark_options import SparkOptions
from wiredecode.spark import session

NEEDED = "Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17;"
COMMAND = ("spark", "a.pcap", "-o", "out")


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[SparkOptions]:
    """The started jobs; none is run."""
    found: list[SparkOptions] = []
    monkeypatch.setattr(spark_job, "run", lambda options: found.append(options) or 0)
    return found


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("-o lake", {"out": "lake"}),
    ("--level messages", {"level": "messages"}),
    ("--columns time,type", {"columns": "time,type"}),
    ("--source folder", {"source": "folder"}),
    ("--master local[2]", {"cluster.master": "local[2]"}),
    ("--partitions 7", {"partitions": 7}),
    ("--split-bytes 2000000", {"split_bytes": 2_000_000}),
    ("--stream states", {"stream": "states"}),
    ("--conf spark.a=b=c --conf spark.d=", {"cluster.settings": {"spark.a": "b=c", "spark.d": ""}}),
    ("--every 3 --stream states", {"every": 3}),
    ("--settle 7 --stream states", {"settle": 7}),
    ("--finish --stream states", {"finish": True}),
    ("--increment states", {"increment": "states"}),
    ("--overwrite", {"overwrite": True}),
    ("--fail-fast", {"fail_fast": True}),
    ("-Y finding", {"display_filter": "finding"}),
    ("--show-secrets", {"show_secrets": True}),
    ("--summary-json t.json", {"summary_json": Path("t.json")}),
    ("-q", {"verbosity.quiet": True}),
    ("-v", {"verbosity.verbose": True}),
]


@pytest.mark.parametrize(("words", "said"), OPTIONS, ids=[words for words, _ in OPTIONS])
def test_every_option_reaches_the_job(run: Run, jobs: list[SparkOptions], words: str, said: dict[str, Any]) -> None:
    for more in ((), words.split()):
        assert run(*COMMAND, *more).code == 0
    plain, chosen = jobs
    assert {name: attrgetter(name)(chosen) for name in said} == said
    assert [name for name in said if attrgetter(name)(plain) == said[name]] == []


@pytest.mark.parametrize("option", ["--keylog", "--keylog-dir"])
def test_key_logs_reach_the_plan(run: Run, jobs: list[SparkOptions], option: str, tmp_path: Path) -> None:
    log = tmp_path / "keys.log"
    log.write_text("# none yet\n")
    assert run(*COMMAND, option, str(log if option == "--keylog" else tmp_path)).code == 0
    (job,) = jobs
    assert job.demand().keylog == [str(log)]
    assert run(*COMMAND, option, str(tmp_path / "missing")).code == 2


STATS: list[tuple[str, dict[str, Any]]] = [
    ("--csv-formulas guard", {"form.csv_formulas": "guard"}),
    ("--table latency", {"form.table": ["latency"]}),
    ("--interval 10s", {"form.interval": "10s"}),
    ("--json", {"form.json": True}),
    ("--csv", {"form.csv": True}),
    ("--color always", {"form.color": "always"}),
    ("--hops", {"hops": True}),
    ("--source folder", {"source": "folder"}),
    ("--partitions 7", {"partitions": 7}),
    ("--split-bytes 0", {"split_bytes": 0}),
    ("--fail-fast", {"fail_fast": True}),
    ("-Y frame.length>1", {"display_filter": "frame.length>1"}),
    ("--master spark://a:7077", {"cluster.master": "spark://a:7077"}),
    ("--conf spark.a=b", {"cluster.settings": {"spark.a": "b"}}),
    ("-q", {"verbosity.quiet": True}),
    ("-v", {"verbosity.verbose": True}),
    ("-d 4333=nats", {"decoding.decode_as": ["4333=nats"]}),
    ("--gap-timeout 7", {"decoding.gap_timeout": 7}),
    ("--gap-buffer 9", {"decoding.gap_buffer": 9}),
    ("--limit closed_seconds=3", {"decoding.limit": ["closed_seconds=3"]}),
]


@pytest.mark.parametrize(("words", "said"), STATS, ids=[words for words, _ in STATS])
def test_every_option_of_spark_stats_reaches_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, said: dict[str, Any]
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("wiredecode.cli.spark_stats.run", lambda settings: started.append(settings) or 0)
    table = ["--table", "frames", "--csv"] if words.startswith("--csv-f") else ["--table", "frames"]
    for more in ((), words.split()):
        assert run("spark", "stats", "captures", *(table if words != "--table latency" else ()), *more).code == 0
    plain, chosen = started
    assert {name: attrgetter(name)(chosen) for name in said} == said
    assert [name for name in said if attrgetter(name)(plain) == said[name]] == []


def test_decoding_options_reach_the_plan(run: Run, jobs: list[SparkOptions]) -> None:
    limits = ["--gap-timeout", 7, "--gap-buffer", 9, "--limit", "closed_seconds=3"]
    table = ["--level", "frames", "--columns", "length"]
    assert run(*COMMAND, "-d", "4333=nats", "-d", "1=tank", *limits, *table).code == 0
    demand = jobs[-1].demand()
    assert set(demand.decode_as) == {4333, 1}
    assert demand.decode_as[1] == "tank"
    assert (demand.limits["gap_seconds"], demand.limits["buffered_bytes"], demand.limits["closed_seconds"]) == (
        7,
        9 << 20,
        3,
    )
    assert demand.columns is not None
    assert {"length", "source", "findings", "protocol", "type"} <= set(demand.columns)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--conf executor.memory=4g", "is not as in spark.executor.memory=4g"),
        ("--conf spark.executor.memory", "is not as in spark.executor.memory=4g"),
        ("--level frames --columns nothing", "nothing"),
        ("--columns time --level messages,frames", "columns are those of one level"),
        ("--level frames,packets", "packets need no decoding"),
        ("--level frames,bytes", "no level is called 'bytes'"),
        ("-Y connection==3", "connection"),
        ("--stream states", "--stream adds to tables: -o delta:PATH or iceberg:CATALOG"),
        ("--increment states", "--increment adds to tables: -o delta:PATH or iceberg:CATALOG"),
        ("--stream states --increment states", "--stream repeats --increment"),
        ("--every 3", "--every needs --stream"),
        ("--finish", "--finish needs --stream or --increment"),
        ("-d 1=gopher", "no protocol is called 'gopher'"),
        ("--master sc://host", "Spark Connect (sc://...) cannot be used"),
    ],
)
def test_errors_are_reported_before_spark_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    monkeypatch.setattr(session, "_check_java", lambda: None)
    monkeypatch.setattr(session, "session", lambda *_, **__: pytest.fail("Spark was started"))
    result = run(*COMMAND, *words.split())
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err
    assert not Path("out").exists()


CAPTURE = str(CAPTURES / "rabbitmq-stream" / "c43_connectonly.pcap")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-", "-o", "out"], "standard input is read once"),
        (["nowhere.pcap", "-o", "out"], "nowhere.pcap: does not exist"),
        (["empty", "-o", "out"], "empty: the folder holds no file with the name of a capture"),
        (["'*.cap'", "-o", "out"], "fits no file"),
        (["junk.pcap", "-o", "out"], "junk.pcap: is not a pcap or pcapng file"),
        ([CAPTURE, "junk.pcap", "-o", "out", "--fail-fast"], "junk.pcap: is not a pcap or pcapng file"),
        ([CAPTURE, "-o", "junk.pcap"], "junk.pcap is a file; the tables go into a folder"),
        ([CAPTURE, "-o", "."], "which wiredecode spark has not written"),
        ([CAPTURE, "-o", "out", "--split-bytes", "5"], "parts of 5 bytes are too small"),
        ([CAPTURE, "-o", "delta:lake", "--increment", "old"], "written by wiredecode 0 (format 0), and this is"),
    ],
)
def test_inputs_and_outputs_are_checked_before_spark_starts(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("old").mkdir()
    Path("old/log.json").write_text('{"mark": "0 0 0"}')
    Path("junk.pcap").write_bytes(b"\xd7\xa5\x6d\x3c" * 99)
    monkeypatch.setattr(session, "_check_java", lambda: None)
    monkeypatch.setattr(session, "session", lambda *_, **__: pytest.fail("Spark was started"))
    result = run("spark", *words)
    assert result.code == 2
    assert said in result.err
    assert "Traceback" not in result.err
    assert not Path("out").exists() and not Path("lake").exists()


@pytest.mark.parametrize(
    ("words", "hidden"), [("", True), ("-v", False), ("--conf spark.log.level=INFO", False)], ids=str
)
def test_messages_of_spark_are_shown_on_request(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, hidden: bool
) -> None:
    logs: list[Any] = []

    def start(*_: Any, log: Any, **__: Any) -> None:
        logs.append(log)
        raise session.CannotStart("not here")

    monkeypatch.setattr(session, "_check_java", lambda: None)
    monkeypatch.setattr(session, "session", start)
    assert run("spark", CAPTURE, "-o", str(tmp_path / "out"), *words.split()).code == 2
    assert [log is not None for log in logs] == [hidden]


def test_captures_already_in_the_tables_do_not_start_spark(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("deltalake")
    out = f"delta:{tmp_path / 'lake'}"
    assert run("export", CAPTURE, "-o", out, "--level", "frames", "-q").code == 0
    monkeypatch.setattr(session, "_check_java", lambda: None)
    monkeypatch.setattr(session, "session", lambda *_, **__: pytest.fail("Spark was started"))
    result = run("spark", CAPTURE, "-o", out, "--level", "frames")
    assert (result.code, result.err) == (
        0,
        f"nothing   to do: {out} has these captures already; --overwrite writes them again\n",
    )


@pytest.mark.parametrize("package", ["pyspark", "pandas"])
def test_without_a_package_one_line_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for module in (extras, session):
        monkeypatch.setattr(module, "installed", lambda name: name != package)
    result = run(*COMMAND)
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert f"Spark needs {package}" in result.err
    assert "pip install '.[spark]'" in result.err


def java(folder: Path, says: str, code: int = 0) -> Path:
    """A JAVA_HOME."""
    (folder / "bin").mkdir()
    script = folder / "bin" / "java"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ('java version "1.8.0_302"', "is Java 8, which is too old; Spark needs " + NEEDED),
        ('openjdk version "11.0.20" 2023-07-18', "is Java 11, which is too old; Spark needs " + NEEDED),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", "does not print its version; "),
    ],
)
def test_an_old_java_is_named_with_instructions(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, said: str
) -> None:
    for name in ("JAVA_HOME", "PATH"):
        home = tmp_path / name
        home.mkdir()
        java(home, says)
        monkeypatch.setenv("PATH", f"{tmp_path / 'PATH' / 'bin'}:/bin:/usr/bin")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if name == "JAVA_HOME":
            monkeypatch.setenv("JAVA_HOME", str(home))
        result = run(*COMMAND)
        assert result.code == 2
        assert result.err.startswith(f"wiredecode: {home}/bin/java {said}")
        assert result.err.count("\n") == 1


def test_without_java_one_line_says_how_to_get_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = run(*COMMAND)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert f"there is no java on the PATH, and JAVA_HOME is not set; Spark needs {NEEDED}" in result.err
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert f"JAVA_HOME is {tmp_path}/nothing, and no java can be started there; Spark needs" in run(*COMMAND).err


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_302"', 8),
        ('openjdk version "21" 2023-09-19 LTS', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("sh: java: not found", None),
    ],
)
def test_versions_of_java(output: str, version: int | None) -> None:
    assert session.java_version(output) == version


PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "decode.py", line 3, in decode
ValueError: it was that

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
Caused by: java.io.IOException: and not this
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PYTHON, "ValueError: it was that"),
        (PYTHON.replace("ValueError", "wiredecode.spark.files.UnreadableFile"), "it was that"),
        ("[PATH_NOT_FOUND] Path does not exist\n\tat org.apache", "[PATH_NOT_FOUND] Path does not exist"),
        ("\x1b[31mred\n", "\\x1b[31mred"),
        ("", "RuntimeError"),
    ],
)
def test_pages_of_a_failed_job_become_one_line(text: str, line: str) -> None:
    assert session.one_line(RuntimeError(text)) == line


def test_help_imports_nothing_of_spark() -> None:
    code = "import sys; from wiredecode.cli.app import run; run(['spark', '--help']); print(sorted(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--partitions" in output
    assert "'wiredecode.cli.spark'" in output
    for name in ("pyspark", "pyarrow", "numpy", "scapy", "wiredecode.spark"):
        assert f"'{name}'" not in output


def test_stats_is_the_second_word_of_a_command_and_not_a_file(
    run: Run, jobs: list[SparkOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    from wiredecode.cli.commands import COMMANDS

    monkeypatch.setitem(COMMANDS, "spark stats", COMMANDS["protocols"])
    monkeypatch.setattr(app, "_tree", app.command_line)  # of which nothing is loaded
    plain = run("protocols")
    assert (plain.code, run("spark", "stats").raw) == (0, plain.raw)
    assert jobs == []
    assert run("spark", "./stats", "-o", "out").code == 0
    assert jobs[0].inputs == ["./stats"]
