"""``--sandbox``: confine the process before it reads a capture.

Landlock (landlock(7)) limits files, programs on disk and TCP. Capabilities are dropped. If pyseccomp is installed,
seccomp(2) also refuses system calls that landlock does not cover. docs/security.md lists what is refused.
"""

import atexit
import ctypes
import errno
import os
import shutil
import struct
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wiredecode import settings
from wiredecode.capture.live.privileges import drop_capabilities
from wiredecode.data import tables_of

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls, the same on all architectures."""
_VERSION, _PATH_BENEATH = 1, 1
_PR_SET_NO_NEW_PRIVS = 38

LISTS = tables_of(__package__, "sandbox.toml")
REFUSED: list[str | int] = LISTS["system-calls"]["refused"]
"""System calls that a decoder does not need."""
REFUSED_FOR_FILES = ("socket", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups")
"""System calls that only a live capture needs."""

WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, REFER, TRUNCATE, IOCTL_DEV = 1 << 7, 1 << 8, 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = 1 << 0 | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a file can have, not only a folder; the first is execution, which is never granted."""
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Rights to files that there are, by version of landlock."""
NETWORK, SCOPES = 3, 3
"""Binding and connecting TCP (from version 4); abstract sockets of, and signals to, others (from version 6)."""

SYSTEM: list[str] = LISTS["files"]["system"]
"""Files that libraries read."""
TERMINAL = ("/dev/null", "/dev/tty")
CACHES = ("TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME")
"""Where libraries keep files of their own."""
INPUTS = frozenset({"files", "file", "keylog", "keylog_dir", "key"})
OUTPUTS = frozenset({"out", "output", "save", "write", "summary_json"})
"""Names of parameters that are files."""


class NoSandbox(Exception):
    """The kernel has no landlock; ``str()`` is one line for people."""


def version() -> int:
    """Version of landlock in the kernel; 0: none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _VERSION))


def confine_command(parameters: Mapping[str, Any]) -> None:
    """Confine a command that was given these parameters. Raises NoSandbox."""
    reads = [Path(name) for name in _names(parameters, INPUTS) if name != "-"]
    writes = [Path(name) for name in _names(parameters, OUTPUTS) if name != "-"]
    with suppress(RuntimeError):  # there is no home
        reads.append(settings.path())
    confine(reads, writes, live=bool(parameters.get("interface")))


def confine(reads: Iterable[Path], writes: Iterable[Path], *, live: bool = False) -> None:
    """Confine the process for good: it can read ``reads`` and Python's files, and write beside ``writes``.

    It also has an empty temporary folder. ``live``: it opens a packet socket first, and gives up its rights after that
    (``capture/live/privileges.py``). Raises NoSandbox, OSError.
    """
    try:
        import pyseccomp
    except (ImportError, RuntimeError):  # the latter: libseccomp is missing
        pyseccomp = None
    if not (abi := version()):
        raise NoSandbox("--sandbox needs landlock, which this kernel does not have (Linux 5.13 or newer, lsm=landlock)")
    rights = (1 << RIGHTS.get(abi, 16)) - 1
    handled = struct.pack("=QQQ", rights, NETWORK if abi >= 4 else 0, SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _check_call(_CREATE_RULESET, handled, size, 0)
    try:
        for path, wanted in _rules(reads, writes):
            _allow(ruleset, path, wanted & rights)
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _check_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    if not live:
        drop_capabilities()
    if pyseccomp is not None:
        _refuse_calls(pyseccomp, REFUSED if live else [*REFUSED, *REFUSED_FOR_FILES])


def _refuse_calls(pyseccomp: Any, names: Iterable[str | int]) -> None:
    """Let these system calls fail with EPERM in all threads."""
    chosen = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    chosen.set_attr(pyseccomp.Attr.CTL_TSYNC, 1)
    for name in names:
        with suppress(OSError, ValueError):  # unknown to this architecture or libseccomp
            chosen.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    for flag in LISTS["system-calls"]["namespaces"]:
        chosen.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    chosen.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags are in memory; libraries fall back to clone
    chosen.load()


def _rules(reads: Iterable[Path], writes: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Paths, and the rights beneath them."""
    for path in (*map(Path, SYSTEM), *_python(), *reads):
        yield path, READ
    for name in TERMINAL:
        yield Path(name), READ | WRITE_FILE | IOCTL_DEV
    for path in writes:
        real = Path(os.path.realpath(path))
        yield real.parent, WRITE
        if real.exists() and not real.is_dir():  # a pipe, or a device
            yield real, READ_FILE | WRITE_FILE | TRUNCATE
    temporary = _temporary()
    yield temporary, WRITE
    yield temporary.parent, REMOVE_DIR  # of empty ones, as this one is at the end


def _python() -> set[Path]:
    """Where modules are, those that extend wiredecode too; not the folder that the process is in."""
    paths = {Path(path) for path in sysconfig.get_paths().values()} | {Path(sys.prefix), Path(sys.base_prefix)}
    here = Path.cwd()
    paths |= {Path(path) for path in sys.path if path and Path(path) not in (here, Path("/"))}
    return paths | {Path(__file__).parents[1]}


def _temporary() -> Path:
    """A temporary folder of this process, the one that libraries use from now on."""
    folder = tempfile.mkdtemp(prefix="wiredecode-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(dict.fromkeys(CACHES, folder))
    tempfile.tempdir = folder
    return Path(folder)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    with suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not path.is_dir():
                rights &= FILE_RIGHTS
            _check_call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)


def _names(parameters: Mapping[str, Any], chosen: frozenset[str]) -> Iterator[str]:
    for name in chosen & parameters.keys():
        value = parameters[name]
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None:
                yield str(each)


def _call(number: int, *arguments: Any) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    converted = [ctypes.c_char_p(value) if value is None or isinstance(value, bytes) else value for value in arguments]
    return int(libc.syscall(ctypes.c_long(number), *converted))


def _check_call(number: int, *arguments: Any) -> int:
    result = _call(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "--sandbox")
    return result
