"""Identifies the captures of an export by content, and the earlier exports that it replaces (docs/export.md).

A table records its runs in the same commit as their rows, so a run is complete or absent.
"""

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.remote import open_file
from wiredecode.dataclasses import dataclass
from wiredecode.export.target import ExportError

DIGEST_BYTES = 12
"""Bytes of a token: different captures collide once in 2**48 captures."""
PIECE = 1 << 20
WHOLE_BYTES = 4 << 20
SAMPLES, SAMPLE_BYTES = 16, 64 << 10
"""This many pieces identify a file larger than :data:`WHOLE_BYTES`, the first and the last bytes among them:
captures of terabytes are not read twice. Packets have times, so two captures never agree in all pieces."""
THREADS = 32
"""Reading a few pieces of a file is mostly waiting."""
RUN_BITS = 63
"""Bits of the number of a run, a signed integer in Delta."""


class LakeError(ExportError):
    """The tables cannot be reached or written; ``str()`` is one line."""


class AlreadyThere(Exception):
    """A table holds these captures."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "has these captures already; --overwrite writes them again"


class CaptureId(NamedTuple):
    """A capture by its content. ``token``: of the content and what of it is written, so that it is counted once."""

    name: str
    size: int
    digest: str
    token: str


class KnownRun(NamedTuple):
    """A table's record of a run: its number of captures and files, and how many captures are in ours too."""

    captures: int
    files: int
    shared: int
    columns: int = 0
    """:attr:`TableRun.chosen_columns` of the run."""


@dataclass(frozen=True)
class TableRun:
    """The captures of one export. ``id`` follows from them: the same export again is the same run."""

    captures: tuple[CaptureId, ...]
    stream: tuple[str, int] | None = None
    """Instead of captures: which stream, and the number of its step; a table remembers the last one only."""
    columns: tuple[str, ...] | None = None
    """The columns that are written; None: all."""

    @cached_property
    def tokens(self) -> frozenset[str]:
        return frozenset(capture.token for capture in self.captures)

    @cached_property
    def id(self) -> int:
        text = "".join(sorted(self.tokens)) if self.stream is None else "stream {} {}".format(*self.stream)
        digest = blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest) >> (64 - RUN_BITS)

    @cached_property
    def name(self) -> str:
        """``id`` as names of files have it."""
        return run_name(self.id)

    @cached_property
    def chosen_columns(self) -> int:
        """A digest of the columns; 0: all."""
        text = "\n".join(sorted(self.columns or ()))
        return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) if text else 0

    def check_step(self, last: int | None) -> None:
        """Raise :class:`AlreadyThere` if a table has this step of the stream; ``last``: its last step."""
        if self.stream is not None and last is not None and last >= self.stream[1]:
            raise AlreadyThere

    def replaces(self, earlier: Mapping[int, KnownRun], *, overwrite: bool) -> list[int]:
        """The runs whose rows this one replaces; ``earlier``: those of a table that share captures.

        Raises :class:`AlreadyThere` if the table has all captures, unless ``overwrite``; :class:`LakeError` if it has
        them with other columns, or some together with others: connections continue across files, so their rows cannot
        be separated.
        """
        there = [each for each in earlier.values() if each.shared == len(self.tokens)]
        if there and not overwrite:
            if any(each.columns not in (0, self.chosen_columns) for each in there):
                raise LakeError(
                    "the captures are in the table already, with other columns (of an earlier --columns); "
                    "--overwrite writes them again, with these"
                )
            raise AlreadyThere
        for each in earlier.values():
            if each.shared < each.captures:
                raise LakeError(
                    f"{each.shared} of the captures are in the table already, together with "
                    f"{each.captures - each.shared} others; export all of them together, or only those that are new"
                )
        return sorted(earlier)


def run_name(number: int) -> str:
    """The number of a run in names of files and properties."""
    return f"{number:016x}"


def contents(files: Iterable[str]) -> list[tuple[str, int, str]]:
    """Name, size and digest of files; unreadable ones are left out: decoding reports them."""

    def read(name: str) -> tuple[str, int, str] | None:
        try:
            digest, size = content(name)
        except (CaptureError, OSError):
            return None
        return name, size, digest

    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        return [each for each in pool.map(read, files) if each is not None]


def run_of(files: Iterable[tuple[str, int, str]], selection: str, columns: Iterable[str] | None = None) -> TableRun:
    """The run of captures of these :func:`contents`; ``selection``: the rows that are written, ``columns``: or all."""
    captures = tuple(capture_of(*file, selection) for file in files)
    return TableRun(captures, columns=None if columns is None else tuple(columns))


def capture_of(name: str, size: int, digest: str, selection: str) -> CaptureId:
    """A capture whose content is known."""
    token = blake2b(f"{digest}\n{selection}".encode(), digest_size=DIGEST_BYTES).hexdigest()
    return CaptureId(name, size, digest, token)


def selection(level: str, display: str | None = None, **others: object) -> str:
    """The written selection of captures, as words of the command line."""
    given = {"-Y": display, **{f"--{name}": value for name, value in others.items()}}
    return " ".join([level, *(f"{name} {value}" for name, value in given.items() if value is not None)])


def content(name: str) -> tuple[str, int]:
    """Digest and size of a file: of all its bytes, or of :data:`SAMPLES` from it. Raises OSError, CaptureError."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    with open_file(name) as file:
        size = file.seek(0, os.SEEK_END)
        for low, high in _sample_ranges(size):
            file.seek(low)
            while low < high and (piece := file.read(min(high - low, PIECE))):
                digest.update(piece)
                low += len(piece)
    return f"{digest.hexdigest()}-{size}", size


def _sample_ranges(size: int) -> list[tuple[int, int]]:
    """The parts of a file that its digest is made of."""
    if size <= WHOLE_BYTES:
        return [(0, size)]
    step = (size - SAMPLE_BYTES) // (SAMPLES - 1)
    return [(low, low + SAMPLE_BYTES) for low in range(0, step * SAMPLES, step)][:SAMPLES]
