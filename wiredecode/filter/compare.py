"""Compiles comparisons: an operator, applied to the values of both sides."""

import operator as operators
import re
from collections.abc import Callable, Sequence
from typing import Any

from wiredecode.dataclasses import replace
from wiredecode.filter import regular
from wiredecode.filter.literals import AnyValue, InvalidValue, is_network, value_of
from wiredecode.filter.logic import Atom, Expression, join, negation, with_fields
from wiredecode.filter.model import Constant, Field, FilterError, Level, Operand, Type, Values, nearest, one_of
from wiredecode.filter.operands import Operands, to_bytes
from wiredecode.filter.syntax import Arithmetic, Call, Literal, Logic, Membership, Node, Not, Relation, Word
from wiredecode.frames.frame import Frame
from wiredecode.protocols.catalogue import filter_name

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}
SAME = {"==": (operators.eq, False), "!=": (operators.ne, True)}
SAME |= {"===": (operators.eq, True), "!==": (operators.ne, False)}
"""By operator: comparison of one value, and whether all values must pass."""
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
ORDERED = (Type.NUMBER, Type.STRING, Type.BYTES, Type.TIME, Type.DURATION, Type.ADDRESS, Type.ENUM, Type.ANY)
HOLDING = (Type.STRING, Type.BYTES, Type.PROTOCOL, Type.ENUM, Type.ANY)
NUMBERS = (Type.NUMBER, Type.BOOLEAN, Type.ENUM)

ValueTest = Callable[[Any], bool]
MAX_DIGITS = 1 << 62
"""Larger numbers are compared frame by frame, not as a column."""
FROM_ONE = ("frame.number", "tcp.stream", "frame.packets")
"""Fields that are never 0; Wireshark's tcp.stream may be."""


class Comparisons(Operands):
    """Makes tests of the comparisons of one filter."""

    def expression(self, node: Node) -> Expression:
        """The logic of a tree; each comparison gets the names that it is about."""
        if isinstance(node, Logic):
            return join(node.operator, [self.expression(part) for part in node.parts])
        if isinstance(node, Not):
            return negation(self.expression(node.part))
        self.used.clear()
        if isinstance(node, Relation):
            logic = self.relation(node)
        elif isinstance(node, Membership):
            logic = self.membership(node)
        else:
            logic = self.present(node)
        return with_fields(self.used, logic)

    # Relations.

    def relation(self, node: Relation) -> Expression:
        """``left operator right``."""
        left = self.make(_as_frame_number(node.left, node.right))
        right_node = _as_frame_number(node.right, node.left)
        right = self._member(right_node) if isinstance(left, Operand) else self.make(right_node)
        if isinstance(left, Constant) and isinstance(right, Constant):
            for side in (node.left, node.right):
                if isinstance(side, Word):
                    self.field(side)
            left = self.constant(left)
        left, right = self._protocol_as_text(left, right, node.left), self._protocol_as_text(right, left, node.right)
        operator = node.operator
        if isinstance(left, Constant):
            if operator in ("contains", "matches"):
                raise self.fail(f"a field is needed before {operator}", left)
            operator, left, right = FLIPPED.get(operator, operator), right, left
        assert isinstance(left, Operand)
        every = SAME[operator][1] if operator in SAME else False
        every = every if node.quantifier is None else node.quantifier == "all"
        if isinstance(right, Operand):
            return self._fields(operator, left, right, every, node)
        fits, get = self._value_test(operator, left, right)
        bytes_ = left.type is Type.BYTES and left.field is not None and left.field.verbatim
        if bytes_ and operator in ("contains", "==", "==="):
            get = _if_frame_holds(get, self._value(right, left))
        return self._test(left, get, fits, every, self._on_column(operator, left, right))

    def _protocol_as_text(self, side: Operand | Constant, other: Operand | Constant, node: Node) -> Operand | Constant:
        """The name of a protocol beside text is text: ``frame.protocol == nats``."""
        text = isinstance(other, Operand) and other.type is Type.STRING
        if text and isinstance(side, Operand) and side.type is Type.PROTOCOL and isinstance(node, Word):
            self.used.pop(node.text, None)
            return Constant(node.text, False, node.start, node.stop)
        return side

    def membership(self, node: Membership) -> Expression:
        """``left in {...}``."""
        left = self.operand(_as_frame_number(node.left, node.members[0][0]))
        every = node.quantifier == "all"
        tests: list[tuple[ValueTest, Callable[[Frame], Values]]] = []
        for first, last in node.members:
            low, high = (self._member(each) for each in (first, last))
            if not isinstance(low, Constant) or not isinstance(high, Constant):
                raise self.fail("values and ranges belong in { }, as in {1, 3..5}", first)
            if first is last:
                tests.append(self._value_test("==", left, low))
                continue
            (above, get), (below, _) = self._value_test(">=", left, low), self._value_test("<=", left, high)
            tests.append((_between(above, below), get))
        gets = {id(get): get for _, get in tests}
        if len(gets) == 1:
            (get,) = gets.values()
            test = self._test(left, get, _any_of([test_of_value for test_of_value, _ in tests]), every)
        else:  # an enumeration by name and by number
            kinds = {key: [test_of_value for test_of_value, each in tests if id(each) == key] for key in gets}
            both = [(get, _any_of(kinds[key])) for key, get in gets.items()]
            test = Atom(lambda frame: _either(frame, both, every), left.level, left.complete)
        return negation(test) if node.negated else test

    def _member(self, node: Node) -> Operand | Constant:
        """The operand beside a field: a bare word is a value there, even if it is a key of records."""
        if isinstance(node, Word) and "." not in node.text and filter_name(node.text) != node.text:
            return Constant(node.text, False, node.start, node.stop)
        return self.make(node)

    def _value_test(self, operator: str, left: Operand, right: Constant) -> tuple[ValueTest, Callable[[Frame], Values]]:
        """Return the operator's test of one value on the left, and the reader of these values."""
        self._check(operator, left, right)
        if operator == "matches":
            return self._matches(right), left.get
        if operator == "contains":
            return self._contains(left, right), left.get
        compare = ORDER.get(operator) or SAME[operator][0]
        if left.type is Type.ENUM:
            return self._enumeration(operator, compare, left, right)
        value = self._value(right, left)
        if value == 0 and left.field is not None and left.field.name in FROM_ONE and operator in ("==", "==="):
            raise self.fail(f"{left.field.name} counts from 1", right)
        if left.field is not None and left.field.words is not None and operator not in ORDER:
            self._known_word(left.field, right)
        if left.type is Type.ANY:
            return _any(compare, value), left.get
        if left.type is Type.ADDRESS:
            return self._address(operator, compare, value, right), left.get
        if operator in ("==", "==="):
            return lambda each: each == value, left.get
        return lambda each: compare(each, value), left.get

    def _check(self, operator: str, left: Operand, operand: Node | Constant) -> None:
        """Refuse an operator that values of this type do not have."""
        if operator in ORDER and left.type not in ORDERED:
            raise self.fail(f"{left.type.value} has no order", operand)
        if operator in ("contains", "matches") and left.type not in HOLDING:
            raise self.fail(f"{operator} is for text and bytes; this is {left.type.value}", operand)

    def _value(self, right: Constant, left: Operand) -> Any:
        try:
            return value_of(right, left.type, utc=self.utc)
        except InvalidValue as error:
            name = f"{left.field.name} is {left.type.value}" if left.field else f"the other side is {left.type.value}"
            shown = f'"{right.text}"' if right.quoted else right.text
            raise self.fail(f"{name}; {shown} is not {error}", right) from None
        except UnicodeEncodeError:
            raise self.fail("not text that can be encoded", right) from None

    def _enumeration(
        self, operator: str, compare: Callable[[Any, Any], bool], left: Operand, right: Constant
    ) -> tuple[ValueTest, Callable[[Frame], Values]]:
        """By number, or by name where it is none."""
        field = left.field
        assert field is not None
        assert field.codes is not None
        if field.words is None and not right.quoted and right.text[:1] in "-.0123456789":
            number = self._value(right, replace(left, type=Type.NUMBER))
            return lambda each: compare(each, number), field.codes
        if right.text not in field.names:
            hint = nearest(right.text, field.names) or one_of(field.names)
            raise self.fail(f"{field.name} has no value {right.text!r}{hint}", right)
        wanted, get = (field.names[right.text], field.codes) if operator in ORDER else (right.text, field.get)
        return lambda each: compare(each, wanted), get

    def _known_word(self, field: Field, right: Constant) -> None:
        """Refuse a word that the field never has."""
        assert field.words is not None
        if right.text not in field.words():
            hint = nearest(right.text, field.words()) or one_of(field.words())
            hint = hint or f'; {field.name} matches "..." finds parts of names'
            raise self.fail(f"{field.name} is never {right.text!r}{hint}", right)

    def _address(self, operator: str, compare: Callable[[Any, Any], bool], value: Any, right: Constant) -> ValueTest:
        if is_network(value):
            if operator in ORDER:
                raise self.fail("a network has no order", right)
            inside = operator in ("==", "===")
            return lambda each: (each in value) is inside
        if operator in ORDER:
            return lambda each: each.version == value.version and compare(each, value)
        return lambda each: compare(each, value)

    def _contains(self, left: Operand, right: Constant) -> ValueTest:
        if left.type in (Type.STRING, Type.ENUM):
            text = right.text
            return lambda each: text in each
        if left.type is not Type.ANY:
            wanted = self._value(right, replace(left, type=Type.BYTES))
            return lambda each: wanted in each
        either = AnyValue(right).meanings

        def holds(each: Any) -> bool:
            kind = str if isinstance(each, str) else bytes if isinstance(each, bytes) else None
            return kind is not None and kind in either and either[kind] in each

        return holds

    def _matches(self, right: Constant) -> ValueTest:
        try:
            re.compile(right.text.encode())
            re.compile(right.text)
        except (re.error, RecursionError, OverflowError, ValueError) as error:
            index = getattr(error, "pos", None)
            start = right.start if index is None else min(right.start + 1 + index, right.stop)
            reason = getattr(error, "msg", None) or type(error).__name__
            raise FilterError(f"not a regular expression: {reason}", self.text, start, right.stop) from None
        try:
            return regular.test_of(right.text)
        except ValueError:
            raise FilterError(regular.TOO_SLOW, self.text, right.start, right.stop) from None

    # Two fields.

    def _fields(self, operator: str, left: Operand, right: Operand, every: bool, node: Relation) -> Atom:
        if operator == "matches":
            raise self.fail("a regular expression is written out", node.right)
        compare = ORDER.get(operator) or (SAME[operator][0] if operator in SAME else _contains_value)
        numbers = left.type in NUMBERS and right.type in NUMBERS and not left.type is right.type is Type.ENUM
        if not numbers and left.type is not right.type and Type.ANY not in (left.type, right.type):
            raise self.fail(f"{left.type.value} cannot be compared with {right.type.value}", node.right)
        self._check(operator, left, node.left)
        coded = numbers or operator in ORDER
        first, second = (side.field.codes if coded and side.field and side.field.codes else side.get
                         for side in (left, right))  # fmt: skip

        def run(frame: Frame) -> bool:
            others = [value for value in second(frame) if value is not None]
            values = [value for value in first(frame) if value is not None]
            if not others or not values:
                return False
            results = (_safely(compare, a, b) for a in values for b in others)
            return all(results) if every else any(results)

        return Atom(run, max(left.level, right.level), left.complete or right.complete)

    # Tests.

    def _test(
        self,
        left: Operand,
        get: Callable[[Frame], Values],
        fits: ValueTest,
        every: bool,
        comparison: tuple[Callable[[Any, Any], Any], int | float] | None = None,
    ) -> Expression:
        if left.level is Level.CONSTANT:
            return all(map(fits, get(None))) if every else any(map(fits, get(None)))  # type: ignore[arg-type]
        run = _matches_all(get, fits) if every else _matches_any(get, fits)
        return Atom(run, left.level, left.complete, comparison)

    def _on_column(
        self, operator: str, left: Operand, right: Constant
    ) -> tuple[Callable[[Any, Any], Any], int | float] | None:
        """The comparison of a column with a number, if it is one."""
        compare = ORDER.get(operator) or (SAME[operator][0] if operator in SAME else None)
        if compare is None or left.field is None or not left.field.comparable:
            return None
        value = self._value(right, left)
        exact = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_DIGITS
        return (compare, value) if exact else None

    def present(self, node: Node) -> Atom:
        """A field by itself: whether it is present. A calculated value: whether it is not zero."""
        operand = self.make(node, presence=True)
        if isinstance(operand, Constant):
            raise self.fail("a value alone is neither true nor false: compare it with a field", node)
        get = operand.get
        if operand.field is None and isinstance(node, Arithmetic | Call):
            return Atom(lambda frame: any(get(frame)), operand.level, operand.complete)
        return Atom(lambda frame: len(get(frame)) > 0, operand.level, operand.complete)


def _as_frame_number(node: Node, other: Node) -> Node:
    """``frame == 31`` is about its number, as in records; beside bytes and text ``frame`` is its bytes."""
    digits = isinstance(other, Literal) and not other.quoted and other.text.isdigit()
    whole = isinstance(node, Word) and node.text == "frame"
    return Word(node.start, node.stop, "frame.number") if digits and whole else node


def _if_frame_holds(get: Callable[[Frame], Values], wanted: bytes) -> Callable[[Frame], Values]:
    """The values of frames that contain these bytes: other frames need no decoding."""

    def run(frame: Frame) -> Values:
        return get(frame) if frame.buffer.find(wanted, frame.start, frame.stop) >= 0 else []

    return run


def _any_of(tests: Sequence[ValueTest]) -> ValueTest:
    return lambda value: any(fits(value) for fits in tests)


def _between(above: ValueTest, below: ValueTest) -> ValueTest:
    return lambda value: above(value) and below(value)


def _matches_any(get: Callable[[Frame], Values], fits: ValueTest) -> Callable[[Frame], bool]:
    def run(frame: Frame) -> bool:
        for value in get(frame):  # noqa: SIM110 - half the time of any()
            if value is not None and fits(value):
                return True
        return False

    return run


def _matches_all(get: Callable[[Frame], Values], fits: ValueTest) -> Callable[[Frame], bool]:
    def run(frame: Frame) -> bool:
        values = [value for value in get(frame) if value is not None]
        return bool(values) and all(map(fits, values))

    return run


def _either(frame: Frame, both: Sequence[tuple[Callable[[Frame], Values], ValueTest]], every: bool) -> bool:
    """Whether names or numbers of an enumeration fit; each value has one of each, in the same order."""
    if not every:
        return any(value is not None and fits(value) for get, fits in both for value in get(frame))
    rows = list(zip(*(get(frame) for get, _ in both), strict=False))
    tests = [fits for _, fits in both]
    return bool(rows) and all(
        any(value is not None and fits(value) for value, fits in zip(row, tests, strict=True)) for row in rows
    )


def _any(compare: Callable[[Any, Any], bool], wanted: AnyValue) -> ValueTest:
    """Test of a value whose type depends on the traffic; one of another type is never equal."""

    def fits(each: Any) -> bool:
        kind = each.__class__ if each.__class__ in wanted.meanings else str if isinstance(each, str) else None
        if kind not in wanted.meanings:
            return compare is operators.ne
        return _safely(compare, each, wanted.meanings[kind])

    return fits


def _contains_value(whole: Any, part: Any) -> bool:
    """``contains`` of two fields."""
    if isinstance(whole, str) and isinstance(part, str):
        return part in whole
    raw, wanted = to_bytes(whole), to_bytes(part)
    return raw is not None and wanted is not None and wanted in raw


def _safely(compare: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
    """The comparison; False for values of types that have no order among each other."""
    try:
        return bool(compare(a, b))
    except TypeError:
        return False
