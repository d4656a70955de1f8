"""Field kinds of text protocols: words, tokens, decimal numbers, lines, JSON objects with declared members.

They are kinds like those of :mod:`wiredecode.fields`, so a text message is declared as a binary one is. Mere
spelling (the number of blanks between two tokens, leading zeros, lower case) is no value: a dissected
:class:`TextLayer` remembers it in ``spelling`` if it differs from this package's own way of writing, so that
building gives the same bytes again; a layer built from values writes the usual way.

Tokens are on a line: up to LF, or to the end of the frame for protocols that count bytes.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import Kind, Malformed, Truncated
from wiredecode.fields.layer import Layer
from wiredecode.fields.sized import printable, text
from wiredecode.fields.tokens import BLANKS, line_stop, number_pattern, token_pattern


class TextLayer(Layer):
    """Base of text messages. ``blanks`` are the bytes that separate tokens."""

    __slots__ = ("spelling",)
    blanks: ClassVar[bytes] = BLANKS

    def begin(self) -> None:
        self.spelling: dict[str, tuple[bytes, bytes, bytes]] = {}
        super().begin()


MAX_DIGITS = 9
"""Longest decimal number, as text protocols bound it; a declaration may say otherwise."""
LINE_END = re.compile(rb"([ \t\r]*\n)")
SHOWN_CHARACTERS = 40
"""Characters of a bad value in a finding."""


class Piece(Kind):
    """Base: a stretch of characters with something before and after it that is not part of the value.

    ``before`` and ``after`` are what this package writes there.
    """

    column = "string"
    before: bytes = b""
    after: bytes = b""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        kw.setdefault("default", "")
        super().__init__(name, doc, **kw)

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        """Start and stop of the value, and the position after the field. Raises :class:`Truncated`."""
        blanks = getattr(layer, "blanks", TextLayer.blanks)
        pattern = self.pattern(blanks)
        match = None if pattern is None else pattern.match(data, position, end)
        if match is None:
            raise self.mismatch(data, position, end, blanks)
        return *match.span(1), match.end()

    def pattern(self, blanks: bytes) -> re.Pattern[bytes] | None:
        """A pattern of the field, with the value as its group; None: :meth:`scan` is overridden."""
        return None

    def mismatch(self, data: bytes, position: int, end: int, blanks: bytes) -> Truncated:
        """Why the pattern does not match."""
        return Malformed(self.name, f"{self.name} is missing", position)

    def decode(self, raw: bytes) -> Any:
        return text(raw)

    def encode(self, value: Any) -> bytes:
        return str(value).encode("utf-8", "surrogateescape")

    def strict(self) -> Callable[[bytes], Any]:
        """Like :meth:`decode` for the compiled decoders, which leave text that is not UTF-8 to the layer."""
        return bytes.decode

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        start, stop, following = self.scan(data, position, end, layer)
        raw = data[start:stop]
        value = self.decode(raw)
        written = data[position:start], raw, data[stop:following]
        if isinstance(layer, TextLayer) and written != (self.before, self.encode(value), self.after):
            layer.spelling[self.name] = written
        return value, following

    def write(self, value: Any, layer: Layer) -> bytes:
        before, raw, after = self.before, None, self.after
        if isinstance(layer, TextLayer) and self.name in layer.spelling:
            before, raw, after = layer.spelling[self.name]
            if self.decode(raw) != value:
                raw = None
        return before + (self.encode(value) if raw is None else raw) + after

    def emit(self, em: Emitter) -> str:
        em.flush()
        layer, value = em.scopes[-1].layer, em.variable(self.name)
        pattern, strict = self.pattern(getattr(layer, "blanks", TextLayer.blanks)), em.constant(self.strict())
        if pattern is None:
            start, stop = em.variable("s"), em.variable("q")
            em.line(f"{start}, {stop}, p = {em.constant(self.scan)}(b, p, e, {em.constant(layer)})")
            em.line(f"{value} = {strict}(b[{start}:{stop}])")
        else:
            match = em.variable("m")
            em.line(f"{match} = {em.constant(pattern.match)}(b, p, e)")
            em.line(f"if {match} is None: raise DecodeError")
            em.line(f"p = {match}.end()")
            em.line(f"{value} = {strict}({match}[1])")
        return value

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return printable(value) if isinstance(value, str) else value


class Word(Piece):
    """A constant word, in any case: what a line begins with. The value is the word as declared."""

    delimited = True

    def __init__(self, name: str, word: str, doc: str = "", **kw: Any) -> None:
        kw.setdefault("default", word)
        super().__init__(name, doc, **kw)
        self.word = word.encode()

    def minimum(self) -> int:
        return len(self.word)

    def pattern(self, blanks: bytes) -> re.Pattern[bytes]:
        return re.compile(rb"(?i:(%s))" % re.escape(self.word))

    def mismatch(self, data: bytes, position: int, end: int, blanks: bytes) -> Truncated:
        if position + len(self.word) > end:
            return Truncated(self.name, len(self.word), end - position, position)
        return Malformed(self.name, f"{self.name} is not {self.word.decode()}", position)

    def decode(self, raw: bytes) -> str:
        return self.word.decode() if raw.upper() == self.word.upper() else text(raw)

    def strict(self) -> Callable[[bytes], Any]:
        return self.decode


class Token(Piece):
    """A run of bytes without blanks, and at least one blank before it."""

    before = b" "

    def minimum(self) -> int:
        return 1

    def pattern(self, blanks: bytes) -> re.Pattern[bytes] | None:
        return token_pattern(blanks, 1)


class Decimal(Token):
    """A token of 1 to ``digits`` decimal digits."""

    column = "uint64"

    def __init__(self, name: str, doc: str = "", *, digits: int = MAX_DIGITS, **kw: Any) -> None:
        kw.setdefault("default", 0)
        super().__init__(name, doc, **kw)
        self.digits = digits

    def pattern(self, blanks: bytes) -> re.Pattern[bytes] | None:
        return number_pattern(blanks, self.digits)

    def mismatch(self, data: bytes, position: int, end: int, blanks: bytes) -> Truncated:
        match = token_pattern(blanks, 1).match(data, position, end)
        if match is None:
            return super().mismatch(data, position, end, blanks)
        shown = printable(text(match[1][:SHOWN_CHARACTERS]))
        reason = f"{self.name} is not a number of 1 to {self.digits} digits: {shown!r}"
        return Malformed(self.name, reason, match.start(1))

    def decode(self, raw: bytes) -> int:
        return int(raw)

    def strict(self) -> Callable[[bytes], Any]:
        return int

    def write(self, value: int | None, layer: Layer) -> bytes:
        return super().write(value or 0, layer)


class Tokens(Token):
    """The tokens left on the line but the last ``leave``; at least one."""

    islist = 1
    column = "list<string>"

    def __init__(self, name: str, doc: str = "", *, leave: int = 0, **kw: Any) -> None:
        kw.setdefault("default", [])
        super().__init__(name, doc, **kw)
        self.leave = leave

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        blanks = getattr(layer, "blanks", TextLayer.blanks)
        stop, match = line_stop(data, position, end), token_pattern(blanks).match
        spans = []
        reached = position
        while (matched := match(data, reached, stop)) and matched[1]:
            spans.append(matched.span(1))
            reached = matched.end()
        if len(spans) <= self.leave:
            raise Malformed(self.name, f"{self.name} are missing", position)
        last = spans[len(spans) - self.leave - 1][1]
        return spans[0][0], last, last

    def pattern(self, blanks: bytes) -> None:
        return None

    def decode(self, raw: bytes) -> list[str]:
        return [text(token) for token in raw.split()]

    def strict(self) -> Callable[[bytes], Any]:
        return lambda raw: [token.decode() for token in raw.split()]

    def encode(self, value: list[str]) -> bytes:
        return b" ".join(token.encode("utf-8", "surrogateescape") for token in value)

    def present(self, value: list[str], show: Callable[[bytes], str]) -> list[str]:
        return [printable(token) for token in value]


class LineText(Piece):
    """Everything to the end of the line, without the blanks around it; ``quote`` is a character that encloses it."""

    before = b" "

    def __init__(self, name: str, doc: str = "", *, quote: str = "", before: bytes = b" ", **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.quote = quote.encode()
        self.before, self.after = before + self.quote, self.quote

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        line = data[position : line_stop(data, position, end)]
        start = position + len(line) - len(line.lstrip(b" \t"))
        stop = following = max(start, position + len(line.rstrip(b" \t\r")))
        quote = self.quote
        if quote and stop - start >= 2 and data[start : start + 1] == quote == data[stop - 1 : stop]:
            start, stop = start + 1, stop - 1
        return start, stop, following


class Until(Piece):
    """Text up to a delimiter, which is no part of the value; ``skip`` are bytes left out before it."""

    delimited = True

    def __init__(
        self, name: str, doc: str = "", *, stop: bytes, skip: bytes = b"", before: bytes = b"", **kw: Any
    ) -> None:
        super().__init__(name, doc, **kw)
        self.after, self.skip, self.before = stop, skip, before

    def minimum(self) -> int:
        return len(self.after)

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        stop = data.find(self.after, position, end)
        if stop < 0:
            raise Malformed(self.name, f"{self.name} does not end with {self.after!r}", position)
        skipped = len(data[position:stop]) - len(data[position:stop].lstrip(self.skip)) if self.skip else 0
        return position + skipped, stop, stop + len(self.after)


class Hidden(Piece):
    """Bytes that only hold a message together; no record shows them. The value is the bytes."""

    column = "binary"
    hidden = True

    def decode(self, raw: bytes) -> bytes:
        return raw

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def strict(self) -> Callable[[bytes], Any]:
        return self.decode


class LineEnd(Hidden):
    """Blanks, an optional CR, and LF."""

    delimited = True

    def __init__(self, name: str = "line_end", doc: str = "end of the line", **kw: Any) -> None:
        kw.setdefault("default", b"\r\n")
        super().__init__(name, doc, **kw)

    def minimum(self) -> int:
        return 1

    def pattern(self, blanks: bytes) -> re.Pattern[bytes]:
        return LINE_END

    def mismatch(self, data: bytes, position: int, end: int, blanks: bytes) -> Truncated:
        stop = data.find(b"\n", position, end)
        if stop < 0:
            return Truncated(self.name, end - position + 1, end - position, position)
        rest = data[position:stop].strip(b" \t\r")
        return Malformed(self.name, f"{len(rest)} bytes more on the line than its fields", position)


class Mark(Hidden):
    """Constant bytes."""

    delimited = True

    def __init__(self, name: str, mark: bytes, doc: str = "", **kw: Any) -> None:
        kw.setdefault("default", mark)
        super().__init__(name, doc, **kw)
        self.mark = mark

    def minimum(self) -> int:
        return len(self.mark)

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        stop = position + len(self.mark)
        if data[position : min(stop, end)] != self.mark:
            there = data[position : min(stop, end)]
            if self.mark.startswith(there):
                raise Truncated(self.name, len(self.mark), len(there), position)
            raise Malformed(self.name, f"{self.mark!r} expected, {there!r} found", position)
        return position, stop, stop

    def emit(self, em: Emitter) -> str:
        em.flush()
        stop = em.variable("q")
        em.line(f"{stop} = p + {len(self.mark)}")
        em.line(f"if b[p:{stop}] != {self.mark!r} or {stop} > e: raise DecodeError")
        em.line(f"p = {stop}")
        return repr(self.mark)
