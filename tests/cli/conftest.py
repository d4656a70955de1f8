"""Running commands in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from wiredecode.cli import main


@dataclass
class Result:
    """The outcome of a command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Result]


@pytest.fixture
def basic(captures: Path) -> Path:
    return captures / "rabbitmq-stream" / "c43_basic.pcap"


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``run("pcap", path, "--summary")``: colour and width do not depend on the terminal that runs the tests."""
    for name in ("NO_COLOR", "COLUMNS", "WIREDECODE_DEBUG", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run_command(*words: object) -> Result:
        code = main([str(word) for word in words])
        captured = capsysbinary.readouterr()
        return Result(code, captured.out, captured.err.decode())

    return run_command
