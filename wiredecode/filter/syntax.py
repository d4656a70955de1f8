"""The parts of a parsed filter. ``start`` and ``stop`` are places in its text, in characters."""

from wiredecode.dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    start: int
    stop: int


@dataclass(frozen=True)
class Logic(Node):
    """``parts`` joined by ``and``, ``or`` or ``xor``."""

    operator: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not(Node):
    part: Node


@dataclass(frozen=True)
class Relation(Node):
    """``left operator right``; ``quantifier`` is ``any``, ``all`` or nothing."""

    operator: str
    left: Node
    right: Node
    quantifier: str | None


@dataclass(frozen=True)
class Membership(Node):
    """``left in {...}``: pairs of first and last; the same node twice for a single value."""

    left: Node
    members: tuple[tuple[Node, Node], ...]
    quantifier: str | None
    negated: bool


@dataclass(frozen=True)
class Word(Node):
    """A field, a protocol, or a value without quotes."""

    text: str


@dataclass(frozen=True)
class Literal(Node):
    """A value as it is written; ``quoted``: it was in quotes, and ``text`` is the part between them."""

    text: str
    quoted: bool


@dataclass(frozen=True)
class Call(Node):
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Slice(Node):
    """Bytes of ``of``: pairs of the first, and the number of bytes; None: up to the end."""

    of: Node
    ranges: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Arithmetic(Node):
    operator: str
    left: Node
    right: Node
