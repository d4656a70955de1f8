"""Base of all field kinds: its contract with the three readers, ends of bytes inside a field, values for ``fuzz``."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from scapy.fields import Field
from scapy.packet import fuzz
from scapy.volatile import VolatileValue

if TYPE_CHECKING:
    from wiredecode.fields.emitter import Emitter
    from wiredecode.fields.layer import Layer

Fill = Callable[["Layer", Mapping[str, bytes]], Any]
"""``(layer, bytes of each field that follows) -> value``."""


class DecodeError(Exception):
    """A decoder cannot read the bytes. Compiled decoders raise it as it is, for speed."""


class Truncated(DecodeError):
    """The bytes end inside a field: ``field`` needed ``needed`` bytes at ``start`` and there were ``had``."""

    reason: str = ""
    """Why the bytes cannot be the field; empty: they end."""

    def __init__(self, field: str, needed: int, had: int, start: int, partial: Any = None) -> None:
        super().__init__(field, needed, had, start)
        self.field, self.needed, self.had, self.start, self.partial = field, needed, had, start, partial

    def inside(self, field: str, partial: Any = None, front: int = 0) -> Truncated:
        """The problem as reported by the structure or array around the field, counted from ``front``."""
        problem = Truncated(field, self.needed, self.had, self.start - front, partial)
        problem.reason = self.reason
        return problem


class Malformed(Truncated):
    """Bytes that cannot be the field, with any bytes after them."""

    def __init__(self, field: str, reason: str, start: int) -> None:
        super().__init__(field, 0, 0, start)
        self.reason = reason


def take(field: str, position: int, length: int, end: int) -> int:
    """Return the end of ``length`` bytes at ``position``, or raise :class:`Truncated`."""
    if length < 0 or position + length > end:
        raise Truncated(field, length, end - position, position)
    return position + length


class Kind(Field[Any, Any]):
    """One field of a layout.

    ``doc`` says in a few words what it means; ``unit`` what it counts (``"bytes"``, ``"s"``); ``secret`` hides the
    value in every output unless the user asks for it, ``free`` the credentials in a text, ``named_by`` a value that is
    a credential by itself or by the earlier field of that name; ``fill`` computes it when a layer is built and it was
    not set.
    """

    __slots__ = ("__dict__",)

    fixed: ClassVar[str | None] = None
    """The struct code of a kind of fixed width; runs of these become one unpack."""
    column: ClassVar[str] = "binary"
    """The Arrow type of its column."""
    hidden: ClassVar[bool] = False
    """Whether records leave it out: bytes that only hold a message together, such as the end of a line."""
    tagged: bool = False
    """Found by a tag or key, in any order: read by :meth:`Layer.read_tagged`."""

    delimited: ClassVar[bool] = False
    """Whether its bytes, or earlier ones, determine its end, as those of fixed width do: it is whole although
    nothing follows it."""

    back: int = 0
    """Bytes before its position that belong to it, too: of bit fields that share an integer."""

    def __init__(
        self,
        name: str,
        doc: str = "",
        *,
        default: Any = None,
        unit: str = "",
        secret: bool = False,
        free: bool = False,
        named_by: str = "",
        fill: Fill | None = None,
    ) -> None:
        super().__init__(name, None if fill is not None else default, "H")
        self.doc, self.unit, self.secret, self.free, self.fill = doc, unit, secret, free, fill
        self.named_by = named_by

    def __hash__(self) -> int:
        return id(self)

    def rename(self, name: str) -> None:
        """Change the name, also of the kinds that it reads itself: an error in them is one of this field."""
        self.name = name
        for part in vars(self).values():
            if isinstance(part, Kind):
                part.rename(name)

    # Defined by each kind.

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        """Read the value at ``position``; return it and the position after it. Raises :class:`Truncated`."""
        raise NotImplementedError

    def write(self, value: Any, layer: Layer) -> bytes:
        """Encode ``value``, the inverse of :meth:`read`."""
        raise NotImplementedError

    def emit(self, em: Emitter) -> str:
        """Generate code that reads the value; return the expression of the value.

        By default it calls :meth:`read` with None as the layer, or reads the fixed width.
        """
        return em.fixed(self) if self.fixed else em.call(self)

    def minimum(self) -> int:
        """The least number of bytes this field can take."""
        return struct.calcsize(">" + self.fixed) if self.fixed else 0

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        """The value as records show it: JSON-ready."""
        return value

    def spell_present(self, em: Emitter, expression: str) -> str:
        """Generate the expression that does what :meth:`present` does."""
        return expression

    def readable(self, value: Any) -> str:
        """The value as people read it, in trees and in Scapy's ``show()``."""
        return repr(value)

    # Scapy's contract, in terms of the above: a field may be absent (None), or random, as ``fuzz`` makes it.

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        value, position = self.read(s, 0, len(s), pkt)
        return s[position:], value

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + self.write(val, pkt)

    def i2repr(self, pkt: Any, x: Any) -> str:
        return repr(x) if x is None or isinstance(x, VolatileValue) else self.readable(x)

    def randval(self) -> Any:
        """A random value for Scapy's ``fuzz``, or None: it keeps its default."""
        return random_value(self.column)


class FixedBytes(Kind):
    """As many bytes as ``fixed`` says."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        stop = take(self.name, position, self.minimum(), end)
        return data[position:stop], stop

    def write(self, value: Any, layer: Layer) -> bytes:
        return bytes(value or bytes(self.minimum()))


class AsText(Kind):
    """Base of values that records show as text."""

    @staticmethod
    def spell(value: Any, /) -> Any:
        """The text, or the value itself where there is none."""
        raise NotImplementedError

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return self.spell(value)

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.spell)}({expression})"

    def readable(self, value: Any) -> str:
        return str(self.spell(value))


MAX_BYTES, MAX_ELEMENTS = 24, 3
NASTY = (0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
"""Where integers go wrong."""

ALPHABET = "abcXYZ019._-$ %\\'\"\té€\U0001f407\0"


class Random(VolatileValue[Any]):
    """A value that is made anew each time a packet is built."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def _fix(self) -> Any:
        return self.make()


def integer(low: int, high: int) -> Random:
    """Between both: any, one at an end, or one of :data:`NASTY`."""
    ends = [low, high, *(value for value in NASTY if low <= value <= high)]
    return Random(lambda: random.choice(ends) if random.random() < 0.3 else random.randint(low, high))


def whole(bits: int, *, signed: bool = False) -> Random:
    return integer(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else integer(0, (1 << bits) - 1)


def octets() -> Random:
    return Random(lambda: random.randbytes(random.randint(0, MAX_BYTES)))


def characters() -> Random:
    return Random(lambda: "".join(random.choices(ALPHABET, k=random.randint(0, MAX_BYTES))))


def structure(layer: type[Any]) -> Random:
    return Random(lambda: next(iter(fuzz(layer()))))


def elements(element: VolatileValue[Any] | None) -> Random | None:
    return None if element is None else Random(lambda: [element._fix() for _ in range(random.randint(0, MAX_ELEMENTS))])


def random_value(column: str) -> Random | None:
    """A value of a kind that is shown in a column of this type; None: its default will do."""
    if column in ("binary", "string"):
        return octets() if column == "binary" else characters()
    if "int" not in column:
        return None
    return whole(int(column.removeprefix("u").removeprefix("int")), signed=column.startswith("int"))
