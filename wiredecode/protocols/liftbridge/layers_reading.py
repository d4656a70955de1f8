"""Reads a layer that a frame carries, with the fast decoder, or with the careful one if that fails."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass
from wiredecode.fields import Truncated, compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import MALFORMED, Frame, Inner
from wiredecode.protocols.shared.pairing import Newest


@dataclass(slots=True)
class CarriedLayer:
    """A layer in a frame: its values, or with a style its record (a number of an enumeration has ``_code``)."""

    frame: Frame
    layer: type[Layer]
    data: bytes
    start: int | None
    """Where it starts in the frame; None: it came in several frames."""
    style: Style | None
    fields: dict[str, Any]
    problem: Truncated | None = None
    unusual: bool = False
    """The careful decoder read it, as the fast one failed."""

    @property
    def stop(self) -> int:
        assert self.start is not None
        return self.start + len(self.data)

    def number(self, name: str) -> Any:
        """The number of an enumeration; 0 where it was left out."""
        return number_in(self.fields, name)

    def carry(self) -> None:
        """Add the layer to the frame, and to its record; of several of one name the later ones are in ``further``."""
        frame, values = self.frame, None if self.unusual or self.style is not None else self.fields
        frame.inner = [*frame.inner, Inner(self.layer, self.data, self.start, values)]
        if self.style is None:
            return
        frame.layers = frame.layers if frame.layers is not None else {}
        name = self.layer.filter_name
        if name in frame.layers:  # several RPCs in one message
            frame.layers[name].setdefault("further", []).append(self.fields)
        else:
            frame.layers[name] = self.fields

    def find_problem(self) -> None:
        """Make a finding of the careful decoder's problem. Incomplete frames get none."""
        frame, problem = self.frame, self.problem
        if problem is None or frame.is_partial:
            return
        frame.status = MALFORMED
        message = problem.reason
        if not message:
            message = f"{problem.field} needs {problem.needed} bytes, there are {problem.had} left"
        where = None if self.start is None else (self.start + problem.start, self.stop)
        frame.find("error", "malformed", "field-cut", message, f"{self.layer.filter_name}.{problem.field}", where)

    def generate(self, name: str, value: Any) -> None:
        """A generated field of the layer."""
        self.frame.generate(name, value)
        if self.style is not None:
            self.fields[name] = value

    def generate_missing(self, facts: Mapping[str, Any]) -> None:
        """Generated fields, but for those that the layer has."""
        fields, frame = self.fields, self.frame
        missing = {name: value for name, value in facts.items() if not fields.get(name)}
        if missing:
            frame.generated = {**frame.generated, **missing}
            if self.style is not None:
                fields.update(missing)


def number_in(fields: Mapping[str, Any], name: str) -> Any:
    """The number of an enumeration in values or a record; 0 where it was left out."""
    value = fields.get(name, 0)
    return value if value.__class__ is int else fields.get(f"{name}_code", value)


class LayerReader(NamedTuple):
    """The compiled decoder of a layer, for one style."""

    style: Style | None
    decode: Callable[[bytes, int, int], tuple[dict[str, Any], int]]
    cache: Newest[bytes, dict[str, Any]]
    """Without a style: fields of the last short messages, as each is captured on every hop."""


MAX_KNOWN, MAX_KNOWN_BYTES = 512, 256
"""Messages of one layer that are remembered, and the longest one."""
READERS: dict[type[Layer], LayerReader] = {}
"""Readers of layers that were used."""


def read(
    frame: Frame, layer: type[Layer], data: bytes, start: int | None, style: Style | None, *, truncated: bool = False
) -> CarriedLayer:
    """Read ``data`` from its first byte on; ``truncated``: its end was not captured."""
    reader = READERS.get(layer)
    if reader is None or reader.style is not style:
        mode = "walk" if style is None else "record"
        reader = READERS[layer] = LayerReader(style, compiler.decoder(layer, mode, style), Newest(MAX_KNOWN))
    short = style is None and not truncated and len(data) <= MAX_KNOWN_BYTES
    if short and (fields := reader.cache.get(data)) is not None:
        return CarriedLayer(frame, layer, data, start, style, fields)
    try:
        if truncated:
            raise compiler.DecodeError
        fields = reader.decode(data, 0, len(data))[0]
        if short:
            reader.cache.put(data, fields)
        return CarriedLayer(frame, layer, data, start, style, fields)
    except compiler.FAILED:
        decoded = compiler.careful(layer, data, 0, len(data), truncated=truncated)
        fields = decoded.without_defaults() if style is None else layer.present(decoded.values, style)
        return CarriedLayer(frame, layer, data, start, style, fields, decoded.problem, unusual=True)
