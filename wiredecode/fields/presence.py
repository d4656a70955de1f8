"""When an optional field is there: conditions on what was read before, or on the next bytes.

They belong to :mod:`wiredecode.fields`, which hands them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiredecode.fields import Number
    from wiredecode.fields.compiler import Emitter
    from wiredecode.fields.layer import Layer


class Test:
    """When an optional field is there: a condition on what was read before, or on the next bytes."""

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        raise NotImplementedError

    def emit(self, em: Emitter) -> str:
        raise NotImplementedError


class More(Test):
    """Bytes are left in the frame."""

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return position < end

    def emit(self, em: Emitter) -> str:
        return "p < e"


class Left(Test):
    """Exactly as many bytes are left as an earlier field says, and at least one."""

    def __init__(self, field: str) -> None:
        self.field = field

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return bool(0 < end - position == layer.fields[self.field])

    def emit(self, em: Emitter) -> str:
        return f"0 < e - p == {em.reference(self.field)}"


class Spans(Test):
    """A length of the given kind stands next and reaches exactly to the end of the frame."""

    def __init__(self, length: type[Number]) -> None:
        self.length = length("length")

    def holds(self, data: bytes, position: int, end: int, layer: Layer | None) -> bool:
        width = self.length.width
        if end - position < width:
            return False
        return int.from_bytes(data[position : position + width], "big") == end - position - width

    def emit(self, em: Emitter) -> str:
        return f"{em.constant(self.holds)}(b, p, e, None)"


class Is(Test):
    """An earlier field has one of the given values."""

    def __init__(self, field: str, *values: int) -> None:
        self.field, self.values = field, frozenset(values)

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return bool(layer.fields.get(self.field) in self.values)

    def emit(self, em: Emitter) -> str:
        return f"{em.reference(self.field)} in {em.constant(self.values)}"


class Peek(Test):
    """The next byte, under ``mask``, equals ``value``; false at the end of the frame."""

    def __init__(self, mask: int, value: int) -> None:
        self.mask, self.value = mask, value

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return position < end and data[position] & self.mask == self.value

    def emit(self, em: Emitter) -> str:
        return f"p < e and b[p] & {self.mask} == {self.value}"


class Absent(Test):
    """An earlier optional field is not there."""

    def __init__(self, field: str) -> None:
        self.field = field

    def holds(self, data: bytes, position: int, end: int, layer: Layer) -> bool:
        return self.field not in layer.fields

    def emit(self, em: Emitter) -> str:
        return f"not {em.presence(self.field)}"
