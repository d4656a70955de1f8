"""``wiredecode wireshark``: the dissector for Wireshark; ``wiredecode extcap``: our interfaces in its list.

Source: Wireshark's developer's guide, "Extcap: Developer's Guide". A program is asked for its interfaces, for the link
types and options of one, and then writes a capture to a FIFO until SIGTERM ends it. Answers go to standard output.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from typer import Option

from wiredecode.cli.capturing import MAX_SNAPLEN, Program, SnapLen, Via, capturing
from wiredecode.cli.options import UsageError, require_folder
from wiredecode.cli.output import Output, complain, say

if TYPE_CHECKING:
    from wiredecode.capture.live.interfaces import Device
    from wiredecode.wireshark import Folders


def wireshark(
    install: bool = Option(False, "--install", help="Put the dissector, and the live capture, where Wireshark looks."),
    uninstall: bool = Option(False, "--uninstall", help="Remove them."),
    show: bool = Option(False, "--print", help="Write the dissector to standard output."),
    output: Path | None = Option(None, "-o", "--output", metavar="FILE", help="Write the dissector to a file."),
    plugins: Path | None = Option(None, metavar="DIR", help="With --install: Wireshark's folder for Lua plugins."),
    extcap: Path | None = Option(None, metavar="DIR", help="With --install: its folder for capture programs."),
) -> int:
    """A Lua dissector for Wireshark 4.0 or newer, made from the declarations of all protocols.

    Fields have the same names as in wiredecode. wiredecode help wireshark lists the differences.
    """
    if [install, uninstall, show, output is not None].count(True) != 1:
        raise UsageError("give one of --install, --uninstall, --print and -o FILE")
    if (plugins or extcap) and not (install or uninstall):
        raise UsageError("--plugins and --extcap need --install or --uninstall")
    from wiredecode.extras import version_number
    from wiredecode.wireshark import script

    if require_folder(output) is not None and output is not None:
        output.write_text(script(version_number()))
    elif show:
        out = Output()
        out.text(script(version_number()))
        out.flush()
    else:
        return _change(_folders(plugins, extcap), script(version_number()) if install else None)
    return 0


def _folders(plugins: Path | None, extcap: Path | None) -> Folders:
    from wiredecode.wireshark import Folders, usual_folders

    if plugins is not None:
        return Folders(plugins, extcap)
    usual = usual_folders()
    return Folders(usual.plugins, extcap or usual.extcap)


def _change(where: Folders, text: str | None) -> int:
    """Install the dissector, or without ``text`` remove it; return the exit code."""
    from wiredecode.wireshark import Foreign, install, uninstall

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


PREFIX = "wiredecode-"
"""Before the name of an interface: Wireshark lists the interfaces of all programs, and its own, together."""
LINKTYPE_CODES = {1: "EN10MB", 101: "RAW", 276: "LINUX_SLL2"}


def extcap(
    interfaces: bool = Option(False, "--extcap-interfaces", help="List where it can capture, for Wireshark."),
    version: str | None = Option(None, "--extcap-version", metavar="VERSION", help="Wireshark's version; any works."),
    interface: str | None = Option(None, "--extcap-interface", metavar="NAME", help="The interface in question."),
    dlts: bool = Option(False, "--extcap-dlts", help="Print its link type."),
    config: bool = Option(False, "--extcap-config", help="Print the options of a capture."),
    capture_filter: str = Option(
        "", "--extcap-capture-filter", metavar="BPF", help="Only packets that fit; alone: check it."
    ),
    capture: bool = Option(False, "--capture", help="Capture into --fifo until SIGTERM or Ctrl-C."),
    fifo: Path | None = Option(None, metavar="FILE", help="Where the capture goes."),
    no_promiscuous: bool = Option(False, "--no-promiscuous", help="Only packets from and to this machine."),
    snaplen: SnapLen = MAX_SNAPLEN,
    via: Program = None,
) -> int:
    """Live capture for Wireshark, as it asks for it (see wiredecode help wireshark).

    wiredecode wireshark --install puts a script there that calls this.
    """
    from wiredecode.extras import version_number

    if interfaces:
        from wiredecode.capture.live.interfaces import devices

        print(f"extcap {{version={version_number()}}}{{display=wiredecode}}")
        for each in devices():
            print(f"interface {{value={PREFIX}{each.name}}}{{display=wiredecode: {each.name}}}")
        return 0
    if config and interface is not None:  # of all interfaces, before every capture: nothing is imported
        print("\n".join(CONFIG))
        return 0
    device = _device(interface)
    if dlts:
        from wiredecode.capture.live.interfaces import LINKTYPE_NAMES

        number = device.linktype
        code = LINKTYPE_CODES.get(number, str(number))
        print(f"dlt {{number={number}}}{{name={code}}}{{display={LINKTYPE_NAMES[number]}}}")
        return 0
    if not capture:
        return _check(capture_filter, device)
    if fifo is None:
        raise UsageError("--capture needs --fifo FILE")
    return _capture(device, capture_filter, fifo, promiscuous=not no_promiscuous, snaplen=snaplen, via=via)


CONFIG = (
    "arg {number=0}{call=--no-promiscuous}{display=Only packets of this machine}{type=boolflag}{default=false}",
    f"arg {{number=1}}{{call=--snaplen}}{{display=Bytes of each packet}}{{type=unsigned}}{{range=1,{MAX_SNAPLEN}}}"
    f"{{default={MAX_SNAPLEN}}}",
    "arg {number=2}{call=--via}{display=Program that captures}{type=selector}{required=false}"
    "{tooltip=with the rights that it has}",
    *(f"value {{arg=2}}{{value={name}}}{{display={name}}}{{default=false}}" for name in get_args(Via)),
)
"""Wireshark's requests before a capture."""


def _device(name: str | None) -> Device:
    from wiredecode.capture.live.interfaces import devices

    if name is None:
        raise UsageError("give --extcap-interfaces, or --extcap-interface NAME")
    device = next((each for each in devices() if PREFIX + each.name == name), None)
    if device is None:
        raise UsageError(f"there is no interface {name}; --extcap-interfaces lists them")
    return device


def _check(capture_filter: str, device: Device) -> int:
    """Whether a capture filter is one: Wireshark shows what is wrong with it, or nothing."""
    from wiredecode.capture.live.bpf import compile_filter
    from wiredecode.capture.live.interfaces import LiveError

    try:
        compile_filter(capture_filter, ethernet=device.linktype == 1, snaplen=MAX_SNAPLEN)
    except LiveError as error:
        print(error)
    return 0


def _capture(
    device: Device, capture_filter: str, fifo: Path, *, promiscuous: bool, snaplen: int, via: Via | None
) -> int:
    """Write pcapng until Wireshark has enough: it sends SIGTERM, or closes its end."""
    from wiredecode.capture.errors import CaptureError
    from wiredecode.capture.live.pcapng_writer import Rotation
    from wiredecode.capture.live.source import LiveOptions

    wanted = LiveOptions(device.name, capture_filter, promiscuous, snaplen)
    with capturing(wanted, via, None, saves=True) as sniffer:
        try:
            sniffer.save(fifo, Rotation())
            for _ in sniffer:
                pass  # it is written as it comes
        except KeyboardInterrupt:
            sniffer.stop()
        except CaptureError as error:
            if "Broken pipe" not in str(error):
                complain(str(error))
                return 2
        except OSError as error:
            complain(f"{fifo}: cannot be written: {error.strerror}")
            return 2
    return 0
