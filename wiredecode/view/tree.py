"""A frame as a rich tree: its Scapy layer field by field, and values derived from other frames."""

from typing import Any, cast

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from wiredecode.dataclasses import dataclass
from wiredecode.fields import Array, Binary, Kind, Number, Struct, plain, redact
from wiredecode.fields.layer import Layer, Range
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
from wiredecode.view.values import Raw, add_more, bare_text, bytes_text, value_text, with_range

INLINE_FIELDS = 4
INLINE_CHARACTERS = 90
"""An element with at most this many characters of plain fields is on one line."""
NULL = 0x40
"""Constructor of null in AMQP: an optional field that was left out."""


def frame_tree(frame: Frame, options: TreeOptions = DEFAULT, style: str = "") -> RenderableType:
    """Tree of a frame dissected with ``Style(Raw)``. ``style``: of its first line."""
    title = _title(frame, options.times.label(frame.time_ns, frame.connection.capture_ns))
    title.stylize(style)
    tree = Tree(title, guide_style="dim")
    tree.add(_position(frame))
    layer = frame.layer(frame.data) if frame.layer is not None else None
    if layer is not None:
        branch = tree.add(Text(f"{layer.filter_name} {frame.type or type(layer).__name__}", theme.HEAD))
        record = (frame.layers or {}).get(layer.filter_name, {})
        Fields(options).add(branch, cast("Layer", frame.packet()) if frame.is_partial else layer, record)
        _rest(branch, layer, frame, options)
        for inner in frame.inner:
            _inner(tree, frame, inner, options)
        _links(branch, frame)
    elif frame.data:
        tree.add(_undecoded_text(frame.data, options))
    for finding in frame.findings:
        tree.add(_finding(finding))
    return Group(tree, hexdump(frame, layer, options), Text()) if options.hexdump else tree


def _inner(tree: Tree, frame: Frame, inner: Inner, options: TreeOptions) -> None:
    """A layer inside the frame: in place, or put together first, and then its ranges are its own."""
    if inner.start is None:
        layer = inner.layer(inner.data)
        note = f"  {len(inner.data)} bytes put together first; ranges count from their start"
    else:
        layer = inner.layer.within(frame.data, inner.start, inner.start + len(inner.data))
        note = ""
    head = Text(f"{layer.filter_name} {type(layer).__name__}", theme.HEAD).append(note, theme.RANGE)
    Fields(options).add(tree.add(head), layer, (frame.layers or {}).get(layer.filter_name, {}))


# The lines around the layer.


def _title(frame: Frame, when: str) -> Text:
    ends, side = frame.connection.named_endpoints, frame.side
    roles = ("client ", "server ") if frame.sender == "client" else ("server ", "client ") if frame.sender else ("", "")
    text = Text()
    text.append(f"Frame {frame.number}  {when}  #{frame.connection.number}  ", theme.HEAD)
    text.append(f"{roles[0]}{ends[side]} → {roles[1]}{ends[1 - side]}  ")
    text.append(frame.shown_type, theme.HEAD)
    text.append(SummaryLines().facts(frame), theme.VALUE)
    if frame.status != OK:
        text.append(f"  {frame.status}", theme.STATUS[frame.status])
    if frame.latency_ns is not None:
        text.append(f"  {frame.latency_ns / 1e6:.3f} ms", theme.GENERATED)
    return text


def _position(frame: Frame) -> Text:
    """Where the frame lies: packets, connection, stream offset."""
    numbers = ", ".join(map(str, frame.packets[: theme.SHOWN_ELEMENTS]))
    more = f" and {len(frame.packets) - theme.SHOWN_ELEMENTS} more" if len(frame.packets) > theme.SHOWN_ELEMENTS else ""
    packets = f"packet{'s' if len(frame.packets) > 1 else ''} {numbers}{more}"
    name = label(frame.connection)
    connection = f"connection #{frame.connection.number}{f' ({escape(name)})' if name else ''}"
    text = f"{packets}, {connection}, stream offset {frame.offset}, {frame.length} bytes"
    if frame.missing:
        text += f" of which {frame.missing} were not captured"
    return Text(f"{text}, {rfc3339(frame.time_ns)}", "dim")


def _links(branch: Tree, frame: Frame) -> None:
    for text in (
        frame.request is not None and f"[request in frame {frame.request}]",
        frame.response is not None and f"[response in frame {frame.response}]",
        frame.latency_ns is not None and f"[latency: {frame.latency_ns / 1e6:.3f} ms]",
    ):
        if text:
            branch.add(Text(text, theme.GENERATED))


def _finding(finding: Finding) -> Text:
    text = Text(f"{finding.severity}: ", f"bold {theme.SEVERITY[finding.severity]}")
    text.append(escape(finding.message), theme.SEVERITY[finding.severity])
    where = f" ({finding.group}, {finding.code}{', field ' + finding.field if finding.field else ''})"
    return with_range(text.append(escape(where), "dim"), finding.range)


def _undecoded_text(data: bytes, options: TreeOptions) -> Text:
    if options.secrets:
        return Text("not decoded: ").append(bytes_text(data, options), theme.VALUE)
    return Text(f"not decoded: {len(data)} bytes").append("  may hold credentials; --show-secrets shows them", "dim")


def _rest(branch: Tree, layer: Layer, frame: Frame, options: TreeOptions) -> None:
    """Bytes that belong to no field: a field that is truncated, or more than the declaration says."""
    data, short = frame.data, layer.problem
    reached = layer.stop if short is None else short.start
    line = Text("after the last field:")
    if short is not None:
        line = Text(f"{short.field}: needs {short.needed} bytes, {short.had} are there", theme.STATUS["malformed"])
    elif reached == len(data):
        return
    if reached < len(data):
        hidden = not options.secrets and any(stop == len(data) for _, stop in hidden_ranges(frame, layer))
        line.append(" " if short is None else ": ")
        line.append(redact(data[reached:]) if hidden else bytes_text(data[reached:], options), theme.VALUE)
    branch.add(with_range(line, (reached, len(data))))


class Fields:
    """Adds the fields of layers to trees.

    The layer gives order, declarations and byte ranges, its record the values to show (secrets hidden, inner messages
    read, values derived from other frames), so that trees cannot show anything else than records.
    """

    def __init__(self, options: TreeOptions) -> None:
        self.options = options

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
                text = Text(f"{name}: ").append(kind.doc, "dim")
                self.add(branch.add(with_range(text, span)), value, record.get(name) or {})
            elif isinstance(kind, Array) and value is not None:
                self._array(branch, kind, value, record.get(name) or [], span)
            elif isinstance(kind, Binary) and isinstance(record.get(name), list | dict):
                self._add_decoded(branch, name, record[name], span)
            else:
                branch.add(self._leaf(kind, value, record.get(name), span))
            if isinstance(kind, Binary) and isinstance(value, bytes) and span is not None:
                shown = record.get(name)  # without credentials
                carried = shown.raw if isinstance(shown, Raw) else value, span[1] - len(value)
        self.extras(branch, {key: value for key, value in record.items() if key not in names}, carried)

    def _add_decoded(self, branch: Tree, name: str, value: Any, span: Range | None = None) -> None:
        """Contents of a bytes field, which have no ranges."""
        limit, size = self.options.limit(theme.SHOWN_ELEMENTS), len(value) if isinstance(value, list) else 0
        if not isinstance(value, dict) and not (size and any(isinstance(each, dict) for each in value)):
            text = Text(f"{escape(name)}: ").append(value_text(value, self.options), theme.VALUE)
            branch.add(with_range(text, span))
            return
        node = branch.add(
            with_range(Text(f"{escape(name)}: {counted(size, 'element')}" if size else escape(name)), span)
        )
        inside = [(f"[{number}]", each) for number, each in enumerate(value[:limit])] if size else value.items()
        for key, each in inside:
            self._add_decoded(node, key, each)
        add_more(node, size, self.options)

    def _leaf(self, kind: Kind, value: Any, shown: Any, span: tuple[int, int] | None) -> Text:
        text = Text(f"{kind.name}: ")
        if kind.secret and isinstance(shown, str) and not isinstance(shown, Raw):
            text.append(shown, theme.VALUE)
        elif isinstance(kind, Number):
            text.append(escape(kind.readable(value)), theme.VALUE)
        else:
            text.append(value_text(shown, self.options), theme.VALUE)
        return with_range(text, span)

    def _array(self, branch: Tree, kind: Array, values: list[Any], shown: list[Any], span: Range | None) -> None:
        count = counted(len(values), "element")
        limit = self.options.limit(theme.SHOWN_ELEMENTS)
        text = Text(f"{kind.name}: ")
        if isinstance(kind.element, Struct):
            node = branch.add(with_range(text.append(count, theme.VALUE), span))
            for index, (value, record) in enumerate(zip(values[:limit], shown[:limit], strict=False)):
                self._element(node, index, value, record)
        else:
            listed = ", ".join(value_text(value, self.options) for value in shown[:limit])
            text.append(f"[{listed}]", theme.VALUE).append(f"  {count}", "dim")
            node = branch.add(with_range(text, span))
        add_more(node, len(values), self.options)

    def _element(self, node: Tree, index: int, layer: Layer, record: Any) -> None:
        """An element on one line, if it is small and plain."""
        if not isinstance(record, dict):  # the record shows it as one value
            span = layer.start, layer.stop
            node.add(with_range(Text(f"[{index}] ").append(value_text(record, self.options), theme.VALUE), span))
            return
        kinds = [plain(kind) for kind in layer.fields_desc if kind.name in layer.fields]
        simple = not any(isinstance(kind, Struct | Array | Binary) for kind in kinds)
        if simple and len(kinds) <= INLINE_FIELDS:
            line = Text(f"[{index}] ")
            for kind in kinds:
                name = kind.name
                line.append(self._leaf(kind, layer.fields[name], record.get(name), layer.ranges.get(name))).append("  ")
            line.rstrip()
            if len(line) <= INLINE_CHARACTERS:
                node.add(line)
                return
        self.add(node.add(with_range(Text(f"[{index}]"), (layer.start, layer.stop))), layer, record)

    # Contents of a record besides the declared fields.

    def extras(self, branch: Tree, extras: dict[str, Any], carried: tuple[bytes, int] | None) -> None:
        """Contents of a bytes field (``carried``: they and their start in the frame), and generated values."""
        for key, value in extras.items():
            if key == "amqp" and carried is not None:
                Sections(*carried, self.options).add(branch)
            elif key == "problem":
                branch.add(Text(escape(str(value)), theme.SEVERITY["warning"]))
            elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
                self._add_carried(branch, key, value)
            else:
                branch.add(Text(f"[{escape(key)}: {bare_text(value, self.options)}]", theme.GENERATED))

    def _add_carried(self, branch: Tree, name: str, values: list[Any]) -> None:
        """Messages that were inside a field, compressed: their ranges count from the start of each message."""
        text = Text(f"{escape(name)}: ").append(f"{len(values)} elements", theme.VALUE)
        node = branch.add(text.append("  put together; ranges count from the start of each", theme.RANGE))
        for index, entry in enumerate(values[: self.options.limit(theme.SHOWN_ELEMENTS)]):
            if not isinstance(entry, dict):
                node.add(Text(f"[{index}] ").append(value_text(entry, self.options), theme.VALUE))
                continue
            raws = {key: value for key, value in entry.items() if isinstance(value, Raw)}
            element = node.add(Text(f"[{index}]"))
            for key, raw in raws.items():
                element.add(Text(f"{escape(key)}: ").append(value_text(raw, self.options), theme.VALUE))
            carried = next(((raw.raw, 0) for raw in raws.values()), None)
            self.extras(element, {key: value for key, value in entry.items() if key not in raws}, carried)
        add_more(node, len(values), self.options)


# AMQP 1.0 messages.


@dataclass
class Sections:
    """Adds the sections of the message ``data``, which starts at byte ``base`` of the frame, to a tree."""

    data: bytes
    base: int
    options: TreeOptions

    def add(self, branch: Tree) -> None:
        for section in message(self.data) or ():
            body = section.children[1]
            line = self._line(f"amqp {section.name}", body, theme.HEAD)
            where = f"  section @{self.base + section.start}:{self.base + section.end}"
            self._items(branch.add(line.append(where, theme.RANGE)), body)

    def _line(self, name: str, node: AmqpNode, style: str = "") -> Text:
        text = Text().append(escape(name), style).append(": ")
        if node.is_scalar:
            text.append(value_text(plain_value(node, Raw), self.options), theme.VALUE)
        elif node.constructor.category is not Category.DESCRIBED:
            text.append(f"{len(_items(node))} items")
        return text.append(f"  {node.encoding}  @{self.base + node.start}:{self.base + node.end}", theme.RANGE)

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
