"""Write the reference part of the protocol pages from the declarations: ``python docs/make_reference.py``.

Everything below the marker of ``docs/protocols/NAME.md`` is made: messages, fields, findings, limits; and all pages of
``docs/findings``, of the codes of ``wiredecode check``. Tests check that they are current.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

from wiredecode.check.codes import codes
from wiredecode.fields.layer import Layer
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.catalogue import FieldEntry, catalogue, generated_entries
from wiredecode.protocols.registry import carried_by, protocols
from wiredecode.protocols.shared.codes import Code

PAGES = Path(__file__).parent / "protocols"
FINDINGS = Path(__file__).parent / "findings"
SOURCES = Path(inspect.getfile(Protocol)).parent
MARKER = "<!-- Below: made by docs/make_reference.py from the declarations. -->"
SEVERITIES = ("error", "warning", "note")


def pages() -> Iterator[tuple[Path, str]]:
    """``(page, text that it should have)`` of every protocol, and of what NATS carries."""
    for protocol in protocols():
        carried = carried_by(protocol.name)
        inner = {layer for one in carried for layer in one.layers()}
        layers = [layer for layer in protocol.layers() if layer not in inner]
        generated = generated_entries([protocol])
        own = [entry for entry in generated if entry.name.startswith(f"{protocol.name}.")]
        yield page(protocol.name, head(protocol), layers, own)
        for one in carried:
            told = [entry for entry in generated if entry.name in one.generated and entry not in own]
            yield page(one.name, [], one.layers(), told)


def page(
    name: str, first: Iterable[str], layers: Iterable[type[Layer]], generated: Iterable[FieldEntry]
) -> tuple[Path, str]:
    path = PAGES / f"{name}.md"
    written = path.read_text().split(MARKER)[0].rstrip()
    kept = list(layers)
    made = [*first, *messages(kept), *fields(kept, generated), *findings(name), *limits(name)]
    return path, "\n".join([written, "", MARKER, "", "## Reference", "", *made, ""]).rstrip() + "\n"


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
    return ["### Messages", "", *table(("layer", "prefix", "meaning"), rows)]


def fields(layers: Iterable[type[Layer]], generated: Iterable[FieldEntry]) -> list[str]:
    rows = []
    for entry in catalogue(layers):
        unit = f" ({entry.unit})" if entry.unit else ""
        secret = "; secret" if entry.secret else ""
        rows.append((code(entry.name), entry.type, f"{entry.meaning}{unit}{secret}"))
    rows += [(code(entry.name), f"{entry.type}, generated", entry.meaning) for entry in generated]
    return ["### Fields", "", "Filter name, type in records, meaning.", "", *table(("field", "type", "meaning"), rows)]


def sources(name: str) -> Iterator[ast.Module]:
    own = [path.read_text() for path in sorted((SOURCES / name).rglob("*.py"))]
    pairing = any("shared.pairing import" in text and "Outstanding[" in text for text in own)
    shared = ["reading.py", "shared/pairing.py"] if pairing else ["reading.py"]
    yield from map(ast.parse, [*own, *((SOURCES / path).read_text() for path in shared)])


def findings(name: str) -> list[str]:
    """The findings that the protocol's code can make, read off its source."""
    rows = set()
    for node in (node for tree in sources(name) for node in ast.walk(tree)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        words = [arg.value for arg in node.args[:3] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if len(words) == 3 and words[0] in SEVERITIES:
            rows.add((words[0], words[1], code(words[2])))
    ordered = sorted(rows, key=lambda row: (SEVERITIES.index(row[0]), row[1:]))
    return ["### Findings", "", *table(("severity", "group", "code"), ordered)]


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
    return ["### Limits", "", *table(("constant", "value", "meaning"), dict.fromkeys(rows))]


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
    head = ["# Findings", "", "What `wiredecode check` tells, by code. [How to use it](../check.md).", ""]
    yield FINDINGS / "index.md", "\n".join([*head, *table(("code", "severity", "what is wrong"), rows)])
    for one in known:
        yield FINDINGS / f"{one.code}.md", finding_page(one)


def finding_page(one: Code) -> str:
    causes = [f"* {cause}" for cause in one.causes]
    shown = ["", "## See it", "", f"    wiredecode check captures/{one.capture} --severity note", ""]
    parts = [
        f"# {one.code}",
        "",
        f"**{one.severity}**: {one.title}.",
        "",
        one.meaning,
        "",
        "## Usual causes",
        "",
        *causes,
    ]
    return "\n".join([*parts, "", "## What to do", "", one.advice, *(shown if one.capture else [""])])


def main() -> None:
    for path, text in [*pages(), *finding_pages()]:
        path.write_text(text)
        print(path.name, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main()
