"""Live captures of real traffic on this machine; tests that it cannot run are skipped, with the reason."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import run as run
from tests.support import Part
from wiredecode.capture.live.privileges import missing_right

SECONDS = 30.0
"""Longest wait for anything here."""


@pytest.fixture
def rights() -> None:
    """The right to capture."""
    if reason := missing_right():
        pytest.skip(f"no live capture here: {reason}")


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def until(what: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def family(process: int) -> Iterator[int]:
    """A process and its descendants."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it may have ended
            for child in children.read_text().split():
                yield from family(int(child))


def listening() -> int:
    """Packet sockets of this process and its children that are bound and running."""
    rows = [line.split() for line in Path("/proc/net/packet").read_text().splitlines()[1:]]
    running = {f"socket:[{row[8]}]" for row in rows if row[5] == "1"}
    held: set[str] = set()
    for process in family(os.getpid()):
        with suppress(OSError):  # it may have ended, or belong to another user
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    held.add(str(descriptor.readlink()))
    return len(running & held)


@contextmanager
def once_listening(traffic: Callable[[], None]) -> Iterator[None]:
    """Call ``traffic`` in a thread as soon as one more packet socket is open than now."""
    before = listening()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            until(lambda: listening() > before)
            traffic()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening TCP socket on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def say_again(parts: list[Part], server: socket.socket) -> None:
    """Send what both sides of a capture said once more, over real connections to ``server``, and close them."""
    with ExitStack() as stack:
        talks: dict[int, tuple[socket.socket, socket.socket]] = {}
        for part in parts:
            if part.connection not in talks:
                client = stack.enter_context(socket.create_connection(server.getsockname()))
                accepted = stack.enter_context(server.accept()[0])
                talks[part.connection] = client, accepted
            sender, receiver = talks[part.connection][part.side], talks[part.connection][1 - part.side]
            for at in range(0, len(part.data), 16384):
                piece = part.data[at : at + 16384]
                sender.sendall(piece)
                left = len(piece)
                while left:
                    left -= len(receiver.recv(left))


@pytest.fixture
def nats() -> Iterator[int]:
    """The port of a real nats-server."""
    needs("nats-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    words = ["nats-server", "-a", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: _answers(port))
            yield port
        finally:
            server.kill()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def namespace() -> Iterator[str]:
    """A separate network namespace with a veth pair, ``left`` and ``right``."""
    needs("ip")
    name = f"wiredecode-{time.monotonic_ns()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace here: {made.stderr.strip()}")
    try:
        steps = [
            "link add left type veth peer name right",
            "link set left mtu 65535 arp off addrgenmode none up",
            "link set right mtu 65535 arp off addrgenmode none up",
        ]
        for step in steps:
            done = subprocess.run(["ip", "-n", name, *step.split()], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no veth pair here: {done.stderr.strip()}")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
