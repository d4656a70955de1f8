"""A server that speaks S3, in this process: moto's, with the usual settings of the environment leading to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest

BUCKET = "captures"


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket ``s3://captures``, empty; gives its URI."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    from moto.server import ThreadedMotoServer

    from wiredecode.capture import remote

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
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
        with urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")):
            pass
        server.stop()
