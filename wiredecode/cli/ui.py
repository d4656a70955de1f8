"""``wiredecode ui``: captures on a full screen."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import OptionalLive, Saving
from wiredecode.cli.output import complain

if TYPE_CHECKING:
    from wiredecode.capture.live.sniffer import Sniffer
RING_MIB, RING_FILES = 256, 8
"""A live capture that is not saved by -w keeps this many files of this size while the screen is open."""

THIS_HOST = "127.0.0.1:0"
"""A free port, for this host only."""
SERVED = "TEXTUAL_DRIVER"
"""In the environment of a screen that a browser shows."""
Web = Annotated[
    bool, Option("--web", help="In a browser: prints an address with a token, and serves it until Ctrl-C (extra web).")
]
Listen = Annotated[
    str | None,
    Option(
        metavar="ADDR:PORT",
        help="With --web: listen there. Anyone who knows the address sees the captures. "
        "[default: a free port of 127.0.0.1]",
        show_default=False,
    ),
]
FollowFile = Annotated[bool, Option("--follow-file", help="Read on as the file grows, like tail -f.")]


def ui(
    live: OptionalLive,
    saving: Saving,
    decoding: options.Decoding,
    files: options.OptionalFiles = None,
    display_filter: options.DisplayFilter = None,
    follow_file: FollowFile = False,
    web: Web = False,
    listen: Listen = None,
) -> int:
    """Look through captures on a full screen: the list of frames, the tree and the bytes of one, filters, findings.

    Frames show while the capture is being read, or while packets arrive. Memory stays small however large it is: the
    rows of the list are kept in a temporary folder. Packets of an interface are saved to a ring of files there, or to
    -w. Needs Textual (extra ui), and a terminal or --web.
    """
    from wiredecode.extras import need

    need("textual", "the screen")
    _check_source(files or [], live, saving, follow_file)
    select = options.display_filter(display_filter)
    if listen is not None and not web:
        raise options.UsageError("--listen goes with --web")
    served = web and SERVED in os.environ
    if web and not served:
        if decoding.sandbox:
            raise options.UsageError("--sandbox starts no programs: leave out --web")
        return _serve(listen or THIS_HOST, live)
    arguments: dict[str, Any] = {"reading": decoding.demand, "settings": options.settings()}
    if not served and not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise options.UsageError("ui needs a terminal; wiredecode pcap FILE writes to files and pipes")
    from wiredecode.cli.session import collect_less
    from wiredecode.ui.app import run
    from wiredecode.ui.packets import Growing

    collect_less()
    if live.interface is not None:
        from wiredecode.ui.live import Live

        with live.capturing(saves=True) as sniffer, _saving_packets(sniffer, saving):
            source = Live(sniffer)
            return run(Growing(lambda: source.files, lambda: source.over), select, live=source, **arguments)
    assert files
    if follow_file:
        path = Path(files[0])
        return run(Growing(lambda: [path], lambda: False), select, **arguments)
    return run(files, select, **arguments)


def _serve(listen: str, live: OptionalLive) -> int:
    """Run this command for each page of a browser."""
    from wiredecode.extras import need

    need("textual_serve", "--web")
    if live.interface is not None:
        raise options.UsageError(
            "--web shows files: save packets with wiredecode sniff -w, and show them --follow-file"
        )
    from wiredecode.ui.web import serve

    try:
        serve(listen, sys.argv[1:], complain)
    except (OSError, ValueError) as error:
        raise options.UsageError(f"--listen {listen}: {error}; ADDR:PORT of this host is needed") from None
    return 0


def _check_source(files: list[str], live: OptionalLive, saving: Saving, follow_file: bool) -> None:
    """Files or an interface, and nothing that goes with the other one only."""
    if live.interface is not None:
        if files or follow_file:
            raise options.UsageError("-i shows an interface: leave out files and --follow-file")
        _ = saving.rotation
        return
    if not files:
        raise options.UsageError("nothing to show: give capture files, or -i IFACE")
    if saving.save is not None or live.says_how:
        raise options.UsageError("-f, -w, --duration and --via need -i; W saves shown packets of files")
    if follow_file and (len(files) != 1 or not Path(files[0]).is_file()):
        raise options.UsageError("--follow-file needs one existing file")
    for name in files:
        _check(name, grows=follow_file)


@contextmanager
def _saving_packets(sniffer: Sniffer, saving: Saving) -> Iterator[None]:
    """While it lasts, packets are saved: where the user says, or to a ring in a folder that goes away."""
    from wiredecode.capture.live.pcapng_writer import Rotation
    from wiredecode.capture.live.ring import MIB

    if saving.save is not None:
        saving.begin(sniffer)
        yield
        return
    with tempfile.TemporaryDirectory(prefix="wiredecode-live-") as folder:
        sniffer.save(Path(folder) / "live.pcapng", Rotation(RING_MIB * MIB, None, RING_FILES))
        yield


def _check(name: str, *, grows: bool) -> None:
    """Report a file that cannot be read before the screen opens."""
    from wiredecode.capture import CaptureError, TruncatedCapture, open_capture

    if name == "-":
        raise options.UsageError("ui reads files more than once, and standard input can be read once: save it first")
    if grows and not Path(name).stat().st_size:
        return
    try:
        next(iter(open_capture([name])), None)
    except CaptureError as error:
        if grows and isinstance(error, TruncatedCapture):
            return
        complain(str(error))
        raise typer.Exit(2) from None
