"""``wiredecode pcap``: the behaviour that people and scripts rely on."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests import support
from tests.cli.conftest import Run
from tests.net import craft
from tests.pcap import write_pcap
from tests.view.frames import CLIENT, packets, write
from wiredecode.capture import reader
from wiredecode.protocols.rabbitmq_stream import layers

PASSWORD = b"\0guest\0hunter22"


@pytest.fixture
def login(tmp_path: Path) -> Path:
    """A capture with a password and a stream whose name is an attack on terminals."""
    evil = "\x1b[2J\x1b]0;owned\x07\u202e[red]"
    return write(
        tmp_path / "login.pcap",
        packets(
            [
                (CLIENT, layers.SaslAuthenticate(correlation_id=2, mechanism="PLAIN", data=PASSWORD)),
                (CLIENT, layers.Create(correlation_id=3, stream=evil)),
            ]
        ),
    )


def test_summary_has_a_line_per_frame_and_totals_go_to_standard_error(run: Run, basic: Path) -> None:
    result = run("pcap", basic, "--summary")
    assert result.code == 0
    assert [int(line.split()[0]) for line in result.lines] == list(range(1, 143))
    assert "packets   230 read, 230 with TCP in 7 connections" in result.err
    assert "payload   9,692 bytes captured = 9,692 in frames + 0 undecoded" in result.err
    assert "frames    142 rabbitmq_stream\n" in result.err
    assert len(result.err.splitlines()) == 3
    assert "14 Tune" in run("pcap", basic, "--summary", "-v").err


def test_totals_count_matching_and_shown_frames(run: Run, basic: Path) -> None:
    some = run("pcap", basic, "--summary", "-Y", 'frame.type == "Publish"')
    assert (some.code, len(some.lines)) == (0, 6)
    assert "shown     6 of 142 frames match the filter\n" in some.err
    none = run("pcap", basic, "--summary", "-Y", "frame.length == 0x01020304")
    assert (none.code, none.raw) == (0, b"")
    assert "shown     no frame: none of 142 matches the filter\n" in none.err
    first = run("pcap", basic, "--summary", "-c", 3)
    assert "shown     3 frames\n" in first.err
    assert "142" not in first.err, "what was read ahead was not asked for"
    assert "of 142 frames are in the time asked for" in run("pcap", basic, "--summary", "--from", "1").err


def test_no_arguments_print_three_examples(run: Run) -> None:
    result = run()
    assert (result.code, result.raw) == (2, b"")
    lines = result.err.splitlines()
    assert [line.split()[1:3] for line in lines if line.startswith("  ")] == [
        ["capture.pcap", "--summary"],
        ["check", "capture.pcap"],
        ["stats", "capture.pcap"],
    ]
    assert max(map(len, lines)) < 80


def test_json_is_one_record_per_frame_and_nothing_else(run: Run, basic: Path) -> None:
    result = run("pcap", basic, "--json", "-q")
    rows = [json.loads(line) for line in result.lines]
    assert [row["frame"] for row in rows] == list(range(1, 143))
    assert result.err == ""
    assert "ranges" not in rows[0]
    ranged = json.loads(run("pcap", basic, "--json", "--ranges", "-c", 1).lines[0])
    assert ranged["ranges"]["rabbitmq_stream.key"] == [4, 6]


def test_a_tree_per_frame(run: Run, basic: Path) -> None:
    result = run("pcap", basic, "-q")
    assert sum(line.startswith("Frame ") for line in result.lines) == 142
    assert "[request in frame 1]" in result.out
    assert "data: <redacted 12 bytes>" in result.out


def test_hex_adds_a_dump_to_every_tree(run: Run, basic: Path) -> None:
    result = run("pcap", basic, "--hex", "-c", 3, "-q")
    assert sum(line.startswith("  000000 ") for line in result.lines) == 3


@pytest.mark.parametrize("mode", [("--summary",), ("--json",), ()])
def test_count_stops_after_that_number_of_frames(run: Run, basic: Path, mode: tuple[str, ...]) -> None:
    result = run("pcap", basic, *mode, "-c", 5)
    assert sum(re.match(r"Frame \d|\{|\s+\d+ +\d+\.\d{6}  #", line) is not None for line in result.lines) == 5
    assert "stopped as requested" in result.err


def test_from_and_to_select_by_time(run: Run, basic: Path) -> None:
    def times(*words: str) -> list[float]:
        return [float(line.split()[1]) for line in run("pcap", basic, "--summary", "-q", *words).lines]

    everything = times()
    assert times("--from", "0.01", "--to", "0.2") == [time for time in everything if 0.01 <= time <= 0.2]
    assert times("--from", "2026-11-20T19:45:01Z") == [time for time in everything if time >= 1 - 0.130713]
    assert times("--to", "0") == []


def test_frames_after_an_open_request_are_shown_when_reading_stops_at_a_time(
    run: Run, basic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are held back for its response, which is lost; the next packets come seconds later."""
    monkeypatch.setattr(reader, "FIRST_BATCH_BYTES", 1)
    monkeypatch.setattr(reader, "_GROWTH", 1)
    found = support.packets(basic)
    middle, first_ns = found[60][0], found[0][0]
    kept = [(time_ns, data) for time_ns, data in found[:60] if time_ns < found[40][0] or data[34:36] != b"\x15\xb0"]
    write_pcap(tmp_path / "out.pcap", [*kept, *((time_ns + 20_000_000_000, data) for time_ns, data in found[60:])])
    words = tmp_path / "out.pcap", "--to", str((middle - first_ns) / 1e9), "-q"
    assert len(run("pcap", "--json", *words).lines) == len(run("pcap", "--summary", *words).lines) > 30


def test_several_files_are_one_capture(run: Run, basic: Path, captures: Path) -> None:
    other = captures / "rabbitmq-stream" / "c43_heartbeat.pcap"
    counts = [len(run("pcap", *files, "--json", "-q").lines) for files in ([basic], [other], [other, basic])]
    assert counts[2] == counts[0] + counts[1]


def test_standard_input(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run("pcap", basic, "--json", "-q").raw
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(basic.read_bytes())))
    assert run("pcap", "-", "--json", "-q").raw == expected


def test_totals_as_json(run: Run, basic: Path, tmp_path: Path) -> None:
    target = tmp_path / "totals.json"
    assert run("pcap", basic, "--summary", "-q", "--summary-json", target).code == 0
    totals = json.loads(target.read_bytes())
    assert totals["packets"]["read"] == 230
    assert totals["payload"]["captured"] == totals["payload"]["in_frames"] == 9692
    assert totals["errors"] == []


# Secrets and hostile bytes.


@pytest.mark.parametrize(
    "words",
    [("--summary",), ("--json",), ("--json", "--bytes", "text"), ("--json", "--bytes", "base64"), (), ("--hex",)]
    + [("--hex", "--full", "--bytes", form) for form in ("hex", "text", "base64")],
)
def test_no_output_holds_a_password(run: Run, login: Path, words: tuple[str, ...]) -> None:
    result = run("pcap", login, *words)
    said = result.out + result.err
    for form in ("hunter22", PASSWORD.hex(), PASSWORD.hex(" "), "Z3Vlc3QAaHVudGVyMjI", "68 75 6e 74", "68756e74"):
        assert form not in said
    assert "<redacted 15 bytes>" in said or words == ("--summary",)


def test_secrets_are_shown_on_request(run: Run, login: Path) -> None:
    assert "hunter22" in run("pcap", login, "--json", "--bytes", "text", "--show-secrets").out
    assert PASSWORD.hex() in run("pcap", login, "--show-secrets").out


@pytest.mark.parametrize("words", [("--summary",), (), ("--hex",), ("--json",)])
def test_names_from_the_wire_cannot_steer_the_terminal(run: Run, login: Path, words: tuple[str, ...]) -> None:
    result = run("pcap", login, *words)
    assert not {"\x1b", "\x07"} & set(result.out + result.err)
    assert words == ("--json",) or "\u202e" not in result.out


# Colour and width.


def test_colour_only_if_requested(run: Run, login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ([], ["--summary"]):
        assert "\x1b" not in run("pcap", login, *mode, "-q").out
    assert "\x1b[" in run("pcap", login, "--color", "always", "-q").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("pcap", login, "-q").out
    assert "\x1b" not in run("pcap", login, "--color", "never", "-q").out


def test_no_color_applies_to_a_terminal_and_always_overrides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from wiredecode.cli.output import wants_color

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_color("auto", Terminal())
    assert not wants_color("auto", io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_color("auto", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color("auto", Terminal())
    assert wants_color("always", io.StringIO())


def test_trees_fit_into_eighty_columns_and_are_not_wrapped_in_files(
    run: Run, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = captures / "rabbitmq-stream" / "c43_amqp.pcap"
    assert max(map(len, run("pcap", path, "--hex", "-q", "-c", 40).lines)) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run("pcap", path, "--hex", "-q", "-c", 40).lines)) <= 80


# Errors.


def test_a_truncated_file_shows_everything_before_the_damage(run: Run, captures: Path) -> None:
    result = run("pcap", captures / "rabbitmq-stream" / "d_cutfile.pcap", "--summary")
    assert result.code == 2
    assert len(result.lines) > 50
    assert "packets   155 read" in result.err
    last = result.err.splitlines()[-1]
    assert last.startswith("wiredecode: ")
    assert "is truncated in the middle of a packet record" in last


def test_unreadable_inputs_give_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no capture at all")
    for name, said in (
        ("", "holds no file with the name of a capture"),
        ("*.pcap", "fits no file"),
        ("no", "does not exist"),
        ("empty", "is empty"),
        ("text", "is not a pcap"),
    ):
        result = run("pcap", tmp_path / name, "--json")
        assert result.code == 2
        assert result.raw == b""
        (line,) = result.err.splitlines()
        assert line.startswith("wiredecode: ")
        assert said in line


def test_folders_and_quoted_patterns_expand_to_captures(run: Run, captures: Path, tmp_path: Path) -> None:
    names = ("02-auth.pcap", "03-pubsub.pcap")
    for name in (*names, "notes.txt", "[0].pcap"):
        shutil.copy(captures / "nats" / (name if name in names else names[0]), tmp_path / name)
    both = run("pcap", *(tmp_path / name for name in names), "--json", "-q").raw
    assert run("pcap", tmp_path / "0?-*.pcap", "--json", "-q").raw == both
    first = run("pcap", tmp_path / names[0], "--json", "-q").raw
    assert run("pcap", tmp_path / "[0].pcap", "--json", "-q").raw == first
    (tmp_path / "[0].pcap").unlink()
    assert run("pcap", tmp_path, "--json", "-q").raw == both


def test_a_missing_file_does_not_hide_the_others(run: Run, basic: Path, tmp_path: Path) -> None:
    result = run("pcap", tmp_path / "no", basic, "--json", "-q")
    assert result.code == 2
    assert len(result.lines) == 142
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--summary", "--json"], "exclude each other"),
        (["--hex", "--json"], "--hex goes with trees"),
        (["--full", "--summary"], "--full goes with trees"),
        (["--ranges", "--summary"], "--ranges goes with"),
        (["-c", "0"], "-c"),
        (["-d", "5552"], "'5552' names no protocol, as in 5552=rabbitmq_stream"),
        (["-d", "x=rabbitmq_stream"], "does not begin with a port"),
        (["-d", "70000=rabbitmq_stream"], "does not begin with a port"),
        (["-d", "1=amqp"], "no protocol is called 'amqp'; there is rabbitmq_stream"),
        (["-d", "1=rabbitmq_stream/9"], "no dialect '9'"),
        (["--from", "noon"], "is not a time"),
        (["--to", "nan"], "is not a time"),
        (["--bytes", "octal"], "--bytes"),
        (["--nope"], "--nope"),
        (["--summary-json", "/"], "--summary-json"),
    ],
)
def test_a_wrong_command_line_is_one_line(run: Run, basic: Path, words: list[str], said: str) -> None:
    result = run("pcap", basic, *words)
    assert result.code == 2
    assert result.raw == b""
    (line,) = result.err.splitlines()
    assert line.startswith("wiredecode: ")
    assert said in line


def test_a_bug_is_one_line_and_a_traceback_on_request(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("\x1bboom")

    monkeypatch.setattr("wiredecode.frames.record.dumps", fail)
    result = run("pcap", basic, "--json", "-q")
    assert result.code == 70
    assert result.err.startswith("wiredecode: internal error: RuntimeError: \\x1bboom; please report")
    assert result.err.count("\n") == 1
    assert "Traceback" in run("pcap", basic, "--json", "-q", "-v").err


# Captures without a known protocol.


def test_a_capture_without_a_known_protocol_lists_its_ports(run: Run, captures: Path) -> None:
    result = run("pcap", captures / "rabbitmq-stream" / "c43_tls.pcap", "--summary")
    assert result.code == 0
    assert [line.split()[7] for line in result.lines] == ["ClientHello", "ServerHello"] * 2
    assert "port 5551: TLS" in result.err
    assert "no known protocol in this capture; wiredecode knows RabbitMQ Stream (port 5552), " in result.err
    assert "can be told" not in result.err


def test_an_unknown_protocol_is_named_by_its_port_with_how_to_decode_it(run: Run, tmp_path: Path) -> None:
    talk = craft.Talk(server=("10.0.0.2", 9000))
    path = write(tmp_path / "x.pcap", [*talk.handshake(), *talk.send(0, b"hello there, this is nothing known")])
    result = run("pcap", path, "--summary")
    assert (result.code, result.raw) == (0, b"")
    assert "port 9000: unknown protocol, 34 bytes in 1 connection\n" in result.err
    assert "-d 9000=cursus\n" in result.err


def test_a_capture_without_tcp_says_so(run: Run, tmp_path: Path) -> None:
    made = [craft.ethernet(craft.ipv4(craft.udp(b"dns"), protocol=17)), craft.ethernet(b"", 0x0806)]
    result = run("pcap", write(tmp_path / "udp.pcap", made), "--json")
    assert (result.code, result.raw) == (0, b"")
    assert "1 UDP" in result.err
    assert "1 ARP" in result.err
    assert "there is no TCP in it" in result.err


def test_a_capture_without_packets_is_no_error(run: Run, tmp_path: Path) -> None:
    write_pcap(tmp_path / "none.pcap", [])
    result = run("pcap", tmp_path / "none.pcap")
    assert (result.code, result.raw) == (0, b"")
    assert "0 read" in result.err


def test_a_limit_can_be_changed_by_its_name(run: Run, captures: Path) -> None:
    shuffled = str(captures / "rabbitmq-stream" / "d_shuffled_dups.pcap")
    assert "limits" not in run("pcap", shuffled, "--summary").err
    strict = run("pcap", shuffled, "--summary", "--limit", "buffered_segments=0", "--limit", "gap_seconds=0.5")
    assert strict.code == 0
    assert "buffered_segments" in strict.err


@pytest.mark.parametrize("wrong", ["nonsense=1", "gap_seconds=soon", "gap_seconds", "buffered_bytes=-1"])
def test_a_wrong_limit_is_one_line(run: Run, captures: Path, wrong: str) -> None:
    found = run("pcap", str(captures / "rabbitmq-stream" / "c43_basic.pcap"), "--limit", wrong)
    assert found.code == 2
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [("--gap-timeout", "1e300"), ("--gap-timeout", "inf"), ("--limit", "gap_seconds=inf"), ("--from", "-1e300")],
    ids=" ".join,
)
def test_an_impossible_time_is_refused(run: Run, basic: Path, words: tuple[str, ...]) -> None:
    result = run("pcap", basic, "--summary", *words)
    assert result.code == 2
    assert words[0] in result.err
    assert "internal error" not in result.err
