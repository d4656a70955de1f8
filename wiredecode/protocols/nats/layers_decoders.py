"""Decoders of operations: faster than others, since their records are their values but for the payload."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from wiredecode.fields import compiler, plain, redacted
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.textfields import Piece
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.layers_kinds import Headers
from wiredecode.protocols.reading import FrameDecoder

MAX_KNOWN, MAX_KNOWN_BYTES = 512, 1024
"""Lines of one kind that are remembered, then all are forgotten; and the size of the largest."""


class OperationDecoder(FrameDecoder):
    """A plan that makes the record of tokens, numbers and a payload from the values already read."""

    def __init__(self, layer: type[Layer], name: str | None) -> None:
        super().__init__(layer, name)
        kinds = [plain(kind) for kind in layer.fields_desc]
        self.simple = all(kind.secret or kind.name == "data" or isinstance(kind, Piece | Headers) for kind in kinds)
        """Whether the record shows the values unchanged, but for the payload and hidden or secret values."""
        self.hidden = [kind.name for kind in kinds if kind.hidden]
        self.secret = frozenset(kind.name for kind in kinds if kind.secret)
        fields = {kind.name for kind in kinds}
        self._remembers = {"operation", "size", "data"} <= fields and "headers" not in fields
        """Whether lines are remembered: a payload follows them, and many are said again."""
        self._lines: dict[bytes, dict[str, Any]] = {}
        self._same = 0
        """Number of lines that were the same as a remembered one."""

    def __reduce__(self) -> tuple[Any, ...]:
        return decoder_for, (self.layer, self.type)  # conversations have no others

    def read(self, frame: Frame, style: Style | None) -> None:
        if frame.is_cut or not (style is None or self.simple):
            super().read(frame, style)
            return
        buffer, start, stop = frame.buffer, frame.start, frame.stop
        body = buffer.find(b"\n", start, stop) + 1
        known = self._lines.get(buffer[start:body])
        try:
            if known is not None and known["size"] == stop - body - 2 and buffer.endswith(b"\r\n", body, stop):
                values, reached = {**known, "data": buffer[body : stop - 2]}, stop
                self._same += 1
            else:
                values, reached = self._walk(buffer, start, stop)
                if self._remembers and known is None and body - start <= MAX_KNOWN_BYTES:
                    self._remember_line(buffer[start:body], values)
            if style is not None and self.secret and not self.secret.isdisjoint(values):
                raise compiler.TruncatedField
        except compiler.FAILED:
            super().read(frame, style)
            return
        frame.layer, frame.type, frame.values = self.layer, self.type, values
        if style is not None:
            self._show(frame, values, style)
        if reached < stop:
            self._report_surplus(frame, reached - start, stop - start)

    def _remember_line(self, line: bytes, values: dict[str, Any]) -> None:
        """Remember the values of a line; not after few lines were repeated."""
        if len(self._lines) >= MAX_KNOWN:
            self._lines, self._remembers, self._same = {}, self._same >= MAX_KNOWN, 0
        self._lines[line] = {**values, "data": b""}

    def _show(self, frame: Frame, values: dict[str, Any], style: Style) -> None:
        record = dict(values)
        for name in self.hidden:
            record.pop(name, None)
        if "data" in record:
            record["data"] = style.show(record["data"])
        if "description" in record and not style.secrets:
            record["description"] = without_secrets(record["description"], redacted)
        if "headers" in record:
            record["headers"] = [dict(header) for header in record["headers"]]
        frame.layers = {self.layer.filter_name: record}


@cache
def decoder_for(layer: type[Layer], name: str | None) -> FrameDecoder:
    return OperationDecoder(layer, name)


def hide_headers(headers: list[dict[str, Any]], style: Style) -> None:
    """Hide the values of headers that carry credentials."""
    if style.secrets:
        return
    for header in headers:
        if names.is_secret_header(header["key"], header.get("value", "")):
            header["value"] = redacted(header.get("value", ""))


SECRET_FIELDS = ("data", "error")


@cache
def hides_data(layer: type[Layer] | None) -> bool:
    """Whether frames that were read as this operation have a payload that is a secret."""
    return layer is not None and any(kind.secret for kind in layer.fields_desc if kind.name == "data")


@cache
def secret_layer(layer: type[Layer]) -> type[Layer]:
    """The same operation with a payload, or a text of the server, that is a secret."""
    kinds = []
    for kind in layer.fields_desc:
        if kind.name in SECRET_FIELDS:
            kind = copy.copy(kind)
            kind.secret = True
        kinds.append(kind)
    members = {"fields_desc": kinds, "__doc__": layer.__doc__, "remade": (secret_layer, (layer,))}
    return type(f"Secret{layer.__name__}", (layer,), members)


@cache
def secret_decoder(decoder: FrameDecoder) -> FrameDecoder:
    return OperationDecoder(secret_layer(decoder.layer), decoder.type)
