"""Every key, once, from ``keys.toml``: bindings, the line at the bottom, the help screen and docs/ui.md use it."""

from typing import NamedTuple

from rich.style import Style
from rich.text import Text
from textual.binding import Binding

from wiredecode.data import tables_of


class KeyBinding(NamedTuple):
    """One key of the main screen."""

    group: str
    keys: str
    """As Textual calls them, with commas between."""
    action: str
    shown: str
    """As people call them."""
    description: str
    brief: str = ""
    """On the line at the bottom; empty: not there."""


_GROUPS = tables_of(__package__, "keys.toml")
_BINDINGS: dict[str, list[list[str]]] = _GROUPS.pop("bindings")
PROMPTS: dict[str, str] = _GROUPS.pop("prompts")
"""By kind of question, what to type."""
IN_PANES = "In every pane"
PANES: list[list[str]] = _GROUPS.pop(IN_PANES)
"""Keys of panes, and their meanings."""
KEYS = tuple(KeyBinding(group, *row) for group, rows in _GROUPS.items() for row in rows)


def bindings(pane: str | None = None) -> list[Binding]:
    """Bindings of a pane or screen, by its name in ``keys.toml``; by default of the main screen."""
    rows = [(key.keys, key.action, key.description) for key in KEYS] if pane is None else _BINDINGS[pane]
    return [Binding(names, action, description, show=False) for names, action, description in rows]


def link(text: str, action: str) -> Text:
    """A text that does an action of the screen when it is clicked."""
    return Text(text, Style(meta={"@click": f"screen.{action}"}))


def bottom() -> Text:
    """The line at the bottom: within 80 columns; a click is the key."""
    shown = [link(f"{key.shown.split()[0]} {key.brief}", key.action) for key in KEYS if key.brief]
    return Text("  ").join(shown)


def text() -> list[tuple[str, str]]:
    """Help: heading and nothing, or keys and their actions."""
    rows = [(IN_PANES, ""), *((shown, description) for shown, description in PANES)]
    for group in _GROUPS:
        rows.append((group, ""))
        rows += [(key.shown, key.description) for key in KEYS if key.group == group]
    return rows
