"""Which files of a ring of captures are next: each closed file once, in order of time (docs/spark.md, "Streaming").

What was taken is remembered in *offsets*, which Spark keeps in its checkpoint, so that it can be done again as it was:

``batch``   counts micro-batches
``files``   the files of this micro-batch: name to time of the first packet in ns, or :data:`UNREADABLE`
``seen``    a mark of :data:`MARK` letters of each file that was taken so far and is still there
``last``    of each source the latest first packet of all files so far
``over``    whether all connections have been brought to an end

A file is the same as before if its name and its first packet are. Nothing here needs Spark.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.listing import Listed, listing
from wiredecode.spark import files

Offset = dict[str, Any]
UNREADABLE = -1
"""In place of a time: a file that is no capture; it is reported when it is taken."""


class Closed(NamedTuple):
    """A file that nobody writes to any more, in the order in which files are taken."""

    first_ns: int
    name: str


MARK_BYTES, MARK = 9, 12
"""Of what a file is known by: two of a million files have the same one with a chance of 1 in ten thousand million."""


def mark(file: Closed) -> str:
    """What remains of the name and the first packet of a file that was taken: a ring may hold a hundred thousand."""
    digest = blake2b(f"{file.first_ns} {file.name}".encode(), digest_size=MARK_BYTES).digest()
    return base64.b64encode(digest).decode()


def marks(text: str) -> set[str]:
    """The marks in ``seen``."""
    return {text[at : at + MARK] for at in range(0, len(text), MARK)}


class Next(NamedTuple):
    """A file of a micro-batch."""

    name: str
    source: str
    first_ns: int
    late: bool
    """It begins before a file that was taken in an earlier micro-batch."""


@dataclass
class Ring:
    """Files, folders and globs as :func:`wiredecode.spark.files.find` takes them, and ``sources`` as there.

    A file is closed when its source has a file that begins later, or when it has not changed for ``idle`` seconds.
    Files without packets, and what cannot be read, only in the latter case.
    """

    paths: Sequence[str]
    sources: str = files.NONE
    idle: float = 60.0
    now: Callable[[], float] = time.time
    _begin: dict[Listed, int] = field(default_factory=dict)
    """Times of the first packets of the files that are there."""

    def __post_init__(self) -> None:
        self.source_of = files.source_rule(self.sources)

    def first(self) -> Offset:
        """Nothing has been taken."""
        return {"batch": 0, "files": {}, "seen": "", "last": {}, "over": True}

    def closed(self, *, all_of_them: bool = False) -> list[Closed]:
        """The files that are closed now, or all. Raises CaptureError for a folder that cannot be listed."""
        there = {file: self._begin.get(file, UNREADABLE) for path in self.paths for file in _listing(path)}
        new = [file for file, first_ns in there.items() if first_ns == UNREADABLE]
        with ThreadPoolExecutor(max_workers=files.THREADS) as pool:
            begin = there | dict(zip(new, pool.map(_first_ns, (file.name for file in new)), strict=True))
        latest: dict[str, int] = {}
        for file, first_ns in begin.items():
            source = self.source_of(file.name)
            latest[source] = max(first_ns, latest.get(source, UNREADABLE))
        self._begin = begin
        return sorted(
            Closed(first_ns, file.name)
            for file, first_ns in begin.items()
            if all_of_them
            or UNREADABLE < first_ns < latest[self.source_of(file.name)]
            or self.now() - file.changed >= self.idle
        )

    def after(self, offset: Offset, closed: Sequence[Closed], most: int | None) -> Offset:
        """The offset behind the next ``most`` files, or ``offset`` itself where there is none."""
        seen = marks(offset["seen"])
        fresh = [file for file in closed if mark(file) not in seen][:most]
        if not fresh:
            return offset
        last = dict(offset["last"])
        for file in fresh:
            source = self.source_of(file.name)
            last[source] = max(file.first_ns, last.get(source, UNREADABLE))
        there = seen & {mark(Closed(first_ns, file.name)) for file, first_ns in self._begin.items()}
        return {
            "batch": offset["batch"] + 1,
            "files": {file.name: file.first_ns for file in fresh},
            "seen": "".join(sorted(there.union(map(mark, fresh)))),
            "last": last,
            "over": False,
        }

    def over(self, offset: Offset) -> Offset:
        """The offset behind the end of all connections, or ``offset`` itself where they are at their end."""
        return offset if offset["over"] else {**offset, "batch": offset["batch"] + 1, "files": {}, "over": True}

    def files(self, start: Offset, end: Offset) -> list[Next]:
        """The files between two offsets."""
        found = []
        for name, first_ns in end["files"].items():
            source = self.source_of(name)
            late = UNREADABLE < first_ns < start["last"].get(source, UNREADABLE)
            found.append(Next(name, source, first_ns, late))
        return found


def _listing(path: str) -> list[Listed]:
    """The files of a path; a folder or file that does not exist yet has none."""
    try:
        return list(listing(path))
    except CaptureError as error:
        if "does not exist" in str(error):
            return []
        raise


def _first_ns(name: str) -> int:
    """Time of the first packet; :data:`UNREADABLE` as long as there is none."""
    try:
        found = files.first_ns(name)
    except CaptureError:
        return UNREADABLE
    return UNREADABLE if found is None else found
