"""An S3 server (moto) in a separate process; the usual environment variables point to it."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


@cache
def server_address() -> str:
    """The address of this test process's server, which lives as long as the process."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([sys.executable, "-c", SERVER], text=True, **pipes)  # type: ignore[call-overload]
    atexit.register(server.communicate)
    return "http://{}:{}".format(*server.stdout.readline().split())


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of the empty bucket ``s3://captures``."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    from wiredecode.capture import remote

    address = server_address()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
    }.items():
        monkeypatch.setenv(name, value)
    for method, path in (("POST", "moto-api/reset"), ("PUT", BUCKET)):
        with urlopen(Request(f"{address}/{path}", method=method)):
            pass
    remote.file_system.cache_clear()
    try:
        yield f"s3://{BUCKET}"
    finally:
        remote.file_system.cache_clear()
