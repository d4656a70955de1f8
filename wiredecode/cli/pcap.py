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
    from wiredecode.view.summary import SummaryLines
    from wiredecode.view.theme import TreeOptions
    from wiredecode.view.times import Times

LARGE_BYTES = 64 * 1000 * 1000
"""Captures from this size on are read many frames at a time, for summaries."""

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
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import Session
    from wiredecode.fields.layer import Style
    from wiredecode.view.theme import TreeOptions

    display = options.display_filter(display_filter, secrets=show_secrets)
    session = (PipeSession if is_pipe(files) else Session)(
        files,
        dissector(
            None if summary else Style(show_bytes(json, bytes_.value), show_secrets, text=json),
            display,
            options.decode_as(decode_as),
            options.limits(hole_timeout, max_buffer, limit),
        ),
        Output(sys.stdout),
        count=count,
        start=options.moment(from_, "--from"),
        end=options.moment(to, "--to"),
        display=display,
        quiet=quiet,
        verbose=verbose,
    )
    times = options.times(time, utc=utc, records=json)
    tree_options = TreeOptions(bytes_.value, full=full, secrets=show_secrets, hexdump=hexdump, times=times)
    show = shower(session, tree_options, summary=summary, json=json, ranges=ranges, color=color.value)
    return session.run(show, summary_json)


def dissector(
    style: Style | None, display: Filter | None, decode_as: Mapping[int, DecodeAs], limits: Limits
) -> Dissector:
    """The dissector of a command that shows frames; no style: only summaries."""
    from wiredecode.dissect.dissector import Dissector

    return Dissector(
        decode_as=decode_as,
        limits=limits,
        style=style if display is None else display.style(style),
        link_responses=style is not None or (display is not None and display.needs_responses),
        select=display,
    )


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


def compiled_loops_pay(size: int | None) -> bool:
    """Whether to read plain frames many at a time: loading the compiler takes about a second."""
    from wiredecode.bulk import has_compiler

    return size is not None and size >= LARGE_BYTES and has_compiler()


def _lines_of_runs(session: Session, dissector: Dissector, lines: SummaryLines) -> Callable[[Iterable[Frame]], None]:
    """The same lines, made many at a time."""
    from wiredecode.frames.frame import Frame

    dissector.runs = dissector.facts = True
    matches = None if session.display is None else session.display.matches

    def show(frames: Iterable[Frame]) -> None:
        for items in dissector.mixed(session.batches()):
            if matches is not None:
                items = [item for item in items if not isinstance(item, Frame) or matches(item)]
            for text in lines.mixed(items, session.first_ns):
                session.output.text(text)

    return show


def _lines(session: Session, color: bool, times: Times) -> Callable[[Iterable[Frame]], None]:
    from wiredecode.view.summary import SummaryLines

    lines, write = SummaryLines(color=color, times=times), session.output.text
    linked = session.dissector is None or session.dissector.link_responses
    if session.is_whole and not linked and compiled_loops_pay(session.capture.bytes_total):
        assert session.dissector is not None
        return _lines_of_runs(session, session.dissector, lines)
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
