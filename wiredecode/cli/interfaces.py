"""``wiredecode interfaces``: where ``sniff`` can listen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from wiredecode.cli.output import Output, say

if TYPE_CHECKING:
    from wiredecode.capture.live.interfaces import Device

EXAMPLES = """\b
Examples:
  wiredecode interfaces
  wiredecode interfaces --json | jq -r 'select(.state == "up").name'
"""


def interfaces(
    json: Annotated[bool, typer.Option("--json", help="One JSON object per interface (NDJSON).")] = False,
) -> int:
    """List the interfaces: name, state, link type, whether capturing is allowed, addresses."""
    from wiredecode.capture.live.interfaces import devices, refusal
    from wiredecode.capture.live.privileges import how_to_grant, missing_right

    found = [(one, refusal(one)) for one in devices()]
    output = Output(sys.stdout)
    if json:
        import orjson

        for one, why_not in found:
            row = {**one.record(), "capture": not why_not, "reason": why_not or None}
            output.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
    else:
        for line in _table(found):
            output.text(line + "\n")
    output.flush()
    if not json and missing_right():
        for line in how_to_grant():
            say(f"  {line}")
    return 0


def _table(found: list[tuple[Device, str]]) -> list[str]:
    from wiredecode.capture.live.interfaces import LINKTYPE_NAMES
    from wiredecode.frames.escape import escape

    rows = [("NAME", "STATE", "LINK", "CAPTURE", "ADDRESSES")]
    for one, why_not in found:
        capture = f"no: {why_not}" if why_not else "yes"
        rows.append((one.name, one.state, LINKTYPE_NAMES[one.linktype], capture, ", ".join(one.addresses)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        escape("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()) for row in rows
    ]
