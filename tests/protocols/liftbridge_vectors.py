"""Test vectors of Liftbridge: payloads (L40, L41: whole NATS messages) and their values.

Sources: upstream's unit tests and encoder, captures of real servers, messages built with the official schemas. Header
fields with their usual values (magic, version 0, header length 8, flags 0, the type) are left out of ``values``.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Vector(NamedTuple):
    nr: str
    layer: str | None
    """Name of the layer; None: no envelope."""
    hex: str
    values: dict[str, Any]
    codes: tuple[str, ...] = ()
    """Findings."""
    status: str = "ok"


VECTORS = (
    Vector(
        "L01",
        "Publish",
        "b90e43b400080000082a1203666f6f1a0568656c6c6f208080a8b1e39fe7cb172a03666f6f3a03666f6f42057265706c794a0a0a0362617a12037175784a0a0a03666f6f1203626172520361636b5a03313233",
        {
            "offset": 42,
            "key": b"foo",
            "value": b"hello",
            "timestamp": 1700000000000000000,
            "stream": "foo",
            "subject": "foo",
            "reply_subject": "reply",
            "headers": [{"key": "baz", "value": b"qux"}, {"key": "foo", "value": b"bar"}],
            "ack_inbox": "ack",
            "correlation_id": "123",
        },
    ),
    Vector(
        "L02",
        "Publish",
        "b90e43b40008000008ffffffffffffffffff011203666f6f1a0568656c6c6f2a0a666f6f2d73747265616d3a03666f6f5208666f6f2e61636b735a033132336001",
        {
            "offset": -1,
            "key": b"foo",
            "value": b"hello",
            "stream": "foo-stream",
            "subject": "foo",
            "ack_inbox": "foo.acks",
            "correlation_id": "123",
            "ack_policy": 1,
        },
    ),
    Vector(
        "L03",
        "Publish",
        "b90e43b4000c0100ddf5f66008ffffffffffffffffff011203666f6f1a0568656c6c6f2a0a666f6f2d73747265616d3a03666f6f5208666f6f2e61636b735a033132336001",
        {
            "header_length": 12,
            "flags": 1,
            "crc": 3723884128,
            "offset": -1,
            "key": b"foo",
            "value": b"hello",
            "stream": "foo-stream",
            "subject": "foo",
            "ack_inbox": "foo.acks",
            "correlation_id": "123",
            "ack_policy": 1,
        },
    ),
    Vector(
        "L04",
        "Publish",
        "b90e43b4000c01002000000008ffffffffffffffffff011203666f6f1a0568656c6c6f2a0a666f6f2d73747265616d3a03666f6f5208666f6f2e61636b735a033132336001",
        {
            "header_length": 12,
            "flags": 1,
            "crc": 536870912,
            "offset": -1,
            "key": b"foo",
            "value": b"hello",
            "stream": "foo-stream",
            "subject": "foo",
            "ack_inbox": "foo.acks",
            "correlation_id": "123",
            "ack_policy": 1,
        },
        ("envelope-crc",),
    ),
    Vector("L05", "Publish", "b90e43b400080000", {}),
    Vector("L06", "Publish", "b90e43b4000c010000000000", {"header_length": 12, "flags": 1, "crc": 0}),
    Vector(
        "L07",
        "Publish",
        "b90e43b40010000045585452416864721a026869",
        {"header_length": 16, "extension": b"EXTRAhdr", "value": b"hi"},
        ("header-extension",),
    ),
    Vector("L08", "Publish", "b90e43b4000801001a026869", {"flags": 1, "value": b"hi"}, ("header-length",)),
    Vector("L09", "Unknown", "b90e43b401080000", {"body": b""}, ("unknown-version",)),
    Vector("L10", "Unknown", "b90e43b4000800ff", {"body": b""}, ("unknown-type",)),
    Vector("L11", "Unknown", "b90e43b4000800", {}, ("truncated-envelope",), "malformed"),
    Vector("L12", None, "4239304534334234", {}),
    Vector(
        "L13", "Publish", "b90e43b400c800001a0178", {"header_length": 200}, ("header-length", "field-cut"), "malformed"
    ),
    Vector(
        "L14",
        "Ack",
        "b90e43b4000800010a03666f6f1205666f6f2e311a03666f6f202a2a0361636b3203313233402b482c",
        {
            "stream": "foo",
            "partition_subject": "foo.1",
            "msg_subject": "foo",
            "offset": 42,
            "ack_inbox": "ack",
            "correlation_id": "123",
            "reception_timestamp": 43,
            "commit_timestamp": 44,
        },
    ),
    Vector(
        "L15",
        "Ack",
        "b90e43b4000800010a01732a0169380140055003",
        {"stream": "s", "ack_inbox": "i", "ack_policy": 1, "reception_timestamp": 5, "ack_error": 3},
        ("refused",),
    ),
    Vector("L16", "ReplicationRequest", "b90e43b4000800020a0162100a", {"replica_id": "b", "offset": 10}),
    Vector(
        "L17",
        "ReplicationRequest",
        "b90e43b4000800020a087365727665722d6210ffffffffffffffffff01180b",
        {"replica_id": "server-b", "offset": -1, "leader_epoch": 11},
    ),
    Vector(
        "L18",
        "ReplicationResponse",
        "b90e43b4000800030000000000000001ffffffffffffffff",
        {"leader_epoch": 1, "high_watermark": -1, "entries": []},
    ),
    Vector(
        "L19",
        "ReplicationResponse",
        "b90e43b40008000300000000000000020000000000000064626c6168",
        {"leader_epoch": 2, "high_watermark": 100, "entries": [], "surplus": b"blah"},
        ("surplus-bytes",),
    ),
    Vector(
        "L20",
        "ReplicationResponse",
        "b90e43b40008000300000000000000010000000000000000000000000000000017979cfe362a0000000000000000000100000025279805590100ffffffff0000000568656c6c6f000100077375626a65637400000003666f6f",
        {
            "leader_epoch": 1,
            "high_watermark": 0,
            "entries": [
                {
                    "offset": 0,
                    "timestamp": 1700000000000000000,
                    "leader_epoch": 1,
                    "size": 37,
                    "crc": 664274265,
                    "magic_byte": 1,
                    "attributes": 0,
                    "key": None,
                    "value": b"hello",
                    "headers": [{"key": "subject", "value": b"foo"}],
                }
            ],
        },
    ),
    Vector(
        "L21",
        "ReplicationResponse",
        "b90e43b40008000300000000000000070000000000000028000000000000002917979cfe362a000100000000000000070000001d49e6c9240100000000016b0000000176000100057265706c7900000000000000000000002a0000000000000005000000000000000700000010aee6ed8c0100ffffffffffffffff0000",
        {
            "leader_epoch": 7,
            "high_watermark": 40,
            "entries": [
                {
                    "offset": 41,
                    "timestamp": 1700000000000000001,
                    "leader_epoch": 7,
                    "size": 29,
                    "crc": 1239861540,
                    "magic_byte": 1,
                    "attributes": 0,
                    "key": b"k",
                    "value": b"v",
                    "headers": [{"key": "reply", "value": b""}],
                },
                {
                    "offset": 42,
                    "timestamp": 5,
                    "leader_epoch": 7,
                    "size": 16,
                    "crc": 2934369676,
                    "magic_byte": 1,
                    "attributes": 0,
                    "key": None,
                    "value": None,
                    "headers": [],
                },
            ],
        },
    ),
    Vector(
        "L22",
        "ReplicationResponse",
        "b90e43b40008000300000000000000020000000000000005000000000000000617979cfe362a0000000000000000000200000013863665390100ffffffff000000036162630000",
        {
            "leader_epoch": 2,
            "high_watermark": 5,
            "entries": [
                {
                    "offset": 6,
                    "timestamp": 1700000000000000000,
                    "leader_epoch": 2,
                    "size": 19,
                    "crc": 2251711801,
                    "magic_byte": 1,
                    "attributes": 0,
                    "key": None,
                    "value": b"abc",
                    "headers": [],
                }
            ],
        },
        ("message-crc",),
    ),
    Vector(
        "L23",
        "ReplicationResponse",
        "b90e43b400080003000000000000000000000000000000",
        {"leader_epoch": 0},
        ("field-cut",),
        "malformed",
    ),
    Vector(
        "L24",
        "RaftJoinRequest",
        "b90e43b4000800040a087365727665722d6312087365727665722d63",
        {"node_id": "server-c", "node_addr": "server-c"},
    ),
    Vector("L25", "RaftJoinResponse", "b90e43b400080005", {}),
    Vector(
        "L26",
        "RaftJoinResponse",
        "b90e43b4000800050a166e6f6465206973206e6f7420746865206c6561646572",
        {"error": "node is not the leader"},
        ("refused",),
    ),
    Vector("L27", "LeaderEpochOffsetRequest", "b90e43b400080006080b", {"leader_epoch": 11}),
    Vector("L28", "LeaderEpochOffsetResponse", "b90e43b40008000708ffffffffffffffffff01", {"end_offset": -1}),
    Vector(
        "L29",
        "PropagatedRequest",
        "b90e43b400080008121a0a180a03666f6f1203666f6f1a0c0a03666f6f1203666f6f2803",
        {
            "create_stream_op": {
                "stream": {
                    "stream_name": "foo",
                    "subject": "foo",
                    "partitions": [{"subject": "foo", "stream": "foo", "replication_factor": 3}],
                }
            }
        },
    ),
    Vector(
        "L30",
        "PropagatedRequest",
        "b90e43b40008000808063a140a0a666f6f2d73747265616d12040001ac021801",
        {"op": 6, "pause_stream_op": {"stream": "foo-stream", "partitions": [0, 1, 300], "resume_all": True}},
    ),
    Vector(
        "L31",
        "PropagatedRequest",
        "b90e43b40008000808063a070a017310011002",
        {"op": 6, "pause_stream_op": {"stream": "s", "partitions": [1, 2]}},
    ),
    Vector(
        "L32",
        "PropagatedRequest",
        "b90e43b400080008121a0a180a016322131200320b08ffffffffffffffffff016a020801",
        {
            "create_stream_op": {
                "stream": {
                    "stream_name": "c",
                    "config": {
                        "retention_max_messages": {},
                        "segment_max_age": {"value": -1},
                        "encryption": {"value": True},
                    },
                }
            }
        },
    ),
    Vector(
        "L33",
        "PropagatedResponse",
        "b90e43b400080009080b5a0c0a087365727665722d621015",
        {"op": 11, "join_consumer_group_resp": {"coordinator": "server-b", "epoch": 21}},
    ),
    Vector(
        "L34",
        "PropagatedResponse",
        "b90e43b40008000912190806121573747265616d20616c726561647920657869737473",
        {"error": {"code": 6, "msg": "stream already exists"}},
        ("refused",),
    ),
    Vector("L35", "ServerInfoRequest", "b90e43b40008000a0a03666f6f", {"id": "foo"}),
    Vector(
        "L36",
        "ServerInfoResponse",
        "b90e43b40008000b0a03666f6f1207302e302e302e3018a01f",
        {"id": "foo", "host": "0.0.0.0", "port": 4000},
    ),
    Vector("L37", "PartitionStatusRequest", "b90e43b40008000c0a03666f6f1001", {"stream": "foo", "partition": 1}),
    Vector("L38", "PartitionStatusResponse", "b90e43b40008000d08011001", {"exists": True, "is_leader": True}),
    Vector("L39", "PartitionNotification", "b90e43b40008000e0a03666f6f1002", {"stream": "foo", "partition": 2}),
    Vector(
        "L40",
        "Publish",
        "524d534720244720666f6f207c206772702031390d0ab90e43b4000c01003b88a51f1a0568656c6c6f0d0a",
        {"header_length": 12, "flags": 1, "crc": 998810911, "value": b"hello"},
    ),
    Vector(
        "L41",
        "Publish",
        "4850554220666f6f2e6830202038322039370d0a4e4154532f312e300d0a5472616365706172656e743a2030302d30303030303030303030303030303030303030303030303030303030303030302d303030303030303030303030303030302d30310d0a0d0ab90e43b4000800001a0568656c6c6f0d0a",
        {"value": b"hello"},
    ),
    Vector(
        "L42",
        "AppendEntries",
        "0087a7456e7472696573c0a64c6561646572a87365727665722d61b14c6561646572436f6d6d6974496e64657800ac507265764c6f67456e74727900ab507265764c6f675465726d00af50726f746f636f6c56657273696f6e03a45465726d02",
        {
            "entries": [],
            "leader": "server-a",
            "leader_commit_index": 0,
            "prev_log_entry": 0,
            "prev_log_term": 0,
            "protocol_version": 3,
            "term": 2,
        },
    ),
    Vector(
        "L43",
        "AppendEntriesResponse",
        "a085a74c6173744c6f670aae4e6f52657472794261636b6f6666c2af50726f746f636f6c56657273696f6e03a753756363657373c3a45465726d03",
        {"error": "", "last_log": 10, "no_retry_backoff": False, "protocol_version": 3, "success": True, "term": 3},
    ),
    Vector(
        "L44",
        "RequestVote",
        "0186a943616e646964617465a87365727665722d62ac4c6173744c6f67496e6465780aab4c6173744c6f675465726d02b24c6561646572736869705472616e73666572c3af50726f746f636f6c56657273696f6e03a45465726d03",
        {
            "candidate": "server-b",
            "last_log_index": 10,
            "last_log_term": 2,
            "leadership_transfer": True,
            "protocol_version": 3,
            "term": 3,
        },
    ),
)
