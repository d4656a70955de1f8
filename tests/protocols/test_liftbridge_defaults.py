"""Protobuf defaults are values: fields that proto3 omits are in records, trees, filters and columns.

Issue 12, point 5.
"""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.filter.support import numbers, records
from tests.protocols.liftbridge_nats import Said, one, run
from wiredecode.protocols.liftbridge.layers import PartitionStatusResponse, PropagatedRequest, Publish
from wiredecode.protocols.liftbridge.layers_operations import layer_of
from wiredecode.view.tree import frame_tree

EPOCH = "LeaderEpochOffsetRequest"
ALL_TYPES, ACKS = "liftbridge/31-lb-all-types.pcap", "liftbridge/30-lb-publish-ack.pcap"
PROPOSED = bytes(
    PropagatedRequest(create_stream_op=layer_of("CreateStreamOp")(stream=layer_of("Stream")(stream_name="foo")))
)


@pytest.mark.parametrize(
    ("capture", "text", "types"),
    [
        (ALL_TYPES, 'liftbridge.op == "CREATE_STREAM"', {"PropagatedRequest", "PropagatedResponse"}),
        (ALL_TYPES, "liftbridge.type == LeaderEpochOffsetRequest and liftbridge.leader_epoch == 0", {EPOCH}),
        (ALL_TYPES, 'liftbridge.partition == 0 and liftbridge.type == "Publish"', {"Publish"}),
        (ACKS, 'liftbridge.ack_policy == "LEADER" and liftbridge.type == "Ack"', {"Ack"}),
        (ACKS, "liftbridge.offset == 0", {"Publish", "Ack"}),
    ],
)
def test_filters_match_defaults(capture: str, text: str, types: set[str]) -> None:
    rows = {row["frame"]: row for row in records(capture)}
    found = [rows[number]["type"] for number in numbers(text, capture)]
    assert set(found) == types, found


def test_records_have_defaults_and_filters_of_presence_see_them() -> None:
    assert one(PROPOSED).layers["liftbridge"]["op"] == "CREATE_STREAM"  # type: ignore[index]
    shown = one(bytes(PartitionStatusResponse())).layers["liftbridge"]  # type: ignore[index]
    assert (shown["exists"], shown["is_leader"]) == (False, False)
    assert one(PROPOSED).inner[0].layer(PROPOSED).build() == PROPOSED


def test_trees_mark_defaults() -> None:
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(frame_tree(one(PROPOSED)))
    assert "op: CREATE_STREAM (0)  [default]" in capture.get() or "op: CREATE_STREAM  [default]" in capture.get()
    assert 'subject: ""  [default]' in capture.get()


def test_a_truncated_message_has_no_defaults() -> None:
    """The last byte of the payload was not captured, so an absent field may have been present."""
    long = bytes(Publish(value=b"v" * 3000, ack_policy=1))
    whole, cut = (run([Said(long), Said(b"x")], lost, 1000).frames for lost in ((), (-2,)))
    records = [frame.layers["liftbridge"] for frame in whole if "liftbridge" in (frame.layers or {})]
    assert "partition" in records[0]
    partial = [frame.layers["liftbridge"] for frame in cut if "liftbridge" in (frame.layers or {})]
    assert partial
    assert not {"partition", "stream", "ack_policy"} & partial[0].keys()


@pytest.mark.parametrize(
    ("subject", "expected"), [("orders", 0), ("orders.12", None), ("orders.0", 0), ("orders.x1", 0)]
)
def test_partition_comes_from_the_subject_not_from_the_default(subject: str, expected: int | None) -> None:
    said = one(bytes(Publish(value=b"v")), subject=subject).layers["liftbridge"]  # type: ignore[index]
    assert said.get("partition") == expected
    assert not {"timestamp", "stream", "reply_subject"} & said.keys()


def test_explicit_partition_overrides_the_subject() -> None:
    said = one(bytes(Publish(value=b"v", partition=3)), subject="orders").layers["liftbridge"]  # type: ignore[index]
    assert said["partition"] == 3
