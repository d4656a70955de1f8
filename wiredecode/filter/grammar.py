"""Reads display filters: the grammar is ``grammar.lark``, the parser lark's."""

import re
from functools import cache, partialmethod
from typing import Any

from lark import Lark, Token, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from wiredecode.filter.literals import UNITS
from wiredecode.filter.model import FilterError
from wiredecode.filter.syntax import Arithmetic, Call, Literal, Logic, Membership, Node, Not, Relation, Slice, Word

MAX_CHARACTERS = 64 * 1024
"""Longest filter."""
MAX_NESTING = 50
"""Deepest nesting of brackets and operators in front."""
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
"""Names of terminals for people; other terminals need none."""
HINTS = {
    "'": "text belongs in double quotes",
    "=": "'=' does not compare: write ==",
    "|": "'|' joins nothing: write || or or",
    "[": "a list is compared value by value: == 1, in {1, 2}, or count() of them",
}
"""Errors of unexpected characters."""
KEY = re.compile(r'\["([^"]+)"\]')
"""A key of a map in a name: ``headers["x-death"]``, which is ``headers.x-death``."""
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"', "'": "'"}
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-7]{1,3}|.)", re.DOTALL)


def parse(text: str) -> Node:
    """The tree of a filter. Raises :class:`FilterError`."""
    if len(text) > MAX_CHARACTERS:
        raise FilterError(f"the filter is longer than {MAX_CHARACTERS} characters", text, MAX_CHARACTERS)
    if not text.strip():
        raise FilterError("the filter is empty", text, 0)
    try:
        node = TreeConverter(text).transform(_parser().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(error, text) from None
    except VisitError as error:
        if isinstance(error.orig_exc, FilterError):
            raise error.orig_exc from None
        raise
    assert isinstance(node, Node)
    return node


@cache
def _parser() -> Lark:
    return Lark.open("grammar.lark", rel_to=__file__, parser="lalr", lexer="contextual", propagate_positions=True)


def _syntax_error(error: UnexpectedInput, text: str) -> FilterError:
    start = getattr(error, "pos_in_stream", None) or 0
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        if str(error.token) in HINTS:
            return FilterError(HINTS[str(error.token)], text, start)
        message = f"'{error.token}' does not fit here{_expected_words(error.accepts or error.expected)}"
        if error.token in UNITS and text[:start].rstrip()[-1:].isdigit():
            message = f"a unit follows its number without a blank, as in 5{error.token}"
        return FilterError(message, text, start, error.token.end_pos)
    if isinstance(error, UnexpectedCharacters):
        if text[start] in HINTS:
            return FilterError(HINTS[text[start]], text, start)
        if text[start] == '"' or text[start : start + 2] in ('r"', 'R"'):
            return FilterError("the quote is never closed", text, start, len(text))
        return FilterError(f"{text[start]!r} does not fit here", text, start)
    assert isinstance(error, UnexpectedToken | UnexpectedEOF)
    end = len(text.rstrip())
    accepts = getattr(error, "accepts", None) or error.expected
    return FilterError(f"the filter ends too early{_expected_words(accepts)}", text, end)


def _expected_words(terminals: Any) -> str:
    words = [shown for name, shown in EXPECTED.items() if name in terminals]
    if len(words) > 1 and "LBRACE" in terminals:  # it may replace (
        words.remove(EXPECTED["LBRACE"])
    return f"; expected {' or '.join(words)}" if words else ""


def unescape(text: str, literal: str, start: int) -> str:
    """The text between quotes, with its escapes (as in C) replaced; ``start`` is where it begins in the filter."""

    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        if code in ESCAPES:
            return ESCAPES[code]
        number = -1
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
        elif code[0] in "01234567":
            number = int(code, 8)
        if not 0 <= number <= 0x10FFFF or 0xD800 <= number < 0xE000:
            begin = start + match.start()
            raise FilterError(f"'{match[0]}' is no escape; a backslash is \\\\", text, begin, begin + len(match[0]))
        return chr(number)

    return ESCAPE.sub(replaced, literal)


@v_args(inline=True)
class TreeConverter(Transformer_NonRecursive[Token, Node]):
    """Converts lark's tree to the nodes of :mod:`wiredecode.filter.syntax`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.depth: dict[int, tuple[Node, int]] = {}
        """Depth of the nodes made until now; the node is kept so that its id is not used again."""

    def checked_depth(self, node: Node, *inside: Any) -> Node:
        """The node; it must not nest too deeply."""
        depth = 1 + max((self.depth[id(each)][1] for each in inside if id(each) in self.depth), default=0)
        if depth > MAX_NESTING:
            raise FilterError(f"nested more than {MAX_NESTING} deep", self.text, node.start, node.start + 1)
        self.depth[id(node)] = node, depth
        return node

    def start(self, node: Any) -> Any:
        return node

    def _logic(self, operator: str, *parts: Any) -> Node:
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        return self.checked_depth(Logic(parts[0].start, parts[-1].stop, operator, parts), *parts)

    disjunction = partialmethod(_logic, "or")
    exclusion = partialmethod(_logic, "xor")
    conjunction = partialmethod(_logic, "and")

    def negation(self, sign: Token, part: Any) -> Node:
        return self.checked_depth(Not(_start(sign), part.stop, part), part)

    def comparison(self, operator: Token) -> str:
        return OPERATORS[operator.type]

    def compared(self, quantifier: Token | None, left: Any, operator: str, right: Any) -> Node:
        start = left.start if quantifier is None else _start(quantifier)
        node = Relation(start, right.stop, operator, left, right, quantifier and str(quantifier))
        return self.checked_depth(node, left, right)

    def member(self, *ends: Any) -> tuple[Node, Node]:
        return ends[0], ends[-1]

    def member_of(self, quantifier: Token | None, left: Any, negated: Token | None, *members: Any) -> Node:
        start = left.start if quantifier is None else _start(quantifier)
        node = Membership(
            start, members[-1][1].stop, left, members, quantifier and str(quantifier), negated is not None
        )
        return self.checked_depth(node, left, *(each for pair in members for each in pair))

    def bits(self, left: Any, right: Any) -> Node:
        return self.arithmetic(left, "&", right)

    def arithmetic(self, left: Any, operator: str, right: Any) -> Node:
        return self.checked_depth(Arithmetic(left.start, right.stop, str(operator), left, right), left, right)

    def negative(self, sign: Token, value: Any) -> Node:
        if isinstance(value, Literal) and not value.quoted:
            return Literal(_start(sign), value.stop, f"-{value.text.removeprefix('-')}", False)
        return self.checked_depth(Arithmetic(_start(sign), value.stop, "-", _literal(sign, "0"), value), value)

    def positive(self, sign: Token, value: Any) -> Any:
        return value

    def slice(self, of: Any, *ranges: Any) -> Node:
        return self.checked_depth(Slice(of.start, of.stop, of, ranges), of)

    def at(self, index: str) -> tuple[int, int | None]:
        return _index(index), 1

    def counted(self, first: str, count: Token) -> tuple[int, int | None]:
        if _index(count) <= 0:
            raise FilterError("a slice takes one byte or more", self.text, _start(count), count.end_pos)
        return _index(first), _index(count)

    def spanned(self, begin: Token, span: Token) -> tuple[int, int | None]:
        first, last = _index(begin), _index(span[1:].strip())
        count = last - first + 1
        if (first < 0) != (last < 0) or count <= 0:
            message = "the last byte of a slice must not precede the first; count both from the same end"
            raise FilterError(message, self.text, _start(begin), span.end_pos)
        return first, count

    def onwards(self, index: str) -> tuple[int, int | None]:
        return _index(index), None

    def upto(self, count: Token) -> tuple[int, int | None]:
        return self.counted("0", count)

    def call(self, name: Token, *arguments: Any) -> Node:
        stop = arguments[-1].stop if arguments else name.end_pos or 0
        return self.checked_depth(Call(_start(name), stop, str(name), arguments), *arguments)

    def word(self, token: Token) -> Node:
        return Word(_start(token), token.end_pos or 0, KEY.sub(r".\1", token))

    def plain(self, token: Token) -> Node:
        return _literal(token, str(token))

    def string(self, token: Token) -> Node:
        return _literal(token, unescape(self.text, token[1:-1], _start(token) + 1), quoted=True)

    def raw(self, token: Token) -> Node:
        return _literal(token, str(token[2:-1]), quoted=True)

    def group(self, node: Any) -> Node:
        return self.checked_depth(node, node)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _literal(token: Token, text: str, *, quoted: bool = False) -> Literal:
    return Literal(_start(token), token.end_pos or 0, text, quoted)


def _index(text: str) -> int:
    return int(text, 0) if "x" in text.lower() else int(text)
