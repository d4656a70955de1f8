"""The captures in folders and matching patterns, local and remote (docs/spark.md, "Inputs")."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pyarrow.fs as pafs

from wiredecode.capture.errors import CaptureError
from wiredecode.capture.remote import Location, line_of, location_of

CAPTURE_NAME = re.compile(r".+\.(pcap|pcapng|cap)([.\d]*\d)?(\.(gz|zst|lz4))?", re.IGNORECASE | re.DOTALL)
"""The name of a capture; ``.pcap0``, ``.pcap12``, ``.pcap.1`` are of rings of files."""
HIDDEN = (".", "_")
"""A file or folder inside a given folder whose name begins so is not for readers, as everywhere on Spark."""
GLOB = re.compile(r"[*?[]")


class Listed(NamedTuple):
    """A file that is there."""

    name: str
    size: int
    changed: float
    """When it was last written to, in seconds since the epoch."""


def listing(path: str) -> Iterator[Listed]:
    """The files of a path, in order of their names. Raises CaptureError."""
    location = location_of(path)
    try:
        info = location.system.get_file_info(location.path)
        if info.type == pafs.FileType.NotFound and GLOB.search(location.path):
            yield from sorted(set(_expand_pattern(location)))
        elif info.type == pafs.FileType.NotFound:
            raise CaptureError(location.name(location.path), "does not exist")
        elif info.type == pafs.FileType.Directory:
            yield from sorted(_inside(location, info.path))
        else:
            yield _describe_file(location, info)
    except CaptureError:
        raise
    except Exception as error:  # every store has its own
        raise CaptureError(location.name(location.path), f"cannot be listed: {line_of(error)}") from None


def _describe_file(location: Location, info: Any) -> Listed:
    """A file as its file system describes it. Object stores give no time: there a file is complete when it is seen."""
    return Listed(location.name(info.path), info.size or 0, (info.mtime_ns or 0) / 1e9)


def is_capture_name(name: str) -> bool:
    return CAPTURE_NAME.fullmatch(name) is not None


def is_hidden(path: str) -> bool:
    """Whether a file or one of its folders is hidden; ``path`` is relative to what was given."""
    return any(part.startswith(HIDDEN) for part in path.split("/"))


def _inside(location: Location, folder: str) -> Iterator[Listed]:
    for info in location.system.get_file_info(pafs.FileSelector(folder, recursive=True)):
        below = info.path.removeprefix(folder).lstrip("/")
        if info.type == pafs.FileType.File and is_capture_name(info.base_name) and not is_hidden(below):
            yield _describe_file(location, info)


def _expand_pattern(location: Location) -> Iterator[Listed]:
    """Files that fit, and the captures of folders that fit; a file of a folder that fits (``in/**/*``) comes again."""
    parts = location.path.split("/")
    fixed = next(index for index, part in enumerate(parts) if GLOB.search(part))
    base = "/".join(parts[:fixed]) or "/"
    infos = list(_matching(location, base, parts[fixed:]))
    if not infos:
        raise CaptureError(location.name(location.path), "fits no file")
    for info in infos:
        if info.type == pafs.FileType.Directory:
            yield from _inside(location, info.path)
        else:
            yield _describe_file(location, info)


def _matching(location: Location, folder: str, parts: list[str]) -> Iterator[Any]:
    head, *rest = parts
    selector = pafs.FileSelector(folder, allow_not_found=True)
    infos = [info for info in location.system.get_file_info(selector) if not is_hidden(info.base_name)]
    if head == "**":
        if rest:
            yield from _matching(location, folder, rest)
        for info in infos:
            if info.type == pafs.FileType.Directory:
                yield from _matching(location, info.path, parts)
            elif not rest:
                yield info
        return
    for info in infos:
        if fnmatchcase(info.base_name, head):
            if not rest:
                yield info
            elif info.type == pafs.FileType.Directory:
                yield from _matching(location, info.path, rest)
