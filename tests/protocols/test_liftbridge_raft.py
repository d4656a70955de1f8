"""Raft in plain NATS messages: dialling, and RPCs and responses as two byte streams in messages of any size."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.protocols.liftbridge_nats import Said, carried, one
from tests.protocols.test_liftbridge_vectors import by_nr, codes, payload_of
from tests.support import STYLE
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import conversation_raft_streams
from wiredecode.protocols.liftbridge import layers_messagepack_items as items
from wiredecode.protocols.liftbridge import layers_operations as operations
from wiredecode.protocols.liftbridge import layers_raft as raft
from wiredecode.protocols.liftbridge.conversation_raft_streams import RaftStream
from wiredecode.protocols.liftbridge.layers import PropagatedRequest
from wiredecode.protocols.liftbridge.layers_raft import AppendEntries, Configuration, InstallSnapshot, LogEntry, Server
from wiredecode.protocols.shared.pairing import Request

GROUP = "ns.raft.metadata"
CALLER = f"{GROUP}.server-a.request._INBOX.aaaaaaaaaaaaaaaaaaaaaa"
CALLEE = f"{GROUP}.server-b.request._INBOX.bbbbbbbbbbbbbbbbbbbbbb"
HEARTBEAT, ANSWER, VOTE = (payload_of(by_nr(nr)) for nr in ("L42", "L43", "L44"))
DIAL = [
    Said(b'{"id":"server-a","inbox":"%s"}' % CALLER.encode(), f"{GROUP}.server-b.accept", "_INBOX.1"),
    Said(b'{"inbox":"%s"}' % CALLEE.encode(), "_INBOX.1", side=1),
]


def raft_of(frame: Frame) -> dict[str, Any]:
    record: dict[str, Any] = (frame.layers or {})["raft"]
    return record


def to_callee(*payloads: bytes) -> list[Said]:
    return [Said(payload, CALLEE) for payload in payloads]


def test_dialling_connects_the_two_streams() -> None:
    frames = carried([*DIAL, *to_callee(HEARTBEAT), Said(ANSWER, CALLER, side=1)])
    assert [frame.type for frame in frames] == [
        "RaftConnectRequest",
        "RaftConnectResponse",
        "AppendEntries",
        "AppendEntriesResponse",
    ]
    assert {frame.protocol for frame in frames} == {"liftbridge"}
    assert [frame.request for frame in frames] == [None, frames[0].number, None, frames[2].number]
    assert raft_of(frames[0]) == {"id": "server-a", "inbox": CALLER, "namespace": "ns"}
    assert raft_of(frames[3])["last_log"] == 10
    assert frames[2].expects_response


def test_responses_are_paired_in_order_of_rpcs() -> None:
    frames = carried([*DIAL, *to_callee(HEARTBEAT, HEARTBEAT, VOTE), *[Said(ANSWER, CALLER, side=1)] * 2])[2:]
    assert [frame.request for frame in frames[3:]] == [frames[0].number, frames[1].number]


def test_nothing_is_paired_if_the_dial_is_missing() -> None:
    frames = carried([*to_callee(HEARTBEAT), Said(ANSWER, CALLER, side=1)])
    assert [(frame.type, frame.request) for frame in frames] == [
        ("AppendEntries", None),
        ("AppendEntriesResponse", None),
    ]


def test_rpc_over_several_messages() -> None:
    frames = carried(to_callee(HEARTBEAT[:1], HEARTBEAT[1:2], HEARTBEAT[2:50], HEARTBEAT[50:]))
    assert [frame.type for frame in frames] == ["RaftBytes", "RaftBytes", "RaftBytes", "AppendEntries"]
    assert [codes(frame) for frame in frames] == [[("note", "raft-part")]] * 3 + [[]]
    assert (frames[3].inner[0].data, frames[3].inner[0].start) == (HEARTBEAT, None)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_message_that_ends_one_rpc_and_begins_another(cut: int) -> None:
    frames = carried(to_callee(HEARTBEAT + VOTE[:cut], VOTE[cut:] + HEARTBEAT))
    first, second = frames
    assert [inner.layer.__name__ for inner in first.inner] == ["AppendEntries", "RaftBytes"]
    assert [inner.layer.__name__ for inner in second.inner] == ["RequestVote", "AppendEntries"]
    assert raft_of(second)["further"][0]["leader"] == "server-a"
    assert second.inner[1].start is not None
    assert second.data[second.inner[1].start :][: len(HEARTBEAT)] == HEARTBEAT


def test_each_hop_is_a_separate_stream() -> None:
    """The same halves on two connections do not mix."""
    half, rest = HEARTBEAT[:40], HEARTBEAT[40:]
    hops = [Said(half, CALLEE), Said(half, CALLEE, side=1, connection=2)]
    hops += [Said(rest, CALLEE), Said(rest, CALLEE, side=1, connection=2)]
    assert [frame.type for frame in carried(hops)] == ["RaftBytes", "RaftBytes", "AppendEntries", "AppendEntries"]


def test_operations_of_log_entries() -> None:
    stream = operations.layer_of("Stream")(stream_name="foo", subject="foo.*")
    command = bytes(operations.RaftLog(op=0, create_stream_op=operations.layer_of("CreateStreamOp")(stream=stream)))
    servers = bytes(Configuration(servers=[Server(suffrage=1, id="b", address="b")]))
    written = b"\x01" + struct.pack(">qih", raft.YEAR_ONE_SECONDS + 5, 7, -1)
    entries = [
        LogEntry(index=1, term=2, log_type=0, data=command, appended_at=written),
        LogEntry(index=2, term=2, log_type=5, data=servers),
        LogEntry(index=3, term=2, log_type=1, data=None),
        LogEntry(index=4, term=2, log_type=0, data=b"not protobuf"),
    ]
    frame = one(bytes(AppendEntries(term=2, leader="a", entries=entries)), subject=CALLEE)
    shown = raft_of(frame)["entries"]
    assert shown[0]["raft_log"]["create_stream_op"]["stream"] == {
        "stream_name": "foo",
        "subject": "foo.*",
        "creation_timestamp": "1970-01-01T00:00:00.000000000Z",
    }
    assert shown[0]["appended_at"] == "1970-01-01T00:00:05.000000007Z"
    assert shown[1]["configuration"]["servers"][0]["suffrage"] == "Nonvoter"
    assert (shown[2]["log_type"], shown[2]["data"]) == ("LogNoop", None)
    assert "raft_log" not in shown[3]


def test_field_4_means_another_operation_in_the_log() -> None:
    raw = b"\x08\x03\x22\x05\x0a\x01s\x1a\x00"
    assert "change_leader_op" in operations.RaftLog(raw).values()
    assert "report_leader_op" in PropagatedRequest(bytes(PropagatedRequest()) + raw).values()


# Snapshots.


def snapshot(streams: int) -> tuple[bytes, bytes]:
    made = [operations.layer_of("Stream")(stream_name=f"s{number}") for number in range(streams)]
    metadata = bytes(operations.MetadataSnapshot(streams=made))
    content = struct.pack(">I", len(metadata)) + metadata
    return bytes(InstallSnapshot(term=1, snapshot_size=len(content))), content


def test_snapshot_bytes_that_look_like_rpcs_are_counted() -> None:
    """They begin with 00, as AppendEntries does."""
    announced, content = snapshot(40)
    assert content[0] == 0
    frames = carried(to_callee(announced, content[:100], content[100:], HEARTBEAT))
    assert [frame.type for frame in frames] == ["InstallSnapshot", "RaftBytes", "RaftSnapshot", "AppendEntries"]
    streams = (frames[2].layers or {})["raft_snapshot"]["streams"]
    assert [stream["stream_name"] for stream in streams] == [f"s{number}" for number in range(40)]


def test_snapshot_that_begins_in_the_message_of_its_rpc() -> None:
    announced, content = snapshot(3)
    frames = carried(to_callee(announced + content[:7], content[7:] + HEARTBEAT))
    assert [inner.layer.__name__ for frame in frames for inner in frame.inner] == [
        "InstallSnapshot",
        "RaftBytes",
        "Snapshot",
        "AppendEntries",
    ]


def test_empty_snapshot() -> None:
    frames = carried(to_callee(bytes(InstallSnapshot(snapshot_size=0)), HEARTBEAT))
    assert [frame.type for frame in frames] == ["InstallSnapshot", "AppendEntries"]


def test_an_absurd_snapshot_size_does_not_swallow_the_stream() -> None:
    frames = carried(to_callee(bytes(InstallSnapshot(snapshot_size=1 << 60)), HEARTBEAT))
    assert [frame.type for frame in frames] == ["InstallSnapshot", "AppendEntries"]


# Streams that are not seen from their start, or end.


def test_late_start_waits_for_the_next_rpc() -> None:
    frames = carried(to_callee(HEARTBEAT[60:], HEARTBEAT))
    assert [frame.type for frame in frames] == ["RaftBytes", "AppendEntries"]
    assert codes(frames[0]) == [("warning", "raft-unaligned")]


def test_empty_message_ends_the_stream() -> None:
    frames = carried(to_callee(HEARTBEAT[:30], b"", HEARTBEAT))
    assert [frame.type for frame in frames] == ["RaftBytes", "RaftEnd", "AppendEntries"]


def test_a_missing_message_ends_its_rpc() -> None:
    """The next RPC is read from its start, not as the rest of the previous one."""
    said = to_callee(HEARTBEAT, HEARTBEAT[:30], HEARTBEAT[30:60], HEARTBEAT, VOTE, HEARTBEAT)
    frames = carried(said, lost=[-4])
    assert [frame.type for frame in frames] == [
        *("AppendEntries", "RaftBytes", "AppendEntries", "RequestVote", "AppendEntries"),
    ]
    assert all(not frame.findings for frame in frames[3:])


def test_a_gap_inside_a_message_ends_its_rpc() -> None:
    frames = carried(to_callee(HEARTBEAT[:30], HEARTBEAT[30:], HEARTBEAT, VOTE), lost=[-5], size=100)
    assert [frame.type for frame in frames][-2:] == ["AppendEntries", "RequestVote"]
    assert "raft-unaligned" not in [code for frame in frames for _, code in codes(frame)]


def test_responses_are_not_paired_across_a_missing_message() -> None:
    said = [*DIAL, *to_callee(HEARTBEAT, HEARTBEAT), *[Said(ANSWER, CALLER, side=1)] * 2]
    frames = carried([*said, Said(b"x", side=1)], lost=[-3])
    assert [frame.request for frame in frames if frame.type == "AppendEntriesResponse"] == [None]


def test_late_responses_after_a_loss_are_not_paired_with_new_rpcs() -> None:
    """Two RPCs are in flight when bytes are lost: their responses belong to neither of the RPCs that follow."""
    stream, lost = RaftStream(), 1_000_000_000
    for step in (1, 2):
        stream.send(Request(step, lost - step))
    stream.lose_count(lost)
    stream.send(Request(3, lost + 1_000_000))
    assert [stream.answer(lost + 1_500_000), stream.answer(lost + 1_600_000)] == [None, None]
    later = Request(4, lost + 100_000_000)  # all was quiet
    stream.send(later)
    assert stream.answer(later.time_ns + 1_000_000) is later


def test_an_rpc_held_by_a_gap_past_its_response_is_not_open() -> None:
    stream = RaftStream()
    assert stream.answer(5_000_000) is None
    stream.send(Request(1, 4_000_000))
    assert stream.answer(130_000_000) is None


def test_rpcs_that_are_too_large_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_raft_streams, "MAX_RPC_BYTES", 100)
    big = bytes(AppendEntries(entries=[LogEntry(data=bytes(300))]))
    frames = carried(to_callee(big[:120], big[120:], HEARTBEAT))
    assert codes(frames[0]) == [("warning", "raft-rpc")]
    assert frames[-1].type == "AppendEntries"


def test_buffered_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_raft_streams, "MAX_HELD_BYTES", 100)
    monkeypatch.setattr(conversation_raft_streams, "MAX_STREAMS", 5)
    streams = conversation_raft_streams.RaftStreams()
    for number in range(50):
        streams.feed(("subject", number, 0), HEARTBEAT[:60])
        assert streams.held <= 100
        assert streams.held == sum(stream.held for stream in streams.streams.values())
    assert len(streams.streams) == 5


def test_parsing_byte_by_byte_is_linear() -> None:
    """An array of many items that arrives byte by byte is not parsed again with each byte."""
    stream = conversation_raft_streams.RaftStream()
    body = b"\x00\x81\xa7Another" + b"\xdc\x27\x10" + b"\x01" * 10_000
    pieces = [piece for place in range(len(body)) for piece in stream.feed(body[place : place + 1])]
    assert pieces[-1].layer is AppendEntries
    assert pieces[-1].data == body


# Odd messages.


def test_failed_rpc() -> None:
    frame = one(b"\xa5wrong\x81\xa4Term\x03", subject=CALLER)
    assert (frame.type, codes(frame)) == ("TimeoutNowResponse", [("note", "refused")])


def test_unknown_keys_and_types_are_kept() -> None:
    raw = b"\x09\x82\xa3New\x92\x01\xc0\xa4Term\xa1x"
    frame = one(raw, subject=CALLEE)
    shown = raft_of(frame)
    assert [(pair["key"], pair["value"]) for pair in shown["unknown_fields"]] == [("New", [1, None]), ("Term", "x")]
    assert frame.inner[0].layer is raft.UnknownRpc
    assert bytes(frame.inner[0].layer(raw)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b"\x03\x81\xafProtocolVersion\x03",
        b"\x03\xde\x00\x01\xda\x00\x0fProtocolVersion\xcf" + bytes(7) + b"\x03",
        b"\x03\x81\xd9\x0fProtocolVersion\xd0\xfd",
        b"\x03\x82\xa2ID\xc4\x01a\xa4Addr\xdb\x00\x00\x00\x01b",
        b"\x00\x81\xa7Entries\xdc\x00\x01\x80",
        b"\x00\x81\xa7Entries\x90",
        b"\x00\x82\xa7Entries\xc0\xa7Entries\xc0",
        b"\x01\x81\xa1X\xca\x7f\xc0\x00\x00",
        b"\x01\x82\xa1X\xd6\x01\x00\x00\x00\x02\xa1Y\xc7\x01\x02z",
    ],
)
def test_every_width_survives_a_round_trip(raw: bytes) -> None:
    layer = raft.REQUESTS[raw[0]]
    packet = layer(raw)
    assert packet.problem is None
    assert bytes(packet) == raw


def test_nesting_depth_is_limited() -> None:
    deep = b"\x91" * 40 + b"\x01"
    packet = raft.UnknownRpc(b"\x07\x81\xa1X" + deep)
    shown = raft.UnknownRpc.present(packet.values(), STYLE)
    assert shown["unknown_fields"][0]["value"] == deep.hex()
    assert items.MAX_DEPTH < 40


def test_bootstrap_is_plain_text() -> None:
    frame = one(b"server-a", subject=f"{GROUP}.bootstrap", reply=f"{GROUP}.bootstrap.reply")
    assert (frame.protocol, frame.type, raft_of(frame)) == (
        "liftbridge",
        "RaftBootstrap",
        {"server_id": "server-a", "namespace": "ns"},
    )


@pytest.mark.parametrize("payload", [b"", b"{", b'{"inbox":1}', b"[]", b'"inbox"'])
def test_accept_subject_without_dial_stays_nats(payload: bytes) -> None:
    assert one(payload, subject=f"{GROUP}.server-b.accept", reply="_INBOX.2").protocol == "nats"
