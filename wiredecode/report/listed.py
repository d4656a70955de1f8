"""The tables of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wiredecode.frames import who
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.message import DELIVER, PUBLISH
from wiredecode.net.health import FAST_RETRANSMISSION
from wiredecode.net.times import Times
from wiredecode.report.plots import seconds_text

if TYPE_CHECKING:
    from wiredecode.frames.activity import Activity
    from wiredecode.net.health import ConnectionHealth
    from wiredecode.report.gather import Gathering

MOST_ROWS = 100
MOST_CHARACTERS = 160
"""Of a cell."""


@dataclass(frozen=True)
class Row:
    cells: tuple[str, ...]
    id: str = ""


@dataclass(frozen=True)
class Table:
    """``columns``: name, and whether it is a number."""

    name: str
    title: str
    columns: tuple[tuple[str, bool], ...]
    rows: list[Row]
    note: str = ""


def words(*names: str) -> tuple[tuple[str, bool], ...]:
    return tuple((name, False) for name in names)


def numbers(*names: str) -> tuple[tuple[str, bool], ...]:
    return tuple((name, True) for name in names)


def cell(text: str) -> str:
    """Text that may come from the wire."""
    return shorten(escape(text), MOST_CHARACTERS)


def connections(gathering: Gathering) -> Table:
    """Those with findings first, then those that said most; in order of their numbers."""
    known = sorted(gathering.connections.values(), key=lambda each: (-(each.findings > 0), -sum(each.length)))
    concerned = {number for problem in gathering.problems for number in problem.connections}
    known.sort(key=lambda each: each.connection.number not in concerned)
    shown = sorted(known[:MOST_ROWS], key=lambda each: each.connection.number)
    left_out = len(known) - len(shown) + gathering.left_out
    return Table(
        "connections",
        "Connections",
        (
            *numbers("number"),
            *words("who", "protocol"),
            *numbers("begins (s)", "lasts", "frames ↑ ↓", "bytes ↑ ↓", "round trip"),
            *words("health", "end"),
        ),
        [Row(_connection(each, gathering), f"connection-{each.connection.number}") for each in shown],
        more_text(left_out) + "↑ from the client, ↓ from the server. Round trip: the "
        "median from a segment to its ACK, of the slower direction. Health: what TCP had to repair.",
    )


def _connection(activity: Activity, gathering: Gathering) -> tuple[str, ...]:
    connection, client = activity.connection, activity.client_side
    spoken = [*activity.protocols, *([f"({activity.other})"] if activity.other else [])]
    lasts = seconds_text(max(activity.last_ns - connection.first_ns, 0) / 1e9)
    health = connection.health
    return (
        f"#{connection.number}",
        cell(who.describe(connection)),
        cell(", ".join(spoken) or "-"),
        f"{(connection.first_ns - gathering.first_ns) / 1e9:,.3f}",
        lasts,
        f"{activity.frames[client]:,} {activity.frames[1 - client]:,}",
        f"{activity.length[client]:,} {activity.length[1 - client]:,}",
        "" if health is None else _round_trip(health),
        "" if health is None else _health(health),
        cell(who.end_text(connection, activity.client)),
    )


def _round_trip(health: ConnectionHealth) -> str:
    medians = [direction.rtt.percentile(50) for direction in health.directions]
    known = [median for median in medians if median is not None]
    return seconds_text(max(known) / 1e9) if known else "-"


def _health(health: ConnectionHealth) -> str:
    """What is not as it should be."""
    parts = []
    repeated = sum(direction.timeouts + direction.number_of(FAST_RETRANSMISSION) for direction in health.directions)
    packets = sum(direction.packets for direction in health.directions)
    if repeated:
        parts.append(f"{repeated:,} of {packets:,} packets sent again")
    closed = sum(direction.zero_window_ns for direction in health.directions)
    if closed:
        parts.append(f"window closed for {seconds_text(closed / 1e9)}")
    return ", ".join(parts) or "good"


def commands(gathering: Gathering) -> Table:
    """Types of messages, the most frequent first."""
    ordered = sorted(gathering.commands.items(), key=lambda item: (-item[1].frames, item[0][1]))
    rows = [
        Row(
            (
                cell(protocol or "-"),
                cell(kind),
                sender or "-",
                f"{command.frames:,}",
                f"{command.length:,}",
                *_spread(command.latency),
                f"{command.requests - command.latency.count:,}" if command.requests > command.latency.count else "",
                f"{command.refused:,}" if command.refused else "",
            )
        )
        for (protocol, kind, sender), command in ordered[:MOST_ROWS]
    ]
    return Table(
        "commands",
        "Commands",
        (
            *words("protocol", "type", "from"),
            *numbers("frames", "bytes", "answers", "p50", "p90", "p99", "max", "no answer", "refused"),
        ),
        rows,
        more_text(len(ordered) - len(rows))
        + "Latencies are from a message to its answer. No answer: asked for one, and none was seen in the capture.",
    )


def more_text(count: int) -> str:
    """How many rows a table has not, in front of its note."""
    return f"{count:,} more are left out. " if count > 0 else ""


def _spread(times: Times) -> tuple[str, ...]:
    if not times.count:
        return ("",) * 5
    values = [times.percentile(50), times.percentile(90), times.percentile(99), times.largest]
    return (f"{times.count:,}", *(seconds_text((value or 0) / 1e9) for value in values))


def streams(gathering: Gathering) -> Table:
    """Streams, topics, subjects and segments, those with most bytes first."""
    ordered = sorted(gathering.streams.items(), key=lambda item: (-item[1].size, item[0]))
    rows = [
        Row(
            (
                cell(protocol),
                cell(topic) or "-",
                *(f"{each[operation]:,}" for operation in (PUBLISH, DELIVER) for each in (one.messages, one.length)),
            )
        )
        for (protocol, topic), one in ordered[:MOST_ROWS]
    ]
    return Table(
        "streams",
        "Streams",
        (
            *words("protocol", "stream, topic or subject"),
            *numbers("published", "bytes", "delivered", "bytes"),
        ),
        rows,
        more_text(len(ordered) - len(rows))
        + "Bytes are of the frames that carried the messages; copies on the way through servers are not counted.",
    )
