"""The way of records: Produce and its offsets, Fetch by offset, commits, and where groups begin."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import partitions, replica_of
from wiredecode.protocols.kafka.layers_records import Front, Slot, batches_of, message_count, slots
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, PublishedContent, Sampler, Step
from wiredecode.protocols.shared.pairing import Newest

BATCH = struct.Struct(">q13xHiqq")
"""Base offset, attributes, last offset delta, first and last timestamp, ms."""
CONTROL = 1 << 5
NEAR_NS = 10_000_000_000
"""Clocks of a producer and of the capture differ by less: else an application gives records times of its events."""
STARTS = {-1: flows.LATEST, -2: flows.FIRST}
"""Timestamps of ListOffsets."""
ACKS, ISOLATION = {-1: "all"}, {0: "read_uncommitted", 1: "read_committed"}
Place = tuple[str, int | None]


class StoredRecords(NamedTuple):
    """Records that lie together."""

    first: int
    records: int
    end: int
    """Offset after the last one."""
    waited_ns: int | None
    codec: int


def read_batch(raw: bytes, slot: Slot, now_ns: int) -> StoredRecords | None:
    """The front of a batch; None for markers of transactions. Times far from ``now_ns`` are not those of publishing."""
    if slot.layer is not Front:
        count = message_count(raw, slot)
        last = int.from_bytes(raw[slot.start : slot.start + 8], signed=True)
        return StoredRecords(last - count + 1, count, last + 1, None, slot.codec)
    first, attributes, delta, begin_ms, end_ms = BATCH.unpack_from(raw, slot.start)
    if attributes & CONTROL:
        return None
    waited_ns = max(end_ms - begin_ms, 0) * 1_000_000 if abs(now_ns - end_ms * 1_000_000) <= NEAR_NS else None
    return StoredRecords(first, message_count(raw, slot), first + delta + 1, waited_ns, slot.codec)


class RecordFlows(FlowReader):
    """Steps of one capture."""

    types = frozenset(
        {
            *("ProduceRequest", "ProduceResponse", "FetchRequest", "FetchResponse", "OffsetCommitRequest"),
            *("ListOffsetsRequest", "MetadataResponse", "JoinGroupRequest", "ConsumerGroupHeartbeatRequest"),
        }
    )

    def __init__(self) -> None:
        self._produced: Newest[int, dict[Place, int]] = Newest(MAX_KNOWN)
        """By request: records of each partition."""
        self._asked: Newest[tuple[int, str, int | None], int] = Newest(MAX_KNOWN)
        """By connection and partition: the offset that was asked for last."""
        self._starts: Newest[tuple[int, str, int | None], str] = Newest(MAX_KNOWN)
        self._sampler = Sampler()
        self._settings: Newest[tuple[int, str], Sequence[int]] = Newest(MAX_KNOWN)
        """By connection and type of its requests."""

    def read(self, frame: Frame) -> Iterator[Step]:
        values = frame.values
        if replica_of(values) >= 0 or (frame.asked is not None and frame.asked.copies):
            return  # between brokers
        if frame.type == "ProduceRequest":
            yield from self._produce(frame)
        elif frame.type == "ProduceResponse":
            yield from self._stored(frame)
        elif frame.type == "FetchRequest":
            yield from self._fetch(frame)
        elif frame.type == "FetchResponse":
            yield from self._fetched(frame)
        elif frame.type == "MetadataResponse":
            cluster = printable(values.get("cluster_id") or "")
            named = (f"{printable(each['host'])}:{each['port']}" for each in values["brokers"])
            yield from (Step(flows.SPACE, cluster, log=server) for server in (frame.source, *named) if cluster)
        elif frame.type in ("JoinGroupRequest", "ConsumerGroupHeartbeatRequest"):
            yield Step(flows.MEMBER, "")
        elif frame.type == "OffsetCommitRequest":
            group = printable(values["group_id"])
            for topic, number, each in partitions(values):
                yield Step(flows.STORE, printable(topic), number, group, first=each["committed_offset"])
        elif frame.type == "ListOffsetsRequest":
            for topic, number, each in partitions(values):
                if (start := STARTS.get(each["timestamp"])) is not None:
                    self._starts.put((frame.connection.number, topic, number), start)

    def _produce(self, frame: Frame) -> Iterator[Step]:
        counts: dict[Place, int] = {}
        codec = None
        for topic, number, each in partitions(frame.values):
            for batch in batches(each, frame.time_ns):
                codec = batch.codec
                counts[topic, number] = counts.get((topic, number), 0) + batch.records
                how: dict[str, Any] = {"size": len(each["batches"]), "waited_ns": batch.waited_ns}
                if self._sampler.wants(frame):
                    how["samples"] = self._sampler.take(frame, batch.records, contents_of(each["batches"]))
                yield Step(flows.PUBLISH, printable(topic), number, messages=batch.records, **how)
        self._produced.put(frame.id, counts)
        acks = frame.values["acks"]
        if codec is not None and self._chose(frame, acks, codec):
            yield Step(flows.SETTING, "acks", start=ACKS.get(acks, str(acks)))
            yield Step(flows.SETTING, "compression", start=names.CODECS.get(codec, str(codec)))

    def _chose(self, frame: Frame, *values: int) -> bool:
        """Whether a client chose other values than in its last request of a type, or shows them for the first time."""
        key = frame.connection.number, frame.type or ""
        differs = self._settings.get(key) != values
        if differs:
            self._settings.put(key, values)
        return differs

    def _stored(self, frame: Frame) -> Iterator[Step]:
        counts = self._produced.get(frame.request or 0, {})
        for topic, number, each in partitions(frame.values):
            if count := counts.get((topic, number)):
                refused = each["error"] != 0
                first = each["base_offset"] if not refused and each["base_offset"] >= 0 else None
                what = flows.REFUSE if refused else flows.CONFIRM
                yield Step(what, printable(topic), number, first=first, messages=count)

    def _fetch(self, frame: Frame) -> Iterator[Step]:
        least, wait_ms = frame.values["min_bytes"], frame.values["max_wait_ms"]
        level = frame.values.get("isolation_level", 0)
        if self._chose(frame, least, wait_ms, level):
            yield Step(flows.SETTING, "min_bytes", start=str(least))
            yield Step(flows.SETTING, "max_wait", start=str(wait_ms))
            yield Step(flows.SETTING, "isolation", start=ISOLATION.get(level, str(level)))
        for topic, number, each in partitions(frame.values):
            key = frame.connection.number, topic, number
            if key not in self._asked:
                start = self._starts.get(key) or f"offset {each['fetch_offset']}"
                yield Step(flows.SUBSCRIBE, printable(topic), number, first=each["fetch_offset"], start=start)
            self._asked.put(key, each["fetch_offset"])

    def _fetched(self, frame: Frame) -> Iterator[Step]:
        for topic, number, each in partitions(frame.values):
            asked = self._asked.get((frame.connection.number, topic, number), 0)
            for batch in batches(each):
                skipped = max(asked - batch.first, 0)  # batches come whole
                if (count := batch.records - skipped) > 0:
                    first, lag = batch.first + skipped, max(each.get("high_watermark", 0) - batch.end, 0)
                    size = len(each["batches"])
                    yield Step(flows.DELIVER, printable(topic), number, first=first, messages=count, size=size, lag=lag)


def contents_of(raw: bytes) -> Iterator[PublishedContent]:
    """The records of batches; their id is that of an idempotent producer, and its sequence number."""
    for _, values, contents in batches_of(raw):
        producer, first = values.get("producer_id", -1), values.get("base_sequence", -1)
        for place, record in enumerate(contents.records):
            once = f"{producer} {first + place}" if producer >= 0 else ""
            headers = [(each["key"], each["value"]) for each in record["headers"] if each["value"] is not None]
            yield PublishedContent(record["key"], record["value"], once, headers)


def batches(partition: Mapping[str, Any], now_ns: int = 0) -> Iterator[StoredRecords]:
    """The batches of a partition, without markers of transactions."""
    raw = partition.get("batches") or b""
    yield from filter(None, (read_batch(raw, slot, now_ns) for slot in slots(raw)[0]))
