"""Test vectors of RabbitMQ Stream: hex, sender and values.

Frames V01 to V72: most were encoded and parsed by the broker's own ``rabbit_stream_core``, the others are
captured ones. The meanings come from the protocol reference and from who made the frames, never from this
package. Messages M01 to M20 (AMQP 1.0 inside entries) are in :mod:`tests.test_amqp`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.test_amqp import EXPECTED as MESSAGE_SECTIONS
from tests.test_amqp import VECTORS as MESSAGES
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers as rs

__all__ = ["BY_NAME", "MESSAGES", "MESSAGE_SECTIONS", "VECTORS", "Vector"]

CLIENT, SERVER = "client", "server"
TIME_MS, TIME = 1700000000123, "2023-11-14T22:13:20.123Z"


@dataclass(frozen=True)
class Vector:
    """One frame, size included. ``values`` leaves out size, key and version, which follow from the layer."""

    name: str
    title: str
    sender: str
    layer: type[Layer]
    values: dict[str, Any]
    raw: bytes = field(repr=False)
    record: dict[str, Any] = field(default_factory=dict)
    """Keys of the record by path, where they say more than the values."""
    surplus: int = 0
    """Bytes after the last field."""
    problem: str | None = None
    """The field that a malformed frame ends in."""
    key: int | None = None
    """The key, where it is not the usual one of the layer."""

    @property
    def all_values(self) -> dict[str, Any]:
        """The values with the header."""
        defaults = {kind.name: kind.default for kind in self.layer.fields_desc[:3]}
        key = defaults["key"] if self.key is None else self.key
        return {"size": len(self.raw) - 4, "key": key, "version": defaults["version"], **self.values}


def vector(
    name: str, title: str, sender: str, layer: type[Layer], values: dict[str, Any], text: str, **more: Any
) -> Vector:
    return Vector(name, title, sender, layer, values, bytes.fromhex(text), **more)


def properties(**pairs: str) -> list[dict[str, str]]:
    """A property list; underscores in the arguments become hyphens."""
    return [{"key": key, "value": value} for key, value in pairs.items()]


def chunk(chunk_id: int, crc: int, data_length: int, entries: list[Any] | None, **other: Any) -> dict[str, Any]:
    """A chunk of epoch 1 at the time of all vectors; one record per entry by default."""
    count = 1 if entries is None else len(entries)
    header = {
        "magic_version": 0x50,
        "chunk_type": 0,
        "num_entries": count,
        "num_records": count,
        "timestamp": TIME_MS,
        "epoch": 1,
        "chunk_id": chunk_id,
        "crc": crc,
        "data_length": data_length,
        "trailer_length": 0,
        "bloom_size": 0,
        "reserved": 0,
    }
    return header | ({} if entries is None else {"entries": entries}) | other


def sub_batch(codec: int, count: int, uncompressed: int, data: str) -> dict[str, Any]:
    return {
        "codec": codec,
        "record_count": count,
        "uncompressed_length": uncompressed,
        "data": bytes.fromhex(data),
    }


def one_sub_batch(publishing_id: int, batch: dict[str, Any]) -> dict[str, Any]:
    """A Publish of publisher 0 with one sub-batch."""
    return {"publisher_id": 0, "messages": [{"publishing_id": publishing_id, "sub_batch": batch}]}


def batch_messages(*bodies: bytes) -> dict[str, Any]:
    """The record's messages of a sub-batch in a Publish: raw ones."""
    return {f"messages.0.sub_batch.messages.{i}.data": body.hex() for i, body in enumerate(bodies)}


def batch_of_data_sections(codec: str) -> dict[str, Any]:
    """Five messages, each an AMQP 1.0 data section ``<codec>-<i>-`` + 60 times ``x``."""
    expected: dict[str, Any] = {}
    for i in range(5):
        body = f"{codec}-{i}-{'x' * 60}".encode()
        expected[f"messages.0.sub_batch.messages.{i}.data"] = f"005375a0{len(body):02x}{body.hex()}"
        expected[f"messages.0.sub_batch.messages.{i}.amqp.data"] = [body.hex()]
    return expected | {"messages.0.sub_batch.codec": codec.lower()}


AA, BB = b"a" * 20, b"b" * 20
GZIP_AB = "1f8b08000000000002ff6360601049c4021880e249580000f25e515f30000000"

VECTORS = [
    vector(
        "V01",
        "PeerProperties request",
        CLIENT,
        rs.PeerProperties,
        {"correlation_id": 1, "properties": properties(product="RabbitMQ Stream")},
        "00000026001100010000000100000001000770726f64756374000f5261626269744d512053747265616d",
    ),
    vector(
        "V02",
        "PeerProperties response",
        SERVER,
        rs.PeerPropertiesResponse,
        {
            "correlation_id": 1,
            "response_code": 1,
            "properties": properties(product="RabbitMQ", version="4.3.6"),
        },
        "000000318011000100000001000100000002000770726f6475637400085261626269744d51000776657273696f6e0005342e332e36",
        record={
            "key": "PeerPropertiesResponse",
            "key_code": 0x8011,
            "response_code": "OK",
            "response_code_code": 1,
        },
    ),
    vector(
        "V03",
        "SaslHandshake request",
        CLIENT,
        rs.SaslHandshake,
        {"correlation_id": 2},
        "000000080012000100000002",
    ),
    vector(
        "V04",
        "SaslHandshake response",
        SERVER,
        rs.SaslHandshakeResponse,
        {"correlation_id": 2, "response_code": 1, "mechanisms": ["PLAIN", "AMQPLAIN"]},
        "0000001f80120001000000020001000000020005504c41494e0008414d51504c41494e",
    ),
    vector(
        "V05",
        "SaslAuthenticate PLAIN",
        CLIENT,
        rs.SaslAuthenticate,
        {"correlation_id": 3, "mechanism": "PLAIN", "data": b"\0guest\0guest"},
        "0000001f00130001000000030005504c41494e0000000c006775657374006775657374",
        record={"data": "<redacted 12 bytes>"},
    ),
    vector(
        "V06",
        "SaslAuthenticate EXTERNAL, null data",
        CLIENT,
        rs.SaslAuthenticate,
        {"correlation_id": 3, "mechanism": "EXTERNAL", "data": None},
        "000000160013000100000003000845585445524e414cffffffff",
        record={"data": None},
    ),
    vector(
        "V07",
        "SaslAuthenticate AMQPLAIN",
        CLIENT,
        rs.SaslAuthenticate,
        {
            "correlation_id": 3,
            "mechanism": "AMQPLAIN",
            "data": b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest",
        },
        "0000003900130001000000030008414d51504c41494e00000023054c4f47494e53000000056775657374085041"
        "5353574f524453000000056775657374",
        record={"data": "<redacted 35 bytes>"},
    ),
    vector(
        "V08",
        "SaslAuthenticate response OK",
        SERVER,
        rs.SaslAuthenticateResponse,
        {"correlation_id": 3, "response_code": 1},
        "0000000a80130001000000030001",
    ),
    vector(
        "V09",
        "SaslAuthenticate response, challenge",
        SERVER,
        rs.SaslAuthenticateResponse,
        {"correlation_id": 3, "response_code": 10, "challenge": b"Please tell me your password"},
        "000000288013000100000003000a001c506c656173652074656c6c206d6520796f75722070617373776f7264",
        record={"response_code": "SASL challenge"},
    ),
    vector(
        "V10",
        "SaslAuthenticate response, failure",
        SERVER,
        rs.SaslAuthenticateResponse,
        {"correlation_id": 3, "response_code": 8},
        "0000000a80130001000000030008",
        record={"response_code": "Authentication failure"},
    ),
    vector(
        "V11",
        "Tune from server",
        SERVER,
        rs.Tune,
        {"frame_max": 1048576, "heartbeat": 60},
        "0000000c00140001001000000000003c",
    ),
    vector(
        "V12",
        "Tune reply, response form",
        CLIENT,
        rs.TuneResponse,
        {"frame_max": 1048576, "heartbeat": 60},
        "0000000c80140001001000000000003c",
        record={"key": "TuneResponse"},
    ),
    vector(
        "V13",
        "Tune reply, request form",
        CLIENT,
        rs.Tune,
        {"frame_max": 4096, "heartbeat": 2},
        "0000000c001400010000100000000002",
    ),
    vector(
        "V14",
        "Open request",
        CLIENT,
        rs.Open,
        {"correlation_id": 4, "virtual_host": "/"},
        "0000000b001500010000000400012f",
    ),
    vector(
        "V15",
        "Open response OK",
        SERVER,
        rs.OpenResponse,
        {
            "correlation_id": 4,
            "response_code": 1,
            "properties": properties(advertised_port="5552", advertised_host="127.0.0.3"),
        },
        "000000418015000100000004000100000002000f616476657274697365645f706f7274000435353532000f6164"
        "76657274697365645f686f737400093132372e302e302e33",
    ),
    vector(
        "V16",
        "Open response refused",
        SERVER,
        rs.OpenResponse,
        {"correlation_id": 4, "response_code": 12},
        "0000000a8015000100000004000c",
        record={"response_code": "Virtual host access failure"},
    ),
    vector(
        "V17",
        "ExchangeCommandVersions request",
        CLIENT,
        rs.ExchangeCommandVersions,
        {"correlation_id": 5, "commands": [{"key": 8, "min_version": 1, "max_version": 2}]},
        "00000012001b00010000000500000001000800010002",
        record={"commands.0.key": "Deliver", "commands.0.key_code": 8},
    ),
    vector(
        "V18",
        "ExchangeCommandVersions response",
        SERVER,
        rs.ExchangeCommandVersionsResponse,
        {
            "correlation_id": 5,
            "response_code": 1,
            "commands": [
                {"key": 1, "min_version": 1, "max_version": 1},
                {"key": 2, "min_version": 1, "max_version": 2},
            ],
        },
        "0000001a801b000100000005000100000002000100010001000200010002",
    ),
    vector(
        "V19",
        "Create request",
        CLIENT,
        rs.Create,
        {"correlation_id": 6, "stream": "orders", "arguments": [{"key": "max-age", "value": "1h"}]},
        "00000021000d00010000000600066f72646572730000000100076d61782d61676500023168",
    ),
    vector(
        "V20",
        "Create response, already exists",
        SERVER,
        rs.LAYERS[0x800D, 1],
        {"correlation_id": 6, "response_code": 5},
        "0000000a800d0001000000060005",
        record={"key": "CreateResponse", "response_code": "Stream already exists"},
    ),
    vector(
        "V21",
        "Metadata request",
        CLIENT,
        rs.Metadata,
        {"correlation_id": 7, "streams": ["orders", "nope"]},
        "0000001a000f0001000000070000000200066f726465727300046e6f7065",
    ),
    vector(
        "V22",
        "Metadata response",
        SERVER,
        rs.MetadataResponse,
        {
            "correlation_id": 7,
            "brokers": [
                {"reference": 0, "host": "10.0.0.1", "port": 5552},
                {"reference": 1, "host": "10.0.0.2", "port": 5552},
            ],
            "streams": [
                {"stream": "orders", "response_code": 1, "leader_reference": 1, "replica_references": [0]},
                {"stream": "nope", "response_code": 2, "leader_reference": 65535, "replica_references": []},
            ],
        },
        "00000050800f000100000007000000020000000831302e302e302e31000015b00001000831302e302e302e3200"
        "0015b00000000200066f72646572730001000100000001000000046e6f70650002ffff00000000",
        record={"streams.1.leader_reference": "none", "streams.1.response_code": "Stream does not exist"},
    ),
    vector(
        "V23",
        "DeclarePublisher request, named",
        CLIENT,
        rs.DeclarePublisher,
        {"correlation_id": 8, "publisher_id": 0, "publisher_reference": "app-1", "stream": "orders"},
        "0000001800010001000000080000056170702d3100066f7264657273",
    ),
    vector(
        "V24",
        "DeclarePublisher request, no reference",
        CLIENT,
        rs.DeclarePublisher,
        {"correlation_id": 9, "publisher_id": 255, "publisher_reference": "", "stream": "orders"},
        "000000130001000100000009ff000000066f7264657273",
        record={"publisher_reference": ""},
    ),
    vector(
        "V25",
        "Publish v1, two messages",
        CLIENT,
        rs.Publish,
        {
            "publisher_id": 0,
            "messages": [{"publishing_id": 1, "data": b"hello"}, {"publishing_id": 2, "data": b""}],
        },
        "0000002600020001000000000200000000000000010000000568656c6c6f000000000000000200000000",
        record={"messages.0.data": b"hello".hex(), "messages.1.data": ""},
    ),
    vector(
        "V26",
        "Publish v1, sub-batch codec none + plain",
        CLIENT,
        rs.Publish,
        {
            "publisher_id": 3,
            "messages": [
                {"publishing_id": 7, "sub_batch": sub_batch(0x80, 2, 13, "00000002616100000003626262")},
                {"publishing_id": 8, "data": b"x"},
            ],
        },
        "0000003600020001030000000200000000000000078000020000000d0000000d00000002616100000003626262"
        "00000000000000080000000178",
        record={
            "messages.0.sub_batch.codec": "none",
            **batch_messages(b"aa", b"bbb"),
            "messages.1.data": b"x".hex(),
        },
    ),
    vector(
        "V27",
        "Publish v1, sub-batch gzip",
        CLIENT,
        rs.Publish,
        one_sub_batch(9, sub_batch(0x90, 2, 48, GZIP_AB)),
        "0000003c000200010000000001000000000000000990000200000030000000201f8b08000000000002ff636060"
        "1049c4021880e249580000f25e515f30000000",
        record={"messages.0.sub_batch.codec": "gzip", **batch_messages(AA, BB)},
    ),
    vector(
        "V28",
        "Publish v2 with filter values",
        CLIENT,
        rs.PublishV2,
        {
            "publisher_id": 0,
            "messages": [
                {"publishing_id": 1, "filter_value": "emea", "data": b"m1"},
                {"publishing_id": 2, "filter_value": None, "data": b"m2"},
                {"publishing_id": 3, "filter_value": "", "data": b"m3"},
            ],
        },
        "0000003d00020002000000000300000000000000010004656d6561000000026d310000000000000002ffff0000"
        "00026d3200000000000000030000000000026d33",
        record={"messages.1.filter_value": None, "messages.2.filter_value": ""},
    ),
    vector(
        "V29",
        "PublishConfirm",
        SERVER,
        rs.PublishConfirm,
        {"publisher_id": 0, "publishing_ids": [1, 2]},
        "0000001900030001000000000200000000000000010000000000000002",
    ),
    vector(
        "V30",
        "PublishError",
        SERVER,
        rs.PublishError,
        {
            "publisher_id": 9,
            "errors": [
                {"publishing_id": 100, "response_code": 18},
                {"publishing_id": 101, "response_code": 18},
            ],
        },
        "0000001d0004000109000000020000000000000064001200000000000000650012",
        record={"errors.0.response_code": "Publisher does not exist", "errors.1.publishing_id": 101},
    ),
    vector(
        "V31",
        "QueryPublisherSequence request",
        CLIENT,
        rs.QueryPublisherSequence,
        {"correlation_id": 10, "publisher_reference": "app-1", "stream": "orders"},
        "00000017000500010000000a00056170702d3100066f7264657273",
    ),
    vector(
        "V32",
        "QueryPublisherSequence response",
        SERVER,
        rs.QueryPublisherSequenceResponse,
        {"correlation_id": 10, "response_code": 1, "sequence": 15},
        "00000012800500010000000a0001000000000000000f",
    ),
    vector(
        "V33",
        "DeletePublisher request",
        CLIENT,
        rs.DeletePublisher,
        {"correlation_id": 11, "publisher_id": 0},
        "00000009000600010000000b00",
    ),
    vector(
        "V34",
        "Subscribe first, no properties array",
        CLIENT,
        rs.Subscribe,
        {"correlation_id": 12, "subscription_id": 0, "stream": "orders", "offset_type": 1, "credit": 10},
        "00000015000700010000000c0000066f72646572730001000a",
        record={"offset_type": "first", "offset_type_code": 1},
    ),
    vector(
        "V35",
        "Subscribe offset with properties",
        CLIENT,
        rs.Subscribe,
        {
            "correlation_id": 13,
            "subscription_id": 5,
            "stream": "orders",
            "offset_type": 4,
            "offset": 9223372036854775809,
            "credit": 1,
            "properties": properties(name="grp"),
        },
        "0000002c000700010000000d0500066f72646572730004800000000000000100010000000100046e616d650003677270",
        record={"offset_type": "offset", "offset": 9223372036854775809},
    ),
    vector(
        "V36",
        "Subscribe timestamp",
        CLIENT,
        rs.Subscribe,
        {
            "correlation_id": 14,
            "subscription_id": 1,
            "stream": "orders",
            "offset_type": 5,
            "timestamp": TIME_MS,
            "credit": 2,
            "properties": [],
        },
        "00000021000700010000000e0100066f726465727300050000018bcfe5687b000200000000",
        record={"offset_type": "timestamp", "timestamp": TIME},
    ),
    vector(
        "V37",
        "Deliver v1",
        SERVER,
        rs.Deliver,
        {"subscription_id": 0, "chunk": chunk(5, 0xBEAF0989, 13, [{"data": b"hello"}, {"data": b""}])},
        "00000042000800010050000002000000020000018bcfe5687b00000000000000010000000000000005beaf0989"
        "0000000d00000000000000000000000568656c6c6f00000000",
        record={"chunk.chunk_type": "user", "chunk.timestamp": TIME, "chunk.entries.0.data": b"hello".hex()},
    ),
    vector(
        "V38",
        "Deliver v2, bloom size and trailer announced but absent",
        SERVER,
        rs.DeliverV2,
        {
            "subscription_id": 1,
            "committed_chunk_id": 9,
            "chunk": chunk(7, 0xBEAF0989, 13, [{"data": b"hello"}, {"data": b""}], bloom_size=16, trailer_length=15),
        },
        "0000004a0008000201000000000000000950000002000000020000018bcfe5687b000000000000000100000000"
        "00000007beaf09890000000d0000000f100000000000000568656c6c6f00000000",
    ),
    vector(
        "V39",
        "Deliver v1, plain + gzip sub-batch + plain",
        SERVER,
        rs.Deliver,
        {
            "subscription_id": 0,
            "chunk": chunk(
                100,
                0x1BFE87BB,
                53,
                [{"data": b"p"}, {"sub_batch": sub_batch(0x90, 2, 48, GZIP_AB)}, {"data": b"q"}],
                num_records=4,
            ),
        },
        "0000006a000800010050000003000000040000018bcfe5687b000000000000000100000000000000641bfe87bb"
        "000000350000000000000000000000017090000200000030000000201f8b08000000000002ff6360601049c402"
        "1880e249580000f25e515f300000000000000171",
        record={
            "chunk.entries.1.sub_batch.messages.0.data": AA.hex(),
            "chunk.entries.1.sub_batch.messages.1.data": BB.hex(),
            "chunk.entries.2.data": b"q".hex(),
        },
    ),
    vector(
        "V40",
        "Deliver v1 to a chunk_selector=all subscriber, with trailer",
        SERVER,
        rs.Deliver,
        {
            "subscription_id": 7,
            "chunk": chunk(
                3,
                0x2B0C4D9E,
                6,
                [{"data": b"hi"}],
                trailer_length=15,
                trailer=[{"tracking_type": 0, "reference": "app-1", "value": 7}],
            ),
        },
        "0000004a000800010750000001000000010000018bcfe5687b000000000000000100000000000000032b0c4d9e"
        "000000060000000f0000000000000002686900056170702d310000000000000007",
        record={"chunk.trailer.0.tracking_type": "sequence"},
    ),
    vector(
        "V41",
        "Deliver v1, tracking delta chunk",
        SERVER,
        rs.Deliver,
        {
            "subscription_id": 7,
            "chunk": chunk(
                5,
                0x2F65B084,
                17,
                None,
                chunk_type=1,
                tracking=[{"entry_length": 13, "records": [{"tracking_type": 1, "reference": "trk", "value": 3}]}],
            ),
        },
        "00000046000800010750010001000000010000018bcfe5687b000000000000000100000000000000052f65b084"
        "0000001100000000000000000000000d010374726b0000000000000003",
        record={"chunk.chunk_type": "tracking delta", "chunk.tracking.0.records.0.tracking_type": "offset"},
    ),
    vector("V42", "Credit", CLIENT, rs.Credit, {"subscription_id": 5, "credit": 3}, "0000000700090001050003"),
    vector(
        "V43",
        "Credit response (errors only)",
        SERVER,
        rs.CreditResponse,
        {"response_code": 4, "subscription_id": 77},
        "000000078009000100044d",
        record={"key": "CreditResponse", "response_code": "Subscription ID does not exist"},
    ),
    vector(
        "V44",
        "StoreOffset",
        CLIENT,
        rs.StoreOffset,
        {"reference": "app-1", "stream": "orders", "offset": 31},
        "0000001b000a000100056170702d3100066f7264657273000000000000001f",
    ),
    vector(
        "V45",
        "QueryOffset request",
        CLIENT,
        rs.QueryOffset,
        {"correlation_id": 15, "reference": "app-1", "stream": "orders"},
        "00000017000b00010000000f00056170702d3100066f7264657273",
    ),
    vector(
        "V46",
        "QueryOffset response, none stored",
        SERVER,
        rs.QueryOffsetResponse,
        {"correlation_id": 15, "response_code": 19, "offset": 0},
        "00000012800b00010000000f00130000000000000000",
        record={"response_code": "No offset"},
    ),
    vector(
        "V47",
        "Unsubscribe request",
        CLIENT,
        rs.Unsubscribe,
        {"correlation_id": 16, "subscription_id": 5},
        "00000009000c00010000001005",
    ),
    vector(
        "V48",
        "Delete request",
        CLIENT,
        rs.Delete,
        {"correlation_id": 17, "stream": "orders"},
        "00000010000e00010000001100066f7264657273",
    ),
    vector(
        "V49",
        "MetadataUpdate",
        SERVER,
        rs.MetadataUpdate,
        {"response_code": 6, "stream": "orders"},
        "0000000e00100001000600066f7264657273",
        record={"response_code": "Stream not available"},
    ),
    vector(
        "V50",
        "Close request from client",
        CLIENT,
        rs.Close,
        {"correlation_id": 18, "closing_code": 1, "closing_reason": "OK"},
        "0000000e0016000100000012000100024f4b",
    ),
    vector(
        "V51",
        "Close request from server",
        SERVER,
        rs.Close,
        {"correlation_id": 1, "closing_code": 13, "closing_reason": "unknown frame"},
        "000000190016000100000001000d000d756e6b6e6f776e206672616d65",
        record={"closing_code": "Unknown frame"},
    ),
    vector(
        "V52",
        "Close response",
        CLIENT,
        rs.LAYERS[0x8016, 1],
        {"correlation_id": 1, "response_code": 1},
        "0000000a80160001000000010001",
        record={"key": "CloseResponse"},
    ),
    vector("V53", "Heartbeat", CLIENT, rs.Heartbeat, {}, "0000000400170001"),
    vector(
        "V54",
        "Route request",
        CLIENT,
        rs.Route,
        {"correlation_id": 19, "routing_key": "eu", "super_stream": "inv"},
        "000000110018000100000013000265750003696e76",
    ),
    vector(
        "V55",
        "Route response",
        SERVER,
        rs.RouteResponse,
        {"correlation_id": 19, "response_code": 1, "streams": ["inv-eu"]},
        "0000001680180001000000130001000000010006696e762d6575",
    ),
    vector(
        "V56",
        "Partitions response of RabbitMQ 3.10 (no response bit)",
        SERVER,
        rs.PartitionsResponse,
        {"correlation_id": 5, "response_code": 1, "streams": ["o-0"]},
        "00000013001900010000000500010000000100036f2d30",
        key=25,
    ),
    vector(
        "V57",
        "ConsumerUpdate request",
        SERVER,
        rs.ConsumerUpdate,
        {"correlation_id": 0, "subscription_id": 0, "active": 1},
        "0000000a001a0001000000000001",
        record={"active": True},
    ),
    vector(
        "V58",
        "ConsumerUpdate response, none",
        CLIENT,
        rs.ConsumerUpdateResponse,
        {"correlation_id": 0, "response_code": 1, "offset_type": 0},
        "0000000c801a00010000000000010000",
        record={"offset_type": "none"},
    ),
    vector(
        "V59",
        "ConsumerUpdate response, offset",
        CLIENT,
        rs.ConsumerUpdateResponse,
        {"correlation_id": 2, "response_code": 1, "offset_type": 4, "offset": 42},
        "00000014801a00010000000200010004000000000000002a",
    ),
    vector(
        "V60",
        "ConsumerUpdate response of rstream (8 surplus bytes)",
        CLIENT,
        rs.ConsumerUpdateResponse,
        {"correlation_id": 0, "response_code": 1, "offset_type": 1},
        "00000014801a000100000000000100010000000000000000",
        surplus=8,
    ),
    vector(
        "V61",
        "StreamStats request",
        CLIENT,
        rs.StreamStats,
        {"correlation_id": 20, "stream": "orders"},
        "00000010001c00010000001400066f7264657273",
    ),
    vector(
        "V62",
        "StreamStats response",
        SERVER,
        rs.StreamStatsResponse,
        {
            "correlation_id": 20,
            "response_code": 1,
            "statistics": [{"key": "first_chunk_id", "value": 0}, {"key": "committed_chunk_id", "value": -1}],
        },
        "00000042801c000100000014000100000002000e66697273745f6368756e6b5f69640000000000000000001263"
        "6f6d6d69747465645f6368756e6b5f6964ffffffffffffffff",
    ),
    vector(
        "V63",
        "CreateSuperStream request",
        CLIENT,
        rs.CreateSuperStream,
        {
            "correlation_id": 21,
            "super_stream": "inv",
            "partitions": ["inv-eu", "inv-us"],
            "binding_keys": ["eu", "us"],
            "arguments": [{"key": "max-age", "value": "1h"}],
        },
        "0000003e001d0001000000150003696e76000000020006696e762d65750006696e762d75730000000200026575"
        "000275730000000100076d61782d61676500023168",
    ),
    vector(
        "V64",
        "DeleteSuperStream request",
        CLIENT,
        rs.DeleteSuperStream,
        {"correlation_id": 22, "super_stream": "inv"},
        "0000000d001e0001000000160003696e76",
    ),
    vector(
        "V65",
        "ResolveOffsetSpec request",
        CLIENT,
        rs.ResolveOffsetSpec,
        {
            "correlation_id": 23,
            "stream": "orders",
            "offset_type": 3,
            "properties": [{"key": "filter.0", "value": "emea"}],
        },
        "00000026001f00010000001700066f7264657273000300000001000866696c7465722e300004656d6561",
        record={"offset_type": "next"},
    ),
    vector(
        "V66",
        "ResolveOffsetSpec response",
        SERVER,
        rs.ResolveOffsetSpecResponse,
        {"correlation_id": 23, "response_code": 1, "offset_type": 4, "offset": 9},
        "00000014801f000100000017000100040000000000000009",
    ),
    vector(
        "V67",
        "MALFORMED: rstream Publish v2 without the filter field",
        CLIENT,
        rs.PublishV2,
        {
            "publisher_id": 0,
            "messages": [
                {"publishing_id": 1, "filter_value": "f1", "data": b"with filter"},
                {"publishing_id": 2, "filter_value": ""},
            ],
        },
        "000000530002000200000000030000000000000001000266310000000b776974682066696c7465720000000000"
        "0000020000000e776974686f75742066696c746572000000000000000300026633000000056166746572",
        problem="messages[1].data",
    ),
    vector(
        "V68",
        "MALFORMED: rstream non-ASCII string length",
        CLIENT,
        rs.Create,
        {"correlation_id": 5, "stream": "str\u00f8m-", "arguments": [{"key": ""}]},
        "00000017000d0001000000050007737472c3b86d2dc3a900000000",
        problem="arguments[0].value",
    ),
    vector(
        "V69",
        "Publish v1, sub-batch gzip (real)",
        CLIENT,
        rs.Publish,
        one_sub_batch(
            10,
            sub_batch(
                0x90,
                5,
                380,
                "1f8b08001aa9006b02ff636060f060082e5de0ec5e9559a06"
                "ba05b4101604031cb908a661951d12c632a9a6542915900bb"
                "7acbfb7c010000",
            ),
        ),
        "00000054000200010000000001000000000000000a9000050000017c000000381f8b08001aa9006b02ff636060"
        "f060082e5de0ec5e9559a06ba05b4101604031cb908a661951d12c632a9a6542915900bb7acbfb7c010000",
        record=batch_of_data_sections("Gzip"),
    ),
    vector(
        "V70",
        "Publish v1, sub-batch snappy (real)",
        CLIENT,
        rs.Publish,
        one_sub_batch(
            15,
            sub_batch(
                0xA0,
                5,
                390,
                "ff060000734e61507059003d0000d5dea87e8603480000004"
                "a005375a045536e617070792d302d78ea01003e4e000031fe"
                "4e00324e000032fe4e00324e000033fe4e00324e000034f24"
                "e00",
            ),
        ),
        "00000067000200010000000001000000000000000fa00005000001860000004bff060000734e61507059003d00"
        "00d5dea87e8603480000004a005375a045536e617070792d302d78ea01003e4e000031fe4e00324e000032fe4e"
        "00324e000033fe4e00324e000034f24e00",
        record=batch_of_data_sections("Snappy"),
    ),
    vector(
        "V71",
        "Publish v1, sub-batch lz4 (real)",
        CLIENT,
        rs.Publish,
        one_sub_batch(
            20,
            sub_batch(
                0xB0,
                5,
                375,
                "04224d18684077010000000000003332000000ff010000004"
                "7005375a0424c7a342d302d78010028094b001f314b00371f"
                "324b00371f334b00371f344b002550787878787800000000",
            ),
        ),
        "000000650002000100000000010000000000000014b00005000001770000004904224d18684077010000000000"
        "003332000000ff0100000047005375a0424c7a342d302d78010028094b001f314b00371f324b00371f334b0037"
        "1f344b002550787878787800000000",
        record=batch_of_data_sections("Lz4"),
    ),
    vector(
        "V72",
        "Publish v1, sub-batch zstd (real)",
        CLIENT,
        rs.Publish,
        one_sub_batch(
            25,
            sub_batch(
                0xC0,
                5,
                380,
                "28b52ffd607c003d0100a800000048005375a0435a7374642d302d78313233340600029220400f01ca105079820c42024b",
            ),
        ),
        "0000004d0002000100000000010000000000000019c000050000017c0000003128b52ffd607c003d0100a80000"
        "0048005375a0435a7374642d302d78313233340600029220400f01ca105079820c42024b",
        record=batch_of_data_sections("Zstd"),
    ),
]

BY_NAME = {vector.name: vector for vector in VECTORS}
