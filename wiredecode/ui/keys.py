"""Every key, once: what binds them, the line at the bottom, the help screen and docs/ui.md are made of this."""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text
from textual.binding import Binding

from wiredecode.ui.lines import link


class Key(NamedTuple):
    """One key of the main screen."""

    keys: str
    """As Textual calls them, with commas between."""
    action: str
    shown: str
    """As people call them."""
    what: str
    group: str
    brief: str = ""
    """On the line at the bottom; empty: not there."""


MOVES, FILTERS, SCREENS, TAKING, OTHER = "Moves", "Filter and search", "Screens", "Take away", "Other"
KEYS = (
    Key("full_stop,ctrl+down", "step(1)", ". Ctrl-↓", "next frame, whichever pane has the cursor", MOVES),
    Key("comma,ctrl+up", "step(-1)", ", Ctrl-↑", "frame before", MOVES),
    Key("tab", "pane(1)", "Tab", "next pane: frames, tree, bytes", MOVES, "pane"),
    Key("shift+tab", "pane(-1)", "Shift-Tab", "pane before", MOVES),
    Key("r", "answer", "r", "the response of a request, the request of a response", MOVES),
    Key("right_square_bracket", "along(1)", "]", "next frame of the connection", MOVES),
    Key("left_square_bracket", "along(-1)", "[", "frame before in the connection", MOVES),
    Key("exclamation_mark", "finding", "!", "next frame with a finding", MOVES, "finding"),
    Key("right_curly_bracket", "alike(1)", "}", "next frame with the same field; in the list: stream, topic", MOVES),
    Key("left_curly_bracket", "alike(-1)", "{", "frame before with the same", MOVES),
    Key("o", "copy_of", "o", "the original of a copy; of an original its next copy", MOVES),
    Key("colon", "ask('number')", ":", "go to a frame by number, or by time: 12.5s, +0.5s, 12:30:01, a date", MOVES),
    Key("m", "mark", "m", "mark the frame, or take the mark away", MOVES),
    Key("apostrophe", "marked", "'", "next marked frame", MOVES),
    Key("b", "back", "b", "back to where the last jump began", MOVES),
    Key("t", "zero", "t", "times since this frame; again: since the first packet", MOVES),
    Key("slash,f", "ask('filter')", "/ f", "filter; Tab completes, an empty one shows all", FILTERS, "filter"),
    Key("a", "take_field", "a", "filter by the field under the cursor", FILTERS),
    Key("A", "take_field('and')", "A", "the same, combined with the current filter", FILTERS),
    Key("x", "take_field('not')", "x", "what the field under the cursor is not", FILTERS),
    Key("escape,ctrl+c", "stop", "Esc Ctrl-C", "stop reading; back from a screen", FILTERS),
    Key("s", "ask('word')", "s", "search for text in types and details", FILTERS),
    Key("X", "ask('bytes')", "X", "search in the bytes of frames: digits, or text", FILTERS),
    Key("n", "search_on(1)", "n", "search on for the same", FILTERS),
    Key("N", "search_on(-1)", "N", "search back for the same", FILTERS),
    Key("c", "report('connections')", "c", "connections", SCREENS, "conns"),
    Key("F", "report('findings')", "F", "findings of check, the worst first", SCREENS, "findings"),
    Key("S", "report('statistics')", "S", "statistics", SCREENS, "stats"),
    Key("T", "report('timeline')", "T", "timeline: what changed when", SCREENS),
    Key("w", "report('follow')", "w", "follow the connection of this frame", SCREENS),
    Key("M", "report('trace')", "M", "what happened to the messages of this frame", SCREENS),
    Key("D", "report('diagram')", "D", "sequence diagram of the connection, from this frame on", SCREENS),
    Key("y", "copy('tree')", "y", "copy the line of the tree, and all lines below it", TAKING),
    Key("v", "copy('value')", "v", "copy the value under the cursor of the tree", TAKING),
    Key("Y", "copy('filter')", "Y", "copy the filter", TAKING),
    Key("R", "copy('record')", "R", "copy the frame as a JSON record", TAKING),
    Key("C", "copy('command')", "C", "copy the command line that shows these frames", TAKING),
    Key("W", "ask('file')", "W", "save the shown frames: .json, .parquet, .svg the screen, else pcapng", TAKING),
    Key("P", "hold", "P", "live: hold the list still; again: continue with the last frame", OTHER),
    Key("K", "columns", "K", "choose the columns of the list", OTHER),
    Key("L", "theme", "L", "other colours: dark, light, high contrast, the terminal's; kept", OTHER),
    Key("Z", "secrets", "Z", "show secrets, after a second Z; again: hide them", OTHER),
    Key("question_mark", "help", "?", "this help", OTHER, "help"),
    Key("q", "quit", "q", "quit; back from a screen", OTHER, "quit"),
)
PANES = (
    ("↑ ↓  k j", "line before, next line"),
    ("PgUp PgDn", "page before, next page"),
    ("Home End  g G", "first line, last line"),
    ("← →  h l", "in the bytes: byte before, next byte; elsewhere: to the side"),
    ("Space", "in the tree: fold or unfold"),
    ("Enter", "in a screen: to the frame of the line"),
)
"""Keys of panes."""


def bindings() -> list[Binding]:
    """Of the main screen."""
    return [Binding(key.keys, key.action, key.what, show=False) for key in KEYS]


def bottom() -> Text:
    """The line at the bottom: within 80 columns; a click is the key."""
    shown = [link(f"{key.shown.split()[0]} {key.brief}", key.action) for key in KEYS if key.brief]
    return Text("  ").join(shown)


def text() -> list[tuple[str, str]]:
    """Help: heading and nothing, or keys and their actions."""
    rows: list[tuple[str, str]] = [("In every pane", "")]
    rows += PANES
    for group in (MOVES, FILTERS, SCREENS, TAKING, OTHER):
        rows.append((group, ""))
        rows += [(key.shown, key.what) for key in KEYS if key.group == group]
    return rows
