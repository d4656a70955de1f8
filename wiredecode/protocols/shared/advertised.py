"""A frequent trouble of brokers that send clients elsewhere: they name a host and port that the client cannot reach."""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import ClassVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import Codes
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of

MIN_ANSWERS = 3
"""A client that asks this often and connects to no broker goes round in circles."""
UNUSED_NS = 500_000_000
"""A client that does nothing for this long after it got an address cannot use it."""
CONTAINER = re.compile(r"[0-9a-f]{12}")
"""A container's id, which is its host name unless it is given one."""
MAX_ADDRESSES = 1000
"""Advertised addresses, and addresses of servers, that are remembered."""


@dataclass(slots=True)
class Advertised:
    """An address that was named to clients of one host."""

    ref: FrameRef
    requested: str
    """The broker that named it."""
    host: str
    port: int
    client: str
    left_ns: int | None = None
    """Time at which the informed connection ended."""
    times: int = 1
    """Number of times that it was advertised, the last time at ``ref``."""
    first_ns: int = 0
    """Time when it was first advertised."""
    unused: bool = False
    """Whether its host was silent for a while afterwards."""


@dataclass(slots=True)
class Attempts:
    """Connections to one address."""

    accepted: int = 0
    failed: int = 0
    how: str = ""
    last: Connection | None = None


@dataclass(eq=False)
class AdvertisedHost(Rule):
    """A broker names a host and port: then no connection, a refused one, or none that does anything."""

    codes: ClassVar[Codes]
    code: ClassVar[str]
    """Name of the problem among ``codes``."""
    working: ClassVar[frozenset[str]]
    """Types of frames of a client that did not only look for a broker."""
    asks: ClassVar[str]
    speaks: ClassVar[str]
    """Types of the first frames of clients and brokers."""
    leaves: ClassVar[bool] = True
    """Whether a client that cannot reach the address ends the connection on which it got it."""
    works_elsewhere: ClassVar[bool] = False
    """Whether clients use the broker that they asked if they cannot reach the address."""
    _advertised: dict[tuple[str, int, str], Advertised] = field(default_factory=dict)
    _worked: dict[str, int] = field(default_factory=dict)
    """By host of clients: when one last began to publish or to consume."""
    _attempts: dict[str, Attempts] = field(default_factory=dict)
    _failed: list[Connection] = field(default_factory=list)
    _spoke: set[int] = field(default_factory=set)
    """Connections on which a broker answered."""
    _requested: set[int] = field(default_factory=set)
    """Connections on which a client sent a request."""

    def frame(self, frame: Frame) -> None:
        if frame.type in self.working:
            if len(self._worked) < MAX_ADDRESSES:
                self._works(host_of(frame.source), frame.time_ns)
        elif frame.type in (self.asks, self.speaks):
            (self._spoke if frame.type == self.speaks else self._requested).add(frame.connection.number)
        else:
            for host, port in self.addresses(frame):
                self._note_advertised(frame, host, port)

    def _works(self, host: str, time_ns: int) -> None:
        """A host did something; frames that waited for a gap are earlier than those before."""
        self._worked[host] = max(self._worked.get(host, 0), time_ns)

    def addresses(self, frame: Frame) -> Iterable[tuple[str, int]]:
        """Hosts and ports that a frame of another type sends a client to."""
        raise NotImplementedError

    def _note_advertised(self, frame: Frame, host: str, port: int) -> None:
        client = host_of(frame.destination)
        key = host, port, client
        if join(host, port) == frame.source or (key not in self._advertised and len(self._advertised) >= MAX_ADDRESSES):
            return
        before = self._advertised.get(key)
        times, first_ns = (1, frame.time_ns) if before is None else (before.times + 1, before.first_ns)
        named = ref_of(frame), frame.source, printable(host), port, client
        if before is None or not self._unusable(before, frame.time_ns):
            self._advertised[key] = Advertised(*named, times=times, first_ns=first_ns)

    def _unusable(self, advertised: Advertised, until_ns: int) -> bool:
        """Whether it is an address of the client's own machine, and the client did nothing afterwards for a while."""
        captured = all(side.captured for side in advertised.ref.connection.directions)
        idle = captured and self._worked.get(advertised.client, 0) < advertised.ref.time_ns <= until_ns - UNUSED_NS
        advertised.unused |= idle
        return self.works_elsewhere and is_foreign(advertised) and advertised.unused

    def ended(self, connection: Connection) -> None:
        health = connection.health
        for end in connection.endpoints if connection.initiator is None else ():
            if len(self._attempts) < MAX_ADDRESSES:  # it began before the capture
                self._attempts.setdefault(end, Attempts()).accepted += 1
        if connection.initiator is not None and health is not None and len(self._attempts) < MAX_ADDRESSES:
            attempts = self._attempts.setdefault(connection.endpoints[1 - connection.initiator], Attempts())
            how = "is refused" if health.refused else "gets no answer" if health.unanswered else ""
            if how or self._met_another(connection):
                attempts.failed += 1
                attempts.last = connection
                attempts.how = how or "meets something that is no broker"
                if len(self._failed) < MAX_ADDRESSES:
                    self._failed.append(connection)
            else:
                attempts.accepted += 1
        for side, host in enumerate(map(host_of, connection.endpoints)):
            if connection.initiator in (None, side) and connection.directions[side].lossy and health is not None:
                self._works(host, health.last_ns)  # the lost bytes may show it
        self._spoke.discard(connection.number)
        self._requested.discard(connection.number)
        for advertised in self._advertised.values():
            of_it = advertised.ref.connection is connection and connection.closed is not None
            if of_it and health is not None and all(side.captured for side in connection.directions):
                advertised.left_ns = health.last_ns

    def _met_another(self, connection: Connection) -> bool:
        """Whether a client spoke the protocol, and got other bytes back."""
        answers = connection.directions[1 - (connection.initiator or 0)]
        whole = answers.captured and not answers.missing
        return bool(whole) and connection.number in self._requested and connection.number not in self._spoke

    def finish(self) -> None:
        for (host, port, client), advertised in self._advertised.items():
            attempts = self._attempts.get(join(host, port)) or self._by_name(advertised)
            address = f"{advertised.host}:{port}"
            if attempts.failed and not attempts.accepted:
                title = f"the broker sends clients to {address}, where the connection {attempts.how}"
                self._report(advertised, title, attempts)
            elif join(host, 0).rpartition(":")[0] == host_of(advertised.requested) and is_address(host):
                continue  # the client reaches this host: its connections to another port were not captured
            elif not attempts.accepted and self._gave_up(advertised, client):
                left = self.leaves and advertised.left_ns is not None
                then = "the client leaves" if left else "the client asks again and again"
                title = f"the broker sends clients to {address}; no connection to it follows, {then}"
                self._report(advertised, title, attempts)

    def _by_name(self, advertised: Advertised) -> Attempts:
        """Attempts of a client that got a name: to its port, after it got the name, at any address."""
        attempts = Attempts()
        if is_address(advertised.host):
            return attempts
        for connection in self._failed:
            client = connection.initiator or 0
            server = connection.endpoints[1 - client]
            its = host_of(connection.endpoints[client]) == advertised.client and server != advertised.requested
            late = connection.first_ns >= advertised.ref.time_ns
            to_port = connection.ports[1 - client] == advertised.port
            if its and late and to_port and not self._attempts[server].accepted:
                attempts = self._attempts[server]
        return attempts

    def _gave_up(self, advertised: Advertised, client: str) -> bool:
        """Whether its host left, or asked again and again, and did nothing with streams afterwards."""
        if self.works_elsewhere:
            return self._unusable(advertised, self.report.last_ns)
        ended = (self.leaves and advertised.left_ns is not None) or advertised.times >= MIN_ANSWERS
        ended &= all(side.captured for side in advertised.ref.connection.directions)
        return ended and self._worked.get(client, 0) < advertised.ref.time_ns

    def _report(self, advertised: Advertised, title: str, attempts: Attempts) -> None:
        ref = advertised.ref
        problem = self.report.add(self.codes[self.code], title, (advertised.host, advertised.port), frame=ref)
        client, last = short(ref.connection), attempts.last
        problem.count, problem.first_ns = advertised.times, advertised.first_ns
        problem.weight = max(problem.weight, attempts.failed)
        problem.detail(f"{client} asked {advertised.requested} and the answer was {advertised.host}:{advertised.port}")
        if last is not None:
            self.report.concerns(problem, last)
            problem.packets.append(last.first)
            to = last.endpoints[1 - (last.initiator or 0)]
            problem.detail(f"its connection #{last.number} to {to} {attempts.how}")
        if hint := explanation_of(advertised):
            problem.detail(hint)


def host_of(endpoint: str) -> str:
    return endpoint.rpartition(":")[0]


def join(host: str, port: int) -> str:
    """As endpoints are written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def is_foreign(advertised: Advertised) -> bool:
    """Whether the address is one of the client's own machine, and the broker is on another one."""
    elsewhere = advertised.client != host_of(advertised.requested)
    return elsewhere and is_loopback(advertised.host) and not is_loopback(advertised.client.strip("[]"))


def explanation_of(advertised: Advertised) -> str:
    """Explain an advertised name by itself."""
    host = advertised.host
    if is_foreign(advertised):
        return f"{host} is, for a client at {advertised.client}, its own machine"
    if CONTAINER.fullmatch(host):
        return f"{host} looks like the id of a container: only other containers of its network know it"
    if not is_address(host) and "." not in host and not is_loopback(host):
        return f"{host} has no domain: only hosts of the same network know it"
    return ""
