"""From a layer's ``fields_desc`` to straight-line Python: the fast reader of the same declarations.

The decoders of a layer are generated on first use. Each takes ``(b, p, e)``: the buffer, and the frame's first byte
and end in it, so that no slice is copied before it is read.

``walk``     values of the fields; bulk arrays are stepped over, and their value is the number of elements: this checks
             the structure. Further values are ``numbers``: the elements of a bulk array of numbers; of others the field
             that their layer is ``numbered_by``, as index and value of those that do not follow by one; ``marked``:
             index and position of the field that their layer is ``marked_by``, of the elements that have it
``head``     as ``walk``, up to the first bulk array
``record``   the JSON-ready record, in one :class:`~wiredecode.fields.layer.Style`
``values``   values of all fields, those of bulk arrays too

They check bounds but do not explain: when one fails, :func:`careful` says where and why. It reads the layer as Scapy
does: values and byte ranges of all fields, and the readable part of a frame that is truncated or malformed.
:func:`source` returns the generated text, to be read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import DecodeError as DecodeError
from wiredecode.fields.kind import Truncated
from wiredecode.fields.layer import Layer, Range, Style
from wiredecode.fields.truncation import remove_truncated

FAILED = (DecodeError, UnicodeDecodeError)
"""Exceptions of the fast decoders: ask :func:`careful` then."""


@dataclass(slots=True)
class Decoded:
    """Result of :func:`careful`: plain values, byte ranges by path, the position reached, the problem if any."""

    packet: Layer
    values: dict[str, Any]
    ranges: dict[str, Range]
    stop: int
    problem: Truncated | None
    cut: bool

    def without_defaults(self) -> dict[str, Any]:
        """The values without defaults that the wire leaves out, which have no range."""
        return self.values if self.cut else self.packet.values(defaults=False)


def head(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    return decoder(layer, "head")(b, p, e)[0]


def walk(layer: type[Layer], b: bytes, p: int, e: int) -> tuple[dict[str, Any], int]:
    return decoder(layer, "walk")(b, p, e)


def values(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    return decoder(layer, "values")(b, p, e)[0]


def readable(layer: type[Layer], b: bytes, p: int, e: int) -> tuple[dict[str, Any], Truncated | None]:
    """All values, and the problem; of a damaged frame the readable values."""
    try:
        return values(layer, b, p, e), None
    except FAILED:
        decoded = careful(layer, b, p, e)
        return decoded.values, decoded.problem


def record(layer: type[Layer], b: bytes, p: int, e: int, style: Style) -> tuple[dict[str, Any], int]:
    return decoder(layer, "record", style)(b, p, e)


def careful(layer: type[Layer], b: bytes, p: int, e: int, *, cut: bool = False) -> Decoded:
    """Decode the frame at ``b[p:e]`` field by field; ``stop`` and ranges count from its first byte.

    ``cut``: later bytes were not captured, so values that may continue there are unknown.
    """
    packet = layer.within(b, p, e)
    values = packet.values(defaults=not cut)  # absent fields may be in the part not captured
    ranges = packet.flat_ranges(p)
    problem, reached = packet.problem, packet.stop - p
    if problem is not None:
        problem = problem.inside(problem.field, problem.partial, p)
        reached = max((end for _, end in ranges.values()), default=0)
    if cut:
        remove_truncated(layer, values, ranges, b[p:e])
    return Decoded(packet, values, ranges, reached, problem, cut)


def source(layer: type[Layer], mode: str, style: Style | None = None) -> str:
    """The Python text of a decoder: ``mode`` is a name from the list above."""
    return Emitter(layer, mode, style or (Style() if mode == "record" else None)).text()


@cache
def decoder(layer: type[Layer], mode: str, style: Style | None = None) -> Callable[..., Any]:
    """The generated function of a mode; made on first use. Without bulk arrays all values have one."""
    if mode in ("head", "walk") and not layer.has_bulk:
        return decoder(layer, "values")
    emitter = Emitter(layer, mode, style)
    code = compile(emitter.text(), f"<{mode} decoder of {layer.__name__}>", "exec")
    exec(code, emitter.namespace)
    return emitter.namespace["decode"]
