"""Lines of tokens: what separates tokens, and how the compiled decoder splits a line once.

The kinds that stand on such lines are in :mod:`wiredecode.fields.textfields`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from wiredecode.fields.composition import Optional, plain
from wiredecode.fields.contracts import Emitter
from wiredecode.fields.kind import Kind
from wiredecode.fields.layer import Layer
from wiredecode.fields.tokens import BLANKS

STRAY = (b"\v", b"\f")
"""Blanks to ``bytes.split`` that separate no tokens; like a stray CR they need a closer look."""


class TextLayer(Layer):
    """Base of text messages. ``blanks`` are the bytes that separate tokens."""

    __slots__ = ("spelling",)
    blanks: ClassVar[bytes] = BLANKS

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.spelling: dict[str, tuple[bytes, bytes, bytes]] = {}
        super().__init__(*args, **kw)


# How the compiled decoder reads a line of tokens.


class Line:
    """A line while the code that reads it is generated: in ``tokens``, of which ``index`` is the next.

    The index is a number as long as it is the same for every frame, then the name of a variable.
    """

    def __init__(self, tokens: str, count: str, stop: str, sure: int) -> None:
        self.tokens, self.count, self.stop = tokens, count, stop
        self.index: int | str = 1
        self.sure = sure
        """Tokens known to be there."""

    def variable(self, em: Emitter) -> str:
        """The index as a variable: from here on it depends on the frame."""
        if isinstance(self.index, int):
            name = em.variable("k")
            em.line(f"{name} = {self.index}")
            self.index = name
        return self.index

    def left(self, em: Emitter) -> str:
        """The expression for the number of tokens left."""
        return f"{self.count} - {self.variable(em)}"

    def next_token(self, em: Emitter) -> str:
        """The expression of the next token."""
        if isinstance(self.index, int):
            self.index += 1
            if self.index > self.sure:
                em.line(f"if {self.count} < {self.index}: raise TruncatedField")
            return f"{self.tokens}[{self.index - 1}]"
        em.line(f"if {self.index} >= {self.count}: raise TruncatedField")
        em.line(f"{self.index} += 1")
        return f"{self.tokens}[{self.index} - 1]"


def token_line(em: Emitter) -> Line | None:
    """The line of tokens being read in one go, if the decoder being generated does that here."""
    line: Line | None = em.scopes[-1].line
    return line


def begin_line(em: Emitter, name: str, word: bytes) -> bool:
    """Generate the splitting of the line that the field ``name`` begins with ``word``; tell whether it was done.

    It is, if the line holds tokens only.
    """
    declared = em.scopes[-1].layer.fields_desc
    kinds = [plain(kind) for kind in declared]
    first = next(index for index, kind in enumerate(kinds) if kind.name == name)
    last = next((at for at, kind in enumerate(kinds) if at > first and on_line(kind) == "end"), first)
    if em.careful or first == last or any(on_line(kind) != "token" for kind in kinds[first + 1 : last]):
        return False
    required = next((at for at in range(first, last) if isinstance(declared[at], Optional)), last) - first
    tokens, count, stop, line = (em.variable(part) for part in ("t", "n", "stop", "line"))
    em.line(f"{stop} = b.find(b'\\n', p, e)")
    em.line(f"{line} = b[p:{stop}]")
    strays = " or ".join(f"{stray!r} in {line}" for stray in STRAY)
    em.line(f"if {stop} < 0 or {line}.find(b'\\r') != len({line}) - 1 or {strays}: raise TruncatedField")
    em.line(f"{tokens} = {line}.split()")
    em.line(f"{count} = len({tokens})")
    em.line(f"if {count} < {required} or {tokens}[0] != {word!r}: raise TruncatedField")
    em.line(f"if {line}[-2] in b' \\t': raise TruncatedField")
    em.scopes[-1].line = Line(tokens, count, stop, required)
    return True


def on_line(kind: Kind) -> str:
    """What a kind is to a line: ``token``, ``end``, or nothing of these."""
    return getattr(kind, "on_line", "")
