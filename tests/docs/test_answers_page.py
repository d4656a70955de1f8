"""The page of answers: each command prints what stands there, and what it says is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.conftest import is_long

__all__ = ["run"]

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "answers.md").read_text()
QUESTIONS = re.findall(r"## \d+\. (.+?)\n\n```console\n\$ wiredecode (.+?)\n(.+?)\n```", PAGE, re.DOTALL)
WORDS = {
    "Who is slow to consume?": "report-export (#1) is a slow consumer on subscription",
    "Which publishes were never confirmed?": "| 12088 | late | orders-stream |",
    "Why was this connection closed, and by whom?": "server RST: Authorization Violation",
    "Who logged in as what?": "| 7 | wd-consumer | guest | / | RabbitMQ Stream | 1.1.1 |",
    "What became of this message?": "confirmed 0.183 ms after it was published",
    "What changed when?": "lb-b reports that lb-c does not lead orders-stream[0]",
    "What is wrong at all?": "rabbitmq_stream.advertised-host",
}
"""What the answer has to say, as the truth files beside the captures have it."""
CASES = [pytest.param(*each, id=each[0], marks=[pytest.mark.slow] if is_long(each[1]) else []) for each in QUESTIONS]


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10
    assert set(WORDS) <= {question for question, _, _ in QUESTIONS}


@pytest.mark.parametrize(("question", "command", "shown"), CASES)
def test_the_command_answers(question: str, command: str, shown: str, run: Run) -> None:
    words = [str(DOCS.parent / word) if word.startswith("captures/") else word for word in shlex.split(command)]
    result = run(*words)
    assert result.code == 0
    printed = [line.rstrip().replace(f"{DOCS.parent}/", "") for line in result.lines]
    wanted = shown.removesuffix("\n...").split("\n")
    assert printed[: len(wanted)] == wanted
    assert shown.endswith("\n...") or len(printed) == len(wanted)
    assert WORDS.get(question, "") in result.out
