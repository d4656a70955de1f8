"""Error messages of invalid filters, and the position of carets."""

from __future__ import annotations

import random
import string
import sys

import pytest

from tests.cli.conftest import Run, run
from tests.conftest import in_one_test
from tests.filter.support import BASIC, CAPTURES
from wiredecode.filter import FilterError, compile_filter

__all__ = ["run"]

ERRORS = [
    ("", "the filter is empty", 0, 1),
    ("frame.typ == 1", "no field is called 'frame.typ'; did you mean 'frame.type'?", 0, 9),
    ("frame.number == 1 && rabbitmq_stream.keyy", "no field is called 'rabbitmq_stream.keyy'; did you mean "
     "'rabbitmq_stream.key'?", 21, 41),
    ("zzz", "no field is called 'zzz'", 0, 3),
    ("frame.length == lots", "frame.length is a number; lots is not a number, as in 5, 0x1f, 017 or 1.5", 16, 20),
    ('frame.length == "5"', 'frame.length is a number; "5" is not a number, as in 5, 0x1f, 017 or 1.5', 16, 19),
    ("frame.length == 09", "frame.length is a number; 09 is not a number, as in 5, 0x1f, 017 or 1.5", 16, 18),
    ("latency > 5 ms", "a unit follows its number without a blank, as in 5ms", 12, 14),
    ("frame or | ip", "'|' joins nothing: write || or or", 9, 10),
    ("tcp.port in (1, 2)", "'(' does not fit here; expected {", 12, 13),
    ("tcp.port in {1-2}", "values and ranges belong in { }, as in {1, 3..5}", 13, 16),
    ("frame.packets == [1, 2]", "a list is compared value by value: == 1, in {1, 2}, or count() of them", 17, 18),
    ("tcp.stream == 0", "tcp.stream counts from 1", 14, 15),
    ("latency > 5 parsecs", "'parsecs' does not fit here; expected and, or", 12, 19),
    ("latency > 5parsecs", "latency is a duration; 5parsecs is not a duration, as in 5ms, 2s or 1.5 (seconds)", 10, 18),
    ("ip.addr == 10.0.0.300", "ip.addr is an IP address; 10.0.0.300 is not an IP address or a network, as in "
     "10.0.0.1, 10.0.0.0/8 or fe80::1", 11, 21),
    ("ip.addr contains 10", "contains is for text and bytes; this is an IP address", 17, 19),
    ("frame.length matches 10", "matches is for text and bytes; this is a number", 21, 23),
    ("frame.time > yesterday", "frame.time is a time; yesterday is not a time, as in 2026-01-31T12:00:00Z or seconds "
     "since 1970", 13, 22),
    ("rabbitmq_stream.key == Publsh", "rabbitmq_stream.key has no value 'Publsh'; did you mean 'Publish'?", 23, 29),
    ("rabbitmq_stream.messages == 1", "rabbitmq_stream.messages is a structure: compare one of its fields, or count() "
     "it", 0, 24),
    ("rabbitmq_stream.data contains \"x\"", "rabbitmq_stream.data is a secret: only whether it is there can be asked, "
     "or all with --show-secrets", 0, 20),
    ("frame.type == frame.length", "text cannot be compared with a number", 14, 26),
    ("frame.length[0:2] == 1", "slices are of bytes and text; this is a number", 0, 12),
    ("frame[3-1] == 00", "the last byte of a slice must not precede the first; count both from the same end", 6, 9),
    ("frame.type matches \"a(b\"", "not a regular expression: missing ), unterminated subpattern", 21, 24),
    ("frame.type == 'x'", "text belongs in double quotes", 14, 15),
    ('frame.type == "x', "the quote is never closed", 14, 16),
    ('frame.type == "\\q"', "'\\q' is no escape; a backslash is \\\\", 15, 17),
    ("frame.length = 3", "'=' does not compare: write ==", 13, 14),
    ("frame.length ==", "the filter ends too early; expected a field or a value", 15, 16),
    ("(frame", "the filter ends too early; expected )", 6, 7),
    ("5", "a value alone is neither true nor false: compare it with a field", 0, 1),
    ("lenn(frame.type) > 3", "no function is called 'lenn'; did you mean 'len'?", 0, 15),
    ("len(frame.length) > 3", "len() does not take a number; count() returns the number of values", 4, 16),
    ("frame.length / 0 == 1 and 1 / 0 == 1", "this has no value", 26, 31),
    ("frame.time + frame.time > 1", "a time + a time has no meaning", 0, 23),
    ("frame.number in {}", "'}' does not fit here; expected a field or a value", 17, 18),
    ("!" * 60 + "frame", "nested more than 50 deep", 9, 10),
]  # fmt: skip


@in_one_test(("text", "message", "start", "stop"), ERRORS, ids=[case[0][:40] for case in ERRORS])
def test_error_text_and_position(text: str, message: str, start: int, stop: int) -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    assert (caught.value.message, caught.value.start, caught.value.stop) == (message, start, stop)


def test_carets_below_the_place(run: Run) -> None:
    result = run("pcap", CAPTURES / BASIC, "-Y", 'frame.typ == "Publish" && frame.length > 100')
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        "wiredecode: -Y: no field is called 'frame.typ'; did you mean 'frame.type'?",
        '  frame.typ == "Publish" && frame.length > 100',
        "  ^^^^^^^^^",
    ]


def test_carets_in_a_long_filter_and_after_escapes() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter("frame\t" + "&& frame " * 30 + "&& nothing.like.it " + "&& frame " * 30)
    _, shown, carets = caught.value.explain().splitlines()
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "nothing.like.it"
    assert len(shown) < 140
    with pytest.raises(FilterError) as caught:
        compile_filter('frame.type contains "\x1b[2J" && bad')
    _, shown, carets = caught.value.explain().splitlines()
    assert "\x1b" not in shown
    assert shown[carets.index("^") : carets.rindex("^") + 1] == "bad"


PIECES = [
    *("frame", "frame.type", "frame.length", "latency", "ip.addr", "tcp.port", "rabbitmq_stream.key", "amqp.header"),
    *("==", "!=", "===", "~=", "<", ">=", "contains", "matches", "~", "in", "{", "}", "..", "(", ")", "[", "]", ":"),
    *("and", "or", "xor", "not", "any", "all", "&&", "||", "!", "^^", "+", "-", "*", "/", "%", "&", ",", "len", "max"),
    *(
        "1",
        "0x",
        "1e999",
        "5ms",
        "de:ad",
        "10.0.0.0/99",
        '"',
        '"a"',
        'r"["',
        "\\",
        "é",
        "\x00",
        "2026-01-31",
        "1" * 500,
    ),
    *("-1", "1.5", "::", "abs(", "0:4", "frame.time", "string(", "9" * 30, "00000000-0000-0000-0000-000000000000"),
]


def accept(text: str) -> None:
    """Compile; a refusal must be a FilterError with its place inside the text."""
    try:
        compile_filter(text)
    except FilterError as error:
        assert 0 <= error.start <= len(text)
        assert error.explain().count("\n") == 2


def test_only_filter_errors_for_random_pieces() -> None:
    chance = random.Random(5)
    for _ in range(250):
        separator = chance.choice([" ", " ", ""])
        accept(separator.join(chance.choices(PIECES, k=chance.randint(1, 12))))


def test_only_filter_errors_for_any_text() -> None:
    """Including surrogates, as a shell passes bytes that are not UTF-8."""
    chance = random.Random(6)
    for _ in range(250):
        count = chance.randrange(40)
        some = [chance.choice(string.printable), chr(chance.randrange(256)), chr(chance.randrange(sys.maxunicode))]
        accept("".join(chance.choice([*some, chance.choice(string.printable)]) for _ in range(count)))


@pytest.mark.parametrize("text", ["(" * 5000, "frame and " * 1500 + "frame", "1+" * 3000 + "1 == 1", "x" * 70000])
def test_only_filter_errors_for_long_filters(text: str) -> None:
    accept(text)
