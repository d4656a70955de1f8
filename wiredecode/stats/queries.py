"""The statistics as SQL, for tables on Spark: exact, and with the same order of rows as on one machine.

First the wide tables of frames and messages (as :mod:`wiredecode.tables.portable` has them) become flat ones, see
:func:`flat`; then :func:`query` counts. Percentiles are interpolated linearly between the two nearest values, from
counts per value: exact, in memory that does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from wiredecode.check.codes import offers
from wiredecode.protocols.registry import protocols, requests
from wiredecode.stats.tables import HOUR, PERCENTILES, SOURCE, Statistic

BROKER = "case sender when 'client' then dst when 'server' then src end"

COPY_OF, CALLED = "copy_of", "called"


def columns(names: Sequence[str]) -> list[str]:
    """The columns of a wide table that those of a flat one are made of, without ``source``."""
    made = {"broker": ("sender", "src", "dst"), COPY_OF: _copies(), CALLED: ("type", *_called())}
    return list(dict.fromkeys(each for name in names for each in made.get(name, (name,))))


@cache
def _copies() -> tuple[str, ...]:
    """The columns that tell which frames are a message on its further way."""
    return tuple(f"layers.{one.name}.copy_of" for one in protocols() if f"{one.name}.copy_of" in one.generated_fields())


@cache
def _called() -> dict[str, str]:
    """By column of a wide table: what a request is called by it, as a case of SQL."""
    found: dict[str, str] = {}
    for name, checks in offers():
        for each in checks.called:
            column = f"layers.{name}.{each.field}"
            fits = f"{column} like '{each.begin}%' and {column} like '%{each.within}%'"
            found[column] = f"{found.get(column, '')} when {fits} then '{each.name}'"
    return found


def flat(names: Sequence[str], table: str) -> str:
    """A query that makes a flat table of a wide one."""
    made = {"broker": BROKER, COPY_OF: f"coalesce({', '.join(_copies())}, cast(null as bigint))"}
    made[CALLED] = f"case{''.join(_called().values())} else type end" if _called() else "type"
    return f"select {', '.join([SOURCE, *(f'{made.get(name, name)} as {name}' for name in names)])} from {table}"


def query(statistic: Statistic, interval: int = HOUR, *, before: str = "") -> str:
    """The query of a statistic over the flat tables; ``interval`` in seconds. ``before``: a further ``with`` item."""
    items, final = QUERIES[statistic.name](interval)
    names = ", ".join([SOURCE, *(f"`{name}`" for name in statistic.columns)])
    parts = ([before] if before else []) + [*items, f"answer as ({final})"]
    return f"with {', '.join(parts)} select {names} from answer order by {', '.join(_order(statistic))}"


def _order(statistic: Statistic) -> Iterator[str]:
    """Nulls are last, texts in the order of their bytes."""
    for name in (SOURCE, *statistic.order):
        key = SEVERITY if name == "severity" else name
        yield f"{name[1:]} desc" if name.startswith("-") else f"{key} nulls last"


Parts = tuple[list[str], str]
"""Items of ``with``, and the query behind them."""


def _frames(_: int) -> Parts:
    states = ", ".join(_count(f"status = '{name}'") + f" as {name}" for name in ("partial", "malformed", "undecoded"))
    return [], (
        f"select source, protocol, type, sender, count(*) as frames, {_sum('length')} as bytes, {states}, "
        f"{_sum('coalesce(size(findings), 0)')} as findings from frames group by source, protocol, type, sender"
    )


def _latency(_: int) -> Parts:
    """Exchanges, not hops: where servers pass requests and answers on, only what the one who asked saw counts."""
    same = "case when a.connection = q.connection then 1 else 0 end"
    linked = (
        "select a.source, coalesce(q.protocol, a.protocol) as protocol, q.called as request, a.broker, a.copy_of, "
        f"a.latency_ns as ns, q.frame as asked, {same} as own, "
        f"max({same}) over (partition by a.source, a.request) as seen "
        "from frames a left join frames q on a.source = q.source and a.request = q.frame "
        "where a.latency_ns is not null and q.copy_of is null"
    )
    answered = (
        "select source, protocol, request, broker, ns, 0 as unanswered from linked "
        "where asked is null or own = 1 or (seen = 0 and copy_of is null)"
    )
    silent = (
        "select q.source, q.protocol, q.called as request, q.broker, cast(null as bigint) as ns, 1 as unanswered "
        "from asked q left join answers a on q.source = a.source and q.frame = a.request where a.request is null"
    )
    return [
        "asked as (select source, frame, protocol, called, broker from frames where copy_of is null and "
        f"(outcome in ('unanswered', 'late') or (outcome is null and ({_asks()}))))",
        "answers as (select distinct source, request from frames where request is not null)",
        f"linked as ({linked})",
        f"events as ({answered} union all {silent})",
    ], (
        f"select *, {_long_poll()} as long_poll from "
        f"({_spread('events', ('source', 'protocol', 'request', 'broker'), ('unanswered',), 'count')}) told"
    )


def _long_poll() -> str:
    """Whether a request waits for data: its latency says nothing about the broker."""
    waits = {name: checks.waits for name, checks in offers() if checks.waits}
    conditions = (
        f"(protocol = '{name}' and request in ({', '.join(map(repr, sorted(types)))}))" for name, types in waits.items()
    )
    return f"coalesce({' or '.join(conditions) or 'false'}, false)"


def _confirms(_: int) -> Parts:
    """Each message that was published, of protocols that confirm; of a sub-batch one."""
    shared = {(name, kind) for name, checks in offers() for kind in checks.sub_batches}
    cases = _types(shared)
    publishes = _types({(name, kind) for name, checks in offers() for kind in checks.publishes})
    number = f"case when {cases or 'false'} then cast(sequence as decimal(21, 0)) else index end"
    conditions = {
        "failed": "outcome = 'refused'",
        "unconfirmed": "outcome in ('unanswered', 'late')",
        "unknown": f"outcome is null and ({_asks()})",
    }
    each = ", ".join(f"case when {condition} then 1 else 0 end as {name}" for name, condition in conditions.items())
    return [
        f"published as (select distinct source, frame, protocol, type, topic, broker, latency_ns, outcome, "
        f"{number} as number from messages where operation = 'publish' and ({publishes}))",
        "outcomes as (select source, protocol, topic as stream, broker, "
        f"case when outcome = 'ok' then latency_ns end as ns, {each} from published "
        f"where outcome is not null or ({_asks()}))",
    ], _spread("outcomes", ("source", "protocol", "stream", "broker"), tuple(conditions), "confirmed")


def _types(types: Iterable[tuple[str, str]]) -> str:
    """Whether a frame or message is of one of these types of protocols."""
    return " or ".join(f"(protocol = '{name}' and type = '{kind}')" for name, kind in sorted(types))


def _asks() -> str:
    """Whether a frame or message is of a type that always asks for an answer."""
    return _types((name, kind) for name, types in requests().items() for kind in types)


def _throughput(interval: int) -> Parts:
    second = "(time_ns div 1000000000)"
    start = f"second - (second % {interval} + {interval}) % {interval}"
    counted = f"select source, protocol, {_topic()} as topic, operation, size, {second} as second from messages"
    rates = f"count(*) / {interval}e0 as messages_per_s, {_sum('size')} / {interval}e0 as bytes_per_s"
    return [f"counted as ({counted})"], (
        f"select source, protocol, topic, operation, timestamp_seconds({start}) as start, count(*) as messages, "
        f"{_sum('size')} as bytes, {rates} from counted group by source, protocol, topic, operation, {start}"
    )


def _topic() -> str:
    """A topic; those that are made for one answer as one: ``_INBOX.*``."""
    begins = dict.fromkeys(begin for one in protocols() for begin in one.reply_topics)
    found = {begin: f"instr('.' || topic, '.{begin}')" for begin in begins}
    cases = "".join(f" when {at} > 0 then substr(topic, 1, {at} - 1) || '{begin}*'" for begin, at in found.items())
    return f"case{cases} else topic end" if cases else "topic"


def _findings(_: int) -> Parts:
    keys = "source, connection, src, dst, finding.severity, finding.`group`, finding.code"
    return ["found as (select source, connection, src, dst, time, explode(findings) as finding from frames)"], (
        f"select {keys}, count(*) as count, min(time) as first, min(finding.message) as message "
        f"from found group by {keys}"
    )


def _connections(_: int) -> Parts:
    """Where no frame tells who is the client, it is the end that is first in the order of texts."""
    client = "case sender when 'client' then src when 'server' then dst end"
    ours, theirs = "f.src = e.client", "f.src <> e.client"
    sums = ", ".join(
        f"{_count(which)} as {side}_frames, {_sum('case when ' + which + ' then length else 0 end')} as {side}_bytes"
        for side, which in (("client", ours), ("server", theirs))
    )
    return [
        f"ends as (select source, connection, coalesce(max({client}), least(min(src), min(dst))) as client "
        "from frames group by source, connection)"
    ], (
        f"select f.source, f.connection, e.client, max(case when {ours} then f.dst else f.src end) as server, "
        "array_join(sort_array(collect_set(f.protocol)), ', ') as protocol, min(f.time) as start, "
        f"(max(f.time_ns) - min(f.time_ns)) / 1e9 as seconds, {sums} "
        "from frames f join ends e on f.source = e.source and f.connection = e.connection "
        "group by f.source, f.connection, e.client"
    )


QUERIES: dict[str, Callable[[int], Parts]] = {
    "frames": _frames,
    "latency": _latency,
    "confirms": _confirms,
    "throughput": _throughput,
    "findings": _findings,
    "connections": _connections,
}


SEVERITY = "case severity when 'error' then 0 when 'warning' then 1 when 'note' then 2 else 3 end"


def _count(condition: str) -> str:
    return f"count(case when {condition} then 1 end)"


def _sum(expression: str) -> str:
    """Some engines would make 128 bits of it."""
    return f"cast(sum({expression}) as bigint)"


def _spread(table: str, keys: Sequence[str], others: Sequence[str], count: str) -> str:
    """Per group: how many rows have ``ns``, their distribution in microseconds, and the sums of other columns."""
    by = ", ".join(keys)
    rows = "case when ns is null then 0 else rows_ end"
    sums = ", ".join(f"{_sum(name)} as {name}" for name in others)
    counted = f"select {by}, ns, count(*) as rows_, {sums} from {table} group by {by}, ns"
    upto = f"sum({rows}) over (partition by {by} order by ns nulls last rows unbounded preceding)"
    ranked = f"select *, {upto} as upto, sum({rows}) over (partition by {by}) as n from ({counted}) counts"
    # of values 0 to n - 1 in order, the one at place x / 1000, rounded down and up
    near = ", ".join(
        f"min(case when upto * 1000 > (n - 1) * {part} then ns end) as low_{part}, "
        f"min(case when (upto - 1) * 1000 >= (n - 1) * {part} then ns end) as high_{part}"
        for part in PERCENTILES.values()
    )
    grouped = (
        f"select {by}, cast(max(n) as bigint) as n, {sums}, min(ns) as low, max(ns) as high, {near} "
        f"from ({ranked}) ranks group by {by}"
    )
    between = ", ".join(
        f"cast(round(low_{part} + (high_{part} - low_{part}) * ((n - 1) * {part} % 1000 / 1e3)) as bigint) / 1e3 "
        f"as {name}"
        for name, part in PERCENTILES.items()
    )
    return (
        f"select {by}, n as {count}, low / 1e3 as min_us, {between}, high / 1e3 as max_us, {', '.join(others)} "
        f"from ({grouped}) spread"
    )
