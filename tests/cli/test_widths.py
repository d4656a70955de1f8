"""Tables at the widths of terminals, as they are kept in ``widths``: no row is longer, and no answer is cut.

``python -m tests.cli.test_widths`` keeps them anew; the difference in git shows what people will see.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.test_terminal import WIDTHS, on_terminal
from wiredecode.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "widths"
CREDIT, SLOW = "captures/stories/credit-starvation.pcap", "captures/stories/slow-consumer.pcap.zst"
GROUPS, HOLE = "captures/kafka/groups.pcap.zst", "captures/stories/mtu-black-hole.pcap"
TABLES = (
    ("--help",),
    ("check", CREDIT),
    ("check", SLOW),
    ("check", HOLE, "--timeline"),
    ("follow", SLOW),
    ("follow", CREDIT),
    ("follow", SLOW, "-n", "2"),
    ("follow", SLOW, "-n", "2", "--hex"),
    ("stats", CREDIT),
    ("stats", SLOW, "--table", "connections"),
    ("stats", SLOW, "--timeline"),
    ("stats", GROUPS, "--table", "consumers"),
    ("stats", "captures/nats/13-jetstream.pcap", "--table", "deliveries"),
    ("stats", "captures/rabbitmq-stream/c43_errors.pcap", "--table", "findings"),
    ("flows", CREDIT),
    ("flows", "captures/flows/k-hot-partition.pcap.zst", "--by", "partition"),
    ("flows", CREDIT, "--by", "client"),
    ("flows", GROUPS),
    ("trace", CREDIT, "--frame", "92", "--message", "1"),
    ("sql", CREDIT, "from messages limit 5"),
    ("sql", CREDIT, "from frames limit 3"),
    ("sql", CREDIT, "select topic, operation, count(*) as messages from messages group by all order by all"),
    ("pcap", CREDIT, "--summary", "-c", "15"),
    ("pcap", CREDIT, "-c", "2"),
    ("pcap", CREDIT, "-c", "1", "-x"),
    ("pcap", HOLE, "--summary", "-Y", "tcp.analysis.flags", "-c", "3"),
    ("protocols",),
    ("fields", "nats.subject"),
)
"""Commands of which the output is kept."""
TO_COPY = " wiredecode "
"""In lines that may be longer, as they are to be copied."""


def shown(width: int, *words: str) -> str:
    quiet = () if words[0] in ("protocols", "fields") or "--help" in words else ("-q",)
    text = on_terminal(width, *words, *quiet, no_color=True)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def kept() -> dict[int, str]:
    """All tables, on terminals of each width; a text that a narrower one shows is not repeated."""
    parts: dict[int, list[str]] = {width: [] for width in WIDTHS}
    for words in TABLES:
        before, same = "", 0
        for width in WIDTHS:
            text = shown(width, *words)
            same = same if text == before else width
            again = f"(as on {same} columns)\n" if same < width else text
            parts[width].append(f"$ wiredecode {' '.join(words)}\n{again}")
            before = text
    return {width: "\n".join(each) for width, each in parts.items()}


@pytest.fixture(scope="module")
def made() -> dict[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return kept()


def widest(text: str) -> int:
    """The longest line, but for command lines."""
    rows = [row for row in text.splitlines() if not row.startswith("$ ") and TO_COPY not in row]
    return max(map(cell_len, rows))


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_are_as_they_are_kept_and_no_row_is_longer_than_the_terminal(width: int, made: dict[int, str]) -> None:
    assert made[width] == (KEPT / f"{width}.txt").read_text()
    assert widest(made[width]) <= width


@pytest.mark.parametrize("name", [*COMMANDS])
def test_pages_of_commands_fit_80_columns(name: str) -> None:
    assert widest(shown(80, name, "--help")) <= 80


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
    for width, text in kept().items():
        (KEPT / f"{width}.txt").write_text(text)
