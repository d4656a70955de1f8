"""``wiredecode sniff`` on loopback and on a veth pair, with real traffic."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import wiredecode
from tests.cli.conftest import Run
from tests.live.conftest import SECONDS, listening, needs, once_listening, say_again, until
from tests.net import craft
from tests.pcap import write_pcap
from tests.support import Part, capture, dialogue
from wiredecode.capture import open_capture
from wiredecode.check import Checker
from wiredecode.net.link import LINKTYPE_LINUX_SLL2

pytestmark = pytest.mark.usefixtures("rights")

ALIKE = ("type", "code", "status", "sender", "offset", "length", "protocol", "dialect", "layers")
"""Columns of frames that do not depend on time and addresses."""


def parts(captures: Path, name: str = "c43_basic.pcap") -> list[Part]:
    return dialogue(capture(captures / "rabbitmq-stream" / name))


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def packets(paths: list[Path]) -> list[tuple[int, bytes, int]]:
    """(time, bytes, original length) of all packets in some files."""
    found = []
    for path in paths:
        for batch in open_capture([path]):
            columns = (batch.time_ns, batch.start, batch.captured, batch.original)
            for time_ns, start, size, original in zip(*(column.tolist() for column in columns), strict=True):
                found.append((time_ns, batch.buffer[start : start + size], original))
    return found


def test_a_replayed_dialogue_gives_the_same_frames_live_and_saved(
    run: Run, captures: Path, listener: socket.socket, tmp_path: Path
) -> None:
    said = parts(captures)
    port = listener.getsockname()[1]
    expected = rows(run("pcap", captures / "rabbitmq-stream" / "c43_basic.pcap", "--json", "-q").out)
    options = ["--json", "-d", f"{port}=rabbitmq_stream", "--summary-json", tmp_path / "totals.json"]
    saved = tmp_path / "saved.pcapng"
    with once_listening(lambda: say_again(said, listener)):
        live = run("sniff", "-i", "lo", "-f", f"tcp port {port}", "--duration", 1, "-w", saved, *options)
    assert live.code == 0
    found = rows(live.out)
    assert len(found) == len(expected) > 100

    def dialogues(frames: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps([[frame["connection"], *(frame[key] for key in ALIKE)]]) for frame in frames)

    assert dialogues(found) == dialogues(expected)
    totals = json.loads((tmp_path / "totals.json").read_text())
    assert totals["capture"] == {**dict.fromkeys(("received", "saved"), totals["packets"]["read"]), **NOTHING_LOST}
    assert totals["payload"]["missing"] == totals["payload"]["duplicate"] == 0, "loopback shows every packet twice"
    again = run("pcap", saved, *options[:3], "--summary-json", tmp_path / "again.json")
    assert again.raw == live.raw
    del totals["capture"]
    assert json.loads((tmp_path / "again.json").read_text()) == totals


NOTHING_LOST = {"dropped": 0, "skipped": 0}


def test_count_ends_the_capture_and_summary_shows_lines(run: Run, captures: Path, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    words = ["-f", f"tcp port {port}", "-d", f"{port}=rabbitmq_stream", "--summary"]
    with once_listening(lambda: say_again(parts(captures), listener)):
        result = run("sniff", "-i", "lo", *words, "-c", 5, "-Y", 'frame.type == "Tune"')
    assert result.code == 0
    assert len(result.lines) == 5
    assert all(" Tune " in line for line in result.lines)
    assert "stopped as requested" in result.err


@pytest.mark.parametrize("mode", [(), ("--hex",), ("--full",), ("-q", "-v"), ("--bytes", "sha256")])
def test_live_trees_equal_those_of_a_file(
    run: Run, captures: Path, listener: socket.socket, mode: tuple[str, ...]
) -> None:
    port = listener.getsockname()[1]
    said = parts(captures)[:8]
    with once_listening(lambda: say_again(said, listener)):
        result = run("sniff", "-i", "lo", "-f", f"tcp port {port}", "-p", "-c", 6, "--color", "never", *mode)
    assert sum(line.startswith("Frame ") for line in result.lines) == 6
    assert ("  000000 " in result.out) == ("--hex" in mode)
    assert ("capture" in result.err) == ("-q" not in mode)


def test_a_snapshot_length_truncates_packets_and_is_reported(
    run: Run, captures: Path, listener: socket.socket, tmp_path: Path
) -> None:
    port = listener.getsockname()[1]
    saved = tmp_path / "saved.pcapng"
    with once_listening(lambda: say_again(parts(captures)[:6], listener)):
        run("sniff", "-i", "lo", "-f", f"tcp port {port}", "--snaplen", 70, "--duration", 0.5, "-w", saved, "--summary")
    sizes = [(len(data), original) for _, data, original in packets([saved])]
    assert max(size for size, _ in sizes) == 70
    assert any(original > 70 for _, original in sizes)
    assert next(iter(open_capture([saved]))).original.max() == max(original for _, original in sizes)


def test_a_ring_of_files_rotates_without_packets(run: Run, tmp_path: Path) -> None:
    words = ["--ring-seconds", 0.2, "--ring-files", 2, "--duration", 0.7]
    result = run("sniff", "-i", "lo", "-f", "udp port 1", "--summary", "-w", tmp_path / "x.pcapng", *words)
    assert result.code == 0
    files = sorted(path.name[:7] for path in tmp_path.iterdir())
    assert len(files) == 2
    assert files[-1] > "x_00002"
    assert "0 saved in 2 files" in result.err


def test_a_file_that_cannot_be_created(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.pcapng"
    result = run("sniff", "-i", "lo", "-w", path)
    assert (result.code, result.err) == (2, f"wiredecode: {path}: cannot be written: No such file or directory\n")


def test_any_is_all_interfaces_and_loopback_once(
    run: Run, captures: Path, listener: socket.socket, tmp_path: Path
) -> None:
    port = listener.getsockname()[1]
    saved = tmp_path / "saved.pcapng"
    with once_listening(lambda: say_again(parts(captures)[:6], listener)):
        result = run(
            "sniff", "-i", "any", "-f", f"tcp port {port}", "--duration", 0.5, "-w", saved, "--summary",
            "--summary-json", tmp_path / "totals.json",
        )  # fmt: skip
    totals = json.loads((tmp_path / "totals.json").read_text())
    assert len(result.lines) >= 6
    assert totals["payload"]["duplicate"] == 0
    batch = next(iter(open_capture([saved])))
    assert set(batch.linktype.tolist()) == {LINKTYPE_LINUX_SLL2}
    protocol, index, hardware = struct.unpack_from("!HxxIH", batch.buffer, int(batch.start[0]))
    assert (protocol, index, hardware) == (0x0800, socket.if_nametoindex("lo"), 772)


@pytest.mark.parametrize("program", ["dumpcap", "tcpdump"])
def test_capturing_with_another_program(
    run: Run, captures: Path, listener: socket.socket, tmp_path: Path, program: str
) -> None:
    needs(program)
    port = listener.getsockname()[1]
    saved = tmp_path / "saved.pcapng"
    said = parts(captures)[:6]
    totals = tmp_path / "totals.json"
    words = ["-f", f"tcp port {port}", "-w", saved, "--json", "-q", "--summary-json", totals]
    with once_listening(lambda: say_again(said, listener)):
        live = run("sniff", "-i", "lo", "--via", program, "-c", 6, *words)
    assert live.code == 0
    assert len(live.lines) == 6
    assert json.loads(totals.read_text())["capture"]["received"] >= 6
    assert run("pcap", saved, "--json", "-q", "-c", 6).raw == live.raw


def test_errors_of_another_capture_program(run: Run) -> None:
    needs("tcpdump")
    result = run("sniff", "-i", "nope", "--via", "tcpdump", "--summary")
    assert result.code == 2
    assert result.err.startswith("wiredecode: nope (via tcpdump): tcpdump: nope: ")
    assert result.err.count("\n") == 1


SEND = """
import socket, sys
from wiredecode.capture import open_capture
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
    out.bind(("left", 0))
    for batch in open_capture([sys.argv[1]]):
        for start, size in zip(batch.start.tolist(), batch.captured.tolist()):
            out.send(batch.buffer[start : start + size])
"""


def replayed(namespace: str, path: Path, saved: Path) -> tuple[int, bytes, str]:
    """Sniff at one end of the veth pair, send at the other, end with Ctrl-C; return (exit code, output, errors)."""
    inside = ["ip", "netns", "exec", namespace, sys.executable]
    words = [*inside, "-m", "wiredecode", "sniff", "-i", "right", "-w", str(saved), "--json"]
    sniff = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(saved.exists)  # made after the socket
        subprocess.run([*inside, "-c", SEND, str(path)], check=True)
        count = len(packets([path]))
        until(lambda: saved.stat().st_size > 200 and len(saved_packets(saved)) >= count)
        sniff.send_signal(signal.SIGINT)
        out, err = sniff.communicate(timeout=SECONDS)
    finally:
        sniff.kill()
        sniff.wait()
    return sniff.returncode, out, err.decode()


def saved_packets(path: Path) -> list[tuple[int, bytes, int]]:
    return packets([path])


def test_captures_replayed_over_a_veth_pair_are_saved_unchanged(
    run: Run, captures: Path, namespace: str, tmp_path: Path
) -> None:
    """Ctrl-C ends the capture and prints the totals."""
    tagged = [craft.ethernet(packet[14:], vlans=[(0x8100, 5), (0x8100, 7)]) for packet in craft.Talk().handshake()]
    source = tmp_path / "all.pcap"
    sent = [data for _, data, _ in packets([captures / "rabbitmq-stream" / "c43_basic.pcap"])] + tagged
    sent += [data for _, data, _ in packets([captures / "nats" / "04-request-reply.pcap"])]
    write_pcap(source, enumerate(sent, 1))
    saved = tmp_path / "saved.pcapng"
    code, out, err = replayed(namespace, source, saved)
    assert (code, err.count("Traceback")) == (0, 0)
    assert [data for _, data, _ in packets([saved])] == sent
    assert f"capture   {len(sent)} received, 0 dropped by the kernel, {len(sent)} saved in saved.pcapng" in err
    assert "interrupted" not in err
    live = [frame["type"] for frame in rows(out.decode())]
    assert live == [frame["type"] for frame in rows(run("pcap", saved, "--json", "-q").out)]
    assert live.count("MSG") > 0 < live.count("Publish")


def test_frames_of_a_real_nats_server_appear_immediately(nats: int, tmp_path: Path) -> None:
    """Every line appears before another packet comes."""
    words = [sys.executable, "-m", "wiredecode", "sniff", "-i", "lo", "-f", f"tcp port {nats}", "--summary"]
    before = listening()
    sniff = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: listening() > before)
        lines = _lines(sniff)
        with socket.create_connection(("127.0.0.1", nats)) as client:
            client.settimeout(5)
            for sent, seen in (
                (b"", ["INFO"]),
                (b'CONNECT {"verbose":false}\r\nSUB greet 1\r\n', ["CONNECT", "SUB"]),
                (b"PUB greet 5\r\nhello\r\n", ["PUB", "MSG"]),
                (b"PING\r\n", ["PING", "PONG"]),
            ):
                client.sendall(sent)
                with ended_if_silent(sniff):
                    assert [next(lines).split()[7] for _ in seen] == seen
        sniff.send_signal(signal.SIGTERM)
        _, err = sniff.communicate(timeout=SECONDS)
    finally:
        sniff.kill()
        sniff.wait()
    assert sniff.returncode == 0
    assert "0 dropped by the kernel" in err


@contextmanager
def ended_if_silent(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that prints nothing in time, so that reading its output ends and the test fails."""
    guard = threading.Timer(SECONDS, process.kill)
    guard.start()
    try:
        yield
    finally:
        guard.cancel()


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    return iter(process.stdout.readline, "")


def test_a_slow_pipe_shows_frames_as_they_come(captures: Path) -> None:
    """Including an unanswered request and the last frame, before the pipe is closed."""
    path = captures / "rabbitmq-stream" / "c43_basic.pcap"
    now = time.time_ns()
    found = [(now + i, data) for i, (_, data, _) in enumerate(packets([path])[:12])]
    expected = capture(path).frames
    words = [sys.executable, "-m", "wiredecode", "pcap", "-", "--json", "-q"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        seen = 0
        for index, (time_ns, data) in enumerate(found, 1):
            head = struct.pack("<IIII", *divmod(time_ns, 10**9), len(data), len(data))
            process.stdin.write(head + data[:5])
            process.stdin.flush()
            process.stdin.write(data[5:])
            process.stdin.flush()
            complete = [frame for frame in expected if max(frame.packets) <= index]
            for frame in complete[seen:]:
                with ended_if_silent(process):
                    assert json.loads(process.stdout.readline())["type"] == frame.type
                seen += 1
        assert seen >= 2
        assert os.waitpid(process.pid, os.WNOHANG) == (0, 0), "still waiting for more"
    finally:
        process.kill()
        process.communicate()


def test_the_interface_mode_is_the_requested_one() -> None:
    needs("ip")
    from wiredecode.capture.live.source import LiveOptions, RingSource

    def promiscuity() -> int:
        shown = subprocess.run(["ip", "-d", "-j", "link", "show", "lo"], capture_output=True, check=True)
        return int(json.loads(shown.stdout)[0]["promiscuity"])

    before = promiscuity()
    for promiscuous in (False, True):
        source = RingSource(LiveOptions("lo", promiscuous=promiscuous))
        assert promiscuity() == before + promiscuous
        source.close()
    assert promiscuity() == before


def test_drops_of_the_kernel_are_counted() -> None:
    """The ring is not read while more packets come than it holds."""
    from wiredecode.capture.live.source import LiveOptions, RingSource

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.connect(sender.getsockname())
        source = RingSource(LiveOptions("lo", f"udp port {sender.getsockname()[1]}", buffer_mib=1))
        for _ in range(2000):
            sender.send(bytes(1400))
        source.stop()
        read = sum(map(len, source.batches()))
        received, dropped = source.counts()
        source.close()
    assert received == 2000
    assert 0 < dropped < received
    assert read == received - dropped


def test_packets_before_the_filter_are_not_captured() -> None:
    """Packets pass all the time while the capture is opened."""
    from wiredecode.capture.live.source import LiveOptions, RingSource

    over = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.connect(sender.getsockname())

        def flood() -> None:
            while not over.is_set():
                sender.send(b"not for us")

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            for _ in range(10):
                source = RingSource(LiveOptions("lo", "udp port 1"))
                source.stop()
                assert sum(map(len, source.batches())) == 0
                assert source.counts() == (0, 0)
                source.close()
        finally:
            over.set()
            thread.join()


def test_check_of_a_live_interface(captures: Path, listener: socket.socket) -> None:
    """First a dialogue without errors; then a client sends HTTP to a port decoded as RabbitMQ Stream."""
    port = listener.getsockname()[1]
    spoken = {port: "rabbitmq_stream"}
    with wiredecode.watch("lo", ports=[port], decode_as=spoken) as seen:
        say_again(parts(captures), listener)
    assert "error" not in {each.severity for each in seen.problems} and seen.messages > 40 and seen.dropped == 0
    with (
        wiredecode.watch("lo", decode_as=spoken) as seen,
        socket.create_connection(("127.0.0.1", port)) as client,
        listener.accept()[0] as server,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
        server.recv(4096)
    assert [each.name for each in seen.problems][:1] == ["protocol.mismatch"]


def test_the_fixture_of_the_page_fails_a_test_with_a_problem_and_names_it(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    fixture = page.partition("```python\n")[2].partition("```")[0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "test_it.py").write_text(f"""import socket, pytest, wiredecode
{fixture.replace("5552", str(port))}
def test_quiet(no_problems):
    pass
def test_refused(no_problems):
    assert socket.socket().connect_ex(("127.0.0.1", {port}))
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert f"<error[tcp.refused] 127.0.0.1:{port} refused the connection>" in done.stdout, done.stdout


def test_bug_in_a_rule_fails_the_watching_block(
    captures: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a test that watches would pass with no problems."""
    port = listener.getsockname()[1]
    monkeypatch.setattr(Checker, "frame", Mock(side_effect=ZeroDivisionError))
    spoken = {port: "rabbitmq_stream"}
    with pytest.raises(ZeroDivisionError), wiredecode.watch("lo", ports=[port], decode_as=spoken):
        say_again(parts(captures), listener)
