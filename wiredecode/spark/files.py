"""Which files are read, when each begins, and opening them wherever they are (docs/spark.md, "Inputs").

Nothing here needs Spark. Files that are not local are reached through ``pyarrow.fs``.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from wiredecode.capture import CaptureError, open_capture
from wiredecode.spark.packets import File

CAPTURE_NAME = re.compile(r".+\.(pcap|pcapng|cap)([.\d]*\d)?(\.(gz|zst|lz4))?", re.IGNORECASE | re.DOTALL)
"""The name of a capture; ``.pcap0``, ``.pcap12``, ``.pcap.1`` are of rings of files."""
HIDDEN = (".", "_")
"""A file or folder inside a given folder whose name begins so is not for readers, as everywhere on Spark."""
ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
SCHEMES = ("file", "s3", "hdfs", "viewfs", "gs", "abfs", "abfss")
GLOB = re.compile(r"[*?[]")
NONE, FOLDER = "none", "folder"
THREADS = 32
"""Reading the beginning of a file is mostly waiting."""
HEAD_BYTES = 64 * 1024


@dataclass(frozen=True)
class Problem:
    """What cannot be read, in one line that names it."""

    source: str
    file: str
    text: str


@dataclass
class Found:
    """What :func:`find` finds. ``files`` are in order of source, time and id: no matter in which order they were given.

    ``sizes``: bytes of each file, by name. Captures that hold no packet are neither a file nor a problem.
    """

    files: list[File] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


class Listed(NamedTuple):
    """A file that is there."""

    name: str
    size: int
    changed: float
    """When it was last written to, in seconds since the epoch."""


def find(paths: Sequence[str], sources: str = NONE) -> Found:
    """The captures of files, folders and globs, each with the time of its first packet.

    paths: local, or URIs of file, s3 (s3a, s3n), hdfs, gs, abfs[s]. Of a folder all captures in it and below count,
    told by their names (``.pcap``, ``.pcapng``, ``.cap``, numbered or compressed), but nothing hidden. In globs ``*``,
    ``?`` and ``[]`` stay within a folder, ``**`` stands for any number of folders. A file named in full may be called
    anything.

    sources: how capture points are told apart; files of one are one capture. ``none``: there is one, ``""``.
    ``folder``: the name of the folder that holds the file. Else a regular expression, searched for in the full name:
    its first group is the source, and ``""`` that of files where it is not found.

    What cannot be opened, or is no capture, is a problem, and does not stop the others. Raises ``ValueError`` for
    ``sources`` that do not work.
    """
    source_of = source_rule(sources)
    found, listed = Found(), dict[str, int]()
    for path in paths:
        try:
            listed.update((each.name, each.size) for each in listing(path))
        except CaptureError as error:
            found.problems.append(Problem(source_of(error.path), error.path, str(error)))
    if sources == FOLDER:
        _check_folders(listed)
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        firsts = pool.map(_first_or_error, listed)
        for (name, size), first in zip(listed.items(), firsts, strict=True):
            source = source_of(name)
            if isinstance(first, CaptureError):
                found.problems.append(Problem(source, name, str(first)))
            elif first is not None:
                found.files.append(File(name, source, first))
                found.sizes[name] = size
    found.files.sort(key=lambda file: (file.source, file.first_ns, file.id))
    found.problems.sort(key=lambda problem: problem.file)
    return found


def source_rule(sources: str) -> Callable[[str], str]:
    """The source of a file by its full name, as ``sources`` of :func:`find` says. Raises ``ValueError``."""
    if sources in (NONE, ""):
        return lambda name: ""
    if sources == FOLDER:
        return lambda name: _folder(name).rpartition("/")[2]
    try:
        pattern = re.compile(sources)
    except re.error as error:
        raise ValueError(f"source {sources!r} is no regular expression: {error}") from None
    if not pattern.groups:
        raise ValueError(f"source {sources!r} needs a group, as in '/(client|broker)/'; or say {NONE} or {FOLDER}")

    def matched(name: str) -> str:
        match = pattern.search(name)
        return (match.group(1) or "") if match else ""

    return matched


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _check_folders(names: Iterable[str]) -> None:
    """Two folders that have the same name would be one capture, and nobody would notice."""
    known: dict[str, str] = {}
    for folder in sorted({_folder(name) for name in names}):
        other = known.setdefault(folder.rpartition("/")[2], folder)
        if other != folder:
            both = f"{other} and {folder} have the same name"
            raise ValueError(f"source {FOLDER}: {both}; tell sources apart with a regular expression")


def first_ns(name: str) -> int | None:
    """Time of the first packet of a file; None when it holds none. Raises CaptureError."""
    with open_file(name) as file:
        for batch in open_capture([file], batch_bytes=HEAD_BYTES):
            if len(batch):
                return int(batch.time_ns[0])
    return None


def _first_or_error(name: str) -> int | CaptureError | None:
    try:
        return first_ns(name)
    except CaptureError as error:
        return error


# Names.


def is_local(name: str) -> bool:
    """Whether a name of :func:`find` is that of a local file."""
    return "://" not in name


def listing(path: str) -> Iterator[Listed]:
    """The files of a path, in order of their names. Raises CaptureError."""
    place = place_of(path)
    try:
        info = place.system.get_file_info(place.path)
        if info.type == pafs.FileType.NotFound and GLOB.search(place.path):
            yield from sorted(_globbed(place))
        elif info.type == pafs.FileType.NotFound:
            raise CaptureError(place.name(place.path), "does not exist")
        elif info.type == pafs.FileType.Directory:
            yield from sorted(_inside(place, info.path))
        else:
            yield place.listed(info)
    except OSError as error:
        raise CaptureError(place.name(place.path), f"cannot be listed: {_line(error)}") from None


class Place(NamedTuple):
    """A path of a file system; ``prefix`` and a path make the full name."""

    system: Any
    path: str
    prefix: str
    root: str

    def name(self, path: str) -> str:
        return self.prefix + path.removeprefix(self.root)

    def listed(self, info: Any) -> Listed:
        """What a file system says of a file."""
        return Listed(self.name(info.path), info.size or 0, (info.mtime_ns or 0) / 1e9)


def place_of(path: str) -> Place:
    """Where a path leads. Raises CaptureError for what is not reachable."""
    scheme, sign, rest = path.partition("://")
    if not sign:
        scheme, sign, rest = path.partition(":") if path.startswith("file:/") else ("", "", path)
    if not sign or scheme == "file":
        if sign:  # file:///path, file:/path, file://localhost/path
            rest = unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)
        return Place(pafs.LocalFileSystem(), os.path.abspath(rest), "", "")  # noqa: PTH100 - a text; globs stay
    known = ALIASES.get(scheme.lower(), scheme.lower())
    if known not in SCHEMES:
        raise CaptureError(path, f"{scheme}:// cannot be read", advice=f"there is {', '.join(SCHEMES)}")
    authority, _, inner = rest.partition("/")
    try:
        system, root = file_system(f"{known}://{authority}/")
    except (OSError, ValueError, ImportError, pa.ArrowException) as error:
        raise CaptureError(path, f"{scheme}:// cannot be reached: {_line(error)}") from None
    root = root.rstrip("/") + "/"
    return Place(system, (root + inner).rstrip("/"), f"{scheme}://{authority}/", root)


@lru_cache(maxsize=64)
def file_system(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it: opened once per process, for it may ask the network."""
    found: tuple[Any, str] = pafs.FileSystem.from_uri(uri)
    return found


def _line(error: BaseException) -> str:
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def is_capture_name(name: str) -> bool:
    """Whether the name of a file is that of a capture."""
    return CAPTURE_NAME.fullmatch(name) is not None


def is_hidden(path: str) -> bool:
    """Whether a file or one of its folders is hidden; ``path`` is relative to what was given."""
    return any(part.startswith(HIDDEN) for part in path.split("/"))


def _inside(place: Place, folder: str) -> Iterator[Listed]:
    for info in place.system.get_file_info(pafs.FileSelector(folder, recursive=True)):
        below = info.path.removeprefix(folder).lstrip("/")
        if info.type == pafs.FileType.File and is_capture_name(info.base_name) and not is_hidden(below):
            yield place.listed(info)


def _globbed(place: Place) -> Iterator[Listed]:
    """Files that fit, and the captures of folders that fit."""
    parts = place.path.split("/")
    fixed = next(index for index, part in enumerate(parts) if GLOB.search(part))
    base = "/".join(parts[:fixed]) or "/"
    found = list(_matching(place, base, parts[fixed:]))
    if not found:
        raise CaptureError(place.name(place.path), "fits no file")
    for info in found:
        if info.type == pafs.FileType.Directory:
            yield from _inside(place, info.path)
        else:
            yield place.listed(info)


def _matching(place: Place, folder: str, parts: list[str]) -> Iterator[Any]:
    head, *rest = parts
    selector = pafs.FileSelector(folder, allow_not_found=True)
    infos = [info for info in place.system.get_file_info(selector) if not is_hidden(info.base_name)]
    if head == "**":
        if rest:
            yield from _matching(place, folder, rest)
        for info in infos:
            if info.type == pafs.FileType.Directory:
                yield from _matching(place, info.path, parts)
            elif not rest:
                yield info
        return
    for info in infos:
        if fnmatchcase(info.base_name, head):
            if not rest:
                yield info
            elif info.type == pafs.FileType.Directory:
                yield from _matching(place, info.path, rest)


# Opening.


def open_file(name: str) -> BinaryIO:
    """The stored bytes of a file of :func:`find`, seekable; its ``name`` is that. Raises CaptureError.

    A file that is not local is opened when the first byte is asked for, so that thousands can wait for their turn.
    """
    if not is_local(name):
        return cast(BinaryIO, Remote(name))
    try:
        return Path(name).open("rb", buffering=0)
    except FileNotFoundError:
        raise CaptureError(name, "does not exist") from None
    except PermissionError:
        raise CaptureError(name, "cannot be opened", advice="no permission to read it") from None
    except (OSError, ValueError) as error:
        raise CaptureError(name, f"cannot be opened: {_line(error)}") from None


class Remote(io.RawIOBase):
    """A file that is not local, as a file object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: Any = None

    def _opened(self) -> Any:
        if self._file is None:
            place = place_of(self.name)
            try:
                self._file = place.system.open_input_file(place.path)
            except pa.ArrowException as error:
                raise OSError(_line(error)) from None
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        found: bytes = self._opened().read(None if size is None or size < 0 else size)
        return found

    def readinto(self, buffer: Any) -> int:
        found: int = self._opened().readinto(buffer)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._opened().seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened().tell())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
