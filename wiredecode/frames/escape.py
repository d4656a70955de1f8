"""Text from the wire, made harmless for terminals; numbers with their noun."""

import codecs
import re
import sys
import textwrap
from io import RawIOBase
from typing import Any, BinaryIO

HARMFUL = "\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""DEL, C1 controls, line and paragraph separators, direction marks, characters without width."""
_harmful = re.compile(f"[{HARMFUL}]")
_raw = re.compile(f"\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f{HARMFUL}]")
"""Characters that must not reach a terminal: nearly all controls; sequences that set colours are our own."""
_ORDINARY = bytes({*b"\t\n", *range(0x20, 0x7F), *range(0x80, 0x100)} - {0xC2, 0xD8})
_LEADS = re.compile(rb"\xe2[\x80\x81]").search, re.compile(rb"\xef[\xbb\xbf]").search
"""First bytes of harmful non-ASCII characters in UTF-8, besides C2 and D8: arrows on every line begin with E2, too."""


LIKE = str.maketrans("→←↔↑↓…│║┊─━└┴┤├▶◀█▁▂▃▄▅▆▇·±µ", "><-^v~|#:--`-||><#_.,-=+*.~u")
"""ASCII that looks like what our own lines are made of."""


def _like(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError) and error.object[error.start].translate(LIKE).isascii():
        return error.object[error.start].translate(LIKE), error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error("wiredecode", _like)


def json_safe(data: bytes) -> bytes:
    """JSON text with harmful characters as ``\\u....``; control characters are escaped in JSON anyway."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _harmful.sub(lambda match: f"\\u{ord(match[0]):04x}", data.decode()).encode()


def terminal_safe(text: str) -> str:
    """Text as it may reach a terminal: the last guard, for text that was not escaped earlier."""
    return text if _is_safe(text.encode("utf-8", "backslashreplace")) else _made_safe(text)


def terminal_bytes(text: str, encoding: str) -> bytes:
    """Encode text; characters missing in the encoding become similar ones, or are escaped."""
    data = text.encode("utf-8", "backslashreplace")
    safe = _is_safe(data)
    if safe and encoding == "utf-8":
        return data
    return (text if safe else _made_safe(text)).encode(encoding, "wiredecode")


def _is_safe(data: bytes) -> bool:
    return not (data.translate(None, _ORDINARY) or _LEADS[0](data) or _LEADS[1](data))


def _made_safe(text: str) -> str:
    return _raw.sub(lambda match: _character(match[0]), text)


def valid(value: Any) -> Any:
    """``value`` with valid Unicode in all of its texts: lone surrogates are written out, as by :func:`escape`."""
    if isinstance(value, str):
        return value.encode("utf-8", "wiredecode-surrogates").decode()
    if isinstance(value, dict):
        return {valid(key): valid(inner) for key, inner in value.items()}
    return [valid(inner) for inner in value] if isinstance(value, list | tuple) else value


def escape(text: str) -> str:
    """``text`` on one line: control characters, escape sequences, direction marks and lone surrogates become ``\\x..``.

    Everything that :meth:`str.isprintable` accepts stays, so the common case costs one check.
    """
    return text if text.isprintable() else "".join(map(_character, text))


def _character(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return ascii(character)[1:-1]


def _surrogates(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_character, error.object[error.start : error.end])), error.end


codecs.register_error("wiredecode-surrogates", _surrogates)


def shorten_middle(text: str, limit: int) -> str:
    """At most ``limit`` characters, an ellipsis in the middle if shortened: the ends distinguish names."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last one an ellipsis where something is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def wrap_escaped(text: str, first: str, others: str, width: int, most: int | None = None) -> list[str]:
    """The text escaped, shortened to ``most`` characters, and wrapped; ``first``, ``others``: what lines begin with."""
    text = escape(text) if most is None else shorten(escape(text), most)
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def counted(number: int, noun: str, ending: str = "s") -> str:
    """``"1 frame"``, ``"2,000 frames"``; ``ending``: what the plural ends in."""
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def times(number: int) -> str:
    """``"once"``, ``"2,000 times"``."""
    return "once" if number == 1 else counted(number, "time")


UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def duration(ns: float) -> str:
    """Three digits, and a unit: ``1.62 ms``, ``119 ms``, ``3,600 s``."""
    size, unit = next((each for each in UNITS if ns >= each[0] * 0.9995), UNITS[-1])
    number = ns / size
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"


class TerminalStream(RawIOBase):
    """Bytes of a text format on their way to a terminal: harmful characters are escaped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._decode = stream, codecs.getincrementaldecoder("utf-8")("backslashreplace").decode

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(terminal_safe(self._decode(bytes(data)).replace("\x1b", "\\x1b")).encode())
        return len(data)

    def flush(self) -> None:
        if not self._stream.closed:  # else this is the end of the process
            self._stream.flush()


def text_bytes() -> BinaryIO:
    """Standard output for the bytes of a text format."""
    stream = sys.stdout.buffer
    return TerminalStream(stream) if sys.stdout.isatty() else stream  # type: ignore[return-value]  # it only writes
