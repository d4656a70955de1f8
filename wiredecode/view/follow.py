"""Following one connection: what connections a capture has, which one is meant, and its payload as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from operator import itemgetter
from typing import TYPE_CHECKING

from wiredecode.frames.escape import escape
from wiredecode.frames.who import client_side, end_text, names
from wiredecode.net.types import Chunk, Connection, Event, Gap
from wiredecode.view.dialogue import listing

if TYPE_CHECKING:
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame


@dataclass(slots=True)
class Seen:
    """One connection of a capture."""

    connection: Connection
    frames: int = 0
    protocols: dict[str, None] = field(default_factory=dict)
    """Of its frames, in the order in which they were met."""
    first_ns: int = 0
    last_ns: int = 0
    """Times of its first and last frame."""
    client: int | None = None
    """The endpoint that is the client, as the protocol told."""
    fits: bool = False
    """Whether one of its frames fits the display filter."""
    other: str | None = None
    """What it looks like, if it is nothing that is decoded."""

    @property
    def size(self) -> int:
        """Payload bytes captured, of both sides."""
        return sum(direction.captured for direction in self.connection.directions)

    @property
    def client_side(self) -> int:
        return client_side(self.connection) if self.client is None else self.client


class Survey:
    """The connections of a capture, by number: given its frames by :meth:`see`, and their ends by :meth:`end`."""

    def __init__(self, display: Filter | None = None) -> None:
        self.seen: dict[int, Seen] = {}
        self._display = display

    def see(self, frame: Frame) -> None:
        row = self._row(frame.connection)
        if not row.frames:
            row.first_ns = frame.first_ns
        row.frames += 1
        row.last_ns = frame.time_ns
        if frame.protocol:
            row.protocols[frame.protocol] = None
        if row.client is None and frame.sender is not None:
            row.client = frame.side if frame.sender == "client" else 1 - frame.side
        if not row.fits:
            row.fits = self._display is None or self._display.matches(frame)

    def end(self, connection: Connection, other: str | None) -> None:
        row = self._row(connection)
        row.other = other
        row.fits = row.fits or self._display is None

    def _row(self, connection: Connection) -> Seen:
        row = self.seen.get(connection.number)
        if row is None:
            row = self.seen[connection.number] = Seen(connection)
        return row


def table(rows: Iterable[Seen]) -> list[str]:
    """The connections as aligned lines below a heading; escaped."""
    cells: list[tuple[str, ...]] = [("#", "FRAMES", "BYTES", "SECONDS", "PROTOCOL", "CLIENT → SERVER", "ENDED", "WHO")]
    for row in rows:
        ends, client = row.connection.called, row.client_side
        seconds = f"{(row.last_ns - row.first_ns) / 1e9:.3f}" if row.frames else "-"
        protocol = ", ".join(row.protocols) or (f"({row.other or 'unknown'})" if row.size else "-")
        way = f"{ends[client]} → {ends[1 - client]}"
        ends = escape(end_text(row.connection, client)), escape(names(row.connection))
        counts = f"#{row.connection.number}", f"{row.frames:,}", f"{row.size:,}"
        cells.append((*counts, seconds, protocol, way, *ends))
    return listing(cells)


@dataclass(frozen=True)
class ConnectionFilter:
    """Which connections are meant: those that all of this is true of."""

    number: int | None = None
    address: str | None = None
    """An address, a network such as ``10.0.0.0/8``, or an address with a port; raises ValueError otherwise."""
    port: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and "/" in self.address:
            ip_network(self.address, strict=False)
        elif self.address is not None:
            ip_address(host_of(self.address))

    @property
    def is_all(self) -> bool:
        return self == ConnectionFilter()

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


@dataclass(slots=True, frozen=True)
class Hole:
    """Bytes that were not captured: nothing stands in their place."""

    connection: Connection
    side: int
    offset: int
    length: int
    reason: str


Piece = tuple[int, int, bytes | Hole]
"""Number of the packet that made it ready, that packet's time in ns, and what it is."""


def payload(events: list[Event], number: int, side: int | None) -> list[Piece]:
    """The payload of connection ``number`` among the events of a network, in capture order: nothing comes before it
    any more. ``side``: only of this endpoint.
    """
    pieces: list[Piece] = []
    for event in events:
        direction = event.direction
        if direction.connection.number != number or side not in (None, direction.side):
            continue
        if isinstance(event, Chunk):
            pieces += _pieces(event)
        elif isinstance(event, Gap):
            hole = Hole(direction.connection, direction.side, event.offset, event.length, event.reason)
            pieces.append((event.ready, event.ready_ns, hole))
    return sorted(pieces, key=itemgetter(0))  # stable: each direction keeps its order


def _pieces(chunk: Chunk) -> Iterator[Piece]:
    low = 0
    for end, ready, ready_ns in zip(chunk.ends.tolist(), chunk.ready.tolist(), chunk.ready_ns.tolist(), strict=True):
        yield ready, ready_ns, chunk.data[low : end - chunk.offset]
        low = end - chunk.offset
