"""Condition for an optional field: an expression, written once and evaluated by each reader in its own way.

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
``token``          the next token, as bytes; empty if there is none
``test(size)``     the result of a function passed by name, ``When("test(size)", test=function)``: it is
                   called with the buffer, the position, the end, and the values in the brackets
=================  ==================================================================================================

A comparison of an absent field, or of more bytes than are left, is false. Names are checked when the layer is declared,
and bytes from the wire are never evaluated as code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wiredecode.fields.tokens import BLANKS, next_token, tokens_left

if TYPE_CHECKING:
    from wiredecode.fields.layer import Layer

WORDS = ("left", "tokens", "token")
MAX_PEEK = 8
SIGNS = {
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


class When:
    """A condition on what was read before, or on the next bytes. ``calls`` are the functions that it names."""

    def __init__(self, expression: str, **calls: Callable[..., Any]) -> None:
        self.expression, self.calls = expression, calls
        try:
            self.root = ast.parse(expression, mode="eval").body
        except SyntaxError as error:
            raise TypeError(f"not a condition: {expression!r} ({error.msg})") from None
        self.fields: set[str] = set()
        """Fields whose values it needs."""
        self.optional: set[str] = set()
        """Fields whose presence it asks for."""
        self.measured: set[str] = set()
        """Lengths whose remaining bytes it asks for (``left_of``)."""
        self._check(self.root)

    def __repr__(self) -> str:
        return f"When({self.expression!r})"

    def names(self) -> set[str]:
        return self.fields | self.optional

    def _check(self, node: ast.expr) -> None:
        """Refuse an unknown form when the layer is declared; note the fields."""
        match node:
            case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=part):
                parts = [part]
            case ast.Compare(left=first, ops=operators, comparators=others) if _have_signs(*operators):
                parts = [first, *others]
            case ast.BinOp(left=first, op=operator, right=other) if _have_signs(operator):
                parts = [first, other]
            case ast.Constant(value=int() | bytes() | str()):
                parts = []
            case ast.Name(id=name):
                parts = []
                self.fields.update({name} - set(WORDS))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                parts = self._checked_call(name, arguments)
            case _:
                raise TypeError(f"a condition cannot hold {ast.unparse(node)!r}: {self.expression!r}")
        for part in parts:
            self._check(part)

    def _checked_call(self, name: str, arguments: list[ast.expr]) -> list[ast.expr]:
        """The arguments that are conditions themselves."""
        match name, arguments:
            case _ if name in self.calls:
                return arguments
            case "has", [ast.Name(id=field)]:
                self.optional.add(field)
            case "left_of", [ast.Name(id=field)]:
                self.fields.add(field)
                self.measured.add(field)
            case "peek", [ast.Constant(value=int(width))] if 1 <= width <= MAX_PEEK:
                pass
            case "matches", [ast.Constant(value=bytes(pattern))]:
                re.compile(pattern)
            case _:
                raise TypeError(f"{name}() cannot be called so: {self.expression!r}")
        return []

    # As Python.

    def code(self, terms: Any) -> str:
        """The condition as a Python expression. ``terms``: writes its operands, such as an Emitter (emitter.py)."""
        return self._truth(self.root, terms)

    def _truth(self, node: ast.expr, terms: Any) -> str:
        if isinstance(node, ast.BoolOp):
            word = " and " if isinstance(node.op, ast.And) else " or "
            return f"({word.join(self._truth(part, terms) for part in node.values)})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return f"(not {self._truth(node.operand, terms)})"
        speller = Speller(self.calls, terms)
        value = ast.unparse(speller.visit(deepcopy(node)))
        return f"({' and '.join([*speller.guards, value])})"

    @cached_property
    def holds(self) -> Callable[[bytes, int, int, Layer], bool]:
        """``(buffer, position, end, layer) -> bool``: the condition on a layer of which the fields before were read."""
        terms = _OfLayer()
        code = f"lambda b, p, e, layer: bool({self.code(terms)})"
        return eval(compile(code, f"<{self!r}>", "eval"), terms.namespace)


def _have_signs(*operators: ast.AST) -> bool:
    return all(type(operator) in SIGNS for operator in operators)


class Speller(ast.NodeTransformer):
    """Replaces the words of a condition by code. ``guards`` collects what must hold before a value can be read."""

    def __init__(self, calls: dict[str, Callable[..., Any]], terms: Any) -> None:
        self.calls, self.terms = calls, terms
        self.guards: dict[str, None] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        match node.id:
            case "left":
                return ast.Name("(e - p)")
            case "tokens" | "token":
                function = self.terms.constant(tokens_left if node.id == "tokens" else next_token)
                return ast.Name(f"{function}(b, p, e, {self.terms.blanks()})")
        return ast.Name(self._guard(node.id))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        name, terms = node.func.id, self.terms
        if name in self.calls:
            given = "".join(f", {ast.unparse(self.visit(each))}" for each in node.args)
            return ast.Name(f"{terms.constant(self.calls[name])}(b, p, e{given})")
        match name, node.args[0]:
            case "has", ast.Name(id=field):
                return ast.Name(terms.presence(field) or "True")
            case "left_of", ast.Name(id=field):
                self._guard(field)
                return ast.Name(f"(min(e, {terms.reach(field)}) - p)")
            case "peek", ast.Constant(value=1):
                self.guards["p < e"] = None
                return ast.Name("b[p]")
            case "peek", ast.Constant(value=int(width)):
                self.guards[f"e - p >= {width}"] = None
                return ast.Name(f"int.from_bytes(b[p:p + {width}])")
            case _, ast.Constant(value=bytes(pattern)):
                return ast.Name(f"({terms.constant(re.compile(pattern, re.DOTALL).match)}(b, p, e) is not None)")
        raise TypeError(f"no condition: {ast.unparse(node)}")

    def _guard(self, name: str) -> str:
        there = self.terms.presence(name)
        if there is not None:
            self.guards[there] = None
        return self.terms.reference(name)


class _OfLayer:
    """The words of an expression for a layer that is being dissected."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"BLANKS": BLANKS}

    def reference(self, name: str) -> str:
        return f"layer.fields[{name!r}]"

    def presence(self, name: str) -> str:
        return f"{name!r} in layer.fields"

    def reach(self, name: str) -> str:
        return f"layer.ranges[{name!r}][1] + layer.fields[{name!r}]"

    def blanks(self) -> str:
        return "getattr(layer, 'blanks', BLANKS)"

    def constant(self, value: Any) -> str:
        name = f"c{len(self.namespace)}"
        self.namespace[name] = value
        return name
