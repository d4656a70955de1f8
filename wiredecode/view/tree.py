"""A frame as a rich tree: its Scapy layer field by field, and values derived from other frames."""

from collections.abc import Mapping
from typing import Any, cast

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from wiredecode.budget import BUDGET, CAREFUL_BYTES
from wiredecode.dataclasses import dataclass
from wiredecode.fields import Array, Binary, Kind, Number, Struct, plain, redact
from wiredecode.fields.layer import Layer, Range
from wiredecode.fields.maps import Map
from wiredecode.frames.escape import counted, escape
from wiredecode.frames.frame import OK, Finding, Frame, Inner
from wiredecode.frames.identity import label
from wiredecode.frames.record import rfc3339
from wiredecode.protocols.shared.amqp import AmqpNode, message
from wiredecode.protocols.shared.amqp import plain as plain_value
from wiredecode.protocols.shared.amqp.constructors import Category
from wiredecode.view import theme
from wiredecode.view.hexdump import hexdump, hidden_ranges
from wiredecode.view.summary import SummaryLines
from wiredecode.view.theme import DEFAULT, TreeOptions
from wiredecode.view.values import Line, Raw, add_more, bare_text, bytes_text, field_line, value_text, with_range

INLINE_FIELDS = 4
INLINE_CHARACTERS = 90
"""An element with at most this many characters of plain fields is on one line."""
TOO_LONG = "... more lines than the tree of one frame may have (--json shows all)"
NULL = 0x40
"""Constructor of null in AMQP: an optional field that was left out."""
NO_SPANS: Mapping[str, Range | None] = {}


class TooLong(Exception):
    """The budget of a frame has no room for more lines."""


class BoundedTree(Tree):
    """A tree whose lines are counted: rich takes a kilobyte for each."""

    def add(self, label: RenderableType, **_: Any) -> Tree:
        """Raises :class:`TooLong`."""
        if not BUDGET.own.take(CAREFUL_BYTES):
            raise TooLong
        return _branch(self, label)


def frame_tree(frame: Frame, options: TreeOptions = DEFAULT, style: str = "") -> RenderableType:
    """Tree of a frame dissected with ``Style(Raw)``; its labels are lines. ``style``: of the first one."""
    title = _title(frame, options.times.label(frame.time_ns, frame.connection.capture_ns))
    title.stylize(style)
    tree = Tree(title, guide_style="dim")
    tree.add(_position(frame))
    layer = frame.layer(frame.data) if frame.layer is not None else None
    if layer is not None:
        try:
            BUDGET.own.begin()
            _layers(tree, frame, layer, options)
        except TooLong:
            tree.add(Line(TOO_LONG, theme.STATUS["malformed"]))
        finally:
            BUDGET.own.end()
    elif frame.data:
        tree.add(_undecoded_text(frame.data, options))
    for finding in frame.findings:
        tree.add(_finding(finding))
    return Group(tree, hexdump(frame, layer, options), Text()) if options.hexdump else tree


def _layers(tree: Tree, frame: Frame, layer: Layer, options: TreeOptions) -> None:
    """The branches of the layer and of those inside it."""
    branch = _branch(tree, _head(layer, frame.type or type(layer).__name__))
    record = (frame.layers or {}).get(layer.filter_name, {})
    Fields(options).add(branch, cast("Layer", frame.packet()) if frame.is_partial else layer, record)
    _rest(branch, layer, frame, options)
    for inner in frame.inner:
        _inner(tree, frame, inner, options)
    _links(branch, frame)


def _branch(tree: Tree, label: RenderableType) -> Tree:
    tree.children.append(branch := BoundedTree(label, guide_style=tree.guide_style))
    return branch


def _head(layer: Layer, name: str) -> Line:
    line = Line(f"{layer.filter_name} {name}", theme.HEAD)
    line.name = layer.filter_name
    return line


def _inner(tree: Tree, frame: Frame, inner: Inner, options: TreeOptions) -> None:
    """A layer inside the frame: in place, or put together first, and then its ranges are its own."""
    if inner.start is None:
        layer = inner.layer(inner.data)
        note = f"  {len(inner.data)} bytes put together first; ranges count from their start"
    else:
        layer = inner.layer.within(frame.data, inner.start, inner.start + len(inner.data))
        note = ""
    branch = _branch(tree, _head(layer, type(layer).__name__).append(note, theme.RANGE))
    fields = Fields(options, in_frame=inner.start is not None)
    fields.add(branch, layer, (frame.layers or {}).get(layer.filter_name, {}))


# The lines around the layer.


def _title(frame: Frame, when: str) -> Line:
    ends, side = frame.connection.named_endpoints, frame.side
    roles = ("client ", "server ") if frame.sender == "client" else ("server ", "client ") if frame.sender else ("", "")
    text = Line()
    text.append(f"Frame {frame.number}  {when}  #{frame.connection.number}  ", theme.HEAD)
    text.append(f"{roles[0]}{ends[side]} → {roles[1]}{ends[1 - side]}  ")
    text.append(frame.shown_type, theme.HEAD)
    text.append(SummaryLines().facts(frame), theme.VALUE)
    if frame.status != OK:
        text.append(f"  {frame.status}", theme.STATUS[frame.status])
    if frame.latency_ns is not None:
        text.append(f"  {frame.latency_ns / 1e6:.3f} ms", theme.GENERATED)
    return text


def _position(frame: Frame) -> Line:
    """Where the frame lies: packets, connection, stream offset."""
    numbers = ", ".join(map(str, frame.packets[: theme.SHOWN_ELEMENTS]))
    more = f" and {len(frame.packets) - theme.SHOWN_ELEMENTS} more" if len(frame.packets) > theme.SHOWN_ELEMENTS else ""
    packets = f"packet{'s' if len(frame.packets) > 1 else ''} {numbers}{more}"
    name = label(frame.connection)
    connection = f"connection #{frame.connection.number}{f' ({escape(name)})' if name else ''}"
    text = f"{packets}, {connection}, stream offset {frame.offset}, {frame.length} bytes"
    if frame.missing:
        text += f" of which {frame.missing} were not captured"
    return Line(f"{text}, {rfc3339(frame.time_ns)}", "dim")


def _links(branch: Tree, frame: Frame) -> None:
    latency = None if frame.latency_ns is None else f"{frame.latency_ns / 1e6:.3f} ms"
    for name, value, text in (
        ("request", frame.request, f"[request in frame {frame.request}]"),
        ("response", frame.response, f"[response in frame {frame.response}]"),
        ("latency", latency, f"[latency: {latency}]"),
    ):
        if value is not None:
            branch.add(_generated(name, value, text))


def _generated(name: str, value: Any, text: str) -> Line:
    """A value that derives from other frames."""
    line = Line(text, theme.GENERATED)
    line.name, line.value = name, value
    return line


def _finding(finding: Finding) -> Line:
    text = Line(f"{finding.severity}: ", f"bold {theme.SEVERITY[finding.severity]}")
    text.append(escape(finding.message), theme.SEVERITY[finding.severity])
    where = f" ({finding.group}, {finding.code}{', field ' + finding.field if finding.field else ''})"
    text.append(escape(where), "dim")
    return with_range(text, finding.range)


def _undecoded_text(data: bytes, options: TreeOptions) -> Line:
    if options.secrets:
        line = Line("not decoded: ")
        line.append(bytes_text(data, options), theme.VALUE)
        line.value = Raw(data)
        return line
    line = Line(f"not decoded: {len(data)} bytes")
    line.append("  may hold credentials; --show-secrets shows them", "dim")
    return line


def _rest(branch: Tree, layer: Layer, frame: Frame, options: TreeOptions) -> None:
    """Bytes that belong to no field: a field that is truncated, or more than the declaration says."""
    data, short = frame.data, layer.problem
    reached = layer.stop if short is None else short.start
    line = Line("after the last field:")
    if short is not None:
        line = Line(f"{short.field}: needs {short.needed} bytes, {short.had} are there", theme.STATUS["malformed"])
        line.name = short.field
    elif reached == len(data):
        return
    if reached < len(data):
        hidden = not options.secrets and any(stop == len(data) for _, stop in hidden_ranges(frame, layer))
        line.append(" " if short is None else ": ")
        line.append(redact(data[reached:]) if hidden else bytes_text(data[reached:], options), theme.VALUE)
        line.value = redact(data[reached:]) if hidden else Raw(data[reached:])
    branch.add(with_range(line, (reached, len(data))))


class Fields:
    """Adds the fields of layers to trees.

    The layer gives order, declarations and byte ranges, its record the values to show (secrets hidden, inner messages
    read, values derived from other frames), so that trees cannot show anything else than records.
    """

    def __init__(self, options: TreeOptions, *, in_frame: bool = True) -> None:
        """``in_frame``: ranges count from the beginning of the frame."""
        self.options, self.in_frame = options, in_frame

    def _ranged(self, line: Line, span: Range | None) -> Line:
        return with_range(line, span, in_frame=self.in_frame)

    def add(self, branch: Tree, layer: Layer, record: dict[str, Any]) -> None:
        names = set()
        carried: tuple[bytes, int] | None = None
        for declared in layer.fields_desc:
            kind, name = plain(declared), declared.name
            if name not in record or (name not in layer.fields and name not in layer.defaults):
                continue
            names |= {name, getattr(kind, "code_name", None)}
            if name not in layer.fields:
                default = self._leaf(kind, layer.defaults[name], record[name], None)
                branch.add(default.append("  [default]", theme.GENERATED))
                continue
            value, span = layer.fields[name], layer.ranges.get(name)
            if isinstance(kind, Struct) and value is not None:
                text = field_line(name, kind.doc, kind.doc, "dim")
                self.add(branch.add(self._ranged(text, span)), value, record.get(name) or {})
            elif isinstance(kind, Array) and value is not None:
                self._array(branch, kind, value, record.get(name) or [], span)
            elif isinstance(kind, Binary) and isinstance(record.get(name), list | dict):
                inside = kind.spans(value, span[1] - len(value)) if isinstance(kind, Map) and span is not None else {}
                self._add_decoded(branch, name, record[name], {"": span} | inside)
            else:
                branch.add(self._leaf(kind, value, record.get(name), span))
            if isinstance(kind, Binary) and isinstance(value, bytes) and span is not None:
                shown = record.get(name)  # without credentials
                carried = shown.raw if isinstance(shown, Raw) else value, span[1] - len(value)
        self.extras(branch, {key: value for key, value in record.items() if key not in names}, carried)

    def _add_decoded(
        self, branch: Tree, name: str, value: Any, spans: Mapping[str, Range | None] = NO_SPANS, path: str = ""
    ) -> None:
        """Contents of a bytes field at a path in it; of maps ``spans`` has the bytes."""
        limit, size = self.options.limit(theme.SHOWN_ELEMENTS), len(value) if isinstance(value, list) else 0
        if not isinstance(value, dict) and not (size and any(isinstance(each, dict) for each in value)):
            line = field_line(name, value, value_text(value, self.options))
            branch.add(self._ranged(_named(line, name), spans.get(path)))
            return
        line = _named(Line(f"{escape(name)}: {counted(size, 'element')}" if size else escape(name)), name)
        node = branch.add(self._ranged(line, spans.get(path)))
        inside = [(f"[{number}]", each) for number, each in enumerate(value[:limit])] if size else value.items()
        for key, each in inside:
            self._add_decoded(node, key, each, spans, f"{path}{'' if size or not path else '.'}{key}")
        add_more(node, size, self.options)

    def _leaf(self, kind: Kind, value: Any, shown: Any, span: Range | None) -> Line:
        if kind.secret and isinstance(shown, str) and not isinstance(shown, Raw):
            text = shown
        elif isinstance(kind, Number):
            shown = kind.readable(value)
            text = escape(shown)
        else:
            text = value_text(shown, self.options)
        return self._ranged(field_line(kind.name, shown, text), span)

    def _array(self, branch: Tree, kind: Array, values: list[Any], shown: list[Any], span: Range | None) -> None:
        count = counted(len(values), "element")
        limit = self.options.limit(theme.SHOWN_ELEMENTS)
        if isinstance(kind.element, Struct):
            node = branch.add(self._ranged(field_line(kind.name, count, count), span))
            for index, (value, record) in enumerate(zip(values[:limit], shown[:limit], strict=False)):
                self._element(node, index, value, record)
        else:
            listed = ", ".join(value_text(value, self.options) for value in shown[:limit])
            text = field_line(kind.name, shown, f"[{listed}]")
            text.append(f"  {count}", "dim")
            node = branch.add(self._ranged(text, span))
        add_more(node, len(values), self.options)

    def _element(self, node: Tree, index: int, layer: Layer, record: Any) -> None:
        """An element on one line, if it is small and plain."""
        if not isinstance(record, dict):  # the record shows it as one value
            span = layer.start, layer.stop
            node.add(self._ranged(_element_line(index, record, self.options), span))
            return
        kinds = [plain(kind) for kind in layer.fields_desc if kind.name in layer.fields]
        simple = not any(isinstance(kind, Struct | Array | Binary) for kind in kinds)
        if simple and len(kinds) <= INLINE_FIELDS:
            line = Line(f"[{index}] ")
            for kind in kinds:
                name = kind.name
                leaf = self._leaf(kind, layer.fields[name], record.get(name), layer.ranges.get(name))
                line.append(leaf).append("  ")
                if not line.name:
                    line.name, line.value = leaf.name, leaf.value
            line.rstrip()
            if len(line) <= INLINE_CHARACTERS:
                line.span = (layer.start, layer.stop) if self.in_frame else None
                node.add(line)
                return
        self.add(node.add(self._ranged(Line(f"[{index}]"), (layer.start, layer.stop))), layer, record)

    # Contents of a record besides the declared fields.

    def extras(self, branch: Tree, extras: dict[str, Any], carried: tuple[bytes, int] | None) -> None:
        """Contents of a bytes field (``carried``: they and their start in the frame), and generated values."""
        for key, value in extras.items():
            if key == "amqp" and carried is not None:
                Sections(*carried, self.options, self.in_frame).add(branch)
            elif key == "problem":
                branch.add(Line(escape(str(value)), theme.SEVERITY["warning"]))
            elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
                self._add_carried(branch, key, value)
            else:
                branch.add(_generated(key, value, f"[{escape(key)}: {bare_text(value, self.options)}]"))

    def _add_carried(self, branch: Tree, name: str, values: list[Any]) -> None:
        """Messages that were inside a field, compressed: their ranges count from the start of each message."""
        count = f"{len(values)} elements"
        text = field_line(name, count, count)
        node = branch.add(text.append("  put together; ranges count from the start of each", theme.RANGE))
        inside = Fields(self.options, in_frame=False)
        for index, entry in enumerate(values[: self.options.limit(theme.SHOWN_ELEMENTS)]):
            if not isinstance(entry, dict):
                node.add(_element_line(index, entry, self.options))
                continue
            raws = {key: value for key, value in entry.items() if isinstance(value, Raw)}
            element = node.add(Line(f"[{index}]"))
            for key, raw in raws.items():
                element.add(field_line(key, raw, value_text(raw, self.options)))
            carried = next(((raw.raw, 0) for raw in raws.values()), None)
            inside.extras(element, {key: value for key, value in entry.items() if key not in raws}, carried)
        add_more(node, len(values), self.options)


def _named(line: Line, name: str) -> Line:
    """The line of a field, or of an element, whose name is its index."""
    line.name = "" if name.startswith("[") else name
    return line


def _element_line(index: int, value: Any, options: TreeOptions) -> Line:
    """The line of an element that is one value."""
    line = Line(f"[{index}] ")
    line.append(value_text(value, options), theme.VALUE)
    line.value = value
    return line


# AMQP 1.0 messages.


@dataclass
class Sections:
    """Adds the sections of the message ``data`` to a tree; ``base``: where it starts, ``in_frame`` or in another."""

    data: bytes
    base: int
    options: TreeOptions
    in_frame: bool

    def add(self, branch: Tree) -> None:
        for section in message(self.data) or ():
            body = section.children[1]
            line = self._line(f"amqp {section.name}", body, theme.HEAD)
            line.name = f"amqp.{section.name}"
            where = f"  section @{self.base + section.start}:{self.base + section.end}"
            self._items(branch.add(line.append(where, theme.RANGE)), body)

    def _line(self, name: str, node: AmqpNode, style: str = "") -> Line:
        text = _named(Line(), name)
        text.append(escape(name), style).append(": ")
        if self.in_frame:
            text.span = self.base + node.start, self.base + node.end
        if node.is_scalar:
            text.value = plain_value(node, Raw)
            text.append(value_text(text.value, self.options), theme.VALUE)
        elif node.constructor.category is not Category.DESCRIBED:
            text.append(f"{len(_items(node))} items")
        text.append(f"  {node.encoding}  @{self.base + node.start}:{self.base + node.end}", theme.RANGE)
        return text

    def _items(self, tree: Tree, node: AmqpNode) -> None:
        items = _items(node)
        most = self.options.limit(theme.SHOWN_ELEMENTS)
        for name, item in items[:most]:
            self._items(tree.add(self._line(name, item)), item)
        add_more(tree, len(items), self.options)


def _items(node: AmqpNode) -> list[tuple[str, AmqpNode]]:
    """The named values inside a compound one."""
    category, nodes = node.constructor.category, node.children
    if category in (Category.MAP, Category.ARRAY):
        nodes = nodes[1::2] if category is Category.MAP else nodes[1:]
    elif category is not Category.DESCRIBED:
        nodes = [each for each in nodes if each.code != NULL or each.name.startswith("[")]
    return [(each.name, each) for each in nodes]
