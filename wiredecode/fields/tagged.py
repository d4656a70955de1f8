"""Layers whose fields are found by tag or key: what their readers have in common.

Such fields stand in any order, so a reader loops over what the wire holds (:meth:`Layer.read_tagged`).
Scapy and the careful decoder share that reader; a subclass may generate faster code for the other decoders.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from wiredecode.fields.composition import plain
from wiredecode.fields.contracts import Emitter, Truncated, TruncatedField
from wiredecode.fields.layer import Layer, Range, Style, present_field


def moved(problem: Truncated, field: str, start: int) -> Truncated:
    """The same problem, of another field and place."""
    problem = copy.copy(problem)
    problem.field, problem.start = field, start
    problem.args = (field, problem.needed, problem.had, start)
    return problem


class TaggedLayer(Layer):
    """Base of all: a subclass defines ``read_tagged`` and ``build_tagged``."""

    written: ClassVar[tuple[str, ...]] = ()
    """Attributes that say how the layer was written; a changed layer keeps them."""

    def clone_with(self, *args: Any, **kw: Any) -> TaggedLayer:
        """Scapy builds a clone of what was changed."""
        clone: TaggedLayer = super().clone_with(*args, **kw)
        for name in self.written:
            setattr(clone, name, getattr(self, name))
        return clone

    @classmethod
    def present(cls, value: Layer | Mapping[str, Any], style: Style) -> dict[str, Any]:
        """The record, with the fields in the order of the wire."""
        values = value.fields if isinstance(value, Layer) else value
        kinds = {kind.name: plain(kind) for kind in cls.fields_desc}
        record: dict[str, Any] = {}
        for name in values:
            record.update(present_field(kinds[name], values[name], style, record))
        return record

    @classmethod
    def emit_tagged(cls, em: Emitter) -> None:
        target = em.scopes[-1].target
        if em.careful:
            read = em.constant(cls.read_carefully)
            em.line(f"p = {read}(b, p, e, o, {target}, r, {em.scopes[-1].prefix})")
        else:
            em.line(f"p = {em.constant(cls.read_plainly)}(b, p, e, {target}, {em.constant(em.style)})")

    @classmethod
    def read_carefully(
        cls, b: bytes, p: int, e: int, o: int, target: dict[str, Any], ranges: dict[str, Range], prefix: str
    ) -> int:
        """These fields for the careful decoder: ranges count from ``o``."""
        reader = cls()
        stop = reader.read_tagged(b, p, e)
        target.update(reader.values())
        for path, (first, last) in reader.flat_ranges():
            ranges[prefix + path] = (first - o, last - o)
        if reader.problem is not None:
            raise moved(reader.problem, prefix + reader.problem.field, reader.problem.start - o)
        return stop

    @classmethod
    def read_plainly(cls, b: bytes, p: int, e: int, target: dict[str, Any], style: Style | None) -> int:
        """These fields for the other decoders, where no faster code is generated."""
        reader = cls()
        stop = reader.read_tagged(b, p, e)
        if reader.problem is not None:
            raise TruncatedField
        target.update(reader.values() if style is None else cls.present(reader, style))
        return stop
