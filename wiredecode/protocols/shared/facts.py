"""Facts: what the packets show about servers, paths, clients, topics and groups, from when to when.

    phase 1    frames, and connections that are over   ──▶  facts
    phase 2    facts, and what only one rule needs     ──▶  problems

A rule that wants to know what another rule has seen asks for a fact, never for its problem. Facts are values: they are
compared, sent to another process, and added (``a + b``), and those of two halves of the connections make the whole.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from wiredecode.frames import identity

if TYPE_CHECKING:
    from wiredecode.net.types import Connection

ALWAYS = 1 << 62
MAX_PLACES, MAX_SPANS, MAX_SUBJECTS = 8, 1000, 10_000
"""Places of a fact, facts of one kind and subject, and subjects of one kind that are kept."""


class Kind(NamedTuple):
    """A kind of facts."""

    name: str
    of: tuple[str, ...]
    """The parts of its subject: keys of ``--facts``."""
    apart_ns: int = 1_000_000_000
    """Facts about one subject that are no further apart are one; :data:`ALWAYS`: it is always one."""


REFUSED = Kind("refused", ("server",))
UNANSWERED = Kind("no-answer", ("server",))
"""A server's host refused a connection, or answered no SYN."""
DOWN = Kind("down", ("server",))
"""Nothing shows that the host of a server that answered no SYN was up."""
ENDED = Kind("ended", ("server",))
"""A server ended connections, without a word."""
ASKED = Kind("asked-in-vain", ("connection",), ALWAYS)
"""A client sent requests on a connection that have no answer; publishes only where the server answered others."""
MOVES = Kind("moves", ("server",), ALWAYS)
"""A server says that its work is done elsewhere from now on, or that it shuts down."""
HEARTBEAT = Kind("missed-heartbeat", ("sender",))
"""A side sent no heartbeat in time, though its path was fine."""
UNHEARD = Kind("not-acknowledged", ("host", "other"))
"""Two hosts: what one sent was not acknowledged."""
HOLE = Kind("not-captured", (), 0)
"""The capture lost packets."""
MADE = Kind("made", ("topic",), ALWAYS)
DELETED = Kind("deleted", ("topic",), 0)
PURGED = Kind("purged", ("topic",), 0)
"""A client made or deleted a topic, stream, consumer (``stream, consumer name``) or group (``group name``), or deleted
messages of a topic or stream."""
UNBOUND = Kind("unbound", ("topic",), 0)
"""A client took a binding away: an exchange routes a key to one queue less."""
CHANGED = Kind("changed", ("topic", "what"), 0)
"""A client changed settings or rights of a topic, stream, queue or group."""
LIMITED = Kind("limited", ("queue", "how"), ALWAYS)
"""A queue that keeps a number of messages, or each for a time."""
FIRST = Kind("first-publish", ("server", "topic"), ALWAYS)
"""The first publishes of clients to a topic waited: if it was just made, for leaders and replicas."""
STORED = Kind("stored", ("topic",), ALWAYS)
"""A log stores what is published to a topic."""
BLOCKED = Kind("waits-for-transaction", ("partition",))
"""Readers of committed messages wait for the end of a transaction."""
DELIVERED = Kind("delivered", ("consumer",), ALWAYS)
"""A server delivered messages for a named consumer."""
IDLE = Kind("without-partition", ("group", "member"), ALWAYS)
"""A member of a group was assigned no partition."""
SERVES = Kind("serves", ("topic",), 0)
"""A client answers requests to a topic."""
CLIENT = Kind("client", ("host", "server", "name", "user", "virtual_host", "group", "product", "version"), ALWAYS)
"""A client says who it is."""


class ShownConnection(NamedTuple):
    """A connection, as problems show it."""

    number: int
    name: str
    description: str
    client: str
    """The client's host."""
    server: str
    """The server's endpoint."""
    protocols: tuple[str, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """The addresses of both sides, in one order for both directions."""
        return tuple(sorted((self.client, self.server.rpartition(":")[0])))

    @property
    def users(self) -> set[tuple[str, str]]:
        """The client's host, with each protocol of the connection."""
        return {(self.client, protocol) for protocol in self.protocols}


def party_of(connection: Connection) -> ShownConnection:
    client, name = identity.client_side(connection), identity.short(connection)
    host, server = connection.endpoints[client].rpartition(":")[0], connection.endpoints[1 - client]
    protocols = tuple(sorted(connection.protocols))
    return ShownConnection(connection.number, name, identity.describe(connection), host, server, protocols)


class Place(NamedTuple):
    """Evidence: a frame (0: a packet alone), with its packets."""

    time_ns: int
    number: int
    packets: tuple[int, ...]
    connection: ShownConnection


def place_of(frame: Any) -> Place:
    """The place of a frame, or of a reference to one."""
    return Place(frame.time_ns, frame.number, tuple(frame.packets[:1]), party_of(frame.connection))


class Fact(NamedTuple):
    """What holds of a subject from one time to another, in ns."""

    kind: Kind
    of: tuple[str, ...]
    since_ns: int
    until_ns: int
    times: int = 1
    by: str = ""
    """The one that said or did it last."""
    places: tuple[Place, ...] = ()
    """The first ones."""

    def __add__(self, other: Fact) -> Fact:  # type: ignore[override]  # tuples are joined
        """Both as one, from the beginning of the first to the end of the last."""
        by = max((self.until_ns, self.by), (other.until_ns, other.by))[1]
        since_ns, until_ns = min(self.since_ns, other.since_ns), max(self.until_ns, other.until_ns)
        places = tuple(sorted({*self.places, *other.places})[:MAX_PLACES]) if other.places else self.places
        return Fact(self.kind, self.of, since_ns, until_ns, self.times + other.times, by, places)


class Facts:
    """Facts by kind and subject; those of one subject are in order of time, and apart."""

    def __init__(self) -> None:
        self._of: dict[Kind, dict[tuple[str, ...], list[Fact]]] = {}

    def note(
        self,
        kind: Kind,
        *of: str,
        since_ns: int,
        until_ns: int | None = None,
        times: int = 1,
        by: str = "",
        at: Place | None = None,
    ) -> None:
        """Add a fact; ``until_ns``: None for one moment."""
        places = () if at is None else (at,)
        self._add(Fact(kind, of, since_ns, since_ns if until_ns is None else until_ns, times, by, places))

    def saw(self, kind: Kind, *of: str, frame: Any, by: str = "") -> None:
        """Add a fact that a frame, or a reference to one, shows."""
        self.note(kind, *of, since_ns=frame.time_ns, by=by, at=place_of(frame))

    def _add(self, fact: Fact) -> None:
        subjects = self._of.setdefault(fact.kind, {})
        facts = subjects.get(fact.of)
        if facts is None:
            if len(subjects) < MAX_SUBJECTS:
                subjects[fact.of] = [fact]
            return
        first = bisect_left(facts, fact.since_ns - fact.kind.apart_ns, key=attrgetter("until_ns"))
        last = bisect_right(facts, fact.until_ns + fact.kind.apart_ns, key=attrgetter("since_ns"))
        for each in facts[first:last]:
            fact = each + fact
        facts[first:last] = [fact]
        if len(facts) > MAX_SPANS:
            facts[-2:] = [facts[-2] + facts[-1]]

    def of(self, kind: Kind, *subject: str) -> list[Fact]:
        """The facts about a subject."""
        return self._of.get(kind, {}).get(subject) or []

    def whole(self, kind: Kind, *subject: str) -> Fact | None:
        """The facts about a subject as one, from the first to the last."""
        facts = self.of(kind, *subject)
        return sum(facts[1:], facts[0]) if facts else None

    def each(self, kind: Kind) -> Iterator[Fact]:
        """By subject: the facts about it as one."""
        for subject in self._of.get(kind, {}):
            fact = self.whole(kind, *subject)
            if fact is not None:
                yield fact

    def meets(self, kind: Kind, *subject: str, since_ns: int, until_ns: int) -> bool:
        """Whether such a fact holds at some time between."""
        return any(each.since_ns < until_ns and each.until_ns > since_ns for each in self.of(kind, *subject))

    def __iter__(self) -> Iterator[Fact]:
        """All, by kind and subject."""
        for _, subjects in sorted(self._of.items()):
            for _, facts in sorted(subjects.items()):
                yield from facts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Facts) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __add__(self, other: Facts) -> Facts:
        both = Facts()
        for each in (*self, *other):
            both._add(each)
        return both

    def __deepcopy__(self, _: object) -> Facts:
        """A copy: facts themselves do not change."""
        copy = Facts()
        copy._of = {kind: {of: [*facts] for of, facts in some.items()} for kind, some in self._of.items()}
        return copy

    def forget(self, before_ns: int) -> None:
        """Drop facts that ended before: a live capture has no end."""
        for subjects in self._of.values():
            for of, facts in [*subjects.items()]:
                facts[:] = [each for each in facts if each.until_ns >= before_ns]
                if not facts:
                    del subjects[of]
