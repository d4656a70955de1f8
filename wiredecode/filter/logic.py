"""Tests joined by and, or, xor and not; their result is None if more of the frame must be known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wiredecode.dataclasses import dataclass, replace
from wiredecode.filter.model import Level
from wiredecode.frames.frame import Frame

Decision = Callable[["Frame"], bool | None]
"""True, False, or None: more has to be known of the frame."""


@dataclass(frozen=True)
class Atom:
    """One comparison. ``level``: what has to be known for it; ``complete``: the dissector must have made records."""

    run: Callable[[Frame], bool]
    level: Level
    complete: bool = False
    comparison: tuple[Callable[[Any, Any], Any], int | float] | None = None
    """Comparison and constant for a column of numbers; None: only frame by frame."""
    names: frozenset[str] = frozenset()
    """The fields it is about."""
    spelled: tuple[tuple[str, str], ...] = ()
    """Names of fields, with the user's spelling."""


@dataclass(frozen=True)
class Join:
    """``operator`` is ``and``, ``or`` or ``xor``."""

    operator: str
    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Negation:
    part: Expression


Expression = Atom | Join | Negation | bool


def tests(expression: Expression) -> Iterator[Atom]:
    if isinstance(expression, Atom):
        yield expression
    elif isinstance(expression, Negation):
        yield from tests(expression.part)
    elif isinstance(expression, Join):
        for part in expression.parts:
            yield from tests(part)


def with_fields(fields: Mapping[str, str], expression: Expression) -> Expression:
    """One comparison, or its negation, with its names of fields, and their spelling."""
    if isinstance(expression, Atom):
        return replace(expression, names=frozenset(fields), spelled=tuple(fields.items()))
    return Negation(with_fields(fields, expression.part)) if isinstance(expression, Negation) else expression


def negation(part: Expression) -> Expression:
    return not part if isinstance(part, bool) else Negation(part)


def join(operator: str, parts: list[Expression]) -> Expression:
    """The parts joined, constants folded, the cheapest first."""
    if operator == "xor":
        odd = sum(part is True for part in parts) % 2 == 1
        terms = [part for part in parts if not isinstance(part, bool)]
        whole: Expression = False if not terms else terms[0] if len(terms) == 1 else Join("xor", tuple(terms))
        return negation(whole) if odd else whole
    absorbing = operator == "or"
    if any(part is absorbing for part in parts):
        return absorbing
    terms = [part for part in parts if not isinstance(part, bool)]
    if len(terms) < 2:
        return terms[0] if terms else not absorbing
    return Join(operator, tuple(sorted(terms, key=_cost)))


def _cost(expression: Expression) -> int:
    """Rank of a test by its cost: tests of levels after RECORD are as cheap as those of HEADER."""
    levels = (test.level for test in tests(expression))
    return max((Level.HEADER if level > Level.RECORD else level for level in levels), default=0)


def decide(expression: Expression, level: Level) -> Decision | bool | None:
    """Decide with the knowledge of ``level``: a function, or the answer for all frames."""
    if isinstance(expression, bool):
        return expression
    if isinstance(expression, Atom):
        return expression.run if expression.level <= level else None
    if isinstance(expression, Negation):
        return _not(decide(expression.part, level))
    parts = [decide(part, level) for part in expression.parts]
    if expression.operator == "xor":
        return None if None in parts else _xor(parts)
    absorbing = expression.operator == "or"
    decisions = [part for part in parts if callable(part)]
    if not decisions:
        return None
    return _perhaps(decisions, absorbing, None in parts)


def _not(decision: Decision | bool | None) -> Decision | bool | None:
    if not callable(decision):
        return None if decision is None else not decision

    def run(frame: Frame) -> bool | None:
        answer = decision(frame)
        return None if answer is None else not answer

    return run


def _xor(parts: list[Any]) -> Decision:
    def run(frame: Frame) -> bool | None:
        odd = False
        for part in parts:
            answer = part(frame)
            if answer is None:
                return None
            odd = odd != answer
        return odd

    return run


def _perhaps(parts: list[Decision], absorbing: bool, unknown: bool) -> Decision:
    """``and`` or ``or`` of parts that may be unknown: a single False decides ``and``, a single True decides ``or``."""

    def run(frame: Frame) -> bool | None:
        open_ = unknown
        for part in parts:
            answer = part(frame)
            if answer is absorbing:
                return absorbing
            open_ = open_ or answer is None
        return None if open_ else not absorbing

    return run
