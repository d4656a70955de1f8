"""One line per frame: plain strings without rich, as there can be millions."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from wiredecode.fields import Array, Kind, Number, Struct, plain, redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.fields.layer import Layer
from wiredecode.frames.block import FrameBlock, has_blocks
from wiredecode.frames.escape import escape, shorten, shorten_middle
from wiredecode.frames.frame import MALFORMED, OK, PARTIAL, UNDECODED, Finding, Frame, Inner
from wiredecode.view import theme
from wiredecode.view.theme import paint
from wiredecode.view.times import USUAL, Times

FACT_CHARACTERS = 60
"""Longest value of a key fact."""
NOT_SHOWN = ("good", "liftbridge-default")
"""Generated values that lines omit: good checksums, and the default namespace."""
VARYING = 918273645918273645
"""In place of the value that differs from line to line: no other value has these digits."""
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

    def __init__(self, *, color: bool = False, times: Times = USUAL, apart: bool = False) -> None:
        """``apart``: lines are completed elsewhere, by :meth:`placed`: the widths of columns depend on lines before."""
        self.color, self._apart = color, apart
        self.times = None if times.is_usual else times
        """Form of times; None: seconds since the first packet, which is faster."""
        self._head = "%7d %11.6f%s%s  %-24s%s" if self.times is None else "%7d %s%s%s  %-24s%s"
        self._directions: dict[tuple[int, int, str | None], str] = {}
        self._placed: dict[str, str] = {}
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
            frame.type or frame.shown_type,
            self.facts(frame),
        )
        if frame.latency_ns is not None:
            text += f"  ({frame.latency_ns / 1e6:.3f} ms)"
        if text[-1] == " ":
            text = text.rstrip()
        if frame.findings or frame.status != OK:
            text += self._remarks(frame)
        return text + "\n"

    def placed(self, text: str) -> str:
        """The lines, of the ``text`` of lines apart, in order."""
        placed, parts = self._placed, text.split("\0")
        parts[1::2] = [placed.get(direction) or self._place(direction) for direction in parts[1::2]]
        return "".join(parts)

    def _place(self, direction: str) -> str:
        text = self._aligned(*direction.split("\1"))
        self._placed[direction] = text
        return text

    def of_items(self, items: list[Frame | FrameBlock], line: Callable[[Frame], str]) -> str:
        """The lines of frames and blocks in the order of their numbers; ``line``: makes that of a frame."""
        if has_blocks(items):
            return "".join([text for _, text in self.rows(items, line)])
        items.sort(key=attrgetter("number"))
        return "".join([line(frame) for frame in items if isinstance(frame, Frame)])

    def rows(self, items: list[Frame | FrameBlock], line: Callable[[Frame], str]) -> list[tuple[int, str]]:
        """Numbers and lines, in order."""
        by_number = sorted(items, key=first_number)
        rows: list[tuple[int, str]] = []
        for part in [by_number] if self._apart else self._by_width(by_number):
            for item in part:
                if isinstance(item, Frame):
                    rows.append((item.number, line(item)))
                else:
                    rows += self._block(item)
        rows.sort()
        return rows

    def _by_width(self, items: list[Frame | FrameBlock]) -> Iterator[list[Frame | FrameBlock]]:
        """Divide items where an address is longer than all before it: only later lines are wider."""
        widths, waiting = self._widths, items
        for item in items:
            ends = self._ends(item)
            wider = [max(widths[0], len(ends[0])), max(widths[1], len(ends[1]))]
            if wider != widths:
                widths = wider
                before, waiting = divide(waiting, first_number(item))
                yield before
        yield waiting

    def _block(self, block: FrameBlock) -> Iterator[tuple[int, str]]:
        """Numbers and lines of a block."""
        samples, first_ns = block.samples, block.connection.capture_ns
        assert samples is not None
        facts, mark = facts_of(samples.layer).text, str(VARYING)
        head = f"{self._direction(block)}{block.protocol}  {block.bulk.types[block.kinds[0]]:<24}"
        halves = [
            f"{head}{facts({**values, samples.field: VARYING})}{generated_facts(generated)}".split(mark)
            for values, generated in zip(samples.values, samples.generated, strict=True)
        ]
        seconds = ((block.time_ns - first_ns) / 1e9).tolist()
        rows = zip(block.numbers.tolist(), seconds, samples.which.tolist(), samples.numbers.tolist(), strict=True)
        for number, second, which, value in rows:
            before, after = halves[which]
            yield number, f"{number:7d} {second:11.6f}{before}{value}{after}\n"

    def facts(self, frame: Frame) -> str:
        """Key facts as `` name=value``, also generated ones; escaped."""
        text = facts_of(frame.layer).text(frame.values) if frame.layer is not None else ""
        for inner in frame.inner:
            facts = facts_of(inner.layer)
            if facts:
                text += facts.text(facts.values_of(inner, frame))
        return text + generated_facts(frame.generated) if frame.generated else text

    def pairs(self, frame: Frame) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Key facts as names and values: of the message, and of the message that carries it."""
        by_layer = [[*facts_of(frame.layer).pairs(frame.values)] if frame.layer is not None else []]
        carried = ((facts_of(inner.layer), inner) for inner in frame.inner)
        by_layer += [[*facts.pairs(facts.values_of(inner, frame))] for facts, inner in carried if facts]
        carrier = by_layer.pop(0) if len(by_layer) > 1 else []
        return [*chain.from_iterable(by_layer), *generated_values(frame.generated)], carrier

    def _direction(self, frame: Frame | FrameBlock) -> str:
        """Connection and addresses: the same for all frames of a direction."""
        if len(self._directions) >= MAX_DIRECTIONS:
            self._directions.clear()
        left, (first, second) = left_side(frame), self._ends(frame)
        number, arrow = f"#{frame.connection.number}", "→" if frame.side == left else "←"
        if self._apart:
            text = f"\0{first}\1{arrow}\1{second}\1{number}\0"
        else:
            text = self._aligned(first, arrow, second, number)
        self._directions[frame.connection.number, frame.side, frame.sender] = text
        return text

    def _aligned(self, first: str, arrow: str, second: str, number: str) -> str:
        widths = [max(self._widths[0], len(first)), max(self._widths[1], len(second))]
        if widths != self._widths:
            self._widths = widths
            self._directions.clear()
            self._placed.clear()
        if len(self._placed) >= MAX_DIRECTIONS:
            self._placed.clear()
        return f"  {number:<4} {first:>{widths[0]}} {arrow} {second:<{widths[1]}}  "

    @staticmethod
    def _ends(item: Frame | FrameBlock) -> tuple[str, str]:
        """The addresses, left and right."""
        ends, left = item.connection.named_endpoints, left_side(item)
        return ends[left], ends[1 - left]

    def _remarks(self, frame: Frame) -> str:
        notes = remarks(frame, MAX_FINDINGS)
        text = "".join([paint(f"  {note}", theme.SEVERITY[severity], color=self.color) for severity, note in notes])
        more = len(frame.findings) - MAX_FINDINGS
        return f"{text}  [{more} more]" if more > 0 else text


def first_number(item: Frame | FrameBlock) -> int:
    return item.number if isinstance(item, Frame) else int(item.numbers[0])


def divide(items: list[Frame | FrameBlock], number: int) -> tuple[list[Frame | FrameBlock], list[Frame | FrameBlock]]:
    """Divide items into the frames before a number, and the others."""
    before: list[Frame | FrameBlock] = []
    others: list[Frame | FrameBlock] = []
    for item in items:
        if isinstance(item, Frame):
            (before if item.number < number else others).append(item)
            continue
        count = int(np.searchsorted(item.numbers, number))
        before += [item.part(0, count)] if count else []
        others += [item.part(count, len(item))] if count < len(item) else []
    return before, others


def left_side(frame: Frame | FrameBlock) -> int:
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


class KeyFacts:
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


facts_of = cache(KeyFacts)


def generated_values(generated: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values derived from other frames, as names and values."""
    for name, value in generated.items():
        if value is not None and value not in NOT_SHOWN:
            yield name, generated_text(value)


def generated_facts(generated: Mapping[str, Any]) -> str:
    """The same as text of a line."""
    text = ""
    for name, value in generated.items():
        if value.__class__ is int:
            text += f" {name}={value}"
        elif value is not None and value not in NOT_SHOWN:
            text += f" {name}={fact(value) if value.__class__ is str else generated_text(value)}"
    return text


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
        rendered = {value: _word(name) for value, name in kind.names.items()}
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
    return _word(without_secrets(value, redact))


def _word(text: str) -> str:
    """A text without credentials: escaped, shortened, in quotes unless it is a single word."""
    text = escape(shorten_middle(text, FACT_CHARACTERS))
    return f'"{text}"' if " " in text or not text else text
