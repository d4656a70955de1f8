"""Which captures an export is of, by their content, and what it takes the place of (docs/export.md).

A table remembers its runs in the same commit as their rows, so a run is there as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.remote import open_file
from wiredecode.export.target import Unclear

DIGEST_BYTES = 12
"""Of a token; two captures that differ have the same one once in 2**48 captures."""
PIECE = 1 << 20
RUN_BITS = 63
"""Of the number of a run: Delta keeps it in a signed integer."""


class LakeError(Unclear):
    """The tables cannot be reached or written; ``str()`` is one line."""


class AlreadyThere(Exception):
    """A table holds these captures."""


class Capture(NamedTuple):
    """A capture by its content. ``token``: of the content and what of it is written, so that it is counted once."""

    name: str
    size: int
    digest: str
    token: str


class Known(NamedTuple):
    """What a table remembers of a run: of how many captures and files it was, and how many captures are in ours too."""

    captures: int
    files: int
    shared: int


@dataclass(frozen=True)
class Run:
    """The captures of one export. ``id`` follows from them: the same export again is the same run."""

    captures: tuple[Capture, ...]

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(capture.token for capture in self.captures)

    @property
    def id(self) -> int:
        digest = blake2b("".join(sorted(self.tokens)).encode(), digest_size=8).digest()
        return int.from_bytes(digest) >> (64 - RUN_BITS)

    @property
    def name(self) -> str:
        """``id`` as names of files have it."""
        return run_name(self.id)

    def replaces(self, known: Mapping[int, Known], *, overwrite: bool) -> list[int]:
        """The runs whose rows this one brings again, and more; ``known``: those of a table that share captures.

        Raises :class:`AlreadyThere` where all captures are there, unless ``overwrite``, and :class:`LakeError` where
        some are there together with others: connections go on from file to file, so they cannot be taken apart.
        """
        if not overwrite and any(each.shared == len(self.tokens) for each in known.values()):
            raise AlreadyThere
        for each in known.values():
            if each.shared < each.captures:
                raise LakeError(
                    f"{each.shared} of the captures are in the table already, together with "
                    f"{each.captures - each.shared} others; export all of them together, or only those that are new"
                )
        return sorted(known)


def run_name(number: int) -> str:
    """The number of a run in names of files and properties."""
    return f"{number:016x}"


def run_of(files: Iterable[str], selection: str) -> Run:
    """The run of captures that are read for their digests; ``selection`` says what of them is written.

    What cannot be read is left out: decoding tells it.
    """
    found = []
    for name in files:
        try:
            digest, size = content(name)
        except (CaptureError, OSError):
            continue
        token = blake2b(f"{digest}\n{selection}".encode(), digest_size=DIGEST_BYTES).hexdigest()
        found.append(Capture(name, size, digest, token))
    return Run(tuple(found))


def content(name: str) -> tuple[str, int]:
    """Digest and size of a file. Raises OSError, CaptureError."""
    made, size = blake2b(digest_size=DIGEST_BYTES), 0
    with open_file(name) as file:
        while piece := file.read(PIECE):
            made.update(piece)
            size += len(piece)
    return made.hexdigest(), size
