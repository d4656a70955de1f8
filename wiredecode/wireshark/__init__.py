"""A dissector for Wireshark, written from the declarations: the same messages and names of fields there.

Also: where Wireshark looks for dissectors and for programs that capture, and putting ours there.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from wiredecode.dataclasses import dataclass
from wiredecode.fields import credentials
from wiredecode.fields.lua import LuaCode, LuaWriter, Script, fields_of, lua_literal, lua_string
from wiredecode.frames.splitter import LengthPrefix, Number
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.proxy import ProxyV1, ProxyV2

RUNTIME = ("runtime.lua", "formats.lua", "stream.lua")
"""Files written by hand, in this order."""
OF_WIRESHARK = frozenset({"tls", "http", "websocket"})
"""Layers whose names are those of Wireshark's own protocols."""
HEAD = """\
-- wiredecode {version}: RabbitMQ Stream, NATS with Liftbridge, TANK, Cursus and Pravega for Wireshark 4.0 or newer.
-- Made by `wiredecode wireshark` from the declarations of the protocols; changes here are lost. Licence: GPL-2.0-only.

if rex_pcre2 == nil then
  report_failure("wiredecode needs Wireshark 4.0 or newer")
  return
end
"""


def script(version: str) -> str:
    """The whole dissector, as one Lua script."""
    return "\n".join([HEAD.format(version=version), *_parts()])


def _parts() -> Iterator[str]:
    yield f"local SECRET_NAME_PATTERN = {lua_string(credentials.NAME.pattern)}"
    yield f"local SECRET_VALUE_PATTERN = {lua_string(credentials.VALUE.pattern)}"
    yield from ((files(__package__) / name).read_text() for name in RUNTIME)
    for protocol in protocols():
        script = protocol.wireshark()
        if script is not None:
            yield "\n".join(["do", *_protocol(protocol, script), "register(P)", "end"])


def _protocol(protocol: Protocol, script: Script) -> Iterator[str]:
    writer = LuaWriter(script.kinds, script.types)
    members = {
        "name": protocol.name,
        "title": protocol.title,
        "ports": ",".join(map(str, protocol.ports)),
        "proxy": [writer.layer(ProxyV1), writer.layer(ProxyV2)],
        **script.tables(writer),
    }
    if protocol.framing is not None:
        members["framing"] = framing(protocol.framing)
    carried = [layer for one in carried_by(protocol.name) for layer in one.layers()]
    for layer in [*protocol.layers(), *carried]:
        if layer.filter_name not in OF_WIRESHARK:
            writer.declare(layer, layer.filter_name)
    for name, ftype in script.added.items():
        writer.name(name, ftype)
    yield f"-- {protocol.title}"
    yield "local N, X, L, P = {}, {}, {}, {}"
    yield from writer.lines
    yield from (f"P.{name} = {lua_literal(value)}" for name, value in members.items())
    yield "P.fields = {\n  " + ",\n  ".join(fields_of(writer)) + "\n}"
    yield script.source


def framing(prefix: LengthPrefix) -> LuaCode:
    """Lua declaration of a protocol's length of frames."""
    held = ", ".join(_number(number) for number in prefix.held)
    length = _number(prefix.length)
    return LuaCode(f"{{length={length}, after={prefix.after}, header={prefix.header}, held={{{held}}}}}")


def _number(number: Number) -> str:
    more = (", le=true" if number.little else "") + (", signed=true" if number.signed else "")
    return f"{{at={number.at}, width={number.width}, least={number.least}, most={number.most}{more}}}"


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
class Folders:
    """The folders; ``extcap`` is None where Wireshark has none that belongs to the user."""

    plugins: Path
    extcap: Path | None


def usual_folders() -> Folders:
    """The personal folders: from tshark or Wireshark, else the usual ones (Linux and macOS)."""
    output = folders()
    local = Path.home() / ".local" / "lib" / "wireshark"
    plugins = output.get("Personal Lua Plugins") or output.get("Personal Plugins")
    extcap = output.get("Personal Extcap path")
    if output:
        return Folders(Path(plugins) if plugins else local / "plugins", Path(extcap) if extcap else None)
    return Folders(local / "plugins", local / "extcap")


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


def install(where: Folders, script: str) -> list[Path]:
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


def uninstall(where: Folders) -> list[Path]:
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
