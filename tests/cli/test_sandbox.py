"""``--sandbox``: commands behave the same, and injected code can do almost nothing."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.live.test_rights import NOBODY, in_a_child
from wiredecode.cli import sandbox

needs_landlock = pytest.mark.skipif(not sandbox.version(), reason="this kernel has no landlock")
COMMAND = [sys.executable, "-m", "wiredecode"]


def wiredecode(*words: object, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [*COMMAND, *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, cwd=cwd, env=environment, timeout=120)


@needs_landlock
@pytest.mark.parametrize(
    "words",
    [
        ("pcap", "FILE", "--json", "-q"),
        ("export", "FILE", "-o", "lake", "--format", "parquet", "--level", "messages", "--partition-by", "topic"),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (
                ("check", "FILE"),
                ("sql", "FILE", "select count(*) from frames"),
                ("stats", "FILE", "-q"),
                ("export", "FILE", "-o", "out.parquet"),
                ("report", "FILE", "-o", "out.html"),
                ("anonymize", "FILE", "-o", "out.pcapng", "--key", "FILE"),
                ("pcap", "FILE", "-w", "out.pcapng", "--summary-json", "totals.json"),
            )
        ),
    ],
    ids=" ".join,
)
def test_commands_do_the_same_in_the_sandbox(
    captures: Path, tmp_path: Path, words: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = captures / "rabbitmq-stream" / "c43_basic.pcap"
    given = [str(file) if word == "FILE" else word for word in words]
    folders = [tmp_path / "free", tmp_path / "confined"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[0])
    free, confined = run(*given), wiredecode(*given, "--sandbox", cwd=folders[1])
    assert (confined.returncode, confined.stdout) == (free.code, free.raw)
    assert confined.stderr.count(b"\n") == free.err.count("\n")
    first, second = ({str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in folders)
    assert first == second
    assert not list(tmp_path.glob("wiredecode-*"))


@needs_landlock
def test_saved_filters_and_settings_count_in_the_sandbox(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wiredecode").mkdir()
    settings = '[filters]\nsecond = "frame.number == 2"\n'
    (tmp_path / "wiredecode" / "config.toml").write_text('time = "epoch"\n' + settings)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = captures / "rabbitmq-stream" / "c43_basic.pcap"
    words = ("pcap", file, "-Y", "@second", "--summary", "-q")
    confined = wiredecode(*words, "--sandbox", cwd=tmp_path)
    assert (confined.returncode, confined.stdout) == (0, wiredecode(*words, cwd=tmp_path).stdout)
    assert confined.stdout.split()[1].startswith(b"1795203900.")


@needs_landlock
def test_files_and_programs_that_were_not_named_are_inaccessible(tmp_path: Path) -> None:
    """As a user without privileges, trying what injected code would try."""
    tmp_path.chmod(0o755)
    allowed, other, outputs = tmp_path / "in.pcap", tmp_path / "other", tmp_path / "outputs"
    for path in (allowed, other):
        path.write_bytes(b"x")
        path.chmod(0o644)
    outputs.mkdir(mode=0o777)
    outputs.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)

    def work() -> None:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        server = socket.create_server(("127.0.0.1", 0))
        sandbox.confine([allowed], [outputs / "out.json"])
        assert allowed.read_bytes() == b"x"
        (outputs / "out.json").write_bytes(b"y")
        (outputs / "out.json").rename(outputs / "renamed")
        for refused in (
            other.read_bytes,
            lambda: (tmp_path / "new").write_bytes(b""),
            lambda: allowed.write_bytes(b""),
            lambda: list(tmp_path.iterdir()),
            lambda: Path("/etc/hostname").read_bytes(),
            lambda: (outputs / "renamed").rename(tmp_path / "renamed"),
            lambda: (outputs / "link").symlink_to("/etc"),
            lambda: os.execv("/bin/true", ["true"]),
        ):
            with pytest.raises((PermissionError, OSError)) as error:
                refused()
            assert error.value.errno in (1, 13, 18)
        if sandbox.version() >= 4:
            with pytest.raises(PermissionError), socket.socket() as client:  # the socket, with pyseccomp
                client.connect(server.getsockname())
        if sandbox.version() >= 6:
            with pytest.raises(PermissionError):
                os.kill(os.getppid(), 0)

    in_a_child(work)


def call(number: int, *arguments: object) -> int:
    """A system call of x86-64. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(ctypes.c_long(number), *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def clone(flags: int) -> None:
    """A process in another namespace, which ends immediately."""
    if call(56, flags | signal.SIGCHLD, None, None, None, None) == 0:
        os._exit(0)


def escapes(path: Path) -> dict[str, Callable[[], object]]:
    """Actions that code injected into root's capture would try on root's files."""

    def run_memory() -> None:
        program = os.memfd_create("program")
        os.write(program, Path("/bin/true").read_bytes())
        os.execve(program, ["true"], {})

    return {
        "execve of a memory file": run_memory,
        "namespace": lambda: clone(0x10000000),
        "inotify": lambda: call(254, call(294, 0), str(path).encode(), 1),
        "shared memory": lambda: call(29, 12345, 4096, 0o1600),
        "io_uring": lambda: call(425, 1, bytes(128)),
        "userfaultfd": lambda: call(323, 0),
        "a key": lambda: call(248, b"user", b"name", b"value", 5, -3),
        "/proc/1/environ": lambda: Path("/proc/1/environ").read_bytes(),
        "a file through /proc/self/root": lambda: Path("/proc/self/root/etc/shadow").read_bytes(),
        "a Unix socket": lambda: socket.socket(socket.AF_UNIX),
        "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "chmod": lambda: path.chmod(0o777),
        "utime": lambda: os.utime(path, (1, 2)),
        "setxattr": lambda: os.setxattr(path, "user.name", b"value"),
        "chown": lambda: os.chown(path, 1234, 2345),
        "chroot": lambda: os.chroot("/usr"),
        "setuid": lambda: os.setuid(1234),
        "a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    }


@needs_landlock
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
@pytest.mark.parametrize("seccomp", [True, False], ids=["seccomp", "without seccomp"])
def test_root_in_the_sandbox_has_no_root_privileges(
    tmp_path: Path, seccomp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seccomp:
        pytest.importorskip("pyseccomp", exc_type=(ImportError, RuntimeError))
        allowed = set()
    else:
        monkeypatch.setitem(sys.modules, "pyseccomp", None)
        allowed = {"execve of a memory file", "chmod", "utime", "setxattr", "namespace", "inotify", "shared memory"}
        allowed |= {"io_uring", "userfaultfd", "a key", "a Unix socket", "UDP"}
    path = tmp_path / "file"
    path.touch()

    def work() -> None:
        sandbox.confine([path], [tmp_path / "out"])
        for name, attempt in escapes(path).items():
            if name not in allowed:
                with pytest.raises(PermissionError):
                    attempt()

    in_a_child(work)


def test_a_kernel_without_landlock_is_reported_in_one_line(
    run: Run, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "version", lambda: 0)
    found = run("pcap", captures / "rabbitmq-stream" / "c43_basic.pcap", "--sandbox")
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert "--sandbox needs landlock, which this kernel does not have" in found.err


def test_options_that_start_programs_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("sniff", "-i", "lo", "--via", "tcpdump", "--sandbox")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "leave out --via" in found.err


def test_spark_starts_java_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "confine", lambda *_, **__: None)
    found = run("spark", "in.pcap", "-o", "out", "--sandbox")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "leave out --sandbox" in found.err
