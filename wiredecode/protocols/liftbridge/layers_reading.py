"""Reading a layer that a frame carries: fast, and carefully where that fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from wiredecode.fields import Truncated, compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import MALFORMED, Frame, Inner
from wiredecode.protocols.shared.pairing import Newest


@dataclass(slots=True)
class ReadLayer:
    """What was read of a layer: its values, or with a style its record (a number of an enumeration has ``_code``)."""

    layer: type[Layer]
    fields: dict[str, Any]
    problem: Truncated | None = None
    unusual: bool = False
    """The fast decoder had to pass."""

    def number(self, name: str) -> Any:
        """The number of an enumeration; 0 where it was left out."""
        value = self.fields.get(name, 0)
        return value if value.__class__ is int else self.fields.get(f"{name}_code", value)


class Reader(NamedTuple):
    """The compiled decoder of a layer, for one style."""

    style: Style | None
    decode: Callable[[bytes, int, int], tuple[dict[str, Any], int]]
    known: Newest[bytes, dict[str, Any]]
    """Without a style, what the last short messages hold: each is seen on every hop."""


MAX_KNOWN, MAX_KNOWN_BYTES = 512, 256
"""Messages of one layer that are remembered, and the longest of them."""
READERS: dict[type[Layer], Reader] = {}
"""Of the layers that were met."""


def read(layer: type[Layer], data: bytes, style: Style | None, *, cut: bool = False) -> ReadLayer:
    """Read ``data`` from its first byte on; ``cut``: its end was not captured."""
    known = READERS.get(layer)
    if known is None or known.style is not style:
        mode = "walk" if style is None else "record"
        known = READERS[layer] = Reader(style, compiler.decoder(layer, mode, style), Newest(MAX_KNOWN))
    short = style is None and not cut and len(data) <= MAX_KNOWN_BYTES
    if short and (fields := known.known.get(data)) is not None:
        return ReadLayer(layer, fields)
    try:
        if cut:
            raise compiler.TruncatedField
        fields = known.decode(data, 0, len(data))[0]
        if short:
            known.known.put(data, fields)
        return ReadLayer(layer, fields)
    except compiler.FAILED:
        decoded = compiler.careful(layer, data, 0, len(data), cut=cut)
        fields = decoded.written() if style is None else layer.present(decoded.values, style)
        return ReadLayer(layer, fields, decoded.problem, unusual=True)


def carry(frame: Frame, reading: ReadLayer, data: bytes, start: int | None, style: Style | None) -> None:
    """Add the layer to the frame, and to its record; of several of one name the later ones stand in ``further``."""
    if style is None:
        values = None if reading.unusual else reading.fields
        frame.inner = [*frame.inner, Inner(reading.layer, data, start, values)]
        return
    frame.inner = [*frame.inner, Inner(reading.layer, data, start)]
    frame.layers = frame.layers if frame.layers is not None else {}
    name = reading.layer.filter_name
    if name in frame.layers:  # several RPCs in one message
        frame.layers[name].setdefault("further", []).append(reading.fields)
    else:
        frame.layers[name] = reading.fields


def find_problem(frame: Frame, reading: ReadLayer, start: int | None, length: int) -> None:
    """Make a finding of what the careful decoder met. Of a frame that was not captured whole nothing is told."""
    problem = reading.problem
    if problem is None or frame.is_cut:
        return
    frame.status = MALFORMED
    message = problem.reason
    if not message:
        message = f"{problem.field} needs {problem.needed} bytes, there are {problem.had} left"
    where = None if start is None else (start + problem.start, start + length)
    frame.find("error", "malformed", "field-cut", message, f"{reading.layer.filter_name}.{problem.field}", where)


def generate(frame: Frame, reading: ReadLayer, style: Style | None, name: str, value: Any) -> None:
    """A generated field of the layer."""
    frame.generate(name, value)
    if style is not None:
        reading.fields[name] = value
