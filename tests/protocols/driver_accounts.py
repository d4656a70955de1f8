"""Compare a capture of real programs with their accounts: payloads they sent, counts of upstream's own decoder.

Such truths name no frames: they have the size and SHA-256 of each payload (``written``, ``sent``, ``conditional`` ...),
and of Pravega the messages by type and client port.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support import Run, dissect
from wiredecode.capture import open_capture
from wiredecode.protocols.base import Protocol

SENT = ("written", "sent", "conditional", "unconditional")
"""Lists of a driver's account that hold what it sent; those that were not acknowledged need not be there."""


def is_account(truth: Mapping[str, Any]) -> bool:
    """Whether a truth is the account of a program."""
    return "scenario" in truth or "upstream_decoder" in truth


def check(path: Path, truth: Mapping[str, Any], protocol: Protocol) -> list[str]:
    """The disagreements between a capture and the accounts of the programs in it."""
    run = dissect(open_capture([path]), known=(protocol,))
    wrong = [] if run.totals.closes else ["the accounts do not close"]
    counted = truth.get("upstream_decoder", {}).get("by_client_port", {})
    for port, messages in counted.items():
        wrong += counts(run, int(port), messages)
    return wrong + list(payloads(path, truth))


def counts(run: Run, port: int, messages: Mapping[str, int]) -> list[str]:
    """Messages by sender and type, as upstream's decoder counted them."""
    found: Counter[str] = Counter()
    for frame in run.frames:
        ports = frame.connection.ports
        if port in ports and frame.type is not None:
            sender = "client" if ports[frame.side] == port else "server"
            name = re.sub(r"(?<!^)([A-Z])", r"_\1", frame.type).upper()
            found[f"{sender} {name}"] += 1
    names = sorted(found.keys() | messages.keys())
    return [
        f"port {port}: {found[name]} times {name}, upstream counted {messages.get(name, 0)}"
        for name in names
        if found[name] != messages.get(name, 0)
    ]


def payloads(path: Path, truth: Mapping[str, Any]) -> Iterator[str]:
    """Yield the acknowledged payloads that are the body of no message."""
    import wiredecode

    table = wiredecode.read(str(path), level="messages").table()
    bodies = Counter(hashlib.sha256(body).hexdigest() for body in table["body"].to_pylist() if body is not None)
    for kind in SENT:
        for claim in truth.get(kind, ()):
            refused = not claim.get("acked", claim.get("accepted", True)) or claim.get("error")
            if "sha256" in claim and not refused and not bodies[claim["sha256"]]:
                yield f"{kind}: a payload of {claim['size']} bytes ({claim.get('text', '')[:30]!r}) is in no message"
