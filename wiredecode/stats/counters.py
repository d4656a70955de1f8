"""Counts the frames of a pass for statistics, one by one: memory grows with the results, not with the capture.

Results merge, see :mod:`wiredecode.stats.tallies`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from wiredecode.check.exchanges import Exchanges
from wiredecode.check.gauges import Gauges
from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import Demand
from wiredecode.frames.activity import Activities, Activity
from wiredecode.frames.frame import MALFORMED, PARTIAL, UNDECODED, Frame
from wiredecode.frames.identity import broker
from wiredecode.frames.message import FrameMessages, Messages
from wiredecode.net.types import Connection
from wiredecode.stats.latency import ConfirmLatency, RequestLatency
from wiredecode.stats.tables import CONNECTION_FACTS, Statistic
from wiredecode.stats.tallies import (
    ConnectionRows,
    Counted,
    DeliveryTally,
    FindingCell,
    FindingTally,
    FrameTally,
    GaugeCell,
    Row,
    Tally,
    Throughput,
    to_datetime,
)
from wiredecode.stats.topics import topic_group, within_limit
from wiredecode.tables.connections import row

MAX_CONSUMERS = 20_000
STATES = (PARTIAL, MALFORMED, UNDECODED)
NO_FACTS = (None,) * len(CONNECTION_FACTS)


class FrameCounter:
    """Frames by protocol, type and sender."""

    def __init__(self) -> None:
        self.tally = FrameTally()

    def frame(self, frame: Frame) -> None:
        counts = self.tally[frame.protocol, frame.type, frame.sender]
        counts[0] += 1
        counts[1] += frame.length
        if frame.status in STATES:
            counts[2 + STATES.index(frame.status)] += 1
        counts[5] += len(frame.findings)


class FindingCounter:
    """Findings by connection, direction and kind."""

    def __init__(self) -> None:
        self.tally = FindingTally()

    def frame(self, frame: Frame) -> None:
        for finding in frame.findings:
            ends = frame.connection.id, frame.source, frame.destination
            found = FindingCell(1, frame.time_ns, finding.message)
            self.tally.merge({(*ends, finding.severity, finding.group, finding.code): found})


class ConsumerCounter:
    """Credit, lag and positions."""

    def __init__(self) -> None:
        self._gauges = Gauges()
        self.tally = Tally()

    def frame(self, frame: Frame) -> None:
        for kind, of, value, _ in self._gauges.frame(frame):
            key = frame.protocol, kind, of
            cell = self.tally.get(key)
            if cell is not None:
                cell.add(value, frame.time_ns)
            elif len(self.tally) < MAX_CONSUMERS:
                self.tally[key] = GaugeCell(1, value, value, value, frame.time_ns)


class DeliveryCounter:
    """From publishes to the first deliveries of their messages, by protocol, topic and broker."""

    def __init__(self) -> None:
        self.tally = DeliveryTally()
        self._topics: set[str] = set()

    def add(self, part: FrameMessages) -> None:
        frame = part.frame
        if part.published_ns is not None:
            key = frame.protocol, part.topic, broker(frame)
            if key not in self.tally:
                topic = topic_group(part.topic or "")
                key = key[0], within_limit(self._topics, topic, topic), key[2]
            self.tally[key].add(max(frame.time_ns - part.published_ns, 0), len(part.bodies))


class MessageCounter:
    """Messages by time."""

    def __init__(self, interval: int | None) -> None:
        self.tally = Throughput(interval)

    def add(self, part: FrameMessages) -> None:
        sizes = [len(body) for body in part.bodies if body is not None]
        where = part.frame.time_ns, part.frame.protocol, part.topic, part.operation
        self.tally.add(*where, part.count, len(sizes), sum(sizes))


class ConnectionCounter:
    """Frames of each connection.

    ``whole``: also connections without frames have a row, and nothing is held back: a connection that is over gets no
    frame.
    """

    def __init__(self, *, whole: bool) -> None:
        self._activities, self._whole = Activities(), whole
        self._facts: dict[int, tuple[Any, ...]] = {}
        """Of connections that are over, and have no row yet."""
        self.frame = self._activities.frame
        self.tally = ConnectionRows()

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over."""
        cells = row(connection, foreign)
        facts = tuple(fact(name, cells) for name in CONNECTION_FACTS)
        if not self._whole:
            self._facts[connection.id] = facts
        elif (activity := self._activities.by_number.pop(connection.number, None)) is not None:
            self._add(activity, facts)
        else:
            ends = (cells[name] for name in ("connection", "client", "server", "protocol"))
            self.tally[connection.id] = *ends, to_datetime(cells["time"]), cells["seconds"], 0, 0, 0, 0, *facts

    def finish(self) -> None:
        """Make the rows that are missing."""
        for activity in self._activities:
            self._add(activity, self._facts.pop(activity.connection.id, NO_FACTS))

    def _add(self, each: Activity, facts: tuple[Any, ...]) -> None:
        """Add a row; if no frame shows which end is the client, it is the end that is first in the order of texts."""
        connection, ends = each.connection, each.connection.endpoints
        client = int(ends[1] < ends[0]) if each.client is None else each.client
        self.tally[connection.id] = (
            *(connection.id, ends[client], ends[1 - client], ", ".join(sorted(each.protocols)) or None),
            *(to_datetime(each.first_ns), (each.last_ns - each.first_ns) / 1e9),
            *(each.frames[client], each.length[client], each.frames[1 - client], each.length[1 - client]),
            *facts,
        )


def fact(name: str, row: Row) -> Any:
    if not name.endswith("_us"):
        return row.get(name)
    ns = row.get(f"{name.removesuffix('_us')}_ns")
    return None if ns is None else ns / 1e3


class Counters:
    """Receives the frames of a capture that count, with :meth:`frame`; then :meth:`finish` returns what was counted.

    ``interval``: of throughput, seconds; None: one that fits. ``hops``: messages passed on by servers count each time.
    ``whole``: whether all frames were chosen.
    """

    def __init__(
        self, statistics: Sequence[Statistic], interval: int | None, *, hops: bool = False, whole: bool = True
    ) -> None:
        names = {statistic.name for statistic in statistics}
        self._copies = "deliveries" in names
        """Deliveries need their publishes."""
        self._exchanges = Exchanges()
        makers: dict[str, Callable[[], Any]] = {
            "frames": FrameCounter,
            "latency": lambda: RequestLatency(self._exchanges, hops=hops),
            "findings": FindingCounter,
            "connections": lambda: ConnectionCounter(whole=whole),
            "consumers": ConsumerCounter,
            "confirms": lambda: ConfirmLatency(self._exchanges, hops=hops),
            "throughput": lambda: MessageCounter(interval),
            "deliveries": DeliveryCounter,
        }
        made = {name: make() for name, make in makers.items() if name in names}
        self.counted = Counted({name: counter.tally for name, counter in made.items()})
        """Results until now; latencies and connections are complete at the end."""
        self._confirms: ConfirmLatency | None = made.pop("confirms", None)
        self._adding = [made.pop(name) for name in ("throughput", "deliveries") if name in names]
        self._each = [counter.frame for counter in made.values()]
        if names & {"confirms", "latency"}:
            self._each.insert(0, self._exchanges.frame)
        timed = made.get("latency"), self._confirms
        self._exchanges.confirm += [each.confirm for each in timed if each is not None]
        self._connections: ConnectionCounter | None = made.get("connections")
        self.end = None if self._connections is None else self._connections.end
        """Takes the connections that are over, from the dissector of the capture (``on_decoded``)."""
        self.messages = Messages() if names & {"confirms", "throughput", "deliveries"} else None
        """Collection that the dissector fills with messages."""

    def demand(self, demand: Demand) -> Demand:
        """A demand with what is counted here."""
        analyse = self.end is not None
        return replace(demand, link_responses=False, copies=self._copies, analyse=analyse, messages=self.messages)

    def frame(self, frame: Frame, *, counts: bool = True) -> None:
        """The next frame; whether it ``counts``."""
        parts = () if self.messages is None else self.messages.of(frame)
        if not counts:
            return
        for count in self._each:
            count(frame)
        if self._confirms is not None:
            self._confirms.frame(frame, parts)
        for part in parts:
            for each in self._adding:
                each.add(part)

    def finish(self) -> Counted:
        """All frames came."""
        self._exchanges.expire()
        if self._connections is not None:
            self._connections.finish()
        return self.counted
