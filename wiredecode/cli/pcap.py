"""``wiredecode pcap``: the main job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import group, with_groups
from wiredecode.cli.output import Output, wants_color

if TYPE_CHECKING:
    from wiredecode.cli.session import Session
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.fields.layer import Style
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
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


@group
class FrameOptions:
    """What frames are shown as: trees, lines or records."""

    summary: Annotated[bool, typer.Option("--summary", help="One line per frame.")] = False
    json: options.Json = False
    hexdump: Annotated[bool, typer.Option("--hex", help="Trees with a hex dump.")] = False
    full: Annotated[bool, typer.Option("--full", help="Trees with all bytes and all elements of arrays.")] = False
    time: options.Time = None
    utc: options.Utc = False
    bytes_: options.Bytes = options.BytesChoice.hex
    ranges: options.Ranges = False
    show_secrets: options.ShowSecrets = False
    color: options.Color = options.ColorChoice.auto

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.summary and self.json:
            raise options.UsageError("--summary and --json exclude each other")
        for name, given in (("--hex", self.hexdump), ("--full", self.full)):
            if given and (self.summary or self.json):
                raise options.UsageError(f"{name} goes with trees, not with {'--json' if self.json else '--summary'}")
        if self.ranges and self.summary:
            raise options.UsageError("--ranges goes with --json or trees, not with --summary")
        _ = self.times

    @property
    def style(self) -> Style | None:
        """How frames are dissected; None: only for summaries."""
        from wiredecode.fields.layer import Style

        if self.summary:
            return None
        return Style(show_bytes(self.json, self.bytes_.value), self.show_secrets, text=self.json)

    @cached_property
    def times(self) -> Times:
        return options.times(self.time, utc=self.utc, records=self.json)

    @property
    def tree_options(self) -> TreeOptions:
        from wiredecode.view.theme import TreeOptions

        return TreeOptions(
            self.bytes_.value, full=self.full, secrets=self.show_secrets, hexdump=self.hexdump, times=self.times
        )


@with_groups
def pcap(
    files: options.Files,
    frames: FrameOptions,
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    display_filter: options.DisplayFilter = None,
    count: options.Count = None,
    summary_json: options.SummaryJson = None,
) -> int:
    """Decode captures: a tree per frame, or lines, or JSON records.

    Totals go to standard error. In trees @8:12 is a byte range: bytes 8 up to, not including, 12 of the frame; what
    other frames tell about this one stands in [brackets].
    """
    frames.check()
    from wiredecode.capture import open_capture
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import Session

    display = options.display_filter(display_filter, secrets=frames.show_secrets, utc=frames.utc)
    packets = files if is_pipe(files) else open_capture(files)
    whole = count is None and span.start is None and span.end is None
    size = None if isinstance(packets, list) else packets.bytes_total
    session = (PipeSession if is_pipe(files) else Session)(
        packets,
        dissector(frames, display, decoding, tally=frames.summary and whole and (size or 0) >= LARGE_BYTES),
        Output(sys.stdout),
        count=count,
        start=span.start,
        end=span.end,
        display=display,
        quiet=verbosity.quiet,
        verbose=verbosity.verbose,
    )
    return session.run(shower(session, frames), summary_json)


def dissector(
    frames: FrameOptions,
    display: Filter | None,
    decoding: options.Decoding,
    *,
    tally: bool = False,
    lookahead_ns: int | None = None,
) -> Dissector:
    """The dissector of a command that shows frames. ``tally``: if it may, see :class:`Demand`."""
    from wiredecode.dissect.demand import Demand
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.dissect.lookahead import LOOKAHEAD_NS
    from wiredecode.net import Network

    style = frames.style
    linked = style is not None or (display is not None and display.needs_responses)
    demand = Demand(
        style=style if display is None else display.style(style),
        link_responses=linked,
        lookahead_ns=LOOKAHEAD_NS if lookahead_ns is None else lookahead_ns,
        select=display,
        tally=tally and display is not None and not linked,
        decode_as=decoding.ports,
    )
    return Dissector(demand, Network(decoding.limits))


def shower(session: Session, frames: FrameOptions) -> Callable[[Iterable[Frame]], None]:
    """What shows the frames of a session as the options say."""
    color, times = wants_color(frames.color.value, sys.stdout), frames.times
    if frames.json:
        return record_lines(session, frames.ranges, frames.bytes_.value)
    return _lines(session, color, times) if frames.summary else _trees(session, frames.tree_options, color)


def show_bytes(json: bool, choice: str) -> Callable[[bytes], str]:
    """Records hold bytes as they are to be written; trees shorten them later."""
    if json:
        from wiredecode.frames.record import BYTES

        return BYTES[choice]
    from wiredecode.view.values import Raw

    return Raw


def _lines(session: Session, color: bool, times: Times) -> Callable[[Iterable[Frame]], None]:
    write = session.output.text
    line: Callable[[Frame, int], str]
    if sys.stdout.isatty():
        from wiredecode.view.screen import ScreenLines

        screen = ScreenLines(color=color, times=times)
        write(screen.header())
        line = screen.line
    else:
        from wiredecode.view.summary import SummaryLines

        line = SummaryLines(color=color, times=times).line

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
