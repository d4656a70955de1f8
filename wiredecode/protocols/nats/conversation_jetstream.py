"""JetStream in ordinary messages: acks of publishes, errors, keys of buckets and objects of stores.

Source: nats-server, jetstream_api.go and stream.go (``JSPubAckResponse``); ADR-8 (key-value), ADR-20 (object store).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame

OWN = "$JS."
"""Subjects of JetStream itself."""
STREAM, SEQUENCE, DUPLICATE = "stream", "stream_sequence", "duplicate"
"""Generated fields of the answer to a publish."""
BEGINNINGS = (b'{"stream":', b'{"error":', b'{"type":"io.nats.jetstream.')
"""Of answers to publishes and to requests of the API."""
MAX_ANSWER_BYTES = 64 * 1024
KEY = re.compile(r"(\$JS\.(?:[^.]+\.)?API\.DIRECT\.GET\.KV_[^.]+\.)?\$KV\.([^.]+)\.(.+)")
OBJECT = re.compile(r"\$O\.([^.]+)\.([CM])\.(.+)")
"""Bucket, chunk or metadata, and id of the object or its name in base64."""


ACK = "$JS.ACK."
"""Beginning of the subject for an ack of a delivered message."""
ACKNOWLEDGED = re.compile(
    r"\$JS\.ACK\.(?:[^.]+\.[^.]+\.)?([^.]+)\.([^.]+)\.(\d{1,19})\.(\d{1,19})\.\d+\.\d+\.(\d{1,19})(?:\.[^.]*)?\Z",
    re.ASCII,
)
"""ADR-15: stream, consumer, deliveries, sequence in the stream, in the consumer, time, messages left. Newer servers put
domain and account before the stream, and may add a token."""


class Acknowledged(NamedTuple):
    """Facts about the delivered message in the subject for its ack."""

    stream: str
    consumer: str
    delivered: int
    """Number of deliveries, this one included."""
    sequence: int
    """In the stream."""
    pending: int
    """Messages left for the consumer after it."""

    @property
    def of(self) -> str:
        return f"{printable(self.stream)}, consumer {printable(self.consumer)}"


def acknowledged(subject: str) -> Acknowledged | None:
    """None: it is no subject for acks."""
    found = ACKNOWLEDGED.match(subject)
    return None if found is None else Acknowledged(found[1], found[2], int(found[3]), int(found[4]), int(found[5]))


def read_answer(frame: Frame, subject: str, data: bytes) -> tuple[str, int] | None:
    """Read the answer to a message on ``subject``: stream and sequence that keep it, or a finding that says why not."""
    if not data.startswith(BEGINNINGS) or len(data) > MAX_ANSWER_BYTES:
        return None
    try:
        said = orjson.loads(data)
    except ValueError:
        return None
    error, stream, sequence = said.get("error"), said.get("stream"), said.get("seq")
    if isinstance(error, dict):
        number, api = error.get("err_code"), subject.startswith(OWN)
        if isinstance(number, int) or api:  # else it is a service's own way to say no
            if not api:
                frame.generate(STREAM, printable(str(stream or "")))
            text = printable(str(error.get("description") or "no description"))
            frame.find("note", "response", "jetstream", f"{text} ({error.get('code')}, err_code {number})", "data")
        return None
    if not isinstance(stream, str) or not isinstance(sequence, int):
        return None
    frame.generate(STREAM, printable(stream))
    frame.generate(SEQUENCE, sequence)
    if said.get("duplicate"):
        frame.generate(DUPLICATE, True)
        return None
    return stream, sequence


def name_stored(frame: Frame, values: Mapping[str, Any]) -> None:
    """Say which key of a bucket, or which object of a store, a message is about."""
    subject = values["subject"]
    if key := KEY.fullmatch(subject):
        operation = next((each["value"] for each in values.get("headers", ()) if each["key"] == "KV-Operation"), "PUT")
        frame.generate("bucket", printable(key[2]))
        frame.generate("key", printable(key[3]))
        frame.generate("kv_operation", printable("GET" if key[1] else operation))
    elif found := OBJECT.fullmatch(subject):
        frame.generate("bucket", printable(found[1]))
        frame.generate("object", printable(found[3]) if found[2] == "C" else name_of(found[3]))


def name_of(coded: str) -> str:
    """The name of an object."""
    try:
        return printable(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode())
    except ValueError:
        return printable(coded)
