"""``wiredecode interfaces``: where ``sniff`` can listen."""

from __future__ import annotations

from typer import Option

from wiredecode.cli.output import Output, say


def interfaces(
    json: bool = Option(False, "--json", help="One JSON object per interface (NDJSON)."),
) -> int:
    """List the interfaces: name, state, link type, whether capturing is allowed, addresses."""
    from wiredecode.capture.live.interfaces import LINKTYPE_NAMES, devices, refusal
    from wiredecode.capture.live.privileges import how_to_grant, missing_right
    from wiredecode.frames.escape import escape

    found = [(one, refusal(one)) for one in devices()]
    output = Output()
    if json:
        for one, why_not in found:
            output.json({**one.record(), "capture": not why_not, "reason": why_not or None})
    else:
        rows = [["NAME", "STATE", "LINK", "CAPTURE", "ADDRESSES"]]
        for one, why_not in found:
            capture = f"no: {why_not}" if why_not else "yes"
            row = one.name, one.state, LINKTYPE_NAMES[one.linktype], capture, ", ".join(one.addresses)
            rows.append([*map(escape, row)])
        output.table(rows)
    output.flush()
    if not json and missing_right():
        for line in how_to_grant():
            say(f"  {line}")
    return 0
