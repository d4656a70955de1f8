"""Files of the writers, read back by other libraries."""

# ruff: noqa: E402 - without pyarrow there is nothing to import

from __future__ import annotations

import csv
import gc
import io
import json
from pathlib import Path
from typing import Any, BinaryIO

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from wiredecode.export import footer, partition
from wiredecode.export.partition import LocalFiles, PartitionWriter
from wiredecode.export.target import ExportError
from wiredecode.export.writers import WRITERS, ParquetWriter, WriterSettings

NS = 1_700_000_000_123_456_789
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ns", "UTC")),
        ("text", pa.string()),
        ("number", pa.uint64()),
        ("body", pa.binary()),
        ("code", pa.dictionary(pa.int32(), pa.string())),
        ("nested", pa.list_(pa.struct([("data", pa.binary()), ("at", pa.timestamp("us"))]))),
    ]
)
ROWS = [
    {"time": NS, "text": 'a"\n,b', "number": 2**64 - 1, "body": b"\0\xff", "code": "x", "nested": [{"data": b"1"}]},
    dict.fromkeys(SCHEMA.names) | {"text": ""},
]
SHOWN = [
    {
        "time": "2023-11-14T22:13:20.123456789Z",
        "text": 'a"\n,b',
        "number": 2**64 - 1,
        "body": "00ff",
        "code": "x",
        "nested": [{"data": "31"}],
    },
    dict.fromkeys(SCHEMA.names) | {"text": ""},
]


def written(form: str, batches: list[Any], **settings: Any) -> bytes:
    stream = io.BytesIO()
    writer = WRITERS[form](stream, SCHEMA, WriterSettings(**settings))
    for batch in batches:
        writer.write(batch)
    writer.close()
    return stream.getvalue()


BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
WIDE = BATCH.append_column("layers", BATCH["nested"])
"""As frames have it."""


def test_json_holds_every_value_exactly() -> None:
    assert [json.loads(line) for line in written("ndjson", [BATCH, BATCH]).splitlines()] == SHOWN * 2
    assert json.loads(written("json", [BATCH, BATCH])) == SHOWN * 2
    assert json.loads(written("json", [])) == []


def test_csv_distinguishes_null_from_empty_text_and_nests_as_json() -> None:
    data = written("csv", [BATCH]).decode()
    first, second = csv.DictReader(io.StringIO(data))
    assert first == {key: str(value) for key, value in SHOWN[0].items()} | {"nested": '[{"data":"31"}]'}
    assert set(second.values()) == {""}
    assert data.endswith('\n,"",,,,\n')


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files_and_streams_survive_a_round_trip(compression: str | None) -> None:
    whole = pa.Table.from_batches([BATCH, BATCH])
    assert pa.ipc.open_file(written("arrow", [BATCH, BATCH], compression=compression)).read_all().equals(whole)
    assert pa.ipc.open_stream(written("arrows", [BATCH, BATCH], compression=compression)).read_all().equals(whole)


def test_arrow_files_of_frames_are_compressed() -> None:
    schema = pa.schema([("number", pa.int64()), ("layers", pa.struct([(f"field_{n}", pa.int64()) for n in range(99)]))])
    batch = pa.RecordBatch.from_pylist([{"number": 0x01020304, "layers": {}}] * 1000, schema=schema)

    def size(compression: str | None) -> int:
        out = io.BytesIO()
        writer = WRITERS["arrow"](out, schema, WriterSettings(compression=compression))
        writer.write(batch)
        writer.close()
        assert pa.ipc.open_file(out.getvalue()).read_all().equals(pa.Table.from_batches([batch]))
        return len(out.getvalue())

    assert size(None) == size("zstd") < size("none") / 10


def test_row_groups_are_filled_across_batches() -> None:
    found = pq.ParquetFile(io.BytesIO(written("parquet", [BATCH] * 5, row_group=4)))
    assert [found.metadata.row_group(index).num_rows for index in range(found.num_row_groups)] == [4, 4, 2]
    plain = pa.Table.from_batches([BATCH] * 5).cast(found.schema_arrow)
    assert plain.schema.field("code").type == pa.string()  # in any number of batches
    assert found.read().equals(plain)
    assert found.metadata.row_group(0).column(1).compression == "ZSTD"


@pytest.mark.parametrize("groups", [0, 1, 14, 15, 300])
def test_row_groups_of_many_columns_give_the_same_file_as_arrow(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 15 row groups, list heads and offsets get longer. If Arrow's layout changes, Arrow writes by itself."""

    def file() -> bytes:
        stream = io.BytesIO()
        writer = ParquetWriter(stream, WIDE.schema, WriterSettings())
        files.append(type(writer._file))
        for _ in range(groups):
            writer.write(WIDE)
            writer.flush()
        writer.close()
        return stream.getvalue()

    files: list[type] = []
    joined = file()
    monkeypatch.setattr(footer, "GROUPS", b"\x29")
    assert file() == joined and files == [footer.WideFile, footer.PlainFile]
    assert pq.read_table(io.BytesIO(joined)).num_rows == 2 * groups


@pytest.mark.parametrize("wide", [False, True])
def test_discarding_raises_no_error(
    wide: bool, recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    class Full(io.BytesIO):
        full = False

        def write(self, data: Any) -> int:
            if self.full:
                raise OSError("no space left")
            return super().write(data)

    stream = Full()
    batch = WIDE if wide else BATCH
    writer = ParquetWriter(stream, batch.schema, WriterSettings())
    writer.write(batch)
    stream.full = True
    with pytest.raises(OSError, match="no space left"):
        writer.close()
    stream.close()
    del writer
    gc.collect()
    assert not recwarn.list and capfd.readouterr().err == ""


# Partitions.

KEYS = pa.schema(
    [("time", pa.timestamp("ns", "UTC")), ("topic", pa.string()), ("good", pa.bool_()), ("row", pa.int64())]
)
EVIL = ["../../etc", "..", "a=b&c", "é ü", None]


def keyed(count: int) -> list[Any]:
    rows = [
        {"time": NS + index * 600_000_000_000, "topic": EVIL[index % 5], "good": index % 2 == 0, "row": index}
        for index in range(count)
    ]
    return [pa.RecordBatch.from_pylist(rows[first : first + 16], schema=KEYS) for first in range(0, count, 16)]


def parted(folder: Path, by: list[str], batches: list[Any]) -> None:
    files = LocalFiles(folder, ".parquet")
    writer = PartitionWriter(files, KEYS, by, lambda out, schema: ParquetWriter(out, schema, WriterSettings()))
    try:
        for batch in batches:
            writer.write(batch)
        writer.close()
    finally:
        writer.discard()


@pytest.mark.parametrize("most_open", [1, 64])
def test_partitions_read_back_as_a_dataset_are_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int
) -> None:
    monkeypatch.setattr(partition, "MAX_OPEN", most_open)
    batches = keyed(60)
    parted(tmp_path / "lake", ["topic", "good"], batches)
    assert list(tmp_path.iterdir()) == [tmp_path / "lake"]
    assert (len([*tmp_path.rglob("*.parquet")]) > 10) == (most_open == 1)
    kind = ds.partitioning(pa.schema([("topic", pa.string()), ("good", pa.bool_())]), flavor="hive")
    found = ds.dataset(tmp_path / "lake", partitioning=kind).to_table().sort_by("row")
    assert found.select(KEYS.names).equals(pa.Table.from_batches(batches))


def test_writers_of_a_task_share_the_row_group_buffer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With 32 MB each, a worker that wrote three tables needed 525 MB."""
    monkeypatch.setattr(partition, "MAX_WAITING_BYTES", 2000)
    beside: list[PartitionWriter] = []

    def make(out: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        return ParquetWriter(out, schema, WriterSettings())

    for name in ("a", "b", "c"):
        PartitionWriter(LocalFiles(tmp_path / name, ".parquet"), KEYS, ["good"], make, beside=beside)
    most = 0
    for batch in keyed(200):
        for writer in beside:
            writer.write(batch)
            most = max(most, sum(opened.writer.waiting_bytes for each in beside for opened in each._open.values()))
    for writer in beside:
        writer.close()
    assert len(beside) == 3 and 1000 < most <= 2000


def test_hours_are_in_utc(tmp_path: Path) -> None:
    parted(tmp_path, ["hour"], keyed(12))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "hour=2023-11-14T22",
        "hour=2023-11-14T23",
        "hour=2023-11-15T00",
    ]


def test_too_many_partitions_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MAX_PARTITIONS", 10)
    with pytest.raises(ExportError, match="--partition-by row makes more than 10 folders"):
        parted(tmp_path, ["row"], keyed(12))
