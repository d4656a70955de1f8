"""The exception of this package: an input cannot be read, or not to its end."""

from typing import Any, Self


def single_line(text: str) -> str:
    """``text`` on one line, control characters and lone surrogates as ``\\x..`` escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class CaptureError(Exception):
    """A capture is damaged, unreadable or not a capture. ``str()`` is one clear line.

    path: the file's name; offset: byte in the (uncompressed) file or None; packet: number of the first
    packet of that file which could not be read, or None; errors: when raised by a capture of several
    files, the errors of all these files; result: what ``wiredecode.check``, ``stats``, ``flows``, ``trace``, ``follow``
    or ``table()`` made of everything before the damage, None elsewhere.
    """

    def __init__(
        self, path: str, what: str, offset: int | None = None, packet: int | None = None, advice: str = ""
    ) -> None:
        super().__init__(path, what, offset, packet, advice)  # all arguments, so that it can be pickled
        self.path = path
        self.what = what
        self.offset = offset
        self.packet = packet
        self.advice = advice
        self.errors: list[CaptureError] = [self]
        self.result: Any = None

    def __str__(self) -> str:
        where = ""
        if self.offset is not None:
            where = f" at byte {self.offset}"
            if self.packet is not None:
                where += f" (packet {self.packet})"
        others = len(self.errors) - 1
        more = f" [{others} more of the files cannot be read in full]" if others > 0 else ""
        advice = f"; {self.advice}" if self.advice else ""
        return single_line(f"{self.path}: {self.what}{where}{advice}{more}")


class TruncatedCapture(CaptureError):
    """The file ends inside a packet record, a block or its compression."""


class Postponed:
    """While it lasts a :class:`CaptureError` only ends the work; :meth:`raise_again`, when all before it is done."""

    def __init__(self) -> None:
        self.error: CaptureError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        self.error = error if isinstance(error, CaptureError) else None
        return self.error is not None

    def raise_again(self) -> None:
        """Raise what was postponed."""
        if self.error is not None:
            raise self.error
