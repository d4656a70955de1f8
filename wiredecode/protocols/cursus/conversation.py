"""The state of one Cursus connection: who is who, which commands wait for their reply, and whether it became a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from wiredecode import compiler
from wiredecode.compression import Status
from wiredecode.fields import printable
from wiredecode.frame import MALFORMED, PARTIAL, Frame, Inner
from wiredecode.layer import Layer, Style
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Conversation
from wiredecode.protocols.cursus import naming, names
from wiredecode.protocols.cursus.batch import BATCHES, LABELS, Batch, batch_layer, may_be_seed, sound
from wiredecode.protocols.cursus.body import MAX_DECOMPRESSED_BYTES, Body, classify
from wiredecode.protocols.cursus.kinds import TOKEN
from wiredecode.protocols.cursus.layers import (
    Command,
    Compressed,
    DiscoveryCommand,
    Empty,
    Envelope,
    Failure,
    JsonReply,
    Message,
    PayloadCommand,
    PositionalCommand,
    StreamControl,
    Success,
    TextReply,
    Unknown,
    body_of,
)
from wiredecode.protocols.reading import Plan

NAME = "cursus"
MAX_OUTSTANDING = 10_000
"""Commands remembered per connection until their reply comes; beyond it the oldest is forgotten."""
MAX_ACCEPTED_BYTES = 16 * 1024 * 1024
"""Longest body that brokers since 2026-08 accept."""

CLIENT_LAYERS = frozenset({Command, PayloadCommand, PositionalCommand, DiscoveryCommand, Envelope})
SERVER_LAYERS = frozenset({Success, Failure, StreamControl, JsonReply, TextReply})
BATCH = "Batch"
HIDDEN = ("pad", "gap", "end", "arguments", "words", "reply_fields", "details", "tail", "outcome", "auth", "json_gap")
"""Fields that a record shows by name instead."""
GUARDED = (("secret_data", "data"),)


@dataclass(slots=True)
class Request:
    """A command that waits for its reply."""

    frame: int
    time_ns: int
    type: str
    topic: Any = None
    partition: Any = None
    waits_for_batch: int | None = None
    """READ_STREAM: the first reply announced so many messages in a second one."""


class CursusConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, connection: Connection, dialect: str | None) -> None:
        self.connection = connection
        self.client = connection.initiator
        self.whole = connection.initiator is not None
        self.forced, self.dialect = dialect, dialect
        self.outstanding: deque[Request] = deque()
        self.stream: Request | None = None
        """The STREAM that the broker accepted: it answers nothing else any more."""
        self.closed = False
        self.uncertain = not self.whole
        """Frames may have been lost: a reply need not belong to the oldest command that waits."""
        self.next_offset: list[int | None] = [0, 0] if self.whole else [None, None]

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol = NAME
        self._note_lost(frame)
        if frame.stop - frame.start < 4:
            self._headless(frame, style)
            return
        frame.sender = self._sender(frame)
        named = self._read_fast(frame, style) or self._read(frame, style)
        if self.client is None:
            self._learn_sides(frame)
        if frame.dialect is None:
            frame.dialect = self.dialect
        self.dialect = frame.dialect
        self._pair(frame, named)
        self._finish(frame, named, style)

    # Reading.

    def _read_fast(self, frame: Frame, style: Style | None) -> dict[str, Any] | None:
        """The common case: a batch of today's layout, read in one go; None: have a closer look."""
        buffer, start, stop = frame.buffer, frame.start, frame.stop
        if not buffer.startswith(names.MAGIC, start + 4) or stop - start < 32 or frame.missing or self.forced == "seed":
            return None
        if may_be_seed(buffer, start, stop) or buffer.find(TOKEN, start, stop) >= 0:
            return None
        try:
            values, reached = compiler.decoder(Batch, "walk" if style is None else "head")(buffer, start, stop)
            if not sound("cur", values):
                return None
            if style is not None:
                record, reached = compiler.decoder(Batch, "record", style)(buffer, start, stop)
                frame.layers = {NAME: record}
        except compiler.FAILED:
            return None
        if reached != stop:
            return None
        frame.layer, frame.type, frame.values, frame.dialect = Batch, BATCH, values, "cur"
        return self._batch(frame, style)

    def _read(self, frame: Frame, style: Style | None) -> dict[str, Any]:
        body = self._partial(frame) if frame.missing else None
        if body is None:
            body = classify(frame.buffer, frame.start, frame.stop, frame.sender, self.forced)
        if body.layer is Compressed:
            return self._read_compressed(frame, body, style)
        return self._read_body(frame, body, style)

    def _partial(self, frame: Frame) -> Body | None:
        """What is left of a batch or of a compressed frame; text is read as far as it goes."""
        if frame.buffer.startswith(names.MAGIC, frame.start + 4):
            dialect = self.dialect if self.dialect in BATCHES else "cur"
            return Body(batch_layer(dialect, guarded=True), dialect)
        return None

    def _read_body(self, frame: Frame, body: Body, style: Style | None) -> dict[str, Any]:
        layer = body.layer
        plan = PLANS.get(layer)
        if plan is None:
            plan = PLANS[layer] = Plan(layer, None)
        plan.read(frame, style)
        frame.dialect = body.dialect
        secrets = style is not None and style.secrets
        if layer in NAMERS:
            named = NAMERS[layer](self, frame, secrets)
        elif layer.__name__.startswith("Batch"):
            frame.type = BATCH
            named = self._batch(frame, style)
            self._tell_layout(frame, body)
        else:
            named = {}
            self._tell_unknown(frame, layer)
        if frame.length - 4 > MAX_ACCEPTED_BYTES:
            message = f"length {frame.length - 4} is above what newer brokers accept ({MAX_ACCEPTED_BYTES})"
            frame.find("note", "protocol", "length", message, "length", (0, 4))
        return named

    def _read_compressed(self, frame: Frame, body: Body, style: Style | None) -> dict[str, Any]:
        """Decompress and read what is inside as if it had come alone."""
        plan = PLANS.setdefault(Compressed, Plan(Compressed, "Compressed"))
        plan.read(frame, style)
        codec, inflated = body.codec, body.inflated
        assert codec is not None and inflated is not None
        told = {"compression": codec, "inflated_length": len(inflated.data)}
        if inflated.status is not Status.OK:
            group = "limit" if inflated.status is Status.LIMIT else "malformed"
            severity = "warning" if inflated.status in (Status.LIMIT, Status.MISSING) else "error"
            if group == "malformed" and inflated.status is not Status.MISSING and not frame.missing:
                frame.status = MALFORMED
            frame.find(severity, group, "decompression", f"{codec}: {inflated.message}", "data")
            return told
        inner = self._inner_frame(frame, inflated.data)
        inside = classify(inner.buffer, 0, inner.stop, frame.sender, self.forced)
        if inside.layer is Compressed:
            frame.find("warning", "limit", "nested-compression", "compressed content inside is not opened", "data")
            return told
        named = self._read_body(inner, inside, style)
        self._take_inner(frame, inner, inflated.data)
        return {**told, **named}

    def _inner_frame(self, frame: Frame, data: bytes) -> Frame:
        framed = len(data).to_bytes(4, "big") + data
        return Frame(
            *(frame.connection, frame.side, framed, 0, len(framed), frame.offset, len(framed), 0),
            *(frame.packets, frame.ready, frame.time_ns, frame.first_ns),
            number=frame.number,
            sender=frame.sender,
        )

    def _take_inner(self, frame: Frame, inner: Frame, data: bytes) -> None:
        """What was found inside becomes the frame's: type, findings, and a layer of its own."""
        assert inner.layer is not None
        frame.type, frame.dialect = inner.type, inner.dialect
        frame.inner = [Inner(body_of(inner.layer), data, None), *inner.inner]
        if inner.status == MALFORMED:
            frame.status = MALFORMED
        for finding in inner.findings:
            frame.find(finding.severity, finding.group, finding.code, finding.message, finding.field)
        if frame.layers is not None and inner.layers is not None:
            inner.layers[NAME].pop("length", None)
            frame.layers.update(inner.layers)

    # What each kind of body says; each handler returns fields by name.

    def _command(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        values = frame.values
        name = frame.type = values.get("command_name", "").upper()
        named = naming.command(name, values, secrets)
        if values.get("arguments") or values.get("tail"):
            frame.dialect = "cur"
        self._tell_command(frame, name, named)
        if name == "INTERNAL_BATCH":
            self._internal_batch(frame, named, secrets)
        return named

    def _positional(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        name = frame.type = frame.values.get("command_name", "").upper()
        return naming.positional(name, frame.values, secrets)

    def _discovery(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = frame.values.get("command_name", "")
        return naming.discovery(frame.values, secrets)

    def _envelope(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "Envelope"
        text = naming.piece_text(frame.values, secrets, "text", "secret_text")
        note = "an envelope without a known command: a publish in 2025-11, refused by brokers of today"
        frame.find("note", "protocol", "no-command", note, "text")
        return {"text": text}

    def _success(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "OK"
        return naming.reply_fields(frame.values.get("reply_fields", ()), secrets)

    def _failure(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "ERROR"
        values = frame.values
        named = naming.reply_fields(values.get("details", ()), secrets)
        code = values.get("error_code", "")
        error = named.setdefault("error_class", names.error_class(code))
        named.setdefault("retryable", names.retryable(error))
        words = named.get("details", ())
        if len(words) == 2 and words[0] == "LEADER_IS":
            named["leader"] = words[1]
        self._refused(frame, code)
        if code == "REBALANCE_REQUIRED":
            frame.find("note", "protocol", "rebalance-required", "clients look for this, no known broker sends it")
        if any("secret" in piece for piece in values.get("details", ())):
            message = "the broker echoes a token to the client"
            frame.find("warning", "security", "token-echoed", message, "details")
        return named

    def _refused(self, frame: Frame, code: str) -> None:
        frame.find("note", "response", "refused", f"the command was refused: {printable(code)}", "error_code")

    def _control(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "STREAM_CONTROL"
        named = naming.reply_fields(frame.values.get("details", ()), secrets)
        control, reason = named.get("control_type"), named.get("reason")
        if control != "CLOSE":
            frame.find("warning", "protocol", "stream-control", f"control type {control} is not known", "details")
        else:
            severity = "note" if reason in names.STREAM_CLOSE_REASONS else "warning"
            frame.find(severity, "response", "stream-closed", f"the broker closes the stream: {reason}", "details")
        return named

    def _json(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        value = naming.parsed(naming.piece_text(frame.values, secrets, "json_text", "secret_json"))
        frame.type = naming.json_type(value)
        named = naming.members(value, secrets)
        if named.get("status") == "ERROR" or frame.type == "JsonError":
            code = str(named.get("error", "")).split(" ")[0]
            named = {**named, "error_code": code, "error_class": names.error_class(code)}
            self._refused(frame, code)
        return named

    def _text(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "Text"
        text = naming.piece_text(frame.values, secrets, "text", "secret_text")
        frame.find("note", "protocol", "legacy-text", "free text, as brokers answered until 2026-07", "text")
        return {"text": text}

    def _empty(self, frame: Frame, secrets: bool) -> dict[str, Any]:
        frame.type = "KeepAlive"
        if frame.sender == "client":
            frame.find("error", "malformed", "empty-frame", "an empty frame from a client: brokers refuse it", "length")
        return {}

    NAMERS: ClassVar[dict[type[Layer], Callable[[CursusConversation, Frame, bool], dict[str, Any]]]] = {
        Command: _command,
        PayloadCommand: _command,
        PositionalCommand: _positional,
        DiscoveryCommand: _discovery,
        Envelope: _envelope,
        Success: _success,
        Failure: _failure,
        StreamControl: _control,
        JsonReply: _json,
        TextReply: _text,
        Empty: _empty,
    }
