"""``wiredecode sniff``: the main job, live."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.output import Output, complain, say
from wiredecode.cli.pcap import combine, dissector, show_bytes, shower

if TYPE_CHECKING:
    from wiredecode.capture.live.saving import Rotation
    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.capture.live.source import LiveOptions, LiveSource

EXAMPLES = """\b
Examples:
  wiredecode sniff -i lo -f 'port 5552'                 trees, until Ctrl-C
  wiredecode sniff -i eth0 --summary --duration 30      half a minute, a line per frame
  wiredecode sniff -i any --json -Y 'latency > 5ms'     slow responses only
  wiredecode sniff -i lo --via dumpcap --summary        dumpcap has the rights
  wiredecode sniff -i eth0 -w x.pcapng --ring-size 100 --ring-files 10 -q --summary
  ssh HOST tcpdump -U -w - port 5552 | wiredecode pcap -
"""
MAX_SNAPLEN = 262_144


class Via(StrEnum):
    dumpcap = "dumpcap"
    tcpdump = "tcpdump"


def complete_interface(incomplete: str) -> list[str]:
    """Interfaces that the word may become, for the shell."""
    from wiredecode.capture.live.interfaces import ANY, names

    return [name for name in (*names(), ANY) if name.startswith(incomplete)]


def sniff(
    interface: Annotated[
        str,
        typer.Option(
            "-i",
            "--interface",
            metavar="IFACE",
            help="Where to listen (see wiredecode interfaces); any: everywhere.",
            autocompletion=complete_interface,
            show_default=False,
        ),
    ],
    capture_filter: Annotated[
        str, typer.Option("-f", "--capture-filter", metavar="BPF", help="Only packets that fit, as in 'port 5552'.")
    ] = "",
    no_promiscuous: Annotated[
        bool, typer.Option("-p", "--no-promiscuous", help="Only packets from and to this machine.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("-w", "--write", metavar="FILE", help="Save the packets as pcapng, too.")
    ] = None,
    ring_size: Annotated[
        int | None, typer.Option("--ring-size", metavar="MIB", min=1, help="With -w: a new file after so much.")
    ] = None,
    ring_seconds: Annotated[
        float | None, typer.Option("--ring-seconds", metavar="S", min=0.1, help="With -w: a new file after so long.")
    ] = None,
    ring_files: Annotated[
        int | None, typer.Option("--ring-files", metavar="N", min=1, help="With a ring: keep the last N files.")
    ] = None,
    count: options.Count = None,
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="SECONDS", min=0.001, help="Stop after so long.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="One line per frame.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON record per frame (NDJSON).")] = False,
    hexdump: Annotated[bool, typer.Option("--hex", help="Trees with a hex dump.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Trees with all bytes and all elements of arrays.")] = False,
    time: options.Time = None,
    utc: options.Utc = False,
    display_filter: options.DisplayFilter = None,
    decode_as: options.DecodeAsOption = None,
    via: Annotated[
        Via | None, typer.Option("--via", help="Let this program capture, with the rights that it has.")
    ] = None,
    snaplen: Annotated[
        int, typer.Option("--snaplen", metavar="BYTES", min=1, max=MAX_SNAPLEN, help="Capture so much of each packet.")
    ] = MAX_SNAPLEN,
    buffer: Annotated[
        int, typer.Option("--buffer", metavar="MIB", min=1, max=2048, help="What the kernel holds for us.")
    ] = 32,
    bytes_: options.Bytes = options.BytesChoice.hex,
    ranges: options.Ranges = False,
    show_secrets: options.ShowSecrets = False,
    color: options.Color = options.ColorChoice.auto,
    hole_timeout: options.HoleSeconds = None,
    max_buffer: options.MaxBuffer = None,
    limit: options.LimitOption = None,
    summary_json: Annotated[
        Path | None, typer.Option("--summary-json", metavar="FILE", dir_okay=False, help="Write the totals as JSON.")
    ] = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> int:
    """Decode what passes an interface: a tree per frame, or lines, or JSON records, as it comes.

    Ctrl-C ends it in good order: totals, exit code 0; a second one ends it at once. Totals go to standard error.
    Packets that were lost are counted there.
    """
    combine(summary=summary, json=json, hexdump=hexdump, full=full, ranges=ranges)
    times = options.times(time, utc=utc, records=json)
    rotation = _rotation(save, ring_size, ring_seconds, ring_files)
    from wiredecode.cli.live import SniffSession
    from wiredecode.fields.layer import Style
    from wiredecode.view.theme import TreeOptions

    display = options.display_filter(display_filter, secrets=show_secrets)
    decoder = dissector(
        None if summary else Style(show_bytes(json, bytes_.value), show_secrets, text=json),
        display,
        options.decode_as(decode_as),
        options.limits(hole_timeout, max_buffer, limit),
    )
    from wiredecode.capture.live.source import LiveOptions

    sniffer = _open(LiveOptions(interface, capture_filter, not no_promiscuous, snaplen, buffer), via, duration)
    if sniffer is None:
        return 2
    try:
        if save is not None and not _save(sniffer, save, rotation):
            return 2
        session = SniffSession(
            sniffer, decoder, Output(sys.stdout), count=count, display=display, quiet=quiet, verbose=verbose
        )
        tree_options = TreeOptions(bytes_.value, full=full, secrets=show_secrets, hexdump=hexdump, times=times)
        show = shower(session, tree_options, summary=summary, json=json, ranges=ranges, color=color.value)
        if not quiet and sys.stderr.isatty():
            say(f"capturing on {interface}; Ctrl-C ends it")
        return session.run(show, summary_json)
    finally:
        sniffer.close()


def _save(sniffer: Sniffer, path: Path, rotation: Rotation) -> bool:
    try:
        sniffer.save(path, rotation)
    except OSError as error:
        complain(f"{error.filename}: cannot be written: {error.strerror}")
        return False
    return True


def _rotation(save: Path | None, size: int | None, seconds: float | None, files: int | None) -> Rotation:
    from wiredecode.capture.live.ring import MIB
    from wiredecode.capture.live.saving import Rotation

    rotation = Rotation(None if size is None else size * MIB, seconds, files)
    if save is None and (rotation.wanted or files is not None):
        raise options.UsageError("--ring-size, --ring-seconds and --ring-files go with -w")
    if files is not None and not rotation.wanted:
        raise options.UsageError("--ring-files goes with --ring-size or --ring-seconds")
    if save is not None and str(save) == "-":
        raise options.UsageError("-w needs a file: standard output carries the frames")
    return rotation


def _open(wanted: LiveOptions, via: Via | None, duration: float | None) -> Sniffer | None:
    """The capture, with no more rights than it needs from now on; None where it cannot be, which has been told."""
    from wiredecode.capture.live.errors import LiveError
    from wiredecode.capture.live.helper import HelperSource
    from wiredecode.capture.live.privileges import give_up_root
    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.capture.live.source import RingSource

    try:
        source: LiveSource = RingSource(wanted) if via is None else HelperSource(via.value, wanted)
    except LiveError as error:
        complain(str(error))
        for line in error.advice:
            say(f"  {line}")
        return None
    remark = give_up_root()
    if remark:
        complain(remark)
    return Sniffer(source, duration=duration)
