"""Structured values of Liftbridge and Raft are fields with ranges, filter names and columns in every tree.

Issue 12, point 6.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from tests.filter.support import frames, numbers
from tests.net.craft import batches
from tests.protocols.liftbridge_nats import CONNECT, one
from tests.protocols.test_liftbridge_raft import CALLEE
from tests.support import Part, craft, dissect, every
from wiredecode.fields import compiler
from wiredecode.fields.layer import Style
from wiredecode.filter import compile_filter
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import field_ranges
from wiredecode.protocols.liftbridge import layers_operations as operations
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge.layers import Publish
from wiredecode.protocols.liftbridge.layers_raft import Configuration, LogEntry, Server
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.tables.schema import frames_schema
from wiredecode.view.tree import frame_tree
from wiredecode.view.values import Raw

CHANGE = operations.RaftLog(
    op=3, change_leader_op=operations.layer_of("ChangeLeaderOp")(stream="orders", leader="lb-b")
)
SERVERS = Configuration(
    servers=[Server(suffrage=0, id="lb-a", address="lb-a"), Server(suffrage=1, id="lb-b", address="b")]
)
REPLICATION = "liftbridge/34-lb-replication.pcap.zst"


def appended() -> Frame:
    entries = [
        LogEntry(index=0x01020304, term=2, log_type=0, data=bytes(CHANGE)),
        LogEntry(index=0x01020305, term=2, log_type=5, data=bytes(SERVERS)),
    ]
    return one(bytes(raft.AppendEntries(term=2, leader="lb-a", entries=entries)), subject=CALLEE)


def test_operations_of_log_entries_are_layers_with_ranges() -> None:
    frame = appended()
    spans = field_ranges(frame)
    start, stop = spans["raft.entries[0].raft_log.change_leader_op.stream"]
    assert frame.data[start:stop] == b"\x0a\x06orders"
    start, stop = spans["raft.entries[1].configuration.servers[1].id"]
    assert frame.data[start:stop] == b"\xa2ID\xa4lb-b"
    start, stop = spans["raft.entries[0].raft_log"]
    assert frame.data[start:stop] == bytes(CHANGE)
    assert "raft.entries[0].raft_log.change_leader_op.partition" not in spans, "a default"
    packet = raft.AppendEntries(frame.inner[0].data)
    assert bytes(packet) == frame.inner[0].data
    assert packet.entries[0].raft_log.change_leader_op.stream == "orders"


@pytest.mark.parametrize(
    "text",
    [
        'raft.entries.raft_log.change_leader_op.stream == "orders"',
        "raft.entries.raft_log.change_leader_op.partition == 0",
        'raft.entries.raft_log.op == "CHANGE_LEADER"',
        'raft.entries.configuration.servers.id == "lb-b"',
        'raft.entries.configuration.servers.suffrage == "Nonvoter"',
    ],
)
def test_filters_reach_into_log_entries(text: str) -> None:
    assert compile_filter(text).matches(appended())


def test_columns_have_members_for_operations_of_entries() -> None:
    layers = frames_schema().field("layers").type
    entry = layers.field("raft").type.field("entries").type.value_type
    assert entry.field("raft_log").type.field("change_leader_op").type.field("stream").type == pa.string()


def test_trees_have_no_dictionaries() -> None:
    shown = tree(appended())
    assert "{" not in shown
    assert 'stream: "orders"' in shown and "partition: 0  [default]" in shown


def test_the_configuration_and_the_peers_of_a_snapshot_are_decoded() -> None:
    peers = bytes.fromhex("92a46c622d61a46c622d62")
    values: dict[str, Any] = {"term": 2, "configuration": SERVERS, "peers": ["lb-a", "lb-b"]}
    raw = bytes(raft.InstallSnapshot(**values))
    assert b"\xa5Peers\xab" + peers in raw
    frame = one(raw, subject=CALLEE)
    shown = (frame.layers or {})["raft"]
    assert [server["id"] for server in shown["configuration"]["servers"]] == ["lb-a", "lb-b"]
    assert shown["peers"] == ["lb-a", "lb-b"]
    assert bytes(raft.InstallSnapshot(raw)) == raw


@pytest.mark.parametrize("value", ["c0", "a3616263", "a181", "a58192a161a0"])
def test_an_invalid_configuration_stays_bytes(value: str) -> None:
    """nil, text, a truncated map, a map with another member."""
    raw = b"\x02\x81\xadConfiguration" + bytes.fromhex(value)
    packet = raft.InstallSnapshot(raw)
    assert bytes(packet) == raw
    assert compiler.careful(raft.InstallSnapshot, raw, 0, len(raw)).values == packet.values()


def tree(frame: Frame) -> str:
    console = Console(width=300, color_system=None)
    with console.capture() as capture:
        console.print(frame_tree(frame))
    return capture.get()


def test_trees_are_the_same_when_a_filter_looked_at_bytes_first() -> None:
    text = "liftbridge.entries.value == 76:61 or nats.data"
    select = compile_filter(text)
    chosen = frames(REPLICATION, select.style(Style(Raw)), select)
    plain = {frame.number: frame for frame in frames(REPLICATION, Style(Raw))}
    assert numbers(text, REPLICATION)
    for frame in chosen[:60]:
        assert tree(frame) == tree(plain[frame.number])


# Copies.


def routed(*lines: tuple[int, int, bytes]) -> list[Frame]:
    """Messages of a client (connection 1) and of a route that side 0 dialled (connection 2)."""
    info = b'INFO {"server_id":"A","server_name":"a","version":"2.12.2","proto":1,"max_payload":1048576} \r\n'
    route = b'INFO {"server_id":"B","cluster":"c","proto":2,"import":null,"export":null} \r\n'
    dialled = b'CONNECT {"verbose":false,"name":"A","cluster":"c","lnoc":true} \r\n'
    parts = [
        *(Part(1, 1, info), Part(1, 0, CONNECT), Part(2, 1, route), Part(2, 0, dialled)),
        *(Part(connection, side, line) for connection, side, line in lines),
    ]
    found = dissect(batches(craft(parts, every(1460), server_port=4222)), known=(Nats(),)).frames
    return [frame for frame in found if "size" in frame.values]


@pytest.mark.parametrize("payload", [bytes(Publish(value=b"v", stream="s")), bytes(raft.TimeoutNow())])
@pytest.mark.parametrize("side", [0, 1])
def test_messages_on_routes_are_copies_in_both_dial_directions(payload: bytes, side: int) -> None:
    subject, size = CALLEE.encode(), len(payload)
    sent, passed = routed(
        (1, 0, b"PUB %b %d\r\n%b\r\n" % (subject, size, payload)),
        (2, side, b"RMSG $G %b %d\r\n%b\r\n" % (subject, size, payload)),
    )
    assert (passed.protocol, passed.dialect) == ("liftbridge", "route")
    assert (passed.layers or {})["nats"]["copy_of"] == sent.number
    assert "copy_of" not in sent.generated


def test_first_captured_hop_is_the_original() -> None:
    payload = bytes(Publish(value=b"v"))
    first, delivered = routed(
        (2, 0, b"RMSG $G foo %d\r\n%b\r\n" % (len(payload), payload)),
        (1, 1, b"MSG foo 1 %d\r\n%b\r\n" % (len(payload), payload)),
    )
    assert "copy_of" not in first.generated
    assert delivered.generated["copy_of"] == first.number
