"""``wiredecode wireshark``: the dissector for Wireshark, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Output, complain, say

if TYPE_CHECKING:
    from wiredecode.wireshark.places import Places

EXAMPLES = """\b
Examples:
  wiredecode wireshark --install                 then start Wireshark again
  wiredecode wireshark -o wiredecode.lua         a file; tshark -X lua_script:wiredecode.lua
  wiredecode wireshark --print | less
  wiredecode wireshark --uninstall
"""


def wireshark(
    install: Annotated[
        bool, typer.Option("--install", help="Put the dissector, and the live capture, where Wireshark looks.")
    ] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove them.")] = False,
    show: Annotated[bool, typer.Option("--print", help="Write the dissector to standard output.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the dissector to a file.")
    ] = None,
    plugins: Annotated[
        Path | None,
        typer.Option("--plugins", metavar="DIR", help="With --install: Wireshark's folder for Lua plugins."),
    ] = None,
    extcap: Annotated[
        Path | None, typer.Option("--extcap", metavar="DIR", help="With --install: its folder for capture programs.")
    ] = None,
) -> int:
    """A Lua dissector for Wireshark 4.0 or newer, made from the declarations of all protocols.

    Fields have the names that they have here. docs/wireshark.md says what it cannot know.
    """
    if [install, uninstall, show, output is not None].count(True) != 1:
        raise UsageError("say one of --install, --uninstall, --print and -o FILE")
    if (plugins or extcap) and not (install or uninstall):
        raise UsageError("--plugins and --extcap go with --install or --uninstall")
    if uninstall:
        return _uninstall(plugins, extcap)
    from wiredecode.extras import version_number
    from wiredecode.wireshark import script

    text = script(version_number())
    if install:
        return _install(text, plugins, extcap)
    if output is not None:
        output.write_text(text)
        return 0
    out = Output()
    out.text(text)
    out.flush()
    return 0


def _places(plugins: Path | None, extcap: Path | None) -> Places:
    from wiredecode.wireshark.places import Places, places

    if plugins is not None:
        return Places(plugins, extcap)
    usual = places()
    return Places(usual.plugins, extcap or usual.extcap)


def _install(text: str, plugins: Path | None, extcap: Path | None) -> int:
    from wiredecode.wireshark.places import Foreign, install

    where = _places(plugins, extcap)
    try:
        written = install(where, text)
    except Foreign as error:
        complain(f"{error}: was not written by wiredecode, and is left as it is; move it away, or use --plugins DIR")
        return 2
    for path in written:
        say(f"wrote {path}")
    if where.extcap is None:
        say("no live capture: this Wireshark has no personal folder for it; --extcap DIR names the one of the system")
    say("start Wireshark again, or press Ctrl-Shift-L in it")
    return 0


def _uninstall(plugins: Path | None, extcap: Path | None) -> int:
    from wiredecode.wireshark.places import Foreign, uninstall

    where = _places(plugins, extcap)
    try:
        removed = uninstall(where)
    except Foreign as error:
        complain(f"{error}: was not written by wiredecode, and is left as it is")
        return 2
    for path in removed:
        say(f"removed {path}")
    if not removed:
        say("nothing was installed there")
    return 0
