"""A frame as a rich tree: its Scapy layer field by field, and what other frames tell about it."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from wiredecode.export.records import BYTES, rfc3339
from wiredecode.fields import Array, Binary, Kind, Number, Struct, plain
from wiredecode.frame import OK, Finding, Frame
from wiredecode.layer import Layer
from wiredecode.view import amqp
from wiredecode.view import look as looks
from wiredecode.view.escape import escape, shorten
from wiredecode.view.hexdump import hexdump
from wiredecode.view.look import Look
from wiredecode.view.summary import SummaryLines

INLINE_FIELDS = 4
INLINE_CHARACTERS = 90
"""An element with so few plain fields stands on one line."""


class Raw(str):
    """Bytes in a record, kept as they are: use as ``Style.show`` for the frames that become trees."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> Raw:
        self = super().__new__(cls, "bytes")
        self.raw = raw
        return self


def frame_tree(frame: Frame, first_ns: int = 0, look: Look = Look()) -> RenderableType:
    """The tree of a frame that was dissected with ``Style(Raw)``; ``first_ns``: when the capture began."""
    tree = Tree(_title(frame, first_ns), guide_style="dim")
    tree.add(_place(frame))
    layer = _dissect(frame)
    if layer is not None:
        branch = tree.add(Text(f"{layer.filter_name} {frame.type or type(layer).__name__}", looks.HEAD))
        record = (frame.layers or {}).get(layer.filter_name, {})
        Fields(look).add(branch, layer, record)
        _rest(branch, layer, frame, look)
        _links(branch, frame)
    elif frame.data:
        text = Text(f"{len(frame.data)} bytes, not decoded: ")
        tree.add(text.append(_bytes(frame.data, look), looks.VALUE))
    for finding in frame.findings:
        tree.add(_finding(finding))
    return Group(tree, hexdump(frame, layer, look), Text()) if look.hexdump else tree


def _dissect(frame: Frame) -> Layer | None:
    return frame.layer(frame.data) if frame.layer is not None else None


# The lines around the layer.


def _title(frame: Frame, first_ns: int) -> Text:
    ends, side = frame.connection.endpoints, frame.side
    roles = ("client ", "server ") if frame.sender == "client" else ("server ", "client ") if frame.sender else ("", "")
    text = Text()
    text.append(f"Frame {frame.number}  {(frame.time_ns - first_ns) / 1e9:.6f} s  ", looks.HEAD)
    text.append(f"{roles[0]}{ends[side]} → {roles[1]}{ends[1 - side]}  ")
    text.append(frame.type or frame.status, looks.HEAD)
    text.append(SummaryLines().facts(frame), looks.VALUE)
    if frame.status != OK:
        text.append(f"  {frame.status}", looks.STATUS[frame.status])
    if frame.latency_ns is not None:
        text.append(f"  {_milliseconds(frame.latency_ns)}", looks.GENERATED)
    return text


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.3f} ms"


def _place(frame: Frame) -> Text:
    """Where the frame lies: packets, connection, stream offset."""
    numbers = ", ".join(map(str, frame.packets[: looks.SHOWN_ELEMENTS]))
    more = f" and {len(frame.packets) - looks.SHOWN_ELEMENTS} more" if len(frame.packets) > looks.SHOWN_ELEMENTS else ""
    packets = f"packet{'s' if len(frame.packets) > 1 else ''} {numbers}{more}"
    text = f"{packets}, connection {frame.connection.number}, stream offset {frame.offset}, {frame.length} bytes"
    if frame.missing:
        text += f" of which {frame.missing} were not captured"
    return Text(f"{text}, {rfc3339(frame.time_ns)}", "dim")


def _links(branch: Tree, frame: Frame) -> None:
    for text in (
        frame.request is not None and f"[request in frame {frame.request}]",
        frame.response is not None and f"[response in frame {frame.response}]",
        frame.latency_ns is not None and f"[latency: {_milliseconds(frame.latency_ns)}]",
    ):
        if text:
            branch.add(Text(text, looks.GENERATED))


def _finding(finding: Finding) -> Text:
    text = Text(f"{finding.severity}: ", f"bold {looks.SEVERITY[finding.severity]}")
    text.append(escape(finding.message), looks.SEVERITY[finding.severity])
    where = f" ({finding.group}, {finding.code}{', field ' + finding.field if finding.field else ''})"
    return _ranged(text.append(escape(where), "dim"), finding.range)


def _rest(branch: Tree, layer: Layer, frame: Frame, look: Look) -> None:
    """Bytes that belong to no field: a field that is cut, or more than the declaration says."""
    data = frame.data
    reached = max((stop for _, stop in layer.ranges.values()), default=0)
    if layer.problem is not None:
        short = layer.problem
        text = f"{short.field}: needs {short.needed} bytes, {short.had} are there"
        branch.add(_ranged(Text(text, looks.STATUS["malformed"]), (short.start, len(data))))
    elif reached < len(data):
        text = Text("after the last field: ").append(_bytes(data[reached:], look), looks.VALUE)
        branch.add(_ranged(text, (reached, len(data))))


def _ranged(text: Text, span: tuple[int, int] | None) -> Text:
    return text if span is None else text.append(f"  @{span[0]}:{span[1]}", looks.RANGE)


# Values.


def _bytes(data: bytes, look: Look) -> str:
    """Bytes in the chosen form; in hex also as text, where it is text."""
    limit = look.limit(looks.SHOWN_BYTES)
    shown = data[:limit] if look.bytes in ("hex", "base64", "text") else data
    text = escape(BYTES[look.bytes](shown))
    if look.bytes == "length":
        return text
    if look.bytes == "hex" and (words := _words(shown)):
        text += f' "{words}"'
    return f"{text}{'…' if len(shown) < len(data) else ''} ({len(data)} bytes)"


def _words(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def _string(value: str, look: Look) -> str:
    limit = look.limit(looks.SHOWN_CHARACTERS)
    shown = value if limit is None else shorten(value, limit)
    return f'"{escape(shown)}"' + (f" ({len(value)} characters)" if len(shown) < len(value) else "")


def value_text(value: Any, look: Look) -> str:
    """A value of a record."""
    if isinstance(value, Raw):
        return _bytes(value.raw, look)
    if isinstance(value, str):
        return _string(value, look)
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else escape(str(value))


class Fields:
    """Adds the fields of layers to trees.

    The layer gives order, declarations and byte ranges, its record the values to show (secrets hidden, inner messages
    read, what other frames tell), so that trees cannot show anything else than records.
    """

    def __init__(self, look: Look) -> None:
        self.look = look

    def add(self, branch: Tree, layer: Layer, record: dict[str, Any]) -> None:
        known = set()
        carried: tuple[bytes, int] | None = None
        for declared in layer.fields_desc:
            kind, name = plain(declared), declared.name
            known |= {name, getattr(kind, "code_name", None)}
            if name not in layer.fields:
                continue
            value, span = layer.fields[name], layer.ranges.get(name)
            if isinstance(kind, Struct):
                text = Text(f"{name}: ").append(kind.doc, "dim")
                self.add(branch.add(_ranged(text, span)), value, record.get(name) or {})
            elif isinstance(kind, Array):
                self._array(branch, kind, value, record.get(name) or [], span)
            else:
                branch.add(self._leaf(kind, value, record.get(name), span))
            if isinstance(kind, Binary) and isinstance(value, bytes) and span is not None:
                carried = value, span[1] - len(value)
        self.extras(branch, {key: value for key, value in record.items() if key not in known}, carried)

    def _leaf(self, kind: Kind, value: Any, shown: Any, span: tuple[int, int] | None) -> Text:
        text = Text(f"{kind.name}: ")
        if kind.secret and isinstance(shown, str) and not isinstance(shown, Raw):
            text.append(shown, looks.VALUE)
        elif isinstance(kind, Number):
            text.append(escape(kind.i2repr(None, value)), looks.VALUE)
        else:
            text.append(value_text(shown, self.look), looks.VALUE)
        return _ranged(text, span)

    def _array(self, branch: Tree, kind: Array, values: list[Any], shown: list[Any], span: Any) -> None:
        text = Text(f"{kind.name}: ").append(f"{len(values)} element{'' if len(values) == 1 else 's'}", looks.VALUE)
        limit = self.look.limit(looks.SHOWN_ELEMENTS)
        if not isinstance(kind.element, Struct):
            listed = ", ".join(value_text(value, self.look) for value in shown[:limit])
            text.append(f": {listed}" if listed else "", looks.VALUE)
            node = branch.add(_ranged(text, span))
        else:
            node = branch.add(_ranged(text, span))
            for index, (value, record) in enumerate(zip(values[:limit], shown[:limit], strict=False)):
                self._element(node, index, value, record)
        self._more(node, len(values))

    def _more(self, node: Tree, count: int) -> None:
        limit = self.look.limit(looks.SHOWN_ELEMENTS)
        if limit is not None and count > limit:
            node.add(Text(f"... {count - limit:,} more (--full shows all)", "dim"))

    def _element(self, node: Tree, index: int, layer: Layer, record: dict[str, Any]) -> None:
        """An element on one line, if it is small and plain."""
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
        self.add(node.add(_ranged(Text(f"[{index}]"), (layer.start, layer.stop))), layer, record)

    # What a record holds besides the declared fields.

    def extras(self, branch: Tree, extras: dict[str, Any], carried: tuple[bytes, int] | None) -> None:
        """What a bytes field carries (``carried``: it and where it starts in the frame), and generated values."""
        for key, value in extras.items():
            if key == "amqp" and carried is not None:
                most = self.look.limit(looks.SHOWN_ELEMENTS)
                amqp.add_sections(branch, *carried, lambda shown: value_text(shown, self.look), Raw, most)
            elif key == "problem":
                branch.add(Text(escape(str(value)), looks.SEVERITY["warning"]))
            elif isinstance(value, list):
                self._carried(branch, key, value)
            else:
                branch.add(Text(f"[{key}: {_bare(value, self.look)}]", looks.GENERATED))

    def _carried(self, branch: Tree, name: str, values: list[Any]) -> None:
        """Messages that were inside a field, compressed: their ranges count from the start of each message."""
        node = branch.add(Text(f"{name}: ").append(f"{len(values)} elements", looks.VALUE).append("  decompressed", "dim"))
        for index, entry in enumerate(values[: self.look.limit(looks.SHOWN_ELEMENTS)]):
            if not isinstance(entry, dict):
                node.add(Text(f"[{index}] ").append(value_text(entry, self.look), looks.VALUE))
                continue
            raws = {key: value for key, value in entry.items() if isinstance(value, Raw)}
            element = node.add(Text(f"[{index}]"))
            for key, raw in raws.items():
                element.add(Text(f"{key}: ").append(value_text(raw, self.look), looks.VALUE))
            carried = next(((raw.raw, 0) for raw in raws.values()), None)
            self.extras(element, {key: value for key, value in entry.items() if key not in raws}, carried)
        self._more(node, len(values))


def _bare(value: Any, look: Look) -> str:
    """A generated value: text without quotes."""
    return escape(value) if isinstance(value, str) and not isinstance(value, Raw) else value_text(value, look)
