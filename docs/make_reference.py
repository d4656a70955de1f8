"""Write docs/reference from the declarations: ``python docs/make_reference.py``.

One page per protocol (messages, fields, values, findings, limits), the names of filters, the columns of all tables, the
limits of reassembly, metrics, and a page per problem that ``wiredecode check`` reports. Tests check them.
``make_man.py`` writes the page of commands, ``make_keys.py`` that of keys.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from prometheus_client import Metric

from wiredecode.capture import open_capture
from wiredecode.check.codes import codes
from wiredecode.check.live import Watch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Layer
from wiredecode.frames.columns import COLUMNS
from wiredecode.metrics.instruments import Instruments
from wiredecode.metrics.readers import prometheus
from wiredecode.metrics.series import LabelSets
from wiredecode.net import limits as net_limits
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.catalogue import FRAME_ENTRIES, FieldEntry, catalogue, generated_entries
from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.codes import Code
from wiredecode.stats.tables import choose_statistics
from wiredecode.tables.schema import declared_columns

WRITTEN = Path(__file__).parent / "protocols"
PAGES = Path(__file__).parent / "reference"
FINDINGS = PAGES / "findings"
SOURCES = Path(inspect.getfile(Protocol)).parent
MADE = "<!-- Made by docs/make_reference.py: change the declarations, not this page. -->"
SEVERITIES = ("error", "warning", "note")
CAPTURES = Path(__file__).parents[1] / "captures"
METRICS_CAPTURES = (
    *("stories/publishes-refused.pcap", "stories/broker-killed.pcap", "stories/slow-consumer.pcap.zst"),
    *("stories/credit-starvation.pcap", "nats/13-jetstream.pcap", "pravega/midstream.pcap"),
)
OPEN_AT = 50
"""At this frame connections are open; at the end they are not."""
UNITLESS = "1"


def pages() -> Iterator[tuple[Path, str]]:
    """``(page, text that it should have)`` of all but the findings."""
    for protocol in protocols():
        carried = carried_by(protocol.name)
        inner = {layer for one in carried for layer in one.layers()}
        layers = [layer for layer in protocol.layers() if layer not in inner]
        generated = generated_entries([protocol])
        own = [entry for entry in generated if entry.name.startswith(f"{protocol.name}.")]
        yield protocol_page(protocol.name, head(protocol), layers, own)
        for one in carried:
            told = [entry for entry in generated if entry.name in one.generated and entry not in own]
            yield protocol_page(one.name, [], one.layers(), told)
    yield page(
        "filters", "Names in filters", ["Every frame has these names. [How to use them](../filters.md).", ""], names()
    )
    yield page("tables", "Columns of tables", ["[How to use them](../tables.md).", ""], tables())
    yield page("limits", "Limits", ["`--limit NAME=VALUE` changes a limit.", ""], reassembly_limits())
    yield page("metrics", "Metrics", METRICS, metrics())
    yield page("index", "Reference", INDEX, [])


def page(name: str, title: str, first: Iterable[str], rest: Iterable[str]) -> tuple[Path, str]:
    return PAGES / f"{name}.md", "\n".join([f"# {title}", "", MADE, "", *first, *rest]).rstrip() + "\n"


def protocol_page(
    name: str, first: Iterable[str], layers: Iterable[type[Layer]], generated: Iterable[FieldEntry]
) -> tuple[Path, str]:
    written = (WRITTEN / f"{name}.md").read_text()
    title = written.partition("\n")[0].removeprefix("# ")
    kept = list(layers)
    made = [*messages(kept), *fields(kept, generated), *values(kept), *findings(name), *limits(name)]
    return page(name, f"{title}: reference", [f"[About the protocol](../protocols/{name}.md).", "", *first], made)


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *lines, ""] if lines else []


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def code(text: str) -> str:
    return f"`{text}`"


def head(protocol: Protocol) -> list[str]:
    ports = ", ".join(map(str, protocol.ports)) or "none"
    tls = f"; with TLS {', '.join(map(str, protocol.tls_ports))}" if protocol.tls_ports else ""
    dialects = f" Dialects: {', '.join(map(code, protocol.dialects))}." if protocol.dialects else ""
    return [f"Name {code(protocol.name)}, ports {ports}{tls}.{dialects}", ""]


def messages(layers: Iterable[type[Layer]]) -> list[str]:
    rows = []
    for layer in dict.fromkeys(layers):
        doc = inspect.cleandoc(layer.__doc__ or "").split("\n\n")[0] if "__doc__" in vars(layer) else ""
        rows.append((code(layer.__name__), code(layer.filter_name), doc if layer.__doc__ else ""))
    return ["## Messages", "", *table(("layer", "prefix", "meaning"), rows)]


def fields(layers: Iterable[type[Layer]], generated: Iterable[FieldEntry]) -> list[str]:
    rows = []
    for entry in catalogue(layers):
        unit = f" ({entry.unit})" if entry.unit else ""
        secret = "; secret" if entry.secret else ""
        rows.append((code(entry.name), entry.type, f"{entry.meaning}{unit}{secret}"))
    rows += [(code(entry.name), f"{entry.type}, generated", entry.meaning) for entry in generated]
    return ["## Fields", "", "Filter name, type in records, meaning.", "", *table(("field", "type", "meaning"), rows)]


def values(layers: Iterable[type[Layer]]) -> list[str]:
    """Names of numbers; fields with the same names share a row."""
    shared: dict[str, list[str]] = {}
    for entry in catalogue(layers):
        if entry.values:
            named = ", ".join(f"{number} {name}" for number, name in sorted(entry.values.items()))
            shared.setdefault(named, []).append(code(entry.name))
    rows = [(", ".join(dict.fromkeys(where)), named) for named, where in shared.items()]
    return ["## Values", "", *table(("field", "names of its numbers"), rows)] if rows else []


def names() -> list[str]:
    rows = [(code(entry.name), entry.type, entry.meaning) for entry in FRAME_ENTRIES]
    return table(("name", "type", "meaning"), rows)


def tables() -> Iterator[str]:
    heads = ("column", "type", "meaning")
    yield from ("## frames", "", *table(heads, [(code(one.name), one.kind, one.comment) for one in COLUMNS]))
    for name in ("messages", "packets", "connections", "flows", "problems", "hops"):
        rows = [(code(column), kind, meaning) for column, (kind, meaning) in declared_columns()[name].items()]
        yield from (f"## {name}", "", *table(heads, rows))
    yield from ("## Statistics", "", "`wiredecode stats --table NAME`.", "")
    for one in choose_statistics(None):
        yield from (
            f"### {one.name}",
            "",
            f"{one.title[0].upper()}{one.title[1:]}.",
            "",
            ", ".join(map(code, (*one.columns, *one.facts))),
            "",
        )


def reassembly_limits() -> list[str]:
    """The fields of ``Limits`` with their defaults and comments."""
    tree = next(node for node in ast.parse(inspect.getsource(net_limits)).body if isinstance(node, ast.ClassDef))
    defaults = asdict(net_limits.Limits())
    rows = []
    for one, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(text, ast.Expr) and ast.unparse(one.target) in defaults:
            limit = ast.unparse(one.target)
            rows.append((code(limit), f"{defaults[limit]:,}", ast.literal_eval(text.value)))
    return table(("limit", "default", "meaning"), rows)


METRICS = (
    "Names in Prometheus and OpenMetrics. By OTLP they have dots, and neither unit nor `_total`. "
    "[How to use them](../live.md#metrics).",
    "",
)


def metrics() -> list[str]:
    """Metrics and their labels, from the instruments for captures that have all metrics."""
    rows: dict[str, tuple[str, str, str]] = {}
    labels: dict[str, dict[str, None]] = {}
    for capture in METRICS_CAPTURES:
        for family in families(CAPTURES / capture):
            suffix = "_total" if family.type == "counter" else ""
            rows[f"{family.name}{suffix}"] = family.type, family.unit, family.documentation
            for sample in family.samples:
                labels.setdefault(f"{family.name}{suffix}", {}).update(dict.fromkeys(sample.labels))
    heads = ("name", "type", "unit", "labels", "meaning")
    made = [
        (code(name), kind, unit or UNITLESS, ", ".join(map(code, sorted(labels[name].keys() - {"le"}))), meaning)
        for name, (kind, unit, meaning) in sorted(rows.items())
        if labels.get(name) is not None and name != "target_info"
    ]
    return table(heads, made)


def families(capture: Path) -> Iterator[Metric]:
    """The samples of a scrape during and after a capture."""
    (reader, registry), watch = prometheus(), Watch(groups=True)
    checker = watch.checker
    found = (lambda: watch.problems), (lambda: watch.backlogs)
    instruments = Instruments([reader], LabelSets(2000), checker, *found, lambda: {"received": 0})
    demand = checker.demand(Demand())
    dissector = Dissector(demand, on_end=checker.end, on_decoded=instruments.end)
    for frame in dissector.frames(open_capture([str(capture)])):
        checker.frame(frame)
        instruments.frame(frame)
        if frame.number == OPEN_AT:
            yield from registry.collect()
    checker.exchanges.expire()
    watch.finish()
    yield from registry.collect()


SHARED = {"shared/pairing.py": "Outstanding[", "shared/maps.py": "FieldTable"}
"""Modules that make findings for the protocols whose source has a word."""


def sources(name: str) -> Iterator[ast.Module]:
    own = [path.read_text() for path in sorted((SOURCES / name).rglob("*.py"))]
    shared = [path for path, word in SHARED.items() if any(word in text for text in own)]
    yield from map(ast.parse, [*own, *((SOURCES / path).read_text() for path in ("reading.py", *shared))])


def findings(name: str) -> list[str]:
    """The findings that the protocol's code can make, read off its source."""
    found: dict[tuple[str, str, str], set[str]] = {}
    for function in (node for tree in sources(name) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        for call in calls:
            words = [str(each.value) for each in call.args[:3] if isinstance(each, ast.Constant)]
            if len(words) == 3 and words[0] in SEVERITIES:
                text = call.args[3] if len(call.args) > 3 else None
                said = wording(assigned(function, text) if isinstance(text, ast.Name) else text)
                found.setdefault((words[0], words[1], code(words[2])), set()).add(said)
    ordered = sorted(found.items(), key=lambda row: (SEVERITIES.index(row[0][0]), row[0][1:]))
    rows = [(*row, "; ".join(sorted(said - {""}))) for row, said in ordered]
    return ["## Findings", "", *table(("severity", "group", "code", "message"), rows)]


def assigned(function: ast.FunctionDef, name: ast.Name) -> ast.expr | None:
    """The last value assigned to the name before the line that uses it."""
    before = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name.id and node.lineno < name.lineno
    ]
    return max(before, key=lambda node: node.lineno).value if before else None


def wording(node: ast.expr | None) -> str:
    """A literal text, with an ellipsis in place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def limits(name: str) -> list[str]:
    """The documented numbers among the constants of the protocol's modules."""
    rows = []
    for tree in sources(name):
        for constant, text in zip(tree.body, tree.body[1:], strict=False):
            target = constant.targets[0] if isinstance(constant, ast.Assign) else None
            if not isinstance(target, ast.Name) or not target.id.isupper():
                continue
            if not isinstance(text, ast.Expr) or not isinstance(text.value, ast.Constant):
                continue
            value = number(constant.value)
            if value is not None:
                rows.append((code(target.id), f"{value:,}", str(text.value.value)))
    return ["## Limits", "", *table(("constant", "value", "meaning"), dict.fromkeys(rows))]


def number(node: ast.expr) -> int | None:
    """The value of an integer constant, or of a product or shift of such."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.LShift):
        left, right = number(node.left), number(node.right)
        if left is not None and right is not None:
            return left * right if isinstance(node.op, ast.Mult) else left << right
    return None


def finding_pages() -> Iterator[tuple[Path, str]]:
    """``(page, text that it should have)`` of every code of a problem, and of their list."""
    known = sorted(codes(), key=lambda one: (SEVERITIES.index(one.severity), one.code))
    rows = [(f"[{one.code}]({one.code}.md)", one.severity, one.title) for one in known]
    head = [
        "# Findings",
        "",
        MADE,
        "",
        "Problems that `wiredecode check` reports. [How to use it](../../check.md).",
        "",
    ]
    yield FINDINGS / "index.md", "\n".join([*head, *table(("code", "severity", "problem"), rows)])
    for one in known:
        yield FINDINGS / f"{one.code}.md", finding_page(one)


def finding_page(one: Code) -> str:
    causes = [f"* {cause}" for cause in one.causes]
    shown = ["", "## See it", "", f"    wiredecode check captures/{one.capture} --severity note", ""]
    parts = [
        f"# {one.code}",
        "",
        MADE,
        "",
        f"**{one.severity}**: {one.title}.",
        "",
        f"{one.meaning} {one.otherwise}".rstrip(),
        "",
        "## Usual causes",
        "",
        *causes,
    ]
    return "\n".join([*parts, "", "## What to do", "", one.advice, *(shown if one.capture else [""])])


INDEX = (
    "These pages are generated from the declarations in the code, so they are always current. Do not edit them.",
    "",
    "| page | made by |",
    "|---|---|",
    "| [Commands and options](commands.md) | `docs/make_man.py` |",
    "| [Keys of the full screen](keys.md) | `docs/make_keys.py` |",
    "| [Names in filters](filters.md), [columns](tables.md), [limits](limits.md) | `docs/make_reference.py` |",
    "| [Findings](findings/index.md), [metrics](metrics.md) | `docs/make_reference.py` |",
    "| [RabbitMQ Stream](rabbitmq_stream.md), [NATS](nats.md), [Liftbridge](liftbridge.md), [TANK](tank.md), "
    "[Cursus](cursus.md), [Pravega](pravega.md), [Kafka](kafka.md) | `docs/make_reference.py` |",
    "| [Measurements](measurements.md) | `python -m tests.bench --write` |",
    "",
    "`wiredecode fields NAME` prints the same about fields, `wiredecode COMMAND --help` about options.",
)


def main() -> None:
    FINDINGS.mkdir(parents=True, exist_ok=True)
    for path, text in [*pages(), *finding_pages()]:
        path.write_text(text)
        print(path.name, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main()
