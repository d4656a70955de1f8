"""What filters are made of after parsing: types of values, levels of knowledge, operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiredecode.frames.frame import Frame

Values = list[Any]
"""The values of an operand in a frame: none where the field is absent, one per element of arrays; None is a null."""


class Type(Enum):
    """What a value is; the text is what error messages call it."""

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
    """What has to be known of a frame, the cheapest first."""

    CONSTANT = 0
    CONNECTION = 1
    """Addresses, ports: the same for all frames of a direction."""
    ARRIVAL = 2
    """What framing tells before the frame is decoded: number, times, length, packets."""
    HEADER = 3
    """What decoding without a record tells: type, status, latency."""
    FIELDS = 4
    """Fields that come with it."""
    RECORD = 5
    """All fields."""
    FOUND = 6
    """What else making the record finds wrong, and what reassembly told."""
    LINKED = 7
    """The number of the response, which comes later."""


class Clock:
    """When the capture began, for times relative to it; whoever runs the filter sets it."""

    first_ns = 0


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
    """For enumerations: what the numbers are called."""
    secret: bool = False
    complete: bool = False
    """Whether it is known only where the dissector made the record."""
    one: Callable[[Frame], Any] | None = None
    """Where there is never more than one value: that value, or None."""
    verbatim: bool = False
    """Whether its bytes stand in the frame as they are: what the frame does not hold, the field does not."""
    words: Callable[[], Iterable[str]] | None = None
    """All that it can be the same as, where that is known."""
    comparable: bool = False
    """True if the tables have a column with the same value."""


@dataclass(frozen=True)
class Operand:
    """One side of a comparison: a field, or what is made of fields."""

    type: Type
    level: Level
    get: Callable[[Frame], Values]
    field: Field | None = None
    complete: bool = False
    one: Callable[[Frame], Any] | None = None


@dataclass(frozen=True)
class Constant:
    """One side of a comparison that is written out; what it is depends on the other side."""

    text: str
    quoted: bool
    start: int
    stop: int
