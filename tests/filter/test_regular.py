"""``matches`` never backtracks for long."""

import pytest

from wiredecode.filter import FilterError, compile_filter
from wiredecode.filter.regular import SHORT, ambiguity, backtracking, linear, parser
from wiredecode.filter.regular import test_of as made

LONG = "a" * 50_000


@pytest.mark.parametrize(
    "text", ["(a+)+$", "(a|aa)*b", "(a?a)*b", "a*a*a*b", "(?:a|b*)*c", "(x+x+)+y", "(a{0,20}){20}b", "[^x]+y"]
)
def test_expressions_that_double_per_character_end(text: str) -> None:
    fits = made(text)
    assert not fits(LONG + "!") and not fits(LONG.encode() + b"!\xff")
    assert not fits("a!")


@pytest.mark.parametrize("text", [r"(?=a+)a+$", r"(a+)+\1", r"(?P<x>a+)(?P=x)b", r"(?<!b)(a|aa)+$"])
def test_others_say_so(text: str) -> None:
    with pytest.raises(FilterError, match="can take too long") as error:
        compile_filter(f'frame.type matches r"{text}"')
    assert "\n" not in str(error.value).partition("\n")[0]


@pytest.mark.parametrize("text", ["^publ", r"^Op\w+$", "open|close", "(open|close)s?", "x{3}", r"[a-z]+\."])
def test_usual_ones_keep_the_engine(text: str) -> None:
    nested, long = ambiguity(parser.parse(text))
    assert not nested and long < 2


@pytest.mark.parametrize("text", [".*a.*c", "(ab?c)+", "^(.+)/(.+)$", "É+.*x"])
def test_both_engines_agree(text: str) -> None:
    for value in (
        "",
        "abc" * SHORT,
        "ABc",
        "a/b",
        "/",
        "ééX",
        "\udcff a c",
        b"",
        b"ABC",
        b"a\nc",
        b"\xff/\xff",
        b"a" * 999,
    ):
        assert linear(text)(value) == backtracking(text)(value) == made(text)(value) or not value.isascii(), value
