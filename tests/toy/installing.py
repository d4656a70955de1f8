"""Installs the toy protocol as another package."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wiredecode.protocols import registry


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Returns a function that installs a distribution with an entry point of a given value."""

    def add(value: str) -> None:
        about = tmp_path / "kv-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kv-package\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[wiredecode.protocols]\nkv = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        registry.protocol_entries.cache_clear()

    yield add
    registry.protocol_entries.cache_clear()
    sys.path_importer_cache.pop(str(tmp_path), None)


@pytest.fixture
def installed(install: Callable[[str], None]) -> None:
    """The toy as an installed distribution with an entry point."""
    install("tests.toy.kv:KV")
