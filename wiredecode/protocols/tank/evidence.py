"""Whether bytes look like a frame of TANK, and of which side: without a magic number, only an exact parse tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wiredecode import compiler
from wiredecode.layer import Layer
from wiredecode.protocols.tank.bundle import chunk_lengths, message_count
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES
from wiredecode.protocols.tank.names import (
    CODEC_MASK,
    CODECS,
    CONSUME_RESULTS,
    CREATE_RESULTS,
    CREATE_TOPIC,
    DISCOVER_PARTITIONS,
    PING,
    PRODUCE,
    PRODUCE_RESULTS,
    PRODUCE_WITH_BASE,
    REGISTER_REPLICA,
    RELOAD_CONFIGURATION,
    RELOAD_RESULTS,
    STAND_ALONE,
)

MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
"""Longest payload that the broker accepts."""
PREFIX_BYTES = 512
"""So much of a frame that is not there yet is read to judge it."""
NEWEST_VERSION = 16
"""Highest client version believed; 0, 2 and 3 are known."""

TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESULTS = {CREATE_TOPIC: CREATE_RESULTS, RELOAD_CONFIGURATION: RELOAD_RESULTS}
PROGRAM = re.compile(r"[ -~]*")


@dataclass(slots=True, frozen=True)
class Judgement:
    """What is known of a supposed frame."""

    good: bool | None
    """True: it parses exactly; False: it is none; None: more bytes are needed."""
    end: int = 0
    strong: bool = False
    """It has so much structure that chance is out of the question."""
    request: bool | None = None
    """Whether it is a request; None: it does not tell."""


BAD, UNDECIDED = Judgement(False), Judgement(None)


def judge(data: bytes, position: int) -> Judgement:
    """Judge the bytes at ``position`` as a frame; by at most :data:`PREFIX_BYTES` of it while it is incomplete."""
    if position + HEADER.size > len(data):
        return UNDECIDED if position == len(data) or data[position] in REQUESTS else BAD
    code, length = HEADER.unpack_from(data, position)
    end = position + HEADER.size + length
    if code not in REQUESTS or length > MAX_PAYLOAD_BYTES:
        return BAD
    whole = end <= len(data)
    fits = _whole if whole else _beginning
    request = fits(REQUESTS[code], False, data, position, end)
    response = fits(RESPONSES[code], True, data, position, end) if code in RESPONSES else None
    if request is response is None:
        return BAD
    strong = bool(request or response)
    if not whole and not strong and len(data) - position >= PREFIX_BYTES:
        return BAD
    told = None if request is not None and response is not None else request is not None
    if code == PING or (told is None and whole and _counts_records(data, position, end)):
        told = False
    return Judgement(True if whole else None, end, strong, told)


def _counts_records(data: bytes, start: int, end: int) -> bool:
    """Of a DiscoverPartitions that could be either side's: it counts its records, so it is the response."""
    if data[start] != DISCOVER_PARTITIONS:
        return False
    values = compiler.head(RESPONSES[DISCOVER_PARTITIONS], data, start, end)
    return bool(len(values["partitions"]) == values["partition_count"] > 0)


def _may_begin(code: int, length: int) -> bool:
    """Whether the header alone is possible: the short messages have few sizes."""
    if code in (PING, REGISTER_REPLICA):
        return length == (0 if code == PING else 2)
    return length >= 4


def _whole(layer: type[Layer], answer: bool, data: bytes, start: int, end: int) -> bool | None:
    """Whether a whole frame is such a message: None it is not, False it may be, True it certainly is."""
    try:
        values, reached = compiler.decoder(layer, "head")(data, start, end)
    except compiler.FAILED:
        return None
    if "header_length" in values:
        reached += sum(chunk_lengths(values["topics"]))
        if "header_rest" in values or not values["topics"]:
            return None
    return _plausible(values, answer) if reached == end else None


def _beginning(layer: type[Layer], answer: bool, data: bytes, start: int, end: int) -> bool | None:
    """The same of a frame that has only begun."""
    code, length = HEADER.unpack_from(data, start)
    if not _may_begin(code, length):
        return None
    decoded = compiler.careful(layer, data, start, min(len(data), start + PREFIX_BYTES))
    values = decoded.values
    if _plausible(values, answer) is None or values.get("header_length", 0) + 4 > length:
        return None
    topics = values.get("topics")
    if not topics or not isinstance(topics, list):
        return False
    if code in (PRODUCE, PRODUCE_WITH_BASE) and not answer:
        return _first_bundle_fits(decoded, data[start : start + PREFIX_BYTES], end - start)
    return bool(topics[0].get("partitions") or topics[0].get("unknown_topic"))


def _first_bundle_fits(decoded: compiler.Decoded, data: bytes, size: int) -> bool | None:
    """Whether the first bundle of a Produce that has begun lies in the frame; if it is alone, it must end with it."""
    length = decoded.ranges.get("topics[0].partitions[0].bundle_length")
    if length is None:
        return False
    topic = decoded.ranges["topics[0].topic"]
    topics, partitions = data[topic[0] - 1], data[topic[1]]
    numbered = 8 if decoded.values["message_id"] == PRODUCE_WITH_BASE else 0
    end = length[1] + numbered + decoded.values["topics"][0]["partitions"][0]["bundle_length"]
    return True if end == size or (end < size and (topics > 1 or partitions > 1)) else None


def _plausible(values: Mapping[str, Any], answer: bool) -> bool | None:
    """None: what was read makes no sense; True: it says much; False: it says little."""
    if values.get("client_version", 0) > NEWEST_VERSION or not PROGRAM.fullmatch(values.get("client_id", "")):
        return None
    if "topic" in values:
        known = RESULTS.get(values["message_id"], {})
        sound = TOPIC.fullmatch(values["topic"]) and ("result" not in values or values["result"] in known)
        return True if sound else None
    if "results" in values:
        return False if _known(values["results"], PRODUCE_RESULTS) else None
    if "global_flags" in values:
        return True if values["global_flags"] == 0 and values.get("cluster_aware", 0) < 2 else None
    if "node_count" in values:
        return True if values["node_count"] == STAND_ALONE or values.get("nodes") else None
    return _plausible_topics(values) if "topics" in values else False


def _plausible_topics(values: Mapping[str, Any]) -> bool | None:
    """The same of messages that list topics; what is cut off may be missing."""
    for topic in values["topics"]:
        if not TOPIC.fullmatch(topic.get("topic", "-")):
            return None
        partitions = topic.get("partitions", ())
        if not _known(partitions, CONSUME_RESULTS):
            return None
        if not all(_plausible_bundle(entry["bundle"]) for entry in partitions if "bundle" in entry):
            return None
    return bool(values["topics"])


def _known(records: Any, results: Mapping[int, str]) -> bool:
    return all(record.get("result", 0) in results for record in records)


def _plausible_bundle(bundle: Mapping[str, Any]) -> bool:
    if "flags" not in bundle:
        return True
    empty = "message_count" in bundle and message_count(bundle) == 0
    return bundle["flags"] & CODEC_MASK in CODECS and not empty
