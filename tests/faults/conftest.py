"""Commands in this process, as tests of the command line have them."""

from tests.cli.conftest import run as run
