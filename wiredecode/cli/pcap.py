"""``wiredecode pcap``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.output import Output, wants_color

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.frame import Frame
    from wiredecode.view.look import Look

EXAMPLES = """\b
Examples:
  wiredecode pcap a.pcap -c 20                     the first 20 frames as trees
  wiredecode pcap a.pcap --summary | grep Publish  one line per frame
  wiredecode pcap a.pcap.* --json > a.ndjson       records; rotated files join
  wiredecode pcap a.pcap -Y 'latency > 5ms or finding.severity == "error"'
  wiredecode pcap a.pcap --from 10 --to 12.5       two and a half seconds
  wiredecode pcap a.pcap -d 15552=rabbitmq_stream  say what a port speaks
  tcpdump -U -w - port 5552 | wiredecode pcap - --summary
"""


def pcap(
    files: options.Files,
    summary: Annotated[bool, typer.Option("--summary", help="One line per frame.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON record per frame (NDJSON).")] = False,
    hexdump: Annotated[bool, typer.Option("--hex", help="Trees with a hex dump.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Trees with all bytes and all elements of arrays.")] = False,
    display_filter: options.DisplayFilter = None,
    count: options.Count = None,
    decode_as: options.DecodeAsOption = None,
    bytes_: options.Bytes = options.BytesChoice.hex,
    ranges: options.Ranges = False,
    show_secrets: options.ShowSecrets = False,
    color: options.Color = options.ColorChoice.auto,
    from_: options.From = None,
    to: options.To = None,
    hole_timeout: options.HoleSeconds = None,
    max_buffer: options.MaxBuffer = None,
    limit: options.LimitOption = None,
    summary_json: Annotated[
        Path | None, typer.Option("--summary-json", metavar="FILE", dir_okay=False, help="Write the totals as JSON.")
    ] = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Decode captures: a tree per frame, or lines, or JSON records.

    Totals go to standard error. In trees @8:12 is a byte range: bytes 8 up to, not including, 12 of the frame; what
    other frames tell about this one stands in [brackets].
    """
    _combine(summary=summary, json=json, hexdump=hexdump, full=full, ranges=ranges)
    from wiredecode.cli.session import Session
    from wiredecode.dissect import Dissector
    from wiredecode.layer import Style

    style = None if summary else Style(_show_bytes(json, bytes_.value), show_secrets, text=json)
    display = options.display_filter(display_filter, secrets=show_secrets)
    dissector = Dissector(
        decode_as=options.decode_as(decode_as),
        limits=options.limits(hole_timeout, max_buffer, limit),
        style=style if display is None else display.style(style),
        link_responses=not summary or (display is not None and display.needs_responses),
        select=display,
    )
    session = Session(
        files,
        dissector,
        Output(sys.stdout),
        count=count,
        start=options.moment(from_, "--from"),
        end=options.moment(to, "--to"),
        display=display,
        quiet=quiet,
        verbose=verbose,
    )
    painted = wants_color(color.value, sys.stdout)
    if json:
        show = record_lines(session, ranges)
    elif summary:
        show = _lines(session, painted)
    else:
        from wiredecode.view.look import Look

        look = Look(bytes_.value, full=full, secrets=show_secrets, hexdump=hexdump)
        show = _trees(session, look, painted)
    return session.run(show, summary_json)


def _combine(*, summary: bool, json: bool, hexdump: bool, full: bool, ranges: bool) -> None:
    """Refuse options that exclude each other."""
    if summary and json:
        raise options.UsageError("--summary and --json exclude each other")
    for name, given in (("--hex", hexdump), ("--full", full)):
        if given and (summary or json):
            raise options.UsageError(f"{name} goes with trees, not with {'--json' if json else '--summary'}")
    if ranges and summary:
        raise options.UsageError("--ranges goes with --json or trees, not with --summary")


def _show_bytes(json: bool, choice: str) -> Callable[[bytes], str]:
    """Records hold bytes as they are to be written; trees shorten them later."""
    if json:
        from wiredecode.export.records import BYTES

        return BYTES[choice]
    from wiredecode.view.values import Raw

    return Raw


def _lines(session: Session, color: bool) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.summary import SummaryLines

    line, write = SummaryLines(color=color).line, session.output.text

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            write(line(frame, session.first_ns))

    return show


def record_lines(session: Session, ranges: bool) -> Callable[[Iterable[Frame]], None]:
    """Write NDJSON, one record per frame."""
    from wiredecode.export.records import RecordLines

    write, line = session.output.write, RecordLines(ranges=ranges).line

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            write(line(frame))

    return show


def _trees(session: Session, look: Look, color: bool) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.console import tree_console
    from wiredecode.view.tree import frame_tree

    console = tree_console(session.output, color=color, terminal=sys.stdout.isatty())

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            console.print(frame_tree(frame, session.first_ns, look))

    return show
