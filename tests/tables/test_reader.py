from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from tests.support import RABBITMQ, capture
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.tables import reader
from wiredecode.tables.reader import TableReader

NATS = RABBITMQ.parent / "nats" / "03-pubsub.pcap"
BASIC = RABBITMQ / "c43_basic.pcap"


def table(*args: Any, **options: Any) -> pa.Table:
    made = TableReader(*args, **options)
    return pa.Table.from_batches(made, made.schema)


@pytest.mark.parametrize("level", reader.LEVELS)
def test_the_schema_is_known_before_reading(level: str) -> None:
    made = TableReader([], level)
    assert made.schema == reader.table_schema(level)
    assert list(made) == []


@pytest.mark.parametrize("level", reader.LEVELS)
@pytest.mark.parametrize("bytes_choice", ["raw", "hex"])
def test_batches_have_the_schema_and_the_totals_are_whole(level: str, bytes_choice: str) -> None:
    made = TableReader(open_capture([BASIC]), level, bytes_choice=bytes_choice)
    batches = list(made)
    assert batches
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(made.schema, check_metadata=True)
    totals, true = made.totals, capture(BASIC).totals
    assert (totals.packets, totals.tcp_packets, totals.not_decoded) == (
        true.packets,
        true.tcp_packets,
        true.not_decoded,
    )
    assert level == "packets" or totals.frames == true.frames
    rows = {"frames": sum(true.frames.values()), "packets": true.packets}
    assert sum(map(len, batches)) == rows.get(level, sum(map(len, batches)))


def test_messages_equal_those_of_frames() -> None:
    found = table(open_capture([NATS]), "messages").to_pylist()
    bodies = {frame.number: frame.layers for frame in capture(NATS).frames if frame.type in ("PUB", "MSG")}
    assert {row["frame"]: row["body"].hex() for row in found} == {
        number: layers["nats"]["data"] for number, layers in bodies.items() if layers is not None
    }
    assert {row["operation"] for row in found} == {"publish", "deliver"}
    shown = table(open_capture([NATS]), "messages", bytes_choice="text").column("body").to_pylist()
    assert shown == [row["body"].decode("utf-8", "backslashreplace") for row in found]


@pytest.mark.parametrize("level", reader.LEVELS)
def test_a_truncated_capture_gives_its_rows_then_the_error(level: str) -> None:
    rows = 0
    with pytest.raises(CaptureError, match="is truncated in the middle of a packet record"):
        for batch in TableReader(open_capture([RABBITMQ / "d_cutfile.pcap"]), level):
            rows += len(batch)
    run = capture(RABBITMQ / "d_cutfile.pcap")
    assert rows == {"frames": len(run.frames), "packets": run.totals.packets}.get(level, rows) > 0


@pytest.mark.parametrize("level", ["frames", "messages"])
def test_batches_are_bounded_and_in_order(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(open_capture([BASIC]), level, columns=["frame", "time"])
    monkeypatch.setattr("wiredecode.tables.messages.FRAME_ROWS", 7)
    monkeypatch.setattr("wiredecode.tables.messages.BATCH_ROWS", 7)
    batches = list(TableReader(open_capture([BASIC]), level, columns=["frame", "time"]))
    assert max(map(len, batches)) == 7
    assert pa.Table.from_batches(batches) == whole
    numbers = whole.column("frame").to_pylist()
    assert all(before <= after for before, after in pairwise(numbers))
    monkeypatch.setattr("wiredecode.tables.messages.BATCH_BYTES", 1)
    monkeypatch.setattr("wiredecode.tables.messages.FRAME_BYTES", 1)
    most = max(map(len, TableReader(open_capture([BASIC]), level, columns=["frame"])))
    assert most == (1 if level == "frames" else 7)


def test_selected_columns_keep_their_order_and_need_no_records() -> None:
    made = TableReader(open_capture([NATS]), "frames", columns=["type", "frame"])
    assert made.dissector.demand.style is None
    rows = pa.Table.from_batches(made).to_pylist()
    assert rows == [{"type": frame.type, "frame": frame.number} for frame in capture(NATS).frames]
    assert table(open_capture([NATS]), "packets", columns=["flags", "packet"]).column_names == ["flags", "packet"]
    assert table(open_capture([NATS]), "messages", columns=["body"]).column_names == ["body"]


def test_requests_have_their_responses() -> None:
    rows = table(open_capture([BASIC]), "frames", columns=["frame", "response"]).to_pylist()
    assert rows == [{"frame": frame.number, "response": frame.response} for frame in capture(BASIC).frames]
    assert any(row["response"] for row in rows)


@pytest.mark.parametrize(
    ("level", "options", "message"),
    [
        ("rows", {}, "there is no level rows; there are frames, messages, packets"),
        ("frames", {"bytes_choice": "octal"}, "bytes cannot be shown as octal; there are raw, hex"),
        ("packets", {"columns": ["body"]}, "there is no column body"),
        ("messages", {"columns": ["topics"]}, "there is no column topics; did you mean topic?"),
    ],
)
def test_unknown_names_are_reported_immediately(level: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        TableReader([], level, **options)


def test_leaving_early_reads_no_further() -> None:
    taken = []

    def packets() -> Iterator[PacketBatch]:
        for batch in open_capture([BASIC], batch_packets=10):
            taken.append(len(batch))
            yield batch

    next(iter(TableReader(packets(), "packets")))
    assert taken == [10]


def test_records_are_made_only_of_protocols_whose_layers_are_shown() -> None:
    made = TableReader(open_capture([NATS]), "frames", columns=["layers.liftbridge.stream", "frame"])
    assert made.dissector.demand.recorded == {"nats"}
    other = TableReader(open_capture([NATS]), "frames", columns=["layers.tank.topic", "frame"])
    assert other.dissector.demand.recorded == {"tank"}
    assert sum(batch.column("layers").null_count for batch in other) == 0
    assert all(frame.layers is None for frame in other.dissector.frames(open_capture([NATS])))
    assert TableReader(open_capture([NATS]), "frames").dissector.demand.recorded is None
