"""The grammar of display filters, as Wireshark's user guide describes the language; the parser is lark's."""

from __future__ import annotations

import re
from functools import cache, partialmethod
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from wiredecode.filter.errors import FilterError
from wiredecode.filter.literals import UNITS
from wiredecode.filter.syntax import Arithmetic, Call, Literal, Logic, Membership, Node, Not, Relation, Slice, Word

MAX_CHARACTERS = 64 * 1024
"""Longest filter."""
MAX_NESTING = 50
"""Deepest nesting of brackets and operators in front."""

GRAMMAR = r"""
start: disjunction
?disjunction: exclusion (_OR exclusion)*                       -> disjunction
?exclusion: conjunction (_XOR conjunction)*                    -> exclusion
?conjunction: negation (_AND negation)*                        -> conjunction
?negation: NOT negation                                        -> negation
         | relation
?relation: value
         | QUANTIFIER value comparison value                   -> quantified
         | value comparison value                              -> compared
         | value NOT? _IN "{" member ((",")? member)* "}"      -> member_of
         | QUANTIFIER value NOT? _IN "{" member ((",")? member)* "}" -> quantified_member_of
!comparison: EQ | NE | ALL_EQ | ANY_NE | GT | LT | GE | LE | CONTAINS | MATCHES
member: value (".." value)?
?value: value "&" sum                                          -> bits
      | sum
?sum: sum PLUS product                                         -> arithmetic
    | sum MINUS product                                        -> arithmetic
    | product
?product: product TIMES sign                                   -> arithmetic
        | sign
?sign: MINUS sign                                              -> negative
     | PLUS sign                                               -> positive
     | part
?part: atom
     | part "[" range ("," range)* "]"                         -> slice
?atom: WORD "(" (disjunction ("," disjunction)*)? ")"          -> call
     | WORD                                                    -> word
     | (DATE | UUID | COLONS | IPV4 | NUMBER)                  -> plain
     | STRING                                                  -> string
     | RAW                                                     -> raw
     | "(" disjunction ")"                                     -> group
     | "{" value "}"                                           -> group
range: INDEX                                                   -> at
     | INDEX ":" INDEX                                         -> counted
     | INDEX SPAN                                              -> spanned
     | INDEX ":"                                               -> onwards
     | ":" INDEX                                               -> upto

_OR.2: /or(?![\w.-])|\|\|/
_XOR.2: /xor(?![\w.-])|\^\^/
_AND.2: /and(?![\w.-])|&&/
_IN.2: /in(?![\w.-])/
NOT.2: /not(?![\w.-])|!(?!=)/
QUANTIFIER.2: /(any|all)(?![\w.-])/
ALL_EQ.4: /all_eq(?!\w)|===/
ANY_NE.4: /any_ne(?!\w)|~=|!==/
EQ.3: /eq(?!\w)|any_eq(?!\w)|==/
NE.3: /ne(?!\w)|all_ne(?!\w)|!=/
GE.3: /ge(?!\w)|>=/
LE.3: /le(?!\w)|<=/
GT.2: /gt(?!\w)|>/
LT.2: /lt(?!\w)|</
CONTAINS.2: /contains(?!\w)/
MATCHES.2: /matches(?!\w)|~/
PLUS: "+"
MINUS: "-"
TIMES: "*" | "/" | "%"
DATE.6: /\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?(?![\w:-]|\.(?!\.))/
UUID.6: /[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])/
COLONS.5: /(?=[0-9A-Fa-f]*:)[0-9A-Fa-f:]*[0-9A-Fa-f:](\d*\.\d+\.\d+\.\d+)?(\/\d+)?(?!\w)/
IPV4.4: /\d+\.\d+\.\d+\.\d+(\/\d+)?(?![\w])/
NUMBER.3: /0[xX][0-9A-Fa-f]+|0b[01]+|(\d+\.\d+|\d+|\.\d+)([eE][+-]?\d+)?[A-Za-z\u00b5]*/
WORD: /[A-Za-z_]\w*([.-]\w+)*/
STRING: /"([^"\\]|\\.)*"/s
RAW.4: /[rR]"([^"\\]|\\.)*"/s
INDEX.7: /-?(0[xX][0-9A-Fa-f]+|\d+)/
SPAN.7: /-\s*-?\d+/
%ignore /\s+/
"""


OPERATORS = {
    "EQ": "==", "NE": "!=", "ALL_EQ": "===", "ANY_NE": "!==", "GT": ">", "LT": "<", "GE": ">=", "LE": "<=",
    "CONTAINS": "contains", "MATCHES": "matches",
}  # fmt: skip
EXPECTED = {
    "WORD": "a field or a value",
    "EQ": "a comparison",
    "_AND": "and, or",
    "INDEX": "a position",
    "RPAR": ")",
    "RSQB": "]",
    "RBRACE": "}",
    "LBRACE": "{",
}
"""What may stand somewhere, for people; other terminals go without saying."""
HINTS = {
    "'": "text stands in double quotes",
    "=": "'=' does not compare: write ==",
    "|": "'|' joins nothing: write || or or",
    "[": "a list is compared value by value: == 1, in {1, 2}, or count() of them",
}
"""What is wrong with a character that is not expected."""
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"', "'": "'"}
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-7]{1,3}|.)", re.DOTALL)


def parse(text: str) -> Node:
    """The tree of a filter. Raises :class:`FilterError`."""
    if len(text) > MAX_CHARACTERS:
        raise FilterError(f"the filter is longer than {MAX_CHARACTERS} characters", text, MAX_CHARACTERS)
    if not text.strip():
        raise FilterError("the filter is empty", text, 0)
    try:
        node = Builder(text).transform(_parser().parse(text))
    except UnexpectedInput as error:
        raise _unexpected(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    assert isinstance(node, Node)
    return node


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=False)


def _unexpected(error: UnexpectedInput, text: str) -> FilterError:
    start = getattr(error, "pos_in_stream", None) or 0
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        if str(error.token) in HINTS:
            return FilterError(HINTS[str(error.token)], text, start)
        if error.token in UNITS and text[:start].rstrip()[-1:].isdigit():
            return FilterError(
                f"a unit follows its number without a blank, as in 5{error.token}", text, start, error.token.end_pos
            )
        expected = _expected(error.accepts or error.expected)
        return FilterError(f"'{error.token}' does not fit here{expected}", text, start, error.token.end_pos)
    if isinstance(error, UnexpectedCharacters):
        if text[start] in HINTS:
            return FilterError(HINTS[text[start]], text, start)
        if text[start] == '"' or text[start : start + 2] in ('r"', 'R"'):
            return FilterError("the quote is never closed", text, start, len(text))
        return FilterError(f"{text[start]!r} does not fit here", text, start)
    assert isinstance(error, UnexpectedToken | UnexpectedEOF)
    end = len(text.rstrip())
    accepts = getattr(error, "accepts", None) or error.expected
    return FilterError(f"the filter ends too early{_expected(accepts)}", text, end)


def _expected(terminals: Any) -> str:
    words = [shown for name, shown in EXPECTED.items() if name in terminals]
    if len(words) > 1 and "LBRACE" in terminals:  # it may stand in place of (
        words.remove(EXPECTED["LBRACE"])
    return f"; expected {' or '.join(words)}" if words else ""


def unescape(text: str, literal: str, start: str | int) -> str:
    """The text between quotes, with its escapes (as in C) replaced; ``start`` is where it begins in the filter."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code in ESCAPES:
            return ESCAPES[code]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
        elif code[0] in "01234567":
            number = int(code, 8)
        else:
            number = -1
        if not 0 <= number <= 0x10FFFF or 0xD800 <= number < 0xE000:
            place = int(start) + found.start()
            raise FilterError(f"'{found[0]}' is no escape; a backslash is \\\\", text, place, place + len(found[0]))
        return chr(number)

    return ESCAPE.sub(one, literal)


class Builder(Transformer_NonRecursive[Token, Node]):
    """From lark's tree to ours."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.depth: dict[int, tuple[Node, int]] = {}
        """Of the nodes made so far; the node is kept so that its id is not used again."""

    def made(self, node: Node, *inside: Any) -> Node:
        """The node; it must not nest too deeply."""
        depth = 1 + max((self.depth[id(each)][1] for each in inside if id(each) in self.depth), default=0)
        if depth > MAX_NESTING:
            raise FilterError(f"nested more than {MAX_NESTING} deep", self.text, node.start, node.start + 1)
        self.depth[id(node)] = node, depth
        return node

    def start(self, children: list[Any]) -> Any:
        return children[0]

    def _logic(self, operator: str, children: list[Any]) -> Node:
        if len(children) == 1:
            return children[0]  # type: ignore[no-any-return]
        return self.made(Logic(children[0].start, children[-1].stop, operator, tuple(children)), *children)

    disjunction = partialmethod(_logic, "or")
    exclusion = partialmethod(_logic, "xor")
    conjunction = partialmethod(_logic, "and")

    def negation(self, children: list[Any]) -> Node:
        return self.made(Not(children[0].start_pos, children[1].stop, children[1]), children[1])

    def comparison(self, children: list[Any]) -> str:
        return OPERATORS[children[0].type]

    def compared(self, children: list[Any], quantifier: Token | None = None) -> Node:
        left, operator, right = children
        start = left.start if quantifier is None else quantifier.start_pos or 0
        return self.made(
            Relation(start, right.stop, operator, left, right, quantifier and str(quantifier)), left, right
        )

    def quantified(self, children: list[Any]) -> Node:
        return self.compared(children[1:], children[0])

    def member(self, children: list[Any]) -> tuple[Node, Node]:
        return children[0], children[-1]

    def member_of(self, children: list[Any], quantifier: Token | None = None) -> Node:
        left, *others = children
        negated = isinstance(others[0], Token)
        members = tuple(others[negated:])
        start = left.start if quantifier is None else quantifier.start_pos or 0
        node = Membership(start, members[-1][1].stop, left, members, quantifier and str(quantifier), negated)
        return self.made(node, left, *(each for pair in members for each in pair))

    def quantified_member_of(self, children: list[Any]) -> Node:
        return self.member_of(children[1:], children[0])

    def bits(self, children: list[Any]) -> Node:
        return self._arithmetic("&", *children)

    def arithmetic(self, children: list[Any]) -> Node:
        left, operator, right = children
        return self._arithmetic(str(operator), left, right)

    def _arithmetic(self, operator: str, left: Any, right: Any) -> Node:
        return self.made(Arithmetic(left.start, right.stop, operator, left, right), left, right)

    def negative(self, children: list[Any]) -> Node:
        sign, value = children
        if isinstance(value, Literal) and not value.quoted:
            return Literal(sign.start_pos, value.stop, f"-{value.text.removeprefix('-')}", False)
        zero = Literal(sign.start_pos, sign.end_pos, "0", False)
        return self.made(Arithmetic(sign.start_pos, value.stop, "-", zero, value), value)

    def positive(self, children: list[Any]) -> Any:
        return children[1]

    def slice(self, children: list[Any]) -> Node:
        of, *ranges = children
        return self.made(Slice(of.start, of.stop, of, tuple(ranges)), of)

    def at(self, children: list[Any]) -> tuple[int, int | None]:
        return _index(children[0]), 1

    def counted(self, children: list[Any]) -> tuple[int, int | None]:
        first, count = map(_index, children)
        if count <= 0:
            raise FilterError("a slice takes one byte or more", self.text, children[1].start_pos, children[1].end_pos)
        return first, count

    def spanned(self, children: list[Any]) -> tuple[int, int | None]:
        first, last = _index(children[0]), _index(children[1][1:].strip())
        count = last - first + 1
        if (first < 0) != (last < 0) or count <= 0:
            message = "the last byte of a slice stands behind the first, counted from the same end"
            raise FilterError(message, self.text, children[0].start_pos, children[1].end_pos)
        return first, count

    def onwards(self, children: list[Any]) -> tuple[int, int | None]:
        return _index(children[0]), None

    def upto(self, children: list[Any]) -> tuple[int, int | None]:
        return self.counted([Token("INDEX", "0"), children[0]])

    def call(self, children: list[Any]) -> Node:
        name, *arguments = children
        stop = arguments[-1].stop if arguments else name.end_pos
        return self.made(Call(name.start_pos, stop, str(name), tuple(arguments)), *arguments)

    def word(self, children: list[Token]) -> Node:
        (token,) = children
        return Word(token.start_pos or 0, token.end_pos or 0, str(token))

    def plain(self, children: list[Token]) -> Node:
        (token,) = children
        return Literal(token.start_pos or 0, token.end_pos or 0, str(token), False)

    def string(self, children: list[Token]) -> Node:
        (token,) = children
        start = token.start_pos or 0
        return Literal(start, token.end_pos or 0, unescape(self.text, token[1:-1], start + 1), True)

    def raw(self, children: list[Token]) -> Node:
        (token,) = children
        return Literal(token.start_pos or 0, token.end_pos or 0, str(token[2:-1]), True)

    def group(self, children: list[Any]) -> Node:
        return self.made(children[0], children[0])


def _index(text: str) -> int:
    return int(text, 0) if "x" in text.lower() else int(text)
