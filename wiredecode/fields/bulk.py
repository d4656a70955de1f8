"""Many values at once: gathered from one buffer, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools, Int64s
from wiredecode.fields.composition import Optional
from wiredecode.fields.kind import Kind
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import Number
from wiredecode.fields.sized import Sized


class Source:
    """A buffer, and what is known of its bytes."""

    def __init__(self, buffer: bytes) -> None:
        self.buffer = buffer

    @cached_property
    def octets(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.buffer, np.uint8)

    def gather(self, code: str, places: Int64s) -> npt.NDArray[Any]:
        """One number at each place; ``code`` is a numpy type with its byte order (``">u4"``). Native order comes back.

        The view begins at every byte of the buffer, so that one gather reads whole numbers: no step over their bytes.
        """
        kind = np.dtype(code)
        windows = len(self.buffer) - kind.itemsize + 1
        if windows <= 0:
            return np.zeros(len(places), kind.newbyteorder("="))
        view: npt.NDArray[Any] = np.ndarray((windows,), kind, self.buffer, strides=(1,))
        return view[places].astype(kind.newbyteorder("="), copy=False)


@dataclass(slots=True)
class ElementFields:
    """The fields of elements, each as an array with a value per element."""

    plain: Bools
    """Elements with the usual fields only. The values of the others mean nothing."""
    numbers: dict[str, npt.NDArray[Any]]
    spans: dict[str, tuple[Int64s, Int64s]]
    """Where texts and bytes start and stop, -1 for null."""


Step = Callable[[Source, Int64s, ElementFields], Int64s]
"""Reads one field of all elements at these places; returns the places after it."""


def read_elements(layer: type[Layer], source: Source, starts: Int64s) -> ElementFields | None:
    """Read the elements of bulk arrays that start at these places, after a decoder has stepped over them.

    An element is plain if it has none of the fields that only some have. None: the layer has other kinds of fields.
    """
    steps = _steps(layer)
    if steps is None:
        return None
    found = ElementFields(np.ones(len(starts), np.bool_), {}, {})
    places = starts
    for step in steps:
        places = step(source, places, found)
    return found


@cache
def _steps(layer: type[Layer]) -> list[Step] | None:
    steps: list[Step] = []
    refused: set[str] = set()
    for kind in layer.fields_desc:
        if isinstance(kind, Optional) and kind.when.next_byte is not None:
            refused.add(kind.name)
            steps.append(_refusal(*kind.when.next_byte))
            continue
        if isinstance(kind, Optional) and kind.when.absent in refused:
            kind = kind.kind
        step = _step(kind)
        if step is None:
            return None
        steps.append(step)
    return steps


def _step(kind: Kind) -> Step | None:
    if isinstance(kind, Number):
        return _number_step(kind) if len(kind.fixed or "") == 1 else None
    if isinstance(kind, Sized) and isinstance(kind.length, Number) and kind.length.fixed in ("B", "H", "I"):
        return _sized_step(kind.name, kind.length, kind.null)
    return None


def _refusal(mask: int, value: int) -> Step:
    """Elements whose next byte has this value under the mask are not plain."""

    def step(source: Source, places: Int64s, found: ElementFields) -> Int64s:
        found.plain &= source.octets[np.where(found.plain, places, 0)] & mask != value
        return np.where(found.plain, places, 0)

    return step


def _code(kind: Number) -> str:
    return f"{kind.order}{'i' if kind.signed else 'u'}{kind.width}"


def _number_step(kind: Number) -> Step:
    code, width, name = _code(kind), kind.width, kind.name

    def step(source: Source, places: Int64s, found: ElementFields) -> Int64s:
        found.numbers[name] = source.gather(code, places)
        return places + width

    return step


def _sized_step(name: str, length: Number, null: int | None) -> Step:
    code, width = _code(length), length.width

    def step(source: Source, places: Int64s, found: ElementFields) -> Int64s:
        sizes, starts = source.gather(code, places).astype(np.int64), places + width
        if null is None:
            sizes = np.where(found.plain, sizes, 0)
            found.spans[name] = starts, starts + sizes
            return starts + sizes
        there = found.plain & (sizes != null)
        stops = starts + np.where(there, sizes, 0)
        found.spans[name] = np.where(there, starts, -1), np.where(there, stops, -1)
        return stops

    return step
