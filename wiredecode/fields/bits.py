"""Bit fields: several named fields in one integer, the highest bits first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wiredecode.fields.contracts import Emitter, Structure
from wiredecode.fields.kind import Kind, take
from wiredecode.fields.numbers import Number, UInt8, UInt16, UInt32, UInt64

WHOLE: dict[int, type[Number]] = {8: UInt8, 16: UInt16, 32: UInt32, 64: UInt64}


class Bits(Number):
    """``count`` bits of an integer that it shares with the bit fields beside it.

    Bit fields stand one after another in ``fields_desc``, the highest bits first, and fill 8, 16, 32 or 64 bits
    together. Each is a field of its own: ``Bits("kind", 4), Bits("dup", 1), Bits("qos", 2), Bits("retain", 1)`` is one
    byte. The byte range of each is that of the whole integer.
    """

    def __init__(self, name: str, count: int, doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.count, self.mask = count, (1 << count) - 1
        self.column = next(f"uint{bits}" for bits in WHOLE if count <= bits)  # type: ignore[misc]
        self.group: list[Bits] = []
        self.shift = 0

    def joined(self, group: list[Bits], bits: int) -> None:
        """Take the place in a group of bit fields of so many bits."""
        self.group = group
        self.shift = bits - sum(other.count for other in group[: group.index(self) + 1])
        self.whole = WHOLE[bits](group[0].name)
        self.back = 0 if self is group[0] else self.whole.width

    def minimum(self) -> int:
        return 0 if self.back else self.whole.width

    def read(self, data: bytes, position: int, end: int, layer: Structure) -> tuple[int, int]:
        """The first bit field moves behind the integer, the others look back at it."""
        start = position - self.back
        stop = take(self.name, start, self.whole.width, end)
        return self.whole.read(data, start, stop, layer)[0] >> self.shift & self.mask, stop

    def write(self, value: int | None, layer: Structure) -> bytes:
        if self.back:
            return b""
        whole = sum((self._built(bits.name, layer) & bits.mask) << bits.shift for bits in self.group)
        return self.whole.write(whole, layer)

    @staticmethod
    def _built(name: str, layer: Structure) -> int:
        """What was set, or what filled itself in."""
        value = layer.getfieldval(name)
        return (layer.filled.get(name) if value is None else value) or 0

    def randval(self) -> Any:
        from wiredecode.fields.fuzzing import integer

        return integer(0, self.mask)

    def emit(self, em: Emitter) -> str:
        shared = em.scopes[-1].variables
        key = f"bits of {self.group[0].name}"
        if not self.back:
            shared[key] = em.fixed(self.whole)
        return f"({shared[key]} >> {self.shift} & {self.mask})"


def group_bits(kinds: Iterable[Kind]) -> None:
    """Tell the bit fields of a layer which of them share an integer. Raises TypeError if some fill none."""
    group: list[Bits] = []
    for kind in kinds:
        if isinstance(kind, Bits):
            group.append(kind)
            total = sum(bits.count for bits in group)
            if total in WHOLE:
                for bits in group:
                    bits.joined(group, total)
                group = []
        elif group:
            break
    if group:
        names, total = ", ".join(bits.name for bits in group), sum(bits.count for bits in group)
        raise TypeError(f"{names}: {total} bits fill no integer of 8, 16, 32 or 64")
