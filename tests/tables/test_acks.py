"""Acks of deliveries in the table of messages: real JetStream against its frames, and crafted consumers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests.net import craft
from wiredecode.capture import open_capture
from wiredecode.cli import main
from wiredecode.tables.reader import TableReader

ROOT = Path(__file__).parents[2]
POISON = ROOT / "captures/reports/n_max_deliver.pcap.zst"
"""Its client wrote down 115 messages that it got, and 20 that it refused: 20, 40, 60, 80 and 100, four times each."""
LATE = ROOT / "tests/check/arrivals/n_late_ack.pcap.zst"
NO_ACKS = ROOT / "captures/flows/nh-acknone.pcap.zst"
JETSTREAM = (POISON, LATE, ROOT / "captures/nats/13-jetstream.pcap")
ACK = "$JS.ACK."


def deliveries(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows = wiredecode.read(str(path), level="messages", **options).to_arrow().to_pylist()
    return [row for row in rows if row["operation"] == "deliver" and not row["topic"].startswith(("$", "_INBOX"))]


def plain(path: Path) -> dict[int, tuple[int, int, bytes]]:
    """By frame that delivers: time of its ack in ns, and after how many ns, by the subjects alone."""
    sent: dict[str, tuple[int, int]] = {}
    acks: dict[int, tuple[int, int, bytes]] = {}
    reader = TableReader(open_capture([path]), "frames", columns=["frame", "time", "type", "layers"])
    for row in (row for batch in reader for row in batch.to_pylist()):
        values, time_ns = row["layers"]["nats"] or {}, row["time"].value
        if row["type"] in ("MSG", "HMSG") and (values["reply"] or "").startswith(ACK):
            sent.setdefault(values["reply"], (row["frame"], time_ns))
        elif row["type"] in ("PUB", "HPUB") and values["subject"] in sent and values["data"] != b"+WPI":
            frame, since_ns = sent.pop(values["subject"])
            acks[frame] = time_ns, time_ns - since_ns, values["data"]
    return acks


@pytest.mark.parametrize("path", JETSTREAM, ids=lambda path: path.name.partition(".")[0])
def test_each_ack_is_found_with_its_time(path: Path) -> None:
    expected = plain(path)
    found = {row["frame"]: row for row in deliveries(path) if row["confirmed_time_ns"] is not None}
    assert expected
    assert {frame: (row["confirmed_time_ns"], row["latency_ns"]) for frame, row in found.items()} == {
        frame: ack[:2] for frame, ack in expected.items()
    }
    refused = {frame for frame, ack in expected.items() if ack[2].startswith((b"-NAK", b"+TERM"))}
    assert {frame for frame, row in found.items() if row["outcome"] == "refused"} == refused


def test_refusals_equal_those_of_the_client() -> None:
    rows = deliveries(POISON)
    assert Counter(row["outcome"] for row in rows) == {"ok": 95, "refused": 20}
    refused = Counter((row["offset"], row["refusal"]) for row in rows if row["outcome"] == "refused")
    assert refused == {(sequence, '-NAK {"delay": 500000000}'): 4 for sequence in (20, 40, 60, 80, 100)}


@pytest.mark.parametrize("path", [POISON, LATE, NO_ACKS])
def test_one_pass_and_two_and_blocks_agree(path: Path) -> None:
    rows = deliveries(path)
    assert deliveries(path, two_passes=True) == rows
    for blocks in (True, False):
        reader = TableReader(open_capture([path], batch_bytes=4096), "messages", blocks=blocks)
        alike = {row["frame"]: row for batch in reader for row in batch.to_pylist()}
        assert [alike[row["frame"]] for row in rows] == rows


def test_a_consumer_that_acknowledges_nothing_waits_for_nothing() -> None:
    assert {(row["outcome"], row["confirmed_time_ns"]) for row in deliveries(NO_ACKS)} == {(None, None)}


HELLO = (
    (1, b'INFO {"server_id":"N","version":"2.10.1","max_payload":100000}\r\n'),
    (0, b'CONNECT {"verbose":false,"lang":"go"}\r\nSUB d 1\r\nSUB _INBOX.a 2\r\n'),
)


def created(policy: str) -> tuple[tuple[int, bytes], ...]:
    """A consumer is created."""
    answer = (
        b'{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"S","name":"c","config":{"ack_p'
    )
    answer += b'olicy":"%s"}}' % policy.encode()
    return (
        (0, b"PUB $JS.API.CONSUMER.CREATE.S.c _INBOX.a 2\r\n{}\r\n"),
        (1, b"MSG _INBOX.a 2 %d\r\n%s\r\n" % (len(answer), answer)),
    )


def given(sequence: int, delivery: int, times: int = 1) -> tuple[int, bytes]:
    return 1, b"MSG orders 1 $JS.ACK.S.c.%d.%d.%d.17.0 1\r\nx\r\n" % (times, sequence, delivery)


def acked(sequence: int, delivery: int, data: bytes = b"+ACK", times: int = 1) -> tuple[int, bytes]:
    subject = b"$JS.ACK.S.c.%d.%d.%d.17.0" % (times, sequence, delivery)
    return 0, b"PUB %s %d\r\n%s\r\n" % (subject, len(data), data)


def outcomes(*steps: tuple[int, bytes]) -> list[tuple[Any, ...]]:
    """Sequence, outcome, refusal, and number of the answer in the steps of each delivery."""
    talk = craft.Talk(server=("10.0.0.2", 4222))
    made = talk.handshake()
    for side, data in (*HELLO, *steps):
        made += talk.send(side, data)
    rows = [row for batch in TableReader(craft.batches(made), "messages") for row in batch.to_pylist()]
    frames = [row for batch in TableReader(craft.batches(made), "frames") for row in batch.to_pylist()]
    first = frames[-len(steps)]["frame"]
    return [
        (row["offset"], row["outcome"], row["refusal"], row["confirm_frame"] and row["confirm_frame"] - first)
        for row in rows
        if row["topic"] == "orders"
    ]


def test_work_goes_on_until_the_ack() -> None:
    steps = [given(1, 1), acked(1, 1, b"+WPI"), acked(1, 1, b"+WPI"), acked(1, 1, b"")]
    assert outcomes(*steps) == [(1, "ok", None, 3)]
    assert outcomes(*steps[:3]) == [(1, "unanswered", None, None)]


@pytest.mark.parametrize("data", [b"", b"+ACK", b"+OK", b"+NXT", b'+NXT {"batch":1}'])
def test_forms_of_acks(data: bytes) -> None:
    assert outcomes(given(1, 1), acked(1, 1, data)) == [(1, "ok", None, 1)]


def test_reasons_of_refusals_are_text_and_short() -> None:
    assert outcomes(given(1, 1), acked(1, 1, b"+TERM bad \xff order")) == [(1, "refused", "+TERM bad \ufffd order", 1)]
    ((_, _, why, _),) = outcomes(given(1, 1), acked(1, 1, b"-NAK " + b"y" * 300))
    assert len(why) == 100


def test_what_is_no_ack_is_none() -> None:
    assert outcomes(given(1, 1), acked(1, 1, b"hello")) == [(1, "unanswered", None, None)]


def test_a_redelivery_is_another_delivery() -> None:
    steps = given(1, 1), acked(1, 1, b"-NAK"), given(1, 2, times=2), acked(1, 2, times=2)
    assert outcomes(*steps) == [(1, "refused", "-NAK", 1), (1, "ok", None, 3)]
    assert outcomes(given(1, 1), given(1, 2, times=2), acked(1, 1)) == [
        (1, "ok", None, 2),
        (1, "unanswered", None, None),
    ]


def test_policy_all_acknowledges_earlier_messages() -> None:
    steps = *created("all"), given(1, 1), given(2, 2), given(3, 3), given(4, 4), acked(3, 3), acked(4, 4)
    assert outcomes(*steps) == [*((each, "ok", None, 6) for each in (1, 2, 3)), (4, "ok", None, 7)]


def test_policy_all_and_a_refusal() -> None:
    steps = *created("all"), given(1, 1), given(2, 2), acked(2, 2, b"-NAK"), given(2, 3, times=2), acked(2, 3, times=2)
    assert outcomes(*steps) == [(1, "ok", None, 6), (2, "refused", "-NAK", 4), (2, "ok", None, 6)]


def test_policy_all_and_a_redelivery_of_an_earlier_message() -> None:
    steps = *created("all"), given(1, 1), given(2, 2), given(1, 3, times=2), acked(1, 3, times=2)
    assert outcomes(*steps)[1:] == [(2, "unanswered", None, None), (1, "ok", None, 5)]


def test_policy_explicit_acknowledges_one_message() -> None:
    steps = *created("explicit"), given(1, 1), given(2, 2), acked(2, 2)
    assert outcomes(*steps) == [(1, "unanswered", None, None), (2, "ok", None, 4)]


@pytest.mark.parametrize(("policy", "outcome"), [("explicit", "unanswered"), ("all", "unanswered"), ("none", None)])
def test_policy_decides_whether_an_ack_is_missing(policy: str, outcome: str | None) -> None:
    assert outcomes(*created(policy), given(1, 1)) == [(1, outcome, None, None)]
    assert outcomes(given(1, 1), *created(policy)) == [(1, outcome, None, None)]


def test_nothing_is_missing_where_the_policy_is_not_known() -> None:
    assert outcomes(given(1, 1), given(2, 2)) == [(1, None, None, None), (2, None, None, None)]
    assert outcomes(given(1, 1), given(2, 2), acked(2, 2))[0] == (1, "unanswered", None, None)


def test_a_consumer_created_anew_has_its_own_policy() -> None:
    steps = *created("explicit"), given(1, 1), acked(1, 1), *created("none"), given(2, 1)
    assert outcomes(*steps) == [(1, "ok", None, 3), (2, None, None, None)]


def test_answers_of_services_are_no_acks() -> None:
    steps = (1, b"MSG orders 1 _INBOX.z 1\r\nx\r\n"), (0, b"PUB _INBOX.z 1\r\ny\r\n")
    assert outcomes(*steps) == [(None, None, None, None)]


def test_trace_says_acknowledged_with_frame_and_latency(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(POISON), "--frame", "19", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [hop["hop"] for hop in told["hops"]] == ["published", "confirmed", "delivered", "acknowledged"]
    assert told["hops"][-1]["told_by"] == "the ack of frame 19, 14.8 ms after it"
    assert any(each.startswith("acknowledged once, first ") for each in told["conclusions"])
