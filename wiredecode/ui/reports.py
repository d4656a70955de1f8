"""What the further screens show: lines, each with the frames that it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from io import StringIO
from typing import TYPE_CHECKING, Any

from rich.text import Text

from wiredecode.dissect.demand import Demand
from wiredecode.extras import install, installed
from wiredecode.frames.escape import escape
from wiredecode.net.limits import Limits
from wiredecode.ui.jobs import Job
from wiredecode.ui.reading import Reading
from wiredecode.view import theme

if TYPE_CHECKING:
    from wiredecode.check import Problem

MOST_FOLLOWED = 5_000
"""Frames of a connection that are followed from the one under the cursor on."""


@dataclass(frozen=True)
class Told:
    """One line."""

    text: Text
    frames: tuple[int, ...] = ()


Maker = Callable[[Reading, Job, int], list[Told]]
"""Makes the lines, in the thread of a job; the last argument is the frame under the cursor."""


def connections(reading: Reading, job: Job, number: int) -> list[Told]:
    """All connections, with names."""
    from wiredecode.view.follow import table

    rows = [row for _, row in sorted(reading.survey.seen.items())]
    head, *lines = table(rows)
    made = [Told(Text(head, theme.HEAD))]
    for row, line in zip(rows, lines, strict=True):
        made.append(Told(Text(line), _first_of(reading, row.connection.number)))
    return made if rows else [Told(Text("no connections"))]


def _first_of(reading: Reading, connection: int) -> tuple[int, ...]:
    found = reading.rows.find(0, 1, lambda rows: rows["connection"] == connection)
    return () if found is None else (found,)


def findings(reading: Reading, job: Job, number: int) -> list[Told]:
    """What ``wiredecode check`` finds."""
    from wiredecode.check import Checker
    from wiredecode.check.text import counts, report_lines

    checker = Checker()
    dissector = reading.dissector(
        Demand(link_responses=False, decode_as=reading.decode_as), analyse=True, tell=checker.end
    )
    checker.report.first_ns = reading.first_ns
    for frame in reading.frames(dissector, lambda: job.stopped, look=checker.look, progress=job.progress):
        checker.frame(frame)
    problems = checker.finish()
    if not problems:
        return [Told(Text("nothing is wrong"))]
    made = [Told(Text(counts(problems), theme.HEAD)), Told(Text())]
    for problem, line in report_lines(problems, reading.first_ns):
        made.append(Told(Text(line, _style(problem, line)), tuple(problem.frames) if problem is not None else ()))
    return made


def _style(problem: Problem | None, line: str) -> str:
    if problem is None:
        return theme.HEAD
    return theme.SEVERITY[problem.severity] if line.startswith(problem.name) else ""


def statistics(reading: Reading, job: Job, number: int) -> list[Told]:
    """The tables of ``wiredecode stats``."""
    if not installed("duckdb"):
        raise RuntimeError(f"needs duckdb, which is not installed: {install('sql')}")
    from wiredecode.stats import statistics as tables
    from wiredecode.stats.shown import grid, shown_columns
    from wiredecode.stats.tables import chosen

    said = {port: "/".join(filter(None, (one.protocol.name, one.dialect))) for port, one in reading.decode_as.items()}
    limits = {each.name: getattr(reading.limits, each.name) for each in fields(Limits)}  # without keys of TLS
    found = tables(reading.files, interval="auto", decode_as=said, limits=limits)
    made = []
    for statistic in chosen(None):
        table = found[statistic.name]
        made.append(Told(Text(statistic.title, theme.HEAD)))
        if table.num_rows:
            made += _rendered(grid(table, shown_columns(table, table.schema.names), people=True))
        else:
            made.append(Told(Text("none", "dim")))
        made.append(Told(Text()))
    return made


def _rendered(renderable: Any) -> Iterator[Told]:
    """The lines of a table, as wide as they are."""
    from rich.console import Console

    text = StringIO()
    Console(file=text, width=400, color_system=None, highlight=False, markup=False, emoji=False).print(renderable)
    for line in text.getvalue().splitlines():
        yield Told(Text(line.rstrip()))


def timeline(reading: Reading, job: Job, number: int) -> list[Told]:
    """What changed when, and the throughput."""
    from wiredecode.check.timeline import Timeline, sparks

    made = Timeline()
    demand = Demand(link_responses=False, decode_as=reading.decode_as)
    dissector = reading.dissector(demand, analyse=True, over=made.end)
    for frame in reading.frames(dissector, lambda: job.stopped, progress=job.progress):
        made.frame(frame)
    events = made.finish(reading.first_ns)
    lines = [Told(Text(line, theme.VALUE)) for line in sparks(made)]
    for event in events:
        text = Text(f"{(event.time_ns - reading.first_ns) / 1e9:12.3f} s  ").append(f"{event.kind:<9} ", theme.HEAD)
        place = (event.frame,) if event.frame else _first_of(reading, event.connection or 0)
        lines.append(Told(text.append(escape(event.what + (f" {event.together}" if event.together else ""))), place))
    return lines or [Told(Text("nothing changed"))]


def follow(reading: Reading, job: Job, number: int) -> list[Told]:
    """The connection of a frame as a dialogue, from that frame on."""
    row = reading.rows[number]
    seen = reading.survey.seen.get(row.connection)
    ends = " ↔ ".join(seen.connection.endpoints) if seen is not None else ""
    made = [Told(Text(f"connection #{row.connection}  {row.protocol}  {ends}", theme.HEAD))]
    at: int | None = number
    while at is not None and len(made) <= MOST_FOLLOWED and not job.stopped:
        made.append(_said(reading, at))
        at = reading.rows.find(at, 1, lambda rows: rows["connection"] == row.connection)
    if at is not None:
        made.append(Told(Text(f"and more, from frame {at} on", "dim"), (at,)))
    return made


def _said(reading: Reading, number: int) -> Told:
    row = reading.rows[number]
    sender = row.sender or ""
    margin = " " * (4 if sender == "server" else 0)
    text = Text(f"{(row.time_ns - reading.first_ns) / 1e9:11.6f}  {margin}")
    text.append(f"{'←' if sender == 'server' else '→'} {row.type}", theme.SIDE.get(sender, theme.HEAD))
    text.append(f"  {row.details}", theme.SEVERITY.get(row.severity, ""))
    if row.latency_ns >= 0:
        text.append(f"  after {row.latency_ns / 1e6:.3f} ms", theme.GENERATED)
    return Told(text, (number,))


MAKERS: dict[str, tuple[str, Maker]] = {
    "connections": ("Connections", connections),
    "findings": ("Findings", findings),
    "statistics": ("Statistics", statistics),
    "timeline": ("Timeline", timeline),
    "follow": ("Follow", follow),
}
