"""Commands on hand-written pages: they exist and print the output on the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.conftest import in_one_test, is_long
from tests.docs.test_reference import DOCS, script
from wiredecode.cli.app import command_line
from wiredecode.filter import compile_filter

__all__ = ["run"]

ROOT = DOCS.parent
SAMPLES = script("make_samples")
SHOWN = [(page.name, *sample) for page in SAMPLES.pages() for sample in SAMPLES.samples(page)]
CASES = [
    pytest.param(*each[1:], id=f"{each[0]}: {each[1]}", marks=[pytest.mark.slow] if is_long(each[1]) else [])
    for each in SHOWN
]
ANSWERS = {
    "Which publishes have no confirm?": "| 12088 | late |",
    "Who closed this connection, and why?": "server RST: Authorization Violation",
    "Who logged in?": "| 7 | wd-consumer | guest | / | RabbitMQ Stream | 1.1.1 |",
    "What happened to one message?": "confirmed 183 µs after it was published",
    "What changed, and when?": "lb-b reports that lb-c does not lead",
    "What is wrong?": "rabbitmq_stream.advertised-host",
    "Why is a consumer late?": "report-export (#5) consumes orders",
    "Why do publishes time out?": "lb-c, leader of 3 partitions, went away",
}
"""Text that the answers of docs/ask.md must contain, from the truth files of the captures."""
INLINE = re.compile(r"`(wiredecode (?:\\`|[^`])+)`")
TYPED = re.compile(r"^(?:\$ |    )?(wiredecode .+(?:\\\n.+)*)$", re.MULTILINE)
FENCED = re.compile(r"^```(?:console|sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLACEHOLDERS = re.compile(r"\bFILTER\b|\.\.\.|@")


def commands(page: Path) -> list[str]:
    """All commands on the page."""
    text = page.read_text()
    return [
        *INLINE.findall(FENCED.sub("", text)),
        *(each for block in FENCED.findall(text) for each in TYPED.findall(block)),
    ]


COMMANDS = [(page.name, each) for page in SAMPLES.pages() for each in commands(page)]


def test_there_are_samples_and_commands() -> None:
    assert len(SHOWN) >= 20
    assert len(COMMANDS) >= 120
    assert len(STATUSES) >= 6


@pytest.mark.parametrize(("command", "shown"), CASES)
def test_commands_print_the_output_on_the_page(
    command: str, shown: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    monkeypatch.chdir(tmp_path)
    result = run(*SAMPLES.words(command))
    assert result.code == (2 if shown.startswith("wiredecode: ") else 0)
    printed = result.err if command.endswith(SAMPLES.ERRORS) else result.out
    assert SAMPLES.shortened(printed, shown) == shown, "run: python docs/make_samples.py"


@pytest.mark.parametrize(("question", "answer"), ANSWERS.items())
def test_answers_agree_with_the_truth(question: str, answer: str) -> None:
    section = (DOCS / "ask.md").read_text().partition(f"\n## {question}\n")[2].partition("\n## ")[0]
    assert answer in section


@in_one_test(("page", "command"), COMMANDS)
def test_commands_and_options_exist(page: str, command: str) -> None:
    words = shlex.split(re.sub(r"\\\n", " ", command).replace("\\|", "|").split(" | ")[0], comments=True)
    tree = command_line()
    name = " ".join(words[1:3]) if " ".join(words[1:3]) in tree.commands else words[1] if len(words) > 1 else ""
    known = [tree, tree.commands.get(name, tree.commands["pcap"])]
    options = {
        each for one in known for parameter in one.params for each in (*parameter.opts, *parameter.secondary_opts)
    }
    for word, value in zip(words[1:], [*words[2:], ""], strict=True):
        option = word.partition("=")[0]
        if re.fullmatch(r"-[a-zA-Z]|--[a-z].*", option):
            assert option in options | TSHARK or (command.startswith("wiredecode -") and len(words) == 2), word
        if word == "-Y" and value and not command.endswith(SAMPLES.ERRORS) and not PLACEHOLDERS.search(value):
            compile_filter(value)


TSHARK = {"-T", "-e", "-E", "--help", "-h", "-r", "-t", "-z", "-D"}
"""Understood as tshark does; see tests/cli/test_tshark.py."""
STATUSES = re.findall(r"^wiredecode (.+); echo \$\? +# (\d)", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)
QUERIES = re.findall(r'sql FILE "([^"]+)"', "".join(page.read_text() for page in SAMPLES.pages()))


@pytest.mark.parametrize(("command", "status"), STATUSES)
def test_exit_codes_equal_those_on_the_page(
    command: str, status: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(*SAMPLES.words(command)).code == int(status)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_have_an_answer(query: str, run: Run) -> None:
    result = run("sql", ROOT / "captures/rabbitmq-stream/c43_basic.pcap", query)
    assert result.code == 0, result.err
    assert result.lines


@pytest.mark.parametrize(("page", "least"), [("README.md", 2), ("docs/index.md", 6)])
def test_pictures_are_there(page: str, least: int) -> None:
    found = re.findall(r'src(?:set)?="([^"]+)"', (ROOT / page).read_text())
    assert len(found) >= least
    assert [name for name in found if not (ROOT / page).parent.joinpath(name).is_file()] == []
