"""``wiredecode protocols``: what it speaks."""

from __future__ import annotations

from wiredecode.cli.output import Output


def protocols() -> None:
    """List the protocols that are decoded, with their ports and dialects."""
    from wiredecode.protocols.registry import protocols as known

    rows = [("NAME", "PROTOCOL", "PORTS", "OVER TLS", "DIALECTS")]
    for protocol in known():
        ports, tls = (", ".join(map(str, numbers)) or "-" for numbers in (protocol.ports, protocol.tls_ports))
        rows.append((protocol.name, protocol.title, ports, tls, ", ".join(protocol.dialects) or "-"))
    output = Output()
    output.table(rows)
    output.flush()
