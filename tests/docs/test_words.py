"""README and docs are short, and written in plain English."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_reference import DOCS, script

SAMPLES = script("make_samples")
MAX_WORDS = 25_900
"""Written by hand: without docs/reference, and without the output below commands, which make_samples.py refreshes."""
MAX_STUMBLES = {"by hand": 2, "made": 8, "code": 42}
"""Lines of README and docs, of pages that are made from the code, and of the code. Lower it when they get better."""
STUMBLES = {
    "told, tells": r"(?i)\btold\b|\btells?\b(?! you)",
    "stands": r"(?i)\bstands?\b|\bstood\b",
    "a noun clause as a sentence": r"^(?:What|Who|Which|How)\b(?![^.?!]*\?)",
    "of what is": r"(?i)\b(?:of|from|by|for|and|than|as) what (?:is|was|are|were|has|had|can|it|they|a|the)\b",
    "for want of, lacks": r"(?i)\bfor want of\b|\black(?:s|ed|ing)?\b",
    "so long, so much": r"\b[Ss]o (?:long|much|many|far|often|large|soon)\b(?! as)",
    "nobody, whatever": r"\b(?:[Nn]obody|[Ww]hoever|[Ww]hom|[Ww]hatever)\b",
    "mended": r"(?i)\bmend(?:s|ed|ing)?\b",
    "goes on, hands on": r"(?i)\b(?:go|goes|went|gone) on\b|\bhand(?:s|ed)? on\b",
    "behind": r"(?i)\bbehind\b",
    "of it": r"(?i)\bof (?:it|them|theirs|its own|these|those)\b[.,;:)]",
    "any more": r"(?i)\bany more\b|\bnever will\b|\b(?:is|are) to be\b",
    "at once": r"(?i)\bmany at a time\b|\bat once\b",
    "takes for": r"(?i)\bcannot bear\b|\btakes? (?:it|them|one)? ?for\b|\btaken for\b",
    "word for word": r"(?i)\bmanieth\b|\bthousand million\b|\bword for word\b",
}
"""Turns of phrase that readers stumble over. A line that has one can be right: the number is what counts."""


def by_hand(text: str) -> str:
    """The text without the output of commands, and without measurements."""
    text = re.sub(r"<!-- measured: .*?<!-- end of measurements -->", "", text, flags=re.DOTALL)
    return SAMPLES.SAMPLE.sub(lambda found: f"$ wiredecode {found[1]}\n", text)


def prose(path: Path) -> list[str]:
    """Lines outside of fenced blocks, with X in place of code."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"``?[^`]*``?", "X", line.strip()) for line in text.splitlines()]


def texts(path: Path) -> Iterator[str]:
    """Lines of comments, docstrings and messages, with X in place of code."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_text = token.type == tokenize.STRING and " " in token.string
            if is_text or token.type == tokenize.COMMENT:
                for line in token.string.strip("rbfuRBFU\"'# ").splitlines():
                    yield re.sub(r"``?[^`]*``?", "X", line.strip())


def test_pages_written_by_hand_are_short() -> None:
    words = {page.name: len(by_hand(page.read_text()).split()) for page in SAMPLES.pages()}
    assert sum(words.values()) <= MAX_WORDS, sorted(words.items(), key=lambda item: -item[1])[:10]


def test_a_protocol_page_has_at_most_600_words() -> None:
    assert {page.name for page in (DOCS / "protocols").iterdir() if len(page.read_text().split()) > 600} == set()


@pytest.mark.parametrize("kind", MAX_STUMBLES)
def test_hard_to_read_phrases_are_rare(kind: str) -> None:
    pages = {
        "by hand": SAMPLES.pages(),
        "made": sorted((DOCS / "reference").rglob("*.md")),
        "code": sorted((DOCS.parent / "wiredecode").rglob("*.py")),
    }[kind]
    stumbles = {name: re.compile(pattern).search for name, pattern in STUMBLES.items()}
    found = [
        f"{path.relative_to(DOCS.parent)}: {name}: {line[:100]}"
        for path in pages
        for line in (texts if kind == "code" else prose)(path)
        for name, search in stumbles.items()
        if search(line)
    ]
    assert len(found) <= MAX_STUMBLES[kind], "\n".join(found)
