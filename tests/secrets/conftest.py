"""Fixtures of the command line's tests, which run commands."""

from __future__ import annotations

from tests.cli.conftest import run as run
