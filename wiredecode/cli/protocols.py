"""``wiredecode protocols``: what it speaks."""

from __future__ import annotations

import sys

from wiredecode.cli.output import Output


def protocols() -> None:
    """List the protocols that are decoded, with their ports and dialects."""
    from wiredecode.protocols.registry import protocols as known

    rows = [("NAME", "PROTOCOL", "PORTS", "OVER TLS", "DIALECTS")]
    for protocol in known():
        ports, tls = (", ".join(map(str, numbers)) or "-" for numbers in (protocol.ports, protocol.tls_ports))
        rows.append((protocol.name, protocol.title, ports, tls, ", ".join(protocol.dialects) or "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    output = Output(sys.stdout)
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        output.text("  ".join(cells).rstrip() + "\n")
    output.flush()
