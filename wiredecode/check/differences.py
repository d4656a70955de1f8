"""Traits that separate clients with a problem from the other clients of the same server."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from wiredecode.frames.identity import client_side, label
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.problems import Problem

MIN_CLIENTS, MAX_VALUES, MAX_LINES = 3, 3, 2
"""Fewer clients differ by chance; a group with more values has none in common; lines that a problem gets."""
LIBRARY, VERSION = "client library", "client"


class Client(NamedTuple):
    """A connection of a client, by the server's host and the client's name."""

    number: int
    protocol: str
    host: str
    who: str
    traits: Mapping[str, str]
    """By name, the telling ones first; empty: not known."""


def client_of(connection: Connection, space: str) -> Client | None:
    """``space``: its virtual host, account or cluster.

    None: its protocol is not known, or a side said nothing, so nothing is known of its success.
    """
    spoken = [each for each in connection.protocols if each != "tls"]
    if not spoken or not all(side.captured for side in connection.directions):
        return None
    side, who = client_side(connection), connection.identity
    host, server = connection.endpoints[side].rpartition(":")[0], connection.endpoints[1 - side]
    product = who.get("product", "")
    traits = {
        "user": who.get("user", ""),
        checks_of(spoken[0]).space: space,
        LIBRARY: product,
        VERSION: " ".join(filter(None, (product, who.get("version", "")))),
        "connection": "with TLS" if "tls" in connection.protocols else "without TLS",
        "server address": server,
        "network": f"{host.rpartition('.')[0]}.0/24" if "." in host else "",
    }
    return Client(connection.number, spoken[0], server.rpartition(":")[0], label(connection) or host, traits)


def separating(good: Iterable[str], bad: Iterable[str]) -> tuple[str, str] | None:
    """The values of both groups, as texts, if all are known and none is in both groups; None: they explain nothing."""
    both = set(good), set(bad)
    if not all(both) or "" in both[0] | both[1] or both[0] & both[1] or max(map(len, both)) > MAX_VALUES:
        return None
    first, second = (" or ".join(sorted(values)) for values in both)
    return first, second


def tell(problems: Sequence[Problem], clients: Collection[Client]) -> None:
    """Add to each problem what all its clients have in common, and no other client of these servers has."""
    worse = [each for each in problems if each.severity != "note"]
    affected = set().union(*(members_of(each) for each in worse))
    for problem in worse:
        same = set().union(*(each.members for each in worse if each.name == problem.name))
        bad = [each for each in clients if each.number in same]
        where = {(each.protocol, each.host) for each in bad}
        good = [each for each in clients if each.number not in affected and (each.protocol, each.host) in where]
        for text in differences(good, bad)[:MAX_LINES]:
            problem.detail(text)


def members_of(problem: Problem) -> set[int]:
    """Its connections, and those of its consequences."""
    return problem.members.union(*(members_of(each) for each in problem.effects))


def differences(good: Sequence[Client], bad: Sequence[Client]) -> list[str]:
    """Texts of the traits that separate the groups, if one of both has several clients with one value."""
    texts: dict[str, str] = {}
    if not bad or len({each.who for each in (*good, *bad)}) < MIN_CLIENTS:
        return []
    for name in bad[0].traits:
        groups = [[each.traits.get(name, "") for each in clients] for clients in (good, bad)]
        values = separating(*groups)
        if values is None or (name == VERSION and LIBRARY in texts):
            continue
        alike = (
            len(set(some)) == 1 and len({each.who for each in clients}) > 1
            for some, clients in zip(groups, (good, bad), strict=True)
        )
        if any(alike):
            texts[name] = f"clients with this problem: {name} {values[1]}; others of this server: {name} {values[0]}"
    return [*texts.values()]
