"""Files to read, and the time at which each begins (docs/spark.md, "Inputs"). Nothing here needs Spark."""

import os
import re
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.listing import Listed, listing
from wiredecode.capture.remote import open_file
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.spark.parcels import File

NONE, FOLDER = "none", "folder"
THREADS = 32
"""Reading the beginning of a file is mostly waiting."""
HEAD_BYTES = 64 * 1024


Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""One path, or several."""


class UnreadableFile(Exception):
    """A file cannot be read; ``str()`` is the line with the reason."""


@dataclass(frozen=True)
class FileProblem:
    """Read error, in one line that names the file."""

    source: str
    file: str
    text: str


@dataclass
class Inputs:
    """Result of :func:`find`. ``files`` are in order of source, time and name, for any order in which they were given.

    ``sizes``: bytes of each file, by name. Captures without packets are neither a file nor a problem.
    """

    files: list[File] = field(default_factory=list)
    problems: list[FileProblem] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    changed: dict[str, float] = field(default_factory=dict)
    """Time of the last change of every file that was found, in seconds since the epoch."""


def find(paths: Paths, sources: str = NONE, heads: MutableMapping[Listed, int] | None = None) -> Inputs:
    """The captures of files, folders and globs, each with the time of its first packet.

    paths: local, or URIs of file, and of schemes of fsspec: s3 (s3a), gs, abfs, hdfs ... Of a folder all captures in
    it and below count, found by their names (``.pcap``, ``.pcapng``, ``.cap``, numbered or compressed), but nothing
    hidden. In globs ``*``, ``?`` and ``[]`` stay within a folder, ``**`` matches any number of folders. A file named
    in full may be called anything.

    sources: how to find the capture point of a file; files of one are one capture. ``none``: there is one, ``""``.
    ``folder``: the name of the folder that holds the file. Else a regular expression, searched for in the full name:
    its first group is the source, and ``""`` that of files where it is not found.

    heads: first packet times of files that an earlier call has read; this call adds its own and drops those of files
    that are gone.

    Files that cannot be opened, or are no captures, are problems, and do not stop the others. Raises ``ValueError`` for
    ``sources`` that do not work.
    """
    source_of = source_rule(sources)
    heads = {} if heads is None else heads
    inputs, listed = Inputs(), dict[str, Listed]()
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        try:
            listed.update((each.name, each) for each in listing(os.fspath(path)))
        except CaptureError as error:
            inputs.problems.append(FileProblem(source_of(error.path), error.path, str(error)))
    if sources == FOLDER:
        _check_folders(listed)
    for gone in heads.keys() - set(listed.values()):
        del heads[gone]
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        unread = {name: pool.submit(first_ns, name) for name, each in listed.items() if each not in heads}
        for name, each in listed.items():
            source = source_of(name)
            inputs.changed[name] = each.changed
            try:
                time_ns = unread[name].result() if name in unread else heads[each]
            except CaptureError as error:
                inputs.problems.append(FileProblem(source, name, str(error)))
                continue
            if time_ns is not None:
                inputs.files.append(File(name, source, time_ns))
                heads[each] = time_ns
                inputs.sizes[name] = each.size
    inputs.files.sort(key=lambda file: (file.source, file.first_ns, file.name))
    inputs.problems.sort(key=lambda problem: problem.file)
    return inputs


def find_readable(paths: Paths, sources: str = NONE, *, fail_fast: bool = False) -> Inputs:
    """As :func:`find`, for readers whose result has no place for a problem.

    Raises UnreadableFile for a path that does not exist or cannot be reached, and if no file can be read; with
    ``fail_fast`` for every file that cannot be read.
    """
    inputs = find(paths, sources)
    for problem in inputs.problems:
        if fail_fast or not inputs.files or problem.file not in inputs.changed:
            raise UnreadableFile(problem.text)
    return inputs


def settled_files(inputs: Inputs, seconds: float, now: float) -> Inputs:
    """Files that no program writes to at ``now``: unchanged for seconds, or followed by a later file of the source."""
    latest: dict[str, int] = {}
    for file in inputs.files:
        latest[file.source] = max(file.first_ns, latest.get(file.source, file.first_ns))
    changed = inputs.changed
    files = [
        file for file in inputs.files if file.first_ns < latest[file.source] or now - changed[file.name] >= seconds
    ]
    problems = [each for each in inputs.problems if now - changed.get(each.file, 0.0) >= seconds]
    return replace(inputs, files=files, problems=problems)


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
    """Two folders that have the same name would be one capture, unnoticed."""
    folders: dict[str, str] = {}
    for folder in sorted({_folder(name) for name in names}):
        namesake = folders.setdefault(folder.rpartition("/")[2], folder)
        if namesake != folder:
            both = f"{namesake} and {folder} have the same name"
            raise ValueError(f"source {FOLDER}: {both}; separate sources with a regular expression")


def first_ns(name: str) -> int | None:
    """Time of the first packet of a file; None when it holds none. Raises CaptureError."""
    with open_file(name) as file:
        for batch in open_capture([file], batch_bytes=HEAD_BYTES):
            if len(batch):
                return int(batch.time_ns[0])
    return None
