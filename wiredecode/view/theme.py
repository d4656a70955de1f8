"""The colours of all output, and how much of a value trees show."""

from wiredecode.dataclasses import dataclass
from wiredecode.view.times import USUAL, Times

SHOWN_BYTES = 24
"""Bytes of a value in a tree."""
SHOWN_CHARACTERS = 200
"""Characters of a text in a tree."""
SHOWN_ELEMENTS = 20
"""Elements of an array in a tree."""
SHOWN_DUMP_BYTES = 512

SEVERITY = {"error": "red", "warning": "yellow", "note": "cyan"}
STATUS = {"ok": "", "partial": "yellow", "undecoded": "yellow", "malformed": "red"}
SIDE = {"client": "cyan", "server": "magenta"}
GENERATED = "magenta"
VALUE = "green"
RANGE = "dim"
HEAD = "bold"
# The eight basic colours only, and neither black, blue nor white: readable on light and dark terminals.
ANSI = {"red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36, "bold": 1, "dim": 2}
RESET = "\x1b[0m"


def paint(text: str, style: str, *, color: bool) -> str:
    """``text`` in one of these colours, for output that does not go through rich."""
    return f"\x1b[{ANSI[style]}m{text}{RESET}" if color and style and text else text


@dataclass(frozen=True)
class TreeOptions:
    """The user's options for trees and dialogues."""

    bytes: str = "hex"
    """Key of ``frames.record.BYTES``."""
    full: bool = False
    """All bytes and elements, however many."""
    secrets: bool = False
    hexdump: bool = False
    times: Times = USUAL

    def limit(self, usual: int) -> int | None:
        """``usual``, or no limit if everything is shown: for slices."""
        return None if self.full else usual


DEFAULT = TreeOptions()
