"""Connections as rows: who is at both ends, how they began and ended, and what TCP analysis found (docs/tables.md)."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import pyarrow as pa

from wiredecode.frames.identity import FACTS, began, client_side, ended_by
from wiredecode.frames.record import rfc3339
from wiredecode.net.health import BITS, KINDS, DirectionHealth
from wiredecode.net.types import Connection, Direction
from wiredecode.tables.schema import STABLE_IDS, declared_schema

COUNTED = (
    *("retransmissions", "fast_retransmissions", "spurious_retransmissions", "out_of_order", "lost_segments"),
    *("duplicate_acks", "keep_alives", "window_full"),
)
"""Columns of a direction that count segments of a kind."""
BIT_OF = dict(zip(KINDS, BITS, strict=True))
COUNTED_BITS = [BIT_OF[name.removesuffix("s")] for name in COUNTED]
DIRECTION = (
    *("frames", "bytes", "missing", "packets", *COUNTED, "zero_windows", "zero_window_ns"),
    *("rtt_min_ns", "rtt_p50_ns", "rtt_p99_ns", "mss", "window_scale", "unacknowledged"),
)
"""Columns of a direction."""
COLUMNS_OF = {who: [f"{who}_{name}" for name in DIRECTION] for who in ("client", "server")}
UNKNOWN = (None,) * (len(DIRECTION) - 3)
NO_FACTS, NO_COUNTS = dict.fromkeys(FACTS), (0,) * len(COUNTED)


def row(connection: Connection, foreign: str | None = None) -> dict[str, Any]:
    """The row of an ended connection; null without TCP analysis. ``foreign``: its likely protocol, if not decoded."""
    client, health, identity = client_side(connection), connection.health, connection.identity
    cells: dict[str, Any] = {
        "connection": connection.id,
        "time": connection.first_ns,
        "seconds": None if health is None else (health.last_ns - connection.first_ns) / 1e9,
        "client": connection.endpoints[client],
        "server": connection.endpoints[1 - client],
        "protocol": ", ".join(sorted(connection.protocols)) or foreign,
        **NO_FACTS,
        **identity,
        "began": began(connection),
        "handshake_ns": None if health is None else health.handshake_ns,
        "syns": None if health is None else health.syns,
    }
    cells["ended_by"], cells["ended"] = ended_by(connection, client) or (None, connection.closed)
    end = None if health is None else health.end
    cells["end_time"], cells["end_packet"] = (None, None) if end is None else (end.time_ns, end.packet)
    cells["idle_ns"] = None if health is None else health.longest_idle_ns
    hosts, outer = connection.hosts or (None, None), connection.outer
    cells["client_host"], cells["server_host"] = hosts[client], hosts[1 - client]
    tunnel, ends = (None, (None, None)) if outer is None else (outer.tunnel, outer.ends)
    cells["tunnel"], cells["outer_client"], cells["outer_server"] = tunnel, ends[client], ends[1 - client]
    for who, side in (("client", client), ("server", 1 - client)):
        facts = None if health is None else health.directions[side]
        cells.update(zip(COLUMNS_OF[who], direction(connection.directions[side], facts), strict=True))
    return cells


def direction(sent: Direction, health: DirectionHealth | None) -> tuple[Any, ...]:
    """Facts about the bytes of one side, in the order of :data:`DIRECTION`."""
    if health is None:
        return sent.frames, sent.captured, sent.missing, *UNKNOWN
    rtt = health.rtt
    return (
        *(sent.frames, sent.captured, sent.missing, health.packets),
        *([health.number_of(bit) for bit in COUNTED_BITS] if health.counts else NO_COUNTS),
        *(health.zero_windows, health.zero_window_ns),
        *((rtt.smallest, rtt.percentile(500), rtt.percentile(990)) if rtt.count else (None, None, None)),
        *(health.mss, health.window_scale, health.unacknowledged),
    )


def _record(row: dict[str, Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("time", "end_time") and value is not None:
            record[name], record[f"{name}_ns"] = rfc3339(value), value
        elif value is not None:
            record[name] = value
    return record


class ConnectionTable:
    """Collects connections as they end; ``on_decoded`` of a dissector passes them."""

    def __init__(self, schema: pa.Schema | None = None, *, most: int | None = None) -> None:
        self.schema = declared_schema("connections") if schema is None else schema
        self._stable = (self.schema.metadata or {}).items() >= STABLE_IDS.items()
        self._most = most
        self.not_listed = 0
        """Connections beyond ``most``."""
        self.rows: list[dict[str, Any]] = []

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over, and no frame will follow."""
        if self._most is not None and len(self.rows) >= self._most:
            self.not_listed += 1
            return
        self.rows.append(row(connection, foreign))
        if self._stable:  # packets are called by their times
            self.rows[-1]["end_packet"] = self.rows[-1]["end_time"]

    def records(self) -> list[dict[str, Any]]:
        """The collected connections, as JSON objects in order of number, without unknown values."""
        return [_record(each) for each in sorted(self.rows, key=lambda each: each["connection"])]

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """The collected connections, in order of number within each batch; then they are forgotten."""
        names = self.schema.names
        chosen = itemgetter(*names) if len(names) > 1 else lambda row: (row[names[0]],)
        rows, self.rows = sorted(self.rows, key=lambda each: (each["time"], each["connection"])), []
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            values = zip(*map(chosen, part), strict=True)
            columns = [pa.array(each, field.type) for each, field in zip(values, self.schema, strict=True)]
            yield pa.record_batch(columns, schema=self.schema)
