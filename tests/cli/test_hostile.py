"""Hostile captures: no raw bytes reach a terminal, bombs stay small, and a bad frame costs one frame."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import orjson
import pyarrow.parquet as pq
import pytest

import wiredecode
from tests.cli.conftest import Run
from wiredecode import budget
from wiredecode.dissect.dissector import Dissector
from wiredecode.frames.escape import TerminalStream, escape, json_safe, terminal_bytes, terminal_safe, valid
from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation
from wiredecode.protocols.rabbitmq_stream.protocol import RabbitMQStream
from wiredecode.protocols.shared import compression
from wiredecode.view.summary import SummaryLines

CAPTURES = Path(__file__).parents[2] / "captures"
HOSTILE = sorted((CAPTURES / "hostile").glob("*.pcap*"))
PLAIN = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ufeff]")


@pytest.mark.parametrize("form", ["--summary", "--full", "--json", "--hex"])
@pytest.mark.parametrize("path", [path for path in HOSTILE if "bomb" not in path.name], ids=lambda path: path.stem)
def test_hostile_captures_end_normally_without_raw_bytes(run: Run, path: Path, form: str) -> None:
    found = run("pcap", path, form)
    assert found.code == 0
    assert "please report" not in found.err
    assert RAW.search(found.out) is None


@pytest.mark.parametrize("path", [path for path in HOSTILE if "bomb" not in path.name], ids=lambda path: path.stem)
def test_dialogues_of_hostile_captures_have_no_raw_bytes(run: Run, path: Path) -> None:
    found = run("follow", path, "-n", "1")
    assert (found.code, RAW.search(found.out)) == (0, None)


def test_a_bomb_of_many_sub_batches_is_opened_within_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    plain = compression.decompress

    def counted(codec: str, data: bytes, limit: int) -> compression.Decompressed:
        found = plain(codec, data, limit)
        opened.append(len(found.data))
        return found

    monkeypatch.setattr(compression, "decompress", counted)
    frame = next(
        frame
        for frame in wiredecode.read(CAPTURES / "hostile" / "02-rabbitmq-zstd-subentry-bomb.pcap.zst")
        if any(finding.group == "limit" for finding in frame.findings)
    )
    assert [finding.code for finding in frame.findings] == ["decompressed-size"]
    assert 0 < sum(opened) <= budget.FRAME_BYTES


def test_control_characters_survive_json() -> None:
    text = "a\x7f\x9b\u202e\u200b→é"
    line = json_safe(orjson.dumps({"text": text}))
    assert rb"a\u007f\u009b\u202e\u200b" in line
    assert orjson.loads(line)["text"] == text


def test_the_terminal_guard_passes_only_colours() -> None:
    assert terminal_safe("\x1b[31mred\x1b[0m → é\n") == "\x1b[31mred\x1b[0m → é\n"
    assert terminal_safe("\x1b]0;owned\x07\x9b31m\u202e") == r"\x1b]0;owned\x07\x9b31m\u202e"
    for lead in "\x7f\x80\x9f\u061c\u200b\u202e\u2066\ufeff\ufffa\r":  # each UTF-8 beginning of a harmful one
        assert terminal_bytes(f"→{lead}é", "utf-8") == f"→{escape(lead)}é".encode()
        assert terminal_bytes(f"→{lead}é", "ascii") == f">{escape(lead)}é".encode("ascii", "backslashreplace")
    for harmless in "→é\xa0日\uff01\u2100\uff5e\n":
        assert terminal_bytes(harmless, "utf-8") == harmless.encode()


def test_csv_on_a_terminal_has_no_controls_even_if_writes_split_a_character(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as raw:
        stream = TerminalStream(raw)
        for byte in "x\x1b[31m\u202eé\n".encode():
            stream.write(bytes([byte]))
        stream.flush()
    assert path.read_text() == "x\\x1b[31m\\u202eé\n"


def test_lone_surrogates_are_escaped_in_keys_lists_and_values() -> None:
    """A byte that is not UTF-8 as in records, so that one name has one spelling."""
    assert valid({"\udc80": ["\ud800x", 7]}) == {r"\x80": [r"\ud800x", 7]}


@pytest.mark.parametrize(
    ("place", "name"),
    [(RabbitMQConversation, "decode"), (SummaryLines, "facts")],
    ids=["decoder", "view"],
)
def test_a_bug_in_a_decoder_costs_the_contents_of_one_frame(
    run: Run, place: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, seen = getattr(place, name), []

    def failing(self: object, frame: wiredecode.Frame, *rest: object, **named: object) -> object:
        seen.append(frame)
        if len(seen) == 4:
            raise KeyError("\x1bfrom the wire")
        return plain(self, frame, *rest, **named)

    whole = run("pcap", PLAIN, "--summary").lines
    monkeypatch.setattr(place, name, failing)
    found = run("pcap", PLAIN, "--summary")
    lines = found.lines
    assert (found.code, len(lines)) == (2, len(whole))
    assert "[error: wiredecode could not" in lines[3]
    assert [*lines[:3], *lines[4:]] == [*whole[:3], *whole[4:]]
    assert "please report it" in found.err
    assert "from the wire" not in found.out + found.err


@pytest.mark.parametrize("name", ["split_inner", "search"])
def test_a_bug_in_framing_costs_one_direction_and_bytes_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, calls = getattr(RabbitMQStream, name), []

    def failing(self: object, data: bytes, **given: object) -> object:
        calls.append(data)
        if name == "search" or len(calls) == 5:
            raise IndexError
        return plain(self, data, **given)

    monkeypatch.setattr(RabbitMQStream, name, failing)
    dissector = Dissector()
    frames = list(dissector.frames(wiredecode.capture.open_capture([str(PLAIN)])))
    totals = dissector.totals
    assert frames
    assert totals.closes
    assert bool(totals.failures) == (name == "split_inner")


def test_a_row_that_fits_no_table_keeps_its_frame(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wiredecode.tables.frames import ArrayBuilder

    plain = ArrayBuilder.layers

    def failing(self: ArrayBuilder, field: object, records: list[dict[str, dict[str, object]]]) -> object:
        if any(record.get("rabbitmq_stream", {}).get("key") == "Tune" for record in records):
            raise ValueError
        return plain(self, field, records)  # type: ignore[arg-type]

    monkeypatch.setattr(ArrayBuilder, "layers", failing)
    found = run("export", PLAIN, "-o", tmp_path / "f.parquet")
    table = pq.read_table(tmp_path / "f.parquet")
    bad = [row for row in table.select(["type", "findings"]).to_pylist() if row["findings"]]
    assert found.code == 2
    assert "put into a table" in found.err
    assert len(table) == len(list(wiredecode.read(PLAIN)))
    assert [finding["code"] for row in bad if row["type"] == "Tune" for finding in row["findings"]].count("internal")


def test_partition_folders_of_a_long_topic_and_one_named_like_null(run: Run, tmp_path: Path) -> None:
    path = CAPTURES / "hostile" / "13-nats-long-topic-partition.pcap"
    lake = ("-o", tmp_path / "lake", "--format", "parquet", "--level", "messages", "--partition-by", "topic")
    assert run("export", path, *lake).code == 0
    found = duckdb.sql(
        f"select topic, count(*) from read_parquet('{tmp_path}/lake/**/*.parquet') group by 1"
    ).fetchall()
    topics = sorted(topic for topic, _ in found if topic is not None)
    assert "__HIVE_DEFAULT_PARTITION__" in topics
    assert any(len(topic) > 200 and "~" in topic for topic in topics)


TERMINAL = re.compile(
    "[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\x1b(?!\\[[0-9;]*m)"
)


@pytest.mark.parametrize("name", ["15-nats-secrets", "16-kafka-cut-secret"])
@pytest.mark.parametrize("form", ["-V", "--hex", "--json", "--summary", "--full"])
def test_credentials_in_unusual_places_and_cut_ones_are_hidden(run: Run, name: str, form: str) -> None:
    found = run("pcap", CAPTURES / "hostile" / f"{name}.pcap", form)
    shown = found.out.replace(" ", "")
    for secret in ("Hunter2Secret9", "Vx270kQ7"):
        assert secret not in shown and secret.encode().hex() not in shown
    assert ("orders" in found.out) == (name == "15-nats-secrets"), "names of subjects stay"


def test_a_bomb_of_empty_records_makes_none(run: Run) -> None:
    found = run("pcap", CAPTURES / "hostile" / "17-kafka-records-bomb.pcap", "--json")
    assert len(found.raw) < 100_000 and "the records are damaged" in found.out


def test_the_lines_of_one_tree_have_a_budget(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes become many records, and rich needs much memory for each line; the next frame is whole."""
    path = CAPTURES / "hostile" / "05-cursus-batch-summary.pcap"
    whole = run("pcap", path, "-V").out.split("\nFrame ")
    monkeypatch.setattr(budget, "FRAME_BYTES", 20 * budget.CAREFUL_BYTES)
    trees = run("pcap", path, "-V").out.split("\nFrame ")
    assert len(trees) == len(whole) and max(each.count("\n") for each in whole) > 25
    assert max(each.count("\n") for each in trees) <= 25 and any("... more lines" in each for each in trees)
