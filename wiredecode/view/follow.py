"""Following one connection: what connections a capture has, which one is meant, and its payload as it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from ipaddress import ip_address, ip_network
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING

from wiredecode.dataclasses import dataclass
from wiredecode.frames.activity import Activities, Activity
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import end_text, names
from wiredecode.net.types import Chunk, Connection, Event, Gap

if TYPE_CHECKING:
    from wiredecode.filter import Filter


class Survey:
    """Lists the connections of a capture: given its frames by :meth:`see`, and their ends by :meth:`end`."""

    def __init__(self, display: Filter | None = None) -> None:
        self.activities = Activities()
        self._display = display
        self._fitting: set[int] = set()
        """Numbers of connections that have a frame that fits the display filter."""

    def frame(self, frame: Frame) -> None:
        """Count the next frame."""
        number = self.activities.frame(frame).connection.number
        if self._display is not None and number not in self._fitting and self._display.matches(frame):
            self._fitting.add(number)

    def end(self, connection: Connection, foreign: str | None) -> None:
        """A connection is over."""
        self.activities.of(connection).foreign = foreign

    def fits(self, activity: Activity) -> bool:
        """Whether the display filter chooses the connection."""
        return self._display is None or activity.connection.number in self._fitting


NUMBERS = ("#", "frames", "bytes", "seconds")
MAX_WHO = 200
LEAST = {"who": 18, "ended": 24}
"""Columns that these texts keep where the terminal is narrow. ``ended`` continues in the next line, ``who`` is cut."""
DROPPED = ("seconds", "bytes", "frames")
"""Columns that a narrow terminal leaves out, the first one first."""


def table(rows: Iterable[Activity], width: int | None = None) -> list[str]:
    """Connections as aligned, escaped lines with a heading; what all have in common is only there, or left out.

    In ``width`` columns, texts continue in the next line: who ended a connection, and why, is never cut.
    """
    heads = ["#", "frames", "bytes", "seconds", "protocol", "client → server", "ended", "who"]
    cells: list[tuple[str, ...]] = []
    for row in rows:
        ends, client = row.connection.named_endpoints, row.client_side
        seconds = "-" if row.began_ns is None else f"{(row.ended_ns - row.began_ns) / 1e9:.3f}"
        protocol = ", ".join(row.protocols) or (f"({row.foreign or 'unknown'})" if row.captured else "-")
        way = f"{ends[client]} → {ends[1 - client]}"
        ends = escape(end_text(row.connection, client)), escape(names(row.connection))
        counts = f"#{row.connection.number}", f"{sum(row.frames):,}", f"{row.captured:,}"
        cells.append((*counts, seconds, protocol, way, *ends))
    columns = dict(zip(heads, zip(*cells, strict=True), strict=True))
    if width is not None and len(cells) > 1:
        if len(set(columns["protocol"])) == 1:
            del columns["protocol"]
        servers = {way.partition(" → ")[2] for way in columns["client → server"]}
        if len(servers) == 1:
            clients = tuple(way.partition(" → ")[0] for way in columns.pop("client → server"))
            ended, who = columns.pop("ended"), columns.pop("who")
            columns |= {f"client → {servers.pop()}": clients, "ended": ended, "who": who}
    columns = {head: tuple(shorten(text, MAX_WHO) for text in column) for head, column in columns.items()}
    natural = {head: max(map(len, (head, *column))) for head, column in columns.items()}
    limit = width or needed(natural)
    widths = natural | {head: min(natural[head], least) for head, least in LEAST.items()}
    for head in DROPPED:
        if needed(widths) > limit:
            del columns[head], widths[head]
    room = limit - needed(widths)
    for head in ("ended", "who") if room > 0 else ():
        more = min(natural[head] - widths[head], room)
        widths[head] += more
        room -= more
    while room < 0 and max(widths.values()) > 1:  # two addresses do not fit
        widths[max(widths, key=lambda head: widths[head])] -= 1
        room += 1
    lines = [tuple(columns), *zip(*columns.values(), strict=True)]
    return [row for line in lines for row in _rows(widths, line)]


def needed(widths: dict[str, int]) -> int:
    """Columns of the terminal that a line needs."""
    return sum(widths.values()) + 2 * (len(widths) - 1)


def _rows(widths: dict[str, int], line: Iterable[str]) -> Iterator[str]:
    """The values of a line in their columns: numbers to the right, long texts in several rows."""
    cells = [
        [shorten(text, widths[head])] if head == "who" else textwrap.wrap(text, widths[head]) or [""]
        for head, text in zip(widths, line, strict=True)
    ]
    for row in zip_longest(*cells, fillvalue=""):
        texts = zip(widths.items(), row, strict=True)
        yield "  ".join(f"{text:>{at}}" if head in NUMBERS else f"{text:<{at}}" for (head, at), text in texts).rstrip()


@dataclass(frozen=True)
class ConnectionFilter:
    """Criteria for connections: all of them must hold."""

    number: int | None = None
    address: str | None = None
    """An address, a network such as ``10.0.0.0/8``, or an address with a port; raises ValueError otherwise."""
    port: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and "/" in self.address:
            ip_network(self.address, strict=False)
        elif self.address is not None:
            ip_address(host_of(self.address))

    def fits(self, connection: Connection) -> bool:
        if self.number is not None and connection.number != self.number:
            return False
        if self.port is not None and self.port not in connection.ports:
            return False
        return self.address is None or any(self._has_address(end) for end in connection.endpoints)

    def _has_address(self, end: str) -> bool:
        assert self.address is not None
        address = ip_address(host_of(end))
        if "/" in self.address:
            return address in ip_network(self.address, strict=False)
        return address == ip_address(host_of(self.address)) and (
            host_of(self.address) == self.address.strip("[]") or self.address == end
        )


def host_of(end: str) -> str:
    """The address of ``address:port``, of ``[address]:port`` or of an address alone."""
    if end.startswith("["):
        return end[1:].partition("]")[0]
    return end.partition(":")[0] if end.count(":") == 1 else end


def payload(events: list[Event], number: int, side: int | None) -> list[tuple[int, int, bytes | Gap]]:
    """The payload of connection ``number`` among the events of a network, in capture order: bytes and gaps, each with
    the number and the time (ns) of the packet that made it ready. ``side``: only of this endpoint.
    """
    pieces: list[tuple[int, int, bytes | Gap]] = []
    for event in events:
        direction = event.direction
        if direction.connection.number != number or side not in (None, direction.side):
            continue
        if isinstance(event, Gap):
            pieces.append((event.ready, event.ready_ns, event))
        elif isinstance(event, Chunk):
            low = 0
            ready = zip(event.ends.tolist(), event.ready.tolist(), event.ready_ns.tolist(), strict=True)
            for end, packet, time_ns in ready:
                pieces.append((packet, time_ns, event.data[low : end - event.offset]))
                low = end - event.offset
    return sorted(pieces, key=itemgetter(0))  # stable: each direction keeps its order
