"""Test vectors of TANK: whole messages in hex, and the values of their records (dotted paths).

Real traffic of release 4.0, but for V38 to V40, which were made by hand. ``after`` is the request decoded before
the response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Vector:
    name: str
    what: str
    sender: str
    type: str
    hex: str
    expected: dict[str, Any] = field(default_factory=dict)
    after: str | None = None

    @property
    def data(self) -> bytes:
        return bytes.fromhex(self.hex)


END = 2**64 - 1

VECTORS = [
    Vector(
        "V01",
        "ping",
        "server",
        "Ping",
        "0300000000",
        {"payload_length": 0},
    ),
    Vector(
        "V02",
        "status",
        "client",
        "Status",
        "0a0400000001000000",
        {"request_id": 1},
    ),
    Vector(
        "V03",
        "status of a standalone broker",
        "server",
        "StatusResponse",
        "0a1e00000001000000000000000000000000000000000000000000fa97006b90010000",
        {
            "request_id": 1,
            "cluster_aware": False,
            "topic_count": 0,
            "partition_count": 0,
            "open_partitions": 0,
            "open_time": 0,
            "start_time": "2026-11-20T18:56:58.000Z",
            "release": 400,
        },
    ),
    Vector(
        "V04",
        "status of a node of a cluster",
        "server",
        "StatusResponse",
        "0a2d00000001000000000100000000000000000009746b636c7573746572020000000000000000000000b19d006b90010000",
        {"cluster_aware": True, "cluster_flags": 0, "cluster_name": "tkcluster", "available_nodes": 2, "release": 400},
    ),
    Vector(
        "V05",
        "create a topic with a configuration",
        "client",
        "CreateTopic",
        "074000000003000000066576656e74730100326c6f672e726574656e74696f6e2e736563733d333630300a6c6f672e7365676d656e742e62797465733d313034383537360a",
        {
            "request_id": 3,
            "topic": "events",
            "partition_count": 1,
            "configuration_length": 50,
            "configuration": "log.retention.secs=3600\nlog.segment.bytes=1048576\n",
        },
    ),
    Vector(
        "V06",
        "the topic exists",
        "server",
        "CreateTopicResponse",
        "070c00000002000000066f726465727301",
        {"request_id": 2, "topic": "orders", "result": "already exists", "result_code": 1},
    ),
    Vector(
        "V07",
        "discover all partitions",
        "client",
        "DiscoverPartitions",
        "060b00000007000000066f7264657273",
        {"request_id": 7, "topic": "orders"},
    ),
    Vector(
        "V08",
        "no such topic",
        "server",
        "DiscoverPartitionsResponse",
        "060b00000008000000046e6f70650000",
        {"request_id": 8, "topic": "nope", "partition_count": 0, "partitions": []},
    ),
    Vector(
        "V09a",
        "discover two partitions by number",
        "client",
        "DiscoverPartitions",
        "060c0000000400000003666f6f01000000",
        {"request_id": 4, "topic": "foo", "partitions": [1, 0]},
    ),
    Vector(
        "V09b",
        "both without a leader",
        "server",
        "DiscoverPartitionsResponse",
        "062c0000000400000003666f6f0200fffffffffffffffffffffffffffffffffdfffffffffffffffffffffffffffffffffd",
        {
            "partition_count": 2,
            "partitions.0.first_available": END,
            "partitions.0.reason": "no leader",
            "partitions.0.reason_code": 253,
            "partitions.0.partition": 1,
            "partitions.1.partition": 0,
            "partitions.1.high_water_mark": END,
        },
        after="V09a",
    ),
    Vector(
        "V10",
        "one elsewhere, one here and empty",
        "server",
        "DiscoverPartitionsResponse",
        "0630000000010000000263740200fffffffffffffffffffffffffffffffffc7f000002032b00000000000000000000000000000000",
        {
            "partitions.0.reason": "another node leads",
            "partitions.0.endpoint": "127.0.0.2:11011",
            "partitions.1.first_available": 0,
            "partitions.1.high_water_mark": 0,
        },
    ),
    Vector(
        "V11",
        "three topics",
        "server",
        "DiscoverTopicsResponse",
        "0b250000000a0000000300000000066f7264657273010300066576656e74730101000462616432010200",
        {
            "request_id": 10,
            "topic_count": 3,
            "cluster_aware": False,
            "topics": [
                {"topic": "orders", "enabled": True, "partition_count": 3},
                {"topic": "events", "enabled": True, "partition_count": 1},
                {"topic": "bad2", "enabled": True, "partition_count": 2},
            ],
        },
    ),
    Vector(
        "V12",
        "topics of a cluster",
        "server",
        "DiscoverTopicsResponse",
        "0b1000000002000000010000000102637401020002",
        {
            "cluster_aware": True,
            "topics": [{"topic": "ct", "enabled": True, "partition_count": 2, "replication_factor": 2}],
        },
    ),
    Vector(
        "V13",
        "no cluster",
        "server",
        "DiscoverTopologyResponse",
        "0c0600000003000000ffff",
        {"request_id": 3, "node_count": 65535},
    ),
    Vector(
        "V14",
        "two nodes",
        "server",
        "DiscoverTopologyResponse",
        "0c2600000001000000020009746b636c75737465720100037f000001032b02000200037f000002032b0200",
        {
            "cluster_name": "tkcluster",
            "nodes.0.node_id": 1,
            "nodes.0.flags": ["endpoint", "available"],
            "nodes.0.endpoint": "127.0.0.1:11011",
            "nodes.0.partition_count": 2,
            "nodes.1.endpoint": "127.0.0.2:11011",
        },
    ),
    Vector(
        "V15a",
        "reload",
        "client",
        "ReloadPartitionConfiguration",
        "080a0000000100000003666f6f0100",
        {"request_id": 1, "topic": "foo", "partition": 1},
    ),
    Vector(
        "V15b",
        "nothing to reload",
        "server",
        "ReloadPartitionConfigurationResponse",
        "080b0000000100000003666f6f010002",
        {"topic": "foo", "partition": 1, "result_code": 2},
        after="V15a",
    ),
    Vector(
        "V16",
        "one message",
        "client",
        "Produce",
        "012800000002000100000003632b2b00000000000103666f6f0100001004000068e5cf8b0100000568656c6c6f",
        {
            "client_version": 2,
            "request_id": 1,
            "client_id": "c++",
            "required_acks": 0,
            "ack_timeout": 0,
            "topics.0.topic": "foo",
            "topics.0.partitions.0.partition": 0,
            "topics.0.partitions.0.bundle_length": 16,
            "topics.0.partitions.0.bundle.flags": 4,
            "topics.0.partitions.0.bundle.message_count": 1,
            "topics.0.partitions.0.bundle.codec": "none",
            "topics.0.partitions.0.bundle.messages": [
                {"flags": [], "timestamp": "2023-11-14T22:13:20.000Z", "body_length": 5, "body": "68656c6c6f"}
            ],
        },
    ),
    Vector(
        "V17",
        "key, same timestamp, empty body",
        "client",
        "Produce",
        "013100000002000300000003632b2b00000000000101760100001b0c010068e5cf8b010000016b0176020177000168e5cf8b01000000",
        {
            "topics.0.partitions.0.bundle.message_count": 3,
            "topics.0.partitions.0.bundle.messages": [
                {
                    "flags": ["key"],
                    "timestamp": "2023-11-14T22:13:20.000Z",
                    "key": "6b",
                    "body_length": 1,
                    "body": "76",
                },
                {"flags": ["same_timestamp"], "timestamp": "2023-11-14T22:13:20.000Z", "body_length": 1, "body": "77"},
                {"flags": [], "timestamp": "2023-11-14T22:13:20.001Z", "body_length": 0, "body": ""},
            ],
        },
    ),
    Vector(
        "V18",
        "count as varint",
        "client",
        "Produce",
        "014000000002000400000003632b2b00000000000101760100002a0010000068e5cf8b01000000020002000200020002000200020002000200020002000200020002000200",
        {
            "topics.0.partitions.0.bundle.flags": 0,
            "topics.0.partitions.0.bundle.message_count": 16,
            "messages": 16,
            "topics.0.partitions.0.bundle.messages.15": {
                "flags": ["same_timestamp"],
                "timestamp": "2023-11-14T22:13:20.000Z",
                "body_length": 0,
                "body": "",
            },
        },
    ),
    Vector(
        "V19",
        "snappy",
        "client",
        "Produce",
        "015b00000002000200000003632b2b00000000000101760100004505d7082c000068e5cf8b010000cc0841fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe01001d01",
        {
            "topics.0.partitions.0.bundle.codec": "snappy",
            "topics.0.partitions.0.bundle.uncompressed_length": 1111,
            "topics.0.partitions.0.bundle.messages": [
                {
                    "flags": [],
                    "timestamp": "2023-11-14T22:13:20.000Z",
                    "body_length": 1100,
                    "body": "41" * 1100,
                }
            ],
        },
    ),
    Vector(
        "V20",
        "stored",
        "server",
        "ProduceResponse",
        "01050000000200000000",
        {"request_id": 2, "results": [{"result": "OK", "result_code": 0}]},
    ),
    Vector(
        "V21a",
        "three topics, some unknown",
        "client",
        "Produce",
        "017700000002000400000003632b2b000000000003046e6f70650203000c04000068e5cf8b010000017800000c04000068e5cf8b010000017803666f6f0209001304000068e5cf8b01000008626164207061727400001004000068e5cf8b01000005616761696e036261720101000d04000068e5cf8b010000026f6b",
        {
            "topics.0.topic": "nope",
            "topics.0.partitions.0.partition": 3,
            "topics.0.partitions.1.partition": 0,
            "topics.1.partitions.0.partition": 9,
            "topics.1.partitions.1.partition": 0,
            "topics.2.topic": "bar",
            "targets": "nope/3 nope/0 foo/9 foo/0 bar/1",
        },
    ),
    Vector(
        "V21b",
        "one byte for a whole topic",
        "server",
        "ProduceResponse",
        "010800000004000000ff010000",
        {
            "results": [
                {"result": "unknown topic", "result_code": 255, "topic": "nope", "partitions": [3, 0]},
                {"result": "unknown partition", "result_code": 1, "topic": "foo", "partition": 9},
                {"result": "OK", "result_code": 0, "topic": "foo", "partition": 0},
                {"result": "OK", "result_code": 0, "topic": "bar", "partition": 1},
            ]
        },
        after="V21a",
    ),
    Vector(
        "V22",
        "redirect inside the results",
        "server",
        "ProduceResponse",
        "010c0000000100000000fc7f000002032b",
        {"results.0.result": "OK", "results.1.result": "another node leads", "results.1.endpoint": "127.0.0.2:11011"},
    ),
    Vector(
        "V23",
        "sparse bundle with gaps",
        "client",
        "ProduceWithBaseSequenceNumber",
        "056000000002000100000003632b2b00000000000103676170010000400500000000000000580500000000000000e207000068e5cf8b0100000267310602673201030168e5cf8b010000016b0267330602673402a002026735000268e5cf8b010000026736",
        {
            "topics.0.partitions.0.base_sequence_number": 5,
            "topics.0.partitions.0.bundle.flags": 88,
            "topics.0.partitions.0.bundle.sparse": True,
            "topics.0.partitions.0.bundle.message_count": 6,
            "topics.0.partitions.0.bundle.first_sequence_number": 5,
            "topics.0.partitions.0.bundle.last_delta": 994,
            "topics.0.partitions.0.bundle.messages.0.sequence_number": 5,
            "topics.0.partitions.0.bundle.messages.1.sequence_number": 6,
            "topics.0.partitions.0.bundle.messages.2.sequence_number": 10,
            "topics.0.partitions.0.bundle.messages.2.gap": 3,
            "topics.0.partitions.0.bundle.messages.2.key": "6b",
            "topics.0.partitions.0.bundle.messages.3.sequence_number": 11,
            "topics.0.partitions.0.bundle.messages.4.sequence_number": 300,
            "topics.0.partitions.0.bundle.messages.4.gap": 288,
            "topics.0.partitions.0.bundle.messages.5.sequence_number": 1000,
            "topics.0.partitions.0.bundle.messages.5.body": "6736",
            "first_sequence_number": 5,
            "last_sequence_number": 1000,
        },
    ),
    Vector(
        "V24",
        "number refused, answered with id 1",
        "server",
        "ProduceResponse",
        "0105000000010000000a",
        {
            "request_id": 1,
            "results": [
                {"result": "sequence number not above the last", "result_code": 10, "topic": "gap", "partition": 0}
            ],
        },
        after="V23",
    ),
    Vector(
        "V25a",
        "from the first message",
        "client",
        "Consume",
        "0225000000020006000000000000000000000000000000000101760100000000000000000000a0860100",
        {
            "client_version": 2,
            "request_id": 6,
            "client_id": "",
            "max_wait": 0,
            "min_bytes": 0,
            "topics.0.topic": "v",
            "topics.0.partitions": [
                {"partition": 0, "sequence_number": 0, "fetch_size": 100000, "start": "first available message"}
            ],
        },
    ),
    Vector(
        "V25b",
        "four bundles of four kinds",
        "server",
        "ConsumeResponse",
        "02d40000001f00000006000000010176010000000100000000000000c800000000000000b10000004505d7082c000068e5cf8b010000cc0841fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe01001d011b0c010068e5cf8b010000016b0176020177000168e5cf8b010000002a0010000068e5cf8b010000000200020002000200020002000200020002000200020002000200020002002350640000000000000063000068e5cf8b01000002783006027831020302783202027833",
        {
            "header_length": 31,
            "topics.0.partitions.0.base_sequence_number": 1,
            "topics.0.partitions.0.high_water_mark": 200,
            "topics.0.partitions.0.chunk_length": 177,
            "chunks.0.topic": "v",
            "chunks.0.bundles.0.bundle.codec": "snappy",
            "chunks.0.bundles.0.bundle.messages.0.sequence_number": 1,
            "chunks.0.bundles.1.bundle.messages.0.sequence_number": 2,
            "chunks.0.bundles.1.bundle.messages.2.sequence_number": 4,
            "chunks.0.bundles.2.bundle.messages.0.sequence_number": 5,
            "chunks.0.bundles.2.bundle.messages.15.sequence_number": 20,
            "chunks.0.bundles.3.bundle.messages.0.sequence_number": 100,
            "chunks.0.bundles.3.bundle.messages.1.sequence_number": 101,
            "chunks.0.bundles.3.bundle.messages.2.sequence_number": 105,
            "chunks.0.bundles.3.bundle.messages.3.sequence_number": 200,
            "messages": 24,
        },
        after="V25a",
    ),
    Vector(
        "V26",
        "sparse first: no base",
        "server",
        "ConsumeResponse",
        "023f0000001700000007000000010176010000fec800000000000000240000002350640000000000000063000068e5cf8b01000002783006027831020302783202027833",
        {
            "topics.0.partitions": [
                {
                    "partition": 0,
                    "result": "OK, first bundle is sparse",
                    "result_code": 254,
                    "high_water_mark": 200,
                    "chunk_length": 36,
                }
            ],
            "chunks.0.bundles.0.bundle.last_delta": 99,
            "chunks.0.bundles.0.bundle.messages.2.sequence_number": 105,
            "chunks.0.bundles.0.bundle.messages.3.sequence_number": 200,
            "chunks.0.bundles.0.bundle.messages.3.body": "7833",
        },
    ),
    Vector(
        "V27",
        "boundary check",
        "server",
        "ConsumeResponse",
        "022b0000002700000008000000010176010000010000000000000000c800000000000000000000000100000000000000",
        {
            "topics.0.partitions": [
                {
                    "partition": 0,
                    "result": "boundary check failed",
                    "result_code": 1,
                    "base_sequence_number": 0,
                    "high_water_mark": 200,
                    "chunk_length": 0,
                    "first_available": 1,
                }
            ]
        },
    ),
    Vector(
        "V28",
        "unknown topic, three partitions announced",
        "server",
        "ConsumeResponse",
        "02110000000d0000000100000001046e6f706503ffff",
        {"topics": [{"topic": "nope", "partition_count": 3, "unknown_topic": 65535}], "chunks": []},
    ),
    Vector(
        "V29",
        "unknown partition",
        "server",
        "ConsumeResponse",
        "02110000000d000000010000000103666f6f010700ff",
        {"topics.0.partitions": [{"partition": 7, "result": "unknown partition", "result_code": 255}]},
    ),
    Vector(
        "V30a",
        "from the end",
        "client",
        "Consume",
        "0227000000020001000000008813000000000000000000000103676170010000ffffffffffffffff10270000",
        {
            "max_wait": 5000,
            "topics.0.partitions.0.sequence_number": END,
            "topics.0.partitions.0.start": "end: new messages only",
        },
    ),
    Vector(
        "V30b",
        "woken by a sparse bundle, base present",
        "server",
        "ConsumeResponse",
        "0249000000210000000100000001036761700100000032000000000000004b00000000000000240000002350320000000000000018000068e5cf8b01000002743102090274320602743302027434",
        {
            "topics.0.partitions.0.result_code": 0,
            "topics.0.partitions.0.base_sequence_number": 50,
            "topics.0.partitions.0.requested_start": "end: new messages only",
            "chunks.0.bundles.0.bundle.messages.0.sequence_number": 50,
            "chunks.0.bundles.0.bundle.messages.1.sequence_number": 60,
            "chunks.0.bundles.0.bundle.messages.2.sequence_number": 61,
            "chunks.0.bundles.0.bundle.messages.3.sequence_number": 75,
        },
        after="V30a",
    ),
    Vector(
        "V31a",
        "the wait expired",
        "server",
        "ConsumeResponse",
        "022500000021000000070000000103666f6f0100000000000000000000003c0000000000000000000000",
        {"topics.0.partitions.0.base_sequence_number": 0, "topics.0.partitions.0.high_water_mark": 60, "messages": 0},
    ),
    Vector(
        "V31b",
        "nothing new, answered immediately",
        "server",
        "ConsumeResponse",
        "022500000021000000050000000103666f6f0100000001000000000000003c0000000000000000000000",
        {"topics.0.partitions.0.base_sequence_number": 1, "topics.0.partitions.0.high_water_mark": 60},
    ),
    Vector(
        "V32a",
        "small fetch size",
        "client",
        "Consume",
        "0227000000020005000000000000000000000000000000000103666f6f010000000000000000000032000000",
        {"topics.0.partitions.0.fetch_size": 50},
    ),
    Vector(
        "V32b",
        "the last bundle is truncated",
        "server",
        "ConsumeResponse",
        "025700000021000000050000000103666f6f0100000001000000000000001e0000000000000032000000cb020c000068e5cf8b010000643030303030302d2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e",
        {
            "chunks.0.bundles": [],
            "chunks.0.partial_bundle.bundle_length": 331,
            "chunks.0.partial_bundle.flags": 12,
            "chunks.0.partial_bundle.messages": [],
            "chunks.0.partial_bundle.present_bytes": 48,
            "chunks.0.partial_bundle.missing_bytes": 283,
        },
        after="V32a",
    ),
    Vector(
        "V33",
        "version 3 with options",
        "client",
        "Consume",
        "023800000003000b000000027633000000000000000000000000010103666f6f020000050000000000000010270000010000000000000000000a000000",
        {
            "client_version": 3,
            "options": ["prefer_local_replica"],
            "client_id": "v3",
            "topics.0.partitions": [
                {"partition": 0, "sequence_number": 5, "fetch_size": 10000},
                {"partition": 1, "sequence_number": 0, "fetch_size": 10, "start": "first available message"},
            ],
        },
    ),
    Vector(
        "V34",
        "redirect",
        "server",
        "ConsumeResponse",
        "0216000000120000000600000001026374010000fc7f000001032b",
        {
            "topics.0.partitions": [
                {"partition": 0, "result": "another node serves", "result_code": 252, "endpoint": "127.0.0.1:11011"}
            ]
        },
    ),
    Vector(
        "V35a",
        "a replica asks",
        "client",
        "ConsumeAsPeer",
        "094700000007000000000000000000000000000200046e6f7065010000000100000000000000a086010003666f6f020000000c0000000000000000100000090001000000000000000a000000",
        {
            "replica_id": 7,
            "max_wait": 0,
            "min_bytes": 0,
            "topics.0.topic": "nope",
            "topics.0.partitions.0.fetch_size": 100000,
            "topics.1.partitions.0.sequence_number": 12,
            "topics.1.partitions.1.partition": 9,
        },
    ),
    Vector(
        "V35b",
        "unknown topic, data, unknown partition",
        "server",
        "ConsumeAsPeerResponse",
        "098b0000002b0000000200046e6f70650100ffff03666f6f02000000000a000000000000000c000000000000005c0000000900ff5b0c000968e5cf8b010000143030303030392d2e2e2e2e2e2e2e2e2e2e2e2e2e000a68e5cf8b010000143030303031302d2e2e2e2e2e2e2e2e2e2e2e2e2e000b68e5cf8b010000143030303031312d2e2e2e2e2e2e2e2e2e2e2e2e2e",
        {
            "topics.0.unknown_topic": 65535,
            "topics.1.partitions.0.base_sequence_number": 10,
            "topics.1.partitions.0.requested_sequence_number": 12,
            "topics.1.partitions.1.result": "unknown partition",
            "chunks.0.topic": "foo",
            "chunks.0.bundles.0.bundle.messages.0.sequence_number": 10,
            "chunks.0.bundles.0.bundle.messages.0.below_requested": True,
            "chunks.0.bundles.0.bundle.messages.2.sequence_number": 12,
            "messages": 3,
        },
        after="V35a",
    ),
    Vector(
        "V36",
        "stray bytes after an expired wait",
        "server",
        "ConsumeAsPeerResponse",
        "093e0000003a00000000000000010003666f6f020000000000000000000000000c00000000000000000000000100000000000000000000000000000000000000000000",
        {
            "header_length": 58,
            "stray": 0,
            "topics.0.topic": "foo",
            "topics.0.partitions.0.high_water_mark": 12,
            "topics.0.partitions.1.high_water_mark": 0,
        },
    ),
    Vector(
        "V37",
        "replication",
        "server",
        "ConsumeAsPeerResponse",
        "093e0000001e00000001000263740100000000220000000000000022000000000000001c0000001b04016468e5cf8b01000001720e7265706c696361746564206f6e65",
        {
            "topics.0.partitions.0.base_sequence_number": 34,
            "chunks.0.bundles.0.bundle.messages.0.key": "72",
            "chunks.0.bundles.0.bundle.messages.0.sequence_number": 34,
            "chunks.0.bundles.0.bundle.messages.0.timestamp": "2023-11-14T22:13:20.100Z",
            "chunks.0.bundles.0.bundle.messages.0.body": "7265706c696361746564206f6e65",
        },
    ),
    Vector(
        "V38",
        "bit 7 as in the document",
        "client",
        "Produce",
        "014600000002000100000003632b2b00000000000103666f6f0100002e88010700000088776655443322110900000068e5cf8b0100000872696368206f6e6503016b08726963682074776f",
        {
            "topics.0.partitions.0.bundle.flags": 136,
            "topics.0.partitions.0.bundle.extra": {
                "extra_flags": ["producer_info"],
                "leader_epoch": 7,
                "producer_id": 1234605616436508552,
                "producer_epoch": 9,
            },
            "topics.0.partitions.0.bundle.message_count": 2,
            "topics.0.partitions.0.bundle.messages.0.body": "72696368206f6e65",
            "topics.0.partitions.0.bundle.messages.1.key": "6b",
            "topics.0.partitions.0.bundle.messages.1.body": "726963682074776f",
        },
    ),
    Vector(
        "V39",
        "obsolete",
        "client",
        "RegisterReplica",
        "04020000000900",
        {"replica_id": 9},
    ),
    Vector(
        "V40",
        "system error, no leader",
        "server",
        "ConsumeResponse",
        "021400000010000000050000000103666f6f020000fb0100fd",
        {
            "topics.0.partitions": [
                {"partition": 0, "result": "system error", "result_code": 251},
                {"partition": 1, "result": "no leader", "result_code": 253},
            ]
        },
    ),
]

BY_NAME = {vector.name: vector for vector in VECTORS}
