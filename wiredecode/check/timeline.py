"""Events over time: connections, leaders, terms, replicas, groups, streams, errors, stalls; and the throughput."""

import os
import textwrap
from collections.abc import Iterator
from math import inf
from typing import Any

from wiredecode.check.changes import ClientChanges
from wiredecode.check.stalls import Silences
from wiredecode.dataclasses import dataclass, replace
from wiredecode.frames.bins import Bins
from wiredecode.frames.escape import counted, escape
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import BEFORE, HANDSHAKE, client_side, end_text, ended_by, label, server_endpoint, short
from wiredecode.frames.identity import began as beginning
from wiredecode.frames.record import rfc3339
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import ByProtocol
from wiredecode.protocols.shared.gauges import GROUP, LEADER, REPLICAS, STATE, STREAM, TERM, Change, read_changes
from wiredecode.protocols.shared.pairing import Newest

OPENED, CLOSED, REFUSED, RESET = "opened", "closed", "refused", "reset"
STALL, SILENCE, ERROR, CHANGED = "stall", "silence", "error", "client"
WEIGHTS = {
    **dict.fromkeys((ERROR, REFUSED, RESET, STALL, LEADER), 4),
    **dict.fromkeys((REPLICAS, GROUP, STATE, SILENCE, CHANGED), 3),
    **dict.fromkeys((STREAM, CLOSED), 2),
    **dict.fromkeys((OPENED, TERM), 1),
}
"""Shares of the lines if there is no room for all events."""
MAX_EVENTS = 20_000
"""That are remembered; of more only the number is known."""
MAX_LINES = 18
"""Of events on a screen of 24."""
MAX_KEYS = 4_096
"""Subjects whose last change is remembered."""
MIN_STALL_NS = 200_000_000
MIN_SILENCE_NS = 1_000_000_000
MIN_RANGE_NS = 10_000_000
"""Of combined events also the time of the last is shown, if it is this long after the first."""
PARTS = 64
"""A part of the capture without an event of a kind is a quiet time: a 64th."""
SILENCE_SHARE = 10
"""A silence is shown if it is at least this part of the capture: a tenth."""
WIDTH = 80
BARS = " ▁▂▃▄▅▆▇█"
ROWS = 60
"""Columns of the spark lines."""
PLOT_LABEL, PLOT_LINES = 19, 9
"""Columns beside a plot; lines of a screen that are not for events."""
EVENT_GROUPS = frozenset({"response", "sequence", "checksum"})
"""Groups of findings that are shown as errors also if they are warnings."""


@dataclass(slots=True)
class TimelineEvent:
    """One change, or several of one kind that came together."""

    time_ns: int
    kind: str
    text: str
    """Not escaped."""
    common: str = ""
    """Events of one kind with the same text here may be combined."""
    frame: int | None = None
    packet: int | None = None
    connection: int | None = None
    count: int = 1
    until_ns: int = 0
    last_ns: int = 0
    """When the last of combined events was."""


class Timeline:
    """Receives the frames in order and the connections that are over; then :meth:`finish`."""

    def __init__(self) -> None:
        self.events: list[TimelineEvent] = []
        self.omitted = 0
        self.bins = Bins(2)
        """Bytes of frames from clients, and from servers."""
        self.before = 0
        """Connections that began before the capture."""
        self.first_ns = self.last_ns = 0
        self._change_readers = ByProtocol(lambda checks: checks.changes)
        self._known: Newest[tuple[str, str], str] = Newest(MAX_KEYS)
        self._silences, self._clients = Silences(), ClientChanges()

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        time_ns = frame.time_ns
        if self.last_ns and time_ns - self.last_ns >= MIN_SILENCE_NS:
            text = f"no frame for {(time_ns - self.last_ns) / 1e9:.3f} s"
            self._add(TimelineEvent(self.last_ns, SILENCE, text, frame=frame.number, until_ns=time_ns))
        self.last_ns = max(self.last_ns, time_ns)
        self.bins.add(time_ns, frame.sender != "client", frame.length)
        silence = self._silences.frame(frame)
        if silence is not None:
            text = f"{silence.server} sends nothing for {(silence.until_ns - silence.since_ns) / 1e9:.3f} s: "
            text += f"{counted(silence.waiting, 'message' if silence.of_messages else 'request')} waited"
            self._add(
                TimelineEvent(silence.since_ns, SILENCE, text, silence.server, frame.number, until_ns=silence.until_ns)
            )
        reader = self._change_readers[frame.protocol].get(frame.type or "")
        if reader is not None and "copy_of" not in frame.generated:
            for change in read_changes(reader, frame):
                self._change(frame, change)
        if frame.findings:
            self._findings(frame)

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over, and everything about it is known."""
        self._silences.forget(connection)
        self._clients.note(connection)
        number, health, start = connection.number, connection.health, beginning(connection)
        name = f"#{number} {label(connection)}".rstrip()
        if start == BEFORE:
            self.before += 1
        elif start == HANDSHAKE:
            self._add(TimelineEvent(connection.first_ns, OPENED, name, "", packet=connection.first, connection=number))
        else:
            to = server_endpoint(connection)
            change = f"{to} {'refuses' if start == 'refused' else 'does not answer'} a connection"
            self._add(
                TimelineEvent(connection.first_ns, REFUSED, change, change, packet=connection.first, connection=number)
            )
        if health is None:
            return
        self.last_ns = max(self.last_ns, health.last_ns)
        over = ended_by(connection)
        if health.end is not None and over is not None and start in (HANDSHAKE, BEFORE):
            kind = RESET if over[1] == "RST" else CLOSED
            text = f"by {end_text(connection)}"
            self._add(TimelineEvent(health.end.time_ns, kind, name, text, packet=health.end.packet, connection=number))
        for side, direction in enumerate(health.directions):
            who = "client" if side == client_side(connection) else "server"
            for begin, until in direction.zero_intervals:
                if until - begin >= MIN_STALL_NS:
                    change = f"{who} of {short(connection)} does not read: window closed {(until - begin) / 1e9:.3f} s"
                    self._add(TimelineEvent(begin, STALL, change, f"{who} {number}", connection=number, until_ns=until))
            for outage in direction.long_outages():
                peer, length_ns = connection.endpoints[1 - side], outage.until_ns - outage.since_ns
                change = f"{peer} acknowledges nothing for {length_ns / 1e9:.3f} s (#{number})"
                where = None, outage.packet, number
                self._add(TimelineEvent(outage.since_ns, STALL, change, peer, *where, until_ns=outage.until_ns))

    def finish(self, first_ns: int) -> list[TimelineEvent]:
        """All events in order of time, short silences left out."""
        self.first_ns = first_ns
        least = (self.last_ns - first_ns) // SILENCE_SHARE
        kept = [each for each in self.events if each.kind != SILENCE or each.until_ns - each.time_ns >= least]
        for at_ns, _, number, text in self._clients.changes():
            kept.append(TimelineEvent(at_ns, CHANGED, text, text, connection=number))
        return sorted(kept, key=lambda each: (each.time_ns, each.packet or 0, each.frame or 0))

    def _add(self, event: TimelineEvent) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)
        else:
            self.omitted += 1

    def _change(self, frame: Frame, change: Change) -> None:
        if self._known.get((change.kind, change.key)) == change.state:
            return
        self._known.put((change.kind, change.key), change.state)
        where = frame.number, frame.packets[0] if frame.packets else None, frame.connection.number
        self._add(TimelineEvent(frame.time_ns, change.kind, change.state, "", *where))

    def _findings(self, frame: Frame) -> None:
        for finding in frame.findings:
            if finding.severity != "error" and not (finding.severity == "warning" and finding.group in EVENT_GROUPS):
                continue
            text = f"{short(frame.connection)}, {frame.shown_type}: {finding.message}"
            packet = frame.packets[0] if frame.packets else None
            where = frame.number, packet, frame.connection.number
            self._add(TimelineEvent(frame.time_ns, ERROR, text, f"{frame.protocol} {finding.code}", *where))


def condense(events: list[TimelineEvent], span_ns: int, most: int = MAX_LINES) -> tuple[list[TimelineEvent], int]:
    """Reduce to ``most``: combine events of one kind that follow each other soon, then leave out the least important.

    Events before and after a quiet time are never combined. Each kind gets its share of the lines (by D'Hondt), for its
    first event and for those after the longest times without one.
    """
    merged = list(_merge(events, max(span_ns // PARTS, 1)))
    by_kind: dict[str, list[tuple[float, int]]] = {}
    last: dict[str, int] = {}
    for index, event in enumerate(merged):
        wait = event.time_ns - last[event.kind] if event.kind in last else inf
        by_kind.setdefault(event.kind, []).append((-wait, index))
        last[event.kind] = event.last_ns
    shares = [
        (-WEIGHTS[kind] / place, index)
        for kind, waits in by_kind.items()
        for place, (_, index) in enumerate(sorted(waits), 1)
    ]
    kept = sorted(index for _, index in sorted(shares)[:most])
    return [merged[index] for index in kept], len(merged) - len(kept)


def _merge(events: list[TimelineEvent], gap: int) -> Iterator[TimelineEvent]:
    """Events of one kind, each at most ``gap`` after the one before, as one at the time of the first."""
    groups: dict[tuple[str, str], tuple[TimelineEvent, list[str], int]] = {}
    merged: list[tuple[TimelineEvent, list[str]]] = []
    for event in events:
        key = event.kind, event.common
        group = groups.get(key)
        if group is not None and event.time_ns - group[2] <= gap:
            first, names, _ = group
            first.count += 1
            first.last_ns = event.time_ns
            first.until_ns = max(first.until_ns, event.until_ns, event.time_ns)
            if event.text not in names:
                names.append(event.text)
        else:
            first, names = replace(event, last_ns=event.time_ns), [event.text]
            merged.append((first, names))
        groups[key] = first, names, event.time_ns
    for event, names in merged:
        event.text = _text(event, names)
        yield event


def _text(event: TimelineEvent, names: list[str]) -> str:
    times = f" ({event.count:,} times)" if event.count > 1 and len(names) == 1 else ""
    if event.kind in (OPENED, CLOSED, RESET):
        if event.count == 1:
            return f"{names[0]} {event.common}".rstrip()
        return f"{event.count:,} connections {event.common}".rstrip() + f": {', '.join(names)}"
    more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
    return f"{names[0]}{times}{more}"


def ranged_text(event: TimelineEvent, first_ns: int) -> str:
    """The text of an event, and until when, if several were combined."""
    until = f"until {(event.last_ns - first_ns) / 1e9:.3f} s: "
    return until * (event.last_ns - event.time_ns >= MIN_RANGE_NS) + event.text


def lines(timeline: Timeline, events: list[TimelineEvent], screen: os.terminal_size | None = None) -> Iterator[str]:
    """Throughput over time, then what changed when: on one screen, or without one in lines of 80 columns."""
    width, most = (WIDTH, MAX_LINES) if screen is None else (screen.columns, max(screen.lines - PLOT_LINES, PLOT_LINES))
    first, span = timeline.first_ns, max(timeline.last_ns - timeline.first_ns, 1)
    number = timeline.before
    began = f", {counted(number, 'connection')} began before" if number else ""
    yield f"{rfc3339(first)}, {span / 1e9:.3f} s{began}"
    yield from sparks(timeline) if screen is None else plots(timeline, width)
    count = most
    while True:
        shown, left_out = condense(events, span, count)
        room = most - sum(len(_rows(each, first, width)) for each in shown)
        if room >= 0 or count == 1:
            break
        count -= max(-room // 2, 1)
    for event in shown:
        rows = _rows(event, first, width, spare=room > 0)
        room -= len(rows) - len(_rows(event, first, width))
        yield from rows
    if left_out or timeline.omitted:
        yield f"{'':14}and {left_out + timeline.omitted:,} more; --json has all that is known"


def _rows(event: TimelineEvent, first_ns: int, width: int, *, spare: bool = False) -> list[str]:
    """A row, and for long texts a second one: for names of connections only if there is room to ``spare``."""
    head = f"{(event.time_ns - first_ns) / 1e9:10.3f} s  {event.kind:<9} "
    text = textwrap.wrap(escape(ranged_text(event, first_ns)), width - len(head), break_on_hyphens=False)
    rows = text[: 1 if event.kind in (OPENED, CLOSED, RESET) and not spare else 2]
    if len(text) > len(rows):
        rows[-1] = f"{rows[-1][: width - len(head) - 2]} …"
    return [f"{' ' * len(head) if index else head}{row}" for index, row in enumerate(rows)]


def throughput(timeline: Timeline, most: int = ROWS) -> tuple[list[list[int]], float]:
    """Bytes per bin from clients and from servers, in ``most`` bins, and the width of a bin in seconds."""
    timeline.bins.add(timeline.first_ns, 0, 0)
    counts, width = timeline.bins.counts(most, timeline.last_ns)
    return [counts[:, column].tolist() for column in (0, 1)], width / 1e9


def sparks(timeline: Timeline) -> Iterator[str]:
    """Bytes of frames over time, a line per direction."""
    columns, width = throughput(timeline)
    for name, counts in zip(("clients", "servers"), columns, strict=True):
        most = max(counts, default=0)
        yield f"{name} {bars(counts, 1)[0]} {amount(most / width)}/s at most" if most else f"{name} nothing"


def plots(timeline: Timeline, width: int) -> Iterator[str]:
    """The same as a plot per direction above one axis of time, in ``width`` columns."""
    room = max(width - PLOT_LABEL - 1, 2)
    columns, seconds = throughput(timeline, room)
    for name, counts in zip(("clients", "servers"), columns, strict=True):
        wide = [counts[column * len(counts) // room] for column in range(room)]
        labels = [f"{name} {amount(max(counts) / seconds) + '/s':>{PLOT_LABEL - len(name) - 2}} ", ""]
        yield from (f"{label:{PLOT_LABEL}}│{bar}" for label, bar in zip(labels, bars(wide, len(labels)), strict=True))
    end = f"{len(columns[0]) * seconds:.3g} s"
    yield f"{'':{PLOT_LABEL}}└{'─' * room}"
    yield f"{'':{PLOT_LABEL}} 0 s{end:>{room - 3}}"


def bars(counts: list[int], height: int) -> list[str]:
    """Bars in lines from the top."""
    most, parts = max(counts, default=0) or 1, len(BARS) - 1
    levels = [-(-count * parts * height // most) for count in counts]
    rows = ([min(max(level - parts * row, 0), parts) for level in levels] for row in reversed(range(height)))
    return ["".join(BARS[part] for part in row).rstrip() for row in rows]


def amount(number: float) -> str:
    """``"1.2 MB"``: bytes for people."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def record(timeline: Timeline, events: list[TimelineEvent]) -> dict[str, Any]:
    """All of it as one JSON object."""
    (clients, servers), width = throughput(timeline)
    return {
        "start": rfc3339(timeline.first_ns),
        "seconds": (timeline.last_ns - timeline.first_ns) / 1e9,
        "connections_before": timeline.before,
        "throughput": {"interval_s": width, "client_bytes": clients, "server_bytes": servers},
        "events": [_record(each, timeline.first_ns) for each in events],
        "not_told": timeline.omitted,
    }


def _record(event: TimelineEvent, first_ns: int) -> dict[str, Any]:
    text = f"{event.text} closed {event.common}" if event.kind in (CLOSED, RESET) else event.text
    record = {
        "time": rfc3339(event.time_ns),
        "time_ns": event.time_ns,
        "seconds": (event.time_ns - first_ns) / 1e9,
        "kind": event.kind,
        "what": text,
        "frame": event.frame,
        "packet": event.packet,
        "connection": event.connection,
        "until_time_ns": event.until_ns or None,
    }
    return {name: value for name, value in record.items() if value is not None}
