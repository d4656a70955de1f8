"""Which plots there are: those for which the capture has data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wiredecode.frames.escape import escape, shorten
from wiredecode.protocols.shared.gauges import CREDIT, LAG
from wiredecode.report.gather import CLOSED, DELIVERED, FROM_CLIENT, FROM_SERVER, FROM_UNKNOWN, OPENED, PUBLISHED
from wiredecode.report.plots import MOST_LINES, PERCENTILES, Plots, seconds_text

if TYPE_CHECKING:
    from wiredecode.report.gather import Gathering

GAUGES = {
    CREDIT: ("credit", "Credit of consumers", "What they may still be sent; at 0 the broker waits."),
    LAG: ("lag", "Lag", "Messages that consumers or replicas are behind what is committed."),
}


def drawn(gathering: Gathering) -> list[dict[str, Any]]:
    """Name, title, note, legend and SVG of each plot."""
    from markupsafe import Markup

    plots = Plots(gathering.first_ns, gathering.last_ns)
    found: list[dict[str, Any]] = []

    def add(name: str, title: str, note: str, legend: list[str], svg: str) -> None:
        found.append({"name": name, "title": title, "note": note, "legend": legend, "svg": Markup(svg)})

    def rates(name: str, title: str, label: str, kinds: dict[int, str]) -> None:
        sums = gathering.sums()
        used = {column: text for column, text in kinds.items() if sums[column]}
        if used:
            svg, width = plots.rates(gathering.by_time, list(used), label)
            add(name, title, f"Per second, each step is {seconds_text(width / 1e9)}.", list(used.values()), svg)

    sides = {FROM_CLIENT: "from clients", FROM_SERVER: "from servers", FROM_UNKNOWN: "sender unknown"}
    rates("throughput", "Throughput", "bytes/s", sides)
    rates("messages", "Messages", "messages/s", {PUBLISHED: "published", DELIVERED: "delivered"})
    if gathering.latency.counts(1, gathering.last_ns)[0].any():
        svg, width = plots.percentiles(gathering.latency)
        note = f"From a request to its answer, in each {seconds_text(width / 1e9)}, right within 5 %."
        add("latency", "Latency", note, [f"p{percent}" for percent in PERCENTILES], svg)
        note = "How many answers took how long: the stronger, the more; the scale is logarithmic."
        add("heat", "Latency, heat map", note, [], plots.heat(gathering.latency))
    for what, (name, title, note) in GAUGES.items():
        series = {of: each for (kind, of), each in gathering.series.items() if kind == what and each.shown}
        chosen = sorted(series, key=lambda of: (-series[of].changes, of))[:MOST_LINES]
        if chosen:
            more = f" The {len(chosen)} busiest of {len(series)}." if len(series) > len(chosen) else ""
            svg = plots.series([series[of] for of in chosen], name)
            add(name, title, note + more, [shorten(escape(of), 120) for of in chosen], svg)
    if gathering.sums()[OPENED] > 1:
        svg = plots.levels(gathering.by_time, OPENED, CLOSED)
        add("connections-open", "Connections", "That were seen: from the first packet to the last.", [], svg)
    return found
