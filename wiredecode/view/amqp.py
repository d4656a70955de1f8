"""The sections of an AMQP 1.0 message as branches of a tree: types, values, byte ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.text import Text
from rich.tree import Tree

from wiredecode.amqp import Node, message, plain
from wiredecode.amqp.constructors import Category
from wiredecode.view import look as looks
from wiredecode.view.escape import escape

NULL = 0x40
"""Constructor of null: an optional field that was left out."""

Shown = Callable[[Any], str]


def add_sections(branch: Tree, data: bytes, base: int, value: Shown, wrap: Callable[[bytes], str], most: int | None) -> None:
    """Add a branch per section of the message ``data``, which starts at byte ``base`` of the frame.

    ``wrap`` and ``value`` show bytes and values; ``most`` items of a list, map or array are shown.
    """
    for section in message(data) or ():
        body = section.children[1]
        line = _line(f"amqp {section.name}", body, base, value, wrap, looks.HEAD)
        node = branch.add(line.append(f"  section @{base + section.start}:{base + section.end}", looks.RANGE))
        _add_items(node, body, base, value, wrap, most)


def _line(name: str, node: Node, base: int, value: Shown, wrap: Callable[[bytes], str], style: str = "") -> Text:
    text = Text().append(escape(name), style).append(": ")
    if node.is_scalar:
        text.append(value(plain(node, wrap)), looks.VALUE)
    else:
        text.append(f"{len(_items(node))} items" if node.constructor.category is not Category.DESCRIBED else "described")
    return text.append(f"  {node.encoding}  @{base + node.start}:{base + node.end}", looks.RANGE)


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


def _add_items(tree: Tree, node: Node, base: int, value: Shown, wrap: Callable[[bytes], str], most: int | None) -> None:
    items = _items(node)
    for name, item in items[:most]:
        inner = tree.add(_line(name, item, base, value, wrap))
        _add_items(inner, item, base, value, wrap, most)
    if most is not None and len(items) > most:
        tree.add(Text(f"... {len(items) - most:,} more (--full shows all)", "dim"))
