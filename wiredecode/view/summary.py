"""One line per frame: plain strings, no rich, since millions of them are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wiredecode.fields import Array, Kind, Number, Struct, plain
from wiredecode.frame import OK, Finding, Frame
from wiredecode.layer import Layer
from wiredecode.view.escape import escape, shorten

FACT_CHARACTERS = 60
"""Longest value of a key fact."""
MAX_FINDINGS = 3
"""Findings named on a line."""
MAX_PREFIXES = 4096
"""Connection prefixes kept ready."""
TYPE_WIDTH = 24

RESET = "\x1b[0m"
COLORS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}
"""By severity; readable on light and dark terminals."""

Renderer = Callable[[Any], str]


class SummaryLines:
    """Makes the lines of one capture; columns widen as addresses get longer.

    The client stands on the left, so that the arrow shows who speaks: ``10.0.0.1:40000 → 10.0.0.2:5552`` is from the
    client, ``←`` from the server.
    """

    def __init__(self, *, color: bool = False) -> None:
        self.color = color
        self._prefixes: dict[tuple[int, int, str | None], str] = {}
        self._widths = [0, 0]
        self._plans: dict[type[Layer] | None, list[tuple[str, tuple[str, ...], Renderer]]] = {}

    def line(self, frame: Frame, first_ns: int) -> str:
        """The line of ``frame``, without newline; ``first_ns`` is when the capture began."""
        key = frame.connection.number, frame.side, frame.sender
        prefix = self._prefixes.get(key) or self._prefix(frame)
        text = (
            f"{frame.number:7d} {(frame.time_ns - first_ns) / 1e9:11.6f}  {prefix}"
            f"{frame.protocol or '-'}  {frame.type or frame.status:{TYPE_WIDTH}}{self.facts(frame)}"
        )
        if frame.latency_ns is not None:
            text += f"  ({frame.latency_ns / 1e6:.3f} ms)"
        text = escape(text.rstrip())
        return text + self._remarks(frame) if frame.findings or frame.status != OK else text

    def facts(self, frame: Frame) -> str:
        """Key facts as `` name=value``, what other frames tell included; not escaped."""
        plan = self._plans.get(frame.layer)
        if plan is None:
            plan = self._plans[frame.layer] = _plan(frame.layer)
        values = frame.values
        text = ""
        for name, path, show in plan:
            value: Any = values
            for step in path:
                value = value.get(step) if value.__class__ is dict else None
            if value is not None:
                text += f" {name}={show(value)}"
        for name, value in frame.generated.items():
            if value is not None and value != "good":
                text += f" {name}={_text(value) if value.__class__ is str else value}"
        return text

    def _prefix(self, frame: Frame) -> str:
        """Connection and addresses."""
        if len(self._prefixes) >= MAX_PREFIXES:
            self._prefixes.clear()
        client = frame.side if frame.sender == "client" else 1 - frame.side if frame.sender else 0
        ends = frame.connection.endpoints
        left, right = ends[client], ends[1 - client]
        widths = [max(self._widths[0], len(left)), max(self._widths[1], len(right))]
        if widths != self._widths:
            self._widths = widths
            self._prefixes.clear()
        arrow = "→" if frame.side == client else "←"
        number = f"#{frame.connection.number}"
        prefix = f"{number:<4} {left:>{widths[0]}} {arrow} {right:<{widths[1]}}  "
        self._prefixes[frame.connection.number, frame.side, frame.sender] = prefix
        return prefix

    def _remarks(self, frame: Frame) -> str:
        text = ""
        if frame.status != OK and frame.type:
            text = self._paint("error" if frame.status == "malformed" else "warning", f"  [{_status(frame)}]")
        for finding in frame.findings[:MAX_FINDINGS]:
            text += self._paint(finding.severity, f"  [{finding.severity}: {remark(finding)}]")
        if len(frame.findings) > MAX_FINDINGS:
            text += f"  [{len(frame.findings) - MAX_FINDINGS} more]"
        return text

    def _paint(self, severity: str, text: str) -> str:
        return f"{COLORS[severity]}{text}{RESET}" if self.color else text


def remark(finding: Finding) -> str:
    """A finding in a few words."""
    return escape(shorten(finding.message, 2 * FACT_CHARACTERS))


def _status(frame: Frame) -> str:
    return f"{frame.status}, {frame.missing} bytes missing" if frame.missing else frame.status


def _plan(layer: type[Layer] | None) -> list[tuple[str, tuple[str, ...], Renderer]]:
    """How the key facts of a layer are shown: (name, path in the values, renderer)."""
    if layer is None:
        return []
    plan = []
    for fact in getattr(layer, "facts", ()):
        path = tuple(fact.split("."))
        plan.append((path[-1], path, _renderer(_kind(layer, path))))
    return plan


def _kind(layer: type[Layer], path: tuple[str, ...]) -> Kind:
    kind = next(plain(kind) for kind in layer.fields_desc if kind.name == path[0])
    return _kind(kind.layer, path[1:]) if isinstance(kind, Struct) and len(path) > 1 else kind


def _renderer(kind: Kind) -> Renderer:
    if isinstance(kind, Array):
        return _count
    if isinstance(kind, Number) and kind.names:
        named = {value: _text(name) for value, name in kind.names.items()}
        return lambda value: named.get(value) or str(value)
    if isinstance(kind, Number) and type(kind).i2repr is Number.i2repr:
        return str
    if isinstance(kind, Number):  # times, truth values, flags
        return lambda value: kind.i2repr(None, value)
    return _text


def _count(value: Any) -> str:
    """Of a bulk array only the count is known, of others the elements."""
    return str(value if value.__class__ is int else len(value))


def _text(value: Any) -> str:
    if value.__class__ is bytes:
        return f"{len(value)} bytes"
    text = shorten(str(value), FACT_CHARACTERS)
    return f'"{text}"' if " " in text or not text else text
