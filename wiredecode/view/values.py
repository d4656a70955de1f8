"""Single values in trees: text, bytes, byte ranges, all shortened and escaped."""

from typing import Any

from rich.text import Text
from rich.tree import Tree

from wiredecode.fields.layer import Range
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.record import BYTES
from wiredecode.view import theme
from wiredecode.view.theme import TreeOptions

SHOWN_TEXT = 60
"""Bytes of text in front of hex."""


class Raw(str):
    """Bytes in a record, kept as they are: use as ``Style.show`` for the frames that become trees."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> "Raw":
        self = super().__new__(cls, "bytes")
        self.raw = raw
        return self


class Line(Text):
    """A line of a tree, and the field that it shows."""

    name = ""
    """Its name in the structure around it, as filters have it; empty: it is no field."""
    value: Any = ...
    """Its value, not shortened; ``...``: it has none."""
    span: Range | None = None
    """Its bytes in the frame."""


def field_line(name: str, value: Any, shown: str, style: str = theme.VALUE) -> Line:
    """The line of a field: its name, and its value as it is ``shown``."""
    line = Line(f"{escape(name)}: ")
    line.append(shown, style)
    line.name, line.value = name, value
    return line


def with_range(line: Line, span: Range | None, *, in_frame: bool = True) -> Line:
    """Add the byte range of a line; ``in_frame``: it counts from the beginning of the frame."""
    if span is not None:
        line.append(f"  @{span[0]}:{span[1]}", theme.RANGE)
        if in_frame:
            line.span = span
    return line


def bytes_text(data: bytes, options: TreeOptions) -> str:
    """Bytes in the chosen form; instead of hex, text is shown as text, with the hex after it."""
    limit = options.limit(theme.SHOWN_BYTES)
    shown = data[:limit] if options.bytes in ("hex", "base64", "text") else data
    text = escape(BYTES[options.bytes](shown))
    if options.bytes == "length":
        return text
    if options.bytes == "hex" and (words := _beginning(data, options.limit(SHOWN_TEXT))):
        text = f"{words} {text}"
    return f"{text}{'…' if len(shown) < len(data) else ''} ({len(data)} bytes)"


def body_text(data: bytes, options: TreeOptions) -> str:
    """A body in the chosen form; in place of hex, text as text."""
    words = _beginning(data, options.limit(SHOWN_TEXT)) if options.bytes == "hex" else ""
    return f"{words} ({len(data)} bytes)" if words else bytes_text(data, options)


def text_or_hex(data: bytes) -> str:
    """Bytes in a cell: text where they are text, else hex, marked as such."""
    return _words(data) or (f"0x{data.hex()}" if data else "")


def _beginning(data: bytes, limit: int | None) -> str:
    """Text in quotes, shortened to the limit; empty: the bytes are no text."""
    if limit is None or len(data) <= limit:
        return f'"{words}"' if (words := _words(data)) else ""
    for end in range(limit, max(limit - 4, 0), -1):  # not in the middle of a character
        if words := _words(data[:end]):
            return f'"{words}…"'
    return ""


def _words(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def value_text(value: Any, options: TreeOptions) -> str:
    if isinstance(value, Raw):
        return bytes_text(value.raw, options)
    if isinstance(value, str):
        limit = options.limit(theme.SHOWN_CHARACTERS)
        shown = value if limit is None else shorten(value, limit)
        return f'"{escape(shown)}"' + (f" ({len(value)} characters)" if len(shown) < len(value) else "")
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else escape(str(value))


def bare_text(value: Any, options: TreeOptions) -> str:
    """A generated value: text without quotes, texts one after another."""
    if isinstance(value, list) and value and isinstance(value[0], str):
        value = ", ".join(value)
    return escape(value) if isinstance(value, str) and not isinstance(value, Raw) else value_text(value, options)


def whole_text(value: Any) -> str:
    """A value on its own, not shortened: bytes as text where they are text, else in hex."""
    if isinstance(value, Raw):
        return escape(text_or_hex(value.raw))
    if isinstance(value, list):
        return f"[{', '.join(map(whole_text, value))}]"
    return escape(value) if isinstance(value, str) else value_text(value, TreeOptions(full=True))


def add_more(node: Tree, count: int, options: TreeOptions) -> None:
    """Say how many of ``count`` elements are not shown."""
    limit = options.limit(theme.SHOWN_ELEMENTS)
    if limit is not None and count > limit:
        node.add(Line(f"... {count - limit:,} more (--full shows all)", "dim"))
