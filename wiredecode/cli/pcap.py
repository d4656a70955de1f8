"""``wiredecode pcap``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.frame_output import FrameOptions, shower
from wiredecode.cli.groups import with_groups
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain, say
from wiredecode.frames.plurals import counted

if TYPE_CHECKING:
    from wiredecode.capture import Capture
    from wiredecode.cli.session import Session
    from wiredecode.net.limits import Limits

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


@with_groups
def pcap(
    files: options.Files,
    frames: FrameOptions,
    decoding: options.Decoding,
    span: options.Span,
    verbosity: options.Verbosity,
    display_filter: options.DisplayFilter = None,
    count: options.Count = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "-w",
            "--write",
            metavar="OUT.pcapng",
            help="Show nothing: write the packets of the frames chosen (all, without -Y, -c, --from, --to).",
        ),
    ] = None,
    whole_connections: Annotated[
        bool, typer.Option("--whole-connections", help="With -w: all packets of the connections of these frames.")
    ] = False,
    follow_file: Annotated[
        bool, typer.Option("--follow-file", help="Read on as the file grows, until Ctrl-C, like tail -f.")
    ] = False,
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
    live = is_pipe(files) or follow_file
    packets = _grows(files) if follow_file else files if live else open_capture(files)
    whole = count is None and span.is_whole
    if write is not None:
        _check_writing(files, write, selects=display is not None or not whole)
        if follow_file:
            raise options.UsageError("-w and --follow-file exclude each other: a file that grows is written already")
    elif whole_connections:
        raise options.UsageError("--whole-connections goes with -w")
    session = (PipeSession if live else Session).of(
        *(packets, decoding, verbosity), count=count, span=span, display=display, select=display, **frames.wanted
    )
    if write is not None:
        return _write(session, files, write, summary_json, whole=whole_connections, limits=decoding.limits)
    return session.run(shower(session, frames), summary_json)


def _check_writing(files: list[str], out: Path, *, selects: bool) -> None:
    """Refuse what cannot be written."""
    options.check_out(out, files, what="-w needs a file", named=f"-w {out}")
    for file in files:
        if selects and not Path(file).is_file():
            what = "standard input" if file == "-" else f"{file} (no regular file)"
            raise options.UsageError(
                f"-w with a selection reads twice, and {what} can be read once: save it first, as with tee a.pcap"
            )


def _write(
    session: Session, files: list[str], out: Path, summary_json: Path | None, *, whole: bool, limits: Limits
) -> int:
    """Write the packets of the frames that ``session`` selects, all packets if it selects none; the exit code."""
    from wiredecode.capture.errors import Postponed
    from wiredecode.capture.private import MODE
    from wiredecode.export.atomic import NewFile
    from wiredecode.export.packets import ChosenPackets, PacketFile

    try:
        target = NewFile(out, mode=MODE)
    except OSError as error:
        complain(f"{out}: cannot be written: {error.strerror}")
        return 2
    packets, chosen = PacketFile(target.stream), ChosenPackets(whole=whole)
    session.reads_on = whole

    def everything() -> None:
        assert session.dissector is not None
        passing = packets.passing(session.batches(), session.capture.info)
        for _ in session.dissector.frames(passing):
            chosen.frames += 1

    def selected() -> None:
        with Postponed() as damage:
            chosen.select(session.frames())
        chosen.finish()
        packets.copy(files, chosen, session.totals.packets, limits)
        damage.raise_again()

    try:
        code = session.work(everything if session.shows_all else selected, summary_json)
        if code != INTERRUPTED:
            target.commit()
            if not session.quiet:
                say(f"{out}: {packets}, {counted(chosen.frames, 'frame')}")
    finally:
        target.discard()
    return code


def _grows(files: list[str]) -> Capture:
    """The capture of a file that is still written."""
    from wiredecode.capture import open_capture
    from wiredecode.capture.file import IDLE_SECONDS

    if len(files) != 1 or not Path(files[0]).is_file():
        raise options.UsageError("--follow-file is for one file that is there; standard input is read as it comes")
    return open_capture(files, idle_seconds=IDLE_SECONDS, follow=True)
