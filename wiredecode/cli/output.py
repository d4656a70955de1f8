"""Standard output as blocks of bytes, and what may be done with a terminal."""

import os
import shutil
import sys
from codecs import getincrementaldecoder
from collections.abc import Sequence
from io import RawIOBase
from typing import Any, BinaryIO, TextIO

from wiredecode.frames.escape import terminal_bytes, terminal_safe

BLOCK_BYTES = 64 * 1024
"""Bytes that are written together."""


def terminal() -> os.terminal_size | None:
    """The size of the terminal that standard output is; None: it is none."""
    return shutil.get_terminal_size() if sys.stdout.isatty() else None


class Closed(Exception):
    """Standard output has no reader; not an OSError, which click would make an exit code of 1."""


class TerminalStream(RawIOBase):
    """Bytes of a text format on their way to a terminal: harmful characters are escaped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._decode = stream, getincrementaldecoder("utf-8")("backslashreplace").decode

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(terminal_safe(self._decode(bytes(data)).replace("\x1b", "\\x1b")).encode())
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


class Output:
    """Collects what goes to standard output or a file; :meth:`flush` whenever more may take a while to come."""

    def __init__(self, binary: BinaryIO | None = None) -> None:
        if binary is None:
            sys.stdout.flush()
        self._stream: BinaryIO = sys.stdout.buffer if binary is None else binary
        self.encoding = sys.stdout.encoding or "utf-8"
        self._parts: list[bytes] = []
        self._texts: list[str] = []
        self._size = 0
        self._block = 1  # the first line is shown immediately

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= self._block:
            self.flush()

    def text(self, text: str) -> None:
        """Write text, not mixed with bytes; characters missing in the terminal's encoding are escaped."""
        self._texts.append(text)
        self._size += len(text)
        if self._size >= self._block:
            self.flush()

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows in columns."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            self.text("  ".join(map(str.ljust, row, widths)).rstrip() + "\n")

    def json(self, row: dict[str, Any]) -> None:
        """A line of NDJSON."""
        from orjson import OPT_APPEND_NEWLINE, dumps

        self.write(dumps(row, option=OPT_APPEND_NEWLINE))

    def flush(self) -> None:
        if self._size:
            self._size, self._block = 0, BLOCK_BYTES
            data = b"".join(self._parts) + terminal_bytes("".join(self._texts), self.encoding)
            self._parts.clear()
            self._texts.clear()
            try:
                self._stream.write(data)
                self._stream.flush()
            except BrokenPipeError:
                raise Closed from None


def text_bytes() -> BinaryIO:
    """Standard output for the bytes of a text format."""
    stream = sys.stdout.buffer
    return TerminalStream(stream) if sys.stdout.isatty() else stream  # type: ignore[return-value]


def wants_color(choice: str, stream: TextIO) -> bool:
    """Whether to colour what goes to ``stream``; ``auto`` respects NO_COLOR and TERM=dumb."""
    if choice != "auto":
        return choice == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def complain(text: str) -> None:
    """One line for people, on standard error; ignored if it has no reader."""
    say(f"wiredecode: {text}")


def say(text: str) -> None:
    """Text for people, on standard error."""
    text = terminal_safe(text)
    try:
        print(
            text.encode(sys.stderr.encoding or "utf-8", "wiredecode").decode(sys.stderr.encoding or "utf-8"),
            file=sys.stderr,
            flush=True,
        )
    except (BrokenPipeError, ValueError):
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """``stream`` has no reader: let the interpreter flush it into nothing at its end."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
