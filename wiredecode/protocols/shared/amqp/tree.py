"""The tree reader: every section and every value of a message as a node with its byte range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiredecode.protocols.shared.amqp.constructors import (
    CONSTRUCTORS,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_ZERO_WIDTH_ELEMENTS,
    Category,
    Constructor,
    Json,
    NotAmqpError,
    Scalar,
    Show,
    key_text,
)
from wiredecode.protocols.shared.amqp.sections import Section, field_name, next_section


@dataclass(slots=True)
class Node:
    """One value. ``data[start:end]`` are its bytes, constructor included (array elements have none of their
    own).

    ``children``: items of a list; key, value, key, value ... of a map; descriptor and value of a described
    value; constructor and then elements of an array (a constructor that is described has descriptor and
    constructor). Values of maps are named after their key, items of header and properties after their field.
    """

    name: str
    code: int
    value: Scalar = None
    """Of a scalar; None where there are children. Timestamps are integers (ms), uuids and chars text."""
    start: int = 0
    end: int = 0
    children: Sequence[Node] = ()

    @property
    def constructor(self) -> Constructor:
        """The row of ``CONSTRUCTORS`` for the code. ValueError for a code that does not exist."""
        constructor = CONSTRUCTORS[self.code]
        if constructor is None:
            raise ValueError(f"no AMQP constructor {self.code:#04x}")
        return constructor

    @property
    def type(self) -> str:
        """AMQP type, e.g. "ulong"."""
        return self.constructor.type

    @property
    def encoding(self) -> str:
        """The standard's name of the encoding, e.g. "smallulong", "str8-utf8", "map8"."""
        return self.constructor.encoding

    @property
    def is_scalar(self) -> bool:
        """Fixed or variable width: a value and no children."""
        return self.constructor.category in (Category.FIXED, Category.VARIABLE)


def message(
    data: bytes,
    max_depth: int = MAX_DEPTH,
    max_elements: int = MAX_ELEMENTS,
    max_zero_width: int = MAX_ZERO_WIDTH_ELEMENTS,
) -> list[Node] | None:
    """The sections of an AMQP 1.0 message, in order, or None if the bytes are none.

    A section is a described node named after it (header, properties, data, sequence, value ...) whose
    children are descriptor and value.
    """
    try:
        return _Tree(data, max_elements, max_zero_width).sections(max_depth)
    except NotAmqpError:
        return None


class _Tree:
    """Reads one message strictly from left to right; raises NotAmqpError."""

    def __init__(self, data: bytes, max_elements: int, max_zero_width: int) -> None:
        self.data, self.left, self.zero_width_left = data, max_elements, max_zero_width

    def sections(self, depth: int) -> list[Node]:
        size, position = len(self.data), 0
        if not size:
            raise NotAmqpError
        nodes: list[Node] = []
        previous: Section | None = None
        while position < size:
            start = position
            if self.data[start]:
                raise NotAmqpError
            descriptor = self.value("descriptor", start + 1, size, 0)
            if descriptor.type not in ("ulong", "symbol"):
                raise NotAmqpError
            section = previous = next_section(descriptor.value, previous)
            self.count(1)
            value = self.value(section.name, descriptor.end, size, depth, section)
            if value.code not in section.codes:
                raise NotAmqpError
            position = value.end
            nodes.append(Node(section.name, 0, None, start, position, (descriptor, value)))
        return nodes

    def count(self, elements: int) -> None:
        self.left -= elements
        if self.left < 0:
            raise NotAmqpError

    def constructor(self, position: int, end: int) -> Constructor:
        constructor = CONSTRUCTORS[self.data[position]] if position < end else None
        if constructor is None:
            raise NotAmqpError
        return constructor

    def value(self, name: str, position: int, end: int, depth: int, section: Section | None = None) -> Node:
        """The value whose constructor is at the position."""
        node = self.payload(name, self.constructor(position, end), position + 1, end, depth, section)
        node.start = position
        return node

    def payload(
        self, name: str, row: Constructor, position: int, end: int, depth: int, section: Section | None = None
    ) -> Node:
        """The value of that constructor whose payload is at the position."""
        node = Node(name, row.code, None, position)
        if row.category is Category.FIXED:
            return self.scalar(node, row, position, position + row.width, end)
        if row.category is Category.VARIABLE:
            start = position + row.width
            return self.scalar(node, row, start, start + self.number(position, row.width, end), end)
        if depth <= 0:
            raise NotAmqpError
        if row.category is Category.DESCRIBED:
            descriptor = self.value("descriptor", position, end, depth - 1)
            node.children = (descriptor, self.value("value", descriptor.end, end, depth - 1))
            node.end = node.children[1].end
        elif row.width == 0:
            node.end = position
        else:
            self.compound(node, row, position, end, depth, section)
        return node

    def scalar(self, node: Node, row: Constructor, start: int, stop: int, end: int) -> Node:
        if stop > end:
            raise NotAmqpError
        node.value, node.end = row.decode(self.data[start:stop]), stop
        return node

    def number(self, position: int, width: int, end: int) -> int:
        if position + width > end:
            raise NotAmqpError
        return int.from_bytes(self.data[position : position + width], "big")

    def compound(
        self, node: Node, row: Constructor, position: int, end: int, depth: int, section: Section | None
    ) -> None:
        """List, map or array: its size, its count and what is in it must agree to the byte."""
        stop = position + row.width + self.number(position, row.width, end)
        if stop > end:
            raise NotAmqpError
        count = self.number(position + row.width, row.width, stop)
        start = position + 2 * row.width
        self.count(count)
        if row.category is Category.ARRAY:
            node.children = self.elements(count, start, stop, depth)
        elif count > stop - start:
            raise NotAmqpError
        elif row.category is Category.MAP:
            node.children = self.pairs(count, start, stop, depth - 1)
        else:
            node.children = self.items(count, start, stop, depth - 1, section)
        node.end = node.children[-1].end if node.children else start
        if node.end != stop:
            raise NotAmqpError

    def items(self, count: int, position: int, end: int, depth: int, section: Section | None) -> list[Node]:
        named = section if section is not None and section.fields else None
        nodes: list[Node] = []
        for index in range(count):
            name = field_name(named, index) if named else f"[{index}]"
            nodes.append(self.value(name, position, end, depth))
            position = nodes[-1].end
        return nodes

    def pairs(self, count: int, position: int, end: int, depth: int) -> list[Node]:
        if count & 1:
            raise NotAmqpError
        nodes: list[Node] = []
        for _ in range(count >> 1):
            key = self.value("key", position, end, depth)
            encoded = self.data[key.start : key.end]
            name = key_text(plain(key, bytes.hex)) if key.is_scalar else encoded.hex()
            value = self.value(name, key.end, end, depth)
            nodes += (key, value)
            position = value.end
        return nodes

    def elements(self, count: int, position: int, end: int, depth: int) -> list[Node]:
        """The array's constructor, perhaps described, and its bare elements."""
        if position == end and not count:  # some encoders leave out the constructor of an empty array
            return []
        constructor, row, depth = self.element_constructor(position, end, depth)
        position = constructor.end
        if not row.width:
            self.zero_width_left -= count
            if self.zero_width_left < 0:
                raise NotAmqpError
        if count * row.width > end - position:
            raise NotAmqpError
        nodes = [constructor]
        for index in range(count):
            nodes.append(self.payload(f"[{index}]", row, position, end, depth - 1))
            position = nodes[-1].end
        return nodes

    def element_constructor(self, position: int, end: int, depth: int) -> tuple[Node, Constructor, int]:
        """Node of the constructor, its (innermost) row, and the levels left."""
        row = self.constructor(position, end)
        node = Node("constructor", row.code, None, position, position + 1)
        if row.category is Category.DESCRIBED:
            if depth <= 1:
                raise NotAmqpError
            descriptor = self.value("descriptor", position + 1, end, depth - 2)
            inner, row, depth = self.element_constructor(descriptor.end, end, depth - 1)
            node.children, node.end = (descriptor, inner), inner.end
        return node, row, depth


def plain(node: Node, show: Show) -> Json:
    """The value of a scalar as ``record`` gives it."""
    row = node.constructor
    return row.plain(node.value, show) if row.plain else node.value
