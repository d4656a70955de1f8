"""A rich console that writes trees to any output."""

import os
from typing import Protocol

from rich.console import Console

UNBOUNDED_WIDTH = 10_000
"""For files and pipes: lines are not wrapped."""


class TextSink(Protocol):
    """Where text goes."""

    encoding: str

    def text(self, text: str) -> None: ...


class ConsoleFile:
    """The file that rich writes to."""

    def __init__(self, output: TextSink) -> None:
        self._output = output
        self.encoding = output.encoding

    def write(self, text: str) -> int:
        self._output.text(text)
        return len(text)

    def flush(self) -> None:
        """Blocks are written when the reader waits for more packets."""


def tree_console(output: TextSink, *, color: bool, terminal: bool) -> Console:
    """A console as wide as the terminal (or ``COLUMNS``); elsewhere lines are as long as they need to be."""
    width = None if terminal or os.environ.get("COLUMNS", "").isdigit() else UNBOUNDED_WIDTH
    return Console(
        file=ConsoleFile(output),  # type: ignore[arg-type]  # rich only writes
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
