from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from tests.support import RABBITMQ, dissect
from tests.tables.support import expected, rendered
from wiredecode.capture import open_capture
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import record
from wiredecode.tables import schema
from wiredecode.tables.frames import ArrayBuilder, FrameTable, style_for

CAPTURES = RABBITMQ.parent
U64 = (1 << 64) - 1


def frames(path: Path, style: Style) -> list[Frame]:
    return dissect(open_capture([path]), style=style).frames


SELECTION = [  # with text that is not UTF-8, values that fit no column, truncated, compressed and secret values
    ("rabbitmq_stream", "rabbitmq-stream/c43_amqp.pcap"),
    ("rabbitmq_stream", "rabbitmq-stream/c43_amqplain.pcap"),
    ("rabbitmq_stream", "rabbitmq-stream/c43_subentry.pcap"),
    ("rabbitmq_stream", "rabbitmq-stream/c43_tracking.pcap"),
    ("rabbitmq_stream", "rabbitmq-stream/c43_unknown_frame.pcap"),
    ("rabbitmq_stream", "rabbitmq-stream/d_cutfile.pcap"),
    ("tank", "tank/tank_05_keys_timestamps.pcap"),
    ("tank", "tank/tank_09_consume_tail.pcap"),
    ("tank", "tank/tank_12_consume_errors.pcap"),
    ("tank", "tank/tank_d1_snaplen96.pcap"),
    ("nats", "nats/02-auth.pcap"),
    ("nats", "nats/06-headers.pcap"),
    ("nats", "nats/12-grammar-variants.pcap"),
    ("nats", "nats/03-pubsub.snap96.pcap"),
    ("liftbridge", "liftbridge/31-lb-all-types.pcap"),
    ("cursus", "cursus/seed-dialect.pcap"),
    ("cursus", "cursus/comp-gzip.pcap"),
    ("cursus", "cursus/txn.pcap"),
    ("pravega", "pravega/append_basic.pcap"),
    ("pravega", "pravega/errors.pcap"),
    ("pravega", "pravega/seed_dialect.pcap"),
    ("pravega", "pravega/tables.pcap"),
]


@pytest.mark.parametrize(("protocol", "name"), SELECTION)
def test_rows_equal_records(protocol: str, name: str) -> None:
    batch = FrameTable(schema.protocol_schema(protocol)).batch(frames(CAPTURES / name, style_for()))
    batch.validate(full=True)
    records = [expected(record(frame)) for frame in frames(CAPTURES / name, Style())]
    assert rendered(batch) == records


@pytest.mark.parametrize("bytes_choice", ["hex", "base64", "length"])
def test_bytes_are_text_on_request(bytes_choice: str) -> None:
    style = style_for(bytes_choice)
    path = RABBITMQ / "c43_amqp.pcap"
    batch = FrameTable(schema.protocol_schema("rabbitmq_stream", bytes_choice), bytes_choice).batch(frames(path, style))
    assert rendered(batch) == [expected(record(frame)) for frame in frames(path, style)]


def test_layers_of_other_protocols_are_null_in_the_wide_table() -> None:
    path = CAPTURES / "nats" / "02-auth.pcap"
    batch = FrameTable(schema.frames_schema()).batch(frames(path, style_for()))
    assert batch.schema.equals(schema.frames_schema(), check_metadata=True)
    layers = batch.column("layers")
    assert layers.field("tank").null_count == len(batch)
    assert layers.field("nats").null_count == 0
    assert rendered(batch) == [expected(record(frame)) for frame in frames(path, Style())]


def test_secrets_are_hidden_unless_requested() -> None:
    path, chosen = CAPTURES / "nats" / "02-auth.pcap", ["layers.nats.options"]
    table = FrameTable(schema.select(schema.frames_schema(), chosen))
    for show_secrets in (False, True):
        batch = table.batch(frames(path, style_for(show_secrets=show_secrets)))
        found = [row["layers"]["nats"]["options"] or {} for row in batch.to_pylist()]
        passwords = {options["pass"] for options in found if options.get("pass")}
        assert passwords
        assert all(word.startswith("<redacted ") for word in passwords) != show_secrets


def test_selected_columns_equal_those_of_all() -> None:
    found = frames(RABBITMQ / "c43_basic.pcap", style_for())
    whole = FrameTable(schema.frames_schema()).batch(found)
    some = FrameTable(schema.select(whole.schema, ["layers.rabbitmq_stream.key", "frame"])).batch(found)
    assert some.schema.names == ["layers", "frame"]
    keys = whole.column("layers").field("rabbitmq_stream").field("key")
    assert some.column("layers").field("rabbitmq_stream").field("key") == keys
    assert some.column("layers").type.num_fields == 1


def test_no_frames_give_an_empty_batch() -> None:
    batch = FrameTable(schema.frames_schema()).batch([])
    assert len(batch) == 0
    assert batch.schema == schema.frames_schema()


# Values.


def layers(fields: list[pa.Field], values: list[Any]) -> list[dict[str, Any]]:
    """Values of the layer ``x`` with these fields after a round trip through a table."""
    layer = pa.field("x", pa.struct([*fields, schema.json_field(schema.OTHER)]))
    field = pa.field("layers", pa.struct([layer, schema.json_field(schema.OTHER)]))
    array = ArrayBuilder(bytes.hex).layers(field, [{} if value is None else {"x": value} for value in values])
    array.validate(full=True)
    found: list[dict[str, Any]] = array.field("x").to_pylist()
    return found


TEXT, NUMBER = pa.field("a", pa.string()), pa.field("a", pa.uint64())
NAMES = pa.field("a", pa.string(), metadata=schema.ENUMERATION)
INNER = pa.struct([("b", pa.uint8()), ("c", pa.list_(pa.struct([("d", pa.uint8())])))])


@pytest.mark.parametrize(
    ("field", "value", "held", "other"),
    [
        (NUMBER, U64, U64, None),
        (NUMBER, 0, 0, None),
        (NUMBER, -1, None, {"a": -1}),
        (NUMBER, True, None, {"a": True}),
        (NUMBER, 1.5, None, {"a": 1.5}),
        (NUMBER, [1], None, {"a": [1]}),
        (NUMBER, "1", None, {"a": "1"}),
        (pa.field("a", pa.int64()), -(1 << 63), -(1 << 63), None),
        (pa.field("a", pa.int64()), 1 << 63, None, {"a": 1 << 63}),
        (pa.field("a", pa.uint8()), 256, None, {"a": 256}),
        (pa.field("a", pa.bool_()), True, True, None),
        (pa.field("a", pa.bool_()), 7, None, {"a": 7}),
        (TEXT, "\\xff", "\\xff", None),
        (TEXT, b"\xff", "ff", None),
        (TEXT, 5, None, {"a": 5}),
        (NAMES, 255, "255", None),
        (NAMES, "OK", "OK", None),
        (pa.field("a", pa.binary()), b"\0\xff", b"\0\xff", None),
        (pa.field("a", pa.binary()), "<redacted 3 bytes>", None, {"a": "<redacted 3 bytes>"}),
        (pa.field("a", pa.timestamp("ms", "UTC")), 1_700_000_000_000_000, None, {"a": 1_700_000_000_000_000}),
        (pa.field("a", pa.timestamp("ns", "UTC")), "soon", None, {"a": "soon"}),
        (pa.field("a", pa.list_(pa.uint8())), [1, 300, None], [1, None, None], {"a[1]": 300}),
        (pa.field("a", pa.list_(pa.uint8())), {"b": 1}, None, {"a": {"b": 1}}),
        (pa.field("a", INNER), [1], None, {"a": [1]}),
        (pa.field("a", INNER), {"b": 1, "z": b"\1"}, {"b": 1, "c": None}, {"a.z": "01"}),
        (
            pa.field("a", INNER),
            {"c": [{"d": 1}, {"d": 999, "e": None}]},
            {"b": None, "c": [{"d": 1}, {"d": None}]},
            {"a.c[1].d": 999},
        ),
        (schema.json_field("a"), {"b": [U64, b"\xff", None]}, f'{{"b":[{U64},"ff",null]}}', None),
        (schema.json_field("a"), None, None, None),
    ],
    ids=str,
)
def test_a_value_is_in_its_column_or_in_other(field: pa.Field, value: Any, held: Any, other: Any) -> None:
    fitting = {"a": None}
    before, row, after, absent = layers([field], [fitting, {"a": value}, {}, None])
    assert row["a"] == held
    assert (row["other"] and orjson.loads(row["other"])) == other
    assert before == after == {"a": None, "other": None}  # a value that does not fit costs no other row anything
    assert absent is None


def test_a_value_that_does_not_fit_leaves_its_neighbours() -> None:
    rows = layers([pa.field("a", pa.list_(pa.uint8()))], [{"a": [1]}, {"a": []}, {"a": [2, -1]}, {"a": [3]}])
    assert [row["a"] for row in rows] == [[1], [], [2, None], [3]]
    assert [row["other"] for row in rows] == [None, None, '{"a[1]":-1}', None]


def test_times_keep_their_last_digit() -> None:
    field = pa.field("a", pa.timestamp("ns", "UTC"))
    layer = pa.field("layers", pa.struct([pa.field("x", pa.struct([field])), schema.json_field(schema.OTHER)]))
    found = ArrayBuilder(bytes.hex).layers(layer, [{"x": {"a": "2026-11-20T18:59:47.790497123Z"}}])
    assert found.field("x").field("a").cast(pa.int64()).to_pylist() == [1_795_201_187_790_497_123]


def test_an_undeclared_layer_is_json_text() -> None:
    field = pa.field("layers", pa.struct([pa.field("x", pa.struct([TEXT])), schema.json_field("other")]))
    found = ArrayBuilder(bytes.hex).layers(field, [{"new": {"data": b"\1"}}, {}, {"x": {"a": "b"}}]).to_pylist()
    assert found == [
        {"x": None, "other": '{"new":{"data":"01"}}'},
        {"x": None, "other": None},
        {"x": {"a": "b"}, "other": None},
    ]
