"""Protocols and secrets on connections: other protocols at the port of a broker, and secrets in clear text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from wiredecode.check.codes import CODES
from wiredecode.dissect.identify import LONGEST_BEGINNING, UNKNOWN, foreign_name
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, UNDECODED, Frame
from wiredecode.frames.who import client_side
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.problems import Report, Rule

MOST_SERVERS = 10_000
"""Addresses of servers that are remembered."""
MOST_BYTES = 512 * 1024
"""Bytes of frames of one layer that are searched for secrets: most frames hold none."""


class OtherProtocols(Rule):
    """Receives the first frames of connections, and the likely protocols of other connections."""

    def __init__(self, report: Report, ports: Mapping[int, str], titles: Mapping[str, str]) -> None:
        super().__init__(report)
        self._ports, self._titles = ports, titles
        """The protocols of the ports, and the titles of protocols."""
        self._protocols: dict[str, str] = {}
        self._others: list[tuple[Connection, str]] = []

    def frame(self, frame: Frame) -> None:
        connection = frame.connection
        if frame.status == UNDECODED and connection.directions[frame.side].started:
            self._undecoded(frame)
        elif frame.type == "HTTP" and frame.sender == "client" and connection.directions[1 - frame.side].frames:
            self._http(frame)
        elif frame.protocol == "tls" and frame.side == connection.initiator:
            return  # what a client tries: the server may answer otherwise
        elif connection.initiator is not None and len(self._protocols) < MOST_SERVERS:
            self._protocols.setdefault(connection.endpoints[1 - connection.initiator], frame.protocol)

    def _undecoded(self, frame: Frame) -> None:
        """The first bytes of one side are no frame, though the other side speaks the protocol."""
        beginning = frame.data[:LONGEST_BEGINNING]
        name = foreign_name(beginning)
        if name != UNKNOWN:
            spoken = self._titles.get(frame.protocol, frame.protocol)
            by_client = frame.side == client_side(frame.connection)
            what = f"{frame.source} speaks {name}, the other side {spoken}"
            likely = _likely(name if by_client else spoken, spoken if by_client else name)
            self._add(what, (name, frame.source), likely, f"{frame.source} began with {beginning!r}", frame=frame)

    def _http(self, frame: Frame) -> None:
        """A request of HTTP to a server that spoke first: this is no upgrade to WebSocket."""
        title = self._titles.get(frame.protocol, frame.protocol)
        began = f"it began with {frame.data[:LONGEST_BEGINNING]!r}, after the server's {title}"
        self._at_port("HTTP", frame.source, frame.destination, title, began, frame=frame)

    def other(self, connection: Connection, name: str) -> None:
        """A connection that is not decoded is over; ``name`` is what its first bytes look like."""
        if connection.initiator is not None and name != UNKNOWN and len(self._others) < MOST_SERVERS:
            self._others.append((connection, name))

    def finish(self) -> None:
        for connection, name in self._others:
            client = connection.initiator or 0
            server, answered = connection.endpoints[1 - client], connection.directions[1 - client].captured
            spoken = self._protocols.get(server)
            if spoken is None and not answered:
                spoken = self._ports.get(connection.ports[1 - client])
            if spoken is None or (name == "TLS" and (answered or spoken == "tls" or connection.closed is None)):
                continue
            title = self._titles.get(spoken, spoken)
            closed = None if answered else connection.closed
            silent = f"the server sent nothing; the connection ended by {closed}" if closed else ""
            where = {"connection": connection, "packet": connection.first, "time_ns": connection.first_ns}
            self._at_port(name, connection.endpoints[client], server, title, silent, **where)

    def _at_port(self, name: str, client: str, server: str, title: str, detail: str, **where: Any) -> None:
        """A client that speaks another protocol than its server's port is for."""
        what = f"{client.rpartition(':')[0]} speaks {name} to {server}, the {title} port"
        self._add(what, (name, server), _likely(name, f"plain {title}" if name == "TLS" else title), detail, **where)

    def _add(self, what: str, key: tuple[str, str], likely: str, detail: str, **where: Any) -> None:
        problem = self.report.add(CODES["protocol.mismatch"], what, key, **where)
        problem.likely = likely
        problem.detail(detail)


def _likely(client: str, server: str) -> str:
    """The likely misconfiguration if a client and a server speak these protocols."""
    if server == "TLS":
        return f"the client speaks {client} without TLS to a port for TLS"
    return f"the client, which speaks {client}, was given the port of {server}"


class ClearText(Rule):
    """Fields that are declared secret, in frames that were decoded."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self.harmless: set[type[Layer] | None] = {None}
        """Layers without secrets: their frames need not be shown to this rule."""
        self._looked: Counter[type[Layer]] = Counter()

    def frame(self, frame: Frame) -> None:
        layer = frame.layer
        assert layer is not None
        if not layer.holds_secrets() or self._looked[layer] > MOST_BYTES:
            self.harmless.add(layer)
            return
        self._looked[layer] += frame.length
        if frame.status != OK:
            return
        ranges = layer.within(frame.data, 0, len(frame.data)).secret_ranges()
        if any(stop > start for start, stop in ranges):
            what = f"{frame.type} of {frame.protocol} carries secrets that anybody on the way can read"
            self.report.add(CODES["security.clear-text"], what, (frame.protocol, frame.type), frame=frame)
