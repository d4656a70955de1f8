"""Shared by all tests: where the captures of the repository are, and deterministic property tests."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import settings

# derandomize: the same examples in every run. No deadline: the machines that run this are shared.
settings.register_profile("wiredecode", derandomize=True, deadline=None, database=None)
settings.load_profile("wiredecode")

CAPTURES = Path(__file__).parent.parent / "captures"


def pytest_unconfigure() -> None:
    """Commands that ran in this process have frozen what they imported; DuckDB takes that for a leak, and says so."""
    gc.unfreeze()
    gc.collect()


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of real captures that the repository carries, one folder per protocol below it."""
    return CAPTURES
