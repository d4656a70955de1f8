"""Replays captures as if from an interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import run as run
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.capture.live.sniffer import Counts

Replay = Callable[..., list[str]]
"""The requested options are appended to the list."""


class Replayed:
    """A capture in place of an interface; ``at_end`` is called after its last packet."""

    def __init__(self, path: Path, at_end: Callable[[], None], asked: list[str]) -> None:
        self._capture, self._at_end, self._asked = open_capture([str(path)]), at_end, asked
        self.info, self.saving, self.bytes_total, self.bytes_read = self._capture.info, None, None, 0
        self.counts = Counts(513, 257, 3, 0)

    def __iter__(self) -> Iterator[PacketBatch]:
        batches = [*self._capture]
        yield from batches
        self._at_end()
        yield batches[0].part(0, 0)

    def save(self, *said: object) -> None:
        self._asked.extend(map(str, said))

    def stop(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Replay:
    """Put a capture in place of interfaces."""

    def begin(path: Path, at_end: Callable[[], None] = lambda: None) -> list[str]:
        asked: list[str] = []

        def capturing(*said: object, saves: bool) -> Any:
            asked.extend(map(str, said))
            return closing(Replayed(path, at_end, asked))

        monkeypatch.setattr("wiredecode.cli.capturing.capturing", capturing)
        return asked

    return begin
