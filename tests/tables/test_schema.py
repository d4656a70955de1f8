from __future__ import annotations

import json
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from tests.tables.freeze import FROZEN, layers, lines
from tests.toy.installing import install as install
from tests.toy.installing import installed as installed
from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    Flags,
    Optional,
    Struct,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt64,
    Uuid,
    When,
)
from wiredecode.fields.layer import Layer
from wiredecode.protocols import registry
from wiredecode.protocols.base import Generated
from wiredecode.protocols.kafka.names import BATCHES
from wiredecode.tables import schema

ADVICE = (
    "A column was removed or has another type: that breaks who reads the tables. Undo it, or count VERSION of "
    "wiredecode/tables/schema.py up, say so in CHANGELOG.md and docs/tables.md, and run: python -m tests.tables.freeze"
)


def arrow_type(layer: type[Layer], *, raw: bool = True) -> pa.StructType:
    """The type of a layer's record."""
    return pa.struct(schema.merged_fields(schema.layer_fields(layer, raw)))


def test_no_frozen_column_is_removed_or_changes_type() -> None:
    assert set(FROZEN.read_text().splitlines()) - set(lines()) == set(), ADVICE


def test_new_columns_are_in_the_frozen_schema() -> None:
    added = set(lines()) - set(FROZEN.read_text().splitlines())
    assert added == set(), "new columns are welcome; write them down with: python -m tests.tables.freeze"


@pytest.mark.parametrize("raw", [True, False])
def test_what_commands_read_is_what_the_declarations_give(raw: bool) -> None:
    assert json.loads(schema.LAYERS.read_text()) == layers(), "run: python -m tests.tables.freeze"
    derived = schema.derived_layers(registry.protocols(), raw)
    read = schema.written_layers(raw)
    assert pa.schema(read).equals(pa.schema(derived), check_metadata=True)
    assert str(read) == str(derived)  # the order, too


@pytest.mark.usefixtures("installed")
def test_protocols_of_other_packages_have_columns() -> None:
    assert "kv" in schema.frames_schema().field("layers").type.names


def test_every_column_appears_once_and_is_nullable() -> None:
    assert len(lines()) == len({line.rsplit(" ", 1)[0] for line in lines()})
    assert all(field.nullable for field in schema.frames_schema())


def test_metadata_names_table_and_version() -> None:
    for table in (schema.frames_schema(), schema.declared_schema("messages"), schema.declared_schema("packets")):
        assert table.metadata[b"wiredecode.schema"] == b"2"
    assert schema.frames_schema().metadata[b"wiredecode.table"] == b"frames"


class Pair(Layer):
    fields_desc: ClassVar[list[Any]] = [UInt16("key", names={1: "one"}), Text("value")]


class Everything(Layer):
    filter_name = "everything"
    fields_desc: ClassVar[list[Any]] = [
        UInt64("number"),
        UInt8("kind", names={1: "one"}),
        Flags("flags", names={1: "first"}),
        Boolean("truth"),
        Timestamp("at"),
        Uuid("id"),
        Text("secret", secret=True),
        Binary("hidden", secret=True),
        Binary("data"),
        Struct("pair", Pair),
        Array("pairs", Pair),
        Array("numbers", UInt16("number")),
    ]


def test_each_kind_of_field_has_its_type() -> None:
    pair = pa.struct([("key", pa.string()), ("key_code", pa.uint16()), ("value", pa.string())])
    assert arrow_type(Everything) == pa.struct(
        [
            ("number", pa.uint64()),
            ("kind", pa.string()),
            ("kind_code", pa.uint8()),
            ("flags", pa.list_(pa.string())),
            ("truth", pa.bool_()),
            ("at", pa.timestamp("ms", "UTC")),
            ("id", pa.string()),
            ("secret", pa.string()),
            ("hidden", pa.string()),
            ("data", pa.binary()),
            ("pair", pair),
            ("pairs", pa.list_(pair)),
            ("numbers", pa.list_(pa.uint16())),
        ]
    )


def test_bytes_shown_as_text_are_text_in_the_schema() -> None:
    assert arrow_type(Everything, raw=False).field("data").type == pa.string()
    assert pa.binary() not in {field.type for field in schema.declared_schema("messages", "base64")}
    assert not any(line.endswith(" binary") for line in map(str, schema.frames_schema("hex").field("layers").type))


JSON = schema.json_field("x")


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        (pa.uint8(), pa.uint8(), pa.uint8()),
        (pa.uint8(), pa.uint32(), pa.uint32()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.uint32(), pa.int32(), pa.int64()),
        (pa.uint64(), pa.int8(), None),
        (pa.string(), pa.uint8(), None),
        (pa.bool_(), pa.uint8(), None),
        (pa.binary(), pa.string(), None),
        (pa.list_(pa.uint8()), pa.list_(pa.uint16()), pa.list_(pa.uint16())),
        (pa.list_(pa.uint8()), pa.uint8(), None),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())])),
        (pa.struct([("a", pa.int8())]), pa.string(), None),
    ],
    ids=str,
)
def test_two_fields_of_one_name_share_a_column(one: pa.DataType, two: pa.DataType, both: pa.DataType | None) -> None:
    for first, second in ((one, two), (two, one)):
        found = schema.merge_fields(pa.field("x", first), pa.field("x", second))
        assert schema.is_json(found) == (both is None)
        if both is not None and not pa.types.is_struct(both):
            assert found.type == both


def test_json_text_and_names_of_numbers_keep_their_types() -> None:
    enumeration = pa.field("x", pa.string(), metadata=schema.ENUMERATION)
    assert schema.is_json(schema.merge_fields(pa.field("x", pa.string()), JSON))
    assert schema.is_json(schema.merge_fields(JSON, pa.field("x", pa.string())))
    assert schema.is_enumeration(schema.merge_fields(pa.field("x", pa.string()), enumeration))


def test_a_recursive_structure_ends_as_json_text() -> None:
    class Nested(Layer):
        fields_desc: ClassVar[list[Any]] = [UInt8("more")]

    Nested.fields_desc = [UInt8("more"), Optional(Struct("inner", Nested), When("more == 1"))]
    kind, depth = arrow_type(Nested), 0
    while pa.types.is_struct(kind):
        kind, depth = kind.field("inner").type, depth + 1
    assert depth == schema.MAX_DEPTH + 1


# One protocol, one type, some columns.


def members(found: pa.Schema, *path: str) -> list[str]:
    kind = found.field("layers").type
    for name in path:
        kind = kind.field(name).type
    return [field.name for field in kind]


def test_a_schema_of_one_protocol_has_its_layers_and_those_it_carries() -> None:
    assert members(schema.protocol_schema("tank")) == ["tank", "proxy", "other"]
    assert {"nats", "liftbridge", "raft"} <= set(members(schema.protocol_schema("liftbridge")))
    assert schema.protocol_schema("no such protocol") == schema.frames_schema()


def test_a_schema_has_the_fields_of_all_versions_of_a_message() -> None:
    whole = schema.protocol_schema("rabbitmq_stream")
    assert {"publisher_id", "messages", "stream", "virtual_host", "other"} <= set(members(whole, "rabbitmq_stream"))
    messages = whole.field("layers").type.field("rabbitmq_stream").type.field("messages").type.value_type
    assert {"filter_value", "amqp"} <= {field.name for field in messages}  # of version 2, and carried


def test_columns_and_members_are_selected_by_name_in_order() -> None:
    chosen = schema.select(schema.frames_schema(), ["type", "layers.nats.subject", "layers.tank", "frame"])
    assert chosen.names == ["type", "layers", "frame"]
    assert members(chosen) == ["tank", "nats"] or members(chosen) == ["nats", "tank"]
    assert members(chosen, "nats") == ["subject"]
    assert chosen.metadata == schema.frames_schema().metadata


def test_an_unknown_column_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(schema.UnknownColumn, match=r"no column layers\.nats\.subjct; did you mean layers\.nats\.subj"):
        schema.select(schema.frames_schema(), ["frame", "layers.nats.subjct"])


# Other packages.


@pytest.mark.usefixtures("installed")
def test_a_protocol_of_another_package_has_its_member(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"key", "value", "code", "code_code", "other"} <= set(members(schema.frames_schema(), "kv"))
    assert "kv" not in members(schema.protocol_schema("nats"))
    from tests.toy.kv import KV

    generated = {
        "kv.age": Generated("uint32", "s since it was set"),
        "kv.hops": Generated("json", "brokers it passed"),
    }
    monkeypatch.setattr(KV, "generated", generated)
    schema.derived_layers.cache_clear()
    kv = schema.protocol_schema("kv").field("layers").type.field("kv").type
    assert kv.field("age").type == pa.uint32()
    assert schema.is_json(kv.field("hops"))
    schema.derived_layers.cache_clear()


def test_every_generated_field_has_a_specific_type() -> None:
    for protocol in registry.protocols():
        for name, field in protocol.generated_fields().items():
            assert field.column != "json" or name in JSON_GENERATED or name.endswith(".amqp"), name


def test_no_field_is_both_generated_and_retyped() -> None:
    for protocol in registry.protocols():
        assert not set(protocol.generated_fields()) & set(protocol.column_types), protocol.name


JSON_GENERATED = {"pravega.whole", "raft.entries.raft_log", "raft.entries.configuration"} | {
    f"cursus.{name}"
    for name in ("brokers", "cluster", "json", "members", "other_fields", "payload", "policy", "snapshot", "snapshots")
}
JSON_GENERATED |= {f"amqp091.{name}" for name in ("arguments", "headers", "client_properties", "server_properties")}
JSON_GENERATED |= {f"{batches}.records.coordinator" for batches in BATCHES}
