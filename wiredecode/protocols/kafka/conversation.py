"""One connection to a broker: requests, the responses by their correlation ids, and SASL."""

import json
import struct
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Any

from wiredecode.fields import printable
from wiredecode.fields.layer import Style
from wiredecode.frames.followed import FollowedFrames
from wiredecode.frames.frame import NOT_ASKED, OK, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.kafka import NAME, names
from wiredecode.protocols.kafka.conversation_values import (
    KafkaRequest,
    Produced,
    errors_in,
    lists_of,
    name_topics,
    number_of,
    partitions,
    partitions_of,
    replica_of,
    shares_of,
    topic_of,
)
from wiredecode.protocols.kafka.evidence import RESPONSE, judge_request
from wiredecode.protocols.kafka.layers import SaslToken, UnknownRequest, UnknownResponse, layer_of, versions
from wiredecode.protocols.kafka.layers_records import is_intact, slots
from wiredecode.protocols.kafka.layers_table import APIS, ERRORS, MESSAGES
from wiredecode.protocols.kafka.messages import add_messages
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.pairing import Newest, Outstanding, Request, link
from wiredecode.protocols.shared.publications import confirm_parts
from wiredecode.protocols.shared.seeking import GOOD

ASKED = struct.Struct(">4xhhi")
"""Key, version and correlation id of a request."""
MAX_NAMED = 3
"""Partitions that a line names."""
NOTED = (names.PRODUCE, names.METADATA, names.SASL_HANDSHAKE, names.SASL_AUTHENTICATE)
"""Requests that matter to other connections, or for those that do."""
CARRIERS, RETOLD = names.TYPES["carriers"], names.TYPES["retold"]
TOKEN = FrameDecoder(SaslToken, "SaslToken")
UNKNOWN = FrameDecoder(UnknownResponse, "Response")


@lru_cache(maxsize=1024)
def decoder(name: str, version: int) -> FrameDecoder | None:
    """The reader of a message; None if there is no such version."""
    if name not in MESSAGES or version not in versions(name):
        return None
    surplus = "brokers ignore them" if name.endswith("Request") else None
    return FrameDecoder(layer_of(name, version), name, surplus_note=surplus)


class KafkaConversation(Conversation):
    """State of one connection."""

    def __init__(self, start: Start, topics: Newest[bytes, str], produced: Newest[Produced, Request]) -> None:
        """``topics``: names of topic ids, known to all connections of the capture; ``produced``: frames of batches."""
        super().__init__(start)
        self.copies = start.copies
        self.waiting: Outstanding[int, KafkaRequest] = Outstanding()
        self.topics, self.produced = topics, produced
        self.raw_sasl = False
        """Tokens without headers follow, until the client sends a request again."""

    def decode(self, frame: Frame, style: Style | None) -> None:
        if not self._read(frame, style):
            return
        name_topics(frame.values, self.topics)
        self._name_partitions(frame)
        if frame.type in CARRIERS:
            self._check_batches(frame)
        if frame.side != self.client:
            self._report_errors(frame)

    def _read(self, frame: Frame, style: Style | None) -> bool:
        """Read a request or response; False: it is neither."""
        if not frame.offset and proxy.decode(self, frame, style):
            return False
        frame.protocol = NAME
        if self.client is None:
            self.client = frame.side if judge_request(frame.data, 0).level >= GOOD else 1 - frame.side
        frame.sender = self.sender(frame)
        if self.raw_sasl and frame.side == self.client and judge_request(frame.data, 0).level >= GOOD:
            self.raw_sasl = False
        if self.raw_sasl:
            TOKEN.read(frame, style)
        elif frame.side == self.client:
            self._request(frame, style)
        else:
            self._response(frame, style)
        return True

    def decode_note(self, frame: Frame) -> Any:
        size = frame.stop - frame.start
        if frame.offset and self.client is not None and not self.raw_sasl and not frame.is_partial:
            if frame.side == self.client and size >= ASKED.size:
                key = ASKED.unpack_from(frame.buffer, frame.start)[0]
                if key not in NOTED or (key == names.PRODUCE and not self.copies):
                    return None
            elif frame.side != self.client and size >= RESPONSE.size:
                correlation = RESPONSE.unpack_from(frame.buffer, frame.start)[1]
                request = self.waiting.get(correlation)
                if request is None or request.key == names.PRODUCE:
                    self.waiting.pop(correlation)
                    return None
        self._read(frame, None)
        return self.note(frame)

    def note(self, frame: Frame) -> Any:
        """Names of topics, or the topic, its id, partition and checksum of each batch."""
        values = frame.values
        if frame.type == "MetadataResponse":
            topics = values.get("topics") or ()
            return [((each.get("topic_id") or b"").hex(), each.get("topic")) for each in topics], None
        if frame.type != "ProduceRequest" or not self.copies:
            return None
        topics = [(each, inner) for each in lists_of(values) for inner in lists_of(each)]
        raws = [inner.get("batches") or b"" for _, inner in topics]
        return None, [
            (
                each.get("topic"),
                (each.get("topic_id") or b"").hex(),
                number_of(inner),
                [raw[slot.crc].hex() for slot in slots(raw)[0]],
            )
            for (each, inner), raw in zip(topics, raws, strict=True)
        ]

    def follow(self, frames: FollowedFrames) -> Iterable[Frame]:
        for stable_id, (named, produced) in frames.notes:
            for number, name in named or ():
                if number and name:
                    self.topics.put(bytes.fromhex(number), name)
            for topic, number, partition, checksums in produced or ():
                topic_id = bytes.fromhex(number)
                name = topic_of({"topic": topic or self.topics.get(topic_id), "topic_id": topic_id or None}) or ""
                for checksum in checksums:
                    self.produced.put((name, partition, bytes.fromhex(checksum)), Request(stable_id, frames.time_ns))
        return ()

    def messages(self, frame: Frame, out: Messages) -> None:
        if frame.type in CARRIERS:
            add_messages(frame, out, self.produced)

    def _request(self, frame: Frame, style: Style | None) -> None:
        if frame.stop - frame.start < ASKED.size:
            FrameDecoder(UnknownRequest, "Request").read(frame, style)
            return
        key, version, correlation = ASKED.unpack_from(frame.buffer, frame.start)
        frame.code, reader = key, decoder(f"{APIS.get(key)}Request", version)
        (reader or FrameDecoder(UnknownRequest, f"{APIS.get(key, '')}Request")).read(frame, style)
        if reader is None:
            text = f"version {version}{'' if key in APIS else f' of API {key}'} is not known"
            frame.find("note", "protocol", "unknown-version", text, "api_version", (6, 8))
        values = frame.values
        if key == names.PRODUCE and values.get("acks", 1) == 0:
            frame.outcome = NOT_ASKED
            return
        copies = replica_of(values) >= 0
        shares = shares_of(values) if key == names.PRODUCE else {}
        kept = values if frame.type in RETOLD else {}
        self.waiting.add(frame, correlation, KafkaRequest(frame.id, frame.time_ns, key, version, copies, shares, kept))

    def _response(self, frame: Frame, style: Style | None) -> None:
        if frame.stop - frame.start < RESPONSE.size:
            UNKNOWN.read(frame, style)
            return
        correlation = RESPONSE.unpack_from(frame.buffer, frame.start)[1]
        request = self.waiting.pop(correlation)
        if request is None:
            UNKNOWN.read(frame, style)
            if self.connection.initiator is not None and frame.all_seen(1 - frame.side):
                message = f"no request with correlation id {correlation} was captured"
                frame.find("note", "protocol", "no-request", message, "correlation_id", (4, 8))
            return
        frame.code = request.key
        link(frame, request)
        self._reader(frame, request).read(frame, style)
        if request.shares:
            self._confirm_partitions(frame, request)
        if request.key == names.METADATA:
            for topic in frame.values.get("topics") or ():
                if topic.get("topic_id") and topic.get("topic"):
                    self.topics.put(topic["topic_id"], topic["topic"])
        elif request.key == names.SASL_AUTHENTICATE and (status := refused_token(frame.values.get("auth_bytes"))):
            frame.refuse(f"the token was refused: {status}", "auth_bytes")
        elif request.key == names.SASL_HANDSHAKE and request.version == 0:
            self.raw_sasl = frame.values.get("error") == 0

    def _confirm_partitions(self, frame: Frame, request: KafkaRequest) -> None:
        """Give the messages of each partition their own outcome, if the broker refused some partitions."""
        parts = [
            (*request.shares[topic, number], refusal_text([each["error"]]) if each["error"] else None)
            for topic, number, each in partitions(frame.values)
            if "error" in each and (topic, number) in request.shares
        ]
        if len({refusal is None for *_, refusal in parts}) > 1:
            confirm_parts(frame, request.frame, parts)

    def _reader(self, frame: Frame, request: KafkaRequest) -> FrameDecoder:
        name, version = f"{APIS.get(request.key)}Response", request.version
        at = frame.start + RESPONSE.size
        refused = int.from_bytes(frame.buffer[at : at + 2]) == names.UNSUPPORTED_VERSION
        if request.key == names.API_VERSIONS and (refused or decoder(name, version) is None):
            version = 0  # what brokers answer to versions that they do not know
        return decoder(name, version) or UNKNOWN

    def _name_partitions(self, frame: Frame) -> None:
        """The first partitions that a frame is about; of a truncated frame there may be more."""
        about = islice(partitions_of(frame.values), MAX_NAMED + 1)
        partitions = [topic if number is None else f"{topic}[{number}]" for topic, number in about]
        if len(partitions) > MAX_NAMED or (partitions and frame.status != OK):
            partitions[MAX_NAMED:] = ["..."]
        if partitions:
            frame.generate("topics_named", " ".join(partitions))

    def _check_batches(self, frame: Frame) -> None:
        """Checksums of batches, and bytes that are none."""
        for topic, number, each in partitions(frame.values):
            raw = each.get("batches") or b""
            batches, rest, problem = slots(raw)
            if problem:
                frame.find("error", "malformed", "no-batch", f"{rest} bytes cannot be batches: {problem}", "batches")
            bad = sum(not is_intact(raw, slot) for slot in batches)
            if bad:
                text = f"{bad} of {len(batches)} batches have a wrong checksum"
                frame.find("error", "checksum", "crc", text, "batches")
            for content in ((topic, number, raw[slot.crc]) for slot in batches) if self.copies else ():
                if frame.type == "ProduceRequest":
                    self.produced.put(content, Request(frame.id, frame.time_ns))
                elif frame.asked and frame.asked.copies and content in self.produced:
                    frame.generate("copy_of", frame.generated.get("copy_of", self.produced[content].frame))

    def _report_errors(self, frame: Frame) -> None:
        """The outcome of a request, by the error codes of its response: parts may be refused where the whole is not."""
        if errors := [*errors_in(frame.values)]:
            frame.refuse(refusal_text(errors), "error" if frame.values.get("error") else None)


def refused_token(challenge: bytes | None) -> str:
    """The status with which a broker refuses an OAuth token, though its error is 0 (RFC 7628 section 3.2.2); or ""."""
    try:
        said = json.loads(challenge or b"") if challenge and challenge[:1] == b"{" else {}
    except ValueError:
        return ""
    return printable(str(said["status"])) if "status" in said else ""


def refusal_text(errors: Iterable[int]) -> str:
    texts = [
        f"{ERRORS.get(code, code)}{f' ({count} times)' if count > 1 else ''}" for code, count in Counter(errors).items()
    ]
    return f"the request was refused: {', '.join(texts)}"
