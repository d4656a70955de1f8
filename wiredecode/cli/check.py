"""``wiredecode check``: the problems of captures, or of an interface while it is captured."""

from pathlib import Path
from typing import Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import OptionalLive
from wiredecode.cli.output import complain

Severity = Literal["error", "warning", "note"]


@options.group
class Checked(options.CaptureReading):
    """Captures, or an interface."""

    files: options.OptionalFiles = None  # type: ignore[assignment]  # else an interface
    live: OptionalLive


def check(
    captures: Checked,
    connection: int | None = Option(
        None, "-n", "--connection", min=1, metavar="N", help="Only problems of the connection with this number."
    ),
    display_filter: options.CheckFilter = None,
    severity: Severity = Option("warning", help="The least severity that is shown."),
    fail_on: Literal["error", "warning", "note", "undecoded"] | None = Option(
        None,
        help="Exit 1 if any problem is at least this severe; undecoded: exit 3 if not all was captured and decoded.",
    ),
    json: bool = Option(False, "--json", help="One JSON object per problem, then one with the verdict (NDJSON)."),
    facts: bool = Option(False, "--facts", help="With --json: before the problems one JSON object per fact."),
    write: Path | None = Option(
        None, "-w", "--write", metavar="OUT.pcapng", help="Write the packets of all evidence, too."
    ),
    time: options.Time = None,
    color: options.Color = "auto",
    two_passes: options.TwoPasses = False,
    timeline: bool = Option(
        False, "--timeline", help="After the problems: what changed when; with --json one more object."
    ),
) -> int:
    """Find out what is wrong in captures: one block per cause, with evidence and what to do.

    The last line says what was judged. In a pipe, nothing is printed if nothing is wrong and all was decoded.
    Exit code 3: nothing could be judged. Numbers of frames and packets are those of other commands and of Wireshark.
    With -n and -Y the whole capture is judged, and problems of other connections are left out. With -i problems of an
    interface are printed as they begin and as they end, until Ctrl-C.
    """
    from wiredecode.cli.check_job import CheckOptions, FileCheck, make_layout, watch, write_evidence

    live, span = captures.live, captures.span
    check_options = CheckOptions(severity=severity, fail_on=fail_on, json=json, facts=facts, color=color)
    if live.interface is not None:
        alone = connection or display_filter or write or two_passes or timeline or facts or not span.is_whole
        options.refuse(
            (captures.files, "-i checks an interface: leave out files"),
            (alone, "-n, -Y, -w, -2, --facts, --timeline, --from and --to go with files"),
        )
        clock = options.times(time or (None if json else "absolute"), utc=span.utc, records=json)
        return watch(captures, live, check_options, clock)
    files = captures.files or []
    options.refuse(
        (not files, "nothing to check: give capture files, or -i IFACE"),
        (facts and not json, "--facts goes with --json"),
        (live.capture_filter or live.duration is not None or live.via is not None, "-f, --duration and --via need -i"),
    )
    if write is not None:
        options.check_writing(files, write)
    times = options.times(time, utc=span.utc, records=json)
    layout = make_layout(files, times, color, chosen=time is not None or span.utc)
    display = options.display_filter(display_filter, utc=span.utc)
    judging = FileCheck(captures, check_options, layout, connection, display, timeline=timeline, two_passes=two_passes)
    if code := judging.run():
        return code
    if judging.chosen is not None and not judging.chosen:
        complain("no connection matches: wiredecode follow lists them")
        return 1
    if write is not None and (code := write_evidence(captures, judging.problems, write)):
        return code
    return judging.exit_code
