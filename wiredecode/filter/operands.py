"""One side of a comparison: fields, slices, functions and arithmetic."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from wiredecode.filter.literals import NUMBER, InvalidValue, duration, number
from wiredecode.filter.model import Constant, Field, FilterError, Level, Operand, Type, Values, nearest
from wiredecode.filter.names import Names
from wiredecode.filter.syntax import Arithmetic, Call, Literal, Node, Slice, Word
from wiredecode.filter.wireshark_names import OF_HEADERS
from wiredecode.frames.frame import Frame

SLICED = (Type.BYTES, Type.STRING, Type.PROTOCOL, Type.ANY)
COUNTED = (Type.NUMBER, Type.ENUM, Type.BOOLEAN)
MAX_PRODUCT = 10_000
"""Pairs of values of two arrays that arithmetic combines."""


class Operands:
    """Makes operands of the parts of one filter."""

    def __init__(self, text: str, names: Names, secrets: bool, *, utc: bool) -> None:
        self.text, self.names, self.secrets, self.utc = text, names, secrets, utc
        self.used: dict[str, str] = {}
        """The fields that were made operands: name, and how the user spells it."""

    def fail(self, message: str, node: Node | Constant) -> FilterError:
        return FilterError(message, self.text, node.start, node.stop)

    def make(self, node: Node, *, presence: bool = False) -> Operand | Constant:
        """Operand of one side; ``presence``: only its presence is tested."""
        if isinstance(node, Literal):
            return Constant(node.text, node.quoted, node.start, node.stop)
        if isinstance(node, Word):
            return self._word(node, presence)
        if isinstance(node, Slice):
            return self._slice(node)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, Arithmetic):
            return self._arithmetic(node)
        raise self.fail("true or false cannot be compared: a value is needed here", node)

    def field(self, node: Word) -> Field:
        """The field of that name. Raises :class:`FilterError`, with the nearest name."""
        field = self.names.find(node.text)
        if field is None:
            raise self.fail(f"no field is called {node.text!r}{self.names.near(node.text)}", node)
        return field

    def _word(self, node: Word, presence: bool) -> Operand | Constant:
        field = self.names.find(node.text)
        if field is None and "." not in node.text and not presence:
            return Constant(node.text, False, node.start, node.stop)  # a name of an enumeration, or text; or misspelled
        field = field or self.field(node)
        self.used.setdefault(field.name, node.text)
        if field.secret and not presence and not self.secrets:
            message = f"{field.name} is a secret: only whether it is there can be asked, or all with --show-secrets"
            raise self.fail(message, node)
        if field.type is Type.STRUCTURE and not presence:
            way = "compare one of its fields, or count() it"
            if field.name in OF_HEADERS:
                way = 'the bytes of messages are frame, as in frame contains "x"'
            raise self.fail(f"{field.name} is a structure: {way}", node)
        return Operand(field.type, field.level, field.get, field, field.complete)

    def operand(self, node: Node) -> Operand:
        """The operand, which must not be a constant."""
        operand = self.make(node)
        if isinstance(operand, Constant):
            if isinstance(node, Word):
                self.field(node)
            raise self.fail("a field is needed here", node)
        return operand

    # Slices.

    def _slice(self, node: Slice) -> Operand:
        of = self.operand(node.of)
        if of.type not in SLICED:
            raise self.fail(f"slices are of bytes and text; this is {of.type.value}", node.of)
        get, ranges = of.get, node.ranges

        def run(frame: Frame) -> Values:
            parts = (cut(raw, ranges) for value in get(frame) if (raw := to_bytes(value)) is not None)
            return [part for part in parts if part is not None]

        return Operand(Type.BYTES, of.level, run, complete=of.complete)

    # Functions.

    def _call(self, node: Call) -> Operand:
        function = FUNCTIONS.get(node.name)
        if function is None:
            raise self.fail(f"no function is called {node.name!r}{nearest(node.name, FUNCTIONS)}", node)
        accepted, many, result, run = function
        if not node.arguments or (len(node.arguments) > 1 and not many):
            raise self.fail(f"{node.name}() takes one {'or more values' if many else 'value'}", node)
        counts = node.name == "count"
        arguments = [self._argument(each, node.name, accepted, counts) for each in node.arguments]
        types = {of.type for of in arguments}
        if len(types) > 1 and not types <= set(COUNTED):
            raise self.fail(f"{node.name}() of values of different types", node)
        numeric = node.name in ("max", "min")
        gets = [_numbers(of) if numeric else of.get for of in arguments]

        def get(frame: Frame) -> Values:
            values = [value for each in gets for value in each(frame) if counts or value is not None]
            return run(values)

        own = arguments[0].type
        type_ = result if result is not None else Type.NUMBER if own in COUNTED else own
        level = max(of.level for of in arguments)
        return Operand(type_, level, get, complete=any(of.complete for of in arguments))

    def _argument(self, node: Node, name: str, accepted: Sequence[Type], counts: bool) -> Operand:
        argument = self.make(node, presence=counts)
        if isinstance(argument, Constant):
            if isinstance(node, Word) or counts:
                return self.operand(node)
            argument = self.constant(argument)
        if argument.type not in accepted and argument.type is not Type.ANY:
            hint = "; count() returns the number of values" if name == "len" else ""
            raise self.fail(f"{name}() does not take {argument.type.value}{hint}", node)
        return argument

    def constant(self, written: Constant) -> Operand:
        """A constant of otherwise unknown type: a number or a duration, else text."""
        if written.quoted:
            return Operand(Type.STRING, Level.CONSTANT, lambda frame: [written.text])
        match = NUMBER.fullmatch(written.text)
        type_ = Type.DURATION if match and match[3] else Type.NUMBER
        try:
            value = duration(written.text) if type_ is Type.DURATION else number(written.text)
        except InvalidValue as error:
            raise self.fail(f"{written.text!r} is not {error}", written) from None
        return Operand(type_, Level.CONSTANT, lambda frame: [value])

    # Arithmetic.

    def _arithmetic(self, node: Arithmetic) -> Operand:
        sides = [self.make(each) for each in (node.left, node.right)]
        left, right = map(self._number, sides)
        type_ = result_type(node.operator, left.type, right.type)
        if type_ is None:
            raise self.fail(f"{left.type.value} {node.operator} {right.type.value} has no meaning", node)
        apply = OPERATIONS[node.operator]
        gets = _numbers(left), _numbers(right)

        def get(frame: Frame) -> Values:
            a, b = gets[0](frame), gets[1](frame)
            if len(a) * len(b) > MAX_PRODUCT:
                return []
            pairs = product(a, b)
            return [value for x, y in pairs if (value := calculate(apply, x, y)) is not None]

        level = max(left.level, right.level)
        if level is Level.CONSTANT:  # folded
            values = get(None)  # type: ignore[arg-type]
            if not values:
                raise self.fail("this has no value", node)
            return Operand(type_, level, lambda frame: values)
        return Operand(type_, level, get, complete=left.complete or right.complete)

    def _number(self, side: Operand | Constant) -> Operand:
        if isinstance(side, Operand):
            return side
        operand = self.constant(side)
        if operand.type is Type.STRING:
            raise self.fail("text cannot be calculated with", side)
        return operand


def _numbers(of: Operand) -> Callable[[Frame], Values]:
    """Reader of the numbers of an operand: for an enumeration its codes."""
    return of.field.codes if of.field is not None and of.field.codes is not None else of.get


def result_type(operator: str, left: Type, right: Type) -> Type | None:
    """The type of ``left operator right``; None: there is none."""
    left, right = (Type.NUMBER if each in (*COUNTED, Type.ANY) else each for each in (left, right))
    if left is right is Type.NUMBER:
        return Type.NUMBER
    if operator == "-" and left is right is Type.TIME:
        return Type.DURATION
    if operator in "+-" and left in (Type.TIME, Type.DURATION) and right is Type.DURATION:
        return left
    if operator in "*/%" and left is Type.DURATION and right is Type.NUMBER:
        return Type.DURATION
    if operator == "*" and left is Type.NUMBER and right is Type.DURATION:
        return Type.DURATION
    return Type.NUMBER if operator == "/" and left is right is Type.DURATION else None


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return a / b


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divide,
    "%": lambda a, b: a - b * _divide(a, b) if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b),
    "&": lambda a, b: a & b,
}


def calculate(apply: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The result, None where there is none: no number, division by zero, out of range."""
    try:
        return apply(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else None
    except (ArithmeticError, TypeError, ValueError):
        return None


def to_bytes(value: Any) -> bytes | None:
    """Bytes as they are, text as UTF-8; None for other values."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else None


def cut(raw: bytes, ranges: Sequence[tuple[int, int | None]]) -> bytes | None:
    """The bytes of the ranges, one after another; None if one of them begins beyond the end."""
    joined = b""
    for first, count in ranges:
        start = first + len(raw) if first < 0 else first
        if not 0 <= start < len(raw):
            return None
        joined += raw[start : None if count is None else start + count]
    return joined


def as_text(value: Any) -> str:
    """A value as text: what ``string()`` gives."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else str(value)


def _each(apply: Callable[[Any], Any], *kinds: type) -> Callable[[Values], Values]:
    return lambda values: [apply(value) for value in values if isinstance(value, kinds)]


def _extreme(choose: Callable[[Any], Any]) -> Callable[[Values], Values]:
    def run(values: Values) -> Values:
        numbers = [value for value in values if isinstance(value, int | float)]
        return [choose(numbers)] if numbers else []

    return run


def _lengths(values: Values) -> Values:
    return [len(raw) for value in values if (raw := to_bytes(value)) is not None]


MEASURED = (Type.NUMBER, Type.ENUM, Type.BOOLEAN, Type.TIME, Type.DURATION)
SPELLED = tuple(set(Type) - {Type.STRUCTURE, Type.PROTOCOL})
FUNCTIONS: dict[str, tuple[Sequence[Type], bool, Type | None, Callable[[Values], Values]]] = {
    # accepted types, several arguments, type of the result (None: as the argument), what it does
    "len": (SLICED, False, Type.NUMBER, _lengths),
    "count": (tuple(Type), False, Type.NUMBER, lambda values: [len(values)] if values else []),
    "upper": ((Type.STRING, Type.ENUM), False, Type.STRING, _each(str.upper, str)),
    "lower": ((Type.STRING, Type.ENUM), False, Type.STRING, _each(str.lower, str)),
    "string": (SPELLED, False, Type.STRING, lambda values: list(map(as_text, values))),
    "max": (MEASURED, True, None, _extreme(max)),
    "min": (MEASURED, True, None, _extreme(min)),
    "abs": ((Type.NUMBER, Type.DURATION), False, None, _each(abs, int, float)),
}
