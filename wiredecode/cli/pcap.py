"""``wiredecode pcap``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.output import Output, wants_color

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.dissect.identify import DecodeAs
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
    from wiredecode.net.limits import Limits
    from wiredecode.view.theme import TreeOptions
    from wiredecode.view.times import Times

LARGE_BYTES = 64 * 1000 * 1000
"""From this size on, frames of connections that a filter excludes are only counted: making a frame costs more."""

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
    time: options.Time = None,
    utc: options.Utc = False,
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
    combine(summary=summary, json=json, hexdump=hexdump, full=full, ranges=ranges)
    from wiredecode.capture import open_capture
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import Session
    from wiredecode.fields.layer import Style
    from wiredecode.view.theme import TreeOptions

    display = options.display_filter(display_filter, secrets=show_secrets)
    packets = files if is_pipe(files) else open_capture(files)
    start, end = options.moment(from_, "--from"), options.moment(to, "--to")
    whole = count is None and start is None and end is None
    size = None if isinstance(packets, list) else packets.bytes_total
    session = (PipeSession if is_pipe(files) else Session)(
        packets,
        dissector(
            None if summary else Style(show_bytes(json, bytes_.value), show_secrets, text=json),
            display,
            options.decode_as(decode_as),
            options.limits(hole_timeout, max_buffer, limit),
            tally=summary and whole and (size or 0) >= LARGE_BYTES,
        ),
        Output(sys.stdout),
        count=count,
        start=start,
        end=end,
        display=display,
        quiet=quiet,
        verbose=verbose,
    )
    times = options.times(time, utc=utc, records=json)
    tree_options = TreeOptions(bytes_.value, full=full, secrets=show_secrets, hexdump=hexdump, times=times)
    show = shower(session, tree_options, summary=summary, json=json, ranges=ranges, color=color.value)
    return session.run(show, summary_json)


def dissector(
    style: Style | None,
    display: Filter | None,
    decode_as: Mapping[int, DecodeAs],
    limits: Limits,
    *,
    tally: bool = False,
    lookahead_ns: int | None = None,
) -> Dissector:
    """The dissector of a command that shows frames; no style: only lines. ``tally``: if it may, see :class:`Demand`."""
    from wiredecode.dissect.demand import Demand
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.dissect.lookahead import LOOKAHEAD_NS
    from wiredecode.net import Network

    linked = style is not None or (display is not None and display.needs_responses)
    demand = Demand(
        style=style if display is None else display.style(style),
        link_responses=linked,
        lookahead_ns=LOOKAHEAD_NS if lookahead_ns is None else lookahead_ns,
        select=display,
        tally=tally and display is not None and not linked,
        decode_as=decode_as,
    )
    return Dissector(demand, Network(limits))


def shower(
    session: Session, tree_options: TreeOptions, *, summary: bool, json: bool, ranges: bool, color: str
) -> Callable[[Iterable[Frame]], None]:
    """What shows the frames of a session as the options say."""
    painted = wants_color(color, sys.stdout)
    if json:
        return record_lines(session, ranges, tree_options.bytes)
    return _lines(session, painted, tree_options.times) if summary else _trees(session, tree_options, painted)


def combine(*, summary: bool, json: bool, hexdump: bool, full: bool, ranges: bool) -> None:
    """Refuse options that exclude each other."""
    if summary and json:
        raise options.UsageError("--summary and --json exclude each other")
    for name, given in (("--hex", hexdump), ("--full", full)):
        if given and (summary or json):
            raise options.UsageError(f"{name} goes with trees, not with {'--json' if json else '--summary'}")
    if ranges and summary:
        raise options.UsageError("--ranges goes with --json or trees, not with --summary")


def show_bytes(json: bool, choice: str) -> Callable[[bytes], str]:
    """Records hold bytes as they are to be written; trees shorten them later."""
    if json:
        from wiredecode.frames.record import BYTES

        return BYTES[choice]
    from wiredecode.view.values import Raw

    return Raw


def _lines(session: Session, color: bool, times: Times) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.summary import SummaryLines

    lines, write = SummaryLines(color=color, times=times), session.output.text
    line = lines.line

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            write(line(frame, session.first_ns))

    return show


def record_lines(session: Session, ranges: bool, bytes_: str) -> Callable[[Iterable[Frame]], None]:
    """Write NDJSON, one record per frame; ``bytes_`` is how bytes are shown."""
    from wiredecode.frames.record import BYTES, RecordLines

    write, line = session.output.write, RecordLines(ranges=ranges, show=BYTES[bytes_]).line

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            write(line(frame))

    return show


def _trees(session: Session, tree_options: TreeOptions, color: bool) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.console import tree_console
    from wiredecode.view.tree import frame_tree

    console = tree_console(session.output, color=color, terminal=sys.stdout.isatty())

    def show(frames: Iterable[Frame]) -> None:
        for frame in frames:
            console.print(frame_tree(frame, session.first_ns, tree_options))

    return show
