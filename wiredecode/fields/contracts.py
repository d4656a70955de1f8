"""What the modules of this package know of each other: problems, the layer that a field is in, the emitter of code.

Everything in the package may import this module; it imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, Protocol

Structure = Any
"""The :class:`~wiredecode.fields.layer.Layer` that a field is in. A kind may ask more of its own layers, hence Any."""
Fill = Callable[[Structure, Mapping[str, bytes]], Any]
"""``(layer, bytes of each field that follows) -> value``."""


class Truncated(Exception):
    """The bytes end inside a field: ``field`` needed ``needed`` bytes at ``start`` and there were ``had``."""

    reason: str = ""
    """Why the bytes cannot be the field, where that is not that they end."""

    def __init__(self, field: str, needed: int, had: int, start: int, partial: Any = None) -> None:
        super().__init__(field, needed, had, start)
        self.field, self.needed, self.had, self.start, self.partial = field, needed, had, start, partial

    def inside(self, field: str, partial: Any) -> Truncated:
        """The same problem, as the structure or array around the field tells it."""
        problem = Truncated(field, self.needed, self.had, self.start, partial)
        problem.reason = self.reason
        return problem


class TruncatedField(Exception):
    """A fast decoder met the end of the frame inside a field, or text that is not UTF-8."""


class Malformed(Truncated):
    """Bytes that cannot be the field, whatever follows."""

    def __init__(self, field: str, reason: str, start: int, partial: Any = None) -> None:
        super().__init__(field, 0, 0, start, partial)
        self.reason = reason


class Sink(StrEnum):
    """What a walk does when it meets a bulk array."""

    STOP = "head"
    """It ends: the number of elements stands for the array."""
    COUNT = "walk"
    """It steps over the elements: their number stands for them."""
    ROWS = "rows"
    """It steps over the elements, and makes a row of each."""


class Emitter(Protocol):
    """Writes the Python of one decoder (:mod:`wiredecode.fields.emitter`): what kinds call from their ``emit``.

    In the code that they write ``b`` is the buffer, ``p`` the position, ``e`` the end, and in the careful decoder ``o``
    the start of the frame and ``r`` the ranges; ``q`` is free for use.
    """

    mode: str
    style: Any
    """Of records, else None."""
    careful: bool
    """Values and byte ranges are read, and problems are told in full."""
    sink: Sink | None
    """Of a walk, else None."""
    ended: bool
    """Set by an array at which a walk stops: nothing more is generated."""
    stepping: bool
    """Inside a bulk array that is only stepped over: positions move, values are not made."""
    scopes: list[Any]
    """The structures being read, see :mod:`wiredecode.fields.scope`."""

    def line(self, code: str) -> None:
        """Add a line of code."""

    def block(self, opening: str) -> AbstractContextManager[None]:
        """Add a line that opens a block; what is added inside is indented."""

    def variable(self, name: str) -> str:
        """A new name for a variable."""

    def constant(self, value: Any) -> str:
        """The name by which the code knows a value."""

    def reference(self, name: str) -> str:
        """The variable of an earlier field of the layer."""

    def presence(self, name: str) -> str | None:
        """The variable that tells whether an earlier optional field is there; None: it always is."""

    def reach(self, name: str) -> str:
        """The variable of where the bytes end that an earlier length counts."""

    def tokens(self) -> str:
        """The number of tokens left on a line of text."""

    def token(self) -> str:
        """The next of them."""

    def require(self, stop: str, name: str, needed: str) -> None:
        """Check that the bytes up to ``stop`` are in the frame."""

    def picked(self, name: str) -> bool:
        """Whether the value of a field is wanted although its structure is only stepped over."""

    def path(self, name: str) -> str:
        """The expression of the path of a field of this structure, in the careful decoder."""

    def fixed(self, kind: Any) -> str:
        """Read a field of fixed size, together with those beside it; return its variable."""

    def number(self, kind: Any) -> str:
        """Read a number that other code needs at once, such as a length."""

    def length(self, kind: Any) -> tuple[str, int] | None:
        """Read the length of what comes next, and what is before it, without a check; None: that cannot be done.

        Return its variable, and the bytes read, over which the caller steps: when it checks the bytes that the length
        counts, it checks these, too, for a length is never negative. It may lie after the end of the frame: then that
        check fails; after that of the buffer ``error`` is raised.
        """

    def step(self, size: str) -> None:
        """Step over bytes that nothing looks at."""

    def flush(self, keep: str = "") -> None:
        """Read the fixed fields that wait; ``keep`` is a variable that is needed, whatever else."""

    def flush_dict(self) -> None:
        """Put the values that wait into the dict of the structure."""

    def store(self, kind: Any, value: str) -> None:
        """Keep a value for the dict of the structure."""

    def call(self, kind: Any) -> str:
        """Read a value with the kind's own ``read``, which must not need the layer."""

    def guarded(self, kind: Any, code: str) -> None:
        """Add a line that may raise :class:`Truncated`."""

    def structure(self, layer: type[Structure], name: str) -> str:
        """Read a structure; return the dict that holds it."""

    def scope(self, layer: type[Structure], target: str, prefix: str, created: bool = False) -> dict[str, str]:
        """Read the fields of a structure into a dict; return the variables that hold them."""

    def array(self, kind: Any) -> str:
        """Read the elements; return the list, or the count of a bulk array that is not read."""

    def element(self, kind: Any, elements: str, index: str) -> None:
        """Read one element of an array into a list."""
