"""Nothing from the wire reaches a terminal raw."""

from __future__ import annotations

import pytest

from wiredecode.frames.escape import escape, shorten, shorten_middle


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("größe 日本", "größe 日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\r\tc\x00", "a\\nb\\r\\tc\\x00"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\U000e0041tag", "\\U000e0041tag"),
        (b"\xff\xfe".decode("utf-8", "surrogateescape"), "\\xff\\xfe"),
        ("\ud800", "\\ud800"),
        ("[bold]markup[/]", "[bold]markup[/]"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(text).isprintable()
    escape(text).encode()  # no lone surrogate is left


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert [shorten_middle("abcdefgh", limit) for limit in (8, 7, 6, 3, 1)] == [
        "abcdefgh",
        "abc…fgh",
        "abc…gh",
        "a…h",
        "…",
    ]
