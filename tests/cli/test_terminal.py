"""On a terminal: output fits the width and keeps identifying columns."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Run
from tests.view.frames import CLIENT, SERVER, dissected
from wiredecode.cli import main
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.screen import WIDEST, ScreenLines, cut, cut_middle

CAPTURES = Path(__file__).parents[2] / "captures"
GROUP = CAPTURES / "cursus" / "group.pcap"
LIFTBRIDGE = CAPTURES / "liftbridge" / "31-lb-all-types.pcap"
RABBITMQ = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
WIDTHS = (80, 100, 120, 200)
COLOR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *words: object, no_color: bool = False) -> str:
    """Run a command in this process; return its output on a terminal of ``width``, including standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    parts: list[bytes] = []
    reader = threading.Thread(target=lambda: parts.extend(read_to_end(ours)))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            patch.delenv(name, raising=False)
        patch.setenv("TERM", "xterm-256color")
        if no_color:
            patch.setenv("NO_COLOR", "1")
        reader.start()
        with standard_streams(theirs, patch):
            main([str(word) for word in words])
    reader.join()
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


@contextmanager
def standard_streams(terminal: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Input, output and errors of this process are those of a terminal, which is closed at the end."""
    saved = [os.dup(number) for number in range(3)]
    for number in range(3):
        os.dup2(terminal, number)
    os.close(terminal)
    try:
        with open(0, closefd=False) as given, open(1, "w", closefd=False) as out, open(2, "w", closefd=False) as err:
            for name, stream in (("stdin", given), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
                patch.setattr(sys, f"__{name}__", stream)
            yield
    finally:
        for number, before in enumerate(saved):
            os.dup2(before, number)
            os.close(before)


def read_to_end(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 65536):
            yield part


def shown(*messages: object, width: int, color: bool = False) -> list[str]:
    lines = ScreenLines(color=color, width=lambda: width)
    return [lines.line(frame) for frame in dissected(messages)]  # type: ignore[arg-type]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_frame_is_one_line_within_the_terminal_width(width: int) -> None:
    header, *lines = on_terminal(width, "pcap", GROUP, "--summary", "-q", no_color=True).splitlines()
    assert header.split()[-1] == "details"
    ends = [line for line in lines if line[0] == "#"]
    assert [line.split()[0] for line in ends] == (["#1", "#2"] if width < WIDEST else [])
    lines = [line for line in lines if line not in ends]
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert len(lines) == 118
    assert max(map(cell_len, [header, *lines])) <= width
    (committed,) = [line for line in lines if line.split()[0] == "25"]
    assert " #1 " in committed
    assert "BATCH_COMMIT" in committed
    assert "topic=orders group=workers generation=1" in committed
    (answer,) = [line for line in lines if line.split()[0] == "26"]
    assert "in_reply_to=BATCH_COMMIT topic=orders" in answer
    (refused,) = [line for line in lines if line.split()[0] == "24"]
    assert re.search(r"error_code=\S+…?.*\[note: (refused|the command was refused: offset_regression)\]", refused)


@pytest.mark.parametrize("width", WIDTHS)
def test_streams_and_partitions_come_before_their_subjects(width: int) -> None:
    lines = on_terminal(width, "pcap", LIFTBRIDGE, "--summary", "-q", no_color=True).splitlines()
    assert max(map(cell_len, lines)) <= width
    asked = [line for line in lines if " ReplicationRequest " in line]
    answered = [line for line in lines if " ReplicationResponse " in line]
    assert asked
    assert answered
    assert all("stream=foo-stream partition=0" in line for line in asked + answered)


def test_in_a_pipe_lines_are_whole_and_without_header(run: Run) -> None:
    lines = run("pcap", GROUP, "--summary", "-q").lines
    assert len(lines) == 118
    assert lines[23].endswith(
        "error_class=conflict retryable=false in_reply_to=COMMIT_OFFSET topic=orders partition=0  (0.088 ms)"
        "  [note: the command was refused: offset_regression]"
    )


def test_colour_marks_sides_and_findings_and_no_color_removes_it() -> None:
    colored = on_terminal(80, "pcap", GROUP, "--summary", "-q")
    plain = on_terminal(80, "pcap", GROUP, "--summary", "-q", no_color=True)
    assert COLOR.sub("", colored) == plain
    assert "\x1b" not in plain
    lines = [line for line in colored.splitlines() if not COLOR.sub("", line).startswith("#")]
    assert "\x1b[36m→\x1b[0m" in lines[25], "the client"
    assert "\x1b[35m←\x1b[0m" in lines[26], "the server"
    assert "\x1b[36mERROR\x1b[0m" in lines[24], "a note"


@pytest.mark.parametrize("width", [1, 20, 33, 40, 79])
def test_wide_characters_count_twice_on_any_width(width: int) -> None:
    create = layers.Create(correlation_id=2, stream="東京" * 40)
    (line,) = shown((CLIENT, create), width=width)
    assert cell_len(line.rstrip("\n")) <= width


def test_names_that_differ_at_their_ends_stay_distinct() -> None:
    streams = ["orders.europe.frankfurt.production.1", "orders.europe.frankfurt.production.2"]
    one, two = shown(*[(CLIENT, layers.Create(correlation_id=2, stream=name)) for name in streams], width=60)
    assert one.endswith("n.1\n")
    assert two.endswith("n.2\n")


def test_findings_come_before_other_facts() -> None:
    refused = layers.LAYERS[0x8001, 1](correlation_id=2, response_code=2)
    declare = layers.DeclarePublisher(correlation_id=2, publisher_id=7, publisher_reference="r" * 60, stream="orders")
    _, line = shown((CLIENT, declare), (SERVER, refused), width=80)
    assert "response_code=" in line
    assert "[error: " in line or "[note: " in line or "[warning: " in line
    assert "ms)" not in line


@pytest.mark.parametrize(
    ("text", "width", "end", "middle"),
    [
        ("abc", 3, "abc", "abc"),
        ("abcdef", 5, "abcd…", "ab…ef"),
        ("abcdef", 1, "…", "…"),
        ("abcdef", 0, "", ""),
        ("東京大阪", 5, "東京…", "東…阪"),
        ("東京大阪", 4, "東…", "東…"),
    ],
)
def test_shortened_texts(text: str, width: int, end: str, middle: str) -> None:
    assert (cut(text, width), cut_middle(text, width)) == (end, middle)


def test_a_wide_row_is_shown_field_by_field_and_several_with_the_columns_that_fit() -> None:
    nats = CAPTURES / "nats" / "03-pubsub.pcap"
    lines = on_terminal(80, "sql", nats, "from messages limit 1", no_color=True).splitlines()
    assert lines[0] == "── row 1 ──"
    cells = dict(line.split(maxsplit=1) for line in lines[1:] if len(line.split()) > 1)
    assert (cells["topic"], cells["body"]) == ("orders.new", '{"id":1,"qty":3}')
    wide = on_terminal(80, "sql", nats, "from messages limit 3", no_color=True).splitlines()
    assert wide[0].split() == ["frame", "type", "operation", "topic", "size", "body", "outcome"]
    assert wide[5].startswith("in all rows: time 2026-11-20T18:59:47.794053000Z, connection 2, ")
    assert wide[-1].startswith("(28 columns, 7 shown; ")
    few = on_terminal(80, "sql", nats, "select topic, body from messages limit 2", no_color=True).splitlines()
    assert few[0].split() == ["topic", "body"]
    assert few[3].split() == ["orders.new.eu", "deep"]


def test_identifying_columns_stay_in_statistics() -> None:
    damaged = CAPTURES / "cursus" / "produce.drop1pct.pcap"
    text = on_terminal(80, "stats", damaged, "-q", "--table", "findings", "--table", "connections", no_color=True)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("connection ")]
    assert heads[0] == ["connection", "severity", "code", "count", "message"]
    assert heads[1][:2] == ["connection", "client"]
    assert "in all rows: server 127.0.0.1:" in text
    assert "no room for src, dst, group, first: --json" in lines
    assert ", protocol cursus" in text
    assert "74,706" in on_terminal(200, "stats", damaged, "-q", "--table", "connections", no_color=True)


def test_lines_show_liftbridge_operations_and_their_objects(run: Run) -> None:
    capture = CAPTURES / "liftbridge/31-lb-all-types.pcap"
    output = run(
        "pcap",
        "-q",
        "--summary",
        capture,
        "-Y",
        '!nats.copy_of && frame.type in {"PropagatedRequest", "PartitionStatusResponse"}',
    ).out
    for words in (
        "op=CREATE_STREAM stream_name=foo-stream",  # proto3 leaves 0 out
        "op=SHRINK_ISR stream=foo-stream partition=1 replica_to_remove=",
        "op=REPORT_LEADER stream=foo-stream replica=server-b",
        "op=DELETE_STREAM stream=",
        "op=JOIN_CONSUMER_GROUP group_id=",
        "exists=true is_leader=true stream=foo-stream partition=1",
    ):
        assert words in output, words


@pytest.mark.parametrize("width", [80, 120, 200])
def test_connections_fit_the_terminal_and_share_common_values(width: int) -> None:
    lines = on_terminal(
        width, "follow", CAPTURES / "rabbitmq-stream" / "c43_basic.pcap", "-q", no_color=True
    ).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "client → 127.0.0.3:5552" in lines[0]
    assert "protocol" not in lines[0]
    assert "locator-wd-co" in lines[6]


def test_lines_name_the_protocol_if_there_are_several() -> None:
    one = on_terminal(120, "pcap", CAPTURES / "rabbitmq-stream" / "c43_basic.pcap", "--summary", "-q", no_color=True)
    assert "rabbitmq" not in "".join(line for line in one.splitlines() if line[0] != "#")
    assert "(1.640 ms)" in one.splitlines()[3]
    two = on_terminal(120, "pcap", LIFTBRIDGE, "--summary", "-q", no_color=True).splitlines()
    heads = [place for place, line in enumerate(two) if line.split()[:2] == ["frame", "time"]]
    assert len(heads) == 2
    assert "protocol" not in two[heads[0]]
    assert "protocol" in two[heads[1]]
    assert " liftbridge " in two[heads[1] + 1]


def test_labels_of_problems_are_dim_and_advice_is_bold() -> None:
    shown = on_terminal(80, "check", CAPTURES / "stories" / "credit-starvation.pcap", "-q")
    assert "\x1b[2m  who       \x1b[0m#5 " in shown
    assert "\x1b[2m  to do     \x1b[0m\x1b[1mMake processing faster" in shown
    plain = on_terminal(80, "check", CAPTURES / "stories" / "credit-starvation.pcap", "-q", no_color=True)
    assert COLOR.sub("", shown) == plain
