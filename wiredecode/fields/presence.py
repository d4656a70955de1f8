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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wiredecode.fields.kind import Structure
from wiredecode.fields.tokens import BLANKS, next_token, tokens_left

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


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a condition. ``word`` says what it is, and what ``parts`` and ``value`` are.

    ``and``, ``or``, ``not``, ``minus`` and ``choice`` (what ``in`` looks through) have parts only. A ``compare`` has as
    its value the sign between each two parts, a ``sum`` its operator. ``constant``, ``field``, ``has``, ``left_of``,
    ``peek`` and ``matches`` have a value; a ``call`` has the name of a function, and arguments. ``left``, ``tokens``
    and ``token`` are all there is to say.
    """

    word: str
    parts: tuple[Node, ...] = ()
    value: Any = None

    def walk(self) -> Iterator[Node]:
        """This node and all below it, level by level."""
        nodes = [self]
        for node in nodes:
            yield node
            nodes += node.parts


class When:
    """A condition on what was read before, or on the next bytes. ``calls`` are the functions that it names."""

    def __init__(self, expression: str, **calls: Callable[..., Any]) -> None:
        self.expression, self.calls = expression, calls
        try:
            tree = ast.parse(expression, mode="eval").body
        except SyntaxError as error:
            raise TypeError(f"not a condition: {expression!r} ({error.msg})") from None
        self.root = self._parse(tree)
        self.fields = self._values_of("field", "left_of")
        """Fields whose values it needs."""
        self.optional = self._values_of("has")
        """Fields whose presence it asks for."""
        self.measured = self._values_of("left_of")
        """Lengths of which it asks what is left."""

    def __repr__(self) -> str:
        return f"When({self.expression!r})"

    def _values_of(self, *words: str) -> set[str]:
        return {node.value for node in self.root.walk() if node.word in words}

    def names(self) -> set[str]:
        """All fields that it speaks of."""
        return self.fields | self.optional

    # Parsing: what is not foreseen is an error when the layer is declared.

    def _parse(self, node: ast.expr) -> Node:
        match node:
            case ast.BoolOp(op=operator, values=parts):
                return self._node("and" if isinstance(operator, ast.And) else "or", parts)
            case ast.UnaryOp(op=ast.Not() | ast.USub() as operator, operand=part):
                return self._node("not" if isinstance(operator, ast.Not) else "minus", [part])
            case ast.Compare(left=first, ops=operators, comparators=others) if _known(*operators):
                return self._node("compare", [first, *others], tuple(SIGNS[type(each)] for each in operators))
            case ast.BinOp(left=first, op=operator, right=other) if _known(operator):
                return self._node("sum", [first, other], SIGNS[type(operator)])
            case ast.Tuple(elts=parts):
                return self._node("choice", parts)
            case ast.Constant(value=int() | bytes() | str() as constant):
                return Node("constant", value=constant)
            case ast.Name(id=name):
                return Node(name) if name in WORDS else Node("field", value=name)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._parse_call(name, arguments)
        raise TypeError(f"a condition cannot hold {ast.unparse(node)!r}: {self.expression!r}")

    def _node(self, word: str, parts: list[ast.expr], value: Any = None) -> Node:
        return Node(word, tuple(map(self._parse, parts)), value)

    def _parse_call(self, name: str, arguments: list[ast.expr]) -> Node:
        match name, arguments:
            case _ if name in self.calls:
                return self._node("call", arguments, name)
            case (("has" | "left_of"), [ast.Name(id=field)]):
                return Node(name, value=field)
            case "peek", [ast.Constant(value=int(width))] if 1 <= width <= MAX_PEEK:
                return Node(name, value=width)
            case "matches", [ast.Constant(value=bytes(pattern))]:
                re.compile(pattern)
                return Node(name, value=pattern)
        raise TypeError(f"{name}() cannot be called so: {self.expression!r}")

    # As Python.

    def code(self, terms: Any) -> str:
        """The condition as a Python expression: what it gives is true or false.

        ``terms`` spells its words for one reader, as an :class:`~wiredecode.fields.emitter.Emitter` does.
        """
        return PythonPrinter(self.calls, terms).truth(self.root)

    @cached_property
    def holds(self) -> Callable[[bytes, int, int, Structure], bool]:
        """``(buffer, position, end, layer) -> bool``: the condition on a layer of which the fields before were read."""
        terms = _OfLayer()
        code = f"lambda b, p, e, layer: bool({self.code(terms)})"
        return eval(compile(code, f"<{self!r}>", "eval"), terms.namespace)


def _known(*operators: ast.AST) -> bool:
    return all(type(operator) in SIGNS for operator in operators)


class PythonPrinter:
    """Prints a condition as Python. ``guards`` collects what must hold before a value can be read."""

    def __init__(self, calls: dict[str, Callable[..., Any]], terms: Any) -> None:
        self.calls, self.terms = calls, terms
        self.guards: dict[str, None] = {}

    def truth(self, node: Node) -> str:
        if node.word in ("and", "or"):
            return "(" + f" {node.word} ".join(map(self.truth, node.parts)) + ")"
        if node.word == "not":
            return f"(not {self.truth(node.parts[0])})"
        self.guards = {}
        value = self._bits(node) or self.value(node)
        return f"({' and '.join([*self.guards, value])})" if self.guards else value

    def _bits(self, node: Node) -> str:
        """Whether one bit is set, or none of some, without a comparison."""
        match node:
            case Node("compare", (Node("sum", (_, Node("constant", _, int(mask))), "&") as bits, other), ("==",)):
                if other == Node("constant", value=0):
                    return f"not {self.value(bits)}"
                if other.word == "constant" and other.value == mask and mask.bit_count() == 1:
                    return self.value(bits)
        return ""

    def value(self, node: Node) -> str:
        match node.word:
            case "and" | "or" | "not":
                raise TypeError(f"no value: {node}")
            case "compare":
                first, *others = map(self.value, node.parts)
                pairs = zip(node.value, others, strict=True)
                return first + "".join(f" {sign} {other}" for sign, other in pairs)
            case "sum":
                first, other = map(self.value, node.parts)
                return f"({first} {node.value} {other})"
            case "minus":
                return f"-{self.value(node.parts[0])}"
            case "choice":
                return "(" + "".join(f"{self.value(part)}, " for part in node.parts) + ")"
            case "call":
                values = "".join(f", {self.value(part)}" for part in node.parts)
                return f"{self.terms.constant(self.calls[node.value])}(b, p, e{values})"
        return self._word(node)

    def _word(self, node: Node) -> str:
        terms, name = self.terms, node.value
        match node.word:
            case "constant":
                return repr(node.value)
            case "left":
                return "(e - p)"
            case "tokens":
                return terms.tokens()
            case "token":
                return terms.token()
            case "field":
                return self._guarded(name)
            case "has":
                return terms.presence(name) or "True"
            case "left_of":
                self._guarded(name)
                return f"(min(e, {terms.reach(name)}) - p)"
            case "peek" if node.value == 1:
                self.guards["p < e"] = None
                return "b[p]"
            case "peek":
                self.guards[f"e - p >= {node.value}"] = None
                return f"int.from_bytes(b[p:p + {node.value}])"
            case _:
                return f"{terms.constant(matcher(node.value))}(b, p, e) is not None"

    def _guarded(self, name: str) -> str:
        there = self.terms.presence(name)
        if there is not None:
            self.guards[there] = None
        return self.terms.reference(name)


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
