"""From a layer's ``fields_desc`` to straight-line Python: the fast reader of the same declarations.

For each layer two decoders are generated, on first use, from one walk over its kinds. Each takes ``(b, p, e)``:
the buffer and the frame's first byte and end in it, so that nothing is cut out before it is read.

``walk``     values of the fields; bulk arrays are stepped over, and the number of elements stands for them: this
             checks the structure. ``head`` ends at the first bulk array.
             ``walk`` also has as a value ``numbers``: the elements of a bulk array of numbers; of others the field that
             their layer is ``numbered_by``, told as index and value of those that do not follow by one. ``marked`` are
             the elements with the field that their layer is ``marked_by``: index and where that starts
``record``   the JSON-ready record, in one :class:`~wiredecode.fields.layer.Style`
``values``   values of all fields, those of bulk arrays too

They check bounds but do not explain: when one fails, :func:`careful` says where and why. It reads the layer as Scapy
does: values and byte ranges of everything, and what was readable of a frame that is cut or malformed.
:func:`source` returns the generated text, to be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from wiredecode.fields.composition import Array, Struct, plain
from wiredecode.fields.cut import forget_cut
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import Truncated
from wiredecode.fields.kind import TruncatedField as TruncatedField
from wiredecode.fields.layer import Layer, Range, Style, moved

FAILED = (TruncatedField, UnicodeDecodeError)
"""What the fast decoders raise: ask :func:`careful` then."""


@dataclass(slots=True)
class Decoded:
    """What :func:`careful` read: plain values, byte ranges by path, the position reached, the problem if any."""

    layer: type[Layer]
    values: dict[str, Any]
    ranges: dict[str, Range]
    stop: int
    problem: Truncated | None

    def written(self) -> dict[str, Any]:
        """The values without defaults that the wire leaves out, which have no range."""
        return _written(self.layer, self.values, self.ranges, "")


def _written(layer: type[Layer], values: dict[str, Any], ranges: dict[str, Range], prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in map(plain, layer.fields_desc):
        name, path = kind.name, prefix + kind.name
        if name not in values or (name in layer.defaults and path not in ranges):
            continue
        value = values[name]
        if isinstance(kind, Struct) and value is not None:
            value = _written(kind.layer, value, ranges, f"{path}.")
        elif isinstance(kind, Array) and isinstance(kind.element, Struct) and value is not None:
            inner = kind.element.layer
            value = [_written(inner, each, ranges, f"{path}[{index}].") for index, each in enumerate(value)]
        found[name] = value
    return found


def head(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    values: dict[str, Any] = decoder(layer, "head")(b, p, e)[0]
    return values


def walk(layer: type[Layer], b: bytes, p: int, e: int) -> tuple[dict[str, Any], int]:
    values, reached = decoder(layer, "walk")(b, p, e)
    return values, reached


def values(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    found: dict[str, Any] = decoder(layer, "values")(b, p, e)[0]
    return found


def record(layer: type[Layer], b: bytes, p: int, e: int, style: Style) -> tuple[dict[str, Any], int]:
    row, reached = decoder(layer, "record", style)(b, p, e)
    return row, reached


def careful(layer: type[Layer], b: bytes, p: int, e: int, *, cut: bool = False) -> Decoded:
    """Decode the frame at ``b[p:e]``; ``stop`` and all ranges count from its first byte.

    ``cut``: what follows was not captured, so that values which end there and may go on are not known.
    """
    packet = layer.within(b, p, e)
    values = packet.values()
    ranges = packet.flat_ranges(p)
    problem, reached = packet.problem, packet.stop - p
    if problem is not None:
        problem = moved(problem, problem.field, problem.start - p)
        reached = max((end for _, end in ranges.values()), default=0)
    if cut:
        forget_cut(layer, values, ranges, b[p:e])
        values = _written(layer, values, ranges, "")  # what is absent may have been behind the cut
    return Decoded(layer, values, ranges, reached, problem)


def source(layer: type[Layer], mode: str, style: Style | None = None) -> str:
    """The Python text of a decoder: ``mode`` is a name from the list above."""
    return Emitter(layer, mode, style or (Style() if mode == "record" else None)).text()


@cache
def decoder(layer: type[Layer], mode: str, style: Style | None = None) -> Callable[..., Any]:
    """The generated function of a mode; made on first use."""
    emitter = Emitter(layer, mode, style)
    code = compile(emitter.text(), f"<{mode} decoder of {layer.__name__}>", "exec")
    exec(code, emitter.namespace)
    return emitter.namespace["decode"]
