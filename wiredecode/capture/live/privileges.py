"""The right to capture (CAP_NET_RAW): whether it is there, how to get it, and giving it away again."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

_CAP_NET_RAW = 13


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
    """What to do about a missing CAP_NET_RAW, a line each."""
    if os.geteuid() == 0:
        return ["this is root without CAP_NET_RAW, as in a container: start it with --cap-add=NET_RAW"]
    python = Path(sys.executable).resolve()
    return [
        "run it with sudo: the right is given up again once the capture is open, or",
        f"sudo setcap cap_net_raw+ep {python}  (gives it to every program of this Python), or",
        "--via dumpcap, as a member of the group wireshark (sudo usermod -aG wireshark $USER, then log in again)",
    ]


def has_net_raw() -> bool:
    """Whether CAP_NET_RAW is among the effective capabilities."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return os.geteuid() == 0
    effective = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)
    return bool(effective >> _CAP_NET_RAW & 1)


def caller() -> tuple[int, int] | None:
    """User and group that called sudo, when this is root because of it."""
    try:
        user, group = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    return (user, group) if os.geteuid() == 0 and user > 0 else None


def give_up_root() -> str:
    """Become the user who called sudo, for good; call it once the capture is open. Returns what is to be told.

    Modules are imported later, too: if that user cannot read them, this stays root and says so.
    """
    who = caller()
    if who is None:
        return ""
    user, group = who
    name = os.environ.get("SUDO_USER") or f"user {user}"
    if not _can_read(user, group):
        return f"stays root: {name} cannot read the Python installation {sys.prefix}"
    _set_groups(user, group)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    return ""


def _set_groups(user: int, group: int) -> None:
    import pwd

    try:
        os.initgroups(pwd.getpwuid(user).pw_name, group)
    except KeyError:  # a number without a name
        os.setgroups([group])


def _can_read(user: int, group: int) -> bool:
    """Whether that user can import what this process may still need."""
    needed = [Path(os.__file__), Path(__file__)]
    here = os.getegid()
    os.setegid(group)
    os.seteuid(user)
    try:
        return all(os.access(path, os.R_OK, effective_ids=True) for path in needed)
    finally:
        os.seteuid(0)
        os.setegid(here)
