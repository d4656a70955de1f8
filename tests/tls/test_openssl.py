"""TLS features that Python's ssl cannot produce: openssl's client and server with a recording relay between them."""

from __future__ import annotations

import re
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from tests.tls.test_tls import Said, certificate, decode, facts, folder, meaning, packets
from wiredecode.tls.keylog import KeyLog

__all__ = ["folder"]

PING = b'CONNECT {"verbose":false,"lang":"raw"}\r\nPING\r\n'
SAID: Said = [(0, PING), (1, b"+OK\r\n"), (0, b"SUB orders.> 17\r\n"), (1, b"+OK\r\n"), (0, b"PONG\r\n")]
"""No line begins with a letter that is a command of s_server or s_client."""
PATIENCE = 30


class Relay:
    """Forwards bytes between a client and a server, and records them with their sender."""

    def __init__(self, port: int) -> None:
        self.wire: Said = []
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        server = socket.create_connection(("127.0.0.1", self._server))
        with self._listener, self._listener.accept()[0] as client, server, suppress(OSError):
            ends = [client, server]
            while True:
                for end in select.select(ends, [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return
                    self.wire.append((ends.index(end), data))
                    ends[1 - ends.index(end)].sendall(data)

    def until(self, side: int, size: int = 0) -> int:
        """Wait until a side has sent more than ``size`` bytes; return their number."""
        limit = time.monotonic() + PATIENCE
        while (found := sum(len(data) for each, data in self.wire if each == side)) <= size:
            assert time.monotonic() < limit
            time.sleep(0.002)
        return found


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        ["openssl", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_text(process: subprocess.Popen[bytes], text: bytes) -> bytes:
    assert process.stdout is not None
    found = b""
    while text not in found:
        assert select.select([process.stdout], [], [], PATIENCE)[0], found
        more = process.stdout.read(1 << 16)
        assert more, found
        found += more
    return found


class Conversation:
    """One connection of s_client to s_server. Lines are sent through standard input, with CRLF added."""

    def __init__(self, folder: Path, client: list[str], server: list[str]) -> None:
        cert, key = certificate(folder)
        self.log = folder / f"openssl-{time.monotonic_ns()}.log"
        listen = ["s_server", "-accept", "127.0.0.1:0", "-cert", str(cert), "-key", str(key), "-crlf", *server]
        with running(*listen) as server_process:
            port = int(re.search(rb"ACCEPT 127.0.0.1:(\d+)", await_text(server_process, b"ACCEPT 127"))[1])  # type: ignore[index]
            relay = Relay(port)
            connect = ["s_client", "-connect", f"127.0.0.1:{relay.port}", "-servername", "broker.example", "-crlf"]
            with running(*connect, "-keylogfile", str(self.log), *client) as client_process:
                self.processes = client_process, server_process
                self.relay = relay
                self.text = await_text(client_process, b"Verify return code")
                self.talk()
        self.wire = relay.wire

    def talk(self) -> None:
        for side, data in SAID:
            for line in data.split(b"\r\n")[:-1]:
                self.say(side, line)
            self.between(side)

    def say(self, side: int, line: bytes) -> None:
        before = self.relay.until(side)
        stdin = self.processes[side].stdin
        assert stdin is not None
        stdin.write(line + b"\n")
        self.relay.until(side, before)

    def between(self, side: int) -> None:
        """Called after one side has sent its line."""


class KeyUpdates(Conversation):
    def between(self, side: int) -> None:
        self.say(side, b"K" if side else b"k")  # the client requests one from the server, too


class Renegotiations(Conversation):
    def between(self, side: int) -> None:
        if side == 0:
            before = self.relay.until(1)
            self.say(0, b"R")
            self.relay.until(1, before)
            time.sleep(0.1)


def plain() -> Any:
    found = meaning(decode(packets(SAID)))
    assert [kind for _, kind, *_ in found] == ["CONNECT", "PING", "+OK", "SUB", "+OK", "PONG"]
    return found


@pytest.mark.parametrize(
    "suite",
    [
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    ],
)
def test_ciphers_of_tls_1_3_with_key_updates(suite: str, folder: Path) -> None:
    options = ["-tls1_3", "-ciphersuites", suite]
    talk = KeyUpdates(folder, options, options)
    found = decode(packets(talk.wire), KeyLog([talk.log]))
    assert meaning(found) == plain()
    shown = facts(found, "cipher")
    assert ("ServerHello", 1, suite) in shown
    assert [side for kind, side, _ in shown if kind == "KeyUpdate"].count(0) >= 3


def test_a_renegotiation_is_followed_and_reported(folder: Path) -> None:
    options = ["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]
    talk = Renegotiations(folder, options, [*options, "-client_renegotiation"])
    found = decode(packets(talk.wire), KeyLog([talk.log]))
    assert meaning(found) == plain()
    said = [finding.code for frame in found.frames for finding in frame.findings]
    assert said.count("renegotiation") == 3
    assert [kind for kind, *_ in facts(found)].count("ServerHello") == 4


@pytest.mark.parametrize("taken", [True, False])
def test_early_data(taken: bool, folder: Path, tmp_path: Path) -> None:
    session, early = tmp_path / "session.pem", tmp_path / "early"
    early.write_bytes(PING)
    options = ["-tls1_3"]

    cert, key = certificate(folder)
    server = ["s_server", "-accept", "127.0.0.1:0", "-cert", str(cert), "-key", str(key), *options]
    server += ["-early_data"] if taken else ["-max_early_data", "16384"]
    logs = tmp_path / "keys.log"
    with running(*server) as process:
        port = int(re.search(rb"ACCEPT 127.0.0.1:(\d+)", await_text(process, b"ACCEPT 127"))[1])  # type: ignore[index]
        for words in (["-sess_out", str(session)], ["-sess_in", str(session), "-early_data", str(early)]):
            relay = Relay(port)
            connect = ["s_client", "-connect", f"127.0.0.1:{relay.port}", *options, "-keylogfile", str(logs), *words]
            with running(*connect) as client:
                limit = time.monotonic() + PATIENCE
                while not session.exists() or not session.stat().st_size:
                    assert time.monotonic() < limit
                    time.sleep(0.002)
                await_text(client, b"Verify return code")
                before = relay.until(0)
                assert client.stdin is not None
                client.stdin.write(b"PONG\r\n")
                relay.until(0, before)
                client.stdin.close()  # end it, since sessions of unclosed connections are forgotten
                client.wait(PATIENCE)
    found = decode(packets(relay.wire), KeyLog([logs]))
    kinds = [frame.type for frame in found.frames if frame.protocol != "tls"]
    assert kinds == (["CONNECT", "PING", "PONG"] if taken else ["PONG"])
    shown = {(kind, side): early for kind, side, early in facts(found, "early_data") if early}
    assert shown == {("ClientHello", 0): "offered"} | ({("EncryptedExtensions", 1): "accepted"} if taken else {})
    assert ("ServerHello", 1, "accepted") in facts(found, "resumption")
