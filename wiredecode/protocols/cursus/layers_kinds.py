"""Field kinds for text: stretches found by a pattern, and lists of ``key=value`` pieces."""

import re
from collections.abc import Callable
from typing import Any

from wiredecode.fields import Array, Kind, Text, UInt64, When, credentials, printable, text
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer
from wiredecode.patterns import pattern
from wiredecode.protocols.cursus.names import POSITIONAL

TOKEN = b"token="
"""End of the names of all secrets: token, auth_token, internal_token."""
CREDENTIAL = pattern(
    lambda: (
        credentials.VALUE.pattern.encode()
        + rb"|\b(?:LOGIN|login|PASS|AUTHENTICATE|authenticate|HELLO\s+\d+\s+AUTH)\s+\S+(?:\s+\S+)?"
        rb"|(?i:(?:(?<![\w-])[\w-]*)?(?:token|passw|passph|pwd|secret|jwt|credential|bearer|auth[-_]?(?:key|data))[\w-]*=?"
        rb"|//[^\s/@:]*:(?![0-9]{1,5}(?:[/?,]|\Z))[^\s@]*\Z)|\\u00[4-7][0-9a-fA-F]"
    )
)
"""Signs that a text is or holds a credential: the forms all protocols know, a command that logs in, a word, a
letter that was escaped for no reason."""
FORM = pattern(lambda: credentials.VALUE.pattern.encode())
"""The same in names, in which a word means nothing: a topic may be called ``password-resets``."""
NAMES = pattern(rb"(?:topic|stream|group|member|memberId|consumer|consumer_?[iI]d|producer_?[iI]d|broker|leader)=\Z")
"""Before the name of something."""
COMMANDS = "|".join(("REGISTER_GROUP", "GROUP_STATUS", "FETCH_OFFSET", "SETGROUP", *POSITIONAL)).encode()
NAMED = pattern(rb"(?:" + COMMANDS + rb")(?:[ \t]+[^\s=]+){0,4}[ \t]+\Z")
"""Before a word of a positional command, which is a name."""
STEMS = ("login", "hello", "\\u00", "//")
"""Words of secrets that only Cursus has."""
MAX_KEY_BYTES = 64


def may_hold(data: bytes) -> bool:
    """Whether a text needs a look by :data:`CREDENTIAL`, which is slow."""
    text = data.decode("utf-8", "replace")  # bytes are searched at a tenth of the speed
    small = text.lower()
    return credentials.may_hold(text) or any(stem in small for stem in STEMS)


def holds_credential(data: bytes) -> bool:
    """Whether a text, such as a body that was compressed, may hold credentials."""
    return may_hold(data) and (CREDENTIAL.search(data) is not None or b"AUTH" in data[:64].upper())


ALL_ONES = 0xFFFF_FFFF_FFFF_FFFF

Reach = Callable[[bytes, int, int], int]
"""Where something ends: ``(data, position, end of the frame) -> its end``."""


def reach_of(pattern: bytes | Reach) -> Reach:
    """As far as a pattern matches, perhaps nowhere."""
    if not isinstance(pattern, bytes):
        return pattern
    match = re.compile(b"(?:" + pattern + b")?", re.DOTALL).match

    def reach(data: bytes, position: int, end: int) -> int:
        matched = match(data, position, end)
        return matched.end() if matched else position

    return reach


class PatternText(Kind):
    """Text as far as a pattern (for bytes) matches, perhaps nothing, or as a function says.

    Bytes that are not UTF-8 survive a round trip.
    """

    column = "string"

    def __init__(self, name: str, pattern: bytes | Reach, doc: str = "", **kw: Any) -> None:
        kw.setdefault("default", "")
        super().__init__(name, doc, **kw)
        self.pattern, self.reach = pattern, reach_of(pattern)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        stop = self.reach(data, position, end)
        return text(data[position:stop]), stop

    def write(self, value: Any, layer: Layer) -> bytes:
        return (value or "").encode("utf-8", "surrogateescape")

    def emit(self, em: Emitter) -> str:
        em.flush()
        value = em.variable(self.name)
        em.line(f"q = {em.constant(self.reach)}(b, p, e)")
        em.line(f"{value} = {self.spell_slice(em)}")
        em.line("p = q")
        return value

    def spell_slice(self, em: Emitter) -> str:
        return "b[p:q].decode()"

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return printable(value)

    def readable(self, value: Any) -> str:
        return repr(value)


class SecretPattern(PatternText):
    """A stretch that is hidden unless the user asks for it; bytes, so that its size is that on the wire."""

    def __init__(self, name: str, pattern: bytes | Reach, doc: str = "", **kw: Any) -> None:
        super().__init__(name, pattern, doc, secret=True, default=b"", **kw)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        stop = self.reach(data, position, end)
        return data[position:stop], stop

    def write(self, value: Any, layer: Layer) -> bytes:
        return bytes(value or b"")

    def spell_slice(self, em: Emitter) -> str:
        return "b[p:q]"

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return value.decode("utf-8", "backslashreplace")

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f'{expression}.decode("utf-8", "backslashreplace")'


def comes(pattern: bytes) -> When:
    """The next bytes match a pattern; look-behind sees the bytes read before."""
    return When(f"matches({pattern!r})")


def token_ahead(pattern: bytes | Reach) -> When:
    """Whether what comes next, as far as ``pattern``, is or holds a token, or follows the name of one."""
    reach = reach_of(pattern)

    def token(data: bytes, position: int, end: int) -> bool:
        stop, low = reach(data, position, end), max(0, position - MAX_KEY_BYTES)
        low = max(low, data.rfind(b"\0", low, position) + 1)  # the length of the frame at the latest
        if not may_hold(data[low:stop]):
            return False
        is_name = NAMES.search(data, low, position) or NAMED.search(data, low, position)
        for matched in (FORM if is_name else CREDENTIAL).finditer(data, low, stop):
            if matched.end() > position or (matched.end() == position and data[position - 1 : position] == b"="):
                return True
        return False

    return When("token_next()", token_next=token)


def holds_token(pattern: bytes | Reach) -> When:
    """Whether the rest, the body of a message, holds a token as clients put one after ``message=``."""
    reach = reach_of(pattern)

    def token(data: bytes, position: int, end: int) -> bool:
        return data.find(TOKEN, position, reach(data, position, end)) >= 0

    return When("token_inside()", token_inside=token)


MAX_PIECES = 65_536
"""Pieces of one text that are read: each becomes an object, however short it is on the wire."""
_MAX_PIECES = re.compile(rb"(?:\s*\S+){0,%d}" % (MAX_PIECES - 1)).match


class TextList(Array):
    """Elements with white space between them, up to where ``bound`` says, which is at most the end of the frame."""

    def __init__(self, name: str, element: type[Layer], bound: Reach, doc: str = "", **kw: Any) -> None:
        super().__init__(name, element, doc, count=None, **kw)
        self.whole_bound = bound

    def bound(self, data: bytes, position: int, end: int) -> int:
        stop = self.whole_bound(data, position, end)
        if stop - position < 2 * MAX_PIECES:
            return stop
        most = _MAX_PIECES(data, position, stop)
        return most.end() if most else position

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        return super().read(data, position, self.bound(data, position, end), layer)

    def emit(self, em: Emitter) -> str:
        with em.limit_to(f"{em.constant(self.bound)}(b, p, e)"):
            return em.array(self)


class Sequence(UInt64):
    """A sequence number; all ones (what a client makes of "first - 1" when there is none) is shown as -1."""

    def present(self, value: int, show: Callable[[bytes], str] | None) -> int:
        return -1 if value == ALL_ONES else value

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"(-1 if {expression} == {ALL_ONES} else {expression})"

    def readable(self, value: Any) -> str:
        return str(self.present(value, None))


DECIMAL = re.compile(r"-?[0-9]{1,10}\Z")


class DecimalText(Text):
    """A number spelled as text with its length in front; records show the number."""

    column = "string"

    def present(self, value: str | None, show: Callable[[bytes], str] | None) -> Any:
        return int(value) if value is not None and DECIMAL.match(value) else super().present(value, bytes.hex)

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.present)}({expression}, None)"
