"""The path of a message: hops in real captures, and the evidence that they belong to one message."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests.cli.conftest import Run, run
from tests.cli.test_terminal import on_terminal
from tests.support import beginning
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.trace import Collector, Criteria, Finder, SightedMessage
from wiredecode.trace.sighting import Sighting, group

__all__ = ["run"]

CAPTURES = Path(__file__).parent.parent.parent / "captures"
BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
MULTI = CAPTURES / "rabbitmq-stream/c43_multi.pcap"
LIFTBRIDGE = CAPTURES / "stories/leader-killed.pcap.zst"
TANK = CAPTURES / "tank/tank_03_produce_single.pcap"
ROUTES = CAPTURES / "nats/14-cluster-routes.pcap"


def traced(run: Run, capture: Path, *words: object) -> Any:
    result = run("trace", capture, *words, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def steps(record: Any) -> list[tuple[str, str, int, int]]:
    return [(hop["hop"], hop["type"], hop["frame"], hop["connection"]) for hop in record["hops"]]


def messages_of(capture: Path, criteria: Criteria) -> list[SightedMessage]:
    finder = Finder(criteria)
    for frame in Dissector(Demand(messages=finder.messages)).frames(open_capture([str(capture)])):
        finder.frame(frame)
    collector = Collector(finder.found)
    for frame in Dissector(Demand(messages=collector.messages)).frames(open_capture([str(capture)])):
        collector.frame(frame)
    return collector.found()


def test_a_message_in_a_batch_is_followed_over_its_confirm_to_the_consumer(run: Run) -> None:
    record = traced(run, BASIC, "--text", "batch:4")
    assert steps(record) == [
        ("published", "Publish", 54, 3),
        ("confirmed", "PublishConfirm", 55, 3),
        ("delivered", "Deliver", 125, 7),
        ("stored", "StoreOffset", 134, 6),
    ]
    done = "c43_basic-stream, consumer app-1: done up to offset 31"
    assert [hop["told_by"] for hop in record["hops"]] == [None, "number 5", "the same body", done]
    assert (record["sequence"], record["offset"], record["hops"][0]["index"]) == (5, 7, 4)
    assert record["conclusions"][0] == "confirmed 200 µs after it was published"


def test_deliveries_and_times_of_every_message_equal_those_of_the_table() -> None:
    """Bodies are random there, so the table shows independently which rows are of one message."""
    rows: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for row in wiredecode.read(MULTI, level="messages"):
        rows[row["body"][:200]].append((row["frame"], row["index"]))
    found = messages_of(MULTI, Criteria(contents=(b"c43_multi",)))
    assert {each.first.body: [(one.frame, one.index) for one in each.sightings] for each in found} == rows
    assert len(found) == 216
    assert all([one.word for one in each.first.answers] == ["confirmed"] for each in found)


@pytest.mark.parametrize(
    ("words", "hops"),
    [
        (("--id", "5", "--topic", "c43_basic-stream"), [54, 55, 125, 134]),
        (("--frame", "125", "--message", "5"), [54, 55, 125, 134]),
        (("--body-bytes", "62 61 74 63 68 3a 34"), [54, 55, 125, 134]),
    ],
)
def test_a_message_is_found_by_its_id_its_frame_and_its_bytes(
    words: tuple[str, ...], hops: list[int], run: Run
) -> None:
    assert [frame for _, _, frame, _ in steps(traced(run, BASIC, *words))] == hops


def test_a_publish_to_a_cluster_passes_publisher_leader_and_both_replicas_before_its_ack(
    run: Run, tmp_path: Path
) -> None:
    """In the first 8 s of the story; docs/trace.md has it, and an unanswered publish, for the whole story."""
    record = traced(run, beginning(LIFTBRIDGE, 3600, tmp_path), "--id", "cid-load-00001")
    assert [(hop, frame) for hop, _, frame, _ in steps(record)] == [
        ("published", 2035),
        ("delivered", 2036),
        ("replicated", 2043),
        ("replicated", 2044),
        ("replicated", 2047),
        ("replicated", 2048),
        ("confirmed", 2056),
        ("confirmed", 2057),
    ]
    replicas = [hop["description"] for hop in record["hops"] if hop["frame"] in (2044, 2048)]
    assert ["lb-b.replication" in replicas[0], "lb-a.replication" in replicas[1]] == [True, True]
    assert (record["topic"], record["offset"], bytes.fromhex(record["key"])) == ("orders-stream", 0, b"k1")
    said = json.loads((CAPTURES / "stories/leader-killed.truth.json").read_bytes())["published"][0]
    assert said["sent_ns"] < record["hops"][0]["time_ns"] < record["hops"][-1]["time_ns"] < said["acked_ns"]


def test_a_publish_that_the_broker_refused_says_so(run: Run) -> None:
    record = traced(run, CAPTURES / "rabbitmq-stream/c43_puberr.pcap", "--id", "100")
    assert [hop["hop"] for hop in record["hops"]] == ["published", "refused"]


def test_a_request_is_followed_over_a_route_to_the_other_server_and_its_reply_back(run: Run) -> None:
    record = traced(run, ROUTES, "--frame", "130")
    assert [(hop, kind, frame) for hop, kind, frame, _ in steps(record)] == [
        ("published", "PUB", 130),
        ("delivered", "RMSG", 143),
        ("delivered", "MSG", 152),
        ("answered", "PUB", 153),
        ("answered", "RMSG", 154),
        ("answered", "MSG", 155),
    ]


def test_a_reply_with_the_text_of_its_request_is_a_hop_of_the_request(run: Run) -> None:
    record = traced(run, CAPTURES / "nats/04-request-reply.pcap", "--text", "q0")
    assert (record["matches"], [hop["frame"] for hop in record["hops"]]) == (1, [14, 15, 16, 17])


def test_a_key_finds_one_of_many_messages_of_a_response_with_several_partitions(run: Run) -> None:
    record = traced(run, TANK, "--key", "k1")
    assert [frame for _, _, frame, _ in steps(record)] == [4, 5, 28]
    assert (record["matches"], record["offset"], record["hops"][2]["index"]) == (1, 2, 8)


def test_a_produced_batch_is_confirmed_by_its_response(run: Run) -> None:
    record = traced(run, CAPTURES / "cursus/produce.pcap", "--text", "msg-014")
    assert steps(record) == [("published", "Batch", 57, 2), ("confirmed", "AckResponse", 58, 2)]


def test_two_consumers_of_one_offset_are_linked_without_the_publish(run: Run) -> None:
    record = traced(run, CAPTURES / "cursus/consume.pcap", "--text", "order-039")
    assert [(hop["frame"], hop["told_by"]) for hop in record["hops"]] == [(6, None), (12, "offset 39")]
    assert record["conclusions"][0] == "its publish is not in the capture"


def test_an_append_is_confirmed_by_data_appended(run: Run) -> None:
    record = traced(run, CAPTURES / "pravega/append_basic.pcap", "--text", "hello")
    assert steps(record) == [("published", "AppendBlockEnd", 8, 1), ("confirmed", "DataAppended", 9, 1)]


def passed(frame: int, operation: str, *, offset: int | None = None, sequence: int | None = None) -> Sighting:
    connection: Any = ("publisher", "consumer")[operation == "deliver"]
    where: tuple[Any, ...] = (frame, [frame], frame * 1_000_000, connection, 0, "p", "T")
    return Sighting(*where, 0, operation, "topic", None, offset, sequence, None, 4, b"digest", b"same")


def test_messages_with_the_same_body_are_matched_by_order_with_a_note() -> None:
    messages = group(
        [
            passed(0x11, "publish", sequence=0x01020304),
            passed(0x12, "publish", sequence=0x01020305),
            passed(0x13, "deliver", offset=0x0A0B0C0D),
            passed(0x14, "deliver", offset=0x0A0B0C0E),
        ]
    )
    assert [[each.frame for each in one.sightings] for one in messages] == [[0x11, 0x13], [0x12, 0x14]]
    assert messages[0].sightings[1].rests_on == "the same body, the next in order of 2 with it"


def test_a_republished_id_is_the_same_message() -> None:
    (message,) = group([passed(0x11, "publish", sequence=0x01020304), passed(0x12, "publish", sequence=0x01020304)])
    assert message.sightings[1].rests_on == "sequence 16909060, sent again"


def test_another_frame_of_the_list_is_chosen_by_its_number(run: Run) -> None:
    result = run("trace", BASIC, "--id", "1", "--nth", "3")
    assert result.lines[0] == "5 messages fit; this is number 3"
    assert result.lines[3].startswith(">   3  0.221791  frame 54  sequence 1, offset 3")
    assert max(map(len, result.lines)) <= 80


def test_bytes_of_a_body_do_not_reach_the_terminal_raw(run: Run) -> None:
    result = run("trace", MULTI, "--frame", "87", "--message", "4")
    assert r"c43_multi:c43_multi-0:1-0-3:\x11b\xe0" in result.lines[1]
    assert result.out.replace("\n", "").isprintable()


def test_no_match_is_one_line_and_exit_code_1(run: Run) -> None:
    result = run("trace", BASIC, "--text", "is not in there")
    assert (result.code, result.out, result.err) == (1, "", "no message with 'is not in there' in its body\n")
    assert run("trace", BASIC, "--text", "is not in there", "-q").err == ""


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (["--frame", "32"], "frame 32 holds no message, it is PublishConfirm of rabbitmq_stream; it answers frame 31"),
        (["--frame", "29"], "frame 29 holds no message, it is DeclarePublisher of rabbitmq_stream; ask for a frame"),
        (["--frame", "900"], "there is no frame 900: the last one is 142"),
        (["--frame", "31", "--message", "4"], "no message of frame 31 fits; it has 1 message"),
    ],
)
def test_a_frame_without_the_message_is_reported_with_an_alternative(run: Run, asked: list[str], error: str) -> None:
    result = run("trace", BASIC, *asked)
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert result.err.startswith(error)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((BASIC,), "which message? Give --frame, --id, --text, --body-bytes or --key"),
        ((BASIC, "--message", "3"), "--message needs --frame"),
        ((BASIC, "--body-bytes", "xyz"), "is not hexadecimal"),
        ((BASIC, "--text", "batch:4", "--nth", "4"), "--nth 4: the messages that match are 1"),
        (("-", "--text", "batch"), "give it files, not a pipe"),
    ],
)
def test_invalid_criteria_are_a_wrong_command_line(words: tuple[object, ...], said: str, run: Run) -> None:
    result = run("trace", *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


def test_a_truncated_capture_is_traced_and_its_damage_reported_once(run: Run, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(BASIC.read_bytes()[:-7])
    result = run("trace", cut, "--text", "batch:4")
    assert (result.code, result.err.count("cut.pcap")) == (2, 1)
    assert "frame 125" in result.out


def test_a_refused_publish_gives_the_reason(run: Run) -> None:
    deleted = CAPTURES / "stories/stream-deleted.pcap"
    record = traced(run, deleted, "--frame", 34, "--message", 1)
    assert record["conclusions"][0].startswith("refused ")
    assert record["conclusions"][0].endswith(": Publisher does not exist")


def test_a_publish_that_the_broker_dropped_as_a_duplicate_says_so(run: Run) -> None:
    dedup = CAPTURES / "rabbitmq-stream/c43_dedup.pcap"
    again, fresh = (traced(run, dedup, "--frame", 22, "--message", nth)["conclusions"][0] for nth in (2, 8))
    assert again.endswith(", but dropped: id 7 was already stored")
    assert "dropped" not in fresh


def test_lines_fit_the_terminal_and_bodies_use_remaining_room() -> None:
    shown = {width: on_terminal(width, "trace", BASIC, "--frame", "54").splitlines() for width in (80, 120, 200)}
    for width, lines in shown.items():
        assert max(map(len, lines)) <= width
    assert all(" 54  sequence 1, offset 3" in lines[1] and "c43_basic:batch:0" in lines[1] for lines in shown.values())
    assert "c43_basic:batch:0:xxxxxxxxxxxxxxxxxxxxxx" in shown[120][1] and len(shown[120]) < len(shown[80])
