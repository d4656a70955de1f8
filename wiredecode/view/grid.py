"""Rows of values from the wire as a rich table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from wiredecode.frames.escape import escape, shorten
from wiredecode.tables.rows import dumps
from wiredecode.view import theme


class Grid:
    """A table whose names and cells are escaped and shortened; ``numbers`` says which columns align right."""

    def __init__(self, names: Sequence[str], numbers: Sequence[bool]) -> None:
        self.table = Table(box=box.SIMPLE_HEAD, header_style=theme.HEAD, pad_edge=False, show_edge=False)
        for name, number in zip(names, numbers, strict=True):
            self.table.add_column(Text(escape(name)), justify="right" if number else "left", overflow="fold")

    def add(self, values: Iterable[Any]) -> None:
        self.table.add_row(*map(_cell, values))


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", "dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dict | list):
        value = dumps(value).decode()
    return Text(escape(shorten(str(value), theme.SHOWN_CHARACTERS)))
