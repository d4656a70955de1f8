"""What changes for clients of NATS."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.fields.jsonfields import shown
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.changes import STATE, Change


def info(frame: Frame) -> Iterator[Change]:
    """A server is about to shut down (lame duck mode), or knows other servers than before."""
    options = frame.values.get("options") or {}
    server = printable(str(options.get("server_name") or options.get("server_id") or frame.source))
    if options.get("ldm"):
        yield Change(STATE, server, f"{server} will shut down (lame duck mode)")
    urls = options.get("connect_urls")
    if isinstance(urls, list) and urls:
        known = ", ".join(sorted(shown(str(url), False) for url in urls))
        yield Change(STATE, f"servers of {server}", f"{server} knows these servers: {known}")


CHANGES = {"INFO": info}
