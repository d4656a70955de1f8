"""Permission to capture, messages if it is missing, and invalid options."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from typer import Exit

from tests.cli.conftest import Run
from tests.live.conftest import needs
from wiredecode.capture.live import bpf, privileges
from wiredecode.capture.live.interfaces import LiveError
from wiredecode.capture.live.source import LiveOptions, RingSource
from wiredecode.cli import capturing

NOBODY = 65534


def has_net_raw() -> bool:
    """Whether CAP_NET_RAW is among the effective capabilities."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return bool(effective >> privileges._CAP_NET_RAW & 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-i", "lo", "--ring-size", 1), "--ring-size, --ring-seconds and --ring-files go with -w"),
        (("-i", "lo", "-w", "x", "--ring-files", 2), "--ring-files goes with --ring-size or --ring-seconds"),
        (("-i", "lo", "-w", "-"), "-w needs a file: standard output carries the frames"),
        (("-i", "lo", "--summary", "--json"), "--summary and --json exclude each other"),
        (("-i", "lo", "-f", "port port"), "-f 'port port': can't parse filter expression: syntax error"),
        (("-i", "lo", "-f", "vlan 5"), "-f with vlan: VLAN tags are taken out of packets"),
        (("-i", "nope"), "no interface is called 'nope'; there is"),
        (("-i", "lo", "-Y", "nats.nope"), "-Y: "),
    ],
)
def test_a_wrong_command_line_is_one_clear_line(run: Run, words: tuple[object, ...], message: str) -> None:
    result = run("sniff", *words)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith(f"wiredecode: {message}")


def test_options_reach_the_capture(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def opened(*words: object, saves: bool) -> None:
        asked.append(words)
        raise Exit(2)

    monkeypatch.setattr(capturing, "capturing", opened)
    words = ("--snaplen", 96, "--buffer", 7, "-f", "tcp", "-p", "--duration", 2.5)
    assert run("sniff", "-i", "lo", *words, "--via", "tcpdump").code == 2
    assert run("sniff", "-i", "any").code == 2
    assert asked == [
        (LiveOptions("lo", "tcp", promiscuous=False, snaplen=96, buffer_mib=7), "tcpdump", 2.5),
        (LiveOptions("any", "", promiscuous=True, snaplen=262_144, buffer_mib=32), None, None),
    ]


def test_the_shell_completes_interfaces() -> None:
    assert capturing.complete_interface("l") == [name for _, name in socket.if_nameindex() if name.startswith("l")]
    assert "any" in capturing.complete_interface("")


def test_without_permission_the_error_says_how_to_get_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = run("sniff", "-i", "lo")
    assert result.code == 2
    lines = result.err.splitlines()
    assert lines[0] == "wiredecode: cannot capture on lo: CAP_NET_RAW is missing"
    assert [word for word in ("sudo", "setcap cap_net_raw+ep", "--via dumpcap") if word in result.err] != []
    assert len(lines) == 4
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--cap-add=NET_RAW" in run("sniff", "-i", "lo").err


def test_the_capture_program_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = run("sniff", "-i", "lo", "--via", "dumpcap")
    assert result.code == 2
    assert result.err == "wiredecode: --via dumpcap: it cannot be started: No such file or directory\n"


def in_a_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a child process, which may drop its privileges."""
    if os.geteuid() != 0:
        pytest.skip("this needs root, to give rights away")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "fine"
        try:
            work()
        except BaseException:
            said = traceback.format_exc()
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert said == "fine", said


@pytest.mark.usefixtures("rights")
def test_root_by_sudo_becomes_the_caller_once_the_capture_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    monkeypatch.setattr(privileges, "_can_read", lambda *_: True)  # the installation may be root's only
    tmp_path.chmod(0o777)
    folder = os.open(tmp_path, os.O_RDONLY)

    def work() -> None:
        source = RingSource(LiveOptions("lo"))
        assert privileges.give_up() == ""
        assert os.getresuid() == os.getresgid() == (NOBODY,) * 3
        assert 0 not in os.getgroups()
        assert privileges.missing_right() == "CAP_NET_RAW is missing"
        assert not has_net_raw()
        os.fchdir(folder)
        made = Path("saved.pcapng")
        made.touch()
        assert made.stat().st_uid == NOBODY
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.1", 0))
            sender.sendto(b"seen", sender.getsockname())
        source.stop()
        assert sum(map(len, source.batches())) >= 1
        source.close()

    in_a_child(work)
    os.close(folder)


def status(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


def test_root_without_sudo_becomes_nobody_and_children_gain_no_privileges(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(privileges, "_can_read", lambda *_: True)
    monkeypatch.setattr(privileges, "_readable", lambda: True)

    def work() -> None:
        assert privileges.give_up() == ""
        assert os.getresuid() == os.getresgid() == (NOBODY,) * 3
        assert [status(name) for name in ("CapPrm", "CapEff", "NoNewPrivs")] == ["0" * 16, "0" * 16, "1"]
        with pytest.raises(PermissionError):
            os.setuid(0)

    in_a_child(work)


def test_root_that_saves_keeps_its_user_but_no_capability(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(privileges, "_readable", lambda: True)

    def work() -> None:
        assert privileges.give_up(saves=True) == ""
        (tmp_path / "saved").touch()
        assert [status(name) for name in ("CapPrm", "CapEff", "NoNewPrivs")] == ["0" * 16, "0" * 16, "1"]
        assert privileges.missing_right() == "CAP_NET_RAW is missing"

    in_a_child(work)


def test_a_capture_as_root_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    for name in ("_can_read", "_readable"):
        monkeypatch.setattr(privileges, name, lambda *_: True)

    def work() -> None:
        import subprocess

        with subprocess.Popen(["sleep", "60"]) as program:
            assert privileges.give_up(helper=True) == ""
            assert os.geteuid() == NOBODY
            assert int(status("CapPrm"), 16) == 1 << 5
            program.terminate()
            assert program.wait(30) == -15

    in_a_child(work)


def test_file_capabilities_are_dropped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a Python with cap_net_raw+ep: a user with this one capability."""
    monkeypatch.setattr(privileges, "_readable", lambda: True)

    def work() -> None:
        privileges._prctl(privileges._PR_SET_KEEPCAPS, 1)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        net_raw = 1 << privileges._CAP_NET_RAW
        privileges._set_capabilities(net_raw, net_raw)
        assert has_net_raw()
        assert privileges.give_up() == ""
        assert not has_net_raw()
        assert [status(name) for name in ("CapPrm", "NoNewPrivs")] == ["0" * 16, "1"]

    in_a_child(work)


@pytest.mark.usefixtures("rights")
def test_a_user_without_permission_is_refused() -> None:
    def work() -> None:
        os.setresuid(NOBODY, NOBODY, NOBODY)
        with pytest.raises(LiveError, match="cannot capture on lo: CAP_NET_RAW is missing") as refused:
            RingSource(LiveOptions("lo"))
        assert any("setcap" in line for line in refused.value.advice)

    in_a_child(work)


def test_it_stays_root_if_the_caller_cannot_import_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    monkeypatch.setenv("SUDO_GID", str(NOBODY))
    monkeypatch.setenv("SUDO_USER", "ann")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    monkeypatch.setattr(privileges.os, "__file__", str(locked / "os.py"))

    def work() -> None:
        assert privileges.give_up().startswith("stays root: ann cannot read the Python installation")
        assert os.geteuid() == 0

    in_a_child(work)


def test_interfaces_shows_addresses_and_permission_to_capture(run: Run) -> None:
    result = run("interfaces", "--json")
    found = {row["name"]: row for row in map(json.loads, result.lines)}
    assert result.code == 0
    assert found["lo"]["addresses"][0] == "127.0.0.1/8"
    assert (found["lo"]["state"], found["lo"]["link"], found["lo"]["linktype"]) == ("up", "Ethernet", 1)
    assert found["lo"]["capture"] is (privileges.missing_right() == "")
    assert found["any"]["link"] == "Linux cooked v2"
    assert set(found) == {name for _, name in socket.if_nameindex()} | {"any"}
    table = run("interfaces").lines
    assert table[0].split() == ["NAME", "STATE", "LINK", "CAPTURE", "ADDRESSES"]
    assert len(table) == len(found) + 1


def test_interfaces_are_listed_if_addresses_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    from wiredecode.capture.live.interfaces import devices

    def fenced_off() -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("ifaddr.get_adapters", fenced_off)
    found = {each.name: each for each in devices()}
    assert "lo" in found and found["lo"].addresses == ()


def test_an_interface_that_is_down_cannot_be_captured_on(namespace: str) -> None:
    needs("ip")
    import subprocess
    import sys

    subprocess.run(["ip", "-n", namespace, "link", "set", "right", "down"], check=True)
    inside = ["ip", "netns", "exec", namespace, sys.executable, "-m", "wiredecode"]
    listed = subprocess.run([*inside, "interfaces"], capture_output=True, text=True, check=True).stdout
    assert any(line.startswith("right ") and "no: is down" in line for line in listed.splitlines())
    sniff = subprocess.run([*inside, "sniff", "-i", "right"], capture_output=True, text=True, check=False, timeout=60)
    assert sniff.returncode == 2
    assert "right: can no longer be captured on: the interface is down or gone" in sniff.stderr


@pytest.mark.parametrize("ethernet", [True, False])
def test_a_capture_filter_is_compiled_for_the_link_type(ethernet: bool) -> None:
    try:
        program = bpf.compile_filter("tcp port 5552", ethernet=ethernet, snaplen=96)
    except LiveError as error:
        pytest.skip(str(error))
    assert len(program) % 8 == 0
    assert (b"\x0c\0\0\0" in program[:8]) is ethernet  # the ethertype is looked at first
    assert bpf.accept(96) in program


WATCHED = """
import os, sys, time
from pathlib import Path
from wiredecode.capture.live.source import HelperSource, LiveOptions
source = HelperSource("tcpdump", LiveOptions("lo"))
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
print(source._process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
SILENT = """#!{python}
import ctypes, pathlib, time
ctypes.CDLL(None).prctl(1, 0)  # as the kernel does when tcpdump changes its user
pathlib.Path({ready!r}).touch()
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl(2)")
def test_the_capture_program_ends_with_a_killed_wiredecode_without_packets(tmp_path: Path) -> None:
    program, ready = tmp_path / "tcpdump", str(tmp_path / "ready")
    program.write_text(SILENT.format(python=sys.executable, ready=ready))
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    killed = subprocess.run([sys.executable, "-c", WATCHED, ready], env=environment, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    status = Path(f"/proc/{int(killed.stdout)}/stat")
    for _ in range(200):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    pytest.fail("it is still running")
