"""What is wrong with a filter, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

SHOWN_CHARACTERS = 50
"""Of a long filter, so much is shown before and after the place."""
INDENT = "  "
NAMED: Mapping[str, str] = MappingProxyType({})


class FilterError(ValueError):
    """A filter that means nothing. ``start`` and ``stop``: the place in ``text``, in characters."""

    def __init__(self, message: str, text: str, start: int, stop: int | None = None) -> None:
        super().__init__(message)
        self.message, self.text = message, text
        self.start = min(max(start, 0), len(text))
        self.stop = max(self.start + 1, stop if stop is not None else 0)

    def explained(self) -> str:
        """Three lines: the message, the filter, and carets below the place."""
        from wiredecode.frames.escape import escape

        first = max(0, self.start - SHOWN_CHARACTERS)
        last = min(len(self.text), self.stop + SHOWN_CHARACTERS)
        before = ("..." if first else "") + escape(self.text[first : self.start])
        place = escape(self.text[self.start : self.stop])
        after = escape(self.text[self.stop : last]) + ("..." if last < len(self.text) else "")
        carets = " " * len(before) + "^" * max(1, min(len(place), 2 * SHOWN_CHARACTERS))
        return f"{escape(self.message)}\n{INDENT}{before}{place}{after}\n{INDENT}{carets}"


def nearest(word: str, known: Iterable[str], called: Mapping[str, str] = NAMED) -> str:
    """``; did you mean ...?``, or nothing where no name is near; ``called``: what the names are short for."""
    names = sorted(dict.fromkeys(known), key=lambda name: name.isupper())  # Publish before PUBLISH
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    if not found:
        return ""
    name = folded[found[0]]
    return f"; did you mean {called.get(name, name)!r}?"
