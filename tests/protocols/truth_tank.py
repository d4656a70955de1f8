"""Compare a TANK capture with the accounts of client and broker.

A scripted driver around TANK's own client library wrote the truth: the messages it produced and received, the faults
and the state that it got. Results carry the client's request id, which identifies the response on the wire.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import Run, dissect
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.tank.protocol import Tank

ANSWERS = {
    "produce": "ProduceResponse",
    "produceseq": "ProduceResponse",
    "consume": "ConsumeResponse",
    "status": "StatusResponse",
    "topics": "DiscoverTopicsResponse",
    "topology": "DiscoverTopologyResponse",
    "discover": "DiscoverPartitionsResponse",
    "create": "CreateTopicResponse",
    "reload": "ReloadPartitionConfigurationResponse",
}
"""The response that a result of the driver was made of."""
FAULTS = {
    "UnknownTopic": {"unknown topic"},
    "UnknownPartition": {"unknown partition"},
    "BoundaryCheck": {"boundary check failed"},
    "AlreadyExists": {"already exists"},
    "InvalidReq": {"invalid request", "invalid configuration", "sequence number not above the last"},
    "SystemFail": {"system error"},
    "Access": {"broker is read-only"},
    "ReadOnly": {"broker is read-only"},
}
"""The client library's names of result codes."""

Fact = tuple[Any, ...]


def check(path: Path, truth: dict[str, Any]) -> list[str]:
    """Return the disagreements between a capture and its truth; empty if the capture holds all of the truth."""
    run = tank(path)
    if "operations" not in truth:
        return [] if "derived_from" in truth else ["the truth is empty"]
    claim = list(results(truth["operations"]))
    wrong = [line for result in claim for line in answered(run, result, claim)]
    return wrong + produced(run, truth["operations"])


@cache
def tank(path: Path) -> Run:
    """Dissect a capture through the whole stack. The result is cached: do not change it."""
    return dissect(open_capture([path]), known=(Tank(),))


def results(value: Any) -> Iterator[dict[str, Any]]:
    """The results that the client library returned, at any depth of the operations."""
    if isinstance(value, dict):
        if value.get("cmd") in ANSWERS and "client_req_id" in value:
            yield value
        else:
            for inner in value.values():
                yield from results(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from results(inner)


def answered(run: Run, result: dict[str, Any], claim: list[dict[str, Any]]) -> list[str]:
    """A result equals one of the responses with its request id."""
    kind, number = ANSWERS[result["cmd"]], result["client_req_id"]
    candidates = [frame for frame in run.of(kind) if frame.values.get("request_id") == number]
    expected = claimed_facts(result)
    said = [decoded_facts(frame, result["cmd"]) for frame in candidates]
    same = [each for each in claim if (ANSWERS[each["cmd"]], each["client_req_id"]) == (kind, number)]
    needed = sum(claimed_facts(each) == expected for each in same)
    if sum(each == expected for each in said) >= needed:
        return []
    return [f"{result['cmd']} {number}: {expected} expected, responses say {said}"]


def claimed_facts(result: dict[str, Any]) -> Counter[Fact]:
    """A result as countable facts."""
    facts: Counter[Fact] = Counter()
    for fault in result.get("faults", ()):
        by_topic = fault["type"] == "UnknownTopic" or result["cmd"] == "create"
        facts[fault["type"], fault["topic"], None if by_topic else fault["partition"]] += 1
        if "first_avail" in fault:
            facts["boundary", fault["topic"], fault["partition"], fault["first_avail"], fault["hwmark"]] += 1
    for topic, partition in result.get("acks", ()):
        facts["stored", topic, partition] += 1
    for entry in result.get("consumed", ()):
        for message in entry["msgs"]:
            facts[(entry["topic"], entry["partition"], message["seq"], *claimed_body(message))] += 1
        facts["drained", entry["topic"], entry["partition"], bool(entry["drained"])] += 1
    if "status" in result:
        status = result["status"]
        names = ("topics", "partitions", "cluster", "startup_ts", "version", "open_partitions", "open_ms")
        facts[tuple(status[name] for name in names)] += 1
    for topic in result.get("topics", ()):
        facts[topic["name"], topic["partitions"], bool(topic["enabled"])] += 1
    for index, marks in enumerate(result.get("watermarks", ())):
        facts["marks", index, *marks] += 1
    if "created" in result:
        facts["created", result["created"]] += 1
    if result["cmd"] == "topology":
        facts["topology", result["cluster"], len(result["nodes"])] += 1
    return facts


def claimed_body(message: dict[str, Any]) -> Fact:
    return message["ts"], message.get("key_hex") or "", message["len"], message["sha256"]


def decoded_body(message: dict[str, Any]) -> Fact:
    body = bytes.fromhex(message["body"])
    return moment(message["timestamp"]), message.get("key", ""), len(body), hashlib.sha256(body).hexdigest()


def moment(value: str | int) -> int:
    """Milliseconds since 1970."""
    return value if isinstance(value, int) else round(datetime.fromisoformat(value).timestamp() * 1000)


def decoded_facts(frame: Frame, command: str) -> Counter[Fact]:
    """A response as the same facts."""
    assert frame.layers is not None
    record, values = frame.layers["tank"], frame.values
    if command in ("produce", "produceseq"):
        return Counter(fact for result in record["results"] for fact in result_facts(result))
    if command == "consume":
        return Counter(consumed_facts(record))
    if command == "status":
        return Counter([status_fact(values)])
    if command == "topics":
        return Counter((each["topic"], each["partition_count"], each["enabled"]) for each in record["topics"])
    if command == "discover":
        if not values["partition_count"]:
            return Counter([("UnknownTopic", record["topic"], None)])
        marks = record["partitions"]
        return Counter(("marks", each["partition"], each["first_available"], each["high_water_mark"]) for each in marks)
    if command == "create":
        return Counter([created_fact(record)])
    assert command == "topology"
    return Counter([("topology", record.get("cluster_name", ""), len(record.get("nodes", ())))])


def result_facts(result: dict[str, Any]) -> Iterator[Fact]:
    partitions = result.get("partitions", [result.get("partition")])
    if result["result_code"] == 0:
        yield from (("stored", result["topic"], partition) for partition in partitions)
    else:
        name = fault_name(result["result"])
        yield name, result["topic"], None if name == "UnknownTopic" else partitions[0]


def fault_name(outcome: str) -> str:
    return next((name for name, outcomes in FAULTS.items() if outcome in outcomes), outcome)


def consumed_facts(record: dict[str, Any]) -> Iterator[Fact]:
    for topic in record["topics"]:
        if "unknown_topic" in topic:
            yield "UnknownTopic", topic["topic"], None
        for entry in topic.get("partitions", ()):
            where = topic["topic"], entry["partition"]
            if entry["result_code"] in (0, 0xFE):
                yield "drained", *where, entry["chunk_length"] == 0
                continue
            yield fault_name(entry["result"]), *where
            if "first_available" in entry:
                yield "boundary", *where, entry["first_available"], entry["high_water_mark"]
    for chunk in record["chunks"]:
        for bundle in chunk["bundles"]:
            for message in bundle["bundle"]["messages"]:
                if "below_requested" not in message and "above_high_water_mark" not in message:
                    yield chunk["topic"], chunk["partition"], message["sequence_number"], *decoded_body(message)


def status_fact(values: Any) -> Fact:
    return (
        *(values["topic_count"], values["partition_count"], values.get("cluster_name", ""), values["start_time"]),
        *(values["release"], values["open_partitions"], values["open_time"]),
    )


def created_fact(record: dict[str, Any]) -> Fact:
    if record["result_code"] == 0:
        return "created", record["topic"]
    return fault_name(record["result"]), record["topic"], None


# Produce.


def produced(run: Run, operations: list[Any]) -> list[str]:
    """Everything the driver produced was sent, and nothing else unless tools of TANK produced, too."""
    claim = Counter(claimed_messages(operations))
    sent = Counter(sent_messages(run))
    wrong = [f"produced, not found: {fact}" for fact in claim - sent]
    silent = any(isinstance(each, dict) and ({"argv", "cli_produce", "input"} & set(each)) for each in operations)
    if not silent:
        wrong += [f"found, not produced: {fact}" for fact in sent - claim]
    return wrong


def claimed_messages(value: Any) -> Iterator[Fact]:
    """Messages in the operations that were produced: those with a list "messages" and those of "producer"."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "messages" or (name == "producer" and isinstance(inner, list)):
                yield from ((message.get("seq"), *claimed_body(message)) for message in inner)
            else:
                yield from claimed_messages(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from claimed_messages(inner)


def sent_messages(run: Run) -> Iterator[Fact]:
    for frame in run.of("Produce", "ProduceWithBaseSequenceNumber"):
        assert frame.layers is not None
        for topic in frame.layers["tank"]["topics"]:
            for entry in topic["partitions"]:
                for message in entry["bundle"].get("messages", ()):
                    yield message.get("sequence_number"), *decoded_body(message)
