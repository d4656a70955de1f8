"""Fixtures of the command line's tests, which run commands in this process."""

from tests.cli.conftest import run as run
