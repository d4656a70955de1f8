"""Every regular expression takes time in proportion to its text, on repetitions of its own beginnings."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from wiredecode.patterns import pattern

PACKAGE = Path(__file__).parents[1] / "wiredecode"
OTHERS = ("spark", "ui", "report", "scapy.py", "__main__.py", "live", "testing", "export", "sql")
"""They read no bytes of the wire, or need an extra."""
SMALL, TIMES, MOST, NOTICED = 1000, 4, 9, 0.004
"""Characters, ratio of the two sizes, largest ratio of the times, and shorter times (seconds) are noise."""
FILLERS = ("a", "1", "a1", "=", "a.", "a:", " ", "a ", "//a:", "@", '"', '"a', "<a ", "a@", "{", "a-", "-p a1", "code=")
METHODS = ("search", "finditer", "findall", "sub", "match", "fullmatch")


@cache
def uses() -> set[tuple[str, str]]:
    """Names, and the methods of patterns that are called on them."""
    call = re.compile(rf"\b(\w+)\.({'|'.join(METHODS)})\b")
    return {found for path in PACKAGE.rglob("*.py") for found in call.findall(path.read_text())}


GUARDED = {
    "wiredecode.protocols.nats.bulk.HEADER": "searches only what BLOCK_LINES has matched",
    "wiredecode.protocols.liftbridge.layers_operations.MESSAGE": "reads a file of the package",
}


def registered() -> Iterator[tuple[str, re.Pattern[Any], bool]]:
    """Name, pattern, and whether it is searched for, not only matched at one place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).parts
        if not set(OTHERS).isdisjoint(parts) or ("pattern(" not in path.read_text() and "re." not in path.read_text()):
            continue
        module = importlib.import_module(".".join(parts).removesuffix(".py").removesuffix(".__init__"))
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern | type(pattern(""))) and getattr(value, "pattern", None) is not None:
                used = {method for owner, method in uses() if owner == name}
                yield (
                    f"{module.__name__}.{name}",
                    re.compile(value.pattern, value.flags),
                    not used <= {"match", "fullmatch"},
                )


def beginnings(found: re.Pattern[Any]) -> list[Any]:
    """Literal pieces of a pattern, and others that occur in many."""
    is_bytes = isinstance(found.pattern, bytes)
    text = found.pattern.decode("latin-1") if is_bytes else found.pattern
    pieces = re.findall(r"[\w:=/@$.<>\" -]{1,12}", re.sub(r"\\[a-zA-Z]", "", text))
    chosen = dict.fromkeys([*FILLERS, *pieces[:80]])
    return [piece.encode("latin-1") for piece in chosen] if is_bytes else [*chosen]


def seconds(found: re.Pattern[Any], text: Any, searched: bool) -> float:
    started = time.process_time()
    found.search(text) if searched else found.match(text)
    return time.process_time() - started


def test_no_pattern_takes_quadratic_time() -> None:
    slow = []
    for name, found, searched in {each[1].pattern: each for each in registered()}.values():
        if name in GUARDED:
            continue
        for piece in beginnings(found):
            text = piece * (TIMES * SMALL // len(piece) + 1)
            took = seconds(found, text, searched)
            if took > NOTICED and all(
                seconds(found, text, searched) > MOST * seconds(found, text[:SMALL], searched) for _ in range(3)
            ):
                slow.append((name, piece))
                break
    assert slow == []


def test_a_quadratic_pattern_would_be_found() -> None:
    bad = re.compile(r"\bcode=[^&]+(?=&state=)")
    assert seconds(bad, "code=" * 4000, True) > MOST * seconds(bad, "code=" * 1000, True)
