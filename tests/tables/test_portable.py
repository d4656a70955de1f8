"""Tables for engines without unsigned integers: no number is lost, and usual numbers have types suited to joins."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from wiredecode.tables.portable import file_schema, portable_rows, portable_schema, table_columns
from wiredecode.tables.reader import LEVELS, table_schema
from wiredecode.tables.schema import select

LARGEST = (1 << 63) - 1
TABLE = pa.schema([("offset", pa.uint64()), ("layers", pa.struct([("id", pa.uint64())]))])


def test_numbers_beyond_bigint_are_in_a_separate_column() -> None:
    numbers = [0x01020304, None, LARGEST, LARGEST + 1, (1 << 64) - 1]
    batch = pa.RecordBatch.from_pylist([{"offset": number, "layers": {"id": number}} for number in numbers], TABLE)
    made = portable_rows(batch, "client", portable_schema(TABLE))
    assert made.schema.names == ["source", "offset", "offset_large", "layers"]
    assert made.schema.field("offset").type == pa.int64()
    assert made["offset"].to_pylist() == [0x01020304, None, LARGEST, None, None]
    assert made["offset_large"].to_pylist() == [None, None, None, Decimal(LARGEST + 1), Decimal((1 << 64) - 1)]
    whole = [None if row["id"] is None else int(row["id"]) for row in made["layers"].to_pylist()]
    assert whole == numbers
    usual = portable_rows(batch.slice(0, 3), "client", portable_schema(TABLE))
    assert usual["offset"].to_pylist() == numbers[:3]
    assert usual["offset_large"].null_count == 3


def test_the_column_of_large_numbers_can_be_selected_alone() -> None:
    wanted = ["offset_large"]
    assert table_columns(wanted) == ["offset"]
    batch = pa.RecordBatch.from_pylist([{"offset": 1 << 63}], TABLE).select(["offset"])
    assert portable_rows(batch, "", select(portable_schema(TABLE), wanted)).to_pylist() == [
        {"offset_large": Decimal(1 << 63)}
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_every_top_level_column_is_documented_in_files(level: str) -> None:
    schema = portable_schema(table_schema(level))
    assert [field.name for field in schema if not (field.metadata or {}).get(b"comment")] == []
    kept = file_schema(schema)
    assert [field.metadata[b"comment"] for field in kept] == [field.metadata[b"doc"] for field in schema]
    assert [field.type for field in kept] == [field.type for field in schema]


def test_fields_of_layers_are_documented_as_declared() -> None:
    subject = portable_schema(table_schema("frames")).field("layers").type.field("nats").type.field("subject")
    assert "subject the message is published on" in subject.metadata[b"comment"].decode()
