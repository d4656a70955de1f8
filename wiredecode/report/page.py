"""The page: what both passes found, as HTML. Whatever comes from the wire goes through jinja's escaping."""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiredecode.check import SEVERITIES
from wiredecode.check.text import evidence
from wiredecode.check.timeline import ERROR, condensed
from wiredecode.frames import who
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.plurals import counted
from wiredecode.report.drawn import drawn
from wiredecode.report.listed import commands, connections, streams
from wiredecode.report.plots import seconds_text
from wiredecode.report.sequence import Sequence, Skipped

if TYPE_CHECKING:
    from wiredecode.frames.totals import Totals
    from wiredecode.report.gather import Gathering

HERE = Path(__file__).parent
MOST_FINDINGS = 100
MOST_EVENTS = 80
MOST_WORDS = 600
"""Characters of one text from the wire."""


@dataclass(frozen=True)
class Source:
    """What the report is about."""

    files: Several[str]
    title: str | None
    totals: Totals
    version: str


def page(gathering: Gathering, source: Source, number: int | None, sequence: Sequence | None) -> str:
    """The whole page; ``number`` is the connection that ``sequence`` shows."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    tables = [connections(gathering), commands(gathering), streams(gathering)]
    names = [Path(name).name for name in source.files]
    events, left_out = happened(gathering)
    shown = findings(gathering)
    return made.get_template("page.html.j2").render(
        title=source.title or f"What {', '.join(names[:3])}{' and others' if len(names) > 3 else ''} shows",
        files=[*source.files[:20], *([f"and {len(source.files) - 20} more"] if len(source.files) > 20 else [])],
        style=Markup((HERE / "page.css").read_text()),
        span=span(gathering),
        contents=[(name, name.capitalize()) for name in ("summary", "findings", "timeline", "plots", "sequence")]
        + [(table.name, table.title) for table in tables],
        tiles=tiles(gathering, source.totals),
        remarks=remarks(source.totals),
        findings=shown,
        untold=gathering.checker.report.untold + len(gathering.problems) - len(shown),
        events=events,
        events_left_out=left_out,
        plots=drawn(gathering),
        sequence=diagram(gathering, number, sequence),
        no_sequence="No connection sent anything that is decoded.",
        tables=tables,
        footer=f"Made by wiredecode {source.version}. Frames are messages of the protocol, numbered as by all its "
        "commands; packets are numbered as Wireshark numbers them. Percentiles are right within 2.2 %. "
        "Passwords and tokens are not on this page; names, addresses and texts of the capture are.",
    )


def span(gathering: Gathering) -> str:
    """When, and how long."""
    if not gathering.first_ns:
        return "no packets"
    seconds, rest = divmod(gathering.first_ns, 1_000_000_000)
    begin = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    lasts = seconds_text((gathering.last_ns - gathering.first_ns) / 1e9)
    return f"from {begin}.{rest // 1_000_000:03d} UTC on, {lasts}"


def tiles(gathering: Gathering, totals: Totals) -> list[dict[str, Any]]:
    """The numbers at a glance; those that are bad first."""
    counts = {name: sum(each.severity == name for each in gathering.problems) for name in SEVERITIES}
    found = [
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
    return found + [{"kind": "", "value": f"{number:,}", "label": label} for number, label in numbers]


def remarks(totals: Totals) -> list[str]:
    """What of the capture is not on the page."""
    texts = []
    if totals.not_decoded:
        reasons = (f"{counted(count, 'packet')} {why}" for why, count in totals.not_decoded.most_common(5))
        texts.append(f"Not decoded: {', '.join(reasons)}.")
    for (name, port), size in totals.other.most_common(5):
        spoken = "an unknown protocol" if name == "unknown" else name
        texts.append(f"Port {port}: {spoken}, {size:,} bytes, not decoded.")
    if totals.limits:
        texts.append(f"Limits were reached: {', '.join(totals.limits)}.")
    return texts


def findings(gathering: Gathering) -> list[dict[str, Any]]:
    """Findings as the page shows them; what a code means stands at its first one."""
    explained: set[str] = set()
    found = []
    for problem in gathering.problems[:MOST_FINDINGS]:
        found.append(
            {
                "severity": problem.severity,
                "name": cut(problem.name),
                "what": cut(problem.what),
                "details": [cut(text) for text in problem.details],
                "evidence": evidence(problem, gathering.first_ns),
                "connections": [(number, cut(text)) for number, text in sorted(problem.connections.items())],
                "meaning": "" if problem.code.code in explained else problem.code.meaning,
                "causes": problem.code.causes,
                "advice": problem.code.advice,
            }
        )
        explained.add(problem.code.code)
    return found


def happened(gathering: Gathering) -> tuple[list[dict[str, str]], int]:
    """What changed and what went wrong, in order of time; and how many of the changes are left out."""
    span_ns = max(gathering.last_ns - gathering.first_ns, 1)
    changes, left_out = condensed(gathering.events, span_ns, MOST_EVENTS)
    found = [(each.time_ns, each.kind, "error" if each.kind == ERROR else "", each.what) for each in changes]
    found += [
        (problem.first_ns, problem.severity, problem.severity, problem.what)
        for problem in gathering.problems[:MOST_FINDINGS]
        if problem.first_ns is not None and problem.severity != "note"
    ]
    found.sort(key=lambda each: each[0])
    return [
        {
            "time": f"{(time_ns - gathering.first_ns) / 1e9:,.6f}",
            "kind": kind,
            "severity": severity,
            "text": cut(text),
        }
        for time_ns, kind, severity, text in found
    ], left_out + gathering.timeline.untold


def diagram(gathering: Gathering, number: int | None, sequence: Sequence | None) -> dict[str, Any] | None:
    """The sequence diagram of one connection."""
    if sequence is None or number is None or number not in gathering.connections or not sequence.items:
        return None
    activity = gathering.connections[number]
    client, ends = activity.client_side, activity.connection.called
    return {
        "title": f"Connection #{number}: {cut(who.describe(activity.connection))}",
        "note": f"{sequence.frames:,} frames; shown are the first ones of each type, those with findings, those that "
        f"are evidence (shaded), and the last ones. wiredecode follow FILE -n {number} shows all.",
        "client": f"client {ends[client]}",
        "server": f"server {ends[1 - client]}",
        "steps": [
            {"skipped": skipped(each)} if isinstance(each, Skipped) else step(each, gathering.first_ns)
            for each in sequence.items
        ],
    }


def skipped(item: Skipped) -> str:
    """``1,234 frames more in 2.5 s: 617 Publish, 617 PublishConfirm``."""
    types = ", ".join(f"{count:,} {cut(name)}" for name, count in item.types.most_common(6))
    return f"{item.count:,} frames more in {seconds_text((item.last_ns - item.first_ns) / 1e9)}: {types}"


def step(each: Any, first_ns: int) -> dict[str, Any]:
    """One message of the diagram."""
    remark = []
    if each.latency_ns is not None:
        remark.append(f"{seconds_text(each.latency_ns / 1e9)} after frame {each.request}")
    if each.status:
        remark.append(each.status)
    time = f"{(each.time_ns - first_ns) / 1e9:,.6f}"
    return {**asdict(each), "skipped": "", "time": time, "remark": ", ".join(remark)}


def cut(text: str) -> str:
    """Text that may come from the wire: one line, no control characters, not endless."""
    return shorten(escape(text), MOST_WORDS)
