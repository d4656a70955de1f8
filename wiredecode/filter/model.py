"""Parts of filters after parsing: types of values, levels of knowledge, operands."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from wiredecode.frames.frame import Frame

Values = list[Any]
"""The values of an operand in a frame: none if the field is absent, one per element of arrays; None is a null."""


class Type(Enum):
    """Type of a value; the text is its name in error messages."""

    NUMBER = "a number"
    STRING = "text"
    BYTES = "bytes"
    BOOLEAN = "true or false"
    TIME = "a time"
    DURATION = "a duration"
    ADDRESS = "an IP address"
    ENUM = "an enumeration"
    ANY = "a value of any type"
    STRUCTURE = "a structure"
    PROTOCOL = "a protocol"


class Level(IntEnum):
    """Knowledge of a frame that a test needs, the cheapest first."""

    CONSTANT = 0
    CONNECTION = 1
    """Addresses, ports: the same for all frames of a direction."""
    ARRIVAL = 2
    """Known from framing, before the frame is decoded: number, times, length, packets."""
    HEADER = 3
    """Known from decoding without a record: type, status, latency."""
    FIELDS = 4
    """Fields that are decoded without a record."""
    RECORD = 5
    """All fields."""
    FOUND = 6
    """Further findings of making the record, and notes of reassembly."""
    LINKED = 7
    """The number of the response, which comes later."""


@dataclass(frozen=True)
class Field:
    """A name that filters know."""

    name: str
    type: Type
    level: Level
    get: Callable[[Frame], Values]
    """For enumerations: their names."""
    codes: Callable[[Frame], Values] | None = None
    """For enumerations: their numbers."""
    names: Mapping[str, int] = field(default_factory=dict)
    """For enumerations: numbers by name."""
    secret: bool = False
    complete: bool = False
    """Whether it is known only if the dissector made the record."""
    verbatim: bool = False
    """Whether its bytes are in the frame unchanged: a value absent from the frame is absent from the field."""
    words: Callable[[], Iterable[str]] | None = None
    """All possible values, if they are known."""
    comparable: bool = False
    """True if the tables have a column with the same value."""


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a field, or a value calculated from fields."""

    type: Type
    level: Level
    get: Callable[[Frame], Values]
    field: Field | None = None
    complete: bool = False


@dataclass(frozen=True)
class Constant:
    """A literal as one side of a comparison; its type depends on the other side."""

    text: str
    quoted: bool
    start: int
    stop: int
