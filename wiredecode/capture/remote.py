"""Files wherever they are: local ones, and URIs of object stores and clusters (docs/spark.md, "Inputs").

Remote files are reached through fsspec, by one package per kind of store, with that store's usual credentials;
wrapped for Arrow, so that tables are written there, too. Nothing else opens what is not local.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from wiredecode.capture.errors import CaptureError
from wiredecode.extras import NotInstalled, need

ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names for what others call differently."""


def is_local(name: str) -> bool:
    """Whether a name is that of a local file; ``file:`` is in no name."""
    return "://" not in name


class Location(NamedTuple):
    """A path of a file system; ``prefix`` and a path make the full name."""

    system: Any
    path: str
    prefix: str
    root: str

    def name(self, path: str) -> str:
        return self.prefix + path.removeprefix(self.root)


def location_of(path: str) -> Location:
    """Return the location of a path. Raises CaptureError if unreachable, extras.NotInstalled without its package."""
    scheme, sign, rest = path.partition("://")
    if not sign:
        scheme, sign, rest = path.partition(":") if path.startswith("file:/") else ("", "", path)
    if not sign or scheme == "file":
        import pyarrow.fs as pafs

        if sign:  # file:///path, file:/path, file://localhost/path
            rest = unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)
        return Location(pafs.LocalFileSystem(), os.path.abspath(rest), "", "")  # noqa: PTH100 - a text; globs stay
    authority, _, inner = rest.partition("/")
    filesystem = ALIASES.get(scheme.lower(), scheme.lower())
    for module in ("fsspec", "s3fs") if filesystem == "s3" else ("fsspec",):
        need(module, f"{scheme}://")
    try:
        system, root = file_system(f"{filesystem}://{authority}/")
    except Exception as error:  # every store has its own
        raise CaptureError(path, f"{scheme}:// cannot be reached: {line_of(error)}") from None
    root = root.rstrip("/") + "/"
    return Location(system, (root + inner).rstrip("/"), f"{scheme}://{authority}/", root)


@lru_cache(maxsize=64)
def file_system(uri: str) -> tuple[Any, str]:
    """The file system of a URI, for Arrow, and the path in it: opened once per process, for it may ask the network."""
    import fsspec
    import pyarrow.fs as pafs

    system, root = fsspec.url_to_fs(uri, use_listings_cache=False, skip_instance_cache=True)
    return pafs.PyFileSystem(pafs.FSSpecHandler(system)), str(root)


def line_of(error: BaseException) -> str:
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def open_file(name: str) -> BinaryIO:
    """A stored file, seekable, with its ``name``; a remote one is opened at the first read. Raises CaptureError."""
    if not is_local(name):
        return cast(BinaryIO, Remote(name))
    try:
        return Path(name).open("rb", buffering=0)
    except IsADirectoryError:
        raise CaptureError(name, "is a directory", advice="name the capture files in it") from None
    except FileNotFoundError:
        raise CaptureError(name, "does not exist") from None
    except PermissionError:
        raise CaptureError(name, "cannot be opened", advice="no permission to read it") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CaptureError(name, f"cannot be opened: {line_of(error)}") from None


def remote_size(name: str) -> int | None:
    """Size of a remote file in bytes; None if unknown: then reading the file raises the error."""
    try:
        location = location_of(name)
        size: int | None = location.system.get_file_info(location.path).size
    except Exception:  # every store has its own
        return None
    return size


class NewObject:
    """A new file that is not local, or in place of one: write to ``stream``, then :meth:`commit` or :meth:`discard`.

    Stores of objects show an upload when it is completed; file systems, which have no such thing, rename a part.
    Raises OSError.
    """

    def __init__(self, name: str) -> None:
        try:
            location = location_of(name)
        except CaptureError as error:
            raise OSError("; ".join(filter(None, (error.what, error.advice)))) from None
        self._system, self._path, self._over = location.system.handler.fs, location.path, False
        renames = self._system.protocol in ("hdfs", "viewfs") or "sftp" in self._system.protocol
        self._part = f"{location.path}.{os.urandom(4).hex()}.part" if renames else None
        with store_errors():
            self.stream: Any = self._system.open(self._part or location.path, "wb", autocommit=renames)

    def commit(self) -> None:
        """The file is complete: it appears."""
        with store_errors():
            self.stream.close()
            if self._part is not None:
                self._system.mv(self._part, self._path)
            else:
                self.stream.commit()
        self._over = True

    def discard(self) -> None:
        """Discard everything. After :meth:`commit` it does nothing."""
        if self._over:
            return
        self._over = True
        with suppress(Exception):
            if self._part is not None:
                self.stream.close()
                self._system.rm(self._part)
            else:
                self.stream.discard()
                self.stream.closed = True  # else its end would upload what it holds


@contextmanager
def store_errors() -> Iterator[None]:
    """Errors of stores, as OSError."""
    try:
        yield
    except Exception as error:
        raise OSError(line_of(error)) from None


class Remote(io.RawIOBase):
    """A remote file as a file object. Failures raise OSError, with any store."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: Any = None

    def _open(self) -> Any:
        if self._file is None:
            try:
                location = location_of(self.name)
                self._file = location.system.open_input_file(location.path)
            except CaptureError as error:
                raise OSError("; ".join(filter(None, (error.what, error.advice)))) from None
            except FileNotFoundError as error:  # stores that are not reached are missing files, too
                raise OSError("it does not exist" if error.__cause__ is None else line_of(error.__cause__)) from None
            except NotInstalled:
                raise
            except Exception as error:
                raise OSError(line_of(error)) from None
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = self._open().read(None if size is None or size < 0 else size)
        return data

    def readinto(self, buffer: Any) -> int:
        count: int = self._open().readinto(buffer)
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._open().seek(offset, whence))

    def tell(self) -> int:
        return int(self._open().tell())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
