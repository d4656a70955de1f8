"""When an optional field is there (:mod:`wiredecode.fields.presence`), for all rows at once.

An array cannot tell everything: what it cannot, such as whether a regular expression matches, is unknown for that row.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.fields import When
from wiredecode.fields.columns.kinds import Scope
from wiredecode.fields.columns.rows import Bools, Int64s, Rows, following

Values = npt.NDArray[Any]
CALLS: dict[Callable[..., Any], Callable[[Rows], Bools]] = {}
"""Functions that conditions call without arguments, for all rows at once."""


class Truth(NamedTuple):
    """Which rows have the field for certain, and which may have it."""

    sure: Bools
    maybe: Bools


class Unknown(Exception):
    """Arrays cannot tell the value; what is known of it is where there is one."""


class Presence:
    """One condition for all rows. ``told``: arrays can tell at least a part of it; else only frame by frame."""

    def __init__(self, when: When) -> None:
        self.when = when
        self.answer = _answer(when.tree, when)

    def __call__(self, rows: Rows, scope: Scope) -> Truth:
        return self._truth(self.when.tree, rows, scope)

    def _truth(self, node: ast.expr, rows: Rows, scope: Scope) -> Truth:
        match node:
            case ast.BoolOp(op=word, values=parts):
                join = np.logical_and if isinstance(word, ast.And) else np.logical_or
                truths = [self._truth(part, rows, scope) for part in parts]
                return Truth(join.reduce([t.sure for t in truths]), join.reduce([t.maybe for t in truths]))
            case ast.UnaryOp(op=ast.Not(), operand=part):
                truth = self._truth(part, rows, scope)
                return Truth(~truth.maybe, ~truth.sure)
        there = np.ones(len(rows), np.bool_)
        try:
            holds = self._value(node, rows, scope, there)
        except Unknown:
            return Truth(np.zeros(len(rows), np.bool_), there)
        found = np.broadcast_to(np.asarray(holds, np.bool_), len(rows)) & there
        return Truth(found, found)

    def _value(self, node: ast.expr, rows: Rows, scope: Scope, there: Bools) -> Any:
        """The value of all rows; ``there`` turns False where there is none."""

        def part(node: ast.expr) -> Any:
            return self._value(node, rows, scope, there)

        match node:
            case ast.Compare(left=first, ops=operators, comparators=others):
                values = [part(first), *map(part, others)]
                pairs = zip(operators, values[:-1], values[1:], strict=True)
                return np.logical_and.reduce([compared(op, left, right) for op, left, right in pairs])
            case ast.BinOp(left=first, op=op, right=other):
                return ARITHMETIC[type(op)](part(first), part(other))
            case ast.UnaryOp(operand=operand):
                return -part(operand)
            case ast.Tuple(elts=parts):
                return [part(element) for element in parts]
            case ast.Constant(value=constant):
                return constant
            case ast.Name(id="left"):
                return rows.e - rows.p
            case ast.Name(id="tokens"):
                return tokens(rows)
            case ast.Name(id="token"):
                return token(rows)
            case ast.Name(id=name):
                return field(scope, name, there)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments, rows, scope, there)
        raise Unknown

    def _call(self, name: str, arguments: list[ast.expr], rows: Rows, scope: Scope, there: Bools) -> Any:
        match name, arguments:
            case "has", [ast.Name(id=of)]:
                return scope.there.get(of, True)
            case "left_of", [ast.Name(id=of)]:
                return np.minimum(rows.e, scope.values[reach(of)]) - rows.p
            case "peek", [ast.Constant(value=int(width))] if width in (1, 2, 4, 8):
                enough, value = peeked(f">u{width}", rows)
                there &= enough
                return value
            case _, [] if (call := CALLS.get(self.when.calls.get(name, _answer))) is not None:
                return call(rows)
        raise Unknown


def _answer(node: ast.expr, when: When) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return name in ("has", "left_of", "peek") or (not arguments and when.calls.get(name) in CALLS)
        case ast.Name() | ast.Constant(value=bool()):
            return True
    return any(_answer(part, when) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(left, bytes) or isinstance(right, str | bytes):
        raise Unknown
    if isinstance(right, list):
        if any(isinstance(value, bytes) and len(value) != 1 for value in right):
            raise Unknown
        found = np.isin(left, [value[0] if isinstance(value, bytes) else value for value in right])
        return found if isinstance(op, ast.In) else ~found
    return ARITHMETIC[type(op)](left, right)


def field(scope: Scope, name: str, there: Bools) -> Values:
    """The numbers of an earlier field, wide enough to reckon with."""
    if name in scope.there:
        there &= scope.there[name]
    if name not in scope.values:
        raise Unknown
    values = scope.values[name]
    return values if values.dtype == np.uint64 else values.astype(np.int64)


def reach(name: str) -> str:
    """The key in the scope of where the bytes end that a length counts."""
    return f"{name} reaches"


def peeked(code: str, rows: Rows) -> tuple[Bools, Int64s]:
    """Where the number that comes next is in the frame, and the number; rows do not move."""
    there = rows.e - rows.p >= np.dtype(code).itemsize
    return there, rows.source.gather(code, np.where(there, rows.p, 0)).astype(np.int64)


def tokens(rows: Rows) -> Int64s:
    """How many tokens are left on the line."""
    words = rows.source.words
    return np.searchsorted(words, following(rows.source.breaks, rows.p)) - np.searchsorted(words, rows.p)


def token(rows: Rows) -> Int64s:
    """The next token as a number if it is of one byte; -1 where it is not."""
    starts = following(rows.source.words, rows.p)
    alone = following(rows.source.white, starts) == starts + 1
    inside = starts < following(rows.source.breaks, rows.p)
    return np.where(inside & alone, rows.source.gather("u1", np.where(inside, starts, 0)).astype(np.int64), -1)
