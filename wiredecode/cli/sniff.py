"""``wiredecode sniff``: decode a live capture; ``wiredecode interfaces``: list the interfaces."""

import sys

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.capturing import LiveCapture, Saving
from wiredecode.cli.frame_output import FrameOptions
from wiredecode.cli.output import Output, say
from wiredecode.dataclasses import replace
from wiredecode.frames.escape import escape


def sniff(
    live: LiveCapture,
    saving: Saving,
    frames: FrameOptions,
    reading: options.Reading,
    display_filter: options.DisplayFilter = None,
    count: options.Count = None,
    summary_json: options.SummaryJson = None,
) -> int:
    """Decode what passes an interface: a tree per frame, or lines, or JSON records, as it comes.

    Ctrl-C stops capturing, prints totals, and exits with code 0; a second one exits immediately. Totals go to stderr.
    Packets that were lost are counted there.
    """
    frames.check()
    _ = saving.rotation
    from wiredecode.cli.live import PATIENCE_NS, SniffSession
    from wiredecode.cli.session import Selection

    display = options.display_filter(display_filter, secrets=frames.show_secrets, utc=frames.utc)
    saves = saving.save is not None or summary_json is not None
    with live.capturing(saves=saves) as sniffer:
        saving.begin(sniffer)
        selection, demand = Selection(count, display=display), replace(frames.demand(display), wait_ns=PATIENCE_NS)
        session = SniffSession.of(reading, sniffer, selection, demand, colors=frames.colors, summary_json=summary_json)
        show = frames.writer(session)
        if not session.quiet and sys.stderr.isatty():
            say(f"capturing on {live.interface}; Ctrl-C ends it")
        return session.run(show)


def interfaces(json: bool = Option(False, "--json", help="One JSON object per interface (NDJSON).")) -> int:
    """List the interfaces: name, state, link type, whether capturing is allowed, addresses."""
    from wiredecode.capture.live.interfaces import LINKTYPE_NAMES, devices, refusal
    from wiredecode.capture.live.privileges import how_to_grant, missing_right

    devices_there = [(device, refusal(device)) for device in devices()]
    output = Output()
    if json:
        for device, why_not in devices_there:
            output.json({**device.record(), "capture": not why_not, "reason": why_not or None})
    else:
        rows = [["NAME", "STATE", "LINK", "CAPTURE", "ADDRESSES"]]
        for device, why_not in devices_there:
            capture = f"no: {why_not}" if why_not else "yes"
            row = device.name, device.state, LINKTYPE_NAMES[device.linktype], capture, ", ".join(device.addresses)
            rows.append([*map(escape, row)])
        output.table(rows)
    output.flush()
    if not json and missing_right():
        for line in how_to_grant():
            say(f"  {line}")
    return 0
