"""When an optional field is there: an expression, written once and evaluated by each reader in its own way.

``When("flags & 4 == 4")`` is a Python expression of comparisons, ``and``, ``or``, ``not`` and integer arithmetic. Its
words are

=================  ==================================================================================================
``flags``          the value of an earlier field of the structure
``has(key)``       whether an earlier optional field is there
``left``           bytes that are left of the frame, or of the structure that has a size
``left_of(size)``  of the bytes that an earlier length counts from its end on, those that are left
``peek(2)``        the next bytes as an unsigned integer, first byte first
``matches(rb"")``  whether a regular expression (for bytes, ``.`` is any byte) matches what comes next
``tokens``         how many tokens are left on the line, see :mod:`wiredecode.fields.textfields`
``token``          the next of them, as bytes; empty where there is none
``test(size)``     what a function says that is handed over by name, ``When("test(size)", test=function)``: it is
                   called with the buffer, the position, the end, and the values in the brackets
=================  ==================================================================================================

A comparison of a field that is not there, or of more bytes than are left, is false. Names are checked when the layer is
declared, and nothing of the wire is ever evaluated as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from wiredecode.fields.tokens import BLANKS, next_token, tokens_left

if TYPE_CHECKING:
    from wiredecode.fields.layer import Layer

WORDS = ("left", "tokens", "token")
MAX_PEEK = 8


class Terms(Protocol):
    """How one reader spells the words of an expression in Python; ``b``, ``p`` and ``e`` are frame and position."""

    def reference(self, name: str) -> str:
        """The value of a field."""

    def presence(self, name: str) -> str | None:
        """Whether a field is there; None: always."""

    def reach(self, name: str) -> str:
        """Where the bytes end that a field counts."""

    def tokens(self) -> str: ...

    def token(self) -> str: ...

    def constant(self, value: Any) -> str: ...


class When:
    """A condition on what was read before, or on the next bytes. ``calls`` are the functions that it names."""

    def __init__(self, expression: str, **calls: Callable[..., Any]) -> None:
        self.expression, self.calls = expression, calls
        self.fields: set[str] = set()
        """Fields whose values it needs."""
        self.optional: set[str] = set()
        """Fields whose presence it asks for."""
        self.measured: set[str] = set()
        """Lengths of which it asks what is left."""
        try:
            self.tree = ast.parse(expression, mode="eval").body
        except SyntaxError as error:
            raise TypeError(f"not a condition: {expression!r} ({error.msg})") from None
        self._check(self.tree)

    def __repr__(self) -> str:
        return f"When({self.expression!r})"

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=part):
                parts = [part]
            case ast.Compare(left=first, ops=operators, comparators=others) if _known(operators):
                parts = [first, *others]
            case ast.BinOp(left=first, op=operator, right=other) if _known([operator]):
                parts = [first, other]
            case ast.Constant(value=int() | bytes() | str()):
                parts = []
            case ast.Name(id=name):
                parts = []
                if name not in WORDS:
                    self.fields.add(name)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                parts = self._check_call(name, arguments)
            case _:
                raise TypeError(f"a condition cannot hold {ast.unparse(node)!r}: {self.expression!r}")
        for part in parts:
            self._check(part)

    def _check_call(self, name: str, arguments: list[ast.expr]) -> list[ast.expr]:
        """Check the arguments of the functions that stand for something; return those that are expressions."""
        match name, arguments:
            case _ if name in self.calls:
                return arguments
            case "has", [ast.Name(id=field)]:
                self.optional.add(field)
            case "left_of", [ast.Name(id=field)]:
                self.measured.add(field)
                self.fields.add(field)
            case ("peek", [ast.Constant(value=int(width))]) if 1 <= width <= MAX_PEEK:
                pass
            case "matches", [ast.Constant(value=bytes(pattern))]:
                re.compile(pattern)
            case _:
                raise TypeError(f"{name}() cannot be called so: {self.expression!r}")
        return []

    def names(self) -> set[str]:
        """All fields that it speaks of."""
        return self.fields | self.optional

    @property
    def absent(self) -> str | None:
        """The field that must not be there, if that is the whole condition."""
        match self.tree:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="has"), args=[ast.Name(id=name)])):
                return name
        return None

    @property
    def next_byte(self) -> tuple[int, int] | None:
        """Mask and value of the next byte, if they are the whole condition."""
        match self.tree:
            case ast.Compare(
                left=ast.BinOp(
                    left=ast.Call(func=ast.Name(id="peek"), args=[ast.Constant(value=1)]),
                    op=ast.BitAnd(),
                    right=ast.Constant(value=int(mask)),
                ),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=int(value))],
            ):
                return mask, value
        return None

    # As Python code.

    def code(self, terms: Terms) -> str:
        """The condition as a Python expression, in the words of one reader."""
        return self._truth(self.tree, terms)

    def _truth(self, node: ast.expr, terms: Terms) -> str:
        match node:
            case ast.BoolOp(op=operator, values=parts):
                word = " and " if isinstance(operator, ast.And) else " or "
                return "(" + word.join(self._truth(part, terms) for part in parts) + ")"
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return f"(not {self._truth(part, terms)})"
        guards: dict[str, None] = {}
        value = self._value(node, terms, guards)
        return f"({' and '.join([*guards, value])})" if guards else value

    def _value(self, node: ast.expr, terms: Terms, guards: dict[str, None]) -> str:
        """The code of a value; ``guards`` collects what must hold before it can be read."""

        def part(node: ast.expr) -> str:
            return self._value(node, terms, guards)

        match node:
            case ast.Compare(left=first, ops=operators, comparators=others):
                pairs = zip(operators, others, strict=True)
                return part(first) + "".join(f" {SPELLING[type(op)]} {part(other)}" for op, other in pairs)
            case ast.BinOp(left=first, op=operator, right=other):
                return f"({part(first)} {SPELLING[type(operator)]} {part(other)})"
            case ast.UnaryOp(operand=operand):
                return f"-{part(operand)}"
            case ast.Tuple(elts=parts):
                return "(" + "".join(f"{part(element)}, " for element in parts) + ")"
            case ast.Constant(value=constant):
                return repr(constant)
            case ast.Name(id="left"):
                return "(e - p)"
            case ast.Name(id="tokens"):
                return terms.tokens()
            case ast.Name(id="token"):
                return terms.token()
            case ast.Name(id=name):
                return _guarded(name, terms, guards)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self._call(name, arguments, terms, guards)
        raise TypeError(f"no value: {ast.unparse(node)}")

    def _call(self, name: str, arguments: list[ast.expr], terms: Terms, guards: dict[str, None]) -> str:
        match name, arguments:
            case _ if name in self.calls:
                values = "".join(f", {self._value(argument, terms, guards)}" for argument in arguments)
                return f"{terms.constant(self.calls[name])}(b, p, e{values})"
            case "has", [ast.Name(id=field)]:
                return terms.presence(field) or "True"
            case "left_of", [ast.Name(id=field)]:
                _guarded(field, terms, guards)
                return f"(min(e, {terms.reach(field)}) - p)"
            case "peek", [ast.Constant(value=1)]:
                guards["p < e"] = None
                return "b[p]"
            case "peek", [ast.Constant(value=int(width))]:
                guards[f"e - p >= {width}"] = None
                return f"int.from_bytes(b[p:p + {width}])"
            case "matches", [ast.Constant(value=bytes(pattern))]:
                return f"{terms.constant(matcher(pattern))}(b, p, e) is not None"
        raise TypeError(f"no function: {name}")

    # On integers.

    @cached_property
    def holds(self) -> Callable[[bytes, int, int, Layer], bool]:
        """``(buffer, position, end, layer) -> bool``: the condition on a layer of which the fields before were read."""
        terms = _OfLayer()
        code = f"lambda b, p, e, layer: bool({self.code(terms)})"
        return eval(compile(code, f"<{self!r}>", "eval"), terms.namespace)  # type: ignore[no-any-return]


SPELLING = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _known(operators: Iterable[ast.AST]) -> bool:
    return all(type(operator) in SPELLING for operator in operators)


def _guarded(name: str, terms: Terms, guards: dict[str, None]) -> str:
    there = terms.presence(name)
    if there is not None:
        guards[there] = None
    return terms.reference(name)


def matcher(pattern: bytes) -> Callable[..., re.Match[bytes] | None]:
    return re.compile(pattern, re.DOTALL).match


class _OfLayer:
    """The words of an expression for a layer that is being dissected."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"tokens_left": tokens_left, "next_token": next_token, "BLANKS": BLANKS}

    def reference(self, name: str) -> str:
        return f"layer.fields[{name!r}]"

    def presence(self, name: str) -> str:
        return f"{name!r} in layer.fields"

    def reach(self, name: str) -> str:
        return f"layer.ranges[{name!r}][1] + layer.fields[{name!r}]"

    def tokens(self) -> str:
        return "tokens_left(b, p, e, getattr(layer, 'blanks', BLANKS))"

    def token(self) -> str:
        return "next_token(b, p, e, getattr(layer, 'blanks', BLANKS))"

    def constant(self, value: Any) -> str:
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name
