"""From the tree of a filter to its predicate: names looked up, types checked, constants folded."""

from __future__ import annotations

from wiredecode.filter.compare import Comparisons
from wiredecode.filter.logic import Expression, about, join, negation
from wiredecode.filter.model import Constant
from wiredecode.filter.names import Names
from wiredecode.filter.operands import Operands
from wiredecode.filter.predicate import Filter
from wiredecode.filter.syntax import Logic, Membership, Node, Not, Relation


def meaning(text: str, node: Node, secrets: bool, *, utc: bool) -> Filter:
    """The filter that a tree means. Raises :class:`~wiredecode.filter.errors.FilterError`."""
    names = Names(secrets=secrets)
    return Filter(text, _expression(node, Comparisons(Operands(text, names, secrets, utc=utc))), names.clock)


def _expression(node: Node, comparisons: Comparisons) -> Expression:
    """The logic of a tree; comparisons are made by :class:`Comparisons`."""
    if isinstance(node, Logic):
        return join(node.operator, [_expression(part, comparisons) for part in node.parts])
    if isinstance(node, Not):
        return negation(_expression(node.part, comparisons))
    used = comparisons.operands.used
    used.clear()
    found = _comparison(node, comparisons)
    return about(used, found)


def _comparison(node: Node, comparisons: Comparisons) -> Expression:
    if isinstance(node, Relation):
        return comparisons.relation(node)
    if isinstance(node, Membership):
        return comparisons.membership(node)
    operand = comparisons.operands.make(node, presence=True)
    if isinstance(operand, Constant):
        raise comparisons.fail("a value alone is neither true nor false: compare it with a field", node)
    return comparisons.present(operand, node)
