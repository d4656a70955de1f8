"""Clients of a server that was away: whether they came back."""

from collections.abc import Iterable
from typing import NamedTuple

from wiredecode.check.flows.names import service_of
from wiredecode.dataclasses import dataclass
from wiredecode.frames.identity import client_side
from wiredecode.net.types import Connection

SOON_NS = 10_000_000_000
"""A server whose clients are all served again within this time, by it or by others, was restarted."""
PATIENCE_NS = 5_000_000_000
"""A client that tries again waits no longer than this, and not much longer than it did before."""
MOMENT_NS = 1_000_000_000
Client = tuple[str, str]
"""Host, and name without the part in which instances and connections differ."""


@dataclass(slots=True)
class FailedAttempts:
    """Connections of a host to a server that failed."""

    count: int = 0
    last_ns: int = 0
    gap_ns: int = 0
    """The longest time between two."""

    def add(self, time_ns: int) -> None:
        if self.count:
            self.gap_ns = max(self.gap_ns, time_ns - self.last_ns)
        self.count += 1
        self.last_ns = max(self.last_ns, time_ns)

    def are_over(self, up_ns: int, until_ns: int) -> bool:
        """Whether no other attempt was to be expected after the last one, once the server was there again."""
        return until_ns - max(self.last_ns, up_ns) > max(PATIENCE_NS, 2 * self.gap_ns)


class Away(NamedTuple):
    """A server was away from one time to another, ns."""

    server: str
    down_ns: int
    up_ns: int

    def clients(self, connections: Iterable[Connection]) -> tuple[dict[Client, Connection], dict[Client, int]]:
        """The last connections of the clients that it had; and since when each client is served, by it or by others.

        ``connections``: to servers of its kind, without those that failed.
        """
        before: dict[Client, Connection] = {}
        since: dict[Client, int] = {}
        for each in connections:
            side = client_side(each)
            client = each.endpoints[side].rpartition(":")[0], service_of(each.identity.get("name", ""))
            last_ns = each.health.last_ns if each.health is not None else each.first_ns
            if each.endpoints[1 - side] == self.server and each.first_ns < self.down_ns:
                if last_ns >= self.down_ns - MOMENT_NS:
                    before[client] = each
            elif last_ns >= self.up_ns or each.first_ns >= self.down_ns - MOMENT_NS:
                since[client] = min(since.get(client, each.first_ns), each.first_ns)
        return before, since
