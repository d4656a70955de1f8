"""The HTML page with the results of both passes. jinja escapes all text from the wire."""

from collections.abc import Sequence as Several
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from wiredecode.check import SEVERITIES
from wiredecode.check.text import Layout, effects, evidence
from wiredecode.check.timeline import ERROR, condense, ranged_text
from wiredecode.check.verdict import verdict
from wiredecode.dataclasses import asdict, dataclass
from wiredecode.frames import identity
from wiredecode.frames.activity import Activity
from wiredecode.frames.escape import counted, duration, escape, shorten
from wiredecode.frames.message import DELIVER, PUBLISH
from wiredecode.frames.totals import Totals
from wiredecode.net.distribution import Distribution
from wiredecode.net.health import FAST_RETRANSMISSION, ConnectionHealth
from wiredecode.protocols.shared.gauges import CREDIT, LAG
from wiredecode.report.flows import Drawing
from wiredecode.report.gather import (
    CLOSED,
    DELIVERED,
    FROM_CLIENT,
    FROM_SERVER,
    FROM_UNKNOWN,
    OPENED,
    PUBLISHED,
    Gathering,
)
from wiredecode.report.plots import MAX_LINES, PERCENTILES, Plots
from wiredecode.report.sequence import Sequence, Skipped

GAUGES = {
    CREDIT: ("credit", "Credit of consumers", "Messages or chunks that the broker may still send; at 0 it waits."),
    LAG: ("lag", "Lag", "Committed messages that consumers or replicas have not received."),
}
HERE = Path(__file__).parent
MAX_FINDINGS = 100
MAX_EVENTS = 80
MAX_WORDS, MAX_CHARACTERS = 600, 160
"""Characters of one text from the wire, and of one in a cell of a table."""
MAX_ROWS = 100
SECTIONS = "findings", "summary", "timeline", "flows", "plots", "sequence"
"""Before the tables."""
TEXTS = ("who", "protocol", "health", "end", "type", "from", "stream, topic or subject")
"""Columns of tables that are no numbers."""


@dataclass(frozen=True)
class ReportSource:
    """Source of the report."""

    files: Several[str]
    title: str | None
    totals: Totals
    version: str


@cache
def template() -> Any:
    """The page for Jinja, compiled once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def page(gathering: Gathering, source: ReportSource, number: int | None, sequence: Sequence | None) -> str:
    """The whole page; ``number`` is the connection that ``sequence`` shows."""
    from markupsafe import Markup

    tables = [connections(gathering), commands(gathering), streams(gathering)]
    links = {int(each.rpartition("-")[2]): f"#{each}" for each, _ in tables[0].rows}
    names = [Path(name).name for name in source.files]
    events, left_out = event_rows(gathering)
    shown = findings(gathering)
    text: str = template().render(
        title=source.title or f"What {', '.join(names[:3])}{' and others' if len(names) > 3 else ''} shows",
        files=[*source.files[:20], *([f"and {len(source.files) - 20} more"] if len(source.files) > 20 else [])],
        style=Markup((HERE / "page.css").read_text()),
        span=span(gathering),
        contents=[(name, name.capitalize()) for name in (*SECTIONS, *(table.name for table in tables))],
        tiles=tiles(gathering, source.totals),
        remarks=remarks(source.totals),
        verdict=verdict(gathering.checker.coverage, gathering.problems, source.totals).text,
        findings=shown,
        omitted=gathering.checker.report.omitted + len(gathering.problems) - len(shown),
        events=events,
        events_left_out=left_out,
        flows=Drawing(gathering.flows, links).shown(),
        plots=drawn(gathering),
        sequence=diagram(gathering, number, sequence, names),
        no_sequence="No connection sent anything that is decoded.",
        tables=tables,
        texts=TEXTS,
        footer=f"Made by wiredecode {source.version}. Frames are messages of the protocol, numbered as by all its "
        "commands; packets are numbered as Wireshark numbers them. Percentiles are right within 2.2 %. "
        "Passwords and tokens are not on this page; names, addresses and texts of the capture are.",
    )
    return text


def span(gathering: Gathering) -> str:
    """When, and how long."""
    if not gathering.first_ns:
        return "no packets"
    second, fraction = divmod(gathering.first_ns, 1_000_000_000)
    begin = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lasts = duration(gathering.last_ns - gathering.first_ns)
    return f"began {begin}.{fraction // 1_000_000:03d} UTC, lasted {lasts}"


def tiles(gathering: Gathering, totals: Totals) -> list[dict[str, Any]]:
    """The numbers at a glance; those that are bad first."""
    counts = {name: sum(each.severity == name for each in gathering.problems) for name in SEVERITIES}
    shown = [
        {"kind": name if number else "", "value": f"{number:,}", "label": f"{name}s" if number != 1 else name}
        for name, number in counts.items()
    ]
    messages = gathering.by_kind()
    numbers = [
        (totals.packets, "packets"),
        (totals.connections, "connections"),
        (sum(totals.frames.values()), "frames (messages of protocols)"),
        (messages["publish"], "messages published"),
        (messages["deliver"], "messages delivered"),
        (totals.captured, "bytes of payload"),
        (totals.undecoded, "bytes undecoded"),
        (totals.missing, "bytes missing (not captured)"),
    ]
    return shown + [{"kind": "", "value": f"{number:,}", "label": label} for number, label in numbers]


def remarks(totals: Totals) -> list[str]:
    """Return the parts of the capture that are not on the page."""
    texts = []
    if totals.not_decoded:
        reasons = (f"{counted(count, 'packet')} {why}" for why, count in totals.not_decoded.most_common(5))
        texts.append(f"Not decoded: {', '.join(reasons)}.")
    for (name, port), size in totals.other.most_common(5):
        protocols = "an unknown protocol" if name == "unknown" else name
        texts.append(f"Port {port}: {protocols}, {size:,} bytes, not decoded.")
    if totals.limits:
        texts.append(f"Limits were reached: {', '.join(totals.limits)}.")
    return texts


def findings(gathering: Gathering) -> list[dict[str, Any]]:
    """Return findings as the page shows them; the meaning of a code is at its first one."""
    explained: set[str] = set()
    rows = []
    for problem in gathering.problems[:MAX_FINDINGS]:
        rows.append(
            {
                "severity": problem.severity,
                "name": cut(problem.name),
                "what": cut(problem.title),
                "details": [cut(text) for text in (*problem.details, *problem.changed)],
                "evidence": evidence(problem, gathering.first_ns),
                "connections": [(number, cut(text)) for number, text in sorted(problem.connections.items())],
                "meaning": "" if problem.code.code in explained else problem.code.meaning,
                "effects": [cut(text) for text in effects(problem)],
                "likely": cut(problem.likely),
                "causes": problem.code.causes,
                "advice": problem.code.advice,
            }
        )
        explained.add(problem.code.code)
    return rows


def event_rows(gathering: Gathering) -> tuple[list[dict[str, str]], int]:
    """Changes and errors, in order of time; and the number of changes left out."""
    span_ns = max(gathering.last_ns - gathering.first_ns, 1)
    changes, left_out = condense(gathering.events, span_ns, MAX_EVENTS)
    events = [
        (each.time_ns, each.kind, "error" if each.kind == ERROR else "", ranged_text(each, gathering.first_ns))
        for each in changes
    ]
    events += [
        (problem.first_ns, problem.severity, problem.severity, problem.title)
        for problem in gathering.problems[:MAX_FINDINGS]
        if problem.first_ns is not None and problem.severity != "note"
    ]
    events.sort(key=lambda each: each[0])
    shown = [
        {"time": seconds(time_ns, gathering.first_ns), "kind": kind, "severity": severity, "text": cut(text)}
        for time_ns, kind, severity, text in events
    ]
    return shown, left_out + gathering.timeline.omitted


def diagram(
    gathering: Gathering, number: int | None, sequence: Sequence | None, names: list[str]
) -> dict[str, Any] | None:
    """The sequence of a connection; the command that shows all of it has the ``names`` of the captures."""
    if sequence is None or number is None or number not in gathering.connections or not sequence.items:
        return None
    activity = gathering.connections[number]
    client, ends = activity.client_side, activity.connection.named_endpoints
    command = Layout(files=names).command(f"wiredecode follow FILE -n {number}")
    return {
        "title": f"Connection #{number}: {cut(identity.describe(activity.connection))}",
        "note": f"{sequence.frames:,} frames; shown are the first ones of each type, those with findings, those that "
        f"are evidence (shaded), and the last ones. {command} shows all.",
        "client": f"client {ends[client]}",
        "server": f"server {ends[1 - client]}",
        "steps": [
            {"skipped": skipped_text(each)} if isinstance(each, Skipped) else step(each, gathering.first_ns)
            for each in sequence.items
        ],
    }


def skipped_text(item: Skipped) -> str:
    """``1,234 frames more in 2.5 s: 617 Publish, 617 PublishConfirm``."""
    types = ", ".join(f"{count:,} {cut(name)}" for name, count in item.types.most_common(6))
    return f"{item.count:,} frames more in {duration(item.last_ns - item.first_ns)}: {types}"


def step(each: Any, first_ns: int) -> dict[str, Any]:
    """One message of the diagram."""
    remark = []
    if each.latency_ns is not None:
        remark.append(f"{duration(each.latency_ns)} after frame {each.request}")
    if each.status:
        remark.append(each.status)
    return {**asdict(each), "skipped": "", "time": seconds(each.time_ns, first_ns), "remark": ", ".join(remark)}


def seconds(time_ns: int, first_ns: int) -> str:
    return f"{(time_ns - first_ns) / 1e9:,.6f}"


def cut(text: str, most: int = MAX_WORDS) -> str:
    """Text that may come from the wire: one line, no control characters, not endless."""
    return shorten(escape(text), most)


def drawn(gathering: Gathering) -> list[dict[str, Any]]:
    """Name, title, note, legend and SVG of each plot."""
    from markupsafe import Markup

    plots = Plots(gathering.first_ns, gathering.last_ns)
    drawings: list[dict[str, Any]] = []

    def add(name: str, title: str, note: str, legend: list[str], svg: str) -> None:
        drawings.append({"name": name, "title": title, "note": note, "legend": legend, "svg": Markup(svg)})

    def rates(name: str, title: str, label: str, kinds: dict[int, str]) -> None:
        sums = gathering.sums()
        used = {column: text for column, text in kinds.items() if sums[column]}
        if used:
            svg, width = plots.rates(gathering.by_time, list(used), label)
            add(name, title, f"Per second, each step is {duration(width)}.", list(used.values()), svg)

    sides = {FROM_CLIENT: "from clients", FROM_SERVER: "from servers", FROM_UNKNOWN: "sender unknown"}
    rates("throughput", "Throughput", "bytes/s", sides)
    rates("messages", "Messages", "messages/s", {PUBLISHED: "published", DELIVERED: "delivered"})
    if gathering.latency.counts(1, gathering.last_ns)[0].any():
        svg, width = plots.percentiles(gathering.latency)
        note = f"From a request to its answer, in each {duration(width)}, right within 5 %."
        add("latency", "Latency", note, [f"p{percent}" for percent in PERCENTILES], svg)
        note = "Number of answers by latency: the stronger, the more; the scale is logarithmic."
        add("heat", "Latency, heat map", note, [], plots.heat(gathering.latency))
    for gauge, (name, title, note) in GAUGES.items():
        series = {of: each for (kind, of), each in gathering.series.items() if kind == gauge and each.shown}
        chosen = sorted(series, key=lambda of: (-series[of].changes, of))[:MAX_LINES]
        if chosen:
            more = f" The {len(chosen)} busiest of {len(series)}." if len(series) > len(chosen) else ""
            svg = plots.series([series[of] for of in chosen], name)
            add(name, title, note + more, [shorten(escape(of), 120) for of in chosen], svg)
    if gathering.sums()[OPENED] > 1:
        svg = plots.levels(gathering.by_time, OPENED, CLOSED)
        add("connections-open", "Connections", "That were seen: from the first packet to the last.", [], svg)
    return drawings


# Tables.


@dataclass(frozen=True)
class PageTable:
    """``rows``: the id of a row, and its cells."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[str, tuple[str, ...]]]
    left_out: int
    """Rows that it has not."""
    remark: str

    @property
    def note(self) -> str:
        return (f"{self.left_out:,} more are left out. " if self.left_out > 0 else "") + self.remark


def cell(text: str) -> str:
    """Text that may come from the wire."""
    return cut(text, MAX_CHARACTERS)


def connections(gathering: Gathering) -> PageTable:
    """Table of connections: chosen by findings, then by bytes; ordered by number."""
    ordered = sorted(gathering.connections.values(), key=lambda each: (-(each.findings > 0), -sum(each.length)))
    concerned = {number for problem in gathering.problems for number in problem.connections}
    ordered.sort(key=lambda each: each.connection.number not in concerned)
    shown = sorted(ordered[:MAX_ROWS], key=lambda each: each.connection.number)
    lasting = "number", "who", "protocol", "begins (s)", "lasts"
    return PageTable(
        "connections",
        (*lasting, "frames ↑ ↓", "bytes ↑ ↓", "round trip", "health", "end"),
        [(f"connection-{each.connection.number}", _connection(each, gathering)) for each in shown],
        len(ordered) - len(shown) + gathering.left_out,
        "↑ from the client, ↓ from the server. Round trip: the median from a segment to its ACK, of the slower "
        "direction. Health: what TCP had to repair.",
    )


def _connection(activity: Activity, gathering: Gathering) -> tuple[str, ...]:
    connection, client, health = activity.connection, activity.client_side, activity.connection.health
    protocols = [*activity.protocols, *([f"({activity.foreign})"] if activity.foreign else [])]
    return (
        f"#{connection.number}",
        cell(identity.describe(connection)),
        cell(", ".join(protocols) or "-"),
        f"{(connection.first_ns - gathering.first_ns) / 1e9:,.3f}",
        duration(max(activity.last_ns - connection.first_ns, 0)),
        f"{activity.frames[client]:,} {activity.frames[1 - client]:,}",
        f"{activity.length[client]:,} {activity.length[1 - client]:,}",
        "" if health is None else _round_trip(health),
        "" if health is None else _health(health),
        cell(identity.end_text(connection, activity.client)),
    )


def _round_trip(health: ConnectionHealth) -> str:
    medians = [direction.rtt.percentile(500) for direction in health.directions if direction.rtt.count]
    return duration(max(medians)) if medians else "-"


def _health(health: ConnectionHealth) -> str:
    """Describe what is unusual."""
    parts = []
    repeated = sum(direction.timeouts + direction.number_of(FAST_RETRANSMISSION) for direction in health.directions)
    if repeated:
        parts.append(f"{repeated:,} of {sum(each.packets for each in health.directions):,} packets sent again")
    closed = sum(direction.zero_window_ns for direction in health.directions)
    if closed:
        parts.append(f"window closed for {duration(closed)}")
    return ", ".join(parts) or "good"


def commands(gathering: Gathering) -> PageTable:
    """Types of messages, the most frequent first."""
    ordered = sorted(gathering.commands.items(), key=lambda item: (-item[1].frames, item[0][1]))
    rows = []
    for (protocol, kind, sender), command in ordered[:MAX_ROWS]:
        counts = f"{command.frames:,}", f"{command.length:,}", *_spread(command.latency)
        unanswered = max(command.requests - command.latency.count, 0)
        bad = (f"{count:,}" if count else "" for count in (unanswered, command.refused))
        rows.append(("", (cell(protocol or "-"), cell(kind), sender or "-", *counts, *bad)))
    answers = "answers", "p50", "p90", "p99", "max", "no answer", "refused"
    return PageTable(
        "commands",
        ("protocol", "type", "from", "frames", "bytes", *answers),
        rows,
        len(ordered) - len(rows),
        "Latencies are from a message to its answer. No answer: asked for one, and none was seen in the capture.",
    )


def _spread(times: Distribution) -> tuple[str, ...]:
    if not times.count:
        return ("",) * 5
    values = [times.percentile(500), times.percentile(900), times.percentile(990), times.largest]
    return (f"{times.count:,}", *(duration(value) for value in values))


def streams(gathering: Gathering) -> PageTable:
    """Streams, topics, subjects and segments, those with most bytes first."""
    ordered = sorted(gathering.streams.items(), key=lambda item: (-item[1].size, item[0]))
    rows = []
    for (protocol, topic), one in ordered[:MAX_ROWS]:
        counts = (f"{each[operation]:,}" for operation in (PUBLISH, DELIVER) for each in (one.messages, one.length))
        rows.append(("", (cell(protocol), cell(topic) or "-", *counts)))
    return PageTable(
        "streams",
        ("protocol", "stream, topic or subject", "published", "bytes", "delivered", "bytes"),
        rows,
        len(ordered) - len(rows),
        "Bytes are of the frames that carried the messages; copies on the way through servers are not counted.",
    )
