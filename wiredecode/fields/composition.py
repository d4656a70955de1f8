"""Kinds made of other kinds: structures, arrays, and fields that are there only under a condition."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scapy.fields import Field

from wiredecode.budget import BUDGET, CAREFUL_BYTES, FRAME_BYTES, PLAIN_BYTES, TOO_MANY
from wiredecode.fields.kind import Kind, Malformed, Truncated, elements, structure
from wiredecode.fields.numbers import INTEGERS, Int8, Integer, UInt32
from wiredecode.fields.presence import When

if TYPE_CHECKING:
    from wiredecode.fields.emitter import Emitter
    from wiredecode.fields.layer import Layer


class Struct(Kind):
    """A structure in place: the fields of another layer."""

    holds_packets = 1
    column = "struct"

    def __init__(self, name: str, layer: type[Layer], doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.layer = layer

    def minimum(self) -> int:
        return int(self.layer.minimum())

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        inner = self.layer.within(data, position, end)
        if inner.problem is not None:
            short = inner.problem
            raise short.inside(f"{self.name}.{short.field}", inner)
        return inner, inner.stop

    def write(self, value: Any, layer: Layer) -> bytes:
        return bytes(value if value is not None else self.layer())

    def emit(self, em: Emitter) -> str:
        em.flush()
        return em.structure(self.layer)

    def randval(self) -> Any:
        return structure(self.layer)


class NullableStruct(Struct):
    """A structure after a byte: 1, or ``none`` if there is no structure."""

    def __init__(self, name: str, layer: type[Layer], doc: str = "", *, none: int = -1, **kw: Any) -> None:
        super().__init__(name, layer, doc, **kw)
        self.flag, self.none = Int8(name), none

    def minimum(self) -> int:
        return 1

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        flag, inside = self.flag.read(data, position, end, layer)
        if flag not in (1, self.none):
            raise Malformed(self.name, f"a presence of {flag}", position)
        return super().read(data, inside, end, layer) if flag == 1 else (None, inside)

    def write(self, value: Any, layer: Layer) -> bytes:
        return bytes([self.none & 0xFF]) if value is None else b"\1" + super().write(value, layer)

    def emit(self, em: Emitter) -> str:
        flag, value = em.number(self.flag), em.variable(self.name)
        em.line(f"if {flag} not in (1, {self.none}): raise DecodeError")
        with em.block(f"if {flag} == 1:"):
            inner = em.structure(self.layer)
            if not em.stepping:
                em.line(f"{value} = {inner}")
        em.line(f"else: {value} = None")
        return value


class Bounded(Struct):
    """A structure that has exactly as many bytes as an earlier field says.

    ``until_end`` names its fields that reach to its end, with any contents: if it is truncated, they are left out.
    """

    def __init__(
        self, name: str, layer: type[Layer], doc: str = "", *, size: str, until_end: tuple[str, ...] = (), **kw: Any
    ) -> None:
        super().__init__(name, layer, doc, **kw)
        self.size, self.until_end = size, until_end

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        stop = position + layer.fields[self.size]
        inner, reached = super().read(data, position, min(stop, end), layer)
        if stop > end:
            for name in self.until_end:
                inner.fields.pop(name, None)
                inner.ranges.pop(name, None)
            raise Truncated(self.name, stop - position, end - position, position, inner)
        return inner, reached

    def emit(self, em: Emitter) -> str:
        size = em.reference(self.size)
        em.flush()
        em.require(f"p + {size}")
        with em.limit_to(f"p + {size}"):
            return str(em.structure(self.layer))


class Array(Kind):
    """``count`` elements one after another: a kind (its name is not used) or the fields of a layer.

    ``count`` is the kind of an integer in front, the name of an earlier field, or None: elements up to the end.
    ``null`` is the count that means "no array". ``size`` names an earlier field that bounds the array in bytes.
    ``bulk`` marks arrays of messages, which readers that only look at a frame count and do not read.
    """

    islist = 1
    column = "list"

    def __init__(
        self,
        name: str,
        element: Kind | type[Layer],
        doc: str = "",
        *,
        count: type[Integer] | str | None = UInt32,
        null: int | None = None,
        size: str | None = None,
        bulk: bool = False,
        **kw: Any,
    ) -> None:
        kw.setdefault("default", [])
        super().__init__(name, doc, **kw)
        self.element = element if isinstance(element, Kind) else Struct(name, element)
        self.holds_packets = int(isinstance(self.element, Struct))
        self.count = count(name) if isinstance(count, type) else count
        self.null, self.size, self.bulk = null, size, bulk
        self.rename(name)
        if bulk and null is not None:
            raise TypeError(f"{name}: a bulk array is counted, so it cannot be null")
        if self.element.minimum() < 1:
            raise TypeError(f"{name}: an element that may be empty cannot be counted safely")

    def minimum(self) -> int:
        return self.count.minimum() if isinstance(self.count, INTEGERS) else 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        count = None
        if isinstance(self.count, str):
            count = layer.fields[self.count]
        elif self.count is not None:
            count, position = self.count.read(data, position, end, layer)
        if count is not None and count == self.null:
            return None, position
        if count is not None and count < 0:
            raise Malformed(self.name, f"a count of {count}", position)
        stop = min(end, position + layer.fields[self.size]) if self.size else end
        return self.read_elements(data, position, stop, layer, count)

    def read_elements(
        self, data: bytes, position: int, stop: int, layer: Layer, count: int | None
    ) -> tuple[list[Any], int]:
        """This many elements, or those up to ``stop``."""
        values: list[Any] = []
        cost = CAREFUL_BYTES if self.holds_packets else PLAIN_BYTES
        for index in itertools.count() if count is None else range(count):
            if count is None and position >= stop:
                break
            if not (BUDGET.own.take(cost) and len(values) * cost < FRAME_BYTES):
                raise Malformed(f"{self.name}[{index}]", TOO_MANY, position).inside(f"{self.name}[{index}]", values)
            try:
                value, position = self.element.read(data, position, stop, layer)
            except Truncated as short:
                if short.partial is not None:
                    values.append(short.partial)
                inside = short.field.removeprefix(self.name)
                raise short.inside(f"{self.name}[{index}]{inside}", values) from None
            values.append(value)
        return values, position

    def write(self, value: Sequence[Any] | None, layer: Layer) -> bytes:
        if value is None:
            count, value = self.null or 0, ()
        else:
            count = len(value)
        front = self.count.write(count, layer) if isinstance(self.count, INTEGERS) else b""
        return front + b"".join(self.element.write(element, layer) for element in value)

    def emit(self, em: Emitter) -> str:
        return em.array(self)

    def randval(self) -> Any:
        return elements(self.element.randval())

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return None if value is None else [self.element.present(element, show) for element in value]

    def spell_present(self, em: Emitter, expression: str) -> str:
        # Elements that are structures or need no rendering were shown while they were read.
        return expression


class Optional(Kind):
    """A field that is there only when ``when`` holds."""

    def __init__(self, kind: Kind, when: When) -> None:
        super().__init__(kind.name, kind.doc, unit=kind.unit, secret=kind.secret, fill=kind.fill)
        self.kind, self.when = kind, when
        self.holds_packets, self.islist = kind.holds_packets, kind.islist

    def minimum(self) -> int:
        return 0

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        return self.kind.getfield(pkt, s) if self.when.holds(s, 0, len(s), pkt) else (s, None)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        return self.kind.read(data, position, end, layer)

    def write(self, value: Any, layer: Layer) -> bytes:
        return b"" if value is None else self.kind.write(value, layer)

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return self.kind.present(value, show)

    def readable(self, value: Any) -> str:
        return self.kind.readable(value)


def plain(kind: Field[Any, Any]) -> Kind:
    """The kind itself, without the condition on its presence."""
    return kind.kind if isinstance(kind, Optional) else kind  # type: ignore[return-value]


class LengthOf:
    """The bytes of some fields, or of all following fields if none is named, and ``plus`` more."""

    def __init__(self, *fields: str, plus: int = 0, null: int | None = None) -> None:
        self.fields, self.plus, self.null = fields, plus, null

    def __call__(self, layer: Layer, following: Mapping[str, bytes]) -> int:
        if self.null is not None and layer.fields.get(self.fields[0], b"") is None:
            return self.null
        if not self.fields:
            return sum(map(len, following.values())) + self.plus
        return sum(len(following.get(name) or layer.encode_field(name)) for name in self.fields) + self.plus


class PresenceOf:
    """1 if one of some fields is set, else 0: a flag for what follows."""

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def __call__(self, layer: Layer, following: Mapping[str, bytes]) -> int:
        return int(any(layer.fields.get(name) is not None for name in self.fields))


class CountOf(LengthOf):
    """The elements of some arrays, and ``plus`` more; ``null`` if the first is null."""

    def __call__(self, layer: Layer, following: Mapping[str, bytes]) -> int:
        if self.null is not None and layer.fields.get(self.fields[0], ()) is None:
            return self.null
        return sum(len(layer.getfieldval(name) or ()) for name in self.fields) + self.plus
