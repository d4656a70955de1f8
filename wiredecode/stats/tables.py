"""The statistics: their tables, columns and sources (docs/stats.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wiredecode.net.spread import SPREAD

FRAMES, MESSAGES = "frames", "messages"
SOURCE = "source"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
HOUR = 3600


@dataclass(frozen=True)
class Statistic:
    """A table of statistics. On one machine its first column, ``source``, is missing."""

    name: str
    title: str
    level: str
    """Rows that it is counted from: frames or messages."""
    needs: tuple[str, ...]
    """Columns of tables that it is counted from on Spark."""
    columns: tuple[str, ...]
    narrow: tuple[str, ...]
    """Columns that stay however narrow the terminal is: they identify or explain. Others go from the right."""
    order: tuple[str, ...]
    """Columns that rows are sorted by, nulls last; ``-name``: the largest first."""
    preferred: tuple[str, ...] = ()
    """Columns that go after the others, where the terminal is narrow."""


STATISTICS = (
    Statistic(
        "frames",
        "frames by type",
        FRAMES,
        ("protocol", "type", "sender", "status", "length", "findings"),
        ("protocol", "type", "sender", "frames", "bytes", "partial", "malformed", "undecoded", "findings"),
        ("type", "sender", "frames", "bytes", "findings"),
        ("protocol", "-frames", "type", "sender"),
    ),
    Statistic(
        "latency",
        "latency of requests, in microseconds",
        FRAMES,
        (
            *("frame", "connection", "protocol", "type", "layers", "sender", "src", "dst", "request", "latency_ns"),
            "outcome",
        ),
        ("protocol", "request", "broker", "long_poll", "count", *SPREAD, "unanswered"),
        ("request", "count", "p50_us", "p99_us", "unanswered"),
        ("protocol", "long_poll", "-count", "request", "broker"),
    ),
    Statistic(
        "confirms",
        "publish to confirm of messages, in microseconds",
        MESSAGES,
        (
            *("frame", "protocol", "type", "sender", "src", "dst", "topic", "operation", "index", "sequence"),
            *("latency_ns", "outcome"),
        ),
        ("protocol", "stream", "broker", "confirmed", *SPREAD, "failed", "unconfirmed", "unknown"),
        ("stream", "confirmed", "p50_us", "p99_us", "failed", "unconfirmed"),
        ("protocol", "-confirmed", "stream", "broker"),
    ),
    Statistic(
        "throughput",
        "messages by time",
        MESSAGES,
        ("protocol", "topic", "operation", "time_ns", "size"),
        ("protocol", "topic", "operation", "start", "messages", "bytes", "messages_per_s", "bytes_per_s"),
        ("topic", "operation", "start", "messages"),
        ("protocol", "topic", "operation", "start"),
    ),
    Statistic(
        "findings",
        "findings",
        FRAMES,
        ("connection", "time_ns", "src", "dst", "findings"),
        ("connection", "src", "dst", "severity", "group", "code", "count", "first", "message"),
        ("connection", "severity", "code", "count", "message"),
        ("severity", "-count", "code", "src", "dst", "connection"),
    ),
    Statistic(
        "connections",
        "connections",
        FRAMES,
        ("connection", "time_ns", "src", "dst", "sender", "protocol", "length"),
        (
            *("connection", "client", "server", "protocol", "start", "seconds"),
            *("client_frames", "client_bytes", "server_frames", "server_bytes"),
        ),
        ("connection", "client", "server", "name"),
        ("start", "client", "server", "connection"),
        ("client_bytes", "server_bytes", "client_retransmissions", "server_retransmissions", "ended_by", "seconds"),
    ),
)
CONSUMERS = Statistic(
    "consumers",
    "credit, lag and positions of consumers, lag of replicas",
    FRAMES,
    (),
    ("protocol", "what", "of", "readings", "lowest", "highest", "last"),
    ("what", "of", "lowest", "highest", "last"),
    ("protocol", "what", "of"),
)
"""Counted frame by frame only: not of tables that were written."""
CONNECTION_FACTS = (
    *("client_host", "server_host", "tunnel", "outer_client", "outer_server"),
    *("name", "user", "virtual_host", "product", "version", "role", "group", "server_name"),
    *("began", "ended_by", "ended", "reason", "idle_us"),
    *(
        f"{side}_{name}"
        for side in ("client", "server")
        for name in (
            *("retransmissions", "out_of_order", "duplicate_acks", "missing", "zero_windows", "zero_window_us"),
            *("window_full", "rtt_min_us", "rtt_p50_us", "rtt_p99_us", "mss", "unacknowledged"),
        )
    ),
)
"""Columns of connections that are known on one machine only, after the others."""
NAMES = tuple(statistic.name for statistic in STATISTICS)


def chosen(names: Iterable[str] | None, *, captures: bool = False) -> list[Statistic]:
    """The statistics of these names, all for none, in their order. Raises ``ValueError``.

    ``captures``: those, too, that are counted of captures only.
    """
    known = {each.name: each for each in (*STATISTICS, *((CONSUMERS,) if captures else ()))}
    wanted = tuple(names or known)
    for name in wanted:
        if name not in known:
            raise ValueError(f"no statistic is called {name!r}; there is {', '.join(known)}")
    return [each for name, each in known.items() if name in wanted]


FITTING = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Intervals, seconds, that :func:`fitting` chooses of."""
MOST_INTERVALS = 20


def fitting(span_ns: int) -> int:
    """The shortest interval, seconds, of which a capture of that length has at most :data:`MOST_INTERVALS`."""
    return next((each for each in FITTING if span_ns <= each * MOST_INTERVALS * 10**9), FITTING[-1])


def seconds(interval: str) -> int:
    """The seconds of ``1h``, ``15m``, ``10s``, ``1d``. Raises ``ValueError``."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", interval, re.ASCII)
    if found is None:
        raise ValueError(f"{interval!r} is not an interval such as 1h, 15m or 10s")
    return int(found[1]) * UNITS[found[2]]
