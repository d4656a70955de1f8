"""Lengths and counts that fill themselves in: what a field is when a layer is built and nobody set it.

``UInt16("size", fill=LengthOf())`` counts all bytes that follow it. A length or count another field refers to, such
as ``Binary(..., length="size")`` or ``Array(..., count="n")``, needs no ``fill``. Any function of the layer and of the
bytes that follow will do: a checksum, for instance.
"""

from __future__ import annotations

from collections.abc import Mapping

from wiredecode.fields.contracts import Structure


class LengthOf:
    """The bytes that some fields take, all that follow if none is named, and ``plus`` so many."""

    def __init__(self, *fields: str, plus: int = 0, null: int | None = None) -> None:
        self.fields, self.plus, self.null = fields, plus, null

    def __call__(self, layer: Structure, following: Mapping[str, bytes]) -> int:
        if self.null is not None and layer.fields.get(self.fields[0], b"") is None:
            return self.null
        if not self.fields:
            return sum(map(len, following.values())) + self.plus
        return sum(len(following.get(name) or layer.encoded(name)) for name in self.fields) + self.plus


class PresenceOf:
    """1 where one of some fields is set, else 0: a flag that says what follows."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def __call__(self, layer: Structure, following: Mapping[str, bytes]) -> int:
        return int(any(layer.fields.get(name) is not None for name in self.fields))


class CountOf:
    """The elements of some arrays, and ``plus`` so many."""

    def __init__(self, *fields: str, plus: int = 0) -> None:
        self.fields, self.plus = fields, plus

    def __call__(self, layer: Structure, following: Mapping[str, bytes]) -> int:
        return sum(len(layer.getfieldval(name) or ()) for name in self.fields) + self.plus
