"""Removes values that touch the end of the captured bytes: more bytes may belong to them, so they are unknown.

``topic=ord`` may be the front of ``topic=orders``. A value is kept if its own bytes, or earlier ones, determine its
end (:attr:`Kind.delimited`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wiredecode.fields.composition import Array, Struct, plain

if TYPE_CHECKING:
    from wiredecode.fields.kind import Kind
    from wiredecode.fields.layer import Layer, Range

STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def remove_truncated(layer: type[Layer], values: dict[str, Any], ranges: dict[str, Range], data: bytes) -> None:
    """Remove the values, and their ranges, that may continue after ``data``, the captured bytes.

    Trailing blanks belong to no value, and the bytes after the last value may be part of the next one.
    """
    stop = min(len(data.rstrip(b" \t\r\n")), max((end for _, end in ranges.values()), default=0))
    for path in [path for path, (_, end) in ranges.items() if end >= stop]:
        places = [name or int(index) for name, index in STEP.findall(path)]
        if may_continue(layer, places):
            del ranges[path]
            _remove(values, places)


def remove_truncated_fields(layer: Layer, data: bytes, known: Mapping[str, Any]) -> None:
    """:func:`remove_truncated` for a dissected layer; also removes fields that are not ``known``."""
    remove_truncated(type(layer), layer.fields, layer.flat_ranges(), data)
    for name in layer.fields.keys() - known.keys():
        del layer.fields[name]
    for name, value in layer.fields.items():
        if isinstance(value, list) and isinstance(known[name], list | tuple):
            del value[len(known[name]) :]
    layer.ranges = {name: span for name, span in layer.ranges.items() if name in layer.fields}


def may_continue(layer: type[Layer], places: list[str | int]) -> bool:
    """Whether the value at a path may be longer than its captured part."""
    kind: Kind | None = None
    for step in places:
        if isinstance(step, int):
            kind = kind.element if isinstance(kind, Array) else None
        else:
            inside = layer if kind is None else getattr(kind, "layer", None)
            declared = () if inside is None else inside.fields_desc
            kind = next((plain(one) for one in declared if one.name == step), None)
        if kind is None:
            return True
    return not (isinstance(kind, Struct | Array) or kind is None or kind.delimited or kind.fixed)


def _remove(values: Any, places: list[str | int]) -> None:
    """Remove the value at a path, and from a list all elements from there on."""
    for step in places[:-1]:
        values = getattr(values, "fields", values)  # of a structure that was dissected
        if isinstance(step, int):
            if not (isinstance(values, list) and step < len(values)):
                return
        elif not (isinstance(values, Mapping) and step in values):
            return
        values = values[step]
    values, last = getattr(values, "fields", values), places[-1]
    if isinstance(last, str) and isinstance(values, dict):
        values.pop(last, None)
    elif isinstance(last, int) and isinstance(values, list):
        del values[last:]
