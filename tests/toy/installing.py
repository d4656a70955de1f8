"""The toy as another package brings it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wiredecode.protocols import registry


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toy as an installed distribution with an entry point."""
    about = tmp_path / "kv-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kv\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[wiredecode.protocols]\nkv = tests.toy.kv:KV\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.known.cache_clear()
    yield
    registry.known.cache_clear()
    sys.path_importer_cache.pop(str(tmp_path), None)
