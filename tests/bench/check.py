"""Checks small generated captures: decoding them gives the generated frames and messages.

Run by ``python -m tests.bench --smoke``; prints one line of JSON per case.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.cases import CASES, make
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.message import Messages

MEGABYTES = 0.3


def examine(name: str, folder: Path, megabytes: float = MEGABYTES) -> dict[str, Any]:
    """Return generated and decoded counts, and whether they agree."""
    made = make(name, megabytes, folder)
    messages = Messages()
    for _ in Dissector(Demand(link_responses=False, messages=messages)).frames(open_capture([str(made["path"])])):
        pass
    dissector = Dissector(Demand(style=Style(bytes.hex)))
    frames = findings = doubtful = 0
    protocols = set()
    for frame in dissector.frames(open_capture([str(made["path"])])):
        frames += 1
        findings += len(frame.findings)
        doubtful += frame.status != "ok"
        protocols.add(frame.protocol)
    totals = dissector.totals
    lost = totals.undecoded + sum(totals.not_decoded.values())
    lost += sum(totals.other.values()) if CASES[name].protocols else 0
    found = {"frames": frames, "messages": messages.count, "connections": totals.connections, "packets": totals.packets}
    right = all(made[key] == value for key, value in found.items()) and totals.closes and totals.connections >= 8
    right = right and not findings and not doubtful and not lost and not totals.missing and not totals.limits
    if CASES[name].loss:  # decoded around its gaps; no frame may be invented
        right = totals.closes and totals.missing > 0 and frames <= int(made["frames"]) + doubtful
    right = right and protocols == set(CASES[name].protocols)
    if CASES[name].midstream:  # unknown after a late start: requests, ids, and the start of the first frame
        right = totals.closes and all(made[key] == found[key] for key in ("connections", "packets"))
    return {"case": name, **found, "findings": findings, "doubtful": doubtful, "lost": lost, "right": right}


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="wiredecode-bench-") as folder:
        for name in CASES:
            result = examine(name, Path(folder))
            failed += not result["right"]
            print(json.dumps(result), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
