"""The accounts of a server, by the messages that its users publish and get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wiredecode.flows import Flow, Flows, Intervals, Party

FEW = 5
"""Messages with equal sequences that show two streams; fewer may be one message that was published again."""
MAX_USERS = 64
"""Users that publish to streams and are compared with each other."""
User = tuple[str, str]
"""Protocol and name."""


def parties_of(flows: Flows) -> dict[int, Party]:
    """The clients, by connection, with the accounts that no frame names."""
    parties = flows.parties()
    accounts = accounts_of(flows.flows.values(), parties)
    names = {number: accounts.get((each.protocol, each.user), "") for number, each in parties.items()}
    return {number: each._replace(space=each.space or names[number]) for number, each in parties.items()}


def accounts_of(flows: Iterable[Flow], parties: Mapping[int, Party]) -> dict[User, str]:
    """By user: its account, named after its first publisher; empty: nothing shows that there are several.

    Users that got the same sequences of a stream for their publishes are in different accounts. Who gets messages of a
    stream is in the account in which they were published shortly before, and others where most of their topics are.
    """
    of: dict[User, list[Flow]] = {}
    for flow in flows:
        party = parties[flow.key.connection]
        if party.user and not party.space:
            of.setdefault((party.protocol, party.user), []).append(flow)
    sent = {user: [each for each in own if not each.key.delivers and each.log] for user, own in of.items()}
    given = {user: sequences(some) for user, some in sent.items()}
    accounts: list[list[User]] = []
    publishing = [each for each in of if sent[each]]
    for user in sorted(
        publishing if len(publishing) <= MAX_USERS else (), key=lambda user: min(each.first_ns for each in sent[user])
    ):
        fits = [each for each in accounts if not any(collide(given[user], given[other]) for other in each)]
        if fits:
            fits[0].append(user)
        else:
            accounts.append([user])
    if len(accounts) < 2:
        return {}
    found = {user: account[0][1] for account in accounts for user in account}
    published = {account[0][1]: [flow for user in account for flow in sent[user]] for account in accounts}
    topics = {account[0][1]: {each.key.topic for user in account for each in of[user]} for account in accounts}
    for user, own in ((user, own) for user, own in of.items() if user not in found):
        waits = {name: wait for name, some in published.items() if (wait := wait_ns(some, own)) is not None}
        shared = {name: len(some & {each.key.topic for each in own}) for name, some in topics.items()}
        found[user] = min(waits, key=lambda name: waits[name]) if waits else max(shared, key=lambda name: shared[name])
    return found


def collide(one: Mapping[str, Intervals], other: Mapping[str, Intervals]) -> bool:
    """Whether some sequences of a stream were given to messages of both."""
    both = ((one[log], other[log]) for log in one.keys() & other.keys())
    return any(sum(there.within(begin, end) for begin, end in here) >= FEW for here, there in both)


def sequences(sent: Iterable[Flow]) -> dict[str, Intervals]:
    """By stream."""
    found: dict[str, Intervals] = {}
    for flow in sent:
        found.setdefault(flow.log, Intervals()).update(flow.offsets)
    return found


def wait_ns(sent: Sequence[Flow], own: Sequence[Flow]) -> int | None:
    """The time from publish to delivery, if these publishes are what came; None: they are not."""
    published = {
        (flow.log, first + place): time_ns
        for flow in sent
        for first, count, time_ns in flow.times.entries
        for place in range(count)
    }
    came = [(flow.log, first, time_ns) for flow in own if flow.key.delivers for first, _, time_ns in flow.times.entries]
    waits = [time_ns - published[log, first] for log, first, time_ns in came if (log, first) in published]
    return sorted(waits)[len(waits) // 2] if waits and 2 * len(waits) >= len(came) and min(waits) >= 0 else None
