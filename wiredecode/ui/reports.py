"""Contents of the further screens: lines, each with the frames that it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from wiredecode.dataclasses import dataclass
from wiredecode.frames.escape import escape
from wiredecode.ui.jobs import Job
from wiredecode.ui.model import CaptureModel
from wiredecode.ui.store import FrameRow, Test
from wiredecode.view import theme
from wiredecode.view.follow import table
from wiredecode.view.screen import cut

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.check import Problem
    from wiredecode.check.text import Layout
    from wiredecode.check.timeline import Timeline
    from wiredecode.flows import Flows
    from wiredecode.stats.tables import Statistic
    from wiredecode.stats.tallies import Counted
    from wiredecode.trace.text import TraceHop

MAX_FOLLOWED = 5_000
"""Frames of a connection that are followed from the one under the cursor on."""
SO_FAR = ("frames", "findings", "consumers")
"""Statistics that can be shown before the end."""
MAX_TRACED = 20
"""Messages of a frame whose way is shown."""
MIN_WIDTH, MAX_DIAGRAM, MARGIN = 50, 130, 17
"""Columns between the two sides of a sequence diagram, and beside them."""
PAUSE_NS = 500_000_000
"""A diagram shows a pause if it is at least this long."""


@dataclass(frozen=True)
class ReportLine:
    text: Text
    frames: tuple[int, ...] = ()


Maker = Callable[[CaptureModel, Job, int, int], list[ReportLine]]
"""Makes the lines, in the thread of a job: of the frame under the cursor, for a screen of this width."""


def connections(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """All connections, with names, and ends as TCP analysis sees them."""
    job.result = _connections(model)
    for number, health in model.health(job).items():
        if (seen := model.survey.activities.by_number.get(number)) is not None:
            seen.connection.health = health
    return _connections(model)


def _connections(model: CaptureModel) -> list[ReportLine]:
    rows = [*model.survey.activities]
    head, *lines = table(rows)
    report = [ReportLine(Text(head, theme.HEAD))]
    for row, line in zip(rows, lines, strict=True):
        report.append(ReportLine(Text(line), _first_of(model, row.connection.number)))
    return report if rows else [ReportLine(Text("no connections"))]


def _first(model: CaptureModel, test: Test) -> tuple[int, ...]:
    index = model.rows.find(0, 1, test)
    return () if index is None else (index,)


def _first_of(model: CaptureModel, connection: int) -> tuple[int, ...]:
    return _first(model, lambda rows: rows["connection"] == connection)


def findings(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """Problems that ``wiredecode check`` finds."""
    from wiredecode.check import Checker
    from wiredecode.check.causes import order
    from wiredecode.check.verdict import verdict

    checker = Checker()
    dissector = model.dissector(checker.demand(model.demand()), on_end=checker.end)

    def so_far() -> list[ReportLine]:
        return _problems(sorted(checker.report.problems.values(), key=order), "so far:", model, width)

    for frame in model.frames(dissector, job, checker.look, so_far):
        checker.frame(frame)
    problems = checker.finish()
    return _problems(problems, verdict(checker.coverage, problems, dissector.totals).text, model, width)


def _problems(problems: list[Problem], heading: str, model: CaptureModel, width: int) -> list[ReportLine]:
    from wiredecode.check.text import report_lines

    lines = [ReportLine(Text(heading, theme.HEAD)), ReportLine(Text())]
    before: Problem | None = None
    title = False
    for problem, line in report_lines(problems, model.first_ns, _layout(model, width)):
        title = problem is not before or (title and line[:4].isspace())  # all lines of it
        style = theme.SEVERITY[problem.severity] if problem is not None and title else ""
        lines.append(ReportLine(Text(line, style), () if problem is None else tuple(problem.frames)))
        before = problem
    return lines


def _layout(model: CaptureModel, width: int) -> Layout:
    """The layout of problems; commands name the captures, unless they are parts of a live one."""
    from wiredecode.check.text import Layout

    return Layout(max(width, MIN_WIDTH), files=Layout.files if model.source.grows else model.files)


def statistics(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """The tables of ``wiredecode stats``."""
    from wiredecode.stats.counters import Counters
    from wiredecode.stats.tables import choose_statistics

    wanted = choose_statistics(None)
    counters = Counters(wanted, None)
    dissector = model.dissector(counters.demand(model.demand()), on_decoded=counters.end)

    def so_far() -> list[ReportLine]:
        counted = counters.counted
        return _tables(model, counted, [each for each in wanted if each.name in SO_FAR and counted.table(each)])

    for frame in model.frames(dissector, job, so_far=so_far):
        counters.frame(frame)
    return _tables(model, counters.finish(), wanted)


def _tables(model: CaptureModel, counted: Counted, wanted: Sequence[Statistic]) -> list[ReportLine]:
    lines = []
    for statistic in wanted:
        table = counted.table(statistic)
        lines.append(ReportLine(Text(statistic.heading, theme.HEAD)))
        lines += _table(model, statistic, table) if table.num_rows else [ReportLine(Text("none", "dim"))]
        lines.append(ReportLine(Text()))
    return lines


def _table(model: CaptureModel, statistic: Statistic, table: pa.Table) -> Iterator[ReportLine]:
    """The lines of a table, as wide as they are; a row leads to the first frame that it counts, where that is known."""
    from wiredecode.stats.tables import counted_grid, differing
    from wiredecode.view.grid import plain, remarks

    names, same = differing(statistic, table)
    rows, shown = table.to_pylist(), counted_grid(table, names, people=True)
    for index, line in enumerate(plain(shown), -2):  # those of rows are below the heading
        yield ReportLine(Text(line.rstrip()), _first_frame(model, rows[index]) if index >= 0 else ())
    yield from map(ReportLine, remarks([], same))


def _first_frame(model: CaptureModel, row: dict[str, Any]) -> tuple[int, ...]:
    """The first frame of the type, or from the time on, that a row of a table is about."""
    kind, time = (row.get("protocol"), row.get("type") or row.get("request")), row.get("first") or row.get("start")
    if kind in model.rows.kinds:
        number = model.rows.kinds.index(kind)
        return _first(model, lambda rows: rows["kind"] == number)
    if time is not None:
        since, connection = round(time.timestamp() * 1e6) * 1000, row.get("connection")
        return _first(
            model,
            lambda rows: (rows["time_ns"] >= since) & ((connection is None) | (rows["connection"] == connection)),
        )
    return ()


def flows(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """The table of ``wiredecode flows``; a line leads to the first frame of its messages."""
    from wiredecode.flows import Flows
    from wiredecode.frames.message import Messages

    counted, messages = Flows(copies=True), Messages()
    dissector = model.dissector(counted.demand(model.demand(), messages))
    for frame in model.frames(dissector, job, so_far=lambda: _flows(model, counted, width)):
        counted.frame(frame, messages.of(frame))
    return _flows(model, counted, width) or [ReportLine(Text("no messages"))]


def _flows(model: CaptureModel, counted: Flows, width: int) -> list[ReportLine]:
    from wiredecode.flows.table import TOPIC, rows
    from wiredecode.view.flows import columns_of, grid
    from wiredecode.view.grid import plain

    made = rows(counted)
    columns = columns_of(made, model.first_ns, TOPIC)
    lines = [*plain(grid(columns, [*columns]))] if made else []
    return [
        ReportLine(
            Text(line.rstrip(), theme.HEAD if index == -2 else ""), tuple(made[index].frames) if index >= 0 else ()
        )
        for index, line in enumerate(lines, -2)
    ]


def timeline(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """Events over time, and the throughput."""
    from wiredecode.check.timeline import Timeline

    events = Timeline()
    dissector = model.dissector(model.demand(analyse=True), on_decoded=events.end)
    for frame in model.frames(dissector, job, so_far=lambda: _events(model, events, width)):
        events.frame(frame)
    return _events(model, events, width) or [ReportLine(Text("nothing changed"))]


def _events(model: CaptureModel, timeline: Timeline, width: int) -> list[ReportLine]:
    from wiredecode.check.timeline import plots

    events = timeline.finish(model.first_ns)
    lines = [ReportLine(Text(line, theme.VALUE)) for line in plots(timeline, width)]
    for event in events:
        text = Text(f"{(event.time_ns - model.first_ns) / 1e9:12.3f} s  ").append(f"{event.kind:<9} ", theme.HEAD)
        frames = (event.frame,) if event.frame else _first_of(model, event.connection or 0)
        lines.append(ReportLine(text.append(escape(event.text + (f" {event.common}" if event.common else ""))), frames))
    return lines


def follow(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """The connection of a frame as a dialogue, from that frame on."""
    row = model.rows[number]
    seen = model.survey.activities.by_number.get(row.connection)
    ends = " ↔ ".join(seen.connection.endpoints) if seen is not None else ""
    lines = [ReportLine(Text(f"connection #{row.connection}  {row.protocol}  {ends}", theme.HEAD))]
    for at in _along(model, number, MAX_FOLLOWED + 1):
        if job.stopped or len(lines) > MAX_FOLLOWED:
            lines.append(ReportLine(Text(f"and more, from frame {at} on", "dim"), (at,)))
            break
        lines.append(_dialogue_line(model, at))
    return lines


def diagram(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """The connection of a frame as a sequence diagram, from that frame on."""
    row, room = model.rows[number], min(max(width - MARGIN, MIN_WIDTH), MAX_DIAGRAM)
    seen = model.survey.activities.by_number.get(row.connection)
    ends = seen.connection.endpoints if seen is not None else ("", "")
    sides = {row.side: row.sender for row in (model.rows[each] for each in _along(model, number, 50))}
    client = next((side for side, sender in sides.items() if sender == "client"), 0)
    left, right = f"client {ends[client]}", f"server {ends[1 - client]}"
    margin = " " * 13
    lines = [
        ReportLine(Text(f"{margin}{left}{right:>{room - len(left) + 2}}", theme.HEAD)),
        ReportLine(Text(f"{margin}│{' ' * room}│", "dim")),
    ]
    before = row.time_ns
    for at in _along(model, number, MAX_FOLLOWED):
        if job.stopped:
            break
        if model.rows[at].time_ns - before > PAUSE_NS:
            pause = f" {(model.rows[at].time_ns - before) / 1e9:.1f} s "
            lines.append(ReportLine(Text(f"{margin}┊{pause:^{room}}┊", "dim")))
        before = model.rows[at].time_ns
        lines.append(_arrow(model, model.rows[at], client, room))
    return lines


def _arrow(model: CaptureModel, row: FrameRow, client: int, room: int) -> ReportLine:
    """A frame between the life lines of both sides."""
    latency = f"  ({row.latency_ns / 1e6:.3f} ms)" if row.latency_ns >= 0 else ""
    label = cut(f"{row.type} {row.details}".rstrip(), room - 8 - len(latency)) + latency
    line = f" {label} "
    dashes = room - 3 - cell_len(line)
    text = Text(f"{(row.time_ns - model.first_ns) / 1e9:11.6f}  │")
    style = theme.SEVERITY.get(row.severity, "") or theme.SIDE.get(row.sender or "", "")
    if row.side == client:
        text.append(f"──{line}{'─' * dashes}▶", style)
    else:
        text.append(f"◀{'─' * dashes}{line}──", style)
    return ReportLine(text.append("│"), (row.number,))


def _along(model: CaptureModel, number: int, most: int) -> Iterator[int]:
    """A frame and the later ones of its connection."""
    connection, at = model.rows[number].connection, number
    for _ in range(most):
        yield at
        index = model.rows.find(at, 1, lambda rows: rows["connection"] == connection)
        if index is None:
            return
        at = index


def trace(model: CaptureModel, job: Job, number: int, width: int) -> list[ReportLine]:
    """Hops of the messages of a frame: the places that each passes, and its answers."""
    from wiredecode.trace import Collector, Criteria, Finder, text

    finder = Finder(Criteria(number, None, None, None, None, ()))
    for frame in model.messages(number, finder.messages):
        finder.frame(frame)
    if not finder.found:
        return [ReportLine(Text("this frame carries no message; M is for what publishes or delivers one"))]
    collector = Collector(finder.found)
    demand = model.demand(messages=collector.messages, link_responses=True)
    for frame in model.frames(model.dissector(demand), job):
        collector.frame(frame)
    messages = collector.found()
    rows = [ReportLine(Text(f"messages of frame {number:,}: {len(messages):,}", theme.HEAD))]
    for message in messages[:MAX_TRACED]:
        rows.append(ReportLine(Text()))
        before: TraceHop | None = None
        for hop, line in text.hop_lines(message, model.first_ns, width):
            begins, before = hop is not None and hop is not before, hop
            rows.append(ReportLine(Text(line, theme.HEAD if begins else ""), () if hop is None else (hop.event.frame,)))
    if len(messages) > MAX_TRACED:
        command = _layout(model, width).command(f"wiredecode trace FILE --frame {number} --message M")
        more = f"and {len(messages) - MAX_TRACED:,} more: {command}"
        rows += [ReportLine(Text()), ReportLine(Text(escape(more), "dim"))]
    return rows


def _dialogue_line(model: CaptureModel, number: int) -> ReportLine:
    row = model.rows[number]
    sender = row.sender or ""
    margin = " " * (4 if sender == "server" else 0)
    text = Text(f"{(row.time_ns - model.first_ns) / 1e9:11.6f}  {margin}")
    text.append(f"{'←' if sender == 'server' else '→'} {row.type}", theme.SIDE.get(sender, theme.HEAD))
    text.append(f"  {row.details}", theme.SEVERITY.get(row.severity, ""))
    if row.latency_ns >= 0:
        text.append(f"  after {row.latency_ns / 1e6:.3f} ms", theme.GENERATED)
    return ReportLine(text, (number,))


MAKERS: dict[str, tuple[str, Maker]] = {
    "connections": ("Connections", connections),
    "findings": ("Findings", findings),
    "statistics": ("Statistics", statistics),
    "timeline": ("Timeline", timeline),
    "flows": ("Flows", flows),
    "follow": ("Follow", follow),
    "diagram": ("Sequence", diagram),
    "trace": ("Messages", trace),
}
OF_FRAME = ("follow", "diagram", "trace")
"""Reports about one frame; others are about the whole capture."""
