"""The state of one TANK connection: the broker's side, the requests, and the meaning of answers to them."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from wiredecode.dataclasses import dataclass
from wiredecode.fields import printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import MALFORMED, OK, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.pairing import Outstanding, Request, link
from wiredecode.protocols.tank import NAME, names
from wiredecode.protocols.tank.conversation_bundles import (
    MAX_NAMED,
    BundleContents,
    Topics,
    all_topics,
    confirm_partitions,
    entries_of,
    mark_dropped,
    named_partitions,
    outcome,
    raw_chunks,
    record_of,
    report_partial,
    result_groups,
    whole,
)
from wiredecode.protocols.tank.evidence import MAX_PAYLOAD_BYTES, judge
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, Unknown
from wiredecode.protocols.tank.messages import add_messages

MAX_PEER_OUTSTANDING = 64
"""Requests of a replica that are remembered: it waits for one answer at a time."""
Requested = dict[tuple[str, int], tuple[int, int]]
"""Sequence number and fetch size asked for, by topic and partition."""


@dataclass(slots=True)
class TopicsRequest(Request):
    """A request with the topics and partitions that it names."""

    topics: Topics | None = ()
    """None: it was truncated."""

    @property
    def weight(self) -> int:
        return 1 + sum(len(partitions) for _, partitions in self.topics or ())


class TankConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start, ports: tuple[int, ...]) -> None:
        super().__init__(start)
        served = [port in ports for port in self.connection.ports]
        if not self.whole and served[0] != served[1]:
            self.client = 1 if served[0] else 0
        self.outstanding: Outstanding[tuple[int, int], TopicsRequest] = Outstanding()
        self.style: Style | None = None
        """Style of the records being made."""
        self.contents: BundleContents | None = None
        """Contents of the frame just decoded."""
        self.replica_requests: deque[TopicsRequest] = deque(maxlen=MAX_PEER_OUTSTANDING)
        """Requests of a replica: without an id, answered in order."""

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol, self.style, self.contents = NAME, style, None
        if not frame.offset and proxy.decode(self, frame, style):
            return
        if frame.stop - frame.start < HEADER.size:
            self.decode_headless(frame, style)
            return
        code, length = HEADER.unpack_from(frame.buffer, frame.start)
        frame.code = code
        answer = self._learn_sides(frame) if self.client is None else frame.side != self.client
        frame.sender = None if self.client is None else "server" if answer else "client"
        decoder = DECODERS.get((code, answer))
        if decoder is None or length > MAX_PAYLOAD_BYTES:
            self._decode_unknown(frame, code, length, style)
            return
        decoder.read(frame, style)
        if decoder.handler is not None:
            decoder.handler(self, frame)

    def messages(self, frame: Frame, out: Messages) -> None:
        if self.contents is not None:
            add_messages(frame, self.contents, out)

    def _decode_unknown(self, frame: Frame, code: int, length: int, style: Style | None) -> None:
        name = names.MESSAGES.get(code)
        FrameDecoder(Unknown, name).read(frame, style)
        if length > MAX_PAYLOAD_BYTES:
            frame.status = MALFORMED
            message = f"a payload of {length} bytes: brokers close the connection above {MAX_PAYLOAD_BYTES}"
            frame.find("error", "limit", "payload-too-long", message, "payload_length", (1, 5))
        elif name is None:
            message = f"message id {code} does not exist: brokers close the connection"
            frame.find("warning", "protocol", "unknown-message", message, "message_id", (0, 1))
        else:
            frame.find("warning", "protocol", "wrong-side", f"{name} is never sent by the broker", "message_id", (0, 1))

    def _learn_sides(self, frame: Frame) -> bool:
        """Whether the frame is from the broker, by its shape."""
        request = judge(frame.buffer[frame.start : frame.stop], 0).client
        if request is not None:
            self.client = frame.side if request else 1 - frame.side
        return request is False

    # Requests and responses.

    def _add_request(self, frame: Frame) -> None:
        """A request with an id: remember it until the other side answers."""
        number = frame.values.get("request_id")
        if number is not None:
            self._remember(frame, number, ())

    def _remember(self, frame: Frame, number: int, topics: Topics | None) -> None:
        code = names.PRODUCE if frame.code == names.PRODUCE_WITH_BASE else frame.code or 0
        replaced = self.outstanding.add(frame, (code, number), TopicsRequest(frame.id, frame.time_ns, topics))
        if replaced is not None:
            message = f"request id {number} is used again before frame {replaced.frame} was answered"
            frame.find("note", "protocol", "id-reused", message, "request_id")

    def _answer(self, frame: Frame) -> TopicsRequest | None:
        """A response with an id: find its request."""
        number = frame.values.get("request_id")
        if number is None:
            return None
        request = self.outstanding.pop((frame.code or 0, number))
        if request is None:
            if self.whole and frame.all_seen(1 - frame.side):
                message = f"no request with id {number} was captured"
                frame.find("note", "protocol", "no-request", message, "request_id")
            return None
        link(frame, request)
        return request

    def _admin_response(self, frame: Frame) -> None:
        """CreateTopic and ReloadPartitionConfiguration: one result."""
        self._answer(frame)
        result = frame.values.get("result", 0)
        if result:
            table = names.CREATE_RESULTS if frame.code == names.CREATE_TOPIC else names.RELOAD_RESULTS
            message = f"the request was refused: {table.get(result, result)}"
            frame.refuse(message, "result")

    # Produce.

    def _produce(self, frame: Frame) -> None:
        topics = frame.values.get("topics") or []
        shown = record_of(frame, self.style).get("topics") or []
        cut = frame.status != OK
        if cut:
            topics, shown = whole(topics, "partitions"), whole(shown, "partitions")
        contents = self.contents = BundleContents(frame, self.style, "topics[{}].partitions[{}].bundle")
        addressed = []
        for i, (topic, raw_topic) in enumerate(zip(shown, topics, strict=True)):
            entries, raw_entries = topic["partitions"], raw_topic["partitions"]
            if cut:
                entries, raw_entries = whole(entries, "partition"), whole(raw_entries, "partition")
            addressed.append((raw_topic["topic"], tuple([entry["partition"] for entry in raw_entries])))
            for k, (entry, raw) in enumerate(zip(entries, raw_entries, strict=True)):
                number = entry.get("base_sequence_number")
                contents.topic, contents.partition = raw_topic["topic"], entry["partition"]
                if not cut or i < len(topics) - 1 or k < len(entries) - 1:
                    contents.bundle(entry["bundle"], raw["bundle"], number, i, k)
                elif "bundle" in entry:
                    contents.partial(entry["bundle"], number, i, k)
        complete = all_topics(frame)
        if "request_id" in frame.values:
            self._remember(frame, frame.values["request_id"], tuple(addressed) if complete else None)
        pairs = ((topic, partition) for topic, partitions in addressed for partition in partitions)
        named = named_partitions(pairs) if complete else {}
        frame.generated = named | contents.close(one_partition="partition" in named)

    def _produce_response(self, frame: Frame) -> None:
        """Give every result the topic and partition it belongs to."""
        request = self._answer(frame)
        results = frame.values.get("results") or []
        shown = (record_of(frame, self.style).get("results") or []) if self.style is not None else []
        complete = request is not None and request.topics is not None
        groups = result_groups(request.topics, results) if request is not None and request.topics is not None else []
        if complete and frame.status == OK and len(groups) != len(results):
            message = f"{len(results)} results, the request needs {len(groups)}"
            frame.find("warning", "malformed", "results-mismatch", message, "results")
        elif not complete and results:
            missing = "request" if request is None else "whole request"
            message = f"without the {missing} it is not known which partitions these results belong to"
            frame.find("note", "protocol", "results-unnamed", message, "results")
        for (topic, partitions), record in zip(groups, shown, strict=False):
            record["topic"] = printable(topic)
            record.update({"partition": partitions[0]} if len(partitions) == 1 else {"partitions": partitions})
        frame.generated = named_partitions(
            (topic, partition) for topic, partitions in groups for partition in partitions
        )
        refused = [result for result in results if result.get("result")]
        if refused:
            reasons = sorted({outcome(each["result"], each.get("endpoint"), names.PRODUCE_RESULTS) for each in refused})
            message = f"{len(refused)} of {len(results)} results: {', '.join(reasons[:MAX_NAMED])}"
            frame.refuse(message, "results", "not-stored", "warning")
            if request is not None and request.topics is not None and len(groups) == len(results):
                confirm_partitions(frame, request.topics, groups, results)

    # Consume.

    def _consume(self, frame: Frame) -> None:
        topics = whole(frame.values.get("topics"), "topic")
        addressed = tuple(
            (
                topic["topic"],
                tuple(
                    (entry["partition"], entry["sequence_number"], entry["fetch_size"])
                    for entry in whole(topic.get("partitions"), "fetch_size")
                ),
            )
            for topic in topics
        )
        complete = all_topics(frame)
        if complete:
            frame.generated = named_partitions((topic, entry[0]) for topic, entries in addressed for entry in entries)
        if frame.code == names.CONSUME_AS_PEER:
            self.replica_requests.append(TopicsRequest(frame.id, frame.time_ns, addressed if complete else None))
            frame.expects_response = True
        elif "request_id" in frame.values:
            self._remember(frame, frame.values["request_id"], addressed if complete else None)
        wanted = {entry[1] for _, entries in addressed for entry in entries}
        if len(wanted) == 1 and complete:
            frame.generate("sequence_number", wanted.pop())
        for topic in record_of(frame, self.style).get("topics", ()) if self.style is not None else ():
            for entry in topic.get("partitions", ()):
                if entry.get("sequence_number") in names.STARTS:
                    entry["start"] = names.STARTS[entry["sequence_number"]]

    def _consume_response(self, frame: Frame) -> None:
        peer = frame.code == names.CONSUME_AS_PEER
        request = self._answer_peer(frame) if peer else self._answer(frame)
        addressed = (request.topics if request is not None else None) or ()
        requested: Requested = {(topic, entry[0]): entry[1:] for topic, entries in addressed for entry in entries}
        record = record_of(frame, self.style)
        topics = whole(record.get("topics"), "topic")
        self._report_faults(frame, topics)
        if all_topics(frame):
            pairs = ((topic["topic"], entry["partition"]) for topic, entry in entries_of(topics))
            frame.generated = named_partitions(pairs)
        if "header_rest" in frame.values:
            frame.find("warning", "malformed", "header-rest", "bytes of the header after the last topic", "header_rest")
        for topic, entry in entries_of(topics):
            wanted = requested.get((topic["topic"], entry["partition"]))
            if wanted is not None and self.style is not None:
                entry["requested_sequence_number"], entry["requested_fetch_size"] = wanted
                if wanted[0] in names.STARTS:
                    entry["requested_start"] = names.STARTS[wanted[0]]
        if "topics" in record:
            self._read_chunks(frame, record, requested)

    def _answer_peer(self, frame: Frame) -> TopicsRequest | None:
        """The oldest request for the same topics; earlier ones will get no answer."""
        answered = [topic["topic"] for topic in whole(frame.values.get("topics"), "topic")]
        for index, request in enumerate(self.replica_requests):
            if request.topics is not None and [topic for topic, _ in request.topics] == answered:
                for _ in range(index + 1):
                    self.replica_requests.popleft()
                link(frame, request)
                return request
        complete = all(request.topics is not None for request in self.replica_requests)
        if self.whole and not frame.is_partial and complete and frame.all_seen(1 - frame.side):
            frame.find("note", "protocol", "no-request", "no request of the replica was captured")
        return None

    def _report_faults(self, frame: Frame, topics: list[Any]) -> None:
        faults: dict[str, int] = {}
        for topic in topics:
            if "unknown_topic" in topic:
                faults[f"unknown topic {printable(topic['topic'])}"] = 1
        for _, entry in entries_of(topics):
            code = entry.get("result_code", entry.get("result", 0))
            if code not in (0, names.SPARSE_FIRST):
                text = outcome(code, entry.get("endpoint"), names.CONSUME_RESULTS)
                faults[text] = faults.get(text, 0) + 1
        if faults:
            shown = [f"{text} ({count})" if count > 1 else text for text, count in sorted(faults.items())]
            severity = "note" if all(text.startswith("another node") for text in faults) else "warning"
            frame.refuse(", ".join(shown[:MAX_NAMED]), "topics", "not-read", severity)

    def _read_chunks(self, frame: Frame, record: Any, requested: Requested) -> None:
        """Number the messages of the chunks; report truncated ones."""
        chunks = record.get("chunks") or []
        contents = self.contents = BundleContents(frame, self.style, "chunks[{}].bundles[{}].bundle")
        raw = raw_chunks(frame, chunks) if self.style is not None else None
        position = HEADER.size + 4 + record.get("header_length", 0)
        announced = [
            (topic["topic"], entry) for topic, entry in entries_of(record["topics"]) if entry.get("chunk_length")
        ]
        for i, ((topic, entry), chunk) in enumerate(zip(announced, chunks, strict=False)):
            code = entry.get("result_code", entry["result"])
            number = entry.get("base_sequence_number") if code != names.SPARSE_FIRST else None
            contents.topic, contents.partition = topic, entry["partition"]
            if self.style is not None:
                chunk["topic"], chunk["partition"] = topic, entry["partition"]
            bundles = [each["bundle"] for each in chunk.get("bundles", ()) if "bundle" in each]
            cut = bundles.pop() if bundles and i == len(chunks) - 1 and contents.damaged else None
            for k, bundle in enumerate(bundles):
                raw_bundle = raw[i]["bundles"][k]["bundle"] if raw else None
                number = contents.bundle(bundle, raw_bundle, number, i, k)
            if cut is not None:
                contents.partial(cut, number, i, len(bundles))
            there = min(entry["chunk_length"], frame.stop - frame.start - position)
            if "partial_bundle" in chunk:
                contents.partial(chunk["partial_bundle"], number, i, len(bundles))
                report_partial(contents, chunk, max(0, there), f"chunks[{i}].partial_bundle")
            if self.style is not None:
                wanted = requested.get((topic, entry["partition"]), (0, 0))[0]
                mark_dropped(chunk, 0 if wanted in names.STARTS else wanted, entry["high_water_mark"])
            position += entry["chunk_length"]
        if announced and not contents.damaged and position > frame.length:
            message = f"the chunks need {position - frame.length} bytes more than the payload has"
            frame.find("warning", "malformed", "chunks-cut", message, "chunks")
        frame.generated = {**frame.generated, **contents.close(one_partition=len(announced) == 1)}

    # Other messages.

    def _ping(self, frame: Frame) -> None:
        if frame.sender == "client":
            frame.find("note", "protocol", "client-ping", "a Ping from the client: brokers accept it and stay silent")

    def _register_replica(self, frame: Frame) -> None:
        frame.find("note", "protocol", "obsolete", "RegisterReplica is obsolete: brokers close the connection")

    def _discover_response(self, frame: Frame) -> None:
        """The records have no partition ids: those of the request are used."""
        request = self._answer(frame)
        values = frame.values
        if values.get("partition_count") == 0:
            frame.refuse("the topic is unknown", "topic", "unknown-topic")
        records = values.get("partitions") or []
        if len(records) > values.get("partition_count", 0):
            message = f"{len(records)} records for {values['partition_count']} partitions"
            frame.find("warning", "malformed", "records", message, "partitions")
        if request is None and records:
            message = "without the request it is not known which partitions these records belong to"
            frame.find("note", "protocol", "records-unnamed", message, "partitions")
        explicit = [partition for _, partitions in (request and request.topics) or () for partition in partitions]
        if self.style is None or request is None or (not explicit and len(records) < values.get("partition_count", 0)):
            return  # their partitions are not known: disabled ones are left out
        numbers: Iterable[int] = explicit or range(len(records))
        for number, entry in zip(numbers, record_of(frame, self.style).get("partitions") or (), strict=False):
            entry["partition"] = number

    def _discover(self, frame: Frame) -> None:
        values = frame.values
        if "request_id" in values:
            partitions = tuple(values.get("partitions") or ())
            self._remember(frame, values["request_id"], ((values.get("topic", ""), partitions),))

    HANDLERS: ClassVar[dict[tuple[int, bool], "Callable[[TankConversation, Frame], Any]"]] = {
        (names.PRODUCE, False): _produce,
        (names.PRODUCE, True): _produce_response,
        (names.CONSUME, False): _consume,
        (names.CONSUME, True): _consume_response,
        (names.PING, False): _ping,
        (names.REGISTER_REPLICA, False): _register_replica,
        (names.PRODUCE_WITH_BASE, False): _produce,
        (names.DISCOVER_PARTITIONS, False): _discover,
        (names.DISCOVER_PARTITIONS, True): _discover_response,
        (names.CONSUME_AS_PEER, False): _consume,
        (names.CONSUME_AS_PEER, True): _consume_response,
        (names.CREATE_TOPIC, True): _admin_response,
        (names.RELOAD_CONFIGURATION, True): _admin_response,
    }
    """By message id and whether the broker sends it; other messages are only paired."""


def _decoders() -> dict[tuple[int, bool], FrameDecoder]:
    decoders = {}
    conversation = TankConversation
    sides = (False, REQUESTS, conversation._add_request), (True, RESPONSES, conversation._answer)
    for answer, layers, usual in sides:
        for code, layer in layers.items():
            name = names.MESSAGES[code] + ("Response" if answer and code != names.PING else "")
            decoders[code, answer] = FrameDecoder(layer, name, conversation.HANDLERS.get((code, answer), usual))
    return decoders


DECODERS = _decoders()
"""Decoders of each message, by id and whether the broker sends it."""
