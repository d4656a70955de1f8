"""Reading the body of a frame: its layer, its record, and its fields by name. Needs the frame and its context only."""

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from wiredecode.fields import compiler, printable, redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import MALFORMED, Frame, Inner
from wiredecode.protocols.cursus import NAME, layers, names, names_texts
from wiredecode.protocols.cursus.evidence_body import MAX_TOPIC_BYTES, Body, classify, codec_of, json_start
from wiredecode.protocols.cursus.layers_batch import BATCHES, LABELS, Batch, batch_layer, may_be_seed
from wiredecode.protocols.cursus.layers_kinds import MAX_PIECES, TOKEN, holds_credential
from wiredecode.protocols.reading import FrameDecoder, has_surrogates
from wiredecode.protocols.shared.compression import Decompressed, Status

INNER_BATCH = "cursus_batch"
"""Filter name of a batch inside INTERNAL_BATCH."""
BATCH = "Batch"
MAX_ACCEPTED_BYTES = 16 * 1024 * 1024
"""Longest body that brokers since 2026-08 accept."""

KEPT = ("length", "envelope_topic", "command_name", "error_code")
"""Fields of text bodies that a record shows as they are; what the others say it shows by name."""

PIECES = ("arguments", "words", "reply_fields", "details")
MARKER = names.MARKER_PREFIX.encode()

FIRST_WORD = re.compile(rb"\s*\w*")
"""A truncated text of one word, whose kind is unknown."""

CLUSTER_AUTH = b"\0\7clusterAUTH "
"""Front of a discovery command with a token, which is not AUTH."""


def read(frame: Frame, style: Style | None, forced: str | None, last: str | None) -> dict[str, Any]:
    """Decode the body: return its fields by name, JSON-ready, secrets hidden. ``last``: dialect of the frame before."""
    body = _cut_body(frame, last) if frame.is_partial else None
    if body is None:
        body = classify(frame.buffer, frame.start, frame.stop, frame.sender, forced)
    if frame.length - 4 > MAX_ACCEPTED_BYTES and body.layer is not Batch:
        message = f"length {frame.length - 4} is above what newer brokers accept ({MAX_ACCEPTED_BYTES})"
        frame.find("note", "protocol", "length", message, "length", (0, 4))
    if body.layer is layers.Compressed:
        return _read_compressed(frame, body, style, forced)
    return _read_body(frame, body, style)


def _cut_body(frame: Frame, last: str | None) -> Body | None:
    """The rest of a batch or of a compressed body; other text is read as far as possible."""
    buffer, position, stop = frame.buffer, frame.start + 4, frame.stop
    if buffer.startswith(names.MAGIC, position):
        dialect = last or ""
        if dialect not in BATCHES:
            dialect = "seed" if may_be_seed(buffer, frame.start, stop) else "cur"
        return Body(batch_layer(dialect, True), dialect)
    if position == stop:
        return Body(layers.Unknown)
    if frame.sender != "client" and json_start(buffer, position, stop):
        return Body(layers.JsonReply)
    if frame.sender != "server" and buffer.startswith(CLUSTER_AUTH, position):
        return Body(layers.DiscoveryCommand)
    codec = codec_of(buffer, position, stop)
    if codec is None:
        layer = classify(buffer, frame.start, stop, frame.sender).layer
        if layer is layers.Envelope:
            position += 2 + int.from_bytes(buffer[position : position + 2])
        unknown = layer in (layers.Envelope, layers.TextReply) and FIRST_WORD.fullmatch(buffer, position, stop)
        return Body(layers.Unknown) if unknown else None
    return Body(
        layers.Compressed, codec=codec, inflated=Decompressed(b"", Status.CORRUPT, "truncated, not decompressed")
    )


@cache
def _decoder(layer: type[Layer]) -> FrameDecoder:
    return FrameDecoder(layer, None)


def _record_batch(frame: Frame, body: Body, style: Style | None) -> bool:
    """Take over the values of a batch, and make its record; False: it has to be read with care."""
    frame.layer, frame.values = body.layer, body.values or {}
    try:
        if style is not None:
            frame.layers = {NAME: compiler.record(body.layer, frame.buffer, frame.start, frame.stop, style)[0]}
    except compiler.FAILED:
        return False
    return True


def _read_body(frame: Frame, body: Body, style: Style | None) -> dict[str, Any]:
    layer = body.layer
    handler = HANDLERS.get(layer)
    if body.values is None or has_surrogates(body.values) or not _record_batch(frame, body, style):
        _decoder(layer).read(frame, style if handler is None else None)
    frame.dialect = body.dialect
    if handler is not None:
        if frame.is_partial:
            frame.values = {
                **frame.values,
                **{name: names_texts.keep_closed(frame.values.get(name, ())) for name in PIECES},
            }
        named = handler(frame, style is not None and style.secrets)
        if any(len(frame.values.get(name, ())) >= MAX_PIECES - 1 for name in PIECES):
            frame.find("warning", "limit", "pieces", f"more than {MAX_PIECES} words: the rest is not read")
        if style is not None:
            kept = ((name, frame.values[name]) for name in KEPT if name in frame.values)
            record = {name: value if isinstance(value, int) else printable(value) for name, value in kept}
            if not style.secrets and "envelope_topic" in record:
                record["envelope_topic"] = without_secrets(str(record["envelope_topic"]), redact)
            frame.layers = {NAME: {**named, **record} if named.keys() & record.keys() else {**record, **named}}
            frame.layers.update(_inner_records(frame, style))
        return named
    if body.dialect is not None:
        report_layout(frame, body)
        if frame.buffer.find(TOKEN, frame.start, frame.stop) >= 0:
            message = "a message may hold a token: some clients send it after message="
            frame.find("warning", "security", "token-in-message", message, "messages")
        return _batch(frame)
    frame.type = "Unknown"
    if style is not None and frame.layers is not None and "secret_data" in frame.layers[NAME]:
        frame.layers[NAME]["data"] = frame.layers[NAME].pop("secret_data")
    if not frame.is_partial:
        frame.find("warning", "undecoded", "unknown-body", "the body is none that this protocol has", "data")
    return {}


def _read_compressed(frame: Frame, body: Body, style: Style | None, forced: str | None) -> dict[str, Any]:
    """Decompress, and read what is inside as if it had come alone."""
    codec, inflated = body.codec, body.inflated
    assert codec is not None and inflated is not None
    _decoder(layers.CompressedSecret if holds_credential(inflated.data) else layers.Compressed).read(frame, style)
    frame.type = "Compressed"
    added: dict[str, Any] = {"compression": codec}
    if not frame.is_partial:
        added["inflated_length"] = len(inflated.data)
    if frame.layers is not None:
        frame.layers[layers.Compressed.filter_name].update(added)
    if inflated.status is not Status.OK:
        _report_decompression(frame, codec, inflated)
        return {"compression": codec}
    inner = _inner_frame(frame, inflated.data)
    inside = classify(inner.buffer, 0, inner.stop, frame.sender, forced)
    if inside.layer is layers.Compressed:
        frame.find("warning", "limit", "nested-compression", "compressed content inside is not opened", "data")
        return added
    named = _read_body(inner, inside, style)
    _adopt(frame, inner, inflated.data)
    if frame.type == BATCH:
        named = {name: inner.values[name] for name in ("topic", "partition") if name in inner.values}
    return {**added, **named}


def _report_decompression(frame: Frame, codec: str, inflated: Decompressed) -> None:
    message = f"{codec}: {inflated.message}"
    if inflated.status is Status.LIMIT:
        frame.find("warning", "limit", "decompressed-size", message, "data")
    elif inflated.status is Status.MISSING:
        frame.find("warning", "undecoded", "codec-missing", message, "data")
    elif not frame.is_partial:
        frame.status = MALFORMED
        frame.find("error", "malformed", "decompression", message, "data")


def _inner_frame(frame: Frame, data: bytes) -> Frame:
    """The decompressed body, framed as it would have been without compression."""
    framed = len(data).to_bytes(4, "big") + data
    return type(frame)(
        connection=frame.connection,
        side=frame.side,
        buffer=framed,
        start=0,
        stop=len(framed),
        offset=frame.offset,
        length=len(framed),
        missing=0,
        packets=frame.packets,
        ready=frame.ready,
        time_ns=frame.time_ns,
        first_ns=frame.first_ns,
        number=frame.number,
        sender=frame.sender,
    )


def _adopt(frame: Frame, inner: Frame, data: bytes) -> None:
    """The decompressed body becomes the frame's: type, findings, and its own layer."""
    assert inner.layer is not None
    frame.type, frame.dialect = inner.type, inner.dialect
    frame.inner = [Inner(layers.body_of(inner.layer, NAME), data, None), *inner.inner]
    if inner.status == MALFORMED:
        frame.status = MALFORMED
    for finding in inner.findings:
        frame.find(finding.severity, finding.group, finding.code, finding.message, finding.field)
    if frame.layers is not None and inner.layers is not None:
        inner.layers[NAME].pop("length", None)
        frame.layers.update(inner.layers)


# Readers of the kinds of bodies.


def _command(frame: Frame, secrets: bool) -> dict[str, Any]:
    values = frame.values
    name = printable(values.get("command_name", "")).upper()
    frame.type = name or None
    named = names_texts.command(name, values, secrets)
    if values.get("arguments") or values.get("tail"):
        frame.dialect = "cur"
    if name == "INTERNAL_BATCH" or ("internal_token" in named and name not in names.REPLICATING):
        named["forwarded"] = True
    if not frame.is_partial:
        _report_command(frame, name, named)
    if name == "INTERNAL_BATCH":
        _internal_batch(frame, named, secrets)
    return named


def _report_command(frame: Frame, name: str, named: dict[str, Any]) -> None:
    keys = [piece["key"] for piece in frame.values.get("arguments", ()) if "key" in piece]
    if len(keys) != len(set(keys)):
        twice = sorted({printable(key) for key in keys if keys.count(key) > 1}) if len(keys) < 100 else []
        message = f"a parameter occurs twice, the last one counts: {', '.join(twice)}"
        frame.find("note", "protocol", "repeated-parameter", message, "arguments")
    if names_texts.IGNORED in named:
        frame.find("note", "protocol", "ignored-words", "brokers ignore words without '='", "arguments")
    if name in names.EXACT and (keys or named):
        frame.find("note", "protocol", "arguments", f"{name} takes no arguments: unknown to brokers", "arguments")
    if name in names.OFFSET_COMMANDS and "offsets" not in named:
        frame.find("note", "protocol", "no-offsets", "the command does not end with a list of offsets", "arguments")
    acks = named.get("acks")
    if acks is not None and str(acks).lower() not in names.KNOWN_ACKS:
        frame.find("warning", "protocol", "acks", f"acks {acks} is not known", "arguments")


def _internal_batch(frame: Frame, named: dict[str, Any], secrets: bool) -> None:
    """A batch in base64, forwarded between brokers."""
    try:
        data = base64.b64decode(named.get("payload", ""), validate=True)
    except binascii.Error as error:
        frame.find("warning", "malformed", "base64", f"payload: {error}", "arguments")
        return
    inner = _inner_frame(frame, data)
    body = classify(inner.buffer, 0, inner.stop, "client")
    if body.dialect not in BATCHES or not data.startswith(names.MAGIC):
        frame.find("warning", "malformed", "no-batch", "payload holds no batch", "arguments")
        return
    layer = layers.body_of(body.layer, INNER_BATCH)
    frame.inner = [*frame.inner, Inner(layer, data, None)]
    if TOKEN in data and not secrets:
        named["payload"] = f"<redacted {len(named['payload'])} bytes>"


def _inner_records(frame: Frame, style: Style) -> dict[str, Any]:
    return {
        inner.layer.filter_name: _guarded_record(
            inner.layer.present(compiler.careful(inner.layer, inner.data, 0, len(inner.data)).values, style)
        )
        for inner in frame.inner
    }


def _positional(frame: Frame, secrets: bool) -> dict[str, Any]:
    name = printable(frame.values.get("command_name", "")).upper()
    frame.type = name or None
    if frame.is_partial and not names_texts.known_pieces(frame.values.get("words", ())):
        frame.dialect = None  # what follows may be key=value
    return names_texts.positional(name, frame.values, secrets)


def _discovery(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = printable(frame.values.get("command_name", "")) or None
    return names_texts.discovery(frame.values, secrets)


def _envelope(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "Envelope"
    topic = frame.values.get("envelope_topic", "")
    if frame.is_partial:
        return {}
    if len(topic) <= MAX_TOPIC_BYTES:
        note = "an envelope without a known command: a publish in 2025-11, refused by brokers of today"
        frame.find("note", "protocol", "no-command", note, "text")
    return {"text": names_texts.piece_text(frame.values, secrets, "text", "secret_text")}


def _success(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "OK"
    return names_texts.reply_fields(frame.values.get("reply_fields", ()), secrets)


def _failure(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "ERROR"
    values = frame.values
    details, code = values.get("details", ()), values.get("error_code", "")
    sentence = names_texts.sentence(code, details, secrets)
    named: dict[str, Any] = {"text": sentence}
    if code or not sentence:
        named = names_texts.reply_fields(details, secrets)
    if frame.is_partial:
        return named
    error = named.setdefault("error_class", names.error_class(code))
    named.setdefault("retryable", names.retryable(error))
    words = named.get("details", ())
    if len(words) == 2 and words[0] == "LEADER_IS":
        named["leader"] = words[1]
    _refuse(frame, sentence or code)
    if any("secret" in piece for piece in values.get("details", ())):
        frame.find("warning", "security", "token-echoed", "the broker sends a token to the client", "details")
    return named


def _refuse(frame: Frame, code: str) -> None:
    frame.refuse(f"the command was refused: {printable(code)}", "error_code")


def _control(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "STREAM_CONTROL"
    named = names_texts.reply_fields(frame.values.get("details", ()), secrets)
    control, reason = named.get("control_type"), named.get("reason")
    if frame.is_partial:
        return named
    if control != "CLOSE":
        frame.find("warning", "protocol", "stream-control", f"control type {control} is not known", "details")
    else:
        severity = "note" if reason in names.STREAM_CLOSE_REASONS else "warning"
        frame.find(severity, "response", "stream-closed", f"the broker closes the stream: {reason}", "details")
    return named


def _json(frame: Frame, secrets: bool) -> dict[str, Any]:
    if frame.is_partial:
        keys = [key for key, _ in names_texts.JSON_TYPES if b'"%b":' % key.encode() in frame.data]
        frame.type = names_texts.json_type(dict.fromkeys(keys))
        return {}
    value = names_texts.json_piece(frame.values, secrets)
    frame.type = names_texts.json_type(value)
    named = names_texts.members(value)
    if named.get("status") == "ERROR" or frame.type == "JsonError":
        code = str(named.get("error", "")).split(" ")[0]
        named = {**named, "error_code": code, "error_class": names.error_class(code)}
        _refuse(frame, code)
    return named


def _text(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "Text"
    text = names_texts.piece_text(frame.values, secrets, "text", "secret_text")
    if text.strip() == "REBALANCE_REQUIRED":
        frame.find("note", "protocol", "rebalance-required", "clients look for this, no known broker sends it", "text")
    elif not frame.is_partial:
        frame.find("note", "protocol", "legacy-text", "free text, as brokers answered until 2026-07", "text")
    return {"text": text} if not frame.is_partial else {}


def _empty(frame: Frame, secrets: bool) -> dict[str, Any]:
    frame.type = "KeepAlive"
    if frame.sender == "client":
        frame.find("error", "malformed", "empty-frame", "an empty frame from a client: brokers refuse it", "length")
    return {}


HANDLERS: dict[type[Layer], Callable[[Frame, bool], dict[str, Any]]] = {
    layers.Command: _command,
    layers.PayloadCommand: _command,
    layers.AuthCommand: _command,
    layers.PositionalCommand: _positional,
    layers.DiscoveryCommand: _discovery,
    layers.Envelope: _envelope,
    layers.Success: _success,
    layers.Failure: _failure,
    layers.StreamControl: _control,
    layers.JsonReply: _json,
    layers.TextReply: _text,
    layers.Empty: _empty,
}


# Batches.


def _batch(frame: Frame) -> dict[str, Any]:
    frame.type = BATCH
    values = frame.values
    record = frame.layers[NAME] if frame.layers else None
    if record is not None and frame.layer is not Batch:
        _guarded_record(record)
    if values.get("acks", "1").lower() not in names.KNOWN_ACKS:
        frame.find("warning", "protocol", "acks", f"acks {printable(values['acks'])} is not known", "acks")
    if frame.sender != "client" and frame.buffer.find(MARKER, frame.start, frame.stop) >= 0:
        report_markers(frame, record)
    return {}


def report_markers(frame: Frame, record: dict[str, Any] | None) -> None:
    """Transaction markers, ordinary messages on the wire: who ended which transaction."""
    count = 0
    if record is None and frame.layer is not None:
        record = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop, truncated=frame.is_partial).values
    for message in (record or {}).get("messages", ()):
        producer = message.get("producer_id", "")
        if producer.startswith(names.MARKER_PREFIX) and producer.count(":") >= 2:
            transaction, _, outcome = producer.removeprefix(names.MARKER_PREFIX).rpartition(":")
            message.update(transaction_marker=outcome, transactional_id=transaction)
            count += 1
    if count:
        frame.find("note", "protocol", "transaction-marker", "holds markers of transactions", "messages")


def report_layout(frame: Frame, body: Body) -> None:
    """Report the layout, and the evidence against it."""
    if body.ambiguous:
        message = f"fits today's layout and that of the older document: read as {body.dialect}"
        frame.find("note", "protocol", "ambiguous-layout", message, "partition")
    elif body.dialect not in ("cur", "seed", None):
        frame.find("note", "protocol", "historic-layout", LABELS[body.dialect], "messages")
    if frame.is_partial or frame.status == MALFORMED:
        return
    if not body.fits:
        frame.status = MALFORMED
        frame.find("error", "malformed", "batch", "the body fits no layout of a batch", "messages")


def _guarded_record(record: dict[str, Any]) -> dict[str, Any]:
    """Hidden payloads under their usual name."""
    for message in record.get("messages", ()):
        if "secret_data" in message:
            message["data"] = message.pop("secret_data")
    return record
