"""Tables that are data, in TOML files beside the modules that use them."""

from importlib import import_module
from pathlib import Path
from typing import Any


def tables_of(package: str, file: str) -> dict[str, Any]:
    """The tables of a file in the folder of a package: ``tables_of(__package__, "columns.toml")``."""
    import tomllib  # many commands need no table

    return tomllib.loads((Path(import_module(package).__path__[0]) / file).read_text("utf-8"))
