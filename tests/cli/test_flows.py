"""``wiredecode flows``: rows, choices, and what it says where there are none."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

import wiredecode
from tests.check.support import CAPTURES
from tests.cli.conftest import Run
from tests.metrics.conftest import Replayed

FOLDER = CAPTURES / "flows"
SKIPPED = FOLDER / "r-wrong-offset.pcap.zst"


def test_a_row_says_what_a_consumer_never_got(run: Run) -> None:
    result = run("flows", SKIPPED, "-q")
    assert result.lines[0].split() == ["from", "topic", "to", "published", "delivered", "skipped", "since", "until"]
    assert result.lines[2].split()[:6] == ["orders-api", "wo-orders", "billing", "350", "235", "96"]


def test_records_have_the_columns_of_the_table(run: Run) -> None:
    (record,) = map(json.loads, run("flows", SKIPPED, "--json", "-q").lines)
    (row,) = wiredecode.read(SKIPPED).flows().table().drop_columns("time").to_pylist()
    assert record == row
    assert (record["from"], record["to"], record["skipped"]) == (["orders-api"], "billing", 96)


def test_records_that_brokers_copy_from_each_other_come_to_no_consumer() -> None:
    rows = wiredecode.read(CAPTURES / "kafka" / "failover.pcap.zst").flows().table().to_pylist()
    assert [(row["topic"], row["to"]) for row in rows] == [("orders", "billing-1 in billing")]


def test_forms_of_tshark_have_the_same_rows(run: Run) -> None:
    (record,) = json.loads(run("flows", SKIPPED, "-T", "json", "-q").out)
    assert run("flows", SKIPPED, "-T", "ek", "-q").out == run("flows", SKIPPED, "--json", "-q").out
    assert record == json.loads(run("flows", SKIPPED, "-T", "ek", "-q").out)
    heads, row = (line.split("\t") for line in run("flows", SKIPPED, "-T", "tabs", "-q").lines)
    assert dict(zip(heads, row, strict=True)).items() >= {"to": "billing", "skipped": "96"}.items()
    assert run("flows", SKIPPED, "-T", "text", "-q").out == run("flows", SKIPPED, "-q").out
    assert json.loads(run("flows", SKIPPED, "-T", "json", "--topic", "none", "-q").out) == []


def test_rows_by_partition_add_up_to_the_topic() -> None:
    capture = wiredecode.read(FOLDER / "k-hot-partition.pcap.zst")
    parts = {each["partition"]: each["published"] for each in capture.flows("partition").table().to_pylist()}
    assert sum(parts.values()) == max(each["published"] for each in capture.flows().table().to_pylist()) == 800
    with pytest.raises(ValueError, match="it is one of topic, partition, client, second"):
        capture.flows("hour")


def test_topics_and_clients_are_chosen_by_part_of_their_name(run: Run) -> None:
    both = run("flows", FOLDER / "n-wrong-account.pcap.zst", "--json", "-q").lines
    chosen = run(
        "flows", FOLDER / "n-wrong-account.pcap.zst", "--json", "-q", "--client", "work", "--topic", "ord5.n"
    ).lines
    assert len(both) > len(chosen) == 1


def test_two_passes_give_the_same_rows(run: Run) -> None:
    name = FOLDER / "k-dup-group.pcap.zst"
    assert run("flows", name, "-q", "-2").out == run("flows", name, "-q").out != ""


def test_a_filter_about_answers_chooses_the_same_flows_of_an_interface(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, chosen = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap", ["-Y", 'frame.outcome == "ok"', "--json"]
    monkeypatch.setattr(
        "wiredecode.cli.capturing.capturing", lambda *_, saves: closing(Replayed(path, lambda: None, []))
    )
    assert run("flows", "-i", "lo", *chosen).out == run("flows", path, *chosen).out != ""


def test_seconds_count_from_the_first_packet(run: Run) -> None:
    lines = run("flows", FOLDER / "n-busy-poll.pcap.zst", "-q", "--by", "second").lines
    assert all(int(line.split()[0]) >= 0 for line in lines[2:])


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("tank/tank_04_produce_batches.pcap", "foo"),
        ("cursus/produce.pcap", ""),
        ("pravega/append_basic.pcap", ""),
        ("liftbridge/30-lb-publish-ack.pcap", ""),
    ],
)
def test_every_protocol_has_flows(name: str, topic: str) -> None:
    found = wiredecode.read(CAPTURES / name).flows().table().to_pylist()
    messages = wiredecode.read(CAPTURES / name).messages().table()
    sent = sum(each == "publish" for each in messages["operation"].to_pylist())
    assert sum(each["published"] for each in found) > 0
    assert sent > 0 and found[0]["topic"].startswith(topic)


def test_a_capture_without_messages_has_no_table(run: Run) -> None:
    result = run("flows", CAPTURES / "pravega/idle_keepalive.pcap", "-q")
    assert (result.code, result.out) == (0, "")
    assert "no flows" in result.err


def test_a_topic_that_is_not_there_is_answered_with_those_that_are(run: Run) -> None:
    """It said that no known protocol carried messages."""
    result = run("flows", CAPTURES / "stories/credit-starvation.pcap", "-q", "--topic", "nosuch")
    assert (result.code, result.out) == (0, "")
    assert "no topic has 'nosuch' in its name; there is orders\n" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json"], "Give capture files, or -i IFACE"),
        (["a.pcap", "--duration", "1"], "need -i"),
        (["a.pcap", "-i", "lo"], "leave out files"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, words: list[str], said: str) -> None:
    result = run("flows", *words)
    assert result.code == 2
    assert said in result.err


def test_an_unreadable_file_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"nothing of the kind")
    assert run("flows", tmp_path / "a.pcap").code == 2
