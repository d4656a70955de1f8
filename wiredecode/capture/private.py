"""Files for what was captured: they hold passwords, so nobody else reads them, and nobody else says where they are."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

MODE = 0o600


def open_private(path: Path) -> BinaryIO:
    """Open a file anew for writing, readable by its owner only; unbuffered. Raises OSError.

    A link is followed if it is one's own or root's (/dev/stdout); another one is an error. A file of somebody else is
    removed first, where that is allowed. A file that was there, and is one's own, keeps its permissions.
    """
    own = {0, os.geteuid()}
    if path.is_symlink() and path.lstat().st_uid in own:
        path = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        there = path.lstat()
        if stat.S_ISREG(there.st_mode) and there.st_uid != os.geteuid():
            path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, MODE), "wb", buffering=0)
