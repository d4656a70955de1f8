"""Where Wireshark looks for dissectors and for programs that capture, and putting ours there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DISSECTOR = "wiredecode.lua"
EXTCAP = "wiredecode-extcap"
MARK = "wiredecode"
"""A word that both files hold: others of the same name are left alone."""
EXTCAP_SCRIPT = """\
#!/bin/sh
# Made by `wiredecode wireshark --install`: live capture for Wireshark.
exec {command} extcap "$@"
"""
ASK_SECONDS = 20


class Foreign(Exception):
    """A file of that name is there that wiredecode did not write."""


@dataclass(frozen=True)
class Places:
    """The folders; ``extcap`` is None where Wireshark has none that belongs to the user."""

    plugins: Path
    extcap: Path | None


def places() -> Places:
    """The personal folders: from tshark or Wireshark, else the usual ones (Linux and macOS)."""
    output = folders()
    local = Path.home() / ".local" / "lib" / "wireshark"
    plugins = output.get("Personal Lua Plugins") or output.get("Personal Plugins")
    extcap = output.get("Personal Extcap path")
    if output:
        return Places(Path(plugins) if plugins else local / "plugins", Path(extcap) if extcap else None)
    return Places(local / "plugins", local / "extcap")


def folders() -> dict[str, str]:
    """Output of ``tshark -G folders``; nothing if there is no tshark."""
    program = shutil.which("tshark") or shutil.which("wireshark")
    if program is None:
        return {}
    try:
        output = subprocess.run(
            [program, "-G", "folders"], capture_output=True, text=True, timeout=ASK_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.split(":", 1) for line in output.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs if value.strip()}


def install(where: Places, script: str) -> list[Path]:
    """Write the files; return them. Raises OSError, and :class:`Foreign` before anything is written."""
    files = [(where.plugins / DISSECTOR, script, 0o644)]
    if where.extcap is not None:
        command = shlex.join([sys.executable, "-m", "wiredecode"])
        files.append((where.extcap / EXTCAP, EXTCAP_SCRIPT.format(command=command), 0o755))
    for path, _, _ in files:
        require_ours(path)
    for path, text, mode in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_text(text)
        part.chmod(mode)
        part.replace(path)
    return [path for path, _, _ in files]


def uninstall(where: Places) -> list[Path]:
    """Remove the files that are there; return them."""
    files = [where.plugins / DISSECTOR, *([] if where.extcap is None else [where.extcap / EXTCAP])]
    there = [path for path in files if path.exists()]
    for path in there:
        require_ours(path)
    for path in there:
        path.unlink()
    return there


def require_ours(path: Path) -> None:
    if path.exists() and MARK not in path.read_text(errors="replace"):
        raise Foreign(str(path))
