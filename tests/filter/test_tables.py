"""Filters on tables: the same rows as filtering frame by frame, for both ways of reading."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, run
from tests.filter.support import BASIC, CAPTURES, numbers
from wiredecode.capture import CaptureError, open_capture
from wiredecode.filter import compile_filter

pa = pytest.importorskip("pyarrow")

__all__ = ["run"]

AMQP, NATS = "rabbitmq-stream/c43_amqp.pcap", "nats/06-headers.pcap"
LIFTBRIDGE, TANK = "liftbridge/30-lb-publish-ack.pcap", "tank/tank_08_consume_positions.pcap"
IN_COLUMNS = [
    (BASIC, "frame.number > 100"),
    (BASIC, 'frame.type == "Publish" || frame.type contains "Deliver"'),
    (BASIC, 'frame.type matches "^p" and not frame.number in {30..40, 50}'),
    (BASIC, "tcp.stream == 2 xor frame.time >= 2026-11-20T19:45:00.5Z"),
    (BASIC, "tcp.srcport == 5552 and frame.number % 2 == 1"),
    (BASIC, "ip.src == 127.0.0.3 or frame.time_relative < 100ms"),
    (BASIC, "rabbitmq_stream.type == Deliver"),
    (NATS, "nats.type and frame.sender == client"),
    (LIFTBRIDGE, "frame.protocol == liftbridge"),
    (TANK, "!(tcp.port == 1)"),
    (BASIC, "1 == 1"),
]
FRAME_BY_FRAME = [
    (BASIC, "rabbitmq_stream.messages.publishing_id == 1 or frame.code == 8"),
    (BASIC, "frame.length > 60"),
    (BASIC, "frame.response or frame.type == Deliver"),
    (AMQP, "amqp.properties.subject or finding"),
    (LIFTBRIDGE, "liftbridge.stream"),
    (NATS, "nats.headers"),
    (TANK, "frame[0:1] == 01 or frame.length > 50"),
]


def batches(name: str, level: str, text: str | None = None, **options: Any) -> Iterator[Any]:
    from wiredecode.tables.reader import TableReader

    display = None if text is None else compile_filter(text)
    source = open_capture([CAPTURES / name])
    try:
        yield from TableReader(source, level, display=display, **options)
    except CaptureError:
        return


def table(name: str, level: str, text: str | None = None, **options: Any) -> Any:
    found = list(batches(name, level, text, **options))
    return pa.Table.from_batches(found) if found else None


COLUMNS = {
    "frames": ["frame", "response", "findings"],
    "messages": ["frame", "index", "topic", "body"],
    "packets": None,
}


@cache
def everything(name: str, level: str) -> Any:
    return table(name, level, blocks=False, columns=columns(name, level))


def columns(name: str, level: str) -> list[str] | None:
    layer = LAYERS.get(name.split("/")[0], "nats")
    return [*COLUMNS[level], f"layers.{layer}"] if level == "frames" else COLUMNS[level]


LAYERS = {"rabbitmq-stream": "rabbitmq_stream", "liftbridge": "liftbridge", "tank": "tank"}


@pytest.mark.parametrize("level", ["frames", "messages"])
@pytest.mark.parametrize(("name", "text"), IN_COLUMNS + FRAME_BY_FRAME)
def test_filtered_rows_are_rows_of_the_whole_table(name: str, text: str, level: str) -> None:
    whole, chosen = everything(name, level), {*numbers(text, name)}
    kept = whole.filter(pa.array([frame in chosen for frame in whole["frame"].to_pylist()]))
    assert len(kept) or level == "messages"
    for blocks in (False, True):
        found = table(name, level, text, blocks=blocks, columns=columns(name, level))
        assert len(kept) == 0 if found is None else found.select(whole.column_names).equals(kept)


@pytest.mark.parametrize(("name", "text"), IN_COLUMNS)
def test_columns_decide_if_possible(name: str, text: str) -> None:
    from wiredecode.tables.reader import where

    assert where(compile_filter(text), "messages", blocks=True) is not None
    assert where(compile_filter(text), "messages", blocks=False) is None


@pytest.mark.parametrize(("name", "text"), FRAME_BY_FRAME)
def test_frames_decide_if_columns_cannot(name: str, text: str) -> None:
    from wiredecode.tables.reader import where

    assert where(compile_filter(text), "messages", blocks=True) is None


PACKETS = [
    ("frame.number in {3..9}", lambda row: 3 <= row["packet"] <= 9),
    ("frame.length > 100", lambda row: row["length"] > 100),
    ("tcp.port == 5552 and tcp.srcport != 5552", lambda row: row["dst"].endswith(":5552")),
    ("ip.addr == 127.0.0.3", lambda row: "127.0.0.3:" in row["src"] + row["dst"]),
]


@pytest.mark.parametrize(("text", "holds"), PACKETS, ids=[text for text, _ in PACKETS])
def test_filters_on_packets(text: str, holds: Any) -> None:
    expected = [row["packet"] for row in everything(BASIC, "packets").to_pylist() if holds(row)]
    assert table(BASIC, "packets", text)["packet"].to_pylist() == expected != []


def test_ports_of_packets_without_tcp_are_not_tcp_ports() -> None:
    from wiredecode.filter.tables import TableFilter

    columns = {"src": ["1.2.3.4:53", "[fe80::1]:53", "1.2.3.4", None], "dst": ["1.2.3.5:9"] * 3 + [None]}
    batch = pa.RecordBatch.from_pydict({**columns, "transport": ["UDP", "TCP", "ICMP", None], "packet": [1, 2, 3, 4]})

    def kept(text: str) -> list[int]:
        found: list[int] = TableFilter(compile_filter(text), "packets").apply(batch)["packet"].to_pylist()
        return found

    assert kept("tcp.port == 53") == [2]
    assert kept("ip.src == 1.2.3.4") == [1, 3]
    assert kept("ip.addr == fe80::1") == [2]


def test_packets_have_no_protocol_fields(run: Run, tmp_path: Path) -> None:
    result = run("export", CAPTURES / BASIC, "-o", tmp_path / "p.csv", "--level", "packets", "-Y", "nats.subject == a")
    assert result.code == 2
    assert "packets have no nats.subject: at this level filters are about" in result.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [("--level", "messages"), ("--columns", "frame,type"), ()])
def test_filters_of_export(run: Run, tmp_path: Path, options: tuple[str, ...]) -> None:
    whole, part = tmp_path / "whole.ndjson", tmp_path / "part.ndjson"
    run("export", CAPTURES / BASIC, "-o", whole, *options)
    result = run("export", CAPTURES / BASIC, "-o", part, *options, "-Y", 'rabbitmq_stream.stream == "c43_basic-stream"')
    chosen = {*numbers('rabbitmq_stream.stream == "c43_basic-stream"')}
    kept = [line for line in whole.read_bytes().splitlines() if _frame(line) in chosen]
    assert part.read_bytes().splitlines() == kept != []
    assert f"{len(kept)} " in result.err


def _frame(line: bytes) -> int:
    import orjson

    return int(orjson.loads(line)["frame"])


@pytest.mark.parametrize("choice", ["hex", "length"])
@pytest.mark.parametrize("command", ["pcap", "export"])
def test_bytes_of_matching_records_are_in_the_requested_style(
    run: Run, tmp_path: Path, command: str, choice: str
) -> None:
    name, out = "liftbridge/30-lb-publish-ack.pcap", tmp_path / "out.ndjson"
    where = ("--json",) if command == "pcap" else ("-o", out)

    def lines(*options: object) -> list[str]:
        result = run(command, CAPTURES / name, *where, "--bytes", choice, *options)
        assert result.code == 0, result.err
        return result.lines if command == "pcap" else out.read_text().splitlines()

    whole, part = lines(), lines("-Y", "liftbridge.value")
    assert part
    assert set(part) <= set(whole)


def test_filters_of_python() -> None:
    import wiredecode

    path, text = CAPTURES / BASIC, "rabbitmq_stream.messages.publishing_id == 1"
    chosen = wiredecode.read(path, filter=text)
    whole = [frame for frame in wiredecode.read(path) if frame.number in numbers(text)]
    assert [frame.record() for frame in chosen] == [frame.record() for frame in whole] != []
    assert [frame.fields for frame in chosen] == [frame.fields for frame in whole]
    assert chosen.table()["frame"].to_pylist() == numbers(text)
    assert {*chosen.messages().table()["frame"].to_pylist()} <= {*numbers(text)}
    with pytest.raises(ValueError, match="no field is called"):
        wiredecode.read(path, filter="frame.typ")
