"""Text from the wire, made harmless for terminals."""

from __future__ import annotations


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


def shorten_middle(text: str, limit: int) -> str:
    """At most ``limit`` characters, an ellipsis in the middle where something is left out: ends tell names apart."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last one an ellipsis where something is left out."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
