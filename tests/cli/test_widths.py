"""Tables at the widths of terminals, as they are kept in ``widths``: no row is longer, and no answer is cut.

``python -m tests.cli.test_widths`` keeps them anew; the difference in git shows what people will see.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.test_terminal import WIDTHS, on_terminal

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "widths"
CREDIT, SLOW = "captures/stories/credit-starvation.pcap", "captures/stories/slow-consumer.pcap.gz"
TABLES = (
    ("follow", SLOW),
    ("follow", CREDIT),
    ("stats", CREDIT),
    ("stats", SLOW, "--table", "connections"),
    ("stats", SLOW, "--timeline"),
    ("flows", CREDIT),
    ("flows", CREDIT, "--by", "client"),
    ("sql", CREDIT, "from messages limit 5"),
    ("sql", CREDIT, "select topic, operation, count(*) as messages from messages group by all order by all"),
    ("pcap", CREDIT, "--summary", "-c", "15"),
)
"""Commands of which the output is kept."""
OTHERS = (
    ("check", CREDIT),
    ("check", SLOW),
    ("trace", CREDIT, "--frame", "92", "--message", "1"),
    ("follow", SLOW, "-n", "2"),
    ("pcap", CREDIT, "-c", "5"),
    ("protocols",),
    ("fields", "nats.subject"),
    ("--help",),
    ("check", "--help"),
    ("sql", CREDIT, "from frames limit 3"),
    ("stats", "captures/stories/leader-killed.pcap.gz", "--table", "connections"),
)
"""Commands of which only the width is tested."""


def shown(width: int, words: tuple[str, ...]) -> str:
    quiet = () if words[0] in ("protocols", "fields") or "--help" in words else ("-q",)
    return on_terminal(width, *words, *quiet, no_color=True)


def kept(width: int) -> str:
    """All tables on a terminal of this width."""
    texts = [f"$ wiredecode {' '.join(words)}\n{shown(width, words)}" for words in TABLES]
    return "\n".join("\n".join(line.rstrip() for line in text.splitlines()) + "\n" for text in texts)


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_are_as_they_are_kept(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = kept(width)
    assert text == (KEPT / f"{width}.txt").read_text()
    rows = [line for line in text.splitlines() if not line.startswith("$ ")]
    assert max(map(cell_len, rows)) <= width


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_row_is_longer_than_the_terminal(
    width: int, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    rows = [row for row in shown(width, words).splitlines() if " wiredecode pcap " not in row]  # to be copied
    assert max(map(cell_len, rows)) <= width


def test_the_answers_are_there_in_80_columns() -> None:
    """Issue 63: the reason was cut, ``max`` was left out, connections had no end."""
    text = " ".join((KEPT / "80.txt").read_text().split())
    for answer in (
        *("Permissions Violation", '"forbidden.topic"', "p99 max", "ended_by", "ended FIN", "(28 columns, "),
        "#1 127.0.0.1:54684 → 127.0.0.1:5552 rabbitmq_stream",
    ):
        assert answer in text


if __name__ == "__main__":
    os.chdir(ROOT)
    for width in WIDTHS:
        (KEPT / f"{width}.txt").write_text(kept(width))
