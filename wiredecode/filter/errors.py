"""Errors in a filter, with their places."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

SHOWN_CHARACTERS = 50
"""Characters of a long filter that are shown before and after the place."""
INDENT = "  "
MAX_NAMED = 8
"""Names that are listed if none is near."""
NAMED: Mapping[str, str] = MappingProxyType({})


class FilterError(ValueError):
    """An invalid filter. ``start`` and ``stop``: the place in ``text``, in characters."""

    def __init__(self, message: str, text: str, start: int, stop: int | None = None) -> None:
        super().__init__(message)
        self.message, self.text = message, text
        self.start = min(max(start, 0), len(text))
        self.stop = max(self.start + 1, stop if stop is not None else 0)

    def explain(self) -> str:
        """Three lines: the message, the filter, and carets below the place."""
        from wiredecode.frames.escape import escape

        first = max(0, self.start - SHOWN_CHARACTERS)
        last = min(len(self.text), self.stop + SHOWN_CHARACTERS)
        before = ("..." if first else "") + escape(self.text[first : self.start])
        place = escape(self.text[self.start : self.stop])
        after = escape(self.text[self.stop : last]) + ("..." if last < len(self.text) else "")
        carets = " " * len(before) + "^" * max(1, min(len(place), 2 * SHOWN_CHARACTERS))
        return f"{escape(self.message)}\n{INDENT}{before}{place}{after}\n{INDENT}{carets}"


def nearest(word: str, known: Iterable[str], called: Mapping[str, str] = NAMED, prefix: str = "") -> str:
    """``; did you mean ...?``, or "". ``called``: long names by short ones; ``prefix``: common start of all names."""
    return did_you_mean([prefix + called.get(name, name) for name in close_names(word, known)])


def did_you_mean(names: Sequence[str]) -> str:
    """``; did you mean 'a', 'b' or 'c'?``; nothing for no names."""
    shown = [repr(name) for name in names]
    return f"; did you mean {' or '.join(filter(None, [', '.join(shown[:-1]), shown[-1]]))}?" if shown else ""


def close_names(word: str, known: Iterable[str]) -> list[str]:
    """The most similar name, if one is similar enough."""
    names = sorted(dict.fromkeys(known), key=lambda name: name.isupper())  # Publish before PUBLISH
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    return [folded[found] for found in difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.65)]


def one_of(known: Iterable[str]) -> str:
    """``; it is one of a, b, c``; empty if they are many."""
    names = list(islice(known, MAX_NAMED + 1))
    return f"; it is one of {', '.join(names)}" if len(names) <= MAX_NAMED else ""
