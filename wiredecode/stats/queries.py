"""The statistics as SQL that DuckDB and Spark answer alike: exact, and with the same order of rows.

First the wide tables of frames and messages (as :mod:`wiredecode.tables.portable` has them) become flat ones, see
:func:`flat`; then :func:`query` counts. Percentiles are interpolated linearly between the two nearest values, from
counts per value: exact, in memory that does not grow with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from wiredecode.protocols.base import Confirms
from wiredecode.protocols.registry import protocols
from wiredecode.stats.dialects import Dialect
from wiredecode.stats.tables import HOUR, SOURCE, Statistic

PERCENTILES = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}
"""Column to thousandths."""
BROKER = "case sender when 'client' then dst when 'server' then src end"

NO_COPIES = "cast(null as bigint)"
"""As ``copy_of``: copies are not told from what they are copies of."""
COPY_OF = "copy_of"
SAME = (
    *("frame", "time", "time_ns", "connection", "src", "dst", "sender", "protocol", "type", "status", "length"),
    *("request", "latency_ns", "outcome", "findings", "topic", "operation", "size"),
)
"""Columns that flat tables have like the wide ones."""


@dataclass(frozen=True)
class Confirmed:
    """Where the columns of one protocol that confirms messages by numbers stand."""

    protocol: str
    confirms: Confirms

    def column(self, path: str) -> str:
        return f"layers.{self.protocol}.{path.partition('.')[0]}"

    @property
    def numbers(self) -> dict[str, str]:
        """Message type to the array that holds numbers."""
        return dict((self.confirms.published, self.confirms.confirmed, self.confirms.refused))


@cache
def confirmed() -> tuple[Confirmed, ...]:
    return tuple(Confirmed(one.name, one.confirms) for one in protocols() if one.confirms is not None)


def columns(names: Sequence[str], *, copies: bool = False) -> list[str]:
    """The columns of a wide table that those of a flat one are made of, without ``source``.

    ``copies``: it has a column ``copy_of``.
    """
    found = []
    for name in names:
        if name in SAME or (copies and name == COPY_OF):
            found.append(name)
        elif name == "broker":
            found += ["sender", "src", "dst"]
        elif name == COPY_OF:
            found += _copies()
        else:
            found += ["protocol", "type"]
            found += [one.column(path) for one in confirmed() for path in _paths(one, name)]
    return list(dict.fromkeys(found))


def _paths(one: Confirmed, name: str) -> list[str]:
    """The fields behind a column: of the publisher, of where it publishes to, or of the numbers of messages."""
    found = {"publisher": one.confirms.publisher, "stream": one.confirms.topic}
    return [found[name]] if name in found else list(one.numbers.values())


@cache
def _copies() -> tuple[str, ...]:
    """The columns that tell which frames are a message on its further way."""
    return tuple(f"layers.{one.name}.copy_of" for one in protocols() if f"{one.name}.copy_of" in one.generated_fields())


def flat(dialect: Dialect, names: Sequence[str], table: str, *, copy_of: str = "") -> str:
    """A query that makes a flat table of a wide one; ``copy_of``: expression of that column, out of layers without."""
    given = {COPY_OF: copy_of}
    parts = [f"{given.get(name) or _expression(dialect, name)} as {name}" for name in names]
    return f"select {', '.join([SOURCE, *parts])} from {table}"


def _expression(dialect: Dialect, name: str) -> str:
    if name in SAME:
        return name
    if name == "broker":
        return BROKER
    if name == COPY_OF:
        return f"coalesce({', '.join(_copies())}, cast(null as bigint))"
    cases = [f"when {_sent_by(one, kind)} then {_values(dialect, one, path)}" for one, kind, path in _cases(name)]
    return f"case {' '.join(cases)} end"


def _cases(name: str) -> Iterator[tuple[Confirmed, str, str]]:
    for one in confirmed():
        for kind, numbers in one.numbers.items():
            yield one, kind, numbers if name == "numbers" else _paths(one, name)[0]


def _sent_by(one: Confirmed, kind: str) -> str:
    return f"protocol = '{one.protocol}' and type = '{kind}'"


def _values(dialect: Dialect, one: Confirmed, path: str) -> str:
    """A field, or the list of one member of the structures of an array."""
    member = path.partition(".")[2]
    return dialect.members.format(one.column(path), member) if member else one.column(path)


def query(statistic: Statistic, dialect: Dialect, interval: int = HOUR, *, before: str = "") -> str:
    """The query of a statistic over the flat tables; ``interval`` in seconds. ``before``: a further ``with`` item."""
    items, final = QUERIES[statistic.name](dialect, interval)
    names = ", ".join([SOURCE, *(dialect.quoted.format(name) for name in statistic.columns)])
    parts = ([before] if before else []) + [*items, f"answer as ({final})"]
    return f"with {', '.join(parts)} select {names} from answer order by {ORDERS[statistic.name]}"


Parts = tuple[list[str], str]
"""Items of ``with``, and the query behind them."""


def _frames(dialect: Dialect, _: int) -> Parts:
    states = ", ".join(_count(f"status = '{name}'") + f" as {name}" for name in ("partial", "malformed", "undecoded"))
    findings = f"coalesce({dialect.size.format('findings')}, 0)"
    return [], (
        f"select source, protocol, type, sender, count(*) as frames, {_sum('length')} as bytes, {states}, "
        f"{_sum(findings)} as findings from frames group by source, protocol, type, sender"
    )


def _latency(_: Dialect, __: int) -> Parts:
    """Exchanges, not hops: where servers pass requests and answers on, only what the one who asked saw counts."""
    asks = " or ".join(
        f"protocol = '{name}' and type in ({_texts(types)})"
        for protocol in protocols()
        for name, types in protocol.requests.items()
    )
    same = "case when a.connection = q.connection then 1 else 0 end"
    linked = (
        "select a.source, coalesce(q.protocol, a.protocol) as protocol, q.type as request, a.broker, a.copy_of, "
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
        "select q.source, q.protocol, q.type as request, q.broker, cast(null as bigint) as ns, 1 as unanswered "
        "from asked q left join answers a on q.source = a.source and q.frame = a.request where a.request is null"
    )
    return [
        "asked as (select source, frame, protocol, type, broker from frames where copy_of is null and "
        f"(outcome in ('unanswered', 'late') or (outcome is null and ({asks}))))",
        "answers as (select distinct source, request from frames where request is not null)",
        f"linked as ({linked})",
        f"events as ({answered} union all {silent})",
    ], (
        f"select *, {_long_poll()} as long_poll from "
        f"({_spread('events', ('source', 'protocol', 'request', 'broker'), ('unanswered',), 'count')}) told"
    )


def _long_poll() -> str:
    """Whether a request waits for data: its latency says nothing about the broker."""
    waits = {one.name: checks.waits for one in protocols() if (checks := one.checks()) is not None and checks.waits}
    told = (f"(protocol = '{name}' and request in ({_texts(types)}))" for name, types in waits.items())
    return f"coalesce({' or '.join(told) or 'false'}, false)"


def _confirms(dialect: Dialect, _: int) -> Parts:
    """The n-th publish of an id goes with the n-th confirm behind a publish.

    Confirms that come while none is missing are ``extra``: told twice, or their publish was not captured.
    """
    published = _texts(one.confirms.published[0] for one in confirmed())
    refused = _texts(one.confirms.refused[0] for one in confirmed())
    key = "source, connection, publisher, number"
    over = f"over (partition by {key} order by time_ns, told, failed rows unbounded preceding)"
    return [
        "events as (select source, connection, publisher, broker, stream, time_ns, "
        f"case when type in ({published}) then 0 else 1 end as told, "
        f"case when type in ({refused}) then 1 else 0 end as failed, "
        f"{dialect.each.format('numbers')} as number from frames where numbers is not null)",
        f"counted as (select *, cast(sum(1 - told) {over} as bigint) as asked, "
        f"cast(sum(told) {over} as bigint) as answered from events where number is not null)",
        f"placed as (select *, case when told = 0 then asked else answered - greatest(0, max(answered - asked) {over}) "
        "end as turn from counted)",
        f"turns as (select {key}, turn, max(broker) as broker, max(stream) as stream, sum(told) as tellings, "
        "min(case when told = 0 then time_ns end) as sent_ns, min(case when told = 1 then time_ns end) as told_ns, "
        "min(case when told = 1 and failed = 0 then time_ns end) as good_ns "
        f"from placed group by {key}, turn)",
        "outcomes as (select source, stream, broker, "
        "case when sent_ns is null or told_ns is null then 0 when good_ns = told_ns then 1 else 2 end as outcome, "
        "told_ns - sent_ns as ns, tellings, sent_ns from turns)",
        "published as (select source, stream, broker, case when outcome = 1 then ns end as ns, "
        "case when outcome = 2 then 1 else 0 end as failed, "
        "case when outcome = 0 and sent_ns is not null then 1 else 0 end as unconfirmed, "
        "tellings - case when outcome = 0 then 0 else 1 end as extra from outcomes)",
    ], _spread("published", ("source", "stream", "broker"), ("failed", "unconfirmed", "extra"), "confirmed")


def _throughput(dialect: Dialect, interval: int) -> Parts:
    second = dialect.quotient.format("time_ns", 1_000_000_000)
    start = f"second - (second % {interval} + {interval}) % {interval}"
    counted = f"select source, protocol, {_topic()} as topic, operation, size, {second} as second from messages"
    rates = f"count(*) / {interval}e0 as messages_per_s, {_sum('size')} / {interval}e0 as bytes_per_s"
    return [f"counted as ({counted})"], (
        f"select source, protocol, topic, operation, {dialect.moment.format(start)} as start, count(*) as messages, "
        f"{_sum('size')} as bytes, {rates} from counted group by source, protocol, topic, operation, {start}"
    )


def _topic() -> str:
    """A topic; those that are made for one answer as one: ``_INBOX.*``."""
    begins = dict.fromkeys(begin for one in protocols() for begin in one.reply_topics)
    cases = "".join(f" when substr(topic, 1, {len(begin)}) = '{begin}' then '{begin}*'" for begin in begins)
    return f"case{cases} else topic end" if cases else "topic"


def _findings(dialect: Dialect, _: int) -> Parts:
    group = dialect.quoted.format("group")
    keys = f"source, connection, src, dst, finding.severity, finding.{group}, finding.code"
    each = dialect.each.format("findings")
    return [f"found as (select source, connection, src, dst, time, {each} as finding from frames)"], (
        f"select {keys}, count(*) as count, min(time) as first, min(finding.message) as message "
        f"from found group by {keys}"
    )


def _connections(dialect: Dialect, _: int) -> Parts:
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
        f"{dialect.names.format('f.protocol')} as protocol, min(f.time) as start, "
        f"(max(f.time_ns) - min(f.time_ns)) / 1e9 as seconds, {sums} "
        "from frames f join ends e on f.source = e.source and f.connection = e.connection "
        "group by f.source, f.connection, e.client"
    )


QUERIES: dict[str, Callable[[Dialect, int], Parts]] = {
    "frames": _frames,
    "latency": _latency,
    "confirms": _confirms,
    "throughput": _throughput,
    "findings": _findings,
    "connections": _connections,
}


def _keys(*names: str) -> str:
    """Keys of an order; nulls are last in both dialects, texts in the order of their bytes."""
    return ", ".join(name if name.endswith(" desc") else f"{name} nulls last" for name in ("source", *names))


SEVERITY = "case severity when 'error' then 0 when 'warning' then 1 when 'note' then 2 else 3 end"
ORDERS = {
    "frames": _keys("protocol", "frames desc", "type", "sender"),
    "latency": _keys("protocol", "long_poll", "count desc", "request", "broker"),
    "confirms": _keys("confirmed desc", "stream", "broker"),
    "throughput": _keys("protocol", "topic", "operation", "start"),
    "findings": _keys(SEVERITY, "count desc", "code", "src", "dst", "connection"),
    "connections": _keys("start", "client", "server", "connection"),
}


def _texts(words: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(words)))


def _count(condition: str) -> str:
    return f"count(case when {condition} then 1 end)"


def _sum(expression: str) -> str:
    """DuckDB would make 128 bits of it."""
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
