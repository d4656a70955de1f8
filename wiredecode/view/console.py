"""A rich console that writes trees to any output."""

import os
from collections.abc import Callable, Iterator
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.text import Text
from rich.tree import Tree

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


def tree_writer(output: TextSink, *, color: bool, terminal: bool) -> Callable[[RenderableType], None]:
    """Writes trees to the console of `tree_console`; as text where that is the same: rich takes most of the time."""
    console = tree_console(output, color=color, terminal=terminal)
    if color or console.width != UNBOUNDED_WIDTH or not output.encoding.lower().startswith("utf"):
        return console.print

    def write(shown: RenderableType) -> None:
        text = plain_text(shown)
        if text is None:
            console.print(shown)
        else:
            output.text(text)

    return write


def plain_text(shown: RenderableType) -> str | None:
    """Trees and text as a console without colours writes them; None: it would fold lines, or expand tabs."""
    lines: list[str] = []
    for part in shown.renderables if isinstance(shown, Group) else (shown,):
        lines += _lines(part) if isinstance(part, Tree) else _plain(part).split("\n")
    simple = max(map(len, lines)) <= UNBOUNDED_WIDTH // 2 and not any("\t" in line or "\n" in line for line in lines)
    return "\n".join((*lines, "")) if simple else None


def _plain(label: RenderableType) -> str:
    return label.plain if isinstance(label, Text) else str(label)


def _lines(tree: Tree) -> Iterator[str]:
    """A tree, with rich's guides."""
    yield _plain(tree.label)
    waiting = [*_branches(tree, "")]
    while waiting:
        branch, guides, last = waiting.pop()
        yield f"{guides}{'└── ' if last else '├── '}{_plain(branch.label)}"
        if branch.children:
            waiting += _branches(branch, guides + ("    " if last else "│   "))


def _branches(tree: Tree, guides: str) -> Iterator[tuple[Tree, str, bool]]:
    """From the last one on: each with the guides before it, and whether it is the last."""
    return ((branch, guides, branch is tree.children[-1]) for branch in reversed(tree.children))
