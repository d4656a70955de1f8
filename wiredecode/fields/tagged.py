"""Tagged fields after the others of a structure, as in Kafka: their number, then tag, size and contents of each.

A tag that is not declared is kept in ``unknown_tags``; a tagged field that is absent has no value. :class:`Versions`
makes the layers of a message in many versions, when one is first met; those of equal layout share one.
"""

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields.composition import Array
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import Kind, Malformed, Truncated, take
from wiredecode.fields.layer import Layer, TaggedLayer
from wiredecode.fields.numbers import Varint, varint, write_varint
from wiredecode.fields.sized import OPAQUE, Binary


def with_tag(tag: int, kind: Kind) -> Kind:
    kind.tag, kind.tagged = tag, True  # type: ignore[attr-defined]  # other kinds have tags of other types
    return kind


class UnknownTag(Layer):
    """A tagged field that is not declared."""

    fields_desc: ClassVar[Any] = [
        Varint("tag", "number of the field", max_bytes=5),
        Binary("data", "its contents", length=Varint, **OPAQUE),
    ]


class UnknownTags(Array):
    """The tagged fields that are not declared."""

    tagged = True
    tag = -1

    def __init__(self) -> None:
        super().__init__("unknown_tags", UnknownTag, "tagged fields that are not known", count=None, default=None)


class TaggedFields(TaggedLayer):
    """Base of structures that end with tagged fields; the last of ``fields_desc`` is :class:`UnknownTags`."""

    by_tag: ClassVar[dict[int, Any]] = {}

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        cls.by_tag = {kind.tag: kind for kind in cls.fields_desc if kind.tagged and kind.tag >= 0}

    @classmethod
    def minimum(cls) -> int:
        return super().minimum() + 1

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        try:
            count, position = varint("tags", data, position, end, 5)
            last = -1
            for _ in range(count):
                last, position = self._field(last, data, position, end)
        except Truncated as short:
            self.problem = short
        return position

    def _field(self, last: int, data: bytes, start: int, end: int) -> tuple[int, int]:
        """Read one field; return its tag, and the position after it."""
        tag, position = varint("tags", data, start, end, 5)
        if tag <= last:
            raise Malformed("tags", f"tag {tag} after tag {last}", start)
        kind = self.by_tag.get(tag)
        if kind is None:
            unknown = UnknownTag.within(data, start, end)
            if unknown.problem is not None:
                raise unknown.problem
            self.fields.setdefault("unknown_tags", []).append(unknown)
            first = self.ranges.get("unknown_tags", (start, 0))[0]
            self.ranges["unknown_tags"] = (first, unknown.stop)
            return tag, unknown.stop
        size, position = varint(kind.name, data, position, end, 5)
        stop = take(kind.name, position, size, end)
        try:
            value, reached = kind.read(data, position, stop, self)
        except Truncated as short:
            if short.partial is not None:
                self.fields[kind.name] = short.partial
            raise
        if reached != stop:
            raise Malformed(kind.name, f"{stop - reached} bytes after the field of tag {tag}", reached)
        self.fields[kind.name], self.ranges[kind.name] = value, (start, stop)
        return tag, stop

    def build_tagged(self) -> bytes:
        parts = [(unknown.tag, bytes(unknown)) for unknown in self.fields.get("unknown_tags") or ()]
        for tag, kind in self.by_tag.items():
            if kind.name in self.fields:
                raw = kind.write(self.fields[kind.name], self)
                parts.append((tag, write_varint(tag) + write_varint(len(raw)) + raw))
        return write_varint(len(parts)) + b"".join(raw for _, raw in sorted(parts, key=lambda part: part[0]))

    @classmethod
    def emit_tagged(cls, em: Emitter) -> None:
        """Most structures have none of these fields, so that only this is fast."""
        em.line("if p < e and b[p] == 0: p += 1")
        with em.block("else:"):
            super().emit_tagged(em)


@dataclass(eq=False)
class Versions:
    """The versions ``first`` to ``last`` of a message.

    ``layout`` returns what a version is made of, as something that can be compared; ``make`` makes the layer of that
    layout, and is given the lowest version that has it.
    """

    name: str
    first: int
    last: int
    layout: Callable[[int], Hashable]
    make: Callable[[Any, int], type[Layer]]
    _by_version: dict[int, type[Layer]] = field(default_factory=dict, init=False)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def layer(self, version: int) -> type[Layer]:
        """The layer of a version, which is that of the lowest of equal layout; KeyError if there is no such version."""
        if version not in self._by_version:
            if version not in self:
                raise KeyError(version)
            layout = self.layout(version)
            lowest = next(each for each in range(self.first, version + 1) if self.layout(each) == layout)
            made = self.make(layout, version) if lowest == version else self.layer(lowest)
            self._by_version.setdefault(version, made)  # another thread may have made it meanwhile
        return self._by_version[version]

    def layers(self) -> list[type[Layer]]:
        return list(dict.fromkeys(self.layer(version) for version in range(self.first, self.last + 1)))
