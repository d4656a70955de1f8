"""Kafka: captures of real clients compared with tshark and with the clients' own accounts."""

from __future__ import annotations

import json
import re
import subprocess
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from tests import damage
from tests.protocols.test_kafka_parity import CAPTURE
from tests.support import needs_tshark
from wiredecode.api import read
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.protocols.kafka.names import TRANSACTION_STATES
from wiredecode.protocols.kafka.protocol import Kafka
from wiredecode.testing import Part, batches, build, craft, dissect, every


@cache
def frames() -> list[Frame]:
    return list(read(CAPTURE))


def rows(what: str) -> list[FrameMessages]:
    out = Messages()
    dissect(open_capture([CAPTURE]), known=(Kafka(),), messages=out)
    return [part for part in out.parts if isinstance(part, FrameMessages) and part.operation == what]


def test_everything_is_decoded() -> None:
    assert len(frames()) == 510
    assert {frame.status for frame in frames()} == {"ok"}
    assert len({frame.type for frame in frames()}) == 48
    assert {finding.group for frame in frames() for finding in frame.findings} == {"response", "protocol"}


def test_every_response_names_its_request() -> None:
    by_id = {frame.id: frame for frame in frames()}
    answered = [frame for frame in frames() if frame.sender == "server"]
    assert len(answered) == 254
    for frame in answered:
        assert frame.type == by_id[frame.request or 0].type.replace("Request", "Response")
    assert None not in {frame.outcome for frame in frames() if frame.sender == "client"}
    unasked = [frame for frame in frames() if frame.outcome == "not asked for"]
    assert {frame.values.get("acks") for frame in unasked} == {0}


FOLDER = CAPTURE.parent


def truth(name: str, what: str) -> list[dict[str, Any]]:
    said = json.loads((FOLDER / f"{name}.truth.json").read_bytes())
    return [event for event in said["events"] if event["what"] == what]


def test_topic_ids_get_their_names_from_other_connections() -> None:
    out = Messages()
    dissect(open_capture([FOLDER / "failover.pcap.zst"]), known=(Kafka(),), messages=out)
    parts = [part for part in out.parts if isinstance(part, FrameMessages)]
    named = {part.topic for part in parts if part.operation != "publish"}
    assert {"orders", "__consumer_offsets"} <= named
    assert {part.topic for part in parts if part.operation == "deliver"} == {"orders"}


def test_deliveries_equal_those_the_consumers_reported() -> None:
    """Also those of a consumer of the new group protocol, and of transactions that were aborted."""
    out = Messages()
    dissect(open_capture([FOLDER / "groups.pcap.zst"]), known=(Kafka(),), messages=out)
    got: dict[str, set[tuple[int | None, int | None]]] = {}
    for part in out.parts:
        if isinstance(part, FrameMessages) and part.operation == "deliver":
            client = part.frame.connection.identity["name"]
            got.setdefault(client, set()).update((part.partition, offset) for offset in part.offsets or ())
    kept_back = {"mailer-1": 10, "modern-1": 10, "py-1": 0}  # records of the aborted transaction, by the client
    for event in truth("groups", "consumed"):
        said = {(partition, offset) for partition, offset, *_ in event["got"]}
        assert said <= got[event["client"]]
        if event["client"] in kept_back:
            assert len(got[event["client"]] - said) == kept_back[event["client"]]


def agrees(shown: Any, said: Any) -> bool:
    """Whether fields equal those that Kafka's own tool prints, with its Java names."""
    if isinstance(said, dict):
        snake = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): value for name, value in said.items()}
        return all(agrees(shown[name], value) for name, value in snake.items())
    if isinstance(said, list):
        return len(shown) == len(said) and all(map(agrees, shown, said))
    if isinstance(shown, str) and len(shown) == len(str(UUID(int=0))):
        return UUID(shown).bytes == urlsafe_b64decode(f"{said}==")
    return shown == said or shown == TRANSACTION_STATES.get(said) or (shown is None and said == "")  # no bytes


def test_coordinator_records_equal_those_of_the_kafka_tool() -> None:
    found = {}
    for frame in dissect(open_capture([FOLDER / "coordinators.pcap.zst"]), known=(Kafka(),)).frames:
        for topic in (frame.layers or {}).get("kafka", {}).get("responses") or ():
            batches = [one for each in topic.get("partitions", ()) for one in each.get("batches") or ()]
            found |= {(one["crc"], record["offset"]): record for one in batches for record in one["records"]}
    events = truth("coordinators", "kept")
    assert len(events) == 57
    for event in events:
        kept = found[event["crc"], event["offset"]]["coordinator"]
        assert agrees(kept["key"], event["key"]["data"])
        assert (kept["value"] is None) == (event["value"] is None)
        if event["value"] is not None:
            assert kept["version"] == int(event["value"]["version"])
            assert agrees(kept["value"], event["value"]["data"])


def test_filters_reach_nested_fields_of_coordinator_records() -> None:
    inside = "kafka.responses.partitions.batches.records.coordinator"
    for test, count in (("type == 'TransactionLog'", 26), ("key.group == 'classic'", 22), ("key.grp == 'x'", 0)):
        found = read(FOLDER / "coordinators.pcap.zst", filter=f"{inside}.{test}".replace("'", '"'))
        assert len(list(found)) == count


def test_each_produced_batch_has_a_copy_per_follower() -> None:
    by_id = {frame.id: frame for frame in read(FOLDER / "coordinators.pcap.zst")}
    copies = Counter(frame.generated["copy_of"] for frame in by_id.values() if "copy_of" in frame.generated)
    assert copies == {frame.id: 2 for frame in by_id.values() if frame.type == "ProduceRequest"}
    for frame in by_id.values():
        if "copy_of" in frame.generated:
            assert frame.generated["topics_named"].startswith(
                by_id[frame.generated["copy_of"]].generated["topics_named"]
            )
            assert frame.layers["kafka"]["copy_of"] == frame.generated["copy_of"]


def test_a_late_start_on_any_port_is_recognised_from_requests() -> None:
    """Produce requests look like messages of Pravega from their fourth byte on."""
    packets = damage.read(FOLDER / "failover.pcap.zst")
    late = damage.dissect(packets.part(2000, len(packets)))
    assert {frame.protocol for frame in late.frames.values()} == {"kafka"}
    asked = {(frame.source, frame.destination) for frame in late.frames.values() if frame.sender == "client"}
    typed = [frame for frame in late.frames.values() if frame.sender == "server" and frame.request is not None]
    assert len(asked) > 5
    assert "Response" not in {frame.type for frame in typed}


def test_long_responses_are_found_after_a_late_start() -> None:
    packets = damage.read(FOLDER / "failover.pcap.zst")
    late = damage.dissect(packets.part(len(packets) * 2 // 5, len(packets)))
    found = Counter(frame.status for frame in late.frames.values() if frame.type == "FetchResponse")
    assert found == {"ok": 301, "partial": 1}
    rest = [frame.length for frame in late.frames.values() if frame.status == "undecoded"]
    assert rest == [119]  # the end of a response that had begun


@needs_tshark
def test_frames_equal_those_of_tshark() -> None:
    """API, version and correlation id of every request and response."""
    fields = ["kafka.api_key", "kafka.api_version", "kafka.correlation_id", "kafka.len"]
    command = ["tshark", "-r", str(CAPTURE), "-d", "tcp.port==9094,kafka", "-Ykafka", "-Tfields"]
    command += [word for field in fields for word in ("-e", field)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs: Counter[tuple[str, str]] = Counter()
    for line in shown.splitlines():
        _, _, ids, sizes = line.split("\t")
        theirs.update(zip(ids.split(","), sizes.split(","), strict=True))
    ours = Counter((str(frame.values["correlation_id"]), str(frame.values["size"])) for frame in frames())
    assert ours == theirs


@needs_tshark
def test_records_equal_those_of_tshark(tmp_path: Path) -> None:
    """The batches of the clients, in requests of a version that tshark knows."""
    parts = []
    for frame in frames():
        if frame.type == "ProduceRequest":
            values = {**frame.values, "api_version": 8, "acks": 0, "client_id": "app", "transactional_id": None}
            plain = {
                name: values[name] for name in ("api_version", "acks", "client_id", "transactional_id", "topic_data")
            }
            parts.append(Part(1, 0, bytes(build(layer_of("ProduceRequest", 8), plain))))
    packets = craft(parts, every(60_000), 9092)
    wrpcap(str(tmp_path / "a.pcap"), [Ether(raw) for raw in packets])
    command = ["tshark", "-r", str(tmp_path / "a.pcap"), "-Ykafka", "-Tfields", "-Eaggregator=,"]
    for name in ("message_key", "message_value", "header_key"):
        command += ["-e", f"kafka.{name}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs: list[list[str]] = [[], [], []]
    for line in shown.splitlines():
        for found, words in zip(theirs, line.split("\t"), strict=True):
            found += [word for word in words.split(",") if word not in ("", "<MISSING>")]
    ours: list[list[str]] = [[], [], []]
    for frame in dissect(batches(packets), known=(Kafka(),)).frames:
        assert frame.layers is not None
        for record in records_in(frame.layers["kafka"]["topic_data"]):
            ours[0] += [record["key"]] if record["key"] else []
            ours[1] += [record["value"]] if record["value"] else []
            ours[2] += [header["key"] for header in record["headers"]]
    assert len(ours[1]) == 326
    assert ours == theirs


def records_in(topics: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for partition in (each for topic in topics for each in topic["partition_data"]):
        for batch in partition["batches"]:
            yield from batch["records"]


def test_messages_equal_those_the_clients_sent() -> None:
    sent = [(part.topic, part.compression, part.count) for part in rows("publish")]
    count: Counter[tuple[str | None, str | None]] = Counter()
    for topic, codec, number in sent:
        count[topic, codec] += number
    assert {codec: count["orders", codec] for codec in (None, "gzip", "snappy", "lz4", "zstd")} == {
        None: 20,
        "gzip": 70,
        "snappy": 20,
        "lz4": 40,
        "zstd": 20,
    }
    first = rows("publish")[0]
    assert set(first.keys or ()) <= {b"k%d" % number for number in range(20)}
    assert all(body and body.startswith(b'{"n": ') for body in first.bodies)
    assert first.headers is not None and first.headers[0] is not None
    assert first.headers[0][0][0] == "trace"
