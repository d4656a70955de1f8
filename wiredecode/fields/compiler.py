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
``both``     ``values`` and ``record`` in one pass, of a layer that is :func:`flat`

They check bounds but do not explain: when one fails, :func:`careful` says where and why. It reads the layer as Scapy
does: values and byte ranges of all fields, and the readable part of a frame that is truncated or malformed.
:func:`source` returns the generated text, to be read.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from wiredecode.budget import BUDGET
from wiredecode.dataclasses import dataclass
from wiredecode.fields.composition import Array, Struct, plain
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import DecodeError as DecodeError
from wiredecode.fields.kind import Kind, Truncated
from wiredecode.fields.layer import Layer, Range, Style

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
    truncated: bool

    def without_defaults(self) -> dict[str, Any]:
        """The values without defaults that the wire leaves out, which have no range."""
        return self.values if self.truncated else self.packet.values(defaults=False)


def head(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    return decoder(layer, "head")(b, p, e)[0]


def walk(layer: type[Layer], b: bytes, p: int, e: int) -> tuple[dict[str, Any], int]:
    return decoder(layer, "walk")(b, p, e)


def values(layer: type[Layer], b: bytes, p: int, e: int) -> dict[str, Any]:
    return decoder(layer, "values")(b, p, e)[0]


def readable(layer: type[Layer], b: bytes, p: int, e: int) -> tuple[dict[str, Any], Truncated | None]:
    """All values, and the problem; of a damaged frame the readable values."""
    before = BUDGET.own.remaining
    try:
        return values(layer, b, p, e), None
    except FAILED:
        BUDGET.own.remaining = before
        decoded = careful(layer, b, p, e)
        return decoded.values, decoded.problem


def record(layer: type[Layer], b: bytes, p: int, e: int, style: Style) -> tuple[dict[str, Any], int]:
    return decoder(layer, "record", style)(b, p, e)


def careful(layer: type[Layer], b: bytes, p: int, e: int, *, truncated: bool = False) -> Decoded:
    """Decode the frame at ``b[p:e]`` field by field; ``stop`` and ranges count from its first byte.

    ``truncated``: later bytes were not captured, so values that may continue there are unknown.
    """
    packet = layer.within(b, p, e)
    values = packet.values(defaults=not truncated)  # absent fields may be in the part not captured
    ranges = packet.flat_ranges(p)
    problem, reached = packet.problem, packet.stop - p
    if problem is not None:
        problem = problem.inside(problem.field, problem.partial, p)
        reached = max((end for _, end in ranges.values()), default=0)
    if truncated:
        remove_truncated(layer, values, ranges, b[p:e])
    return Decoded(packet, values, ranges, reached, problem, truncated)


@cache
def flat(layer: type[Layer]) -> bool:
    """Whether a layer has no structures, arrays and tagged fields: its values are read as its record is."""
    kinds = map(plain, layer.fields_desc)
    return not any(kind.tagged or isinstance(kind, Array) or hasattr(kind, "layer") for kind in kinds)


def source(layer: type[Layer], mode: str, style: Style | None = None) -> str:
    """The Python text of a decoder: ``mode`` is a name from the list above."""
    return Emitter(layer, mode, style or (Style() if mode in ("record", "both") else None)).text()


@cache
def decoder(layer: type[Layer], mode: str, style: Style | None = None) -> Callable[..., Any]:
    """The generated function of a mode; made on first use. Without bulk arrays all values have one."""
    if mode in ("head", "walk") and not layer.has_bulk:
        return decoder(layer, "values")
    emitter = Emitter(layer, mode, style)
    code = compile(emitter.text(), f"<{mode} decoder of {layer.__name__}>", "exec")
    exec(code, emitter.namespace)
    return emitter.namespace["decode"]


def both(layer: type[Layer], style: Style) -> Callable[[bytes, int, int], tuple[dict[str, Any], dict[str, Any], int]]:
    """The reader of ``head``, the record, and its end: one pass if the layer is :func:`flat`."""
    if flat(layer):
        return decoder(layer, "both", style)
    front, shown = decoder(layer, "head"), decoder(layer, "record", style)

    def read(b: bytes, p: int, e: int) -> tuple[dict[str, Any], dict[str, Any], int]:
        return front(b, p, e)[0], *shown(b, p, e)

    return read


STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def remove_truncated(layer: type[Layer], values: dict[str, Any], ranges: dict[str, Range], data: bytes) -> None:
    """Remove the values, and their ranges, that may continue after ``data``, the captured bytes.

    Trailing blanks belong to no value, and the bytes after the last value may be part of the next one.
    """
    stop = min(len(data.rstrip(b" \t\r\n")), max((end for _, end in ranges.values()), default=0))
    for path in [path for path, (_, end) in ranges.items() if end >= stop]:
        steps = [name or int(index) for name, index in STEP.findall(path)]
        if may_continue(layer, steps):
            del ranges[path]
            _remove(values, steps)


def remove_truncated_fields(layer: Layer, data: bytes, values: Mapping[str, Any]) -> None:
    """:func:`remove_truncated` for a dissected layer; also removes fields that are not ``values``."""
    remove_truncated(type(layer), layer.fields, layer.flat_ranges(), data)
    for name in layer.fields.keys() - values.keys():
        del layer.fields[name]
    for name, value in layer.fields.items():
        if isinstance(value, list) and isinstance(values[name], list | tuple):
            del value[len(values[name]) :]
    layer.ranges = {name: span for name, span in layer.ranges.items() if name in layer.fields}


def may_continue(layer: type[Layer], steps: list[str | int]) -> bool:
    """Whether the value at a path may be longer than its captured part."""
    kind: Kind | None = None
    for step in steps:
        if isinstance(step, int):
            kind = kind.element if isinstance(kind, Array) else None
        else:
            inside = layer if kind is None else getattr(kind, "layer", None)
            declared = () if inside is None else inside.fields_desc
            kind = next((plain(each) for each in declared if each.name == step), None)
        if kind is None:
            return True
    return not (isinstance(kind, Struct | Array) or kind is None or kind.delimited or kind.fixed)


def _remove(values: Any, steps: list[str | int]) -> None:
    """Remove the value at a path, and from a list all elements from there on."""
    for step in steps[:-1]:
        values = getattr(values, "fields", values)  # of a structure that was dissected
        if isinstance(step, int):
            if not (isinstance(values, list) and step < len(values)):
                return
        elif not (isinstance(values, Mapping) and step in values):
            return
        values = values[step]
    values, last = getattr(values, "fields", values), steps[-1]
    if isinstance(last, str) and isinstance(values, dict):
        values.pop(last, None)
    elif isinstance(last, int) and isinstance(values, list):
        del values[last:]
