"""Tables that are data, in TOML files beside the modules that use them."""

from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function")


def tables_of(package: str, file: str) -> dict[str, Any]:
    """The tables of a file in the folder of a package: ``tables_of(__package__, "columns.toml")``."""
    import tomllib  # many commands need no table

    return tomllib.loads(text_of(package, file))


def text_of(package: str, file: str) -> str:
    """The text of such a file."""
    return (Path(import_module(package).__path__[0]) / file).read_text("utf-8")


def storable(function: Function) -> Function:
    """Mark a function that stored states may name: it only computes, or makes a layer or decoder of its arguments."""
    setattr(function, "storable", True)  # noqa: B010 - a function has no such attribute
    return function
