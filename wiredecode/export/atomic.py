"""Outputs that appear under their name only when they are complete.

Everything is written beside the target under a hidden name that ends in ``.part``, brought to the disk, and renamed.
A killed process leaves at most such a part, never a file that looks whole.
"""

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from wiredecode.frames.escape import text_bytes

NAME_BYTES = 200
"""Bytes of the target's name in the name of its part: file systems allow 255."""
STANDARD_OUTPUT = "-"
STREAMS = {"stdout": 1, "stderr": 2}
INTERRUPTS = {
    number for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM") if (number := getattr(signal, name, None)) is not None
}
_parts: set[Path] = set()
"""Files that are neither complete nor discarded."""


def discard_all() -> None:
    """Remove all parts: for the end of an interrupted process, at any moment."""
    for part in _parts:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)
    _parts.clear()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Delay signals, so that all of some steps are done, or none."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS) if os.name == "posix" else set()
    try:
        yield
    finally:
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open_already(path: Path) -> int | None:
    """The open descriptor that a path such as /dev/stdout names, which must not be replaced."""
    folder = path.parent.resolve()
    if folder == Path(f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
        return int(path.name)
    return STREAMS.get(path.name) if folder == Path("/dev") else None


class NewFile:
    """A new file at ``path``, or in its place: write to ``stream``, then :meth:`commit` or :meth:`discard`.

    As a context manager it gives ``stream``, and commits unless an exception is raised.

    Pipes, devices, and files that are open already (``/dev/stdout``) are written to directly. Links are followed; if
    ``follow`` is false, the file replaces the link. An existing file keeps its permissions; a new one has ``mode``
    without the bits of the umask. Raises OSError that names ``path``.
    """

    def __init__(self, path: Path, *, follow: bool = True, mode: int = 0o666) -> None:
        try:
            self._open(path, follow, mode)
        except OSError as error:
            raise OSError(error.errno, f"cannot be written: {error.strerror}", str(path)) from None

    def _open(self, path: Path, follow: bool, mode: int) -> None:
        self.path = Path(os.path.realpath(path)) if follow else path.parent.resolve() / path.name
        self._part: Path | None = None
        if (number := _open_already(path)) is not None:
            self.stream: BinaryIO = os.fdopen(os.dup(number), "wb")
            return
        if self.path.exists() and not self.path.is_file():
            self.stream = self.path.open("wb")
            return
        self._part = part_of(self.path)
        replaced = self.path.exists() and not self.path.is_symlink()
        if replaced:
            mode = self.path.stat().st_mode & 0o777
        _parts.add(self._part)
        try:
            descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            self.stream = os.fdopen(descriptor, "wb")
            if replaced and os.name == "posix":
                os.fchmod(descriptor, mode)  # the umask took some
        except BaseException:  # an interrupt, too
            self._part.unlink(missing_ok=True)
            raise

    def __enter__(self) -> BinaryIO:
        return self.stream

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.discard()

    @property
    def is_direct(self) -> bool:
        """Whether it is a pipe or a device, which cannot be corrected."""
        return self._part is None

    def commit(self) -> None:
        """The file is complete: it gets its name."""
        self.stream.flush()
        if self._part is not None:
            os.fsync(self.stream.fileno())
        self.stream.close()
        if self._part is not None:
            with signals_blocked():
                self._part.replace(self.path)
                _parts.discard(self._part)
                self._part = None
            sync_folder(self.path.parent)

    def discard(self) -> None:
        """Remove the part. After :meth:`commit` it does nothing."""
        close_quietly(self.stream)
        if self._part is not None:
            self._part.unlink(missing_ok=True)
            _parts.discard(self._part)
            self._part = None


def open_output(name: str | Path, standard: BinaryIO | None = None) -> AbstractContextManager[BinaryIO]:
    """A new file, or for ``-`` standard output, guarded: ``standard``, if its bytes are made otherwise."""
    if str(name) == STANDARD_OUTPUT:
        return nullcontext(standard or text_bytes())
    return NewFile(Path(name))


class NewFolder:
    """A new folder for ``path``: write below ``part``, then :meth:`commit` or :meth:`discard`.

    A folder that is not empty is replaced as a whole, and only if ``overwrite``; its files never mix with new ones.
    An existing folder keeps its permissions.
    Raises FileExistsError, NotADirectoryError and other OSErrors.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = Path(os.path.realpath(path))
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{path} is a file; a partitioned output is a folder")
        if not overwrite and self.path.exists() and any(self.path.iterdir()):
            raise FileExistsError(f"{path} is not empty; choose another folder, or replace all of it with --overwrite")
        self.part = part_of(self.path)
        _parts.add(self.part)
        try:
            self.part.mkdir()
            if self.path.exists():
                self.part.chmod(self.path.stat().st_mode & 0o7777)
        except BaseException:  # an interrupt, too
            shutil.rmtree(self.part, ignore_errors=True)
            raise

    def commit(self) -> None:
        """Everything below ``part`` is complete and closed: the folder gets its name."""
        for folder, _, _ in os.walk(self.part):
            sync_folder(Path(folder))
        old = part_of(self.path)
        with signals_blocked():
            if self.path.exists():
                self.path.rename(old)
            try:
                self.part.rename(self.path)
            except OSError:
                if old.exists():
                    old.rename(self.path)
                raise
            _parts.discard(self.part)
            _parts.add(old)
        sync_folder(self.path.parent)
        shutil.rmtree(old, ignore_errors=True)
        _parts.discard(old)

    def discard(self) -> None:
        """Remove the part. After :meth:`commit` it does nothing."""
        shutil.rmtree(self.part, ignore_errors=True)
        _parts.discard(self.part)


def part_of(path: Path) -> Path:
    """A name beside ``path`` that does not look like a complete output."""
    name = os.fsdecode(os.fsencode(path.name)[:NAME_BYTES])
    return path.with_name(f".{name}.{secrets.token_hex(4)}.part")


def sync_folder(folder: Path) -> None:
    """Bring the names in ``folder`` to the disk, where the file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def close_quietly(stream: BinaryIO) -> None:
    """Close a discarded file: write errors no longer matter."""
    with suppress(OSError):
        stream.close()
