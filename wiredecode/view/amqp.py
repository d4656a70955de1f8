"""The sections of an AMQP 1.0 message as branches of a tree: types, values, byte ranges."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from rich.tree import Tree

from wiredecode.frames.escape import escape
from wiredecode.protocols.shared.amqp import Node, message, plain
from wiredecode.protocols.shared.amqp.constructors import Category
from wiredecode.view import theme
from wiredecode.view.theme import TreeOptions
from wiredecode.view.values import Raw, add_more, value_text

NULL = 0x40
"""Constructor of null: an optional field that was left out."""


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

    def _line(self, name: str, node: Node, style: str = "") -> Text:
        text = Text().append(escape(name), style).append(": ")
        if node.is_scalar:
            text.append(value_text(plain(node, Raw), self.options), theme.VALUE)
        elif node.constructor.category is not Category.DESCRIBED:
            text.append(f"{len(_items(node))} items")
        return text.append(f"  {node.encoding}  @{self.base + node.start}:{self.base + node.end}", theme.RANGE)

    def _items(self, tree: Tree, node: Node) -> None:
        items = _items(node)
        most = self.options.limit(theme.SHOWN_ELEMENTS)
        for name, item in items[:most]:
            self._items(tree.add(self._line(name, item)), item)
        add_more(tree, len(items), self.options)


def _items(node: Node) -> list[tuple[str, Node]]:
    """The named values inside a compound one."""
    match node.constructor.category:
        case Category.MAP:
            return [(value.name, value) for value in node.children[1::2]]
        case Category.ARRAY:
            return [(element.name, element) for element in node.children[1:]]
        case Category.DESCRIBED:
            return [(child.name, child) for child in node.children]
    return [(child.name, child) for child in node.children if child.code != NULL or child.name.startswith("[")]
