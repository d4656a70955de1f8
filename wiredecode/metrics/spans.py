"""The hops of a message as OpenTelemetry spans, by its semantic conventions for messaging.

A span is a frame that holds the message; it lasts until the last frame that answers it. If the message carries a W3C
``traceparent``, its spans belong to the trace of the client that published it.
"""

import json
import logging
import re
from base64 import b64decode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from wiredecode.extras import version_number
from wiredecode.frames.escape import valid
from wiredecode.frames.identity import client_side, label
from wiredecode.trace.sighting import Reply, SightedMessage, Sighting
from wiredecode.trace.text import DELIVERED, PUBLISHED, hops

TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""W3C Trace Context: version, trace, parent, flags."""
KINDS = {PUBLISHED: SpanKind.PRODUCER, DELIVERED: SpanKind.CONSUMER}
OPERATIONS = {PUBLISHED: ("publish", "send"), DELIVERED: ("deliver", "receive")}
"""``messaging.operation.name`` and ``messaging.operation.type`` by hop."""
IDS = {"traceId", "spanId", "parentSpanId"}
"""Members that OTLP's JSON has in hexadecimal, unlike Protobuf's."""


def spans(message: SightedMessage) -> list[ReadableSpan]:
    """All hops of a message, in order of time. The first one is the parent of those that copy no other hop."""
    context = parent_of(message)
    trace = _number(16, message.first) if context is None else context.trace_id
    flags = TraceFlags(TraceFlags.SAMPLED) if context is None else context.trace_flags
    contexts: dict[int, SpanContext] = {}
    spans_made = []
    first: SpanContext | None = None
    for hop in hops(message):
        if not isinstance(hop.event, Sighting):
            continue
        own = SpanContext(trace, _number(8, hop.event), is_remote=False, trace_flags=flags)
        parent = contexts.get(hop.event.copy_of or 0, first or context)
        spans_made.append(_span(hop.word, hop.event, own, parent))
        contexts[hop.event.frame] = own
        first = first or own
    return spans_made


def parent_of(message: SightedMessage) -> SpanContext | None:
    """The span of the client that published it, as the message names it."""
    named = next((each.traceparent for each in message.sightings if each.traceparent), None)
    parts = None if named is None else TRACEPARENT.fullmatch(named)
    if parts is None:
        return None
    trace, span, flags = (int(part, 16) for part in parts.groups())
    context = SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags))
    return context if context.is_valid else None


def _number(size: int, sighting: Sighting) -> int:
    """A reproducible id."""
    where = *sighting.connection.endpoints, sighting.time_ns, sighting.frame, sighting.index, size
    return int.from_bytes(blake2b(repr(where).encode(), digest_size=size).digest(), "big")


def _span(word: str, event: Sighting, own: SpanContext, parent: SpanContext | None) -> ReadableSpan:
    name, kind = OPERATIONS.get(word, (word, None))
    client = client_side(event.connection)
    server, _, port = event.connection.endpoints[1 - client].rpartition(":")
    topic = None if event.topic is None else valid(event.topic)
    refusal = next((valid(each.why) for each in event.answers if each.why), None)
    attributes: dict[str, Any] = {
        "messaging.system": event.protocol,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": None if event.partition is None else str(event.partition),
        "messaging.message.id": None if event.sequence is None else str(event.sequence),
        "messaging.message.body.size": event.size,
        "server.address": server.strip("[]"),
        "server.port": int(port),
        "error.type": refusal,
        "wiredecode.offset": event.offset,
        "wiredecode.frame": event.frame,
        "wiredecode.connection": event.connection.number,
        "wiredecode.evidence": event.rests_on or None,
    }
    host = event.connection.endpoints[client].rpartition(":")[0].strip("[]")
    return ReadableSpan(
        " ".join(filter(None, (name, topic))),
        own,
        parent,
        Resource({"service.name": valid(label(event.connection) or host)}),
        {key: value for key, value in attributes.items() if value is not None},
        events=[*map(_event, event.answers)],
        kind=KINDS.get(word, SpanKind.INTERNAL),
        status=Status(StatusCode.UNSET) if refusal is None else Status(StatusCode.ERROR, refusal),
        start_time=event.time_ns,
        end_time=max([event.time_ns, *(each.time_ns for each in event.answers)]),
        instrumentation_scope=InstrumentationScope("wiredecode", version_number()),
    )


def _event(answer: Reply) -> Event:
    facts = {"wiredecode.type": answer.type and valid(answer.type), "wiredecode.frame": answer.frame}
    return Event(answer.word, {key: value for key, value in facts.items() if value is not None}, answer.time_ns)


def as_json(spans: Sequence[ReadableSpan]) -> str:
    """One line of OTLP's JSON, as the file exporter and receiver of the collector have it."""
    return json.dumps(_hexadecimal(MessageToDict(encode_spans(spans), use_integers_for_enums=True))) + "\n"


def _hexadecimal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: b64decode(each).hex() if key in IDS else _hexadecimal(each) for key, each in value.items()}
    return [*map(_hexadecimal, value)] if isinstance(value, list) else value


def send(spans: Sequence[ReadableSpan], endpoint: str) -> bool:
    """Send spans to a receiver of OTLP over HTTP; False: it did not accept them."""
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # the caller reports it, in one line
    return OTLPSpanExporter(endpoint).export(spans) is SpanExportResult.SUCCESS
