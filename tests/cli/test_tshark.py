"""Options of tshark work, or one line names the equivalent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wiredecode.capture import open_capture
from wiredecode.cli.options import UsageError
from wiredecode.cli.tshark import translate

CAPTURES = Path(__file__).parent.parent.parent / "captures"
BASIC = CAPTURES / "rabbitmq-stream/c43_basic.pcap"
PCAPNG = CAPTURES / "rabbitmq-stream/d_basic.pcapng"
PUBLISH = 'frame.type == "Publish"'

WORKS = {
    "{f}": "PeerProperties",
    "-r {f}": "PeerProperties",
    "-nr {f} -c 3": "PeerProperties",
    "-r {f} -V -c 1": "publicid",
    "-r {f} -x -c 1": "0000",
    "-r {f} -Y tcp.port==5552 -T text": "Publish",
    "-r {f} -c 2 -T tabs": "\t127.0.0.1:37492\t",
    "-r {f} -T fields -e frame.number -e ip.src": "1\t127.0.0.1",
    "-r {f} -T fields -e frame.number -e tcp.port -E header=y -E separator=, -E occurrence=f": (
        "frame.number,tcp.port\n1,"
    ),
    "-r {f} -T json": '[{"frame":1,',
    "-r {f} -T ek": '{"frame":1,',
    "-r {f} -2 -l -t ad -T text -c 1": "2026-",
    "-r {f} -d tcp.port==5552,rabbitmq_stream -c 1": "PeerProperties",
    "-r {f} -q -z conv,tcp": "connections",
    "-r {f} -q -z conv,tcp,tcp.stream==1": "connections",
    "-r {f} -q -z io,phs": "frames",
    "-r {f} -q -z scsi,srt,0": "latency",
    "-r {f} -q -z rpc,srt,100003,3": "latency",
    "-r {f} -q -z expert": "note[",
    "-r {f} -q -z expert,error": "",
    "-r {f} -q -z expert,tcp.stream==2": "note[",
    "-r {f} tcp.port==5552": "PeerProperties",
    '-r {f} -T text frame.type == "Publish"': "Publish",
    "-r {f} -q -z follow,tcp,ascii,1": "Connection #2",
    "-r {f} --color -c 1": "\x1b[1mFrame 1",
    "-r {f} -T fields -e tcp.len -e tcp.flags -c 1": "117\t0x0018",
    "-D": "NAME",
    "-v": "wiredecode ",
}
"""Options, and text of their output; ``{{f}}`` is a capture."""
FIRST_TEN = (
    "-r {f}",
    "-r {f} -Y tcp.port==5552 -T text",
    "-r {f} -V -c 1",
    "-r {f} -x -c 1",
    "-r {f} -c 2 -T tabs",
    "-r {f} -T fields -e frame.number -e ip.src",
    "-r {f} -T json",
    "-r {f} -q -z conv,tcp",
    "-r {f} -q -z io,phs",
    "-D",
)
"""The first ten things that a user of tshark types: read, filter, details, bytes, columns, fields, JSON, conversations,
protocols, interfaces. All of them work."""
WAYS = {
    "-r {f} -R tcp": "-R is -Y here",
    "-r {f} -o tcp.desegment_tcp_streams:FALSE": "--limit",
    "-r {f} -N mnt": "leave -N out",
    "-r {f} -q -z conv,udp": "wiredecode stats FILE counts",
    "-r {f} -q -z endpoints,ip": "--table connections",
    "-r {f} -O tcp": "-T fields",
    "-r {f} -P": "leave -P out",
    "-r {f} -T fields -e tcp.analysis.initial_rtt": "handshake_ns from connections",
    "-r {f} -q -z conv,ip": "--table connections",
    "-r {f} -Y ip.ttl<64": "tshark has those of packets",
    "-r {f} -c x": "a whole number is needed",
    "-r {f} -c 0": "give at least 1",
    "sql {f}": "a query comes after the capture",
    "metrics {f} --otlp nowhere": "--otlp nowhere: an address",
    "wireshark -o /nonexist/x.lua": "there is no folder /nonexist",
    "-r {f} -T psml": "-T pdml",
    "-r {f} -T fields": "-e NAME",
    "-r {f} -T fields -e frame.cap_len": "select packet, captured from packets",
    "-r {f} -Y frame.time_delta_displayed>1": "-e frame.time_delta_displayed",
    "-r {f} -T fields -e frame.typ": "did you mean 'frame.type'?",
    "-r {f} -T fields -e frame.type -E headers=y": "header=y|n",
    "-r {f} -e frame.type": "-T fields",
    "-r {f} -z smb,nosuch,1,2": "wiredecode stats FILE",
    "-r {f} -z io,stat,1": "--table throughput",
    "-r {f} -z http,tree": "wiredecode stats FILE counts",
    "-r {f} -z kafka,tree": "wiredecode stats FILE counts",
    "-r {f} -z endpoints,tcp": "--table connections",
    "-r {f} -z follow,tcp,yaml,1": "wiredecode stats FILE counts",
    "-r {f} -z follow,tcp,ascii,1,2": "wiredecode stats FILE counts",
    "-r {f} -z smb,srt,smb.file": "wiredecode stats FILE counts",
    "-r {f} -Y tcp tcp.port==5552": "join it with that of -Y",
    "-r {f} -d 5552": "names no protocol, as in 5552=rabbitmq_stream",
    "-r {f} -M 5": "leave -M out",
    "-r {f} -A user:word": "rpcap",
    "pcap {f} tcp.port==5552": "tcp.port==5552: does not exist; a display filter goes with -Y",
    "-r {f} -G fields": "wiredecode fields",
    "-r {f} -d udp.port==53,dns": "tcp.port==PORT,PROTOCOL",
    "-r {f} -F pcap -w o": "pcapng",
    "-r {f} -b filesize:1000": "--ring-size",
    "-r {f} --export-objects http,out": "--level messages",
    "-r {f} publish": "-Y: no field is called 'publish'",
    "-r {f} -i lo": "wiredecode sniff",
    "pcap -i lo": "wiredecode sniff",
    "-r {f} -t x": "--time",
    "-r {f} --whole-connections": "-w",
    "-r": "needs a value",
    "-r {f} --follow-file -w o": "exclude each other",
    "statz": "No such command",
}
"""Each of them ends with exit code 2 and one line that holds this."""


def words(text: str) -> list[str]:
    return [word.replace("{f}", str(BASIC)) for word in text.split()]


@pytest.mark.parametrize("typed", WORKS)
def test_options_that_work(typed: str, run: Run) -> None:
    result = run(*words(typed))
    assert result.code == 0, result.err
    if typed == "-r {f} -V -c 1":
        assert result.raw == run("pcap", BASIC, "--full", "-c", 1).raw
    else:
        assert WORKS[typed] in result.out


def test_the_ten_most_common_command_lines_work() -> None:
    assert len(set(FIRST_TEN)) == 10
    assert set(FIRST_TEN) <= set(WORKS)


@pytest.mark.parametrize("typed", WAYS)
def test_options_with_another_equivalent(typed: str, run: Run) -> None:
    result = run(*words(typed))
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[1:] == [] or "-Y: " in result.err  # which shows the place
    assert WAYS[typed] in result.err


def test_a_file_without_options_shows_pcap_output(run: Run) -> None:
    assert run(BASIC, "-q").raw == run("pcap", BASIC, "-q").raw
    assert run("pcap", "-r", BASIC, "-q", "--json").raw == run("-r", BASIC, "-qT", "ek").raw
    assert run("export", "-r", BASIC, "-o", "-", "--format", "ndjson").code == 0


def test_an_array_of_records_is_json_with_and_without_frames(run: Run) -> None:
    assert [each["frame"] for each in json.loads(run("-r", BASIC, "-T", "json", "-c", 3).raw)] == [1, 2, 3]
    assert json.loads(run("-r", BASIC, "-T", "json", "-Y", "frame.length > 999999").raw) == []


def test_fields_equal_those_of_records(run: Run) -> None:
    """Numbers, names, times, arrays, values from other frames, missing values."""
    names = ["frame.number", "frame.time", "frame.type", "frame.response", "rabbitmq_stream.messages.publishing_id"]
    typed = [word for name in names for word in ("-e", name)]
    lines = run("-r", BASIC, "-q", "-T", "fields", *typed).lines
    for line, record in zip(lines, map(json.loads, run("pcap", BASIC, "-q", "--json").lines), strict=True):
        messages = record["layers"]["rabbitmq_stream"].get("messages", [])
        ids = ",".join(str(each["publishing_id"]) for each in messages) if record["type"] == "Publish" else ""
        expected = [record["frame"], record["time"], record["type"], record["response"], ids]
        found = line.split("\t")
        assert found[:4] == ["" if each is None else str(each) for each in expected[:4]]
        if record["type"] == "Publish":
            assert found[4] == ids


def test_control_characters_in_fields_are_escaped_and_quotes_doubled(run: Run) -> None:
    from wiredecode.view.fieldlines import in_quotes
    from wiredecode.view.times import seconds_text

    assert in_quotes('a"b', '"') == '"a""b"'
    assert (seconds_text(-1, 9), seconds_text(1_234_567_890, 9)) == ("-0.000000001", "1.234567890")
    path = CAPTURES / "nats/06-headers.pcap"
    out = run("-r", path, "-q", "-T", "fields", "-e", "nats.payload", "-e", "frame", "--bytes", "text").out
    assert all(character.isprintable() or character in "\t\n" for character in out)


def test_layers_are_those_of_the_packets(run: Run) -> None:
    """Issue 63: ``ip`` was true of IPv6, too, and ``-e ip`` printed an object of Python."""
    for text, count in (
        ("ip", 142),
        ("ipv6", 0),
        ("tcp", 142),
        ("_ws.malformed", 0),
        ("!arp && !udp && tcp.port == 5552", 142),
        ("udp || arp", 0),
        ('frame.protocols contains "stream"', 142),
        ('tcp.payload contains "c43_basic:m:0"', 2),
        ('ip.src_host == "127.0.0.1"', 75),
    ):
        assert len(run("-r", BASIC, "-q", "-T", "text", "-Y", text).lines) == count
    names = ("frame.time_delta_displayed", "frame.protocols", "ip.src_host", "ip", "ipv6", "_ws.malformed")
    typed = [word for name in names for word in ("-e", name)]
    lines = run("-r", BASIC, "-q", "-c", "2", "-T", "fields", *typed).lines
    assert lines == [
        "0.000000000\trabbitmq_stream\t127.0.0.1\tip\t\t",
        "0.001640000\trabbitmq_stream\t127.0.0.3\tip\t\t",
    ]
    export = ("export", BASIC, "--level", "packets", "-o", "-", "--format", "ndjson", "-q", "-Y")
    assert (len(run(*export, "ip").lines), len(run(*export, "ipv6").lines)) == (230, 0)


def test_amqp_means_all_its_versions(run: Run) -> None:
    """It found nothing of AMQP 0-9-1, as only AMQP 1.0 has fields of that name."""
    path = CAPTURES / "amqp091/heartbeat.pcap.zst"
    every = len(run("-r", path, "-q", "-T", "text", "-Y", "amqp091").lines)
    assert len(run("-r", path, "-q", "-T", "text", "-Y", "amqp && !arp && !dns").lines) == every > 5
    assert "begin with amqp091" in run("-r", path, "-Y", "amqp.method.class == 60").err


@pytest.fixture
def tshark() -> str:
    found = shutil.which("tshark")
    if found is None:
        assert not os.environ.get("CI"), "tshark has to be there"
        pytest.skip("tshark is not installed")
    return found


def asked(tshark: str, path: Path, *fields: str) -> list[list[str]]:
    typed = [word for name in fields for word in ("-e", name)]
    command = [tshark, "-r", str(path), "-T", "fields", *typed]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in output.splitlines()]


SHAPE = "frame.time_epoch", "frame.len", "tcp.stream", "tcp.seq_raw", "tcp.payload"


@pytest.mark.parametrize(
    "name",
    [
        "rabbitmq-stream/c43_basic.pcap",
        pytest.param("rabbitmq-stream/d_basic.pcapng", marks=pytest.mark.slow),
        "nats/08-pipelined-small.drop1pct.pcap",
    ],
)
def test_exactly_the_packets_of_matching_frames_are_written(name: str, run: Run, tmp_path: Path, tshark: str) -> None:
    path, out, text = CAPTURES / name, tmp_path / "out.pcapng", "frame.length > 60"
    records = [json.loads(line) for line in run("pcap", path, "-q", "--json", "-Y", text).lines]
    frames: dict[int, list[int]] = {}
    for record in records:
        for packet in record["packets"]:
            frames.setdefault(packet, []).append(record["frame"])
    assert run("-r", path, "-Y", text, "-w", out).code == 0
    every, written = asked(tshark, path, *SHAPE), asked(tshark, out, *SHAPE)
    numbers = sorted(frames)
    assert 0 < len(numbers) < len(every)
    index = [0, 1, 3, 4]  # streams are numbered anew
    assert [[row[at] for at in index] for row in written] == [[every[n - 1][at] for at in index] for n in numbers]
    comments = [row[0] for row in asked(tshark, out, "frame.comment")]
    assert all(f" {frame} (" in text for text, n in zip(comments, numbers, strict=True) for frame in frames[n][:20])


def test_comments_hold_findings(run: Run, tmp_path: Path, tshark: str) -> None:
    out = tmp_path / "out.pcapng"
    assert run("-r", CAPTURES / "rabbitmq-stream/c43_errors.pcap", "-Y", "finding", "-w", out, "-q").code == 0
    found = [row[0] for row in asked(tshark, out, "frame.comment")]
    assert any("note: the request was refused: Stream does not exist" in text for text in found)


@pytest.mark.parametrize(
    "name",
    [
        "rabbitmq-stream/c43_basic.pcap",
        pytest.param("rabbitmq-stream/d_basic.pcapng", marks=pytest.mark.slow),
        "nats/22-port-reuse-abort.pcap",
    ],
)
def test_whole_connections_reassemble_to_the_same_frames(name: str, run: Run, tmp_path: Path, tshark: str) -> None:
    path, out = CAPTURES / name, tmp_path / "out.pcapng"
    whole = [json.loads(line) for line in run("pcap", path, "-q", "--json").lines]
    chosen = whole[len(whole) // 2]
    picked = ("-Y", f"frame.number == {chosen['frame']}", "-c", 1)
    assert run("-r", path, *picked, "-w", out, "--whole-connections").code == 0
    again = [json.loads(line) for line in run("pcap", out, "-q", "--json").lines]
    expected = [each for each in whole if each["connection"] == chosen["connection"]]
    kept = "time_ns", "src", "dst", "type", "layers", "offset", "latency_ns"
    assert [[each[key] for key in kept] for each in again] == [[each[key] for key in kept] for each in expected]
    streams = {row[0] for row in asked(tshark, out, "tcp.stream")}
    assert streams == {"0"}
    flags = [row[0] for row in asked(tshark, out, "tcp.flags.syn")]
    before = [
        row for row in asked(tshark, path, "tcp.flags.syn", "tcp.stream") if row[1] == str(chosen["connection"] - 1)
    ]
    assert flags == [row[0] for row in before], "all its packets, handshake and end included"


def test_all_packets_are_written_without_a_filter(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    result = run("-r", BASIC, "-w", out)
    assert (result.code, result.out) == (0, "")
    assert f"{out}: 230 packets, 142 frames" in result.err
    assert [batch.time_ns.tolist() for batch in open_capture([BASIC])] == [
        batch.time_ns.tolist() for batch in open_capture([out])
    ]


def test_unwritable_output_is_one_line(run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "a.pcap"
    copy.write_bytes(BASIC.read_bytes())
    before = copy.read_bytes()
    for typed, answer in (
        ((copy, "-w", copy), "is an input"),
        (("-", "-w", tmp_path / "b", "-Y", "tcp"), "standard input can be read once"),
        ((copy, "-w", tmp_path / "none" / "b"), "there is no folder"),
        ((copy, "-w", "-"), "needs a file"),
    ):
        result = run(*typed)
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
        assert answer in result.err
    assert copy.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.pcap"]


def test_packets_before_the_damage_are_written(run: Run, tmp_path: Path) -> None:
    cut, out = tmp_path / "cut.pcap", tmp_path / "out.pcapng"
    cut.write_bytes(BASIC.read_bytes()[:-7])
    assert run("-r", cut, "-Y", "tcp", "-w", out, "-q").code == 2
    assert run("pcap", out, "--json", "-q").lines


@pytest.mark.parametrize(
    ("capture", "empty"),
    [
        pytest.param(BASIC, True, id="pcap-an-empty-file", marks=pytest.mark.slow),
        pytest.param(PCAPNG, False, id="pcapng-half-a-packet"),
        pytest.param(BASIC, False, id="pcap-half-a-packet", marks=pytest.mark.slow),
        pytest.param(PCAPNG, True, id="pcapng-an-empty-file", marks=pytest.mark.slow),
    ],
)
def test_a_file_that_grows_is_followed_until_ctrl_c(capture: Path, empty: bool, tmp_path: Path) -> None:
    data, grown = capture.read_bytes(), tmp_path / "grown.pcap"
    at_once = [sys.executable, "-m", "wiredecode", str(capture), "-T", "text", "-q"]
    whole = subprocess.run(at_once, capture_output=True, text=True, check=True).stdout.splitlines()
    grown.write_bytes(b"" if empty else data[:1001])
    command = [sys.executable, "-m", "wiredecode", str(grown), "--follow-file", "-T", "text", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        with grown.open("ab") as more:
            more.write(data[grown.stat().st_size : 9001])
        lines = [running.stdout.readline()]
        with grown.open("ab") as more:
            more.write(data[9001:])
        lines += [running.stdout.readline() for _ in whole[1:]]
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=60)
    assert [line.split()[:8] for line in lines] == [line.split()[:8] for line in whole]
    assert (rest, running.returncode) == ("", 130), errors


def test_only_one_existing_file_can_be_followed(run: Run) -> None:
    for files in (["-"], [BASIC, BASIC], ["nowhere.pcap"]):
        result = run("pcap", *files, "--follow-file")
        assert (result.code, result.err.count("\n")) == (2, 1)


def test_sniff_stops_like_tshark() -> None:
    words = ["sniff", "-i", "lo", "-a", "duration:2.5", "-a", "packets:7", "-s", "96", "-B", "3"]
    assert translate(words, {}) == [*words[:3], "--duration", "2.5", "-c", "7", *words[-4:]]
    with pytest.raises(UsageError, match="--duration SECONDS"):
        translate(["sniff", "-a", "files:2"], {})
