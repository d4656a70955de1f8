"""``wiredecode follow``: choosing a connection, and its output."""

from __future__ import annotations

import gzip
import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.net.craft import Talk
from tests.view.frames import write
from wiredecode.api import read
from wiredecode.dissect.ledger import HELD_FRAMES
from wiredecode.frames.message import Messages

COMMAND = [sys.executable, "-m", "wiredecode", "follow"]


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_several_connections_are_listed_with_options_to_choose(run: Run, basic: Path) -> None:
    found = run("follow", basic)
    assert found.code == 0
    assert found.lines[0].split() == [
        "#",
        "frames",
        "bytes",
        "seconds",
        "protocol",
        "client",
        "→",
        "server",
        "ended",
        "who",
    ]
    assert len(found.lines) == 8
    assert " ".join(found.lines[2].split()) == (
        "#2 23 1,036 0.005 rabbitmq_stream 127.0.0.1:37496 → 127.0.0.3:5552 client FIN "
        "wd-producer, user guest, virtual host /, RabbitMQ Stream 1.1.1"
    )
    assert "-n NUMBER" in found.err


@pytest.mark.parametrize(
    "words",
    [
        ["-n", 2],
        ["--port", 37496],
        ["--address", "127.0.0.1:37496"],
        ["--address", "127.0.0.0/8", "--port", 37496],
        ["-Y", "tcp.port == 37496 && frame.type == Publish"],
        ["-Y", 'frame.type == "Publish"', "-n", 2],
    ],
    ids=str,
)
def test_each_way_to_choose_gives_the_same_dialogue(run: Run, basic: Path, words: list[object]) -> None:
    found = run("follow", basic, "-q", *[str(word).replace("== Publish", '== "Publish"') for word in words])
    assert found.code == 0
    assert found.lines[0].startswith("Connection #2  rabbitmq_stream  client 127.0.0.1:37496 →")
    assert sum("  frame " in line for line in found.lines[1:]) == 23
    assert found.err == ""


def test_a_single_connection_needs_no_choice(run: Run, captures: Path) -> None:
    found = run("follow", captures / "tank" / "tank_05_keys_timestamps.pcap", "-q")
    assert found.lines[0].startswith("Connection #1  tank")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", 8], "there is no connection #8; the last one is 7"),
        (["--port", 9], "none of them fits"),
        (["-Y", "frame.length > 1000000"], "none of them fits"),
        (["--address", "::1"], "none of them fits"),
        (["--address", "host"], "'host' is no address"),
        (["--hex", "--json"], "--hex and --json exclude each other"),
        (["--raw", "-c", 3], "-c counts frames"),
        (["--full", "--raw"], "--full goes with"),
        (["--ranges"], "--ranges goes with --json"),
        (["--json", "--time", "epoch"], "records always have time"),
        (["--time", "2006"], "Invalid value for '--time': '2006' is not one of"),
        (["-Y", "nosuch"], "nosuch"),
        (["--from", 10, "--to", 5], "--to 5 is before --from 10"),
        (["--raw", "--side", "client"], "7 connections have frames; choose one with -n"),
        (["--json"], "7 connections have frames; choose one with -n"),
    ],
    ids=str,
)
def test_choices_without_match_and_invalid_choices(run: Run, basic: Path, words: list[object], said: str) -> None:
    found = run("follow", basic, "-q", *words)
    assert (found.code, found.raw) == (1 if "there is no" in said or "fits" in said else 2, b"")
    assert said in found.err


def test_records_equal_those_of_pcap(run: Run, basic: Path) -> None:
    whole = [line for line in run("pcap", basic, "--json", "-q").lines if json.loads(line)["connection"] == 2]
    assert run("follow", basic, "-n", 2, "--json", "-q").lines == whole
    ranged = run("follow", basic, "-n", 2, "--json", "-q", "--ranges", "-c", 1).lines
    assert "ranges" in json.loads(ranged[0])


@pytest.mark.parametrize("side", ["client", "server"])
def test_raw_is_the_payload_of_a_side_in_order(run: Run, basic: Path, side: str) -> None:
    frames = [frame for frame in read(basic) if frame.connection.number == 2]
    expected = b"".join(frame.data for frame in frames if frame.sender == side)
    assert run("follow", basic, "-n", 2, "--raw", "--side", side, "-q").raw == expected


def test_raw_has_both_sides_in_order_of_completion(run: Run, captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "d_shuffled_dups.pcap"
    expected = b"".join(frame.data for frame in read(path) if frame.connection.number == 2)
    found = run("follow", path, "-n", 2, "--raw", "-q").raw
    assert len(found) == len(expected)


def test_gaps_are_reported_and_not_filled(run: Run, captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "d_drop1pct.pcap"
    found = run("follow", path, "-n", 2, "--raw", "-q")
    assert "1,448 bytes of 127.0.0.1:44488 are left out at stream offset 63,985: not captured" in found.err
    assert b"\0" * 1448 not in found.raw


def test_messages_are_bodies_and_nothing_else(run: Run, basic: Path) -> None:
    found = run("follow", basic, "-n", 2, "--messages", "--bytes", "text", "-q")
    assert found.lines == [f"c43_basic:m:{n}:{'x' * 26}" for n in range(3)]
    assert run("follow", basic, "-n", 2, "--messages", "-q").lines[0] == found.lines[0].encode().hex()
    none = run("follow", basic, "-n", 1, "--messages")
    assert (none.code, none.raw) == (0, b"")
    assert "no published or delivered messages" in none.err


def test_one_side_names_its_requests_and_count_applies_to_it(run: Run, basic: Path) -> None:
    found = run("follow", basic, "-n", 2, "--side", "server", "-c", 3, "-q")
    assert sum("←" in line for line in found.lines[1:]) == 3
    assert not any("→" in line for line in found.lines[1:])
    assert "answers frame 16" in found.lines[1]


def test_standard_input_is_read_twice_if_needed(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run("follow", basic, "-n", 2, "-q").raw
    for words in (["-n", 2], ["--port", 37496]):
        for data in (basic.read_bytes(), gzip.compress(basic.read_bytes())):
            stdin(monkeypatch, data)
            assert run("follow", "-", *words, "-q").raw == expected


def test_undecoded_connections_are_named_and_raw_bytes_available(run: Run, tmp_path: Path) -> None:
    talks = [Talk(client=("10.0.0.1", port), server=("10.0.0.2", 5552)) for port in (40_000, 40_001)]
    request = b"GET /streams HTTP/1.1\r\nHost: broker\r\n\r\n"
    path = write(tmp_path / "x.pcap", [data for talk in talks for data in (*talk.handshake(), *talk.send(0, request))])
    assert run("follow", path, "-q").lines[1].split()[4] == "(HTTP)"
    found = run("follow", path, "--port", 40_000)
    assert (found.code, found.raw) == (0, b"")
    assert "looks like HTTP, which is not decoded; --raw writes its bytes" in found.err
    assert run("follow", path, "-n", 1, "--raw", "-q").raw == request


@pytest.mark.parametrize(
    "words", [["-n", 1], ["-n", 1, "--messages"], ["-n", 2, "--side", "server"], ["-n", 2, "--from", "+99"]]
)
def test_messages_of_unselected_frames_are_not_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Of another connection, the other side, or before ``--from``: 10,000 of them between two that are shown."""
    quiet, busy = (Talk(client=("10.0.0.1", port), server=("10.0.0.2", 4222)) for port in (40_000, 40_001))
    packets = [*quiet.handshake(), *busy.handshake(), *quiet.send(0, b"CONNECT {}\r\n")]
    for _ in range(100):
        packets += busy.send(0, b"PUB orders 2\r\nhi\r\n" * 100)
    path = write(tmp_path / "x.pcap", [*packets, *quiet.send(0, b"PING\r\n"), *busy.send(1, b"PONG\r\n")])
    kept: list[int] = []
    add = Messages.add

    def counted(messages: Messages, *args: Any, **columns: Any) -> None:
        add(messages, *args, **columns)
        kept.append(len(messages.parts))

    monkeypatch.setattr(Messages, "add", counted)
    run("follow", path, "-q", *words)
    assert len(kept) == 10_000
    assert max(kept) <= HELD_FRAMES + 1, "so many frames wait for a response"


def test_a_tls_handshake_is_followed_and_raw_bytes_available(run: Run, captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "c43_tls.pcap"
    assert run("follow", path, "-q").lines[1].split()[4] == "tls"
    found = run("follow", path, "--port", 36640)
    assert found.code == 0
    assert "ServerHello" in found.lines[-1] or "ServerHello" in found.raw.decode()
    assert "TLS was not decrypted" in found.err
    assert len(run("follow", path, "-n", 1, "--raw", "-q").raw) == 6430


def test_a_damaged_and_an_empty_file_cost_one_line(run: Run, captures: Path, tmp_path: Path) -> None:
    for words in (["-n", 1], ["--port", 5552, "-n", 1]):
        found = run("follow", captures / "rabbitmq-stream" / "d_cutfile.pcap", "-q", *words)
        assert found.code == 2
        assert found.lines[0].startswith("Connection #1")
        assert found.err.count("\n") == 1
    (tmp_path / "empty").touch()
    found = run("follow", tmp_path / "empty")
    assert (found.code, found.raw) == (2, b"")
    assert found.err.count("\n") == 1


def test_frames_come_while_the_pipe_is_open_and_an_interrupt_ends_quietly(basic: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, "-", "-n", "1"], **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(basic.read_bytes()[:5000])
        process.stdin.flush()
        assert b"Connection #1" in process.stdout.readline()
        more = process.stdout.readline(), process.stdout.readline()  # the heading may be two lines
        assert b"PeerProperties" in b"".join(more)  # now it waits for more
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read().decode()
        assert process.wait() == 130
        process.stdin.close()
    assert "Traceback" not in errors
