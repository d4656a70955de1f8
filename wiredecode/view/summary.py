"""One line per frame: plain strings without rich, as there can be millions."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from itertools import chain
from typing import Any

from wiredecode.fields import Array, Kind, Number, Struct, plain, redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.layer import Layer
from wiredecode.frames.escape import escape, shorten, shorten_middle
from wiredecode.frames.frame import MALFORMED, OK, PARTIAL, UNDECODED, Finding, Frame, Inner
from wiredecode.view import theme
from wiredecode.view.theme import paint
from wiredecode.view.times import USUAL, Times

FACT_CHARACTERS = 60
"""Longest value of a key fact."""
NOT_SHOWN = ("good", "liftbridge-default")
"""Generated values that lines omit: good checksums, and the default namespace."""
MAX_FINDINGS = 3
"""Findings named on a line."""
MISSING: Any = object()
"""In place of an absent value."""
STATUS_SEVERITY = {PARTIAL: "warning", UNDECODED: "warning", MALFORMED: "error"}
MAX_DIRECTIONS = 16384
"""Directions whose part of the line is remembered."""


class SummaryLines:
    """Makes the lines of one capture; columns widen as addresses get longer.

    The client is on the left: ``10.0.0.1:40000 → 10.0.0.2:5552`` is from the client, ``←`` from the server.
    """

    def __init__(self, *, color: bool = False, times: Times = USUAL) -> None:
        self.color = color
        self.times = None if times.is_usual else times
        """Form of times; None: seconds since the first packet, which is faster."""
        self._head = "%7d %11.6f%s%s  %-24s%s" if self.times is None else "%7d %s%s%s  %-24s%s"
        self._directions: dict[tuple[int, int, str | None], str] = {}
        self._widths = [0, 0]

    def line(self, frame: Frame) -> str:
        """The line of ``frame``, with its newline."""
        times, first_ns = self.times, frame.connection.capture_ns
        key = frame.connection.number, frame.side, frame.sender
        text = self._head % (  # half the time of an f-string
            frame.number,
            (frame.time_ns - first_ns) / 1e9 if times is None else times.column(frame.time_ns, first_ns),
            self._directions.get(key) or self._direction(frame),
            frame.protocol or "-",
            frame.shown_type,
            self.facts(frame),
        )
        if frame.latency_ns is not None:
            text += f"  ({frame.latency_ns / 1e6:.3f} ms)"
        if text[-1] == " ":
            text = text.rstrip()
        if frame.findings or frame.status != OK:
            text += self._remarks(frame)
        return text + "\n"

    def facts(self, frame: Frame) -> str:
        """Key facts as `` name=value``, also generated ones; escaped."""
        text = facts_of(frame.layer).text(frame.values) if frame.layer is not None else ""
        for inner in frame.inner:
            facts = facts_of(inner.layer)
            if facts:
                text += facts.text(facts.values_of(inner, frame))
        for name, value in frame.generated.items():
            if value.__class__ is int:
                text += f" {name}={value}"
            elif value is not None and value not in NOT_SHOWN:
                text += f" {name}={generated_text(value)}"
        return text

    def pairs(self, frame: Frame) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Key facts as names and values: of the message, and of the message that carries it."""
        by_layer = [[*facts_of(frame.layer).pairs(frame.values)] if frame.layer is not None else []]
        carried = ((facts_of(inner.layer), inner) for inner in frame.inner)
        by_layer += [[*facts.pairs(facts.values_of(inner, frame))] for facts, inner in carried if facts]
        carrier = by_layer.pop(0) if len(by_layer) > 1 else []
        return [*chain.from_iterable(by_layer), *generated_values(frame.generated)], carrier

    def _direction(self, frame: Frame) -> str:
        """Connection and addresses: the same for all frames of a direction."""
        if len(self._directions) >= MAX_DIRECTIONS:
            self._directions.clear()
        ends = frame.connection.named_endpoints
        left = left_side(frame)
        widths = [max(self._widths[0], len(ends[left])), max(self._widths[1], len(ends[1 - left]))]
        if widths != self._widths:
            self._widths = widths
            self._directions.clear()
        number, arrow = f"#{frame.connection.number}", "→" if frame.side == left else "←"
        text = f"  {number:<4} {ends[left]:>{widths[0]}} {arrow} {ends[1 - left]:<{widths[1]}}  "
        self._directions[frame.connection.number, frame.side, frame.sender] = text
        return text

    def _remarks(self, frame: Frame) -> str:
        notes = remarks(frame, MAX_FINDINGS)
        text = "".join([paint(f"  {note}", theme.SEVERITY[severity], color=self.color) for severity, note in notes])
        more = len(frame.findings) - MAX_FINDINGS
        return f"{text}  [{more} more]" if more > 0 else text


def left_side(frame: Frame) -> int:
    """The endpoint on the left: the client, if it is known."""
    return frame.side if frame.sender == "client" else 1 - frame.side if frame.sender else 0


def remark(finding: Finding) -> str:
    """A finding in a few words."""
    return escape(shorten(finding.message, 2 * FACT_CHARACTERS))


def remarks(frame: Frame, most: int | None = None) -> list[tuple[str, str]]:
    """Severity and text of the problems of a frame: its status, and its first findings."""
    notes = [(each.severity, f"[{each.severity}: {remark(each)}]") for each in frame.findings[:most]]
    if frame.status != OK and frame.type:
        notes.insert(0, (STATUS_SEVERITY[frame.status], f"[{status_text(frame)}]"))
    return notes


def worst_of(frame: Frame) -> str:
    """The worst severity of a frame's status and findings, or ""."""
    severities = {finding.severity for finding in frame.findings} | {STATUS_SEVERITY.get(frame.status)}
    return next((severity for severity in theme.SEVERITY if severity in severities), "")


def status_text(frame: Frame) -> str:
    return f"{frame.status}, {frame.missing} bytes missing" if frame.missing else frame.status


class Facts:
    """The key facts of a layer (``Layer.facts``: paths of fields) as `` name=value name=value``.

    Arrays show their number of elements, in the words of a filter: `` count(messages)=20``.
    """

    def __init__(self, layer: type[Layer]) -> None:
        declared = {kind.name for kind in layer.fields_desc}
        self._defaults = {name: layer.defaults[name] for name in layer.shown_defaults}
        paths = [tuple(path.split(".")) for path in getattr(layer, "facts", ())]
        paths = [path for path in paths if path[0] in declared]  # older layouts have fewer
        kinds = [_kind(layer, path) for path in paths]
        self._fields = [
            (f"count({path[-1]})" if isinstance(kind, Array) else path[-1], path, _renderer(kind))
            for path, kind in zip(paths, kinds, strict=True)
        ]

    def __bool__(self) -> bool:
        return bool(self._fields)

    def values_of(self, inner: Inner, frame: Frame) -> Mapping[str, Any]:
        """The values of the layer inside a frame, with shown defaults."""
        values = inner.read(damaged=True)
        return self._defaults | dict(values) if self._defaults and frame.status == OK else values

    @cached_property
    def text(self) -> Callable[[Mapping[str, Any]], str]:
        """Function from values to the text of the facts that are present: one generated expression, as it is hot."""
        namespace: dict[str, Any] = {"MISSING": MISSING}
        pieces = []
        for index, (name, path, show) in enumerate(self._fields):
            value = f"v.get({path[0]!r}, MISSING)"
            for step in path[1:]:
                value = f"(x.get({step!r}, MISSING) if isinstance(x := {value}, dict) else MISSING)"
            namespace[f"show{index}"] = show
            shown = "x" if show is str else f"show{index}(x)"
            if show is _any:
                shown = f"x if x.__class__ is int else {shown}"
            pieces.append(f"(f' {name}={{{shown}}}' if (x := {value}) is not MISSING else '')")
        code = f"lambda v: {' + '.join(pieces) or repr('')}"
        function: Callable[[Mapping[str, Any]], str] = eval(code, namespace)
        return function

    def pairs(self, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Names and values of the facts that are present."""
        for name, path, show in self._fields:
            value: Any = values
            for step in path:
                value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
            if value is not MISSING:
                yield name, show(value)


facts_of = cache(Facts)


def generated_values(generated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values derived from other frames, as names and values."""
    for name, value in generated.items():
        if value is not None and value not in NOT_SHOWN:
            yield name, generated_text(value)


def generated_text(value: Any) -> str:
    return fact(value) if isinstance(value, str) else words(value)


def _kind(layer: type[Layer], path: tuple[str, ...]) -> Kind:
    kind = next(plain(kind) for kind in layer.fields_desc if kind.name == path[0])
    return _kind(kind.layer, path[1:]) if isinstance(kind, Struct) and len(path) > 1 else kind


def _renderer(kind: Kind) -> Callable[[Any], str]:
    if kind.secret:
        return redact
    if isinstance(kind, Array):
        return _count
    if isinstance(kind, Number) and kind.names:
        rendered = {value: fact(name) for value, name in kind.names.items()}
        return lambda value: rendered.get(value) or str(value)
    if isinstance(kind, Number) and type(kind).readable is Number.readable:
        return str
    if isinstance(kind, Number):  # times, truth values, flags
        return lambda value: fact(kind.readable(value))
    if kind.tagged or kind.column not in ("string", "binary"):
        return _any
    return fact


def _any(value: Any) -> str:
    """A value of a textual kind, such as a decimal number, a list of tokens or a member of JSON."""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return fact(",".join(map(str, value)))
    return fact(value if value is None or isinstance(value, str | bytes) else str(value))


def _count(value: Any) -> str:
    """Number of elements; values of bulk arrays are counts already."""
    return str(value if value.__class__ is int else len(value))


def words(value: Any) -> str:
    """A number or truth value as in JSON; texts joined by commas."""
    if value.__class__ is list and value and isinstance(value[0], str):
        return fact(", ".join(value))
    return str(value).lower() if value.__class__ is bool else str(value)


@lru_cache(maxsize=4096)
def fact(value: str | bytes | None) -> str:
    """A value for a line: escaped, shortened, without credentials, in quotes unless it is a single word."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text = escape(shorten_middle(without_secrets(value, redact), FACT_CHARACTERS))
    return f'"{text}"' if " " in text or not text else text
