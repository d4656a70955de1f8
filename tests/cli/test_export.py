"""``wiredecode export``: files for other programs, whole or missing."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.stats.test_confirms import confirm, declare, publish, talk
from tests.support import RABBITMQ
from tests.view.frames import write

pytest.importorskip("pyarrow")

import pyarrow.dataset as ds
import pyarrow.ipc
import pyarrow.parquet as pq

from wiredecode.tables.portable import portable_rows, portable_schema

COMMAND = [sys.executable, "-m", "wiredecode"]
FRAMES = 142
outputs = pytest.mark.parametrize(
    "words",
    [
        pytest.param(("x.parquet",), id="file", marks=pytest.mark.slow),
        pytest.param(("lake", "--partition-by", "type"), id="partitions"),
    ],
)


def only(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_ndjson_equals_json_output(run: Run, basic: Path, tmp_path: Path) -> None:
    expected = run("pcap", basic, "--json", "-q").raw
    for name in ("a.ndjson", "b.ndjson.gz", "c.json"):
        result = run("export", basic, "-o", tmp_path / name)
        assert (result.code, result.raw) == (0, b"")
        assert f"written   {FRAMES} frames to {tmp_path / name}" in result.err
    assert (tmp_path / "a.ndjson").read_bytes() == expected
    assert gzip.decompress((tmp_path / "b.ndjson.gz").read_bytes()) == expected
    assert json.loads((tmp_path / "c.json").read_bytes()) == [json.loads(line) for line in expected.splitlines()]
    assert run("export", basic, "-o", "-", "--format", "ndjson", "-q").raw == expected
    ranged = run("pcap", basic, "--json", "--ranges", "-q").raw
    assert run("export", basic, "-o", "-", "--format", "ndjson", "-q", "--ranges").raw == ranged


def test_a_table_of_packets_has_no_protocol_columns(run: Run, basic: Path, tmp_path: Path) -> None:
    said = run("export", basic, "-o", tmp_path / "x.csv", "--level", "packets").err
    assert [line.split()[0] for line in said.splitlines()] == ["packets", "written"]


@pytest.mark.parametrize("level", ["frames", "messages", "packets"])
def test_all_formats_hold_the_same_rows(run: Run, basic: Path, tmp_path: Path, level: str) -> None:
    for form in ("parquet", "arrow", "arrows", "csv"):
        assert run("export", basic, "-o", tmp_path / f"x.{form}", "--level", level, "-q").code == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert len(table) == {"frames": FRAMES, "messages": 64, "packets": 230}[level]
    arrow = pyarrow.ipc.open_file(tmp_path / "x.arrow").read_all()
    portable = portable_schema(arrow.schema)
    assert table.schema.equals(portable)
    made = [portable_rows(batch, "", portable) for batch in arrow.to_batches()]
    assert table.equals(pyarrow.Table.from_batches(made))
    assert pyarrow.ipc.open_stream(tmp_path / "x.arrows").read_all().equals(arrow)
    with (tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == arrow.column_names
    for name in {"src", "protocol", "type", "topic", "transport"} & set(table.column_names):
        assert [row[name] or None for row in rows] == table.column(name).to_pylist()


def test_frames_as_a_table_equal_records(run: Run, basic: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in run("pcap", basic, "--json", "-q").lines]
    run("export", basic, "-o", tmp_path / "x.parquet", "-q")
    rows = pq.read_table(tmp_path / "x.parquet").drop_columns(["source", "time", "layers"]).to_pylist()
    assert rows == [{name: record.get(name) for name in rows[0]} for record in records]
    run("export", basic, "-o", tmp_path / "x.csv", "-q")
    with (tmp_path / "x.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["time"] for row in found] == [record["time"] for record in records]
    streams = [json.loads(row["layers"])["rabbitmq_stream"].get("stream") for row in found]
    assert streams == [record["layers"]["rabbitmq_stream"].get("stream") for record in records]


@pytest.mark.parametrize("level", ["frames", "messages", "connections"])
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_the_summary_lists_the_connections_of_any_table(
    run: Run, basic: Path, tmp_path: Path, level: str, form: str
) -> None:
    """Connections were once listed only where the table needed them."""
    summary, out = tmp_path / "summary.json", tmp_path / f"rows.{form}"
    assert run("export", basic, "-o", out, "--level", level, "--summary-json", summary, "-q").code == 0
    listed = json.loads(summary.read_text())["connection_list"]
    assert [each["connection"] for each in listed] == [1, 2, 3, 4, 5, 6, 7]
    assert all("syns" in each for each in listed), "with TCP analysis"


def test_columns_keep_their_order_and_select_members(run: Run, basic: Path, tmp_path: Path) -> None:
    columns = ("--columns", "type,layers.rabbitmq_stream.stream,frame")
    run("export", basic, "-o", tmp_path / "x.parquet", "-q", *columns)
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.column_names == ["type", "layers.rabbitmq_stream.stream", "frame"]
    assert table.slice(30, 1).to_pylist() == [
        {"type": "Publish", "layers.rabbitmq_stream.stream": "c43_basic-stream", "frame": 31}
    ]
    lines = run("export", basic, "-o", "-", "--format", "ndjson", "-q", *columns).lines
    assert lines[30] == '{"type":"Publish","layers":{"rabbitmq_stream":{"stream":"c43_basic-stream"}},"frame":31}'


def test_partitions_are_the_rows_of_the_single_file(run: Run, basic: Path, tmp_path: Path) -> None:
    few = ("--columns", "frame,time,protocol,sender,layers.rabbitmq_stream.key", "-q")
    run("export", basic, "-o", tmp_path / "one.parquet", *few)
    assert run("export", basic, "-o", tmp_path / "lake", "--partition-by", "protocol,sender", *few).code == 0
    one, lake = pq.read_table(tmp_path / "one.parquet"), ds.dataset(tmp_path / "lake", partitioning="hive")
    assert len(lake.files) == 2
    assert lake.to_table().sort_by("frame").select(one.column_names).to_pylist() == one.to_pylist()
    again = run("export", basic, "-o", tmp_path / "lake", "--partition-by", "hour", *few)
    assert again.code == 2
    assert "is not empty" in again.err
    assert run("export", basic, "-o", tmp_path / "lake", "--partition-by", "hour", *few, "--overwrite").code == 0
    assert only(tmp_path / "lake") == ["hour=2026-11-20T19"]
    assert only(tmp_path) == ["lake", "one.parquet"]


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_rows_are_chosen_by_time_and_count(run: Run, basic: Path, form: str) -> None:
    def frames(*words: object) -> list[int]:
        lines = run("export", basic, "-o", "-", "--format", form, "--columns", "frame", "-q", *words).lines
        return [int(line.strip('{}"frame:')) for line in lines if any(map(str.isdigit, line))]

    expected = [json.loads(line)["frame"] for line in run("pcap", basic, "--json", "-q", "--from", "0.1").lines]
    assert 0 < len(expected) < FRAMES
    assert frames("--from", "0.1") == expected
    assert frames("--to", "0.1") == [number for number in range(1, FRAMES + 1) if number not in expected]
    assert frames("-c", 5, "--from", "0.1") == expected[:5]


@pytest.mark.parametrize("level", ["frames", "messages"])
def test_rows_until_a_time_are_there_though_reading_ends(run: Run, captures: Path, level: str) -> None:
    """Rows are written in batches, the last one after reading has stopped at ``--to``."""
    path = captures / "flows/n-discard-old.pcap.zst"

    def times(*words: str) -> list[str]:
        form = "--format", "csv", "--columns", "time", "-q"
        return run("export", path, "-o", "-", "--level", level, *form, *words).lines[1:]

    whole, part = times(), times("--to", "6")
    assert part == whole[: len(part)]
    assert 100 < len(part) < len(whole)


@pytest.mark.parametrize("name", ["x.ndjson", "x.json", "x.csv", "x.parquet", "x.arrow"])
def test_damage_loses_no_decoded_row(run: Run, captures: Path, tmp_path: Path, name: str) -> None:
    result = run("export", captures / "rabbitmq-stream" / "d_cutfile.pcap", "-o", tmp_path / name, "-q")
    assert result.code == 2
    first, second = result.err.splitlines()
    assert "is truncated in the middle of a packet record" in first
    assert second == f"wiredecode: {tmp_path / name} holds what could be decoded, 95 frames"
    whole = run("pcap", captures / "rabbitmq-stream" / "d_cutfile.pcap", "--json", "-q").lines
    if name == "x.json":
        assert len(json.loads((tmp_path / name).read_bytes())) == len(whole) == 95
    elif name == "x.parquet":
        assert pq.read_table(tmp_path / name).num_rows == 95


def test_input_that_cannot_be_read_leaves_no_output(run: Run, tmp_path: Path) -> None:
    for name in ("x.ndjson", "x.parquet"):
        result = run("export", tmp_path / "no", "-o", tmp_path / name)
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "does not exist" in result.err
    assert only(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(signal.SIGINT, ("x.ndjson",), marks=pytest.mark.slow),
        (signal.SIGINT, ("x.parquet",)),
        pytest.param(signal.SIGTERM, ("lake", "--partition-by", "type"), marks=pytest.mark.slow),
    ],
    ids=["ndjson", "parquet", "partitions"],
)
def test_an_interrupt_leaves_no_file_and_reports_progress(
    basic: Path, tmp_path: Path, number: int, words: tuple[str, ...]
) -> None:
    out, *options = words
    command = [*COMMAND, "export", "-", "-o", tmp_path / out, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(basic.read_bytes()[:9000])
        process.stdin.flush()
        while not only(tmp_path):  # the output has been begun
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.stderr.read().decode()
        assert process.wait() == 128 + number
        process.stdin.close()
    assert only(tmp_path) == []
    assert "Traceback" not in errors
    assert "interrupted, after " in errors.splitlines()[-1]
    assert errors.endswith(f"{tmp_path / out} was not written\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_a_full_disk_is_one_line(run: Run, basic: Path, form: str) -> None:
    result = run("export", basic, "-o", "/dev/full", "--format", form, "-q")
    assert result.code == 2
    assert result.err.startswith(f"wiredecode: cannot write: {os.strerror(28)}, after ")
    assert result.err.count("\n") == 1


@pytest.mark.slow
@outputs
def test_a_disk_that_gets_full_leaves_no_file(basic: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Files are written by a thread."""
    code = """
import resource, sys
from wiredecode.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
sys.exit(main())
"""
    out, *options = words
    command = [sys.executable, "-c", code, "export", basic, "-o", tmp_path / out, "-q", "--row-group", "9", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, only(tmp_path)) == (2, [])
    assert done.stderr.startswith(f"wiredecode: cannot write: {os.strerror(27)}, after ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@outputs
def test_an_interrupt_while_the_thread_writes_leaves_no_file(
    basic: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    code = """
import os, signal, sys, time
from wiredecode.export.writers import ParquetWriter
write = ParquetWriter.write
def interrupted(self, batch):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    write(self, batch)
ParquetWriter.write = interrupted
from wiredecode.cli import main
sys.exit(main())
"""
    out, *options = words
    command = [sys.executable, "-c", code, "export", basic, "-o", tmp_path / out, "-q", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, only(tmp_path)) == (130, [])
    assert done.stderr.startswith("wiredecode: interrupted, after ")
    assert done.stderr.endswith(f" frames; {tmp_path / out} was not written\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "{}/x.xls"], "shows no format; say --format (ndjson, json, csv"),
        (["-o", "-"], "needs a --format"),
        (["-o", "-", "--format", "parquet"], "cannot go to standard output"),
        (["-o", "-", "--format", "csv", "--partition-by", "type"], "- is standard output"),
        (["-o", "{}/x.ndjson", "--columns", "tpye"], "there is no column tpye; did you mean type?"),
        (["-o", "{}/x.csv", "--columns", "layers.nats.subjct"], "did you mean layers.nats.subject?"),
        (["-o", "{}/x.csv", "--columns", "type,type"], "names type twice"),
        (["-o", "{}/x.csv", "--columns", "type,,"], "has an empty name"),
        (["-o", "{}/x", "--partition-by", "tipe"], "did you mean type?"),
        (["-o", "{}/x", "--partition-by", "packets"], "not named after values of type list"),
        (["-o", "{}/x", "--partition-by", "type", "--format", "ndjson"], "partitions are parquet"),
        (["-o", "{}/x.csv", "--overwrite"], "goes with --partition-by"),
        (["-o", "{}/x.csv", "--ranges"], "--ranges goes with"),
        (["-o", "{}/x.csv", "--row-group", "5"], "goes with parquet"),
        (["-o", "{}/x.csv", "--compression", "snappy"], "csv cannot be compressed with 'snappy'; there is gzip, zstd"),
        (["-o", "{}/x.parquet.gz"], "compressed inside"),
        (["-o", "{}/no/x.csv"], "there is no folder"),
        (["-o", "{}", "--format", "csv"], "is a folder"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_no_file(
    run: Run, basic: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    result = run("export", basic, *(word.format(tmp_path) for word in words))
    assert (result.code, result.raw, result.err.count("\n")) == (2, b"", 1)
    assert said in result.err
    assert only(tmp_path) == []


def test_a_capture_is_not_overwritten_by_its_own_export(run: Run, basic: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a.pcap"
    copy.write_bytes(basic.read_bytes())
    assert "is one of the captures" in run("export", copy, "-o", copy, "--format", "csv").err
    assert copy.read_bytes() == basic.read_bytes()


def test_no_output_holds_a_password(run: Run, basic: Path) -> None:
    for level in ("frames", "messages", "packets"):
        for form in ("csv", "ndjson", "arrows"):
            raw = run("export", basic, "-o", "-", "--format", form, "--level", level, "-q").raw
            assert b"\0guest\0guest" not in raw
            assert b"\0guest\0guest".hex().encode() not in raw
    shown = run("export", basic, "-o", "-", "--format", "csv", "--show-secrets", "--bytes", "text", "-q").raw
    assert b"guest" in shown


def test_formulas_in_csv_can_be_guarded(run: Run, captures: Path, tmp_path: Path) -> None:
    query = "select '=1+1' a, '+1' b, '-1' c, '@x' d, 'x=1' e, chr(9) || 'y' f, -1 g from frames limit 1"
    said = ("sql", captures / "rabbitmq-stream" / "c43_basic.pcap", query, "--format", "csv")
    assert run(*said).lines[1] == '"=1+1","+1","-1","@x","x=1","\ty",-1'
    assert run(*said, "--csv-formulas", "guard").lines[1] == '"\'=1+1","\'+1","\'-1","\'@x","x=1","\'\ty",-1'
    file = captures / "nats" / "04-request-reply.pcap"
    words = ("export", file, "--level", "messages", "--columns", "topic", "-o", tmp_path / "a.csv")
    assert run(*words, "--csv-formulas", "guard").code == 0
    found = run("export", file, "-o", tmp_path / "a.parquet", "--csv-formulas", "guard")
    assert (found.code, found.err.count("\n")) == (2, 1)
    evil = write(tmp_path / "evil.pcap", talk([*declare("=1+1"), publish(1), confirm(1)]))
    confirms = ("stats", evil, "--table", "confirms", "-q")
    assert '"=1+1"' in run(*confirms, "--csv").lines[1]
    assert '"\'=1+1"' in run(*confirms, "--csv", "--csv-formulas", "guard").lines[1]
    assert run(*confirms, "--csv-formulas", "guard").code == 2


def test_a_file_that_a_pattern_finds_twice_is_read_once(run: Run, tmp_path: Path) -> None:
    """Issue 63: ``in/**/*`` fits a folder and the file in it."""
    (tmp_path / "in" / "a").mkdir(parents=True)
    shutil.copy(RABBITMQ / "c43_basic.pcap", tmp_path / "in" / "a" / "b.pcap")
    result = run("export", tmp_path / "in" / "**" / "*", "-o", "-", "--format", "ndjson", "--level", "packets", "-q")
    assert len(result.lines) == 230
