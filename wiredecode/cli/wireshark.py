"""``wiredecode wireshark``: the dissector for Wireshark, and where it goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Output, complain, say

if TYPE_CHECKING:
    from wiredecode.wireshark.places import Places


def wireshark(
    install: bool = Option(False, "--install", help="Put the dissector, and the live capture, where Wireshark looks."),
    uninstall: bool = Option(False, "--uninstall", help="Remove them."),
    show: bool = Option(False, "--print", help="Write the dissector to standard output."),
    output: Path | None = Option(None, "-o", "--output", metavar="FILE", help="Write the dissector to a file."),
    plugins: Path | None = Option(None, metavar="DIR", help="With --install: Wireshark's folder for Lua plugins."),
    extcap: Path | None = Option(None, metavar="DIR", help="With --install: its folder for capture programs."),
) -> int:
    """A Lua dissector for Wireshark 4.0 or newer, made from the declarations of all protocols.

    Fields have the names that they have here. docs/wireshark.md says what it cannot know.
    """
    if [install, uninstall, show, output is not None].count(True) != 1:
        raise UsageError("give one of --install, --uninstall, --print and -o FILE")
    if (plugins or extcap) and not (install or uninstall):
        raise UsageError("--plugins and --extcap need --install or --uninstall")
    from wiredecode.extras import version_number
    from wiredecode.wireshark import script

    if output is not None:
        output.write_text(script(version_number()))
    elif show:
        out = Output()
        out.text(script(version_number()))
        out.flush()
    else:
        return _change(_places(plugins, extcap), script(version_number()) if install else None)
    return 0


def _places(plugins: Path | None, extcap: Path | None) -> Places:
    from wiredecode.wireshark.places import Places, places

    if plugins is not None:
        return Places(plugins, extcap)
    usual = places()
    return Places(usual.plugins, extcap or usual.extcap)


def _change(where: Places, text: str | None) -> int:
    """Install the dissector, or without ``text`` remove it; return the exit code."""
    from wiredecode.wireshark.places import Foreign, install, uninstall

    try:
        changed = uninstall(where) if text is None else install(where, text)
    except Foreign as error:
        advice = "" if text is None else "; move it away, or use --plugins DIR"
        complain(f"{error}: was not written by wiredecode, and is left as it is{advice}")
        return 2
    for path in changed:
        say(f"{'removed' if text is None else 'wrote'} {path}")
    if text is None:
        if not changed:
            say("nothing was installed there")
        return 0
    if where.extcap is None:
        say("no live capture: this Wireshark has no personal folder for it; --extcap DIR names the one of the system")
    say("start Wireshark again, or press Ctrl-Shift-L in it")
    return 0
