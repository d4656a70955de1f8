"""``wiredecode ui``: captures on a full screen."""

from __future__ import annotations

import sys

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import with_groups

EXAMPLES = """\b
Examples:
  wiredecode ui a.pcap                          frames, tree and bytes; ? shows the keys
  wiredecode ui a.pcap -Y 'latency > 5ms'       begin with a filter
  wiredecode ui a.pcap* -d 4222=nats            rotated files are one capture
"""


@with_groups
def ui(files: options.Files, decoding: options.Decoding, display_filter: options.DisplayFilter = None) -> int:
    """Look through captures on a full screen: the list of frames, the tree and the bytes of one, filters, findings.

    Frames show while the capture is still being read; however large it is, memory stays small, as what the list shows
    is kept in a temporary folder. Needs Textual (extra ui) and a terminal.
    """
    from wiredecode.extras import install, installed

    if not installed("textual"):
        raise options.UsageError(f"the screen needs textual, which is not installed: {install('ui')}")
    for name in files:
        _check(name)
    select = options.display_filter(display_filter)
    arguments = decoding.arguments
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise options.UsageError("ui needs a terminal; wiredecode pcap FILE writes to files and pipes")
    import gc

    from wiredecode.cli.session import GC_THRESHOLDS
    from wiredecode.ui.app import run

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    return run(files, select, **arguments)


def _check(name: str) -> None:
    """A file that cannot be read is told before the screen opens."""
    from wiredecode.capture import CaptureError, open_capture

    if name == "-":
        raise options.UsageError("ui reads files more than once, and standard input can be read once: save it first")
    try:
        next(iter(open_capture([name])), None)
    except CaptureError as error:
        from wiredecode.cli.output import complain

        complain(str(error))
        raise typer.Exit(2) from None
