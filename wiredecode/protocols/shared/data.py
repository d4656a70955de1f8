"""Tables that are data: fields, and names of numbers on the wire, in TOML files beside the modules of a protocol."""

from collections.abc import Mapping
from typing import Any

from wiredecode.data import tables_of


def data_of(package: str, file: str) -> dict[str, dict[str, Any]]:
    """The tables of a file of a package of protocols."""
    return tables_of(f"wiredecode.protocols.{package}", file)


def number_keys(table: Mapping[str, str]) -> dict[int, str]:
    """A table whose keys are numbers, decimal or as ``0x2f``."""
    return {int(number, 0): name for number, name in table.items()}


def words(text: str) -> frozenset[str]:
    """The words of a text, divided by blanks."""
    return frozenset(text.split())
