"""One name per field: filters accept names of records, columns those of filters (issue 12, point 13)."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import wiredecode
from tests.cli.conftest import Run, run
from tests.filter.support import BASIC, CAPTURES, numbers, records
from wiredecode.filter import FilterError, compile_filter
from wiredecode.protocols.catalogue import FRAME_ENTRIES, RECORD_NAMES
from wiredecode.testing.kit import keys_of

__all__ = ["run"]

BOTH = [
    ("frame == 31", "frame.number == 31"),
    ("frame in {29..31, 40}", "frame.number in {29..31, 40}"),
    ("140 < frame", "frame.number > 140"),
    ('time > "2026-11-20T19:45:01Z"', 'frame.time > "2026-11-20T19:45:01Z"'),
    ("time_ns > 1795203901000000000", 'frame.time > "2026-11-20T19:45:01Z"'),
    ("connection == 3", "tcp.stream == 3"),
    ("sender == client and type == Publish", "frame.sender == client and frame.type == Publish"),
    ("type in {Publish, Deliver}", "frame.type in {Publish, Deliver}"),
    ("length > 100 && offset < 1000", "frame.length > 100 && frame.offset < 1000"),
    ("protocol == rabbitmq_stream and status == ok", "frame.protocol == rabbitmq_stream and frame.status == ok"),
    ("packets == 45", "frame.packets == 45"),
    ("request == 29", "frame.request == 29"),
    ("response", "frame.response"),
    ("latency_ns > 1000000", "latency > 1ms"),
    ('src == "127.0.0.1:37512"', "tcp.srcport == 37512"),
    ('dst contains ":37512"', "tcp.dstport == 37512"),
    ("layers.rabbitmq_stream.publisher_id == 0", "rabbitmq_stream.publisher_id == 0"),
    ("code == 2", "frame.code == 2"),
]


@pytest.mark.parametrize(("record", "filtered"), BOTH)
def test_filters_accept_names_of_records(record: str, filtered: str) -> None:
    assert numbers(record) == numbers(filtered) != []


def test_findings_have_the_name_of_records() -> None:
    damaged = "rabbitmq-stream/d_drop1pct.pcap"
    assert numbers("findings.severity == warning", damaged) == numbers("finding.severity == warning", damaged) != []
    assert numbers("findings", damaged) == numbers("finding", damaged)


def test_every_key_of_a_record_is_a_filter_name() -> None:
    for key in set().union(*records(BASIC)) - {"layers"}:
        compile_filter(f"{key} || frame")


@pytest.mark.parametrize(
    ("name", "capture"),
    [
        ("cursus.member", "cursus/group.pcap"),
        ("cursus.generation", "cursus/group.pcap"),
        ("cursus.isolation", "cursus/consume.pcap"),
        ("rabbitmq_stream.messages.amqp", "rabbitmq-stream/c310_basic.pcap"),
        ("nats.options.unknown_option", "nats/12-grammar-variants.pcap"),
    ],
)
def test_keys_that_only_records_have_are_filter_names(name: str, capture: str) -> None:
    """Issue 27, point 14: parameters of Cursus, and members of JSON that no layer declares."""
    there = [row["frame"] for row in records(capture) if name in keys_of(row["layers"] or {})]
    assert numbers(name, capture) == there != []


def test_parameters_are_compared() -> None:
    assert numbers('cursus.group == "workers"', "cursus/group.pcap")
    assert numbers("cursus.type == JOIN_GROUP", "cursus/group.pcap") == numbers(
        "type == JOIN_GROUP", "cursus/group.pcap"
    )
    assert numbers("cursus.generation >= 1", "cursus/group.pcap") == numbers("cursus.generation", "cursus/group.pcap")


def test_a_misspelt_json_member_is_an_error() -> None:
    with pytest.raises(FilterError, match=r"did you mean 'nats\.options\.server_id'"):
        compile_filter("nats.options.sever_id")


def test_a_bare_word_after_a_field_is_a_value_even_if_a_key_has_that_name() -> None:
    assert numbers("rabbitmq_stream.offset_type == offset") == numbers('rabbitmq_stream.offset_type == "offset"')
    assert numbers("rabbitmq_stream.offset_type in {offset, first}") != []


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("typ", "frame.type"),
        ("frame.typ", "frame.type"),
        ("lenght", "frame.length"),
        ("tcp.analysis.retransmision", "tcp.analysis.retransmission"),
        ("rabbitmqstream", "rabbitmq_stream"),
        ("publisherid", "rabbitmq_stream.publisher_id"),
        ("expert.severity", "finding.severity"),
        ("amqp.subject", "amqp.properties.subject"),
        ("raft.entry", "raft.entries"),
        ("conection", "tcp.stream"),
        ("rabbitmq_stream.stram", "rabbitmq_stream.stream"),
    ],
)
def test_the_suggested_name_is_plausible(asked: str, near: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(asked)
    assert caught.value.message == f"no field is called {asked!r}; did you mean {near!r}?"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("subject", "; did you mean 'liftbridge.subject' or 'nats.subject'?"),
        ("pulsar.topic", "; did you mean 'cursus.topic' or 'tank.topic'?"),
        ("tls.handshake", "; wiredecode fields tls lists those that there are"),
        ("zzz", ""),
    ],
)
def test_suggestions_for_a_name_of_several_protocols_and_of_none(asked: str, hint: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(asked)
    assert caught.value.message == f"no field is called {asked!r}{hint}"


ASKED = "frame.number,frame.time,tcp.stream,frame.type,latency,rabbitmq_stream.stream"
NAMED = ["frame", "time", "connection", "type", "latency_ns", "layers.rabbitmq_stream.stream"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "ndjson"])
def test_columns_accept_filter_names_and_keep_their_own(run: Run, tmp_path: Path, ending: str) -> None:
    outs = [tmp_path / f"{number}.{ending}" for number in range(2)]
    for out, names in zip(outs, (ASKED, ",".join(NAMED)), strict=True):
        result = run("export", CAPTURES / BASIC, "-o", out, "--columns", names, "-q")
        assert (result.code, result.err) == (0, "")
    assert outs[0].read_bytes() == outs[1].read_bytes()
    if ending == "parquet":
        assert pq.read_schema(outs[0]).names == NAMED
    if ending == "ndjson":
        assert list(json.loads(outs[0].read_bytes().splitlines()[30])) == [*NAMED[:5], "layers"]


def test_python_accepts_filter_names() -> None:
    path = CAPTURES / BASIC
    assert wiredecode.read(path, columns=["frame.number", "tcp.stream", "nats.subject"]).schema.names == [
        "frame", "connection", "layers.nats.subject"
    ]  # fmt: skip
    assert wiredecode.read(path, level="packets", columns=["frame.number"]).table().column_names == ["packet"]
    assert wiredecode.read(path, level="messages", columns=["frame.type", "type"]).table().column_names == ["type"]


def test_aliases_lead_to_existing_names() -> None:
    assert set(RECORD_NAMES.values()) <= {entry.name for entry in FRAME_ENTRIES}
