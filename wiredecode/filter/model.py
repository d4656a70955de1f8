"""Parts of filters after parsing: types of values, levels of knowledge, operands."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from itertools import islice
from types import MappingProxyType
from typing import Any

from wiredecode.dataclasses import dataclass, field
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


SHOWN_CHARACTERS = 50
"""Characters of a long filter that are shown before and after the place."""
INDENT = "  "
MAX_NAMED = 8
"""Names that are listed if none is near."""
NAMED: Mapping[str, str] = MappingProxyType({})


class FilterError(ValueError):
    """An invalid filter. ``start`` and ``stop``: the place in ``text``, in characters."""

    def __init__(self, message: str, text: str, start: int, stop: int | None = None) -> None:
        super().__init__(message)
        self.message, self.text = message, text
        self.start = min(max(start, 0), len(text))
        self.stop = max(self.start + 1, stop if stop is not None else 0)

    def explain(self) -> str:
        """Three lines: the message, the filter, and carets below the place."""
        from wiredecode.frames.escape import escape

        first = max(0, self.start - SHOWN_CHARACTERS)
        last = min(len(self.text), self.stop + SHOWN_CHARACTERS)
        before = ("..." if first else "") + escape(self.text[first : self.start])
        wrong = escape(self.text[self.start : self.stop])
        after = escape(self.text[self.stop : last]) + ("..." if last < len(self.text) else "")
        carets = " " * len(before) + "^" * max(1, min(len(wrong), 2 * SHOWN_CHARACTERS))
        return f"{escape(self.message)}\n{INDENT}{before}{wrong}{after}\n{INDENT}{carets}"


def nearest(word: str, names: Iterable[str], called: Mapping[str, str] = NAMED, prefix: str = "") -> str:
    """``; did you mean ...?``, or "". ``called``: long names by short ones; ``prefix``: common start of all names."""
    return did_you_mean([prefix + called.get(name, name) for name in close_names(word, names)])


def did_you_mean(names: Sequence[str]) -> str:
    """``; did you mean 'a', 'b' or 'c'?``; nothing for no names."""
    shown = [repr(name) for name in names]
    return f"; did you mean {' or '.join(filter(None, [', '.join(shown[:-1]), shown[-1]]))}?" if shown else ""


def close_names(word: str, candidates: Iterable[str]) -> list[str]:
    """The most similar name, if one is similar enough."""
    names = sorted(dict.fromkeys(candidates), key=lambda name: name.isupper())  # Publish before PUBLISH
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    return [folded[match] for match in difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.65)]


def one_of(words: Iterable[str]) -> str:
    """``; it is one of a, b, c``; empty if they are many."""
    names = list(islice(words, MAX_NAMED + 1))
    return f"; it is one of {', '.join(names)}" if len(names) <= MAX_NAMED else ""
