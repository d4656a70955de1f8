"""A server that speaks S3: moto's, in a process of its own; the usual settings of the environment lead to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest

BUCKET = "captures"
SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
input()
"""
"""Not a thread of the test: a library that waits for it may keep Python to itself. It ends with its standard input."""


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket ``s3://captures``, empty; gives its URI."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    from wiredecode.capture import remote

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", SERVER], text=True, **pipes) as server:  # type: ignore[call-overload]
        try:
            host, port = server.stdout.readline().split()
            for name, value in {
                "AWS_ACCESS_KEY_ID": "nobody",
                "AWS_SECRET_ACCESS_KEY": "nothing",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            }.items():
                monkeypatch.setenv(name, value)
            with urlopen(Request(f"http://{host}:{port}/{BUCKET}", method="PUT")):
                pass
            remote.file_system.cache_clear()
            yield f"s3://{BUCKET}"
        finally:
            remote.file_system.cache_clear()
            server.stdin.close()
