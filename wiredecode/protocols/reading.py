"""Reads the fields of frames with the compiled decoders of their layers, and reports malformed ones."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from wiredecode.budget import BUDGET, TOO_MANY
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import Array, Number, Struct, Truncated, compiler, plain
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.maps import Map
from wiredecode.frames.frame import MALFORMED, Frame
from wiredecode.protocols.base import Generated
from wiredecode.protocols.shared.maps import report_map

__all__ = ["FrameDecoder", "generated_inside", "has_surrogates", "report_problem", "values_of"]


def generated_inside(layer: type[Layer], prefix: str) -> Iterator[tuple[str, Generated]]:
    """The fields of a layer that is inside the bytes of another field, as generated fields."""
    for kind in map(plain, layer.fields_desc):
        name, inner = f"{prefix}.{kind.name}", kind.element if isinstance(kind, Array) else kind
        if isinstance(inner, Struct):
            yield name, Generated("list<struct>", kind.doc)
            yield from generated_inside(inner.layer, name)
        elif isinstance(kind, Number) and kind.code_name:
            yield name, Generated("string", kind.doc)
            yield f"{prefix}.{kind.code_name}", Generated(kind.column, f"number of {kind.name}")
        else:
            yield name, Generated(kind.column, kind.doc)


def values_of(frame: Frame) -> Mapping[str, Any]:
    """All values of the layer of a frame, also the elements of bulk arrays."""
    if frame.layer is None or not (frame.layer.has_bulk or frame.is_partial):
        return frame.values
    return compiler.readable(frame.layer, frame.buffer, frame.start, frame.stop)[0]


@dataclass(eq=False)
class FrameDecoder:
    """Decodes frames of one message type.

    ``handler``: for the conversation, which calls it with the decoded frame. ``surplus_note``: why bytes after the last
    field are usual; None: they are malformed.
    """

    layer: type[Layer]
    type: str | None
    handler: Callable[[Any, Frame], Any] | None = None
    surplus_note: str | None = None
    _both: Callable[[bytes, int, int], tuple[dict[str, Any], dict[str, Any], int]] = field(init=False)
    _style: Style | None = field(default=None, init=False)

    def read(self, frame: Frame, style: Style | None) -> None:
        """Fill in type, values, with a ``style`` the record, and findings about fields."""
        frame.layer, frame.type = self.layer, self.type
        buffer, start, stop = frame.buffer, frame.start, frame.stop
        try:
            if frame.is_partial:
                raise compiler.DecodeError
            if style is None:
                frame.values, reached = self._walk(buffer, start, stop)
            else:
                if self._style is not style:
                    self._style, self._both = style, compiler.both(self.layer, style)
                frame.values, record, reached = self._both(buffer, start, stop)
                frame.layers = {self.layer.filter_name: record}
        except compiler.FAILED:
            BUDGET.own.begin()
            reached = self._read_carefully(frame, style)
        for kind in self._maps:
            if raw := frame.values.get(kind.name):
                report_map(frame, kind, raw)
        if reached < stop and not frame.is_partial and frame.status != MALFORMED:
            self._report_surplus(frame, reached - start, stop - start)

    # Decoders are made when they are first needed: generating one takes about a millisecond.

    @cached_property
    def _walk(self) -> Callable[[bytes, int, int], tuple[dict[str, Any], int]]:
        return compiler.decoder(self.layer, "walk")

    @cached_property
    def _maps(self) -> list[Map]:
        return [kind for kind in map(plain, self.layer.fields_desc) if isinstance(kind, Map)]

    def _read_carefully(self, frame: Frame, style: Style | None) -> int:
        decoded = compiler.careful(self.layer, frame.buffer, frame.start, frame.stop, truncated=frame.is_partial)
        frame.values = decoded.values
        if style is not None:
            frame.layers = {self.layer.filter_name: self.layer.present(decoded.values, style)}
        if not frame.is_partial:
            report_problem(frame, decoded.problem)
        over = decoded.problem is not None and decoded.problem.reason == TOO_MANY
        return frame.stop if over else frame.start + decoded.stop

    def _report_surplus(self, frame: Frame, reached: int, stop: int) -> None:
        message, where = f"{stop - reached} bytes after the last field", (reached, stop)
        if self.surplus_note is None:
            frame.find("warning", "malformed", "surplus-bytes", message, None, where)
        else:
            frame.find("note", "protocol", "surplus-bytes", f"{message}: {self.surplus_note}", None, where)


def report_problem(frame: Frame, problem: Truncated | None) -> None:
    """Add a finding for a problem of the careful decoder; None: perhaps a text that is not UTF-8."""
    if problem is None:
        if has_surrogates(frame.values):
            frame.find("warning", "malformed", "invalid-utf8", "a string is not UTF-8")
        return
    where = (problem.start, frame.stop - frame.start)
    if problem.reason == TOO_MANY:
        frame.find("warning", "limit", "elements", problem.reason, problem.field, where)
        return
    frame.status = MALFORMED
    if problem.reason:
        frame.find("error", "malformed", "field-unfit", problem.reason, problem.field, where)
        return
    message = f"{problem.field} needs {problem.needed} bytes, the frame has {problem.had} left"
    frame.find("error", "malformed", "field-cut", message, problem.field, where)


def has_surrogates(value: Any) -> bool:
    """Whether a text was not UTF-8. (Fast decoders also fail for other reasons.)"""
    if isinstance(value, str):
        return not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Mapping):
        return any(has_surrogates(inner) for inner in value.values())
    return isinstance(value, list) and any(has_surrogates(inner) for inner in value)
