"""Random values of field kinds, for Scapy's ``fuzz``."""

import random
from collections.abc import Callable
from typing import Any

from scapy.packet import fuzz
from scapy.volatile import VolatileValue

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


def elements(one: VolatileValue[Any] | None) -> Random | None:
    return None if one is None else Random(lambda: [one._fix() for _ in range(random.randint(0, MAX_ELEMENTS))])


def random_value(column: str) -> Random | None:
    """A value of a kind that is shown in a column of this type; None: its default will do."""
    if column in ("binary", "string"):
        return octets() if column == "binary" else characters()
    if "int" not in column:
        return None
    return whole(int(column.removeprefix("u").removeprefix("int")), signed=column.startswith("int"))
