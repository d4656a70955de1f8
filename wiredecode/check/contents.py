"""What is spoken where: other protocols at the port of a broker, and secrets that anybody can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from wiredecode.check.codes import CODES
from wiredecode.dissect.identify import LONGEST_BEGINNING, UNKNOWN, foreign_name
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, UNDECODED, Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.problems import Report, Rule

MOST_SERVERS = 10_000
"""Addresses of servers that are remembered."""
MOST_LOOKED = 1000
"""Frames of one layer that are looked into: some may hold secrets, and rarely do."""


class OtherProtocols(Rule):
    """Is told the first frames of connections, and what other connections look like."""

    def __init__(self, report: Report, ports: Mapping[int, str], titles: Mapping[str, str]) -> None:
        super().__init__(report)
        self._ports, self._titles = ports, titles
        """What the ports are of, and what protocols are called."""
        self._protocols: dict[str, str] = {}
        self._others: list[tuple[Connection, str]] = []

    def frame(self, frame: Frame) -> None:
        connection = frame.connection
        if frame.status == UNDECODED and connection.directions[frame.side].started:
            self._undecoded(frame)
        elif connection.initiator is not None and len(self._protocols) < MOST_SERVERS:
            self._protocols.setdefault(connection.endpoints[1 - connection.initiator], frame.protocol)

    def _undecoded(self, frame: Frame) -> None:
        """The first bytes of one side are no frame, though the other side speaks the protocol."""
        name = foreign_name(frame.data[:LONGEST_BEGINNING])
        if name != UNKNOWN:
            spoken = self._titles.get(frame.protocol, frame.protocol)
            what = f"{frame.source} speaks {name}, the other side {spoken}"
            self.report.add(CODES["protocol.mismatch"], what, (name, frame.source), frame=frame)

    def other(self, connection: Connection, name: str) -> None:
        """A connection that nobody decodes is over; ``name`` is what its first bytes look like."""
        if connection.initiator is not None and name not in (UNKNOWN, "TLS") and len(self._others) < MOST_SERVERS:
            self._others.append((connection, name))

    def finish(self) -> None:
        for connection, name in self._others:
            client = connection.initiator or 0
            server = connection.endpoints[1 - client]
            spoken = self._protocols.get(server)
            if spoken is None and not connection.directions[1 - client].captured:
                spoken = self._ports.get(connection.ports[1 - client])
            if spoken is None:
                continue
            what = f"{name} was spoken to {server}, where {self._titles.get(spoken, spoken)} is spoken"
            answered = connection.directions[1 - client].captured
            problem = self.report.add(
                *(CODES["protocol.mismatch"], what, (name, server)),
                connection=connection,
                packet=connection.first,
                time_ns=connection.first_ns,
            )
            if not answered and connection.closed is not None:
                problem.detail(f"the server said nothing; the connection ended by {connection.closed}")


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
        self._looked[layer] += 1
        if not layer.holds_secrets() or self._looked[layer] > MOST_LOOKED:
            self.harmless.add(layer)
            return
        if frame.status != OK:
            return
        ranges = layer.within(frame.data, 0, len(frame.data)).secret_ranges()
        if any(stop > start for start, stop in ranges):
            what = f"{frame.type} of {frame.protocol} carries secrets that anybody on the way can read"
            self.report.add(CODES["security.clear-text"], what, (frame.protocol, frame.type), frame=frame)
