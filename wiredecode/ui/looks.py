"""Looks of frames beyond their rows: colour rules and columns of fields, of the lines in view only."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from wiredecode.filter import compile_filter
from wiredecode.frames.escape import escape, shorten
from wiredecode.settings import Settings
from wiredecode.ui.jobs import Job
from wiredecode.view.colors import ColorRules

if TYPE_CHECKING:
    from wiredecode.filter.model import Field
    from wiredecode.frames.frame import Frame
    from wiredecode.ui.model import CaptureModel

MOST_LOOKS = 8192
"""Frames whose look is remembered."""
NEAR = 64
"""Frames between two that are wanted which are read with them."""
MOST_CHARACTERS = 60


class Look(NamedTuple):
    """Of one frame."""

    style: str
    """Of the first rule that fits; empty: none does."""
    values: Mapping[str, str]
    """Of columns that are fields, by name."""


NOTHING = Look("", {})


class Looks:
    """Rules and fields, as settings have them. ``problem``: error of one of them, which is left out."""

    def __init__(self, settings: Settings, columns: Sequence[str]) -> None:
        self._rules = ColorRules(settings)
        self.problem = self._rules.problem
        self._fields: dict[str, Field] = {}
        if columns:
            from wiredecode.filter.names import Names

            known = Names()
            found = {name: field for name in columns if (field := known.find(name)) is not None and not field.secret}
            for name in columns:
                if name not in found:
                    self.problem = escape(f"no column is called {name}")
            self._fields = found
        texts = [*self._rules.filters, *self._fields]
        self.select = compile_filter(" || ".join(f"({text})" for text in texts)) if texts else None
        """Fits what has another look than others; None: nothing has."""

    def of(self, frame: Frame, first_ns: int) -> Look:
        """The look of one frame."""
        values = {name: _text(field, frame) for name, field in self._fields.items()}
        return Look(self._rules.style(frame, first_ns), values)


def _text(field: Field, frame: Frame) -> str:
    values = [each for each in field.get(frame) if not isinstance(each, dict | list)]
    shown = (each.hex() if isinstance(each, bytes) else str(each) for each in values[:4])
    return shorten(escape(", ".join(shown) + (", …" if len(values) > 4 else "")), MOST_CHARACTERS)


class Painter:
    """Reads the frames in view, in the background; whenever some looks are known, a job calls ``painted``."""

    def __init__(self, model: CaptureModel, looks: Looks, painted: Callable[[], object]) -> None:
        self._reading, self._looks, self._painted = model, looks, painted
        self._known: OrderedDict[int, Look] = OrderedDict()
        self._wanted: tuple[int, ...] = ()
        self._turn = Lock()

    def look(self, number: int) -> Look | None:
        """The look of a frame; None: not known yet."""
        return self._known.get(number)

    def want(self, numbers: Sequence[int]) -> None:
        """These are in view."""
        missing = tuple(number for number in numbers if number not in self._known)
        if missing != self._wanted:
            self._wanted = missing
            Job("looks", lambda job: self._paint(missing), lambda job: None)

    def close(self) -> None:
        """The screen is closed; the threads end soon."""
        self._wanted = ()

    def _paint(self, wanted: tuple[int, ...]) -> None:
        with self._turn:
            for first, last in stretches(wanted):
                if wanted is not self._wanted:
                    return
                found: dict[int, Look] = dict.fromkeys(range(first, last + 1), NOTHING)
                try:
                    for frame in self._reading.between(first, last, self._looks.select):
                        found[frame.number] = self._looks.of(frame, self._reading.first_ns)
                        if not self._wanted:
                            return
                except Exception as error:
                    self._looks.problem = escape(f"colours: {type(error).__name__}: {error}")
                self._known |= found
                while len(self._known) > MOST_LOOKS:
                    self._known.popitem(last=False)
                self._painted()


def stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last of those that lie near each other."""
    if not numbers:
        return []
    cuts = [at for at, (one, other) in enumerate(pairwise(numbers), 1) if other - one > NEAR]
    bounds = [0, *cuts, len(numbers)]
    return [(numbers[begin], numbers[end - 1]) for begin, end in pairwise(bounds)]
