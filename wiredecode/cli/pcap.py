"""``wiredecode pcap``: decode captures to trees, lines or records, or write the packets of chosen frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.frame_output import PDML, FrameOptions
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain, say
from wiredecode.dataclasses import replace
from wiredecode.frames.escape import counted

if TYPE_CHECKING:
    from wiredecode.capture import Capture
    from wiredecode.cli.session import CaptureSession, Selection
    from wiredecode.dissect.dissector import Demand


def pcap(
    captures: options.CaptureReading,
    frames: FrameOptions,
    display_filter: options.DisplayFilter = None,
    count: options.Count = None,
    write: Path | None = Option(
        None,
        "-w",
        "--write",
        metavar="OUT.pcapng",
        help="Show nothing: write the packets of the frames chosen (all, without -Y, -c, --from, --to).",
    ),
    whole_connections: bool = Option(
        False, "--whole-connections", help="With -w: all packets of the connections of these frames."
    ),
    follow_file: bool = Option(False, "--follow-file", help="Read on as the file grows, until Ctrl-C, like tail -f."),
    two_passes: options.TwoPasses = False,
    summary_json: options.SummaryJson = None,
    jobs: options.Jobs = None,
    with_overview: bool = Option(False, "--overview", hidden=True),
) -> int:
    """Decode captures: a tree per frame, or lines, or JSON records.

    Totals go to standard error. In trees @8:12 is a byte range: bytes 8 up to, not including, 12 of the frame.
    Values from other frames are in [brackets].
    """
    frames.check()
    from wiredecode.cli.live import PipeSession, is_pipe
    from wiredecode.cli.session import CaptureSession, Selection

    files, display = captures.files, options.display_filter(display_filter, secrets=frames.show_secrets, utc=frames.utc)
    selection = Selection(count, captures.span, display)
    if write is not None:
        options.check_writing(files, write, selects=not selection.is_everything)
        if follow_file:
            raise options.UsageError("-w and --follow-file exclude each other: a growing file is being saved already")
    elif whole_connections:
        raise options.UsageError("--whole-connections needs -w")
    kind = PipeSession if follow_file or is_pipe(files) else CaptureSession
    source = _open_growing(files) if follow_file else files
    if display is not None and display.chooses_packets:
        from wiredecode.cli.packet_output import fields_of
        from wiredecode.filter.tables import FACT
        from wiredecode.tables.reader import LevelsReader

        columns = None if write is None else ["packet", "connection", "time"]
        demand = replace(captures.decoding.demand, levels=("packets",), columns=columns, select=display)
        reader = LevelsReader(demand, facts=[name for name in fields_of(frames) if name.startswith(FACT)])
        session = kind(
            source, captures.verbosity, reader, selection, summary_json=summary_json, to_stdout=write is None
        )
        return _packets(session, captures, frames, write, whole=whole_connections)
    demand = frames.demand(display)
    others = ("-c", count), ("-w", write), ("--follow-file", follow_file), ("-2", two_passes)
    reasons = [(given, f"does not go with {name}") for name, given in (*others, ("--summary-json", summary_json))]
    processes = captures.processes(jobs, *reasons, *frames.needs_one_process)
    if processes > 1:
        return _in_processes(processes, captures, selection, frames, demand)
    if kind is CaptureSession and write is None and selection.is_everything:
        demand = replace(demand, blocks=frames.are_bulk_lines)
    session = kind.of(
        captures,
        source,
        replace(selection, reads_on=whole_connections),
        demand,
        colors=frames.colors,
        two_passes=two_passes,
        summary_json=summary_json,
        to_stdout=write is None,
    )
    if write is not None:
        return _write(session, captures, write, whole=whole_connections)
    if with_overview and sys.stdout.isatty():
        from wiredecode.cli.overview import overview

        session.output.text(overview(captures))
    return session.run(frames.writer(session))


def _in_processes(
    jobs: int,
    captures: options.CaptureReading,
    selection: Selection,
    frames: FrameOptions,
    demand: Demand,
) -> int:
    """Show frames, each of several processes those of its connections."""
    from wiredecode.cli.session import CaptureSession
    from wiredecode.cli.sharing import shared
    from wiredecode.dissect.share import Share

    def opened(share: Share) -> CaptureSession:
        blocks = selection.is_everything and frames.are_bulk_lines
        shares = replace(demand, share=share, blocks=blocks)
        return CaptureSession.of(captures, captures.files, selection, shares, colors=frames.colors)

    try:
        return shared(jobs, opened, lambda session: frames.writer(session)(session.frames()))[0]
    except ChildProcessError as error:
        complain(f"{error}; what was shown is not complete")
        return 2


def _packets(
    session: CaptureSession, captures: options.CaptureReading, frames: FrameOptions, write: Path | None, *, whole: bool
) -> int:
    """Show or write the selected packets, if the filter chooses packets; return the exit code."""
    from wiredecode.cli.packet_output import numbers, packet_writer

    display = session.selection.display
    assert display is not None
    if write is None and (frames.hexdump or frames.full or frames.ranges or frames.shape == PDML):
        way = f"-Y 'frame && ({display.text})'"
        raise options.UsageError(f"this filter chooses packets, shown as lines, fields or --json; for frames use {way}")
    batches = session.rows(counted=True)
    if write is None:
        return session.work(packet_writer(session, frames, batches))
    also = partial(numbers, batches, captures.files, captures.decoding.limits, whole=whole)
    return _write(session, captures, write, whole=False, also=also)


def _write(
    session: CaptureSession,
    captures: options.CaptureReading,
    out: Path,
    *,
    whole: bool,
    also: Callable[[list[int]], None] | None = None,
) -> int:
    """Write the packets of the selected frames, without a selection all packets; return the exit code.

    ``also``: adds the numbers of the packets to write to a list, in place of those of selected frames.
    """
    from wiredecode.capture.errors import Postponed
    from wiredecode.capture.live.pcapng_writer import MODE
    from wiredecode.export.atomic import NewFile
    from wiredecode.export.packets import ChosenPackets, PacketFile

    target = NewFile(out, mode=MODE)
    packets, chosen = PacketFile(target.stream), ChosenPackets(whole=whole)

    def everything() -> None:
        passing = packets.passing(session.batches(), session.capture.info)
        for _ in session.dissector.frames(passing):
            chosen.frames += 1

    def selected() -> None:
        numbers_chosen: list[int] = []
        with Postponed() as damage:
            if also is None:
                chosen.select(session.frames())
            else:
                also(numbers_chosen)
        chosen.finish(numbers_chosen)
        packets.copy(captures.files, chosen, session.totals.packets, captures.decoding.limits)
        damage.raise_again()

    try:
        code = session.work(everything if session.selection.is_everything else selected)
        if code != INTERRUPTED:
            target.commit()
            if not session.quiet:
                say(f"{out}: {packets}" + (f", {counted(chosen.frames, 'frame')}" if also is None else ""))
    finally:
        target.discard()
    return code


def _open_growing(files: list[str]) -> Capture:
    from wiredecode.capture import open_capture
    from wiredecode.capture.reader import IDLE_SECONDS

    if len(files) != 1 or not Path(files[0]).is_file():
        raise options.UsageError("--follow-file needs one existing file; standard input is read as it comes")
    return open_capture(files, idle_seconds=IDLE_SECONDS, follow=True)
