"""The right to capture (CAP_NET_RAW): whether it is there, how to get it, and giving it away again."""

import ctypes
import os
import socket
import struct
import sys
from pathlib import Path

_CAP_KILL, _CAP_NET_RAW = 5, 13
_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS = 8, 38


def missing_right() -> str:
    """Why this process may not open a packet socket, or an empty string."""
    if not hasattr(socket, "AF_PACKET"):
        return "needs Linux"
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        return "CAP_NET_RAW is missing"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def how_to_grant() -> list[str]:
    """Return advice about a missing CAP_NET_RAW, a line each."""
    if os.geteuid() == 0:
        return ["this is root without CAP_NET_RAW, as in a container: start it with --cap-add=NET_RAW"]
    python = Path(sys.executable).resolve()
    return [
        "run it with sudo: the right is given up again once the capture is open, or",
        f"sudo setcap cap_net_raw+ep {python}  (gives it to every program of this Python), or",
        "--via dumpcap, as a member of the group wireshark (sudo usermod -aG wireshark $USER, then log in again)",
    ]


def caller() -> tuple[int, int] | None:
    """User and group that called sudo, if that made this process root."""
    try:
        user, group = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (user, group) if os.geteuid() == 0 and user > 0 else None


def nobody() -> tuple[int, int]:
    """User and group that own nothing."""
    import pwd

    try:
        account = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return account.pw_uid, account.pw_gid


def give_up(*, saves: bool = False, helper: bool = False) -> str:
    """Keep only the right to read open files, for good; call it once the capture is open. Returns a message to print.

    Root becomes the user who called sudo, or else the user nobody. Root without sudo that ``saves`` files still owns
    them, and loses all capabilities. Processes started later get no more rights. ``helper``: a program that captures,
    and may run as root, is ended later. Modules are imported later, too: a user who cannot read them is not chosen.
    """
    is_root, remark = os.geteuid() == 0, ""
    who = caller() or (nobody() if is_root and not saves else None)
    kept = 1 << _CAP_KILL if helper and is_root else 0
    if who is not None and not _can_read(*who):
        name = os.environ.get("SUDO_USER") if caller() else None
        remark, who = f"stays root: {name or f'user {who[0]}'} cannot read the Python installation {sys.prefix}", None
    if who is not None:
        _prctl(_PR_SET_KEEPCAPS, 1)
        user, group = who
        _set_groups(user, group)
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    if sys.platform == "linux" and (who is not None or _can_go_on_without_capabilities()):
        drop_capabilities(kept)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return remark


def drop_capabilities(kept: int = 0) -> None:
    """Give up all capabilities but those of the mask ``kept``, for good. Raises OSError."""
    _set_capabilities(kept, kept)


def _can_go_on_without_capabilities() -> bool:
    """Whether the installation can be read without them; they are still permitted."""
    held = _permitted_capabilities()
    _set_capabilities(0, held)
    try:
        return _readable()
    finally:
        _set_capabilities(held, held)


def _permitted_capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapPrm:")), 0)


def _set_capabilities(effective: int, permitted: int) -> None:
    """capset(2), of this thread and those that it starts."""
    low, high = 0xFFFFFFFF, 32
    parts = (effective & low, permitted & low, 0, effective >> high, permitted >> high, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), struct.pack("=6I", *parts)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _set_groups(user: int, group: int) -> None:
    import pwd

    try:
        os.initgroups(pwd.getpwuid(user).pw_name, group)
    except KeyError:  # a number without a name
        os.setgroups([group])


def _can_read(user: int, group: int) -> bool:
    """Whether that user can import what this process may still need."""
    here = os.getegid()
    os.setegid(group)
    os.seteuid(user)
    try:
        return _readable()
    finally:
        os.seteuid(0)
        os.setegid(here)


def _readable() -> bool:
    """Whether what may still be imported can be read with the rights of now."""
    return all(os.access(path, os.R_OK, effective_ids=True) for path in (Path(os.__file__), Path(__file__)))
