"""Rates bytes as a frame of TANK, and of which side: without a magic number, only an exact parse decides."""

import re
from collections.abc import Mapping
from typing import Any

from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT, WEAK, Evidence
from wiredecode.protocols.tank import names
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, ProduceResponse
from wiredecode.protocols.tank.layers_bundle import chunk_lengths, message_count

MAX_PAYLOAD_BYTES = 256 * 1024 * 1024
"""Longest payload that the broker accepts."""
PREFIX_BYTES = 256
"""Bytes of a longer or incomplete frame that are read to judge it."""
EXACT_BYTES = 1024
"""Longest payload that is judged whole, except configurations: longer ones have their structure in the beginning."""
LOOK_BYTES = 10
NEWEST_VERSION = 16
"""Highest client version believed; 0, 2 and 3 are known."""
LONGEST_NAME = 64
LONGEST_RESULTS = 512
"""Payload of a ProduceResponse: only numbers, so longer ones are no evidence."""

NAMED = frozenset({names.DISCOVER_PARTITIONS, names.CREATE_TOPIC, names.RELOAD_CONFIGURATION})
"""Messages whose request id is followed by a topic."""
SIZES = {
    names.PING: 0,
    names.REGISTER_REPLICA: 2,
    names.STATUS: 4,
    names.DISCOVER_TOPICS: 5,
    names.DISCOVER_TOPOLOGY: 5,
}
"""Payloads of the requests that have one size."""
LONGEST = dict.fromkeys({*NAMED, *SIZES}, 64 * 1024)
"""Longest payload believed of messages without data."""

CANDIDATE = re.compile(rb"(?=[\x01-\x0c][\x00-\xff]{3}[\x00-\x10])", re.DOTALL)
TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESULTS = {names.CREATE_TOPIC: names.CREATE_RESULTS, names.RELOAD_CONFIGURATION: names.RELOAD_RESULTS}
PROGRAM = re.compile(r"[ -~]*")
REDIRECT_BYTES = 7
RESULTS_ONLY = re.compile(rb"(?:[\x00-\x04\x0a\xfd-\xff]|\xfc.{6})+", re.DOTALL)
"""The results of a ProduceResponse: a regular language, and read for every byte of a search."""


def judge(data: bytes, position: int) -> Evidence:
    """Judge the bytes at ``position`` as a frame: a short one whole, others by their beginning."""
    if position + HEADER.size > len(data):
        return Evidence(SHORT if position == len(data) or data[position] in REQUESTS else BAD)
    code, length = HEADER.unpack_from(data, position)
    end = position + HEADER.size + length
    if code not in REQUESTS or length > LONGEST.get(code, MAX_PAYLOAD_BYTES):
        return Evidence(BAD)
    there = end <= len(data)
    exact = there and (length <= EXACT_BYTES or code == names.CREATE_TOPIC)
    fits = _whole if exact else _beginning
    request = fits(REQUESTS[code], False, data, position, end) if _may_request(code, length, data, position) else None
    response = fits(RESPONSES[code], True, data, position, end) if _may_answer(code, length, data, position) else None
    if request is response is None:
        return Evidence(BAD)
    strong = bool(request or response)
    if not exact and not strong and (there or len(data) - position >= PREFIX_BYTES):
        return Evidence(BAD)
    client = None if request is not None and response is not None else request is not None
    if code == names.PING or (client is None and exact and _counts_records(data, position, end)):
        client = False
    return Evidence(GOOD if strong else WEAK if there else SHORT, end, client)


class TankChain(seeking.Chain):
    """Good frames have much structure, others are acknowledgements, Pings and the like."""

    needed = {
        seeking.START: {WEAK: 3, GOOD: 1},
        seeking.START_HOME: {WEAK: 1},
        seeking.LATE: {WEAK: 5, GOOD: 3},
        seeking.LATE_HOME: {WEAK: 4, GOOD: 1},
        seeking.KNOWN: {WEAK: 4, GOOD: 1},
    }
    looks = EXACT_BYTES

    judge = staticmethod(judge)

    def add(self, data: bytes, seen: Evidence) -> None:
        """A Ping that precedes another message is good evidence."""
        if self.whole == 2 and data[self.start] == names.PING != data[self.end]:
            self.best = GOOD


SEEKER = seeking.Seeker(CANDIDATE, HEADER.size, (TankChain,))


# Quick tests, as search tries every byte: missing bytes count as zeros.


def _may_request(code: int, length: int, data: bytes, position: int) -> bool:
    look = data[position + HEADER.size : position + HEADER.size + LOOK_BYTES].ljust(LOOK_BYTES, b"\0")
    if code in (names.PRODUCE, names.CONSUME, names.PRODUCE_WITH_BASE):
        return length >= 12 and look[0] <= NEWEST_VERSION and not look[1]
    if code == names.CONSUME_AS_PEER:
        return length >= 16 and look[6:10] == bytes(4)
    if code in NAMED:
        return look[4] <= LONGEST_NAME
    return length == SIZES[code]


def _may_answer(code: int, length: int, data: bytes, position: int) -> bool:
    look = data[position + HEADER.size : position + HEADER.size + LOOK_BYTES].ljust(LOOK_BYTES, b"\0")
    if code in (names.CONSUME, names.CONSUME_AS_PEER):
        named = code == names.CONSUME_AS_PEER or look[9] <= LONGEST_NAME
        return named and int.from_bytes(look[:4], "little") + 4 <= length
    if code == names.PRODUCE:
        return 5 <= length <= LONGEST_RESULTS
    if code in NAMED:
        return look[4] <= LONGEST_NAME
    return code in RESPONSES and (code == names.PING) == (length == 0)


def _counts_records(data: bytes, start: int, end: int) -> bool:
    """Whether a DiscoverPartitions counts its records, so that it is the response."""
    if data[start] != names.DISCOVER_PARTITIONS:
        return False
    values = compiler.head(RESPONSES[names.DISCOVER_PARTITIONS], data, start, end)
    return bool(len(values["partitions"]) == values["partition_count"] > 0)


def _whole(layer: type[Layer], answer: bool, data: bytes, start: int, end: int) -> bool | None:
    """Whether a whole frame is such a message: None it is not, False it may be, True it certainly is."""
    if layer is ProduceResponse:
        return False if RESULTS_ONLY.fullmatch(data, start + HEADER.size + 4, end) else None
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
    """Judge the beginning of a frame."""
    if layer is ProduceResponse:
        results = RESULTS_ONLY.match(data, start + HEADER.size + 4)
        return False if len(data) - (results.end() if results else start + HEADER.size + 4) < REDIRECT_BYTES else None
    code, length = HEADER.unpack_from(data, start)
    decoded = compiler.careful(layer, data, start, min(len(data), start + PREFIX_BYTES))
    values = decoded.values
    if _plausible(values, answer) is None or values.get("header_length", 0) + 4 > length:
        return None
    topics = values.get("topics")
    if not topics or not isinstance(topics, list):
        return False
    if code == names.DISCOVER_TOPICS:
        return len(topics) > 2
    if code in (names.PRODUCE, names.PRODUCE_WITH_BASE) and not answer:
        return _first_bundle_fits(decoded, data[start : start + PREFIX_BYTES], end - start)
    return bool(topics[0].get("partitions") or topics[0].get("unknown_topic"))


def _first_bundle_fits(decoded: compiler.Decoded, data: bytes, size: int) -> bool | None:
    """Whether the first bundle of a Produce that has begun lies in the frame; if it is alone, it must end with it."""
    length = decoded.ranges.get("topics[0].partitions[0].bundle_length")
    if length is None:
        return False
    topic = decoded.ranges["topics[0].topic"]
    topics, partitions = data[topic[0] - 1], data[topic[1]]
    numbered = 8 if decoded.values["message_id"] == names.PRODUCE_WITH_BASE else 0
    end = length[1] + numbered + decoded.values["topics"][0]["partitions"][0]["bundle_length"]
    return True if end == size or (end < size and (topics > 1 or partitions > 1)) else None


def _plausible(values: Mapping[str, Any], answer: bool) -> bool | None:
    """None: implausible values; True: they are strong evidence; False: weak evidence."""
    if values.get("client_version", 0) > NEWEST_VERSION or not PROGRAM.fullmatch(values.get("client_id", "")):
        return None
    if "topic" in values:
        results = RESULTS.get(values["message_id"], {})
        sound = TOPIC.fullmatch(values["topic"]) and ("result" not in values or values["result"] in results)
        return True if sound else None
    if "global_flags" in values:
        return True if values["global_flags"] == 0 and values.get("cluster_aware", 0) < 2 else None
    if "node_count" in values:
        return True if values["node_count"] == names.STAND_ALONE or values.get("nodes") else None
    return _plausible_topics(values) if "topics" in values else False


def _plausible_topics(values: Mapping[str, Any]) -> bool | None:
    """Judge messages that list topics, of which truncated ones may miss some."""
    for topic in values["topics"]:
        if not TOPIC.fullmatch(topic.get("topic", "-")):
            return None
        partitions = topic.get("partitions", ())
        if not _is_known(partitions, names.CONSUME_RESULTS):
            return None
        if not all(_plausible_bundle(entry["bundle"]) for entry in partitions if "bundle" in entry):
            return None
    return bool(values["topics"])


def _is_known(records: Any, results: Mapping[int, str]) -> bool:
    return all(record.get("result", 0) in results for record in records)


def _plausible_bundle(bundle: Mapping[str, Any]) -> bool:
    if "flags" not in bundle:
        return True
    empty = "message_count" in bundle and message_count(bundle) == 0
    return bundle["flags"] & names.CODEC_MASK in names.CODECS and not empty
